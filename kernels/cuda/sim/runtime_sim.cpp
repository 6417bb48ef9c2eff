/* A GPU's memory and stream, simulated as strictly as a GPU has them.
 *
 * Nothing that is given to the stream runs before somebody waits for it. Memory is the host's,
 * but closed to it while no kernel runs, so that a host that reads it dies at that line; it is
 * full of NaN at first, ends at a closed page, and what is not given back is a fault. */
#include "kernels/cuda/gpu.h"

extern "C" {
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/sim/runtime_sim.h"
}

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include <sys/mman.h>

namespace {

constexpr size_t page = 4096, alignment = 256, all_memory = size_t(1) << 30;

using records = std::vector<cusim::launch_record>;

struct mapping {
    char *start;  /* of what the mapping holds, closed page at its end not counted */
    size_t bytes; /* open to kernels */
    void *given;
};

struct device : cusim::stream {
    records queue; /* given and not run */
    std::vector<mapping> memory;
    size_t used = 0;
};

device *device_of(mpt_gpu *gpu) {
    return static_cast<device *>(static_cast<cusim::stream *>(gpu->stream));
}

bool fail(mpt_gpu *gpu, const char *why) {
    if (!gpu->error)
        gpu->error = why;
    return false;
}

/* While one lives, the device's memory may be touched. */
class opened {
    const device &d;
    void protect(int how) const {
        for (const mapping &m : d.memory)
            mprotect(m.start, m.bytes, how);
    }

  public:
    explicit opened(const device &of) : d(of) { protect(PROT_READ | PROT_WRITE); }
    ~opened() { protect(PROT_NONE); }
    opened(const opened &) = delete;
    opened &operator=(const opened &) = delete;
};

void run_queue(device *d) {
    records work;
    work.swap(d->queue);
    if (work.empty())
        return;
    opened access(*d);
    for (const cusim::launch_record &record : work)
        cusim::run(record);
}

bool is_recording(const device *d) {
    return d->recording != &d->queue;
}

} // namespace

/* ---- life ---- */

extern "C" bool mpt_gpu_open(mpt_gpu *gpu) {
    device *d = new device;
    d->recording = &d->queue;
    gpu->stream = static_cast<cusim::stream *>(d);
    gpu->capability = 90;
    gpu->target = MPT_TARGET_SM90;
    gpu->n_multiprocessors = 4;
    gpu->workspace_bytes = page; /* nothing here wants more */
    gpu->memory_bytes = gpu->free_bytes = all_memory;
    std::strncpy(gpu->name, "simulator", sizeof gpu->name - 1);
    return true;
}

extern "C" void mpt_gpu_close(mpt_gpu *gpu) {
    device *d = device_of(gpu);
    if (!d)
        return;
    run_queue(d);
    if (!d->memory.empty()) {
        std::fprintf(stderr, "simulator: %zu pieces of memory were not given back\n",
                     d->memory.size());
        std::abort();
    }
    delete d;
    gpu->stream = nullptr;
}

/* ---- memory ---- */

extern "C" void *mpt_gpu_alloc(mpt_gpu *gpu, size_t bytes) {
    device *d = device_of(gpu);
    if (bytes > all_memory || d->used + bytes > all_memory)
        return nullptr;
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    size_t open = (rounded + page - 1) / page * page;
    void *at = mmap(nullptr, open + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return nullptr;
    char *start = static_cast<char *>(at);
    mprotect(start, open, PROT_READ | PROT_WRITE);
    std::memset(start, 0xff, open);
    mprotect(start, open, PROT_NONE);
    void *given = start + (open - rounded);
    d->memory.push_back({start, open, given});
    d->used += open;
    return given;
}

extern "C" void mpt_gpu_free(mpt_gpu *gpu, void *memory) {
    device *d = device_of(gpu);
    run_queue(d);
    for (size_t i = 0; memory && i < d->memory.size(); i++) {
        if (d->memory[i].given != memory)
            continue;
        munmap(d->memory[i].start, d->memory[i].bytes + page);
        d->used -= d->memory[i].bytes;
        d->memory.erase(d->memory.begin() + (ptrdiff_t)i);
        return;
    }
    if (memory)
        fail(gpu, "memory is freed that is not the device's");
}

extern "C" bool mpt_gpu_zero(mpt_gpu *gpu, void *at, size_t bytes) {
    if (is_recording(device_of(gpu)))
        return fail(gpu, "memory is zeroed while the stream is recorded");
    cusim::launch_host(gpu->stream, [=] { std::memset(at, 0, bytes); });
    return !gpu->error;
}

extern "C" bool mpt_gpu_write(mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    if (is_recording(device_of(gpu)))
        return fail(gpu, "memory is written while the stream is recorded");
    const char *first = static_cast<const char *>(from);
    auto copy = std::make_shared<std::vector<char>>(first, first + bytes);
    cusim::launch_host(gpu->stream, [=] { std::memcpy(to, copy->data(), copy->size()); });
    return !gpu->error;
}

extern "C" bool mpt_gpu_read(mpt_gpu *gpu, void *to, const void *from, size_t bytes) {
    if (!mpt_gpu_wait(gpu))
        return false;
    opened access(*device_of(gpu));
    std::memcpy(to, from, bytes);
    return true;
}

extern "C" bool mpt_gpu_wait(mpt_gpu *gpu) {
    if (is_recording(device_of(gpu)))
        return fail(gpu, "the stream is waited for while it is recorded");
    run_queue(device_of(gpu));
    return !gpu->error;
}

/* ---- recordings ---- */

extern "C" bool mpt_gpu_record(mpt_gpu *gpu) {
    device *d = device_of(gpu);
    if (is_recording(d))
        return fail(gpu, "the stream is recorded already");
    if (gpu->error)
        return false;
    d->recording = new records;
    return true;
}

extern "C" void *mpt_gpu_recorded(mpt_gpu *gpu) {
    device *d = device_of(gpu);
    if (!is_recording(d)) {
        fail(gpu, "the stream is not recorded");
        return nullptr;
    }
    records *made = d->recording;
    d->recording = &d->queue;
    return made;
}

extern "C" bool mpt_gpu_replay(mpt_gpu *gpu, void *of) {
    const records *r = static_cast<const records *>(of);
    device *d = device_of(gpu);
    d->queue.insert(d->queue.end(), r->begin(), r->end());
    return !gpu->error;
}

extern "C" void mpt_gpu_forget(mpt_gpu *gpu, void *of) {
    run_queue(device_of(gpu));
    delete static_cast<records *>(of);
}

/* ---- marks ---- */

namespace {

struct placed {
    std::chrono::steady_clock::time_point at;
    bool reached = false;
};

} // namespace

extern "C" void *mpt_gpu_mark_create(mpt_gpu *gpu) {
    return gpu->error ? nullptr : new placed;
}

extern "C" bool mpt_gpu_mark(mpt_gpu *gpu, void *mark) {
    placed *m = static_cast<placed *>(mark);
    if (is_recording(device_of(gpu)))
        return fail(gpu, "a mark is placed while the stream is recorded");
    m->reached = false;
    cusim::launch_host(gpu->stream, [=] {
        m->at = std::chrono::steady_clock::now();
        m->reached = true;
    });
    return !gpu->error;
}

extern "C" bool mpt_gpu_between(mpt_gpu *gpu, void *from, void *to, double *out_seconds) {
    const placed *a = static_cast<placed *>(from), *b = static_cast<placed *>(to);
    *out_seconds = 0;
    if (!mpt_gpu_wait(gpu))
        return false;
    if (!a->reached || !b->reached)
        return fail(gpu, "a mark is asked for that was not placed");
    *out_seconds = std::chrono::duration<double>(b->at - a->at).count();
    return true;
}

extern "C" void mpt_gpu_mark_destroy(mpt_gpu *gpu, void *mark) {
    run_queue(device_of(gpu));
    delete static_cast<placed *>(mark);
}

/* ---- for tests ---- */

extern "C" void cusim_launch_call(const mpt_kernel_args *args,
                                  void (*call)(const mpt_kernel_args *args)) {
    struct copied {
        mpt_kernel_args args;
        mpt_tensor in[MPT_MAX_IN], out[MPT_MAX_OUT];
    };
    auto copy = std::make_shared<copied>();
    copy->args = *args;
    std::copy(args->in, args->in + args->node->n_in, copy->in);
    std::copy(args->out, args->out + args->node->n_out, copy->out);
    copy->args.in = copy->in;
    copy->args.out = copy->out;
    copy->args.env = args->gpu->env;
    cusim::launch_host(args->gpu->stream, [=] { call(&copy->args); });
}
