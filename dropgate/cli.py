"""The command ``dropgate``: run, plan, judge, report, doctor."""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import psutil

from dropgate import __version__
from dropgate.console import Narrator, fail_line
from dropgate.doctor import examine
from dropgate.engine.attached import attach
from dropgate.engine.interpreter import COMMIT_VARIABLE, EngineIdentity, asked_commit, describe_engine, engine_python
from dropgate.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_PASS,
    DropgateError,
    InputError,
    UnmetNeedError,
)
from dropgate.evidence import Evidence, EvidenceFolder, load_evidence
from dropgate.judge import Judgement, Verdict, judge
from dropgate.judge.validity import same_commit
from dropgate.judge.verdict import combine
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.plan import plan_text
from dropgate.ranks.command import crew_of, follow
from dropgate.ranks.local import rank_folder
from dropgate.ranks.place import Place, place_of
from dropgate.replay.command import SEEN, judge_folder, save_seen, version_matrix, write_references
from dropgate.replay.judgement import replay_document, replay_facts, replay_heading, replay_judgement
from dropgate.replay.run import Outcome, replay_names, run_replays
from dropgate.report.document import verdict_document
from dropgate.report.save import VERDICT, reference_of, save_document, save_report, save_verdict
from dropgate.report.terminal import print_judgement, print_result
from dropgate.run import preflight, run
from dropgate.scenario import Scenario, load_scenario

EPILOG = """\
exit codes:  0 pass   1 fail   75 invalid: the run says nothing, may be retried   2 bad input   130 interrupted

examples:
  dropgate plan tiny_eagle3_cpu                        what would be started, and how
  dropgate run tiny_eagle3_cpu                         boot both variants, send the same work, judge
  dropgate run tiny_eagle3_cpu --set variants.candidate.disable_eagle_block_drop=false
                                                       see the gate go red
  dropgate judge runs/tiny_eagle3_cpu-...              the same verdict again, from what was saved
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code: int = options.command(options)
    except InputError as error:
        fail_line(str(error))
        return EXIT_BAD_INPUT
    except DropgateError as error:
        fail_line(str(error))
        return EXIT_INVALID
    except KeyboardInterrupt:
        fail_line("interrupted; the engines have ended")
        return EXIT_INTERRUPTED
    return code


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dropgate",
        description="End-to-end regression gate for vLLM's disable_eagle_block_drop: boots both variants of one "
        "server, sends both the same work, and judges exact token counts and outputs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dropgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="run a scenario and judge it"))
    _add_plan(commands.add_parser("plan", help="print every command, variable and file; start nothing"))
    _add_replay(commands.add_parser("replay", help="drive vLLM's real scheduler without a model, on any layout"))
    for name, command, text in (
        ("judge", _judge, "recompute the verdict from saved evidence"),
        ("report", _report, "write report.md again from saved evidence"),
    ):
        below = commands.add_parser(name, help=text, description=text)
        below.add_argument("folder", type=Path, metavar="DIR", help="a folder that `dropgate run` wrote")
        below.set_defaults(command=command)
    doctor = commands.add_parser("doctor", help="say what this machine has and lacks, and how to get it")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_scenario(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", metavar="SCENARIO", help="a name under fixtures/scenarios, or a path to a .yaml")
    parser.add_argument(
        "--set",
        dest="assignments",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="replace one value of the scenario, such as workloads.prefix.requests=16; may be repeated",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_scenario(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="an empty or new folder (default: runs/SCENARIO-TIME)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    for name in VARIANT_NAMES:
        text = f"a server that runs already as the {name}; both are given or none"
        parser.add_argument(f"--{name}-url", metavar="URL", help=text)
    parser.set_defaults(command=_run)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_scenario(parser)
    parser.add_argument("--rank", type=int, metavar="N", help="only this node's commands (default: all)")
    parser.set_defaults(command=_plan)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(replay_names())
    parser.description = f"Drive vLLM's real scheduler and KV cache without a model. Layouts: {known}."
    parser.add_argument("names", metavar="NAME", nargs="*", help="names, or paths to a .yaml (default: every layout)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="save replay.json and verdict.json to DIR, or DIR/NAME")
    parser.add_argument(
        "--write-reference",
        action="store_true",
        help="write fixtures/references/replay for this vLLM version; refused where a check does not pass",
    )
    parser.add_argument(
        "--matrix",
        metavar="PYTHON",
        nargs="+",
        help="replay on the vLLM of each interpreter and print every count that differs between versions, as Markdown",
    )
    parser.set_defaults(command=_replay)


def _replay(options: argparse.Namespace) -> int:
    names: list[str] = options.names or replay_names()
    if options.matrix:
        sys.stdout.write(version_matrix(options.matrix, names))
        return EXIT_PASS
    if options.write_reference:
        for path in write_references(names):
            sys.stdout.write(f"{path}\n")
        return EXIT_PASS
    _require_asked_commit()
    verdicts = []
    for outcome in run_replays(names):
        folder = options.out and (options.out / outcome.seen.scenario if len(names) > 1 else options.out)
        if folder:
            save_seen(outcome.seen, folder)
        verdicts.append(_report_replay(outcome, folder))
    return combine(verdicts).exit_code


def _require_asked_commit() -> None:
    if (asked := asked_commit()) and not same_commit(asked, seen := describe_engine().commit):
        raise UnmetNeedError(f"{COMMIT_VARIABLE} asks for an engine of commit {asked}; this one is of {seen or 'none'}")


def _report_replay(outcome: Outcome, folder: Path | None) -> Verdict:
    judgement = replay_judgement(outcome)
    if folder:
        save_document(folder, replay_document(outcome, judgement))
    print_judgement(replay_heading(outcome), judgement, None, replay_facts(outcome), folder)
    return judgement.verdict


def _run(options: argparse.Namespace) -> int:
    began_s = time.monotonic() - (time.time() - psutil.Process().create_time())
    scenario = load_scenario(options.scenario, tuple(options.assignments))
    if options.baseline_url or options.candidate_url:
        return _run_attached(options, scenario, began_s)
    place = place_of(scenario)
    out = _out(options, scenario)
    if place and place.rank:
        return _follow(scenario, place, options.out or rank_folder(out, place.rank), Narrator(options.quiet))
    identity = preflight(scenario, place)
    folder, narrator = EvidenceFolder(out), Narrator(options.quiet)
    same = [options.scenario, *(part for pair in options.assignments for part in ("--set", pair))]
    with crew_of(scenario, place, identity, narrator, same, out) as crew:
        evidence = run(scenario, identity, folder, narrator, began_s, crew)
        judgement = _conclude(evidence, out)
        crew.finish(judgement.verdict.exit_code, verdict_document(evidence, judgement))
    return judgement.verdict.exit_code


def _out(options: argparse.Namespace, scenario: Scenario) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    found: Path = options.out or Path("runs") / f"{scenario.name}-{stamp}"
    return found


def _conclude(evidence: Evidence, out: Path) -> Judgement:
    judgement = judge(evidence)
    save_verdict(out, evidence, judgement)
    save_report(out, evidence, judgement)
    print_result(evidence, judgement, reference_of(evidence), out)
    return judgement


def _run_attached(options: argparse.Namespace, scenario: Scenario, began_s: float) -> int:
    urls: dict[VariantName, str | None] = {name: getattr(options, f"{name}_url") for name in VARIANT_NAMES}
    if missing := [name for name, url in urls.items() if not url]:
        raise InputError(f"--{missing[0]}-url is missing: both servers are given or none")
    servers = attach(scenario, {name: url for name, url in urls.items() if url})
    version = servers["baseline"].reported_version
    identity = EngineIdentity(python=engine_python(), version=version, knows_option=True)
    out = _out(options, scenario)
    folder, narrator = EvidenceFolder(out), Narrator(options.quiet)
    evidence = run(scenario, identity, folder, narrator, began_s, attached=servers)
    return _conclude(evidence, out).verdict.exit_code


def _follow(scenario: Scenario, place: Place, out: Path, narrator: Narrator) -> int:
    code, document = follow(scenario, place, preflight, EvidenceFolder(out), narrator)
    save_document(out, document)
    odd = next((check for check in document["checks"] if check["verdict"] == document["verdict"]), None)
    reason = f": {odd['name']}: {odd['seen']}" if odd and code else ""
    fail_line(f"rank {place.rank}: {document['verdict']}{reason}")
    return code


def _plan(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, tuple(options.assignments))
    sys.stdout.write(plan_text(scenario, options.rank))
    return EXIT_PASS


def _load(folder: Path) -> tuple[Evidence, Judgement]:
    evidence = load_evidence(folder)
    return evidence, judge(evidence)


def _judge(options: argparse.Namespace) -> int:
    if (options.folder / SEEN).is_file():
        return _report_replay(judge_folder(options.folder), options.folder).exit_code
    evidence, judgement = _load(options.folder)
    print_result(evidence, judgement, reference_of(evidence), options.folder)
    saved = options.folder / VERDICT
    if saved.is_file():
        _compare_with_saved(saved, evidence, judgement)
    else:
        save_verdict(options.folder, evidence, judgement)
    return judgement.verdict.exit_code


def _compare_with_saved(saved: Path, evidence: Evidence, judgement: Judgement) -> None:
    """Say so when the saved verdict is not what the evidence gives; wording may change between versions."""
    try:
        before = json.loads(saved.read_text(encoding="utf-8"))
        stated = (
            before["verdict"],
            before["metrics"],
            [(check["name"], check["verdict"]) for check in before["checks"]],
        )
    except (OSError, ValueError, KeyError, TypeError):
        fail_line(f"{saved}: cannot be read; the verdict above is recomputed from the evidence")
        return
    again = json.loads(json.dumps(verdict_document(evidence, judgement)))
    if stated != (again["verdict"], again["metrics"], [(check["name"], check["verdict"]) for check in again["checks"]]):
        fail_line(f"{saved}: says {stated[0]!r} and differs from what the evidence gives; the evidence counts")


def _report(options: argparse.Namespace) -> int:
    evidence, judgement = _load(options.folder)
    sys.stdout.write(f"{save_report(options.folder, evidence, judgement)}\n")
    return EXIT_PASS


def _doctor(_: argparse.Namespace) -> int:
    text, ready = examine()
    sys.stdout.write(text)
    return EXIT_PASS if ready else EXIT_INVALID


if __name__ == "__main__":
    sys.exit(main())
