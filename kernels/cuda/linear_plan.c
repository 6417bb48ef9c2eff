/* The plan of a linear node on tensor cores: the way that recipe/target.h gives its operands,
 * brought down to pointers, layouts and scratch, and asked of the library's table once more
 * with the layouts and the result that are really there. */
#include "kernels/cuda/linear.h"

#include <stdio.h>
#include <string.h>

#include "kernels/numerics_cast.h"
#include "kernels/tensor.h"

enum { ALIGN = 256 };

static size_t up(size_t n) {
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Room in scratch. */
static size_t take_bytes(linear_plan *plan, size_t bytes) {
    size_t at = plan->bytes;
    plan->bytes = up(at + bytes);
    return at;
}

static size_t wide_bytes(mpt_dtype format) {
    return (size_t)mpt_code_bits(format) / 8;
}

/* ---- the node as a product of quantizers ---- */

/* What is not packed is a wide format; numbers of a narrow one are kept as wide ones, and BF16
 * holds them. */
static mpt_quantizer quantizer_of(const mpt_tensor *t) {
    if (t->storage == MPT_STORAGE_PACKED)
        return t->packed->q;
    return (mpt_quantizer){.format = mpt_is_wide(t->dtype) ? t->dtype : MPT_DTYPE_BF16};
}

static bool by_rows(mpt_op op, int operand) {
    return op == MPT_OP_linear_wgrad || (op == MPT_OP_linear_dgrad && operand == 1);
}

static mpt_product product_of(const linear_view *v, const linear_plan *plan,
                              const mpt_quantizer q[2]) {
    const gpu_operand *a = &plan->side[0].from, *b = &plan->side[1].from;
    return (mpt_product){.a = &q[0],
                         .b = &q[1],
                         .rows = a->outer,
                         .cols = b->outer,
                         .k = a->k,
                         .grouped = v->in[5].data != NULL,
                         .accumulate = v->attrs->sum.accumulate};
}

/* ---- operands ---- */

static bool lies_as(const gpu_operand *o, mpt_dtype format) {
    switch (o->storage) {
    case MPT_STORAGE_BF16:
        return format == MPT_DTYPE_BF16;
    case MPT_STORAGE_FP16:
        return format == MPT_DTYPE_FP16;
    case MPT_STORAGE_HOST:
        return format == MPT_DTYPE_FP32 || format == MPT_DTYPE_TF32;
    default:
        return o->format == format;
    }
}

/* Wide numbers lie in any way. */
static void take_wide(linear_plan *plan, linear_side *s) {
    mpt_dtype format = s->to.as.format;
    bool lies = s->from.storage != MPT_STORAGE_PACKED || !s->from.scales;
    s->to.as.across = s->from.across;
    s->to.as.ld = s->from.across ? s->from.outer : s->from.k;
    if (lies && lies_as(&s->from, format)) {
        s->take = LINEAR_AS_IT_LIES;
        s->to.data = s->from.data;
        s->to.as.ld = s->from.storage == MPT_STORAGE_PACKED
                          ? s->from.row / (int64_t)wide_bytes(format)
                          : s->from.row;
        return;
    }
    s->take = LINEAR_DECODED;
    s->at = take_bytes(plan, (size_t)(s->from.outer * s->from.k) * wide_bytes(format));
}

static bool has_scales(mpt_lt_scaling scaling) {
    return scaling > MPT_LT_TENSOR;
}

static void take_repacked(linear_plan *plan, linear_side *s, const mpt_quantizer *q) {
    mpt_quantizer to = *q;
    to.format = s->to.as.format;
    to.hadamard.size = 0; /* what is rotated has its padding already */
    if (!has_scales(s->to.as.scaling))
        to.block_rows = to.block_cols = 0;
    s->take = LINEAR_REPACKED;
    s->repacked = mpt_packed_of(&to, false, s->from.outer, s->from.k, false);
    s->to.as.ld = s->repacked.code_row * 8 / mpt_code_bits(to.format);
    s->at = take_bytes(plan, s->repacked.bytes);
}

/* Codes: as they are where they lie along the dot product, or where the device reads them
 * across it; turned round where the copy has that. */
static void take_codes(linear_plan *plan, linear_side *s, const linear_view *v, int operand) {
    const mpt_tensor *t = &v->in[operand];
    const mpt_packed *p = t->packed;
    mpt_lt_scaling scaling = s->to.as.scaling;
    bool same = s->from.format == s->to.as.format, whole = scaling == MPT_LT_TENSOR;
    bool reads_across = v->target == MPT_TARGET_SM100 && whole;
    int bits = mpt_code_bits(s->to.as.format);
    s->take = LINEAR_AS_IT_LIES;
    s->to.data = s->from.data;
    s->to.scales = has_scales(scaling) ? s->from.scales : NULL;
    s->to.as.ld = s->from.row * 8 / bits;
    if (same && s->from.across && p->turned) {
        s->to.data = (const uint8_t *)t->data + p->turned;
        s->to.as.ld = p->rows;
    } else if (same && s->from.across && reads_across) {
        s->to.as.across = true;
    } else if (!same || s->from.across) {
        take_repacked(plan, s, &p->q);
    }
}

/* Scales of rows that the library is not given multiply the result; they cannot where the copy
 * is read across, and so they vary along the dot product. */
static bool take_operands(linear_plan *plan, const linear_view *v, const mpt_product *p,
                          char *why) {
    mpt_lt_operand as[2];
    mpt_target_operands(v->target, p, plan->way, as);
    for (int i = 0; i < 2; i++) {
        linear_side *s = &plan->side[i];
        s->to = (mpt_gemm_side){.as = as[i]};
        bool row_scales = s->from.scales && mpt_target_has_row_scales(i == 0 ? p->a : p->b);
        if (row_scales && s->from.across) {
            snprintf(why, MPT_TARGET_WHY, "scales of rows vary along the dot product");
            return false;
        }
        s->scaled_after = row_scales && as[i].scaling != MPT_LT_ROWS;
        if (plan->way >= MPT_WAY_E4M3 && as[i].scaling != MPT_LT_UNSCALED)
            take_codes(plan, s, v, i);
        else
            take_wide(plan, s);
    }
    return true;
}

/* ---- the result ---- */

static mpt_dtype stored_format(mpt_storage storage) {
    return storage == MPT_STORAGE_BF16   ? MPT_DTYPE_BF16
           : storage == MPT_STORAGE_FP16 ? MPT_DTYPE_FP16
                                         : MPT_DTYPE_FP32;
}

static int64_t numbers(const mpt_tensor *t) {
    return t->data ? mpt_tensor_elements(t) : 0;
}

/* Whether the library can write the output itself: all that multiplies a sum is one number, and
 * memory has the format that the value is rounded to. */
static bool is_direct(const linear_view *v, const linear_plan *plan) {
    bool stored = v->out.storage != MPT_STORAGE_HOST || v->out.dtype == MPT_DTYPE_FP32 ||
                  !mpt_is_wide(v->out.dtype);
    return stored && numbers(&v->in[3]) <= 1 && numbers(&v->in[4]) <= 1 &&
           !plan->side[0].scaled_after && !plan->side[1].scaled_after;
}

static bool ask(const linear_view *v, const linear_plan *plan, char *why) {
    mpt_lt_query query = mpt_gemm_query(&plan->gemm, mpt_target_capability(v->target));
    return mpt_lt_supported(&query, why);
}

static bool take_result(linear_plan *plan, const linear_view *v, char *why) {
    const gpu_operand *a = &plan->side[0].from, *b = &plan->side[1].from;
    bool add = v->op == MPT_OP_linear_wgrad;
    plan->gemm = (mpt_gpu_gemm){.rows = a->outer,
                                .cols = b->outer,
                                .k = a->k,
                                .a = plan->side[0].to,
                                .b = plan->side[1].to,
                                .d = v->out.data,
                                .d_format = stored_format(v->out.storage),
                                .bias = v->in[2].data,
                                .bias_format = stored_format(v->in[2].storage),
                                .alpha = v->attrs->alpha,
                                .beta = add ? 1.0f : 0.0f};
    plan->on_device = numbers(&v->in[3]) > 0 || numbers(&v->in[4]) > 0;
    if (is_direct(v, plan) && ask(v, plan, why))
        return true;
    plan->apart = true;
    plan->on_device = false;
    plan->sums = take_bytes(plan, (size_t)(plan->gemm.rows * plan->gemm.cols) * sizeof(float));
    plan->gemm.d_format = MPT_DTYPE_FP32;
    plan->gemm.bias = NULL;
    plan->gemm.alpha = 1;
    plan->gemm.beta = 0;
    return ask(v, plan, why);
}

/* ---- the whole ---- */

static bool plan_way(const linear_view *v, const mpt_product *p, mpt_way way, linear_plan *out,
                     char *why) {
    out->way = way;
    out->apart = false;
    out->bytes = ALIGN; /* alpha and beta */
    return take_operands(out, v, p, why) && take_result(out, v, why);
}

bool mpt_linear_plan(const linear_view *v, linear_plan *out, char why[MPT_TARGET_WHY]) {
    *out = (linear_plan){0};
    if (v->target == MPT_TARGET_HOST) {
        snprintf(why, MPT_TARGET_WHY, "no kind of GPU is named");
        return false;
    }
    mpt_quantizer q[2];
    for (int i = 0; i < 2; i++) {
        out->side[i].from = mpt_gpu_operand(&v->in[i], by_rows(v->op, i));
        q[i] = quantizer_of(&v->in[i]);
    }
    mpt_product p = product_of(v, out, q);
    mpt_way way = mpt_target_way(v->target, &p, why);
    if (way == MPT_WAY_PLAIN)
        return false;
    return plan_way(v, &p, way, out, why) ||
           (way >= MPT_WAY_E4M3 && plan_way(v, &p, mpt_target_way_to_decode(&p), out, why));
}
