"""``--require MARK``: a skip of a required test reads as invalid, never as a pass."""

from __future__ import annotations

import pytest

from dropgate.errors import EXIT_INVALID


class Required:
    """Counts the tests of each required mark that ran, and those that were skipped."""

    def __init__(self, marks: list[str]) -> None:
        self.ran = dict.fromkeys(marks, 0)
        self.skipped = dict.fromkeys(marks, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for mark in self.ran:
            if mark in report.keywords:
                self.ran[mark] += report.when == "call" and not report.skipped
                self.skipped[mark] += report.skipped

    def unmet(self) -> list[str]:
        return [mark for mark in self.ran if self.skipped[mark] or not self.ran[mark]]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        clean = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.unmet() and clean:
            session.exitstatus = EXIT_INVALID

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for mark in self.unmet():
            terminalreporter.write_line(
                f"INVALID: --require {mark}: {self.ran[mark]} ran, {self.skipped[mark]} skipped", red=True
            )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the required marks; under xdist the controller does."""
    marks = config.getoption("--require")
    if marks and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Required(marks), "dropgate-required")
