"""The command ``dropgate``: run, plan, judge, report, doctor."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from dropgate import __version__, compare, run_command
from dropgate.again import send_again
from dropgate.console import Narrator, fail_line
from dropgate.doctor import examine
from dropgate.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAIL,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_PASS,
    DropgateError,
    InputError,
)
from dropgate.evidence import Evidence
from dropgate.evidence_folder import load_evidence, write_new
from dropgate.history import command as history
from dropgate.judge import Judgement, Verdict, judge
from dropgate.judge.verdict import combine
from dropgate.options import add_gsm8k, add_output, add_scenario, print_judged
from dropgate.plan import plan_text
from dropgate.rates import write_rates
from dropgate.replay.command import SEEN, judge_folder, save_seen, version_matrix, write_references
from dropgate.replay.judgement import replay_document, replay_facts, replay_heading, replay_judgement
from dropgate.replay.run import Outcome, replay_names, run_replays
from dropgate.report.document import verdict_document
from dropgate.report.markdown import markdown_judgement
from dropgate.report.save import (
    VERDICT,
    document_text,
    save_document,
    save_markdown,
    save_report,
    save_verdict,
)
from dropgate.report.tables import result_tables
from dropgate.report.terminal import print_judgement
from dropgate.scenario import load_scenario
from dropgate.scenario.workloads import GSM8K_TEST_ROWS
from dropgate.workload.questions import load_questions, sharegpt

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
    run_command.add_parser(commands)
    _add_plan(commands.add_parser("plan", help="print every command, variable and file; start nothing"))
    _add_export(commands.add_parser("export-gsm8k", help="write GSM8K's test questions as ShareGPT JSON"))
    _add_replay(commands.add_parser("replay", help="drive vLLM's real scheduler without a model, on any layout"))
    for name, command, text in (
        ("judge", _judge, "recompute the verdict from saved evidence"),
        ("report", _report, "write report.md and report.html again from saved evidence"),
    ):
        below = commands.add_parser(name, help=text, description=text)
        below.add_argument("folder", type=Path, metavar="DIR", help="a folder that `dropgate run` wrote")
        below.set_defaults(command=command)
        if name == "judge":
            add_output(below)
    text = "boot a saved run's servers again and send them one of its prompts: where a divergence is looked into"
    again = commands.add_parser("again", help=text, description=text)
    again.add_argument("folder", type=Path, metavar="DIR", help="a folder that `dropgate run` wrote")
    again.add_argument("--phase", required=True, help="prefix, acceptance or acceptance_hit_path")
    again.add_argument("--request", type=int, required=True, metavar="N", help="the request's index, from 0")
    again.set_defaults(command=_again)
    text = "keep a run's acceptance rates as the reference of its scenario; refused where another check does not pass"
    reference = commands.add_parser("reference", help=text, description=text)
    reference.add_argument("folder", type=Path, metavar="DIR", help="a folder that `dropgate run` wrote")
    reference.set_defaults(command=_reference)
    compare.add_parser(commands)
    history.add_parser(commands)
    doctor = commands.add_parser("doctor", help="say what this machine has and lacks, and how to get it")
    doctor.set_defaults(command=_doctor)
    return parser


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"Write GSM8K's {GSM8K_TEST_ROWS:,} test questions as ShareGPT JSON, one to one and in order, for "
        "`vllm bench serve --dataset-name sharegpt`."
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="a new file")
    parser.add_argument("--template", default="{question}", help="the prompt (default: {question})")
    add_gsm8k(parser)
    parser.set_defaults(command=_export)


def _export(options: argparse.Namespace) -> int:
    questions = load_questions(options.gsm8k, Narrator().say)
    if len(questions.rows) != GSM8K_TEST_ROWS:
        raise InputError(f"{questions.name}: {len(questions.rows):,} rows, {GSM8K_TEST_ROWS:,} are to be exported")
    try:
        write_new(options.out, sharegpt(questions, options.template))
    except OSError as error:
        raise InputError(f"{options.out}: cannot be written: {error.strerror}") from None
    count, origin = f"{len(questions.rows):,} questions", f"{questions.name}, sha256 {questions.sha256}"
    sys.stdout.write(f"{options.out}: {count} of {origin}\n")
    return EXIT_PASS


def _add_plan(parser: argparse.ArgumentParser) -> None:
    add_scenario(parser)
    parser.add_argument("--rank", type=int, metavar="N", help="only this node's commands (default: all)")
    parser.set_defaults(command=_plan)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(replay_names())
    parser.description = f"Drive vLLM's real scheduler and KV cache without a model. Layouts: {known}."
    parser.add_argument("names", metavar="NAME", nargs="*", help="names, or paths to a .yaml (default: every layout)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="save evidence, verdict and report to DIR, or DIR/NAME")
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
    verdicts = []
    for outcome in run_replays(names):
        folder = options.out and (options.out / outcome.seen.scenario if len(names) > 1 else options.out)
        if folder:
            save_seen(outcome.seen, folder)
        verdicts.append(_report_replay(outcome, folder))
    return combine(verdicts).exit_code


def _report_replay(outcome: Outcome, folder: Path | None, as_json: bool = False, quiet: bool = False) -> Verdict:
    judgement = replay_judgement(outcome)
    if folder:
        save_document(folder, replay_document(outcome, judgement))
        save_markdown(folder, markdown_judgement(replay_heading(outcome), judgement, replay_facts(outcome)))
    if as_json:
        sys.stdout.write(document_text(replay_document(outcome, judgement)))
        return judgement.verdict
    tables = result_tables(judgement, None, None)
    print_judgement(replay_heading(outcome), judgement, tables, None, replay_facts(outcome), folder, quiet=quiet)
    return judgement.verdict


def _plan(options: argparse.Namespace) -> int:
    scenario = load_scenario(options.scenario, tuple(options.assignments))
    sys.stdout.write(plan_text(scenario, options.rank))
    return EXIT_PASS


def _load(folder: Path) -> tuple[Evidence, Judgement]:
    evidence = load_evidence(folder)
    return evidence, judge(evidence)


def _judge(options: argparse.Namespace) -> int:
    if (options.folder / SEEN).is_file():
        return _report_replay(judge_folder(options.folder), options.folder, options.json, options.quiet).exit_code
    evidence, judgement = _load(options.folder)
    print_judged(options, evidence, judgement, options.folder)
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


def _again(options: argparse.Namespace) -> int:
    text, same = send_again(load_evidence(options.folder), options.phase, options.request, Narrator())
    sys.stdout.write(text)
    return EXIT_PASS if same else EXIT_FAIL


def _reference(options: argparse.Namespace) -> int:
    sys.stdout.write(f"{write_rates(*_load(options.folder), options.folder.name)}\n")
    return EXIT_PASS


def _doctor(_: argparse.Namespace) -> int:
    text, ready = examine()
    sys.stdout.write(text)
    return EXIT_PASS if ready else EXIT_INVALID


if __name__ == "__main__":
    sys.exit(main())
