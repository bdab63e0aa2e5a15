"""Ways to break vLLM on purpose, as a plugin of vLLM's: ``vllm.general_plugins``, loaded in each of its processes.

Inert, and free, unless ``DROPGATE_FAULT`` names a switch folder (see ``switch.py``). An engine that has a switch says
so in every /metrics text, and its environment is part of the evidence: the judge never lets such a run pass.
"""

import os

VARIABLE = "DROPGATE_FAULT"
"""Names the folder of the fault switch; set by the self-test alone."""
MARKER = "dropgate_fault"
"""What the names of the series start with that a breakable engine adds to its /metrics."""


def register() -> None:
    """Install the patches where a switch is named; else do nothing. vLLM calls this in every process."""
    if folder := os.environ.get(VARIABLE):
        from dropgate.faults.install import install

        install(folder)
