"""The faults themselves: inert unless asked for, each known by name, each refusing to do nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dropgate.errors import InputError
from dropgate.faults import VARIABLE, catalog, install, register
from dropgate.faults.catalog import Call, Patch, summaries
from dropgate.faults.switch import FaultSwitch
from dropgate.judge import Verdict
from dropgate.selftest.harness import HARNESS
from dropgate.selftest.matrix import Outcome, chosen
from dropgate.selftest.readme import BEGIN, END, OTHERS, put_into, summary, table
from dropgate.selftest.rows import ROWS
from dropgate.selftest.works import SIZES, work_scenario

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def switch(tmp_path: Path) -> FaultSwitch:
    return FaultSwitch(tmp_path)


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, *patches: Patch) -> None:
    """Install patches of the test's own, and take them back with it."""
    monkeypatch.setattr(install, "patches", lambda: list(patches))
    monkeypatch.setattr(install, "_installed", {})
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(install.REGISTRY, "register", lambda _: None)
    install.install(str(folder))


def doubled(call: Call, value: int) -> int:
    call.fire()
    return 2 * int(call.original(value))


def module_with(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    module = ModuleType(name)
    exec("class Thing:\n    def say(self, value): return value\ndef say(value): return value", vars(module))  # noqa: S102
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_without_the_variable_nothing_is_imported_or_patched() -> None:
    script = (
        "import sys, dropgate.faults; dropgate.faults.register(); "
        "print([name for name in sys.modules if name.startswith(('vllm', 'torch', 'dropgate.faults.'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == "[]\n"


def test_the_plugin_is_one_of_vllms() -> None:
    assert '[project.entry-points."vllm.general_plugins"]\ndropgate_faults = "dropgate.faults:register"' in (
        (ROOT / "pyproject.toml").read_text()
    )


def test_a_fault_acts_while_it_is_active_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, switch: FaultSwitch
) -> None:
    module = module_with(monkeypatch, "a_module")
    installed(monkeypatch, tmp_path, Patch("doubled", "a_module:say", "worker", doubled))
    assert (module.say(3), switch.fired()) == (3, 0)
    switch.turn_to("doubled")
    assert (module.say(3), module.say(4), switch.fired()) == (6, 8, 2)
    switch.turn_to("another")
    assert (module.say(3), switch.fired()) == (3, 0)
    switch.turn_to("doubled")
    assert switch.fired() == 0, "each activation counts anew"
    switch.turn_to(None)
    assert module.say(3) == 3


def test_a_module_is_patched_right_after_its_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, switch: FaultSwitch
) -> None:
    (tmp_path / "late_module.py").write_text("class Thing:\n    def say(self, value):\n        return value\n")
    monkeypatch.syspath_prepend(tmp_path)
    twice = Patch(
        "twice", "late_module:Thing.say", "worker", lambda call, thing, value: call.original(thing, 2 * value)
    )
    installed(monkeypatch, tmp_path, twice)
    switch.turn_to("twice")
    import late_module

    monkeypatch.delitem(sys.modules, "late_module")
    assert late_module.Thing().say(3) == 6


def test_a_fault_whose_target_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """vLLM moves on; a fault that silently does nothing would look like one that nobody sees."""
    module_with(monkeypatch, "a_module")
    with pytest.raises(AttributeError, match="a fault would do nothing"):
        installed(monkeypatch, tmp_path, Patch("gone", "a_module:Thing.whisper", "worker", doubled))


def test_register_installs_where_the_variable_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(install, "install", asked.append)
    register()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    register()
    assert asked == [str(tmp_path)]


def test_every_fault_has_a_row_and_every_row_a_fault() -> None:
    known = {*summaries(), *HARNESS, *OTHERS}
    assert {row.fault for row in ROWS} == known
    assert len({row.fault for row in ROWS if row.put != "harness"}) >= 30
    for row in ROWS:
        what, where = summary(row)
        assert what, row.fault
        assert where in ("API server", "engine core", "worker", "harness")


def test_regressions_fail_and_infrastructure_is_invalid() -> None:
    expected = {row.kind: {one.verdict for one in ROWS if one.kind == row.kind} for row in ROWS}
    assert expected["tokens"] == expected["counters"] == expected["verifier"] == expected["drafts"] == {Verdict.FAIL}
    assert expected["engine"] == expected["series"] == expected["disk"] == {Verdict.INVALID}


def test_every_works_scenario_loads() -> None:
    commands = {tuple(work_scenario(work).engine.flags) for work in SIZES}
    assert len(commands) == 1
    for row in ROWS:
        assert work_scenario(row.work, row.sets)


def test_one_of_each_kind_is_part_of_make_test() -> None:
    short = chosen((), short=True)
    assert len(short) >= 10
    assert {row.kind for row in short} == {row.kind for row in ROWS} - {"times"}
    with pytest.raises(InputError, match="no fault named"):
        chosen(["nothing_like_it"], short=False)


def test_the_table_goes_between_the_markers(tmp_path: Path) -> None:
    outcomes = [Outcome(ROWS[0], "fail", (ROWS[0].check,), 4.2), Outcome(ROWS[1], "pass", (), 5.0, "expected fail")]
    text = table(outcomes, "a note")
    assert "1 of 2 faults" in text
    assert f"| fail | `{ROWS[0].check}` | 4 |" in text
    assert "NOT AS EXPECTED: expected fail" in text
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put_into(readme, text)
    assert readme.read_text() == f"before\n{BEGIN}\n{text}\n{END}\nafter\n"
    readme.write_text("no markers")
    with pytest.raises(InputError):
        put_into(readme, text)
    assert BEGIN in (ROOT / "README.md").read_text()
    assert END in (ROOT / "README.md").read_text()


def test_the_catalogue_needs_no_vllm() -> None:
    assert catalog.patches()
    assert not [name for name in sys.modules if name == "vllm"]
