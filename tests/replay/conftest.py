"""vLLM's real scheduler, imported once a session; every test here carries the `replay` mark."""

from pathlib import Path

import pytest

from dropgate.replay.host import prepare_vllm

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.replay)
            # vLLM's and its dependencies' own deprecations are not this project's to fix.
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session", autouse=True)
def vllm_version():
    pytest.importorskip("torch", reason="vLLM is not installed")
    return prepare_vllm()
