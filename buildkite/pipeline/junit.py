"""JUnit, both ways: what pytest wrote as checks, and checks for whatever reads JUnit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from buildkite.ci_command.status import Check

NAME = "junit.xml"
SHOWN = 300


def checks_of(path: Path) -> list[Check]:
    """Return one check for each test file; a failure or an error fails it, a skip makes it invalid.

    Raises:
        ValueError: the file is missing or not JUnit.

    """
    try:
        # Written a moment ago by the pytest that this job ran.
        cases = ElementTree.parse(path).getroot().iter("testcase")  # noqa: S314
        by_file: dict[str, list[ElementTree.Element]] = {}
        for case in cases:
            by_file.setdefault(case.get("classname") or "collection", []).append(case)
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    return [_check(name, found) for name, found in by_file.items()]


def _check(name: str, cases: list[ElementTree.Element]) -> Check:
    kinds = Counter(_kind(case) for case in cases)
    verdict = "fail" if kinds["failed"] else "invalid" if kinds["skipped"] else "pass"
    seen = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    odd = next((case for case in cases if _kind(case) in ("failed", "skipped") and _kind(case) == _worst(kinds)), None)
    if odd is not None:
        seen += f"; first: {odd.get('name')}: {_message(odd)}"
    return Check.model_validate({"name": name, "verdict": verdict, "expected": f"{len(cases)} passed", "seen": seen})


def _worst(kinds: Counter[str]) -> str:
    return "failed" if kinds["failed"] else "skipped"


def _kind(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skip = case.find("skipped")
    # pytest reports an expected failure, which is strict here, as a skip of its own type.
    return "passed" if skip is None or skip.get("type") == "pytest.xfail" else "skipped"


def _message(case: ElementTree.Element) -> str:
    found = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
    return " ".join((found.get("message") or "").split())[:SHOWN] if found is not None else ""


def write(path: Path, suite: str, checks: Sequence[Check]) -> None:
    """Save checks as JUnit: a failed one as failure, an invalid one as error."""
    root = ElementTree.Element("testsuite", name=suite, tests=str(len(checks)))
    for check in checks:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=check.name)
        tag = {"fail": "failure", "invalid": "error"}.get(check.verdict)
        if tag:
            ElementTree.SubElement(case, tag, message=f"expected {check.expected}, seen {check.seen}")
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
