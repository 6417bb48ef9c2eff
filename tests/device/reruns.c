/* Reruns: 20 runs of a kernel give the same bytes.
 *
 * Of every quantizer and of products with a long sum, which libraries like to split. Training
 * as a whole is run again by run.sh. */
#include <stdlib.h>
#include <string.h>

#include "copies.h"

enum { RERUNS = 20 };

/* Runs it again and again over an output that is overwritten each time. */
static void run_again(rig *r, rig_call *call, rig_tensor *out, const char *name) {
    uint8_t *first = rig_host(out->bytes), *next = rig_host(out->bytes),
            *clean = rig_host(out->bytes);
    int differ = 0;
    for (int run = 0; run < RERUNS; run++) {
        rig_write(r, out->at.data, clean, out->bytes);
        rig_launch(r, call);
        rig_bytes(r, out, run ? next : first, name);
        differ += run && memcmp(first, next, out->bytes) != 0;
    }
    fprintf(r->out, "%-44s %d of %d reruns differ\n", name, differ, RERUNS - 1);
    rig_check(r, differ == 0, "%s: %d of %d reruns differ", name, differ, RERUNS - 1);
    free(first);
    free(next);
    free(clean);
}

static float *random_matrix(int64_t n, uint64_t seed) {
    float *x = rig_host((size_t)n * sizeof *x);
    case_fill(x, (size_t)n, 0, seed);
    mpt_round_to(MPT_DTYPE_BF16, x, (size_t)n);
    return x;
}

static void rerun_quantizer(rig *r, const mpt_quantizer *q, int64_t rows, int64_t cols) {
    float *values = random_matrix(rows * cols, 9);
    mpt_quantize_job job = {.q = q, .x = values, .rows = rows, .cols = cols, .bf16 = true};
    copy row = copy_of(r, &job, false);
    rig_tensor x = rig_tensor_of(r, MPT_DTYPE_BF16, MPT_STORAGE_BF16, rows, cols, values);
    rig_call call = {.node = {.op = MPT_OP_quantize, .n_in = 5, .n_out = 4},
                     .in = {&x},
                     .out = {&row.data, &row.factor}};
    call.node.attrs.has_row = true;
    call.node.attrs.row = *q;
    if (rig_prepare(r, &call)) {
        run_again(r, &call, &row.data, q->name);
        rig_done(r, &call);
    }
    rig_tensor_free(r, &x);
    copy_free(r, &row);
    free(values);
}

static void rerun_product(rig *r, int64_t m, int64_t n, int64_t k) {
    float *values = random_matrix((m + n) * k, 10);
    rig_tensor a = rig_tensor_of(r, MPT_DTYPE_BF16, MPT_STORAGE_BF16, k, m, values);
    rig_tensor b = rig_tensor_of(r, MPT_DTYPE_BF16, MPT_STORAGE_BF16, k, n, values + m * k);
    rig_tensor d = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, m, n, NULL);
    rig_call call = {.node = {.op = MPT_OP_linear_wgrad, .n_in = 6, .n_out = 1},
                     .in = {&a, &b},
                     .out = {&d}};
    call.node.attrs.alpha = 1;
    if (rig_prepare(r, &call)) {
        run_again(r, &call, &d, "linear_wgrad bf16");
        rig_done(r, &call);
    }
    rig_tensor_free(r, &a);
    rig_tensor_free(r, &b);
    rig_tensor_free(r, &d);
    free(values);
}

static void rerun_norm(rig *r, int64_t n) {
    float one = 1, *values = random_matrix(n, 11);
    rig_tensor g = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, n, 0, values);
    rig_tensor unscale = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, 1, 0, &one);
    rig_tensor norms = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, 1, 2, NULL);
    rig_call call = {.node = {.op = MPT_OP_grad_norm, .n_in = 2, .n_out = 1},
                     .in = {&g, &unscale},
                     .out = {&norms}};
    if (rig_prepare(r, &call)) {
        run_again(r, &call, &norms, "grad_norm");
        rig_done(r, &call);
    }
    rig_tensor_free(r, &g);
    rig_tensor_free(r, &unscale);
    rig_tensor_free(r, &norms);
    free(values);
}

void rig_reruns(rig *r) {
    mpt_quantizer q;
    int64_t side = r->simulated ? 48 : 1024;
    for (int i = 0; rig_quantizer(i, &q) && !(r->planted && i > 1); i++)
        rerun_quantizer(r, &q, side, side);
    rerun_product(r, side / 2, side / 2, 4 * side);
    rerun_norm(r, r->simulated ? 40000 : 10000000);
}
