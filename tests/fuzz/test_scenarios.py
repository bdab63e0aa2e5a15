"""Whatever a scenario file or an assignment holds: a scenario that can be planned, or one line on what is wrong."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dropgate.errors import InputError
from dropgate.plan import plan_text
from dropgate.scenario import SCENARIOS, load_scenario
from tests.fuzz.damage import damaged_bytes, damaged_value, many, one_line, values

FILES = {path.stem: path.read_bytes() for path in sorted(SCENARIOS.glob("*.yaml"))}
DATA = {name: yaml.safe_load(content) for name, content in FILES.items()}
KEYS = (
    *("engine", "engine.flags", "engine.flags.speculative-config", "engine.port", "workloads.prefix", "promises"),
    *("workloads.prefix.requests", "workloads.prefix.token_ids", "workloads.gsm8k", "variants.candidate", "needs"),
)


def planned_or_refused(path: str, assignments: tuple[str, ...] = ()) -> None:
    try:
        scenario = load_scenario(path, assignments)
        assert plan_text(scenario, None)
    except InputError as error:
        one_line(error)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """A folder in which the scenarios' relative paths hold."""
    folder = tmp_path_factory.mktemp("fixtures") / "scenarios"
    folder.mkdir()
    (folder.parent / "models").symlink_to(SCENARIOS.parent / "models")
    return folder


@many
@given(st.sampled_from(sorted(FILES)).flatmap(lambda name: damaged_bytes(FILES[name])))
def test_a_file_of_any_bytes(folder, content: bytes) -> None:
    path = folder / "scenario.yaml"
    path.write_bytes(content)
    planned_or_refused(str(path))


@many
@given(st.sampled_from(sorted(DATA)).flatmap(lambda name: damaged_value(DATA[name])))
def test_a_file_of_any_values(folder, data: object) -> None:
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
    planned_or_refused(str(path))


@many
@given(st.sampled_from(sorted(DATA)), st.sampled_from(KEYS), values | st.text(max_size=30))
def test_an_assignment_of_anything(name: str, key: str, value: object) -> None:
    text = value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True)
    planned_or_refused(name, (f"{key}={text}",))
