"""The engine's environment: an allow-list of the caller's variables, then the scenario's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

PASSED = frozenset(
    {
        *("CUDA_HOME", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"),
        *("GLOO_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "VLLM_HOST_IP"),
        *("HOME", "LANG", "LC_ALL", "PATH", "SSL_CERT_FILE", "TZ", "USER", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME"),
        *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"),
    }
)
"""Passed through and recorded."""

PASSED_UNRECORDED = frozenset(
    {"HF_HOME", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"}
)
"""Passed through; only the fact that they were set is recorded, since they can hold a secret."""

ALWAYS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""The development mode brings the endpoint that resets the prefix cache."""

SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY", re.IGNORECASE)


def engine_environment(caller: Mapping[str, str], scenario: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Build the environment of one engine; temporary files go to ``scratch``, which its owner removes."""
    passed = {name: value for name, value in caller.items() if name in PASSED | PASSED_UNRECORDED}
    return {**passed, **ALWAYS, "TMPDIR": scratch, **scenario}


def recorded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what may be saved: values that can be secret are replaced, so that none reaches the evidence."""
    return {
        name: "(set, not recorded)" if name in PASSED_UNRECORDED or SECRET.search(name) else value
        for name, value in sorted(environment.items())
    }
