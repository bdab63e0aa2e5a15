"""Layout -> vLLM's config and its real engine core, with a stand-in where the model would be.

vLLM does all the deciding: `EngineArgs` resolves the configuration as `vllm serve` does, the platform's
formula aligns the block size, and `EngineCore` groups the layers, marks the draft groups, sizes the hash
unit and builds the scheduler. `prepare_vllm()` must have run.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dropgate.law import VariantName
from dropgate.replay.layout import Layers, Layout
from dropgate.replay.seam import vllm_module
from dropgate.replay.standin import StandInModel, standin_executor

# Bytes that the stand-in reports as free. The pool's size is given in blocks; this only has to be enough.
_PLENTY = 1 << 62


@dataclass(frozen=True)
class Variant:
    """One of the two servers that differ by one key."""

    name: VariantName
    disable_eagle_block_drop: bool


BASELINE = Variant("baseline", disable_eagle_block_drop=False)
CANDIDATE = Variant("candidate", disable_eagle_block_drop=True)
VARIANTS = (BASELINE, CANDIDATE)


def build_engine(layout: Layout, variant: Variant, model: StandInModel) -> Any:
    """Build a real `EngineCore` for one variant of a layout.

    Raises:
        ValueError: vLLM refuses the layout; the message is vLLM's own.

    """
    config = build_config(layout, variant)
    executor = standin_executor(model, layer_specs(layout, config), _stand_in_backend(layout), _PLENTY)
    config.parallel_config.distributed_executor_backend = executor
    return vllm_module("v1.engine.core").EngineCore(config, executor, log_stats=True)


def close_engine(engine: Any) -> None:
    """Let an engine go. Its own shutdown also empties a device's cache, and there is no device."""
    engine.structured_output_manager.clear_backend()
    engine.scheduler.shutdown()


def build_config(layout: Layout, variant: Variant) -> Any:
    """Resolve the configuration of one variant, the block size aligned by vLLM's own formula."""
    engine_args = vllm_module("engine.arg_utils").EngineArgs
    current_platform = vllm_module("platforms").current_platform
    type(current_platform).attention_backend = _stand_in_backend(layout)
    with tempfile.TemporaryDirectory(prefix="dropgate-replay-") as folder:
        config = engine_args(**_engine_arguments(layout, variant, Path(folder))).create_engine_config()
    current_platform.update_block_size_for_backend(config)
    return config


def _engine_arguments(layout: Layout, variant: Variant, folder: Path) -> dict[str, Any]:
    target = _write_config(folder / "target", layout.target.config, layout.target.dtype)
    arguments: dict[str, Any] = {
        "model": target,
        "tokenizer": target,
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "enforce_eager": True,
        "dtype": layout.target.dtype,
        "tensor_parallel_size": layout.target.tensor_parallel_size,
        "distributed_executor_backend": "uni" if layout.target.tensor_parallel_size == 1 else "mp",
        "enable_prefix_caching": True,
        "kv_cache_dtype": layout.cache.dtype,
        "num_gpu_blocks_override": layout.cache.num_blocks,
        "async_scheduling": False,
        "disable_log_stats": False,
        **layout.scheduler.model_dump(),
    }
    cache = {
        "block_size": layout.cache.block_size,
        "prefix_match_unit": layout.cache.prefix_match_unit,
        "prefix_cache_retention_interval": layout.cache.retention_interval,
    }
    arguments |= {key: value for key, value in cache.items() if value is not None}
    arguments["speculative_config"] = _speculative_config(layout, variant, folder)
    return arguments


def _speculative_config(layout: Layout, variant: Variant, folder: Path) -> dict[str, Any]:
    drafter = layout.drafter
    config: dict[str, Any] = {
        "method": drafter.method,
        "num_speculative_tokens": drafter.num_speculative_tokens,
    }
    if drafter.config is not None:
        config["model"] = _write_config(folder / "drafter", drafter.config, layout.target.dtype)
    if variant.disable_eagle_block_drop:
        config["disable_eagle_block_drop"] = True
    return config


def _write_config(folder: Path, config: dict[str, Any], dtype: str) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"dtype": dtype, **config}))
    return str(folder)


def _stand_in_backend(layout: Layout) -> Any:
    multiple_of = vllm_module("v1.attention.backend").MultipleOf
    sizes = [size if layout.backend.exact else multiple_of(size) for size in layout.backend.kernel_block_sizes]

    class StandInBackend(vllm_module("v1.attention.backend").AttentionBackend):  # type: ignore[misc]  # vLLM is not typed here
        """The block sizes of a backend's kernels, without the kernels."""

        @staticmethod
        def get_name() -> str:
            return layout.backend.name

        @staticmethod
        def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:  # noqa: ARG004
            return sizes

        @staticmethod
        def get_impl_cls() -> Any:
            raise NotImplementedError

        @staticmethod
        def get_builder_cls() -> Any:
            raise NotImplementedError

    return StandInBackend


def layer_specs(layout: Layout, config: Any) -> dict[str, Any]:
    """Give every layer its cache spec, by layer name, in registration order."""
    return {
        f"{layers.name}.{index}": spec
        for layers in layout.layers
        for spec in [_spec(layers, config)]
        for index in range(layers.count)
    }


def _spec(layers: Layers, config: Any) -> Any:
    if layers.kind == "mamba":
        return _mamba_spec(layers, config)
    specs = vllm_module("v1.kv_cache_interface")
    to_dtype = vllm_module("utils.torch_utils").kv_cache_dtype_str_to_dtype
    cache_dtype = config.cache_config.cache_dtype
    common: dict[str, Any] = {
        "block_size": layers.block_size or config.cache_config.block_size,
        "num_kv_heads": layers.num_kv_heads,
        "head_size": layers.head_size,
        "dtype": to_dtype(cache_dtype, config.model_config),
        "kv_quant_mode": specs.get_kv_quant_mode(cache_dtype),
    }
    if layers.kind == "full":
        return specs.FullAttentionSpec(**common)
    if layers.kind == "sliding_window":
        return specs.SlidingWindowSpec(**common, sliding_window=layers.sliding_window)
    return specs.MLAAttentionSpec(
        **common,
        cache_dtype_str=cache_dtype,
        non_causal_multi_token_decode=layers.non_causal_multi_token_decode,
    )


def _mamba_spec(layers: Layers, config: Any) -> Any:
    registry = vllm_module("model_executor.models").ModelRegistry
    model_class, _ = registry.resolve_model_cls(config.model_config.architecture, model_config=config.model_config)
    cache = config.cache_config
    return vllm_module("v1.kv_cache_interface").MambaSpec(
        shapes=tuple(model_class.get_mamba_state_shape_from_config(config)),
        dtypes=tuple(model_class.get_mamba_state_dtype_from_config(config)),
        block_size=cache.mamba_block_size,
        page_size_padded=cache.mamba_page_size_padded,
        mamba_cache_mode=cache.mamba_cache_mode,
        num_speculative_blocks=config.num_speculative_tokens,
        num_prefill_checkpoint_blocks=int(layers.prefill_checkpoint_alignment is not None),
        prefill_checkpoint_alignment=layers.prefill_checkpoint_alignment,
    )
