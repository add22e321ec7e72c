"""KV-cache shapes: what a model's keys and values weigh, and an honest way to make them smaller."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tutti_hal.errors import ShapeError

#: Tokens behind one ``hash_id`` of the Mooncake trace format.
TOKENS_PER_HASH = 512


@dataclass(frozen=True)
class KvShape:
    """The KV cache of one model, as this workload stores it.

    A *tensor* is the keys or the values of one block of tokens in one layer, or one latent of both: the unit of
    placement and of I/O.

    Attributes:
        model: a name for people.
        layers: transformer layers stored.
        kv_heads: heads of keys (and of values) a token.
        head_dim: elements a head.
        element_bytes: bytes an element (2 for bf16).
        tokens_per_block: tokens in one block.
        blocks_per_hash: blocks stored for each 512-token hash id; at most ``TOKENS_PER_HASH / tokens_per_block``.
        tensors_per_block: 2, keys and values; 1 where a model keeps one latent of both (MLA): then it has one "head"
            of all its elements.
    """

    model: str
    layers: int
    kv_heads: int
    head_dim: int
    element_bytes: int
    tokens_per_block: int
    blocks_per_hash: int
    tensors_per_block: int = 2

    def __post_init__(self) -> None:
        for name in (
            "layers",
            "kv_heads",
            "head_dim",
            "element_bytes",
            "tokens_per_block",
            "blocks_per_hash",
            "tensors_per_block",
        ):
            if getattr(self, name) < 1:
                raise ShapeError(f"KV shape of {self.model}", f"{name} = {getattr(self, name)}", "Give at least 1.")
        if self.blocks_per_hash > self.full_blocks_per_hash:
            raise ShapeError(
                f"KV shape of {self.model}",
                f"blocks_per_hash = {self.blocks_per_hash}, but {TOKENS_PER_HASH} tokens hold "
                f"{self.full_blocks_per_hash} blocks of {self.tokens_per_block}",
                f"Give 1 to {self.full_blocks_per_hash}.",
            )

    @property
    def full_blocks_per_hash(self) -> int:
        """Blocks that a hash id stands for when nothing is scaled down."""
        return TOKENS_PER_HASH // self.tokens_per_block

    @property
    def tensor_bytes(self) -> int:
        """Bytes of one tensor: the keys, or the values, of one block in one layer."""
        return self.tokens_per_block * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one token in one tensor."""
        return self.kv_heads * self.head_dim * self.element_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in all layers."""
        return self.layers * self.tensors_per_block * self.row_bytes

    @property
    def tensors_per_layer(self) -> int:
        """Tensors of one hash id in one layer: those of each block."""
        return self.tensors_per_block * self.blocks_per_hash

    @property
    def tensors_per_hash(self) -> int:
        """Tensors of one hash id in all layers."""
        return self.layers * self.tensors_per_layer

    @property
    def layer_bytes(self) -> int:
        """Bytes of one hash id in one layer."""
        return self.tensors_per_layer * self.tensor_bytes

    @property
    def hash_bytes(self) -> int:
        """Bytes of one hash id in all layers."""
        return self.layers * self.layer_bytes

    def scaled(self, *, layers: int | None = None, blocks_per_hash: int | None = None) -> KvShape:
        """Scales this shape down to fewer layers or blocks; ``None`` keeps a value.

        Raises:
            ShapeError: a value below 1, or more blocks than a hash id has tokens for.
        """
        return replace(
            self,
            layers=self.layers if layers is None else layers,
            blocks_per_hash=self.blocks_per_hash if blocks_per_hash is None else blocks_per_hash,
        )


def _of_model(model: str, layers: int, kv_heads: int, head_dim: int, tensors_per_block: int = 2) -> KvShape:
    """A model in bf16, in blocks of 16 tokens."""
    return KvShape(model, layers, kv_heads, head_dim, 2, 16, TOKENS_PER_HASH // 16, tensors_per_block)


#: Shapes of models by a name for command lines, as their published configurations say.
MODELS: dict[str, KvShape] = {
    shape.model.lower(): shape
    for shape in (
        _of_model("Llama-3-8B", 32, 8, 128),
        _of_model("Llama-3-70B", 80, 8, 128),
        _of_model("GLM-4-9B-chat-1M", 40, 4, 128),
        _of_model("GLM-4-9B-chat", 40, 2, 128),
        _of_model("Qwen2.5-7B", 28, 4, 128),
        _of_model("Qwen2.5-14B", 48, 8, 128),
        _of_model("Qwen2.5-32B", 64, 8, 128),
        _of_model("Qwen2.5-72B", 80, 8, 128),
        _of_model("Qwen3-8B", 36, 8, 128),
        _of_model("Qwen3-14B", 40, 8, 128),
        _of_model("Qwen3-32B", 64, 8, 128),
        _of_model("Qwen3-30B-A3B", 48, 4, 128),
        _of_model("Qwen3-235B-A22B", 94, 4, 128),
        # One latent of 512 elements and 64 of position, for keys and values together.
        _of_model("DeepSeek-V3", 61, 1, 576, 1),
    )
}

#: 32 layers, 8 KV heads of 128, bf16, blocks of 16 tokens: 32 KiB a tensor, 64 MiB a hash id.
LLAMA_3_8B = MODELS["llama-3-8b"]


def scaling_note(full: KvShape, used: KvShape) -> str:
    """One line saying what of ``full`` is left in ``used``; empty when nothing was scaled."""
    parts = []
    if used.layers != full.layers:
        parts.append(f"{used.layers} of {full.layers} layers")
    if used.blocks_per_hash != full.blocks_per_hash:
        parts.append(f"{used.blocks_per_hash} of {full.blocks_per_hash} blocks of each {TOKENS_PER_HASH}-token hash id")
    if not parts:
        return ""
    share = used.hash_bytes / full.hash_bytes
    return f"{' and '.join(parts)} ({share:.2%} of the model's KV bytes; every tensor keeps its full size)"
