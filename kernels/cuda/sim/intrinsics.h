/* Atomics, and device functions that C++ lacks or that CUDA rounds in a stated way.
 *
 * One thread runs at a time, so an atomic is a plain read and write. The `_rn` functions are
 * single IEEE operations, which the host's compiler must not contract (-ffp-contract=off). */
#ifndef MPT_KERNELS_CUDA_SIM_INTRINSICS_H
#define MPT_KERNELS_CUDA_SIM_INTRINSICS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cuda/sim/cusim.h"

/* ---- atomics: each returns what was there ---- */

#define CUSIM_ATOMIC(name, T, expression)                                                      \
    static inline T atomic##name(T *p, T v) {                                                  \
        T old = *p;                                                                            \
        *p = static_cast<T>(expression);                                                       \
        return old;                                                                            \
    }
#define CUSIM_ATOMICS(T)                                                                       \
    CUSIM_ATOMIC(Add, T, old + v)                                                              \
    CUSIM_ATOMIC(Max, T, old > v ? old : v)                                                    \
    CUSIM_ATOMIC(Min, T, old < v ? old : v)                                                    \
    CUSIM_ATOMIC(And, T, old &v)                                                               \
    CUSIM_ATOMIC(Or, T, old | v)                                                               \
    CUSIM_ATOMIC(Xor, T, old ^ v)                                                              \
    CUSIM_ATOMIC(Exch, T, v)                                                                   \
    static inline T atomicCAS(T *p, T expected, T v) {                                         \
        T old = *p;                                                                            \
        *p = old == expected ? v : old;                                                        \
        return old;                                                                            \
    }
CUSIM_ATOMICS(int)
CUSIM_ATOMICS(unsigned)
CUSIM_ATOMICS(unsigned long long)
CUSIM_ATOMIC(Add, float, old + v)
CUSIM_ATOMIC(Add, double, old + v)
CUSIM_ATOMIC(Exch, float, v)
CUSIM_ATOMIC(Sub, int, old - v)
CUSIM_ATOMIC(Sub, unsigned, old - v)
#undef CUSIM_ATOMICS
#undef CUSIM_ATOMIC

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

[[noreturn]] static inline void __trap() {
    ::cusim::fault("__trap");
}

/* ---- memory ---- */

template <class T> static inline T __ldg(const T *p) {
    return *p;
}
template <class T> static inline T __ldcs(const T *p) {
    return *p;
}
template <class T> static inline void __stcs(T *p, T v) {
    *p = v;
}

/* ---- bits ---- */

static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
static inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++)
        y |= (x >> i & 1u) << (31 - i);
    return y;
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        unsigned s = selector >> 4 * i & 15u;
        unsigned byte = static_cast<unsigned>(bytes >> 8 * (s & 7u)) & 0xFFu;
        if (s & 8u)
            byte = byte & 0x80u ? 0xFFu : 0u;
        out |= byte << 8 * i;
    }
    return out;
}

template <class To, class From> static inline To cusim_bits_as(From x) {
    static_assert(sizeof(To) == sizeof(From), "");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __uint_as_float(unsigned x) {
    return cusim_bits_as<float>(x);
}
static inline unsigned __float_as_uint(float x) {
    return cusim_bits_as<unsigned>(x);
}
static inline float __int_as_float(int x) {
    return cusim_bits_as<float>(x);
}
static inline int __float_as_int(float x) {
    return cusim_bits_as<int>(x);
}
static inline double __longlong_as_double(long long x) {
    return cusim_bits_as<double>(x);
}
static inline long long __double_as_longlong(double x) {
    return cusim_bits_as<long long>(x);
}

/* ---- single operations, rounded to nearest even ---- */

#define CUSIM_ROUNDED(prefix, T, root, fused)                                                  \
    static inline T __##prefix##add_rn(T a, T b) {                                             \
        return a + b;                                                                          \
    }                                                                                          \
    static inline T __##prefix##sub_rn(T a, T b) {                                             \
        return a - b;                                                                          \
    }                                                                                          \
    static inline T __##prefix##mul_rn(T a, T b) {                                             \
        return a * b;                                                                          \
    }                                                                                          \
    static inline T __##prefix##div_rn(T a, T b) {                                             \
        return a / b;                                                                          \
    }                                                                                          \
    static inline T __##prefix##sqrt_rn(T a) {                                                 \
        return root(a);                                                                        \
    }                                                                                          \
    static inline T __##fused##_rn(T a, T b, T c) {                                            \
        return fused(a, b, c);                                                                 \
    }
CUSIM_ROUNDED(f, float, sqrtf, fmaf)
CUSIM_ROUNDED(d, double, sqrt, fma)
#undef CUSIM_ROUNDED

static inline float __frcp_rn(float x) {
    return 1.0f / x;
}
/* Of a device's rsqrtf the last place is not promised; kernels that need it write 1 / sqrtf. */
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
static inline int __float2int_rn(float x) {
    return static_cast<int>(nearbyintf(x));
}
static inline int __float2int_rz(float x) {
    return static_cast<int>(x);
}
static inline float __double2float_rn(double x) {
    return static_cast<float>(x);
}
static inline float __int2float_rn(int x) {
    return static_cast<float>(x);
}
static inline float __uint2float_rn(unsigned x) {
    return static_cast<float>(x);
}

/* ---- min and max of one type ---- */

#define CUSIM_MIN_MAX(T)                                                                       \
    static inline T min(T a, T b) {                                                            \
        return a < b ? a : b;                                                                  \
    }                                                                                          \
    static inline T max(T a, T b) {                                                            \
        return a > b ? a : b;                                                                  \
    }
CUSIM_MIN_MAX(int)
CUSIM_MIN_MAX(unsigned)
CUSIM_MIN_MAX(long)
CUSIM_MIN_MAX(unsigned long)
CUSIM_MIN_MAX(long long)
CUSIM_MIN_MAX(unsigned long long)
#undef CUSIM_MIN_MAX
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline double min(double a, double b) {
    return fmin(a, b);
}
static inline double max(double a, double b) {
    return fmax(a, b);
}

#endif
