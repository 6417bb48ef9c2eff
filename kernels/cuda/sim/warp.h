/* Barriers, shuffles and votes. Each names the line of the kernel that calls it, by which
 * threads that meet at different places are found. */
#ifndef MPT_KERNELS_CUDA_SIM_WARP_H
#define MPT_KERNELS_CUDA_SIM_WARP_H

#include <string.h>

#include "kernels/cuda/sim/cusim.h"

#define CUSIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(CUSIM_HERE) {
    ::cusim::meet_block(false, file, line);
}

static inline int __syncthreads_or(int vote, CUSIM_HERE) {
    return ::cusim::meet_block(vote != 0, file, line).yes != 0;
}

static inline int __syncthreads_and(int vote, CUSIM_HERE) {
    ::cusim::votes v = ::cusim::meet_block(vote != 0, file, line);
    return v.yes == v.all;
}

static inline int __syncthreads_count(int vote, CUSIM_HERE) {
    return static_cast<int>(::cusim::meet_block(vote != 0, file, line).yes);
}

static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, CUSIM_HERE) {
    ::cusim::meet_warp(mask, 0, file, line);
}

namespace cusim {

template <class T> static inline uint64_t bits_of(T v) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take numbers of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    return bits;
}

static inline unsigned lane() {
    return self->linear % 32;
}

/* What the lane `from` brought. A lane outside the mask brings nothing: the number is undefined
 * on a device, and here all ones, which is NaN, so that its use shows. */
template <class T>
static inline T shuffled(unsigned mask, T v, unsigned from, const char *file, int line) {
    const uint64_t *brought = meet_warp(mask, bits_of(v), file, line);
    uint64_t bits = mask >> from & 1u ? brought[from] : ~uint64_t{0};
    T out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static inline unsigned first_of(unsigned lane_index, int width) {
    return lane_index & ~(static_cast<unsigned>(width) - 1u);
}

} // namespace cusim

template <class T>
static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32, CUSIM_HERE) {
    unsigned within = static_cast<unsigned>(from) & (static_cast<unsigned>(width) - 1u);
    unsigned at = ::cusim::first_of(::cusim::lane(), width) | within;
    return ::cusim::shuffled(mask, v, at, file, line);
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, CUSIM_HERE) {
    unsigned lane = ::cusim::lane(), at = (lane ^ static_cast<unsigned>(with)) & 31u;
    if (::cusim::first_of(at, width) > ::cusim::first_of(lane, width))
        at = lane;
    return ::cusim::shuffled(mask, v, at, file, line);
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, CUSIM_HERE) {
    unsigned lane = ::cusim::lane(), at = lane + by;
    if (::cusim::first_of(at, width) != ::cusim::first_of(lane, width))
        at = lane;
    return ::cusim::shuffled(mask, v, at, file, line);
}

template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, CUSIM_HERE) {
    unsigned lane = ::cusim::lane(), at = lane - by;
    if (by > lane || ::cusim::first_of(at, width) != ::cusim::first_of(lane, width))
        at = lane;
    return ::cusim::shuffled(mask, v, at, file, line);
}

/* ---- votes ---- */

static inline unsigned __ballot_sync(unsigned mask, int vote, CUSIM_HERE) {
    const uint64_t *brought = ::cusim::meet_warp(mask, vote != 0, file, line);
    unsigned yes = 0;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1u && brought[i])
            yes |= 1u << i;
    return yes;
}

static inline int __any_sync(unsigned mask, int vote, CUSIM_HERE) {
    return __ballot_sync(mask, vote, file, line) != 0;
}

static inline int __all_sync(unsigned mask, int vote, CUSIM_HERE) {
    return __ballot_sync(mask, vote, file, line) == mask;
}

template <class T> static inline unsigned __match_any_sync(unsigned mask, T v, CUSIM_HERE) {
    uint64_t mine = ::cusim::bits_of(v);
    const uint64_t *brought = ::cusim::meet_warp(mask, mine, file, line);
    unsigned same = 0;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1u && brought[i] == mine)
            same |= 1u << i;
    return same;
}

namespace cusim {

template <class T, class Op>
static inline T reduced(unsigned mask, T v, Op op, const char *file, int line) {
    const uint64_t *brought = meet_warp(mask, bits_of(v), file, line);
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1u && i != lane()) {
            T other;
            memcpy(&other, &brought[i], sizeof other);
            v = op(v, other);
        }
    return v;
}

} // namespace cusim

#define CUSIM_REDUCE(name, T, expression)                                                      \
    static inline T __reduce_##name##_sync(unsigned mask, T v, CUSIM_HERE) {                   \
        auto op = [](T a, T b) -> T { return expression; };                                    \
        return ::cusim::reduced(mask, v, op, file, line);                                      \
    }
CUSIM_REDUCE(add, unsigned, a + b)
CUSIM_REDUCE(add, int, a + b)
CUSIM_REDUCE(min, unsigned, a < b ? a : b)
CUSIM_REDUCE(min, int, a < b ? a : b)
CUSIM_REDUCE(max, unsigned, a > b ? a : b)
CUSIM_REDUCE(max, int, a > b ? a : b)
CUSIM_REDUCE(and, unsigned, a &b)
CUSIM_REDUCE(or, unsigned, a | b)
CUSIM_REDUCE(xor, unsigned, a ^ b)
#undef CUSIM_REDUCE

#endif
