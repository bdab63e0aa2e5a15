"""The pipeline's commands, as `buildkite/run.sh` calls them.

Exit codes: 0 pass or done, 1 fail, 75 invalid (may be retried), 2 bad input, 143 stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from buildkite.ci_command.status import Verdict
from buildkite.pipeline import agent, files
from buildkite.pipeline.annotation import STYLES, annotation, announcement, fitted
from buildkite.pipeline.choice import AUTO, Choice, choose, touched_files
from buildkite.pipeline.lane import EXITS, VERDICT, LaneRun
from buildkite.pipeline.nodes import master_address
from buildkite.pipeline.plan import OUT, Plan, make_plan, read_plan, save_plan
from buildkite.pipeline.verdict import deliver, judge_build, judge_choice, summarize
from buildkite.pipeline.waiting import wait_for
from dropgate.errors import EXIT_BAD_INPUT, EXIT_INVALID, EXIT_PASS, InputError

ANNOTATION = "annotation.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except InputError as error:
        sys.stderr.write(f"dropgate-ci: {error}\n")
        return EXIT_BAD_INPUT
    except agent.AgentError as error:
        sys.stderr.write(f"dropgate-ci: {error}\n")
        return EXIT_INVALID
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m buildkite.pipeline", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    generate = commands.add_parser("generate", help="choose the lanes, record them and upload their steps")
    generate.set_defaults(command=_generate)
    lane = commands.add_parser("lane", help="run a lane's commands; each leaves a verdict")
    lane.add_argument("name", help="one of lanes.yml")
    lane.add_argument("--out", type=Path, required=True, metavar="DIR")
    lane.set_defaults(command=_lane)
    address = commands.add_parser("master-address", help="print rank 0's address, said by rank 0")
    address.set_defaults(command=_master_address)
    verdict = commands.add_parser("verdict", help="judge what the lanes delivered, annotate, publish the status")
    verdict.add_argument("--out", type=Path, required=True, metavar="DIR")
    verdict.set_defaults(command=_verdict)
    return parser


def _generate(_: argparse.Namespace) -> int:
    """Record the plan, then upload. A plan that cannot be made is recorded too: the verdict step says why."""
    from buildkite.pipeline.generate import pipeline  # here, since no other command should wait for the SDK

    plan, folder = _plan(), os.environ.get("DROPGATE_FOLDER", "")
    try:
        document = pipeline(plan, folder)
    except InputError as error:
        plan = _no_plan(error)
        document = pipeline(plan, folder)
    save_plan(plan)
    text = json.dumps(document, indent=1)
    sys.stdout.write(f"{text}\n")
    sys.stderr.write(f"dropgate-ci: {', '.join(plan.lanes) or 'no lanes'}: {plan.problem or plan.why}\n")
    if agent.present():
        agent.annotate(announcement(plan), "info")
        agent.upload_pipeline(text)
    return EXIT_PASS


def _plan() -> Plan:
    try:
        return make_plan(_choose(), os.environ)
    except InputError as error:
        return _no_plan(error)


def _no_plan(error: InputError) -> Plan:
    return Plan(why="no lane was chosen", head=os.environ.get("DROPGATE_HEAD_SHA"), problem=str(error))


def _choose() -> Choice:
    repository = Path(os.environ.get("BUILDKITE_BUILD_CHECKOUT_PATH") or ".")
    asked = os.environ.get("DROPGATE_LANES") or AUTO
    return choose(asked, touched_files(repository, os.environ), files.touched(), files.lanes())


def _lane(options: argparse.Namespace) -> int:
    known = files.lanes().lanes
    if options.name not in known:
        raise InputError(f"lane '{options.name}' is none of {', '.join(known)}")
    return LaneRun(options.name, known[options.name], options.out.resolve()).run()


def _master_address(_: argparse.Namespace) -> int:
    sys.stdout.write(f"{master_address(os.environ)}\n")
    return EXIT_PASS


def _verdict(options: argparse.Namespace) -> int:
    plan, head = read_plan(), os.environ.get("DROPGATE_HEAD_SHA") or None
    in_ci, root = agent.present(), Path()
    if in_ci:
        wait_for(plan.lanes if plan else [])
        root = _fetch(plan, options.out / "artifacts")
    delivered = deliver(plan, root, head)
    checks = judge_build(plan, delivered, _outcomes(plan), head)
    if in_ci:  # by hand, the plan is made from the same files
        checks += judge_choice(plan, _plan())
    verdict, document = summarize(checks)
    whole = options.out / ANNOTATION
    text = annotation(plan, verdict, checks, delivered)
    options.out.mkdir(parents=True, exist_ok=True)
    whole.write_text(text, encoding="utf-8")
    (options.out / VERDICT).write_text(json.dumps(document, indent=1), encoding="utf-8")
    sys.stdout.write(text)
    return _publish(verdict, fitted(text, str(whole)), options.out / VERDICT)


def _fetch(plan: Plan | None, root: Path) -> Path:
    root.mkdir(parents=True)
    for lane in plan.lanes if plan else []:
        for name in (VERDICT, "report.md"):
            agent.download(f"{OUT}/**/{name}", root, lane)
    return root


def _outcomes(plan: Plan | None) -> dict[str, str]:
    """Return how each lane's step ended; by hand, where nobody knows, the reports alone count."""
    lanes = plan.lanes if plan else []
    return {lane: agent.outcome(lane) if agent.present() else "passed" for lane in lanes}


def _publish(verdict: Verdict, text: str, path: Path) -> int:
    """Set annotation and commit status; a pass that nobody could be told of is invalid."""
    if not agent.present():
        return EXITS[verdict]
    from buildkite.ci_command.__main__ import main as ci_command

    try:
        agent.annotate(text, STYLES[verdict])
    except agent.AgentError as error:  # the status matters more
        sys.stderr.write(f"dropgate-ci: {error}\n")
    published = ci_command(["status", "--verdict-json", str(path)]) == 0
    return EXITS[verdict] if published else EXITS[verdict] or EXIT_INVALID


if __name__ == "__main__":
    sys.exit(main())
