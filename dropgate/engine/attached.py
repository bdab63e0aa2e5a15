"""Two servers that run already, anywhere: what they must be for a comparison of the option, or they are refused."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests

from dropgate.engine.server import PROBE_PROMPT, Api
from dropgate.errors import EngineError, InputError, UnmetNeedError
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.metrics import CounterError, difference, parse_snapshot
from dropgate.scenario import Scenario
from dropgate.variants import OPTION, Address, server_names, variant

IDLE_S = 5.0
"""How long counters are watched for traffic that is not the gate's."""
OWN_TO_A_SERVER = re.compile(
    r"served_model_name$|instance_id$|(?:^|[._])port(?:_list)?$|num_(?:gpu|cpu)_blocks$|kv_cache_(?:size|max|memory)_\w+$"
)
"""Resolved settings in which two servers of one command line may differ: names, ports, sizes of free memory."""
PROBE_TOKENS = 8
"""So many are drafted and verified in at least one step."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class AttachedServer(Api):
    """A server that somebody else started and that somebody else will stop."""

    def __init__(self, scenario: Scenario, name: VariantName, url: str) -> None:
        """Ask who it is.

        Raises:
            InputError: the URL is none.
            UnmetNeedError: nothing answers there, or it is no vLLM in development mode.

        """
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.username or parts.path.strip("/") or parts.query:
            raise InputError(f"--{name}-url {url}: http://HOST:PORT is expected")
        self.variant = variant(scenario, name)
        self.deadlines = scenario.deadlines
        self.command = ["attached", url]
        self.address = Address(parts.hostname, parts.port or 80, "")
        try:
            self.address = Address(parts.hostname, parts.port or 80, self._json("/v1/models")["data"][0]["id"])
            self.reported_version = self._json("/version")["version"]
            self.config: dict[str, Any] = self._json("/server_info?config_format=json")["vllm_config"]
        except (EngineError, ValueError, LookupError, TypeError) as error:
            need = "a vLLM that was started with VLLM_SERVER_DEV_MODE=1 must answer there"
            raise UnmetNeedError(f"--{name}-url {url}: {need}: {error}") from None

    def require_alive(self, when: str) -> None:
        """Check that it still answers.

        Raises:
            EngineError: it does not.

        """
        try:
            requests.get(f"{self.url}/health", timeout=10).raise_for_status()
        except requests.RequestException as error:
            raise EngineError(f"{self.variant.name}: no longer healthy {when}: {type(error).__name__}") from None

    def recorded_environment(self) -> dict[str, str]:
        """Return nothing: it was started elsewhere."""
        return {}

    def _json(self, path: str) -> Any:
        return self._get(path).json()

    def probe(self, tokens: int = 1) -> dict[str, Any]:
        """Ask for so many tokens, with every detail that the judge will need.

        Raises:
            UnmetNeedError: there is no answer.

        """
        wanted = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0, "logprobs": 2, "return_token_ids": True}
        body = {"model": self.address.served_name, "prompt": PROBE_PROMPT, **wanted}
        try:
            answer = requests.post(f"{self.url}/v1/completions", json=body, timeout=self.deadlines.probe)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise UnmetNeedError(f"{self.variant.name}: no answer to a short request: {type(error).__name__}") from None
        return found


def attach(
    scenario: Scenario, urls: Mapping[VariantName, str], idle_s: float = IDLE_S
) -> dict[VariantName, AttachedServer]:
    """Return both servers, once they are fit to be compared.

    Raises:
        InputError: they are one server, differ in more than the option, or do not tell what the judge needs; or the
            scenario needs a third one.
        UnmetNeedError: one does not answer, or serves others too.

    """
    if "oracle" in server_names(scenario):
        raise InputError(
            f"{scenario.name}: workloads.gsm8k.oracle asks a third server, without speculation; two URLs give none: "
            "set it to 0, and leave out the promise same_answers"
        )
    servers = {name: AttachedServer(scenario, name, urls[name]) for name in VARIANT_NAMES}
    for name, server in servers.items():
        _require_option(scenario, name, server)
    baseline, candidate = servers.values()
    if odd := different_settings(baseline.config, candidate.config):
        raise InputError(f"the servers differ in more than the option: {'; '.join(odd[:5])}")
    _require_idle(servers, idle_s)
    _require_two(baseline, candidate)
    for server in servers.values():
        _require_details(server, by_step=scenario.workloads.gsm8k is not None)
    return servers


def _require_option(scenario: Scenario, name: VariantName, server: AttachedServer) -> None:
    seen = server.config.get("speculative_config") or {}
    wanted = bool(getattr(scenario.variants, name).get(OPTION, False))
    if OPTION not in seen:
        raise InputError(f"{name}: {server.url} does not speculate, or does not know {OPTION}")
    if bool(seen[OPTION]) != wanted:
        raise InputError(f"{name}: {server.url} has {OPTION}={seen[OPTION]}, the scenario's {name} has {wanted}")
    length, expected = seen.get("num_speculative_tokens"), scenario.speculative.get("num_speculative_tokens")
    if length != expected:
        raise InputError(f"{name}: {server.url} has num_speculative_tokens={length}, the scenario has {expected}")


def different_settings(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> list[str]:
    """Name the resolved settings in which two servers differ, besides the option and what is every server's own."""
    ours, theirs = _flat(baseline), _flat(candidate)
    return [
        f"{key} is {ours.get(key, 'missing')} and {theirs.get(key, 'missing')}"
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key) and not key.endswith(OPTION) and not OWN_TO_A_SERVER.search(key)
    ]


def _flat(value: Any, path: str = "") -> dict[str, str]:
    if isinstance(value, Mapping):
        return {key: text for name, below in value.items() for key, text in _flat(below, f"{path}.{name}").items()}
    # What is no data is shown as text by vLLM, with the address of an object in its memory.
    return {path.lstrip("."): ADDRESS.sub("", str(value))}


def _require_idle(servers: Mapping[VariantName, AttachedServer], idle_s: float) -> None:
    before = {name: server.metrics_text() for name, server in servers.items()}
    time.sleep(idle_s)
    for name, server in servers.items():
        if _moved(before[name], server.metrics_text()):
            raise UnmetNeedError(f"{name}: {server.url} serves others too: its counters moved while it should be idle")


def _require_two(baseline: AttachedServer, candidate: AttachedServer) -> None:
    before = candidate.metrics_text()
    baseline.probe()
    time.sleep(1.0)  # a request is answered before it is counted
    if _moved(before, candidate.metrics_text()):
        raise InputError(f"{baseline.url} and {candidate.url} are one server: a request to one is counted by the other")


def _moved(before: str, after: str) -> bool:
    try:
        rises = difference(parse_snapshot(before), parse_snapshot(after)).rises
    except CounterError as error:
        raise UnmetNeedError(f"the counters cannot be trusted: {error}") from None
    return any(rise for series in rises.values() for rise in series.values())


def _require_details(server: AttachedServer, by_step: bool) -> None:
    answer = server.probe(PROBE_TOKENS if by_step else 1)
    choice = (answer.get("choices") or [{}])[0]
    told = {
        "cached tokens of a request (--enable-prompt-tokens-details)": (
            ((answer.get("usage") or {}).get("prompt_tokens_details") or {}).get("cached_tokens") is not None
        ),
        "token ids (return_token_ids)": bool(choice.get("token_ids")),
        "log probabilities": bool((choice.get("logprobs") or {}).get("top_logprobs")),
    }
    if by_step:
        speculation = (answer.get("metrics") or {}).get("speculative_decoding") or {}
        flags = "--enable-per-request-metrics --per-request-spec-decode-metrics detailed"
        told[f"accepted tokens of every step ({flags})"] = speculation.get("per_step_accepted") is not None
    if lacking := [name for name, there in told.items() if not there]:
        raise InputError(f"{server.variant.name}: {server.url} does not tell {', '.join(lacking)}")
    if not server.reset_prefix_cache():
        raise InputError(f"{server.variant.name}: {server.url} does not reset its prefix cache")
