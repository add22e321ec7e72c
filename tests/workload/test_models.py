"""Shapes of models: the sizes that are published for them, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tutti_hal.errors import ShapeError
from tutti_hal.workload.shapes import LLAMA_3_8B, MODELS

#: KiB of a token in all layers; KiB of a tensor of 16 tokens.
SIZES = {
    "llama-3-8b": (128, 32),
    "llama-3-70b": (320, 32),
    "glm-4-9b-chat-1m": (80, 16),
    "glm-4-9b-chat": (40, 8),
    "qwen2.5-7b": (56, 16),
    "qwen2.5-14b": (192, 32),
    "qwen2.5-32b": (256, 32),
    "qwen2.5-72b": (320, 32),
    "qwen3-8b": (144, 32),
    "qwen3-14b": (160, 32),
    "qwen3-32b": (256, 32),
    "qwen3-30b-a3b": (96, 16),
    "qwen3-235b-a22b": (188, 16),
    # No power of two.
    "deepseek-v3": (68.625, 18),
}


@pytest.mark.parametrize("name", sorted({*SIZES, *MODELS}))
def test_a_models_sizes(name: str) -> None:
    token, tensor = SIZES[name]
    shape = MODELS[name]
    assert shape.token_bytes == token * 1024
    assert shape.tensor_bytes == tensor * 1024
    assert shape.hash_bytes == 512 * shape.token_bytes


def test_a_latent_is_one_tensor_of_a_block() -> None:
    assert MODELS["deepseek-v3"].tensors_per_layer == 32
    assert LLAMA_3_8B.tensors_per_layer == 64
    with pytest.raises(ShapeError, match="tensors_per_block = 0"):
        replace(LLAMA_3_8B, tensors_per_block=0)
