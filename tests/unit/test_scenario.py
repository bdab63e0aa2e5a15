"""Scenario files: what does not fit is refused in one line with file, line and key."""

from pathlib import Path

import pytest

from dropgate.errors import InputError
from dropgate.references import load_reference
from dropgate.scenario import SCENARIOS, load_scenario

TINY = (SCENARIOS / "tiny_eagle3_cpu.yaml").read_text()


@pytest.fixture
def write(tmp_path: Path):
    """Write a changed copy of the embedded default, with its model folders where it expects them."""
    (tmp_path / "models").symlink_to(SCENARIOS.parent / "models")
    (tmp_path / "scenarios").mkdir()

    def write_changed(old: str, new: str) -> str:
        assert old in TINY
        path = tmp_path / "scenarios" / "changed.yaml"
        path.write_text(TINY.replace(old, new, 1))
        return str(path)

    return write_changed


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_scenario_loads_under_its_own_name(path: Path) -> None:
    scenario = load_scenario(path.stem)
    assert scenario.name == path.stem
    assert scenario.reference is None or load_reference(scenario.reference)


REFUSED = {
    "unknown key": ("needs:", "neds: {}\nneeds:", r"changed.yaml:8: unknown key 'neds'; did you mean 'needs'\?"),
    "unknown nested key": (
        "    requests: 160",
        "    request: 160",
        r":\d+: unknown key 'workloads.prefix.request'; .*'requests'",
    ),
    "duplicate key": (
        "    requests: 160",
        "    requests: 160\n    requests: 16",
        r":\d+: key 'requests' stands twice; first on",
    ),
    "wrong type": (
        "    requests: 160",
        "    requests: many",
        r":\d+: 'workloads.prefix.requests': .*valid integer.*'many'",
    ),
    "text for a number": ("    requests: 160", "    requests: '160'", r"'workloads.prefix.requests'"),
    "negative size": (
        "    prefix_tokens: 12288",
        "    prefix_tokens: -1",
        r"'workloads.prefix.prefix_tokens': .*greater",
    ),
    "missing required key": ("    concurrency: 16\n", "", r"key 'workloads.prefix.concurrency' is missing"),
    "missing model": (
        "model: ../models/tiny_llama\n",
        "model: ../models/none\n",
        r":\d+: 'engine.model': no model folder at",
    ),
    "missing draft": (
        "../models/tiny_llama_eagle3",
        "../models/none",
        r"'engine.flags.speculative-config.model': no model",
    ),
    "no drafter": (
        "    speculative-config:",
        "    speculative:",
        r"'engine.flags': speculative-config must be a mapping",
    ),
    "unlawful pin": ("unit: 1536", "unit: 768", r"pins 10752 cached .* give 11520 and 1024"),
    "newer schema": ("schema: 1", "schema: 2", r"changed.yaml:2: 'schema': Input should be 1 \(found 2\)"),
    "unknown promise": ("kind: same_outputs", "kind: same", r"'promises.1"),
    "not YAML": ("needs:", "needs: [", r"changed.yaml:\d+: not valid YAML"),
    "a tag": ("needs:", "x: !!python/object/apply:os.system [ls]\nneeds:", r"not valid YAML"),
    "fixed port twice": ("boot: side_by_side", "port: 8000", r"'engine': a fixed port takes boot: one_by_one"),
    "one token id": ("[16, 250]", "[16, 17]", r"at least two ids"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(case: str, write) -> None:
    old, new, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as refused:
        load_scenario(write(old, new))
    assert "\n" not in str(refused.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no scenario 'tiny'.*known: .*tiny_eagle3_cpu"):
        load_scenario("tiny")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InputError, match=r"nowhere.yaml: no such file"):
        load_scenario("nowhere.yaml")


def test_set_replaces_one_value_and_leaves_the_rest() -> None:
    changed = load_scenario("tiny_eagle3_cpu", ("variants.candidate.disable_eagle_block_drop=false",))
    assert changed.variants.candidate == {"disable_eagle_block_drop": False}
    assert changed.workloads == load_scenario("tiny_eagle3_cpu").workloads


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("workloads.prefix.requests", "KEY=VALUE is expected"),
        ("workloads.prefix.requests=[", "not valid YAML"),
        ("name.first=1", "'name' holds no keys"),
        (
            "workloads.prefix.request=1",
            "--set workloads.prefix.request=1: unknown key 'workloads.prefix.request'; did you mean",
        ),
    ],
)
def test_a_set_that_does_not_fit_is_refused(assignment: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scenario("tiny_eagle3_cpu", (assignment,))
