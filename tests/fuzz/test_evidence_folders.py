"""However a saved run was damaged: the same evidence, or an error that names the file; never a traceback or a pass."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dropgate.errors import InputError
from dropgate.evidence import Evidence
from dropgate.evidence_folder import MANIFEST, EvidenceFolder, load_evidence
from dropgate.judge import judge
from tests.fuzz.damage import damaged_bytes, damaged_value, json_values, many, one_line
from tests.support.factory import evidence

HEALTHY = evidence()


class Saved:
    """A whole folder, and its files' content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        folder = EvidenceFolder(path)
        for name, variant in HEALTHY.variants.items():
            (folder.log_path(name)).write_text("a log\n")
            folder.save_phase(name, "prefix", variant.phases["prefix"])
        folder.close(HEALTHY)
        self.files = {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}

    @contextmanager
    def holding(self, name: str, content: bytes | None) -> Iterator[Path]:
        """Hold another content, or no such file, for a while."""
        path = self.path / name
        path.unlink() if content is None else path.write_bytes(content)
        try:
            yield self.path
        finally:
            path.write_bytes(self.files[name])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return Saved(tmp_path_factory.mktemp("run") / "saved")


def loaded(folder: Path) -> Evidence | None:
    """The evidence, or ``None`` where the folder is refused in one line."""
    try:
        return load_evidence(folder)
    except InputError as error:
        return None if str(folder) in one_line(error) else pytest.fail(str(error))


def test_the_whole_folder_is_the_evidence(saved: Saved) -> None:
    assert loaded(saved.path) == HEALTHY


@many
@given(data=st.data())
def test_a_file_of_other_bytes_is_refused(saved: Saved, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(saved.files)))
    content = data.draw(st.none() | damaged_bytes(saved.files[name]))
    with saved.holding(name, content) as folder:
        assert loaded(folder) in (None, HEALTHY)
        if name != MANIFEST:
            assert loaded(folder) is None


@many
@given(data=st.data())
def test_a_manifest_of_other_values_is_refused(saved: Saved, data: st.DataObject) -> None:
    whole = json.loads(saved.files[MANIFEST])
    content = json.dumps(data.draw(damaged_value(whole, json_values))).encode()
    with saved.holding(MANIFEST, content) as folder:
        assert loaded(folder) in (None, HEALTHY)


@many
@given(data=st.data())
def test_an_old_manifest_of_other_values_does_not_crash_anything(saved: Saved, data: st.DataObject) -> None:
    """It has no checksum: what loads is judged, without a crash."""
    whole = {**json.loads(saved.files[MANIFEST]), "schema_version": 1}
    content = json.dumps(data.draw(damaged_value(whole, json_values))).encode()
    with saved.holding(MANIFEST, content) as folder:
        found = loaded(folder)
    if found is not None:
        assert not [check for check in judge(found).checks if "crashed" in check.seen]


@many
@given(data=st.data())
def test_records_that_were_changed_with_their_checksums_do_not_crash_the_judge(
    saved: Saved, data: st.DataObject
) -> None:
    """Whoever mends the checksums too is met by the judge: it says something, and says it without a crash."""
    name = data.draw(st.sampled_from([one for one in sorted(saved.files) if one.endswith((".jsonl", ".txt"))]))
    lines = saved.files[name].splitlines(keepends=True)
    if name.endswith(".jsonl") and lines:
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = json.dumps(data.draw(damaged_value(json.loads(lines[at]), json_values))).encode() + b"\n"
        content = b"".join(lines)
    else:
        content = data.draw(damaged_bytes(saved.files[name]))
    manifest = json.loads(saved.files[MANIFEST])
    manifest["files"][name] = {"sha256": sha256(content).hexdigest(), "bytes": len(content)}
    manifest["schema_version"] = 1  # of a time when the manifest had no checksum
    with saved.holding(name, content), saved.holding(MANIFEST, json.dumps(manifest).encode()) as folder:
        found = loaded(folder)
    if found is not None:
        assert not [check for check in judge(found).checks if "crashed" in check.seen]


def test_a_folder_that_is_missing_or_a_file_is_refused(tmp_path: Path, saved: Saved) -> None:
    shutil.copytree(saved.path, tmp_path / "copy")
    assert loaded(tmp_path / "nothing") is None
    assert loaded(tmp_path / "copy" / MANIFEST) is None
