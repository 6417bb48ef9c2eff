/* The open device, its memory and its nodes. See rig.h. */
#define _POSIX_C_SOURCE 200809L
#include "rig.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GUARD = 256, GUARD_BYTE = 0xA5 };

static void give_up(const rig *r, const char *what) {
    fprintf(stderr, "device test: %s%s%s\n", what, r && r->gpu.error ? ": " : "",
            r && r->gpu.error ? r->gpu.error : "");
    exit(1);
}

bool rig_open(rig *r, const char *folder, char why[RIG_WHY]) {
    *r = (rig){.simulated = rig_is_simulated, .planted = r->planted, .out = r->out};
    if (mpt_ctx_create(NULL, &r->ctx) != MPT_OK)
        give_up(NULL, "out of memory");
    r->backend = rig_find(folder, r->ctx, why);
    if (r->backend && r->backend->device->open(r->ctx, &r->gpu)) {
        r->env = (mpt_run_env){.seed = 42, .step = 3, .n_threads = 1, .lr = 1e-3f};
        r->env.grad_unscale = r->env.loss_seed = 1;
        r->env.bias_correction1 = r->env.bias_correction2 = 0.25f;
        rig_set_env(r);
        return true;
    }
    if (r->backend)
        snprintf(why, RIG_WHY, "%s", r->gpu.error ? r->gpu.error : "the device does not open");
    mpt_ctx_destroy(r->ctx);
    return false;
}

void rig_close(rig *r) {
    rig_free(r, (void *)(uintptr_t)r->gpu.env);
    r->backend->device->close(&r->gpu);
    mpt_ctx_destroy(r->ctx);
}

void rig_set_env(rig *r) {
    if (!r->gpu.env)
        r->gpu.env = rig_alloc(r, sizeof r->env);
    rig_write(r, (void *)(uintptr_t)r->gpu.env, &r->env, sizeof r->env);
}

bool rig_check(rig *r, bool holds, const char *format, ...) {
    va_list words;
    r->checks++;
    if (holds)
        return true;
    if (r->faults++ < RIG_SHOWN) {
        va_start(words, format);
        fputs("DIFFERS: ", r->out);
        vfprintf(r->out, format, words);
        fputc('\n', r->out);
        va_end(words);
    }
    return false;
}

/* ---- memory ---- */

void *rig_alloc(rig *r, size_t bytes) {
    void *memory = r->backend->device->alloc(&r->gpu, bytes ? bytes : 1);
    if (!memory)
        give_up(r, "the device has too little memory");
    return memory;
}

void rig_free(rig *r, void *memory) {
    if (memory)
        r->backend->device->free(&r->gpu, memory);
}

void rig_write(rig *r, void *to, const void *from, size_t bytes) {
    if (!r->backend->device->write(&r->gpu, to, from, bytes))
        give_up(r, "writing to the device failed");
}

void rig_read(rig *r, void *to, const void *from, size_t bytes) {
    if (!r->backend->device->read(&r->gpu, to, from, bytes))
        give_up(r, "reading from the device failed");
}

void *rig_host(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        give_up(NULL, "out of memory");
    return memory;
}

/* Memory for the tensor with a guard behind it, all of it the guard's byte: what a kernel
 * leaves out shows as well as what it writes beyond. */
static void take_memory(rig *r, rig_tensor *t) {
    unsigned char *fill = rig_host(t->bytes + GUARD);
    memset(fill, GUARD_BYTE, t->bytes + GUARD);
    t->at.data = rig_alloc(r, t->bytes + GUARD);
    rig_write(r, t->at.data, fill, t->bytes + GUARD);
    free(fill);
}

rig_tensor rig_tensor_of(rig *r, mpt_dtype dtype, mpt_storage storage, int64_t rows,
                         int64_t cols, const float *x) {
    rig_tensor t = {.at = {.dtype = dtype, .storage = storage, .rank = cols ? 2 : 1}};
    int64_t n = rows * (cols ? cols : 1);
    t.at.dims[0] = rows;
    t.at.dims[1] = cols;
    t.bytes = (size_t)n * mpt_storage_bytes(storage);
    take_memory(r, &t);
    if (x) {
        void *bytes = rig_host(t.bytes);
        mpt_pack(storage, x, n, bytes);
        rig_write(r, t.at.data, bytes, t.bytes);
        free(bytes);
    }
    return t;
}

rig_tensor rig_packed(rig *r, const mpt_packed *packed) {
    rig_tensor t = {.packed = *packed, .bytes = packed->bytes};
    t.at = (mpt_tensor){.dtype = MPT_DTYPE_FP32, .storage = MPT_STORAGE_PACKED, .rank = 2};
    t.at.dims[0] = packed->column ? packed->k : packed->rows;
    t.at.dims[1] = packed->column ? packed->rows : packed->k;
    take_memory(r, &t);
    return t;
}

void rig_tensor_free(rig *r, rig_tensor *t) {
    rig_free(r, t->at.data);
    t->at.data = NULL;
}

void rig_bytes(rig *r, const rig_tensor *t, void *to, const char *what) {
    unsigned char guard[GUARD];
    rig_read(r, guard, (unsigned char *)t->at.data + t->bytes, GUARD);
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != GUARD_BYTE) {
            rig_check(r, false, "%s: byte %d behind its end was written", what, i);
            break;
        }
    if (!to)
        return;
    rig_read(r, to, t->at.data, t->bytes);
    if (r->planted && r->reads++ % 2 == 0)
        ((unsigned char *)to)[t->bytes / 2] ^= 0x10;
}

/* ---- nodes ---- */

static void describe(mpt_value *value, mpt_tensor *at, const rig_tensor *t) {
    *at = (mpt_tensor){.data = NULL};
    *value = (mpt_value){.dtype = MPT_DTYPE_FP32, .producer = -1, .param = -1};
    if (!t)
        return;
    *at = t->at;
    if (t->at.storage == MPT_STORAGE_PACKED)
        at->packed = &t->packed;
    value->dtype = at->dtype;
    value->rank = at->rank;
    memcpy(value->dims, at->dims, sizeof value->dims);
}

bool rig_prepare(rig *r, rig_call *call) {
    mpt_value values[MPT_MAX_IN + MPT_MAX_OUT];
    mpt_graph graph = {.values = values, .n_values = MPT_MAX_IN + MPT_MAX_OUT};
    mpt_node *node = &call->node;
    const char *why = NULL, *last = "it has no kernel for the op";
    for (int i = 0; i < MPT_MAX_IN; i++) {
        describe(&values[i], &call->in_at[i], call->in[i]);
        node->in[i] = call->in[i] ? i : -1;
    }
    for (int i = 0; i < MPT_MAX_OUT; i++) {
        describe(&values[MPT_MAX_IN + i], &call->out_at[i], call->out[i]);
        node->out[i] = call->out[i] ? MPT_MAX_IN + i : -1;
    }
    call->kernel = NULL;
    for (const mpt_kernel *const *table = r->backend->tables; *table && !call->kernel; table++)
        for (const mpt_kernel *k = *table; k->run && !call->kernel; k++) {
            if (k->op == node->op && (!k->can || k->can(&graph, node, &why)))
                call->kernel = k;
            last = k->op == node->op && why ? why : last;
        }
    if (!rig_check(r, call->kernel != NULL, "%s: %s", mpt_op_get(node->op)->name, last))
        return false;
    size_t bytes = call->kernel->scratch ? call->kernel->scratch(&graph, node, 1) : 0;
    call->scratch = bytes ? rig_alloc(r, bytes) : NULL;
    return true;
}

void rig_launch(rig *r, const rig_call *call) {
    mpt_kernel_args args = {&call->node,   call->in_at, call->out_at,
                            call->scratch, &r->env,     &r->gpu};
    call->kernel->run(&args);
}

void rig_done(rig *r, rig_call *call) {
    rig_free(r, call->scratch);
    call->scratch = NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double rig_seconds(rig *r, const rig_call *call, int launches) {
    double best = INFINITY;
    for (int round = 0; round < 3; round++) {
        r->backend->device->wait(&r->gpu);
        double began = now();
        for (int i = 0; i < launches; i++)
            rig_launch(r, call);
        if (!r->backend->device->wait(&r->gpu))
            give_up(r, "a launch failed");
        best = fmin(best, (now() - began) / launches);
    }
    return best;
}
