/* What ends a process: faults of the thread that runs, and launches that no device takes. */
#include "kernels/cuda/sim/cusim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>

namespace cusim {

/* Of shared memory: what is there without asking, and what compute capability 8.0 has. */
enum {
    MAX_THREADS = 1024,
    MAX_GRID_YZ = 65535,
    FREE_SHARED = 48 * 1024,
    MAX_SHARED = 163 * 1024
};

static std::map<const void *, size_t> allowed;

bool allow_shared(const void *function, size_t bytes) {
    if (bytes > MAX_SHARED)
        return false;
    allowed[function] = bytes;
    return true;
}

void fault(const char *format, ...) {
    fprintf(stderr, "cusim: kernel %s", now.kernel ? now.kernel : "?");
    if (self)
        fprintf(stderr, ", block (%u,%u,%u), thread (%u,%u,%u)", now.block_index.x,
                now.block_index.y, now.block_index.z, self->index.x, self->index.y,
                self->index.z);
    fprintf(stderr, ": ");
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    abort();
}

void check_launch(const launch_record &r) {
    uint64_t threads = static_cast<uint64_t>(r.block.x) * r.block.y * r.block.z;
    self = nullptr;
    if (threads > MAX_THREADS || r.block.z > 64)
        fault("a block of %u x %u x %u threads: at most 1024, and 64 along z", r.block.x,
              r.block.y, r.block.z);
    if (!r.grid.x || !r.grid.y || !r.grid.z || r.grid.x > INT32_MAX || r.grid.y > MAX_GRID_YZ ||
        r.grid.z > MAX_GRID_YZ)
        fault("a grid of %u x %u x %u blocks: at least 1, at most 2^31 - 1, 65535 and 65535",
              r.grid.x, r.grid.y, r.grid.z);
    if (r.shared > MAX_SHARED)
        fault("%zu bytes of shared memory: at most %d", r.shared, MAX_SHARED);
    if (r.shared > FREE_SHARED && allowed[r.function] < r.shared)
        fault("%zu bytes of shared memory, which were not asked for: more than %d have to be",
              r.shared, FREE_SHARED);
}

} // namespace cusim
