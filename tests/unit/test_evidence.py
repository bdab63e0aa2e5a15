"""Evidence: saved whole, read back the same, and never silently changed, cut or overwritten."""

import json
from pathlib import Path

import pytest

from dropgate.errors import InputError
from dropgate.evidence import ChangeFacts
from dropgate.evidence_folder import EvidenceFolder, load_evidence
from dropgate.host import change_under_test
from dropgate.judge import judge
from dropgate.report.document import verdict_document
from tests.support.factory import evidence


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = EvidenceFolder(tmp_path / "run")
    whole = evidence()
    for name, seen in whole.variants.items():
        folder.log_path(name).write_text("a log\n")
        folder.save_phase(name, "prefix", seen.phases["prefix"])
    folder.close(whole)
    return folder.path


def test_what_was_saved_is_read_back_the_same_and_judged_the_same(saved: Path) -> None:
    assert load_evidence(saved) == evidence()
    assert judge(load_evidence(saved)) == judge(evidence())


def test_the_change_and_the_engines_commit_are_kept(tmp_path: Path) -> None:
    whole = evidence()
    change = ChangeFacts(head="a" * 40, base="b" * 40, pull_request="7")
    engine = whole.engine.model_copy(update={"commit": "c" * 9, "asked_commit": "c" * 40})
    known = whole.model_copy(update={"change": change, "engine": engine, "variants": {}})
    EvidenceFolder(tmp_path / "run").close(known)
    assert load_evidence(tmp_path / "run") == known
    document = verdict_document(known, judge(known))
    assert document["change"] == {"head": "a" * 40, "base": "b" * 40, "pull_request": "7"}
    assert document["engine"] == {"version": "0.32.0+cpu", "commit": "c" * 9}


def test_ci_says_which_change_it_is() -> None:
    assert change_under_test({}) is None
    said = change_under_test({"DROPGATE_HEAD_SHA": "a" * 40, "DROPGATE_BASE_SHA": "b" * 40})
    assert said == {"head": "a" * 40, "base": "b" * 40, "pull_request": None}


def test_nothing_is_left_but_whole_files(saved: Path) -> None:
    assert sorted(path.name for path in saved.rglob(".*")) == []


@pytest.mark.parametrize(
    "name", ["baseline/prefix/requests.jsonl", "candidate/prefix/metrics-after.txt", "baseline/engine.log"]
)
def test_a_file_that_was_cut_changed_or_lost_is_named(saved: Path, name: str) -> None:
    path = saved / name
    content = path.read_text()
    path.write_text(content[:-3])
    with pytest.raises(InputError, match=rf"{name}: cut short: \d+ bytes, 'files'"):
        load_evidence(saved)
    path.write_text(content.replace("a", "b"))
    with pytest.raises(InputError, match=rf"{name}: changed since"):
        load_evidence(saved)
    path.unlink()
    with pytest.raises(InputError, match=rf"{name}: missing"):
        load_evidence(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda manifest: manifest.update(schema_version=3),
            r"evidence.json: 'schema_version' is 3",
        ),
        (lambda manifest: manifest.pop("engine"), r"evidence.json: 'engine': Field required"),
        (lambda manifest: manifest.update(extra=1), r"evidence.json: 'extra'"),
        (
            lambda manifest: manifest["files"].update({"../x": {"sha256": "", "bytes": 0}}),
            r"'\.\./x', which is out",
        ),
        (lambda manifest: manifest["scenario"].update(nmae="x"), r"evidence.json: 'nmae'"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(saved: Path, change, message: str) -> None:
    manifest = json.loads((saved / "evidence.json").read_text()) | {"schema_version": 1}
    change(manifest)
    (saved / "evidence.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=message):
        load_evidence(saved)


@pytest.mark.parametrize("change", [{"created": "2026-12-02"}, {"errors": ["none"]}, {"checksum": None}])
def test_a_manifest_that_was_edited_is_refused(saved: Path, change: dict[str, object]) -> None:
    """Its layout does not count; since schema 2 every value does. Schema 1 had no checksum."""
    manifest = json.loads((saved / "evidence.json").read_text())
    (saved / "evidence.json").write_text(json.dumps(manifest, sort_keys=True))
    assert load_evidence(saved)
    (saved / "evidence.json").write_text(json.dumps(manifest | change))
    with pytest.raises(InputError, match="changed since it was saved"):
        load_evidence(saved)
    (saved / "evidence.json").write_text(json.dumps(manifest | change | {"schema_version": 1}))
    assert load_evidence(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema_version": 1}', "[" * 100_000])
def test_a_manifest_that_is_cut_short_is_refused(saved: Path, text: str) -> None:
    (saved / "evidence.json").write_text(text)
    with pytest.raises(InputError, match=r"evidence\.json"):
        load_evidence(saved)


def test_a_folder_without_evidence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file: the run did not complete"):
        load_evidence(tmp_path)


def test_evidence_is_never_overwritten(saved: Path) -> None:
    with pytest.raises(InputError, match="not empty; evidence is never overwritten"):
        EvidenceFolder(saved)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        EvidenceFolder(tmp_path / "file" / "run")


def test_a_file_is_written_once(tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "run")
    folder.write("a.txt", "first")
    with pytest.raises(FileExistsError):
        folder.write("a.txt", "second")
    assert (folder.path / "a.txt").read_text() == "first"
