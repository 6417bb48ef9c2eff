/* How fast the quantizers are: bytes that they read and write a second, as a share of what a
 * copy in the device's memory reaches.
 *
 * A matrix of 8192 x 8192 in BF16, both copies of it. The share says nothing on the simulator,
 * where the part runs once over little for its own sake. */
#include <math.h>
#include <stdlib.h>

#include "copies.h"

/* GB/s of `cast` from BF16 to BF16, which reads and writes each byte once. */
static double copy_speed(rig *r, rig_tensor *x, int launches) {
    rig_tensor y =
        rig_tensor_of(r, MPT_DTYPE_BF16, MPT_STORAGE_BF16, x->at.dims[0], x->at.dims[1], NULL);
    rig_call call = {
        .node = {.op = MPT_OP_cast, .n_in = 1, .n_out = 1}, .in = {x}, .out = {&y}};
    double speed = NAN;
    if (rig_prepare(r, &call)) {
        speed = 2e-9 * (double)x->bytes / rig_seconds(r, &call, launches);
        rig_done(r, &call);
    }
    rig_tensor_free(r, &y);
    return speed;
}

static void time_quantizer(rig *r, const mpt_quantizer *q, rig_tensor *x, double plain,
                           int launches) {
    int64_t rows = x->at.dims[0], cols = x->at.dims[1];
    mpt_packed row = mpt_packed_of(q, false, rows, cols, false);
    mpt_packed col = mpt_packed_of(q, true, rows, cols, false);
    int64_t factors = q->outer == MPT_OUTER_ROW ? rows > cols ? rows : cols : 1;
    rig_tensor row_data = rig_packed(r, &row), col_data = rig_packed(r, &col);
    rig_tensor factor[2];
    for (int i = 0; i < 2; i++)
        factor[i] = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, factors, 0, NULL);
    rig_call call = {.node = {.op = MPT_OP_quantize, .n_in = 5, .n_out = 4},
                     .in = {x},
                     .out = {&row_data, &factor[0], &col_data, &factor[1]}};
    call.node.attrs.has_row = call.node.attrs.has_col = true;
    call.node.attrs.row = call.node.attrs.col = *q;
    if (rig_prepare(r, &call)) {
        double seconds = rig_seconds(r, &call, launches);
        double speed = 1e-9 * (double)(x->bytes + row.bytes + col.bytes) / seconds;
        fprintf(r->out, "%-28s %9.1f us %9.1f GB/s %6.1f %% of a copy\n", q->name,
                1e6 * seconds, speed, 100 * speed / plain);
        rig_done(r, &call);
    }
    rig_tensor_free(r, &row_data);
    rig_tensor_free(r, &col_data);
    rig_tensor_free(r, &factor[0]);
    rig_tensor_free(r, &factor[1]);
}

void rig_speeds(rig *r) {
    int64_t side = r->simulated ? 64 : 8192, n = side * side;
    int launches = r->simulated ? 1 : 20;
    float *values = rig_host((size_t)n * sizeof *values);
    case_fill(values, (size_t)n, 0, 12);
    mpt_round_to(MPT_DTYPE_BF16, values, (size_t)n);
    rig_tensor x = rig_tensor_of(r, MPT_DTYPE_BF16, MPT_STORAGE_BF16, side, side, values);
    double plain = copy_speed(r, &x, launches);
    mpt_quantizer q;
    fprintf(r->out, "%lld x %lld in bf16; a copy reads and writes %.1f GB/s\n", (long long)side,
            (long long)side, plain);
    for (int i = 0; rig_quantizer(i, &q); i++)
        time_quantizer(r, &q, &x, plain, launches);
    rig_tensor_free(r, &x);
    free(values);
}
