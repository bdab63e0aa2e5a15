"""`dropgate run`: on one machine, as one rank of several, or against servers that run already."""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path
from typing import Any

import psutil

from dropgate.console import Narrator, fail_line
from dropgate.engine.attached import attach
from dropgate.engine.interpreter import EngineIdentity, engine_python
from dropgate.errors import InputError
from dropgate.evidence import Evidence
from dropgate.evidence_folder import EvidenceFolder
from dropgate.judge import Judgement, judge
from dropgate.law import VARIANT_NAMES
from dropgate.options import add_gsm8k, add_output, add_scenario, print_judged
from dropgate.preflight import prepare, require_node
from dropgate.ranks.command import crew_of, follow
from dropgate.ranks.local import rank_folder
from dropgate.ranks.place import Place, place_of
from dropgate.report.document import verdict_document
from dropgate.report.save import save_document, save_report, save_verdict
from dropgate.run import run
from dropgate.scenario import Scenario, load_scenario


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("run", help="run a scenario and judge it")
    add_scenario(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="an empty or new folder (default: runs/SCENARIO-TIME)")
    add_output(parser)
    add_gsm8k(parser)
    for name in VARIANT_NAMES:
        text = f"a server that runs already as the {name}; both are given or none"
        parser.add_argument(f"--{name}-url", metavar="URL", help=text)
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    began_s = time.monotonic() - (time.time() - psutil.Process().create_time())
    scenario = load_scenario(options.scenario, tuple(options.assignments))
    if options.baseline_url or options.candidate_url:
        return _run_attached(options, scenario, began_s)
    place, out = place_of(scenario), _out(options, scenario)
    narrator = Narrator(options.quiet)
    if place and place.rank:
        return _follow(scenario, place, options.out or rank_folder(out, place.rank), narrator)
    prepared = prepare(scenario, require_node(scenario, place), options.gsm8k, narrator.say)
    folder = EvidenceFolder(out)
    same = [options.scenario, *(part for pair in options.assignments for part in ("--set", pair))]
    with crew_of(scenario, place, prepared.identity, narrator, same, out) as crew:
        evidence = run(scenario, prepared, folder, narrator, began_s, crew)
        judgement = _conclude(options, evidence, out)
        crew.finish(judgement.verdict.exit_code, verdict_document(evidence, judgement))
    return judgement.verdict.exit_code


def _out(options: argparse.Namespace, scenario: Scenario) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    found: Path = options.out or Path("runs") / f"{scenario.name}-{stamp}"
    return found


def _conclude(options: argparse.Namespace, evidence: Evidence, out: Path) -> Judgement:
    judgement = judge(evidence)
    save_verdict(out, evidence, judgement)
    save_report(out, evidence, judgement)
    print_judged(options, evidence, judgement, out)
    return judgement


def _run_attached(options: argparse.Namespace, scenario: Scenario, began_s: float) -> int:
    urls = {name: getattr(options, f"{name}_url") for name in VARIANT_NAMES}
    if missing := [name for name, url in urls.items() if not url]:
        raise InputError(f"--{missing[0]}-url is missing: both servers are given or none")
    servers = attach(scenario, urls)
    version, narrator = servers["baseline"].reported_version, Narrator(options.quiet)
    identity = EngineIdentity(python=engine_python(), version=version, knows_option=True)
    prepared = prepare(scenario, identity, options.gsm8k, narrator.say)
    out = _out(options, scenario)
    evidence = run(scenario, prepared, EvidenceFolder(out), narrator, began_s, attached=servers)
    return _conclude(options, evidence, out).verdict.exit_code


def _follow(scenario: Scenario, place: Place, out: Path, narrator: Narrator) -> int:
    code, document = follow(scenario, place, require_node, EvidenceFolder(out), narrator)
    save_document(out, document)
    odd = next((check for check in document["checks"] if check["verdict"] == document["verdict"]), None)
    reason = f": {odd['name']}: {odd['seen']}" if odd and code else ""
    fail_line(f"rank {place.rank}: {document['verdict']}{reason}")
    return code
