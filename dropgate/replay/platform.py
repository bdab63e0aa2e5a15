"""A vLLM platform without a device. Imported by vLLM itself, see `host`."""

from __future__ import annotations

from typing import Any

from dropgate.replay.seam import vllm_module


class ReplayPlatform(vllm_module("platforms.interface").Platform):  # type: ignore[misc]  # vLLM is not typed here
    """vLLM's own formulas, and the attention backend that the layout names instead of a device's."""

    _enum = vllm_module("platforms.interface").PlatformEnum.OOT
    device_name = device_type = "cpu"
    dispatch_key = "CPU"
    attention_backend: Any = None

    @classmethod
    def support_hybrid_kv_cache(cls) -> bool:
        """Say yes: the hybrid cache manager is what is under test."""
        return True

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name a worker class, which every platform must; none is ever loaded."""
        vllm_config.parallel_config.worker_cls = "replay"

    @classmethod
    def _find_non_ssm_backends(cls, vllm_config: Any) -> list[Any]:  # noqa: ARG003  vLLM's signature
        return [cls.attention_backend]

    @classmethod
    def _find_non_ssm_backend(cls, vllm_config: Any) -> Any:  # noqa: ARG003  vLLM 0.30 asks for one
        return cls.attention_backend
