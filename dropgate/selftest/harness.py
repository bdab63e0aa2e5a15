"""Faults of the gate itself: no engine is broken, but the run or its evidence is."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from dropgate.engine.server import Server
from dropgate.errors import EngineError
from dropgate.evidence import Evidence
from dropgate.evidence_folder import MANIFEST, checksum_of, load_evidence
from dropgate.law import ServerName
from dropgate.preflight import prepare
from dropgate.scenario import Scenario
from dropgate.selftest.bench import Bench, clock, identity, measure, saved_and_loaded
from dropgate.selftest.works import WorkName, work_scenario
from dropgate.variants import variant
from dropgate.workload.protocol import Plan
from dropgate.workload.questions import GENERATED

FULL_AT = 20_000
"""Bytes that a file may have on the full disk."""
FULL_DEVICE = Path("/dev/full")
HOUR = 3_600.0


@dataclass(frozen=True)
class Place:
    """Where a fault of the harness is tried: the engines, the work, and an empty folder."""

    bench: Bench
    work: WorkName
    folder: Path

    @property
    def scenario(self) -> Scenario:
        """The work's scenario."""
        return work_scenario(self.work)

    def with_candidate(self, plan: Callable[[Plan], Plan], clock: Callable[[], float] = clock) -> Evidence:
        """Measure the candidate with another plan or clock, beside the clean run of the baseline."""
        clean, scenario = self.bench.clean(self.work), self.scenario
        plans = {name: plan(one) for name, one in self.bench.plans(scenario, "candidate").items()}
        servers: dict[ServerName, Server] = {"candidate": self.bench.servers["candidate"]}
        seen, errors = measure(servers, scenario, {"candidate": plans}, clock)
        return self.bench.evidence(scenario, {**clean, **seen}, errors)


def arms_swapped(place: Place) -> Evidence:
    """The servers of the two variants change places."""
    servers, scenario = place.bench.servers, place.scenario
    swapped: dict[ServerName, Server] = {"baseline": servers["candidate"], "candidate": servers["baseline"]}
    seen, errors = measure(swapped, scenario, {name: place.bench.plans(scenario, name) for name in swapped})
    return place.bench.evidence(scenario, seen, errors)


def data_set_truncated(place: Place) -> Evidence:
    """The file of questions has one row less than the scenario asks."""
    short = place.folder.with_suffix(".jsonl")
    short.write_text("".join(GENERATED.read_text(encoding="utf-8").splitlines(keepends=True)[:47]), encoding="utf-8")
    prepare(place.scenario, identity(), short)
    return place.bench.evidence(place.scenario, place.bench.clean(place.work))


def last_request_left_out(place: Place) -> Evidence:
    """One request of 160 is not sent."""
    return place.with_candidate(lambda plan: replace(plan, timed=plan.timed[:-1]))


def requests_in_another_order(place: Place) -> Evidence:
    """One variant is sent the same requests in another order."""
    return place.with_candidate(lambda plan: replace(plan, timed=plan.timed[::-1]))


def populating_request_forgotten(place: Place) -> Evidence:
    """The requests that populate the cache are not sent."""
    return place.with_candidate(lambda plan: replace(plan, populate=[]))


def cache_warm_from_an_earlier_run(place: Place) -> Evidence:
    """The reset of the cache is left out, right after the same prompts."""
    server = place.bench.servers["candidate"]
    place.with_candidate(lambda plan: plan)
    server.reset_prefix_cache = lambda: True  # type: ignore[method-assign]
    try:
        return place.with_candidate(lambda plan: plan)
    finally:
        del server.reset_prefix_cache


def clock_jumps_back(place: Place) -> Evidence:
    """The clock jumps back by an hour in the middle of the run."""
    calls = 0

    def jumping() -> float:
        nonlocal calls
        calls += 1
        return clock() - (HOUR if calls > 200 else 0.0)

    return place.with_candidate(lambda plan: plan, jumping)


def log_disk_full(place: Place) -> Evidence:
    """The disk of the engine's log is full."""
    clean, scenario = place.bench.clean(place.work), place.scenario
    server = Server(scenario, variant(scenario, "candidate"), place.bench.python, FULL_DEVICE)
    errors = []
    try:
        with server:
            server.require_alive("on a full disk")
    except EngineError as error:
        errors.append(str(error))
    return place.bench.evidence(scenario, {"baseline": clean["baseline"]}, errors)


def evidence_disk_full(place: Place) -> Evidence:
    """The disk is full when the evidence is saved."""
    evidence = place.bench.evidence(place.scenario, place.bench.clean(place.work))
    with _files_end_at(FULL_AT):
        return saved_and_loaded(evidence, place.folder / "full")


@contextmanager
def _files_end_at(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def evidence_edited(place: Place) -> Evidence:
    """A record of the saved evidence is changed by hand."""
    folder = _edited(place)
    return load_evidence(folder)


def evidence_edited_with_its_checksum(place: Place) -> Evidence:
    """A record of the saved evidence is changed by hand, and every checksum too."""
    folder = _edited(place)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    content = (folder / RECORDS).read_bytes()
    manifest["files"][RECORDS] = {"sha256": sha256(content).hexdigest(), "bytes": len(content)}
    manifest["checksum"] = checksum_of(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return load_evidence(folder)


RECORDS = "candidate/prefix/requests.jsonl"


def _edited(place: Place) -> Path:
    folder = place.folder / "edited"
    saved_and_loaded(place.bench.evidence(place.scenario, place.bench.clean(place.work)), folder)
    lines = (folder / RECORDS).read_text(encoding="utf-8").splitlines(keepends=True)
    lines[79] = lines[79].replace('"cached_tokens":1024', '"cached_tokens":1152')
    (folder / RECORDS).write_text("".join(lines), encoding="utf-8")
    return folder


HARNESS: dict[str, Callable[[Place], Evidence]] = {
    function.__name__: function
    for function in (
        *(arms_swapped, data_set_truncated, last_request_left_out, requests_in_another_order),
        *(populating_request_forgotten, cache_warm_from_an_earlier_run, clock_jumps_back),
        *(log_disk_full, evidence_disk_full, evidence_edited, evidence_edited_with_its_checksum),
    )
}
