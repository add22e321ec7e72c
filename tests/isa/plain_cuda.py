"""What a CUDA programmer writes by hand for each primitive of the contract.

Written from the CUDA C++ Programming Guide (threads, warps, fences, atomics, and the ``__nv_atomic`` functions of 12.8)
and the PTX ISA where CUDA C++ has no word for it. Nothing here is taken from ``backends/cuda``, which it judges.
"""

from __future__ import annotations

from dataclasses import dataclass

_SCOPES = {"device": "__NV_THREAD_SCOPE_DEVICE", "system": "__NV_THREAD_SCOPE_SYSTEM"}
_ORDERS = {"relaxed": "__NV_ATOMIC_RELAXED", "acquire": "__NV_ATOMIC_ACQUIRE", "release": "__NV_ATOMIC_RELEASE"}
_WORDS = {"32": "unsigned int", "64": "unsigned long long"}

#: A shared word is its number, and a wave's mask an unsigned one.
TYPES = {
    "uint32_t": "unsigned int",
    "uint64_t": "unsigned long long",
    "tt_mask": "unsigned int",
    "tt_u32x4": "uint4",
    "tt_word32 *": "unsigned int *",
    "tt_word64 *": "unsigned long long *",
    "tt_quad *": "uint4 *",
    "tt_mmio32 *": "unsigned int *",
}

#: The other words of the generated headers. Types first: an attribute's argument may be one.
WORDS = {
    **{name.removesuffix(" *"): kind.removesuffix(" *") for name, kind in TYPES.items() if name.startswith("tt_")},
    "TT_DEVICE": "__device__",
    "TT_INLINE": "__forceinline__",
    "TT_RESTRICT": "__restrict__",
    "TT_ENTRY": 'extern "C" __global__',
    "TT_LAUNCH_BOUNDS": "__launch_bounds__",
    "TT_WAVE_WIDTH": "32u",
    "TT_HAS_WAVE_BALLOT": "1",
}

#: Expressions over the parameters' names, as the contract names them.
EXPRESSIONS: dict[str, str] = {
    **{f"geometry.thread.{dim}": f"threadIdx.{dim}" for dim in "xyz"},
    **{f"geometry.block.{dim}": f"blockIdx.{dim}" for dim in "xyz"},
    **{f"geometry.block_size.{dim}": f"blockDim.{dim}" for dim in "xyz"},
    **{f"geometry.grid_size.{dim}": f"gridDim.{dim}" for dim in "xyz"},
    "wave.sync": "__syncwarp()",
    "wave.active": "__activemask()",
    "wave.ballot": "__ballot_sync(m, p)",
    "wave.shuffle.u32": "__shfl_sync(m, v, src_lane)",
    "wave.shuffle.u64": "__shfl_sync(m, v, src_lane)",
    "wave.sync_mask": "__syncwarp(m)",
    "wave.mask_popcount": "__popc(m)",
    "wave.mask_first": "__ffs(m) - 1",
    "wave.mask_below": "(1u << lane) - 1u",
    "barrier.block": "__syncthreads()",
    "fence.block": "__threadfence_block()",
    "fence.device": "__threadfence()",
    "fence.system": "__threadfence_system()",
    **{
        f"load.{order}.{scope}.u{bits}": (
            # The function takes no pointer to const.
            f"__nv_atomic_load_n(({_WORDS[bits]} *)p, {_ORDERS[order]}, {_SCOPES[scope]})"
        )
        for order in ("relaxed", "acquire")
        for scope in _SCOPES
        for bits in _WORDS
    },
    **{
        f"store.{order}.{scope}.u{bits}": f"__nv_atomic_store_n(p, v, {_ORDERS[order]}, {_SCOPES[scope]})"
        for order in ("relaxed", "release")
        for scope in _SCOPES
        for bits in _WORDS
    },
    **{
        f"atomic.{op}.{scope}.u{bits}": f"__nv_atomic_{name}(p, v, __NV_ATOMIC_RELAXED, {_SCOPES[scope]})"
        for op, name in (("add", "fetch_add"), ("exchange", "exchange_n"), ("or", "fetch_or"))
        for scope in _SCOPES
        for bits in _WORDS
    },
    "time.sleep": "__nanosleep(ns)",
    "time.pause": "__nanosleep(20)",
    "control.trap": "__trap()",
}

_CRC = """unsigned int state = crc;
for (int byte = 0; byte < {bytes}; ++byte) {{
    state ^= (unsigned int)(v >> (8 * byte)) & 0xff;
    for (int bit = 0; bit < 8; ++bit)
        state = state & 1 ? (state >> 1) ^ 0x82f63b78u : state >> 1;
}}
return state;"""

#: Bodies of a function with the contract's parameters, for what is no expression.
BODIES: dict[str, str] = {
    "geometry.lane": 'unsigned int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); return lane;',
    "wave.elect": 'unsigned int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane)); return lane == __ffs(m) - 1;',
    **{
        f"load.vector.relaxed.{scope}.u32x4": (
            f'uint4 v; asm volatile("ld.relaxed.{ptx}.v4.u32 {{%0, %1, %2, %3}}, [%4];"'
            ' : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory"); return v;'
        )
        for scope, ptx in (("device", "gpu"), ("system", "sys"))
    },
    **{
        f"store.vector.relaxed.{scope}.u32x4": (
            f'asm volatile("st.relaxed.{ptx}.v4.u32 [%0], {{%1, %2, %3, %4}};"'
            ' :: "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");'
        )
        for scope, ptx in (("device", "gpu"), ("system", "sys"))
    },
    **{
        f"atomic.cas.{scope}.u{bits}": (
            "__nv_atomic_compare_exchange_n(p, &expected, desired, false,"
            f" __NV_ATOMIC_RELAXED, __NV_ATOMIC_RELAXED, {_SCOPES[scope]}); return expected;"
        )
        for scope in _SCOPES
        for bits in _WORDS
    },
    "crc32c.u32": _CRC.format(bytes=4),
    "crc32c.u64": _CRC.format(bytes=8),
    "mmio.store.u32": 'asm volatile("st.mmio.relaxed.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");',
    "mmio.load.u32": (
        "unsigned int v;"
        ' asm volatile("ld.mmio.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v;'
    ),
    "time.clock": (
        'unsigned long long now; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory"); return now;'
    ),
}

#: Kernels of what is no function: how a template writes it, and how it is written by hand.
MACROS: dict[str, tuple[str, str]] = {
    "attribute.device": (
        "TT_DEVICE uint32_t far(uint32_t v) { return 3 * v + 1; }\n"
        'extern "C" __global__ void NAME(uint32_t v, uint32_t *out) { *out = far(v); }',
        "__device__ unsigned int far(unsigned int v) { return 3 * v + 1; }\n"
        'extern "C" __global__ void NAME(unsigned int v, unsigned int *out) { *out = far(v); }',
    ),
    "attribute.inline": (
        "TT_DEVICE TT_INLINE uint32_t near(uint32_t v) { return 5 * v + 1; }\n"
        'extern "C" __global__ void NAME(uint32_t v, uint32_t *out) { *out = near(v); }',
        "__device__ __forceinline__ unsigned int near(unsigned int v) { return 5 * v + 1; }\n"
        'extern "C" __global__ void NAME(unsigned int v, unsigned int *out) { *out = near(v); }',
    ),
    # The second read of in[0] need not be made again, because out is nowhere in it.
    "attribute.restrict": (
        'extern "C" __global__ void NAME(const uint32_t *TT_RESTRICT in, uint32_t *TT_RESTRICT out) {\n'
        "    out[0] = in[0];\n    out[1] = in[0];\n}",
        'extern "C" __global__ void NAME(const unsigned int *__restrict__ in, unsigned int *__restrict__ out) {\n'
        "    out[0] = in[0];\n    out[1] = in[0];\n}",
    ),
    "attribute.launch_bounds": (
        'extern "C" __global__ void TT_LAUNCH_BOUNDS(96) NAME(uint32_t *out) { *out = 1; }',
        'extern "C" __global__ void __launch_bounds__(96) NAME(unsigned int *out) { *out = 1; }',
    ),
    "attribute.entry": (
        "TT_ENTRY void NAME(uint32_t *out) { *out = 2; }",
        'extern "C" __global__ void NAME(unsigned int *out) { *out = 2; }',
    ),
    "attribute.shared": (
        'extern "C" __global__ void NAME(uint64_t *out) {\n'
        "    TT_SHARED(tt_word32, words, 24);\n"
        "    *out = reinterpret_cast<uint64_t>(&words[threadIdx.x]);\n}",
        'extern "C" __global__ void NAME(unsigned long long *out) {\n'
        "    __shared__ unsigned int words[24];\n"
        "    *out = reinterpret_cast<unsigned long long>(&words[threadIdx.x]);\n}",
    ),
    "debug.print": (
        'extern "C" __global__ void NAME(uint32_t v) { TT_PRINT("%u of %u\\n", v, 7u); }',
        'extern "C" __global__ void NAME(unsigned int v) { printf("%u of %u\\n", v, 7u); }',
    ),
}


#: Atomics as CUDA has had them since long, whose compiler makes more of an address that it knows.
CLASSIC: dict[str, str] = {
    f"atomic.{op}.{scope}.u{bits}": f"{name}{suffix}({given})"
    for op, name, given in (
        ("add", "atomicAdd", "p, v"),
        ("exchange", "atomicExch", "p, v"),
        ("or", "atomicOr", "p, v"),
        ("cas", "atomicCAS", "p, expected, desired"),
    )
    for scope, suffix in (("device", ""), ("system", "_system"))
    for bits in _WORDS
}


@dataclass(frozen=True)
class Dearer:
    """A primitive that costs more than the plain spelling.

    Attributes:
        most: instructions more, at the most.
        why: what they are for.
    """

    most: int
    why: str


#: Rows whose listing is not the plain one's, each with what it may cost; all others are equal, byte for byte.
DEARER: dict[str, Dearer] = {
    "wave.mask_below": Dearer(2, "the lane may be as large as the width, where C++ leaves the shift undefined"),
    "crc32c.u32": Dearer(0, "another loop of the same arithmetic; it must not be longer"),
    "crc32c.u64": Dearer(0, "another loop of the same arithmetic; it must not be longer"),
}

#: Instructions more, at the most, than CLASSIC where the compiler knows that a word is in global memory. An atomic of
#: the contract takes a word of any memory; one of 64 bits is followed by what does the same to a block's memory, where
#: the first instruction fails. Where an address was read from memory, as the ring's are, plain CUDA has that as well.
KNOWN_PLACE: dict[str, int] = {
    f"atomic.{op}.{scope}.u{bits}": more if bits == "64" else 0
    for op, more in (("add", 24), ("exchange", 6), ("or", 24), ("cas", 11))
    for scope in _SCOPES
    for bits in _WORDS
}

#: What gives the promise that a plain spelling lacks, for where both must promise the same.
AS_CONTRACTED = {"wave.mask_below": "lane < 32 ? (1u << lane) - 1u : ~0u"}
