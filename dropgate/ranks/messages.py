"""What the ranks tell each other, as JSON; and what must be the same on every one before anything is booted."""

from __future__ import annotations

import hashlib
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from dropgate import __version__
from dropgate.engine.interpreter import EngineIdentity
from dropgate.evidence import EngineFacts, Frozen, HostFacts
from dropgate.law import ServerName
from dropgate.scenario import Scenario
from dropgate.variants import server_names, variant


class Hello(Frozen):
    """What a rank has, and the commands that it would start."""

    rank: int
    dropgate: str
    engine: EngineFacts
    scenario_sha256: str
    commands: dict[ServerName, list[str]]
    host: HostFacts


class Order(Frozen):
    """What rank 0 wants done."""

    do: Literal["start", "stop", "end"]
    variant: ServerName | None = None
    host: str = ""
    port: int = 0
    served_name: str = ""
    master_port: int = 0
    code: int = 0
    document: dict[str, Any] | None = None
    """With ``end``: rank 0's exit code and verdict."""


class State(Frozen):
    """What a rank did about the latest order, or what befell it."""

    order: int
    """How many orders it has carried out."""
    fault: str | None = None
    """Why it cannot go on; with its engine's own first error line where there is one."""
    ended: bool = False


def say_hello(scenario: Scenario, identity: EngineIdentity, rank: int, host: HostFacts) -> Hello:
    """Return what this rank says, or what rank 0 expects of it."""
    same = portable(scenario)
    return Hello(
        rank=rank,
        dropgate=__version__,
        engine=EngineFacts(**identity.model_dump(include={"version", "python", "packages", "commit"})),
        scenario_sha256=hashlib.sha256(same.model_dump_json(by_alias=True).encode()).hexdigest(),
        commands={name: [*(chosen := variant(same, name, rank)).argv, *chosen.observe] for name in server_names(same)},
        host=host,
    )


def portable(scenario: Scenario) -> Scenario:
    """Return the scenario with each model folder named by its content, since nodes may keep them at other paths."""
    speculative = dict(scenario.speculative)
    if draft := speculative.get("model"):
        speculative["model"] = _fingerprint(draft)
    engine = scenario.engine
    update = {
        "model": _fingerprint(engine.model),
        "flags": {**engine.flags, "speculative-config": speculative},
    }
    return scenario.model_copy(update={"engine": engine.model_copy(update=update)})


def _fingerprint(model: str) -> str:
    path = Path(model)
    if not path.is_absolute():
        return model
    return f"{path.name}:{hashlib.sha256((path / 'config.json').read_bytes()).hexdigest()[:12]}"


def differences(expected: Hello, seen: Hello) -> list[str]:
    """Say what a rank has that rank 0 does not expect, the most telling first; empty where all is the same."""
    who, found = f"rank {seen.rank}", []
    pairs = {
        "dropgate": (seen.dropgate, expected.dropgate),
        "vLLM": (seen.engine.version, expected.engine.version),
        "the engine's commit": (seen.engine.commit, expected.engine.commit),
        **{
            name: (seen.engine.packages.get(name), expected.engine.packages.get(name))
            for name in sorted(seen.engine.packages.keys() | expected.engine.packages.keys())
        },
    }
    found += [
        f"{who} has {name} {ours}, rank 0 has {theirs}" for name, (ours, theirs) in pairs.items() if ours != theirs
    ]
    for name, command in expected.commands.items():
        found += _other_command(who, name, command, seen.commands.get(name, []))
    if not found and expected.scenario_sha256 != seen.scenario_sha256:
        found.append(f"{who} has scenario {seen.scenario_sha256[:12]}, rank 0 has {expected.scenario_sha256[:12]}")
    return found


def _other_command(who: str, name: ServerName, expected: list[str], seen: list[str]) -> list[str]:
    for index, (wanted, found) in enumerate(zip_longest(expected, seen)):
        if wanted != found:
            before = expected[index - 1] if index else ""
            ours, theirs = (_with_flag(before, part) for part in (found, wanted))
            return [f"{who}: its {name} command has {ours}, rank 0 expects {theirs}"]
    return []


def _with_flag(before: str, part: str | None) -> str:
    """Put the flag before its value."""
    if part is None:
        return "nothing more"
    return f"{before} {part}" if before.startswith("--") and not part.startswith("--") else part
