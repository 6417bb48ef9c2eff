/* The simulator: CUDA kernels compiled as C++17 and run on the CPU, for tests.
 *
 * A grid is a loop over its blocks; the threads of a block run one after the other on one OS
 * thread until one has to wait at a barrier or for its warp, which then keeps its fiber while
 * the next thread starts on another. A kernel that never waits is a plain loop. __shared__ is a
 * static variable, so AddressSanitizer puts red zones around it.
 *
 * What a device would hang on or leave undefined ends the process with a message that names
 * kernel, block and thread: a barrier that not all threads reach, threads that meet at
 * different barriers, a lane outside its mask, a launch beyond the limits of a device. Not
 * simulated: weak memory order, races between blocks, grid-wide barriers, inline PTX, speed. */
#ifndef MPT_KERNELS_CUDA_SIM_CUSIM_H
#define MPT_KERNELS_CUDA_SIM_CUSIM_H

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/sim/control.h"
#include "kernels/cuda/sim/types.h"

#define __global__
#define __device__
#define __host__
#define __constant__    static const
#define __shared__      static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

namespace cusim {

/* ---- launches ---- */

/* A launch with its arguments bound. A record without threads is work of the host in a stream,
 * as a copy is: its body runs once. */
struct launch_record {
    const char *kernel;
    const void *function; /* its address */
    dim3 grid, block;
    size_t shared; /* bytes of dynamic shared memory */
    std::function<void()> body;
};

/* While `recording` is set, what is launched is appended there instead of being run. */
struct stream {
    std::vector<launch_record> *recording = nullptr;
};

/* Runs, or records. `on` is a stream, or NULL. */
void launch(launch_record record, void *on);

void launch_host(void *on, std::function<void()> body);

/* A call of a kernel with its arguments as they are now: in a stream it runs when what they
 * were made from is gone. */
template <class... P, class... A>
std::function<void()> bound(void (*kernel)(P...), A &&...arguments) {
    std::tuple<P...> held(std::forward<A>(arguments)...);
    return [kernel, held] { std::apply(kernel, held); };
}

/* Runs a record now. */
void run(const launch_record &record);

static inline void shuffle(uint64_t seed) {
    cusim_shuffle(seed);
}

/* ---- the thread that runs ---- */

struct fiber;

struct thread {
    uint3 index;
    unsigned linear;
    fiber *on;        /* while it waits */
    const char *file; /* where it waits, or NULL */
    int line;
    unsigned mask; /* the lanes that it waits for; 0: for its block */
    bool exited;
};

struct position {
    const char *kernel;
    dim3 grid, block;
    uint3 block_index;
};

extern thread *self;
extern position now;

void *dynamic_shared();

/* Ends the process with a message naming the thread that runs. */
[[noreturn]] void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Refuses a launch beyond what every device takes that the kernels are built for. */
void check_launch(const launch_record &record);

/* From now on the kernel may be launched with so much dynamic shared memory, as after
 * cudaFuncSetAttribute; false, and nothing has changed, where that is more than there is. */
bool allow_shared(const void *function, size_t bytes);

/* ---- meetings ---- */

struct votes {
    unsigned yes, all;
};

/* Waits for all threads of the block that have not returned. */
votes meet_block(bool vote, const char *file, int line);

/* Waits for the lanes of the mask; the values that they brought, by lane. The array holds until
 * this thread meets the same lanes again. */
const uint64_t *meet_warp(unsigned mask, uint64_t value, const char *file, int line);

} // namespace cusim

#define threadIdx (::cusim::self->index)
#define blockIdx  (::cusim::now.block_index)
#define blockDim  (::cusim::now.block)
#define gridDim   (::cusim::now.grid)
#define warpSize  32

#include "kernels/cuda/sim/intrinsics.h"
#include "kernels/cuda/sim/warp.h"

#endif
