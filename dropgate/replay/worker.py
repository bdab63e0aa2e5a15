"""Replay scenarios in this interpreter: `python -m dropgate.replay.worker OUT SCENARIO.yaml...`.

Each one's result is written to OUT as NAME.json. Importing vLLM takes far longer than a replay, so many
share it.

Runs where the vLLM under test is installed, which may be another interpreter than the gate's own; needs only
vLLM's own dependencies there. Exit codes are those of `dropgate.errors`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dropgate.errors import EXIT_BAD_INPUT, EXIT_INVALID, EXIT_PASS, InputError
from dropgate.replay.host import prepare_vllm
from dropgate.replay.layout import load_replay


def main(arguments: list[str]) -> int:
    """Replay every scenario named; say in one line on stderr what stood in the way, and stop there."""
    out = Path(arguments[0])
    try:
        scenarios = [(Path(path), load_replay(Path(path))) for path in arguments[1:]]
        version = prepare_vllm()
    except (InputError, ModuleNotFoundError) as error:
        return _refuse(EXIT_BAD_INPUT, str(error))
    from dropgate.replay.drive import ReplayStuckError, replay_scenario

    for path, scenario in scenarios:
        try:
            seen = replay_scenario(scenario, version)
        except ReplayStuckError as error:
            return _refuse(EXIT_INVALID, f"{path}: {error}")
        except (ValueError, AssertionError, NotImplementedError) as error:
            return _refuse(EXIT_BAD_INPUT, f"{path}: 'layout': vLLM {version} refuses it: {_one_line(error)}")
        (out / f"{scenario.name}.json").write_text(seen.model_dump_json())
    return EXIT_PASS


def _refuse(code: int, message: str) -> int:
    sys.stderr.write(f"dropgate: {message}\n")
    return code


def _one_line(error: Exception) -> str:
    """Reduce pydantic's paragraphs to the sentence that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("Value error")]
    return (telling or lines or [type(error).__name__])[0].removeprefix("Value error, ").split(" [type=")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
