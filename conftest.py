"""Options, report header and the list of plugins; no logic here."""

from __future__ import annotations

import pytest

from dropgate import __version__
from dropgate.engine.interpreter import describe_engine

pytest_plugins = ["tests.support.require", "tests.support.engines", "tests.support.gpus"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the suite's own options."""
    parser.addoption(
        "--require",
        action="append",
        default=[],
        metavar="MARK",
        help="a mark whose tests must run: a skip, or none at all, makes the session invalid (exit 75)",
    )


def pytest_report_header() -> str:
    """Say what is under test."""
    identity = describe_engine()
    return f"dropgate {__version__}; engine: vLLM {identity.version or 'none'} in {identity.python}"
