"""The errors that cross stages, and the exit code of each."""

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_BAD_INPUT = 2
EXIT_INVALID = 75
"""The run says nothing about the engine (EX_TEMPFAIL): the only code that CI may retry."""
EXIT_INTERRUPTED = 130


class DropgateError(Exception):
    """A problem that one line explains; no traceback is shown for it."""

    def __str__(self) -> str:
        """Return that line: what it quotes can have line ends of its own."""
        return " ".join(super().__str__().splitlines())


class InputError(DropgateError):
    """What the user handed in cannot be used: nothing was started, nothing was written."""


class UnmetNeedError(DropgateError):
    """The scenario needs what this machine lacks: nothing was started, and nothing is said of the engine."""


class EngineError(DropgateError):
    """The engine did not boot, answer or stop as it must; the run is invalid."""


class EvidenceError(DropgateError):
    """What was seen could not be saved; nothing is said of the engine."""
