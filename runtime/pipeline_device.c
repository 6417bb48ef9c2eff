/* Which device a program computes on: the host's wish and what this machine has. The module of
 * a device is opened here and nowhere else. */
#include "exec/backend.h"
#include "exec/module.h"
#include "io/system.h"
#include "pipeline_stages.h"

#include <string.h>

/* Products of floating-point numbers that a core, or a GPU, takes in a second, times two, in
 * training: assumptions, good to a factor of three. */
static const double ref_rate = 0.5e9, cpu_rate = 40e9;
static const double gpu_rates[] = {
    [MPT_TARGET_SM80] = 120e12, [MPT_TARGET_SM90] = 400e12, [MPT_TARGET_SM100] = 900e12};

static void take_host(mpt_device device, int n_threads, mpt_device_choice *out) {
    out->device = device == MPT_DEVICE_REF ? MPT_DEVICE_REF : MPT_DEVICE_CPU;
    out->backend = mpt_backend_get(out->device);
    out->rate = (out->device == MPT_DEVICE_REF ? ref_rate : cpu_rate) * n_threads;
    out->memory = mpt_system_memory();
    out->whose = "this machine";
}

/* A backend that whoever made the context has put there: a test with the simulator. */
static void take_given(const mpt_ctx *ctx, int n_threads, mpt_device_choice *out) {
    take_host(MPT_DEVICE_CPU, n_threads, out);
    out->device = MPT_DEVICE_CUDA;
    out->backend = ctx->device_backend;
}

static void take_gpu(mpt_ctx *ctx, const mpt_module_answer *answer, mpt_device_choice *out) {
    ctx->device_backend = answer->module->backend;
    out->device = MPT_DEVICE_CUDA;
    out->backend = answer->module->backend;
    out->rate = gpu_rates[answer->device.target];
    out->memory = answer->device.memory_bytes;
    out->whose = "the GPU";
    if (out->target == MPT_TARGET_HOST) /* "this machine" */
        out->target = answer->device.target;
}

mpt_status mpt_pipeline_choose_device(mpt_ctx *ctx, mpt_device asked, int n_threads,
                                      mpt_device_choice *out) {
    mpt_module_answer answer;
    if (asked == MPT_DEVICE_REF || asked == MPT_DEVICE_CPU) {
        take_host(asked, n_threads, out);
        return MPT_OK;
    }
    mpt_module_look(&mpt_module_cuda, ctx->modules, &answer);
    bool own = answer.module && answer.module->backend == ctx->device_backend;
    if (asked == MPT_DEVICE_CUDA && ctx->device_backend && !own) {
        take_given(ctx, n_threads, out);
        return MPT_OK;
    }
    if (answer.module) {
        take_gpu(ctx, &answer, out);
        return MPT_OK;
    }
    if (asked == MPT_DEVICE_AUTO) {
        take_host(MPT_DEVICE_CPU, n_threads, out);
        if (answer.found)
            memcpy(out->no_device, answer.why, sizeof out->no_device);
        return MPT_OK;
    }
    mpt_status status =
        MPT_FAIL(ctx, MPT_NO_DEVICE, MPT_NOWHERE, "no CUDA device: %s", answer.why);
    mpt_hint(ctx, "compute on the CPU with --device cpu, or with --device auto, which takes a "
                  "GPU where there is one");
    return status;
}

/* ---- what a host may ask ---- */

mpt_status mpt_device_find(mpt_ctx *ctx, mpt_device device, mpt_device_info *out) {
    mpt_module_answer answer;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, out);
    *out = (mpt_device_info){.there = false};
    if ((unsigned)device > MPT_DEVICE_CUDA)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE, "%s: device is %d, which is no device",
                        __func__, (int)device);
    if (device != MPT_DEVICE_CUDA) {
        out->there = true;
        out->memory_bytes = mpt_system_memory();
        return MPT_OK;
    }
    mpt_module_look(&mpt_module_cuda, ctx->modules, &answer);
    out->there = answer.module != NULL;
    out->target = answer.device.target;
    out->memory_bytes = answer.device.memory_bytes;
    out->major = answer.device.major;
    out->minor = answer.device.minor;
    memcpy(out->name, answer.device.name, sizeof out->name);
    memcpy(out->why, answer.why, sizeof out->why);
    return MPT_OK;
}
