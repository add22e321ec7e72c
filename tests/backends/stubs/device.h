// What device code of a vendor with the field's spelling may name: enough for a compiler to read a kernel, and no more.
// The vendor's own header sets STUB_MASK, the type of its lane mask, before it includes this.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n)

struct stub_extent {
    unsigned int x, y, z;
};
extern const stub_extent threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();
void __threadfence_block();
void __threadfence();
void __threadfence_system();
void __syncwarp(STUB_MASK mask = static_cast<STUB_MASK>(~0ull));
STUB_MASK __activemask();
STUB_MASK __ballot_sync(STUB_MASK mask, int predicate);
int __shfl_sync(STUB_MASK mask, int value, int lane);
long long __shfl_sync(STUB_MASK mask, long long value, int lane);
int __popc(unsigned int);
int __popcll(unsigned long long);
int __ffs(int);
int __ffsll(long long);
long long clock64();

unsigned int atomicAdd(unsigned int *, unsigned int);
unsigned long long atomicAdd(unsigned long long *, unsigned long long);
unsigned int atomicExch(unsigned int *, unsigned int);
unsigned long long atomicExch(unsigned long long *, unsigned long long);
unsigned int atomicCAS(unsigned int *, unsigned int, unsigned int);
unsigned long long atomicCAS(unsigned long long *, unsigned long long, unsigned long long);
