/* The public words for drawing a model in C: each fills mpt_nn_args and calls the builder.
 *
 * Nothing is checked here that nn.c checks; a failure sticks to the builder, so that a build
 * function needs to look at one status only. Contracts: include/mpt/model.h. */
#include "mpt/model.h"

#include "graph/nn.h"

#include <stdio.h>
#include <string.h>

/* One op with one result. */
static mpt_model_value one(mpt_nn *nn, mpt_op op, const mpt_nn_args *args) {
    mpt_value_id out[MPT_MAX_OUT] = {-1};
    int n_out = 0;
    if (!nn)
        return -1;
    return mpt_nn_call(nn, op, args, out, &n_out) == MPT_OK ? out[0] : -1;
}

/* A fault that only this file can find; sticks as the builder's own do. */
static MPT_PRINTF(2, 3) void refuse(mpt_nn *nn, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!nn->failed)
        (void)MPT_FAIL(nn->graph->ctx, MPT_INVALID, nn->where, "%s", text);
    nn->failed = true;
}

/* Whether the builder and an argument are there; a missing argument is named. */
static bool present(mpt_nn *nn, const void *argument, const char *call, const char *name) {
    if (nn && !argument)
        refuse(nn, "%s: %s is NULL", call, name);
    return nn && argument;
}
#define PRESENT(nn, argument) present((nn), (argument), __func__, #argument)

void mpt_model_at(mpt_nn *nn, const char *file, int line) {
    if (nn)
        nn->where = (mpt_where){file, line};
}

int64_t mpt_model_vocabulary(const mpt_nn *nn) {
    return nn && !nn->graph->vocab_unstated ? nn->graph->vocab : 0;
}

int64_t mpt_model_sequence(const mpt_nn *nn) {
    return nn ? nn->graph->sequence : 0;
}

void mpt_model_prefix(mpt_nn *nn, const char *prefix) {
    if (!PRESENT(nn, prefix))
        return;
    if (*prefix && prefix[strlen(prefix) - 1] != '.') {
        refuse(nn, "mpt_model_prefix: '%s' does not end in a dot", prefix);
        return;
    }
    nn->graph->root = mpt_arena_strdup(&nn->graph->arena, prefix);
    nn->failed |= !nn->graph->root;
}

/* The builder keeps the first failure: cross_entropy gives it back. */
void mpt_model_block(mpt_nn *nn, const char *root, int index) {
    if (PRESENT(nn, root))
        (void)mpt_nn_block_begin(nn, root, index);
}

void mpt_model_end_block(mpt_nn *nn) {
    if (nn)
        (void)mpt_nn_block_end(nn);
}

mpt_model_value mpt_model_tokens(mpt_nn *nn) {
    mpt_value_id id = -1;
    return nn && mpt_nn_tokens(nn, &id) == MPT_OK ? id : -1;
}

mpt_model_value mpt_model_positions(mpt_nn *nn) {
    mpt_value_id id = -1;
    return nn && mpt_nn_positions(nn, &id) == MPT_OK ? id : -1;
}

mpt_model_value mpt_model_embedding(mpt_nn *nn, const char *name, mpt_model_value ids,
                                    int64_t rows, int64_t width) {
    return one(nn, MPT_OP_embedding,
               &(mpt_nn_args){
                   .name = name, .n_in = 1, .in = {ids}, .rows = rows, .out_features = width});
}

mpt_model_value mpt_model_linear(mpt_nn *nn, const char *name, mpt_model_value x,
                                 const mpt_linear *options) {
    mpt_linear o = {.size = sizeof o};
    if (!nn)
        return -1;
    if (mpt_options_read(nn->graph->ctx, __func__, options, &o, sizeof o) != MPT_OK) {
        nn->failed = true;
        return -1;
    }
    if (o.n_parts > 0 && !o.parts)
        refuse(nn, "mpt_model_linear: %d parts, but the array is NULL", o.n_parts);
    mpt_nn_args args = {.name = name,
                        .n_in = 1,
                        .in = {x},
                        .out_features = o.out,
                        .bias = o.bias,
                        .head = o.head,
                        .transposed = o.transposed,
                        .tied = o.tied,
                        .n_parts = o.n_parts};
    args.has_init = o.init_std > 0;
    args.init = (mpt_init){MPT_INIT_NORMAL, o.init_std, 0};
    for (int i = 0; o.parts && i < o.n_parts && i < MPT_MAX_PARTS; i++) {
        args.parts[i] = o.parts[i];
        if (!o.parts[i])
            refuse(nn, "mpt_model_linear: parts[%d] is NULL", i);
    }
    return one(nn, MPT_OP_linear, &args);
}

mpt_model_value mpt_model_rmsnorm(mpt_nn *nn, const char *name, mpt_model_value x, float eps) {
    return one(nn, MPT_OP_rmsnorm,
               &(mpt_nn_args){.name = name, .n_in = 1, .in = {x}, .attrs = {.eps = eps}});
}

mpt_model_value mpt_model_layernorm(mpt_nn *nn, const char *name, mpt_model_value x, float eps,
                                    bool bias) {
    return one(nn, MPT_OP_layernorm,
               &(mpt_nn_args){
                   .name = name, .n_in = 1, .in = {x}, .bias = bias, .attrs = {.eps = eps}});
}

mpt_model_value mpt_model_gated_rmsnorm(mpt_nn *nn, const char *name,
                                        const mpt_model_value x_z[2], int groups, float eps) {
    if (!PRESENT(nn, x_z))
        return -1;
    return one(nn, MPT_OP_gated_rmsnorm,
               &(mpt_nn_args){.name = name,
                              .n_in = 2,
                              .in = {x_z[0], x_z[1]},
                              .attrs = {.groups = groups, .eps = eps}});
}

mpt_model_value mpt_model_attention(mpt_nn *nn, const char *name,
                                    const mpt_model_value q_k_v[3], int heads, int kv_heads) {
    if (!PRESENT(nn, q_k_v))
        return -1;
    return one(nn, MPT_OP_attention,
               &(mpt_nn_args){.name = name,
                              .n_in = 3,
                              .in = {q_k_v[0], q_k_v[1], q_k_v[2]},
                              .attrs = {.heads = heads, .kv_heads = kv_heads}});
}

mpt_model_value mpt_model_rope(mpt_nn *nn, mpt_model_value x, const mpt_rope_options *options) {
    static const mpt_rope_scaling kinds[] = {[MPT_ROPE_KIND_DEFAULT] = MPT_ROPE_DEFAULT,
                                             [MPT_ROPE_KIND_LINEAR] = MPT_ROPE_LINEAR,
                                             [MPT_ROPE_KIND_LLAMA3] = MPT_ROPE_LLAMA3};
    mpt_rope_options o = {.size = sizeof o};
    if (!nn)
        return -1;
    if (mpt_options_read(nn->graph->ctx, __func__, options, &o, sizeof o) != MPT_OK) {
        nn->failed = true;
        return -1;
    }
    bool known = (unsigned)o.kind < MPT_COUNT(kinds);
    if (!known)
        refuse(nn, "mpt_model_rope: options.kind is %d", (int)o.kind);
    mpt_rope rope = {.theta = o.theta,
                     .dims = o.rotary_dim,
                     .scaling = known ? kinds[o.kind] : MPT_ROPE_DEFAULT,
                     .factor = o.factor,
                     .low_freq_factor = o.low_freq_factor,
                     .high_freq_factor = o.high_freq_factor,
                     .original_positions = o.original_max_position_embeddings};
    return one(nn, MPT_OP_rope,
               &(mpt_nn_args){.n_in = 1, .in = {x}, .attrs = {.heads = o.heads, .rope = rope}});
}

mpt_model_value mpt_model_conv1d(mpt_nn *nn, const char *name, mpt_model_value x, int kernel,
                                 bool bias) {
    return one(
        nn, MPT_OP_conv1d,
        &(mpt_nn_args){
            .name = name, .n_in = 1, .in = {x}, .bias = bias, .attrs = {.kernel = kernel}});
}

mpt_model_value mpt_model_ssm_scan(mpt_nn *nn, const char *name,
                                   const mpt_model_value x_b_c_dt[4], int heads, int groups) {
    if (!PRESENT(nn, x_b_c_dt))
        return -1;
    mpt_nn_args args = {.name = name, .n_in = 4, .attrs = {.heads = heads, .groups = groups}};
    for (int i = 0; i < 4; i++)
        args.in[i] = x_b_c_dt[i];
    return one(nn, MPT_OP_ssm_scan, &args);
}

mpt_model_value mpt_model_activation(mpt_nn *nn, const char *kind, mpt_model_value x) {
    static const struct {
        const char *name;
        mpt_op op;
        bool exact;
    } kinds[] = {{"gelu", MPT_OP_gelu, false},         {"gelu_exact", MPT_OP_gelu, true},
                 {"silu", MPT_OP_silu, false},         {"relu2", MPT_OP_relu2, false},
                 {"softplus", MPT_OP_softplus, false}, {"softmax", MPT_OP_softmax, false}};
    const char *names[MPT_COUNT(kinds)];
    if (!PRESENT(nn, kind))
        return -1;
    for (size_t i = 0; i < MPT_COUNT(kinds); i++) {
        names[i] = kinds[i].name;
        if (strcmp(kinds[i].name, kind) == 0)
            return one(
                nn, kinds[i].op,
                &(mpt_nn_args){.n_in = 1, .in = {x}, .attrs = {.exact = kinds[i].exact}});
    }
    bool first = !nn->failed;
    refuse(nn, "no activation '%s'", kind);
    const char *near = mpt_nearest(kind, names, (int)MPT_COUNT(names));
    if (first && near)
        mpt_hint(nn->graph->ctx, "did you mean '%s'?", near);
    return -1;
}

mpt_model_value mpt_model_add(mpt_nn *nn, mpt_model_value a, mpt_model_value b) {
    return one(nn, MPT_OP_add, &(mpt_nn_args){.n_in = 2, .in = {a, b}});
}

mpt_model_value mpt_model_mul(mpt_nn *nn, mpt_model_value a, mpt_model_value b) {
    return one(nn, MPT_OP_mul, &(mpt_nn_args){.n_in = 2, .in = {a, b}});
}

mpt_model_value mpt_model_scale(mpt_nn *nn, mpt_model_value x, float factor) {
    return one(nn, MPT_OP_scale,
               &(mpt_nn_args){.n_in = 1, .in = {x}, .attrs = {.scale = factor}});
}

mpt_model_value mpt_model_swiglu(mpt_nn *nn, mpt_model_value gate, mpt_model_value up) {
    return one(nn, MPT_OP_swiglu, &(mpt_nn_args){.n_in = 2, .in = {gate, up}});
}

mpt_model_value mpt_model_dropout(mpt_nn *nn, const char *name, mpt_model_value x, float p) {
    return one(nn, MPT_OP_dropout,
               &(mpt_nn_args){.name = name, .n_in = 1, .in = {x}, .attrs = {.p = p}});
}

void mpt_model_split(mpt_nn *nn, mpt_model_value x, const int64_t *widths, int n,
                     mpt_model_value *out_parts) {
    mpt_nn_args args = {.n_in = 1, .in = {x}, .attrs = {.n_sizes = n}};
    mpt_value_id out[MPT_MAX_OUT];
    int n_out = 0;
    if (!PRESENT(nn, widths) || !PRESENT(nn, out_parts))
        return;
    for (int i = 0; i < n && i < MPT_MAX_PARTS; i++)
        args.attrs.sizes[i] = widths[i];
    (void)mpt_nn_call(nn, MPT_OP_split, &args, out, &n_out);
    for (int i = 0; i < n; i++)
        out_parts[i] = i < n_out ? out[i] : -1;
}

mpt_model_value mpt_model_concat(mpt_nn *nn, const mpt_model_value *parts, int n) {
    if (!PRESENT(nn, parts))
        return -1;
    mpt_nn_args args = {.n_in = n};
    for (int i = 0; i < n && i < MPT_MAX_PARTS; i++)
        args.in[i] = parts[i];
    return one(nn, MPT_OP_concat, &args);
}

mpt_status mpt_model_cross_entropy(mpt_nn *nn, mpt_model_value logits) {
    mpt_value_id out[MPT_MAX_OUT];
    int n_out = 0;
    MPT_REQUIRE_OBJECT(nn);
    return mpt_nn_call(nn, MPT_OP_cross_entropy, &(mpt_nn_args){.n_in = 1, .in = {logits}}, out,
                       &n_out);
}
