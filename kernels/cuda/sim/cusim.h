/* cusim.h -- run a CUDA kernel source on the CPU for tests (C++17, GCC/Clang, header-only PoC).
 *
 * Model: a grid is a loop over blocks; a block is N fibers on one OS thread; __syncthreads and
 * *_sync warp primitives switch fibers.  __shared__ becomes a static (thread_local) object,
 * which all fibers of a block see and which blocks on other OS threads do not. CUSIM_SEED=n
 * start fibers in a shuffled order (shakes out missing barriers) CUSIM_THREADS=n   run blocks
 * on n OS threads -fsanitize=address  : global AND static shared out-of-bounds  (~
 * compute-sanitizer memcheck) -fsanitize=thread   : shared/global races between CUDA threads (~
 * racecheck), via TSan fibers Built in: barrier divergence / deadlock report (~ synccheck).
 */
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define CUSIM_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define CUSIM_TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUSIM_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define CUSIM_TSAN 1
#endif
#endif
#if defined(CUSIM_USE_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#define CUSIM_UCTX 1
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__    static const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#if defined(CUSIM_ASAN) || defined(CUSIM_TSAN)
#define __shared__ static /* plain static: ASan gives it red zones; single OS thread */
#else
#define __shared__ static thread_local
#endif

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

namespace cusim {
struct WarpRec {
    unsigned mask = 0, arrived = 0;
    uint64_t gen = 0;
    uint64_t slot[2][32];
};
struct Warp {
    WarpRec rec[6];
};
struct Block;
struct Fiber {
    uint3 tid;
    unsigned lin;
    bool done;
    Block *blk;
#if defined(CUSIM_UCTX)
    ucontext_t uc;
#else
    void *sp;
#endif
#if defined(CUSIM_TSAN)
    void *tsan = nullptr;
#endif
    void *fake = nullptr;
};
struct Block {
    dim3 gdim, bdim;
    uint3 bid;
    unsigned n = 0, live = 0, bar_arrived = 0;
    uint64_t bar_gen = 0, switches = 0;
    std::vector<Fiber> f;
    std::vector<Warp> w;
    std::vector<unsigned> next; /* next: ring of fibers */
    std::unique_ptr<unsigned char[]> dyn;
    size_t dynsz = 0;
    const std::function<void()> *body = nullptr;
    char *stacks = nullptr;
    size_t stack_sz = 0;
    unsigned nstacks = 0;
    Fiber main_f;
    unsigned start = 0;
    ~Block();
};
extern thread_local Fiber *cur;
extern uint64_t total_switches;
void syncthreads();
uint64_t warp_xchg(unsigned mask, uint64_t v, unsigned src_lane, bool barrier);
void launch(dim3 g, dim3 bd, size_t shmem, void *stream, const std::function<void()> &body);
inline void *dynamic_shared();

template <class T> inline uint64_t bits(T v) {
    static_assert(sizeof(T) <= 8, "");
    uint64_t u = 0;
    std::memcpy(&u, &v, sizeof v);
    return u;
}
template <class T> inline T unbits(uint64_t u) {
    T v;
    std::memcpy(&v, &u, sizeof v);
    return v;
}
} // namespace cusim

#define threadIdx (::cusim::cur->tid)
#define blockIdx  (::cusim::cur->blk->bid)
#define blockDim  (::cusim::cur->blk->bdim)
#define gridDim   (::cusim::cur->blk->gdim)
static inline void __syncthreads() {
    cusim::syncthreads();
}
static inline void __syncwarp(unsigned m = 0xFFFFFFFFu) {
    cusim::warp_xchg(m, 0, 0, true);
}
static inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
template <class T> static inline T __shfl_xor_sync(unsigned m, T v, int lm, int width = 32) {
    unsigned l = cusim::cur->lin & 31u, s = l ^ (unsigned)lm;
    if ((s & ~(unsigned)(width - 1)) > (l & ~(unsigned)(width - 1)))
        s = l;
    return cusim::unbits<T>(cusim::warp_xchg(m, cusim::bits(v), s, false));
}
template <class T>
static inline T __shfl_down_sync(unsigned m, T v, unsigned d, int width = 32) {
    unsigned l = cusim::cur->lin & 31u, s = l + d;
    if ((s & ~(unsigned)(width - 1)) != (l & ~(unsigned)(width - 1)))
        s = l;
    return cusim::unbits<T>(cusim::warp_xchg(m, cusim::bits(v), s, false));
}
template <class T> static inline T __shfl_sync(unsigned m, T v, int src, int width = 32) {
    unsigned l = cusim::cur->lin & 31u;
    return cusim::unbits<T>(cusim::warp_xchg(
        m, cusim::bits(v),
        (l & ~(unsigned)(width - 1)) | ((unsigned)src & (unsigned)(width - 1)), false));
}
static inline unsigned __ballot_sync(unsigned m, int p) {
    unsigned r = 0;
    for (unsigned i = 0; i < 32; i++)
        if ((m >> i) & 1u)
            r |= (cusim::warp_xchg(m, p != 0, i, false) ? 1u : 0u) << i;
    return r;
}
static inline float atomicAdd(float *p, float v) {
    uint32_t o = __atomic_load_n((uint32_t *)p, __ATOMIC_RELAXED), n;
    float f;
    do {
        std::memcpy(&f, &o, 4);
        float s = f + v;
        std::memcpy(&n, &s, 4);
    } while (!__atomic_compare_exchange_n((uint32_t *)p, &o, n, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return f;
}
static inline unsigned atomicAdd(unsigned *p, unsigned v) {
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
static inline unsigned atomicMax(unsigned *p, unsigned v) {
    unsigned o = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (o < v &&
           !__atomic_compare_exchange_n(p, &o, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return o;
}
static inline float __uint_as_float(unsigned u) {
    float f;
    std::memcpy(&f, &u, 4);
    return f;
}
static inline unsigned __float_as_uint(float f) {
    unsigned u;
    std::memcpy(&u, &f, 4);
    return u;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
template <class T> static inline T __ldg(const T *p) {
    return *p;
}

inline void *cusim::dynamic_shared() {
    return cusim::cur->blk->dyn.get();
}
