/* linear: y = f x w^T + b, and its two gradients dx = f dy w and dw += f dy^T x.
 *
 * f = ((1 * factor of the first operand) * factor of the second) * attrs.alpha: the outer
 * scales of quantized operands, taken out of the products. An operand has one factor, or one
 * for each row (the first) or column (the second) of the product. Where f is beyond the largest
 * number the sum is multiplied by one after the other, alpha first: codes that are all zero
 * then give 0 and not 0 * Inf. The operands of wgrad may have padded rows (zeros that a
 * rotation needs), both the same number. With offsets w holds the weights of several experts
 * one below the other, and each expert's product is over its rows alone; rows behind the last
 * are zero. */
#include "kernels/quantize.h"
#include "kernels/ref/real.h"

/* One side of a dot product: every `step`-th number from `x` on. */
typedef struct linear_side {
    const mpt_real *x;
    int64_t step;
} linear_side;

/* A running sum in a format: FP32 takes products one after the other; another takes them in
 * groups, each summed up from zero in FP32, and is rounded to nearest even after each. */
static mpt_real linear_run(mpt_dtype format, linear_side a, linear_side b, int64_t n) {
    mpt_real sum = 0;
    int64_t group = format == MPT_DTYPE_FP32 ? n : MPT_SUM_GROUP;
    for (int64_t from = 0; from < n; from += group) {
        int64_t end = from + group < n ? from + group : n;
        mpt_real part = 0;
        for (int64_t k = from; k < end; k++)
            part += a.x[k * a.step] * b.x[k * b.step];
        sum += part;
        if (format != MPT_DTYPE_FP32) {
            float rounded = (float)sum;
            mpt_ref_round_to(format, &rounded, 1);
            sum = (mpt_real)rounded;
        }
    }
    return sum;
}

/* The dot product of n numbers: the running sum, or where it is promoted, running sums of as
 * many products each, added in FP32 in their order. */
static mpt_real linear_dot(const mpt_gemm_sum *how, linear_side a, linear_side b, int64_t n) {
    mpt_real total = 0;
    int64_t length = how->promote > 0 ? how->promote : n;
    for (int64_t from = 0; from < n; from += length) {
        int64_t left = n - from;
        total += linear_run(how->accumulate, (linear_side){a.x + from * a.step, a.step},
                            (linear_side){b.x + from * b.step, b.step},
                            left < length ? left : length);
    }
    return total;
}

/* What the sum of codes at (row, col) stands for. */
static mpt_real linear_scaled(const mpt_kernel_args *args, int64_t row, int64_t col,
                              mpt_real sum) {
    const mpt_real *factors = mpt_arg_in(args, 3), *others = mpt_arg_in(args, 4);
    mpt_real first = factors ? factors[args->in[3].dims[0] > 1 ? row : 0] : 1;
    mpt_real second = others ? others[args->in[4].dims[0] > 1 ? col : 0] : 1;
    mpt_real alpha = (mpt_real)args->node->attrs.alpha, f = first * second * alpha;
    return isfinite(f) ? f * sum : sum * alpha * first * second;
}

/* One product: the rows `first` ... `end` of the operands that have tokens, and how many rows
 * of w stand before its weights. */
typedef struct linear_group {
    int64_t first, end, w_row;
} linear_group;

/* Products of a node: one, or one an expert. */
static int64_t linear_groups(const mpt_kernel_args *args) {
    return mpt_arg_in(args, 5) ? args->in[5].dims[0] - 1 : 1;
}

/* Product e of a node whose operands have n_rows rows and whose weights have n_out each. */
static linear_group linear_group_of(const mpt_kernel_args *args, int64_t e, int64_t n_rows,
                                    int64_t n_out) {
    const int32_t *offsets = mpt_arg_in(args, 5);
    if (!offsets)
        return (linear_group){0, n_rows, 0};
    return (linear_group){offsets[e], offsets[e + 1], e * n_out};
}

/* Rows that belong to no expert. */
static void linear_clear_rest(const mpt_kernel_args *args) {
    const int32_t *offsets = mpt_arg_in(args, 5);
    int64_t n = mpt_tensor_cols(&args->out[0]), end = mpt_tensor_elements(&args->out[0]);
    mpt_real *y = args->out[0].data;
    for (int64_t i = offsets ? offsets[linear_groups(args)] * n : end; i < end; i++)
        y[i] = 0;
}

void MPT_REF(linear)(const mpt_kernel_args *args) {
    const mpt_real *x = args->in[0].data, *w = args->in[1].data;
    const mpt_real *bias = mpt_arg_in(args, 2);
    mpt_real *y = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), n_out = mpt_tensor_cols(&args->out[0]);
    int64_t n_in = mpt_tensor_cols(&args->in[0]);
    const mpt_gemm_sum *how = &args->node->attrs.sum;
    for (int64_t e = 0; e < linear_groups(args); e++) {
        linear_group g = linear_group_of(args, e, n_rows, n_out);
        for (int64_t t = g.first; t < g.end; t++) {
            for (int64_t o = 0; o < n_out; o++) {
                mpt_real sum = linear_dot(how, (linear_side){x + t * n_in, 1},
                                          (linear_side){w + (g.w_row + o) * n_in, 1}, n_in);
                y[t * n_out + o] =
                    linear_scaled(args, t, g.w_row + o, sum) + (bias ? bias[o] : 0);
            }
        }
    }
    linear_clear_rest(args);
}

void MPT_REF(linear_dgrad)(const mpt_kernel_args *args) {
    const mpt_real *dy = args->in[0].data, *w = args->in[1].data;
    mpt_real *dx = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->out[0]), n_in = mpt_tensor_cols(&args->out[0]);
    int64_t n_out = mpt_tensor_cols(&args->in[0]);
    const mpt_gemm_sum *how = &args->node->attrs.sum;
    for (int64_t e = 0; e < linear_groups(args); e++) {
        linear_group g = linear_group_of(args, e, n_rows, n_out);
        for (int64_t t = g.first; t < g.end; t++) {
            for (int64_t i = 0; i < n_in; i++) {
                mpt_real sum = linear_dot(how, (linear_side){dy + t * n_out, 1},
                                          (linear_side){w + g.w_row * n_in + i, n_in}, n_out);
                dx[t * n_in + i] = linear_scaled(args, t, i, sum);
            }
        }
    }
    linear_clear_rest(args);
}

void MPT_REF(linear_wgrad)(const mpt_kernel_args *args) {
    const mpt_real *dy = args->in[0].data, *x = args->in[1].data;
    mpt_real *dw = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]);
    int64_t n_out = mpt_tensor_cols(&args->in[0]), n_in = mpt_tensor_cols(&args->in[1]);
    const mpt_gemm_sum *how = &args->node->attrs.sum;
    for (int64_t e = 0; e < linear_groups(args); e++) {
        linear_group g = linear_group_of(args, e, n_rows, n_out);
        for (int64_t o = 0; o < n_out; o++) {
            for (int64_t i = 0; i < n_in; i++) {
                mpt_real sum =
                    linear_dot(how, (linear_side){dy + g.first * n_out + o, n_out},
                               (linear_side){x + g.first * n_in + i, n_in}, g.end - g.first);
                dw[(g.w_row + o) * n_in + i] += linear_scaled(args, o, i, sum);
            }
        }
    }
}

void MPT_REF(bias_grad)(const mpt_kernel_args *args) {
    const mpt_real *dy = args->in[0].data;
    mpt_real *db = args->out[0].data;
    int64_t n_rows = mpt_tensor_rows(&args->in[0]), n = mpt_tensor_cols(&args->in[0]);
    for (int64_t o = 0; o < n; o++) {
        mpt_real sum = 0;
        for (int64_t t = 0; t < n_rows; t++)
            sum += dy[t * n + o];
        db[o] += sum;
    }
}
