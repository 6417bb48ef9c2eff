/* A file of tokens in, a file of logits, loss and gradients out.
 *
 * The output is laid out and created before anything is computed, so that a path that cannot be
 * written costs no time; what is computed goes straight into it. Gradients are written as the
 * checkpoint has its weights, by the map of weights.h. */
#include "mpt/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "train/trainer.h"
#include "train/weights.h"

/* ---- the tokens ---- */

/* Tensors of a file of tokens. `targets` is NULL where each row of `tokens` ends in its last
 * target. */
typedef struct token_file {
    mpt_ctx *ctx;
    const char *path;
    mpt_safetensors *file;
    const mpt_stored_tensor *tokens, *targets;
    int64_t batch, sequence;
} token_file;

static mpt_status fail_tokens(const token_file *f, const char *fault) {
    mpt_status status = MPT_FAIL(f->ctx, MPT_DATA, MPT_NOWHERE, "%s: %s", f->path, fault);
    mpt_hint(
        f->ctx,
        "a file of tokens holds tokens and targets, I32 or I64 [batch, tokens], or tokens, "
        "[1, batch, tokens + 1]");
    return status;
}

static bool holds_ids(const mpt_stored_tensor *t) {
    return t->type == MPT_TENSOR_I32 || t->type == MPT_TENSOR_I64;
}

static mpt_status fail_type(const token_file *f, const mpt_stored_tensor *t) {
    char fault[256];
    snprintf(fault, sizeof fault, "%s are %s, not I32 or I64", t->name,
             mpt_tensor_type_name(t->type));
    return fail_tokens(f, fault);
}

/* "tokens are [2, 29]" and so on, in front of a fault. */
static mpt_status fail_shape(const token_file *f, const mpt_stored_tensor *t,
                             const char *fault) {
    char text[512];
    int n = snprintf(text, sizeof text, "%s are [", t->name);
    for (int i = 0; i < t->rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", i ? ", " : "",
                      (long long)t->dims[i]);
    snprintf(text + n, sizeof text - (size_t)n, "]%s", fault);
    return fail_tokens(f, text);
}

/* Rows of one sequence, and the targets of their own. */
static mpt_status read_pair(token_file *f) {
    const mpt_stored_tensor *x = f->tokens, *y = mpt_safetensors_find(f->file, "targets");
    if (!y)
        return fail_shape(f, x, ", and there are no targets");
    if (!holds_ids(y))
        return fail_type(f, y);
    if (y->rank != 2 || y->dims[0] != x->dims[0] || y->dims[1] != x->dims[1])
        return fail_shape(f, y, ", not of the shape of tokens");
    f->targets = y;
    f->batch = x->dims[0];
    f->sequence = x->dims[1];
    return MPT_OK;
}

static mpt_status read_shape(token_file *f) {
    const mpt_stored_tensor *x = f->tokens;
    if (!x)
        return fail_tokens(f, "has no tensor tokens");
    if (!holds_ids(x))
        return fail_type(f, x);
    if (x->rank != 2 && x->rank != 3)
        return fail_shape(f, x, "");
    if (x->elements == 0)
        return fail_shape(f, x, ": there is no token");
    if (x->rank == 2)
        return read_pair(f);
    if (x->dims[0] != 1)
        return fail_shape(f, x, ", more than one micro-batch");
    if (x->dims[2] < 2)
        return fail_shape(f, x, ", and a row of one token has no target");
    f->batch = x->dims[1];
    f->sequence = x->dims[2] - 1;
    return MPT_OK;
}

/* The caller closes the file, also where this fails. */
static mpt_status open_tokens(mpt_ctx *ctx, const char *path, token_file *out) {
    *out = (token_file){.ctx = ctx, .path = path};
    MPT_TRY(mpt_safetensors_open(ctx, path, &out->file));
    out->tokens = mpt_safetensors_find(out->file, "tokens");
    return read_shape(out);
}

mpt_status mpt_tokens_shape(mpt_ctx *ctx, const char *path, int64_t *out_batch,
                            int64_t *out_sequence) {
    token_file f;
    MPT_REQUIRE_OBJECT(ctx);
    MPT_REQUIRE(ctx, path);
    MPT_REQUIRE(ctx, out_batch);
    MPT_REQUIRE(ctx, out_sequence);
    mpt_status status = open_tokens(ctx, path, &f);
    *out_batch = f.batch;
    *out_sequence = f.sequence;
    mpt_safetensors_close(f.file);
    return status;
}

/* What does not fit in 32 bits becomes the least of them, which is no id. */
static void copy_ids(const mpt_stored_tensor *t, int64_t from, int64_t n, int32_t *out) {
    const char *at = (const char *)t->data;
    if (t->type == MPT_TENSOR_I32)
        memcpy(out, at + (size_t)from * sizeof *out, (size_t)n * sizeof *out);
    for (int64_t i = 0, id; t->type == MPT_TENSOR_I64 && i < n; i++) {
        memcpy(&id, at + (size_t)(from + i) * sizeof id, sizeof id);
        out[i] = id < INT32_MIN || id > INT32_MAX ? INT32_MIN : (int32_t)id;
    }
}

/* PyTorch masks by -100. */
static void take_masks(int32_t *targets, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (targets[i] == -100)
            targets[i] = -1;
}

/* Into the trainer's own buffers, which hold a batch. */
static mpt_status take_tokens(const token_file *f, mpt_trainer *trainer, bool gradients) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    char name[512];
    if (graph->batch != f->batch || graph->sequence != f->sequence)
        return MPT_FAIL(
            f->ctx, MPT_INVALID, MPT_NOWHERE,
            "%s: holds %lld rows of %lld tokens, and the program takes %lld of %lld", f->path,
            (long long)f->batch, (long long)f->sequence, (long long)graph->batch,
            (long long)graph->sequence);
    for (int64_t row = 0; row < f->batch; row++) {
        int64_t n = f->sequence, in = row * (f->targets ? n : n + 1);
        copy_ids(f->tokens, in, n, trainer->tokens + row * n);
        copy_ids(f->targets ? f->targets : f->tokens, f->targets ? in : in + 1, n,
                 trainer->targets + row * n);
        take_masks(trainer->targets + row * n, n);
    }
    snprintf(name, sizeof name, "%s: tokens", f->path);
    MPT_TRY(mpt_trainer_check_ids(trainer, name, trainer->tokens, false));
    snprintf(name, sizeof name, "%s: targets", f->path);
    MPT_TRY(mpt_trainer_check_ids(trainer, name, trainer->targets, true));
    if (!gradients || mpt_count_targets(trainer->targets, f->batch * f->sequence) > 0)
        return MPT_OK;
    return MPT_FAIL(f->ctx, MPT_DATA, MPT_NOWHERE,
                    "%s: all targets are masked, and no gradient comes without one", f->path);
}

/* ---- the output ---- */

enum { LOGITS, LOSS, FIRST_GRADIENT };

typedef struct output {
    mpt_trainer *trainer;
    mpt_arena arena; /* specs and names */
    mpt_weights_map map;
    mpt_tensor_spec *specs;
    int n_specs;
    mpt_safetensors_writer *writer;
} output;

/* The root that the weights were read with, else the model's own. */
static const char *root_of(const mpt_trainer *trainer) {
    const char *root = trainer->root;
    return root ? root : mpt_weights_root(mpt_trainer_graph(trainer), 0);
}

static mpt_status add_gradient(output *o, const mpt_weight *weight) {
    mpt_tensor_spec *spec = &o->specs[o->n_specs++];
    *spec = (mpt_tensor_spec){.type = MPT_TENSOR_F32, .rank = weight->rank};
    spec->name = mpt_arena_printf(&o->arena, "%s%s",
                                  weight->rootless ? "" : root_of(o->trainer), weight->name);
    for (int d = 0; d < weight->rank; d++)
        spec->dims[d] = weight->dims[d];
    return spec->name ? MPT_OK : MPT_OUT_OF_MEMORY;
}

static mpt_status lay_out(output *o, bool gradients) {
    const mpt_graph *graph = mpt_trainer_graph(o->trainer);
    MPT_TRY(mpt_weights_map_create(graph, MPT_WEIGHTS_HF, &o->map));
    size_t n = FIRST_GRADIENT + (gradients ? (size_t)o->map.n : 0);
    o->specs = mpt_arena_alloc(&o->arena, n * sizeof *o->specs);
    if (!o->specs)
        return MPT_OUT_OF_MEMORY;
    o->specs[LOGITS] =
        (mpt_tensor_spec){"logits",
                          MPT_TENSOR_F32,
                          3,
                          {graph->batch, graph->sequence, mpt_graph_n_logits(graph)}};
    o->specs[LOSS] = (mpt_tensor_spec){"loss", MPT_TENSOR_F32, 1, {1}};
    o->n_specs = FIRST_GRADIENT;
    for (int i = 0; gradients && i < o->map.n; i++)
        MPT_TRY(add_gradient(o, &o->map.weights[i]));
    return MPT_OK;
}

static mpt_status write_gradients(const output *o) {
    if (o->n_specs > FIRST_GRADIENT)
        MPT_TRY(mpt_state_see(o->trainer->state, MPT_STATE_GRADS));
    for (int i = 0; i < o->n_specs - FIRST_GRADIENT; i++) {
        const mpt_weight *weight = &o->map.weights[i];
        mpt_weight_get(weight, o->trainer->state->grad[weight->param], 0,
                       mpt_weight_elements(weight),
                       mpt_safetensors_data(o->writer, FIRST_GRADIENT + i));
    }
    return MPT_OK;
}

static void count_hits(const mpt_trainer *trainer, const float *logits,
                       mpt_eval_result *result) {
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    int64_t n = graph->batch * graph->sequence, width = mpt_graph_n_logits(graph), hits = 0;
    for (int64_t t = 0; t < n; t++) {
        if (trainer->targets[t] < 0)
            continue;
        hits += mpt_foretells(logits + t * width, width, trainer->targets[t]);
        if (result->bad_window < 0 && !mpt_all_finite(logits + t * width, width))
            result->bad_window = t / graph->sequence;
    }
    result->n_windows = graph->batch;
    result->n_targets = mpt_count_targets(trainer->targets, n);
    result->accuracy = result->n_targets ? (double)hits / (double)result->n_targets : NAN;
}

static mpt_status compute(output *o, bool gradients, mpt_eval_result *result) {
    mpt_trainer *trainer = o->trainer;
    mpt_forward_options options = MPT_FORWARD_OPTIONS_INIT;
    float *logits = mpt_safetensors_data(o->writer, LOGITS), loss;
    options.tokens = trainer->tokens;
    options.targets = trainer->targets;
    options.gradients = gradients;
    MPT_TRY(mpt_trainer_forward(trainer, &options, logits, &result->loss));
    loss = (float)result->loss;
    memcpy(mpt_safetensors_data(o->writer, LOSS), &loss, sizeof loss);
    count_hits(trainer, logits, result);
    return write_gradients(o);
}

static mpt_status write_file(output *o, const mpt_eval_options *options,
                             mpt_eval_result *result) {
    mpt_ctx *ctx = o->trainer->ctx;
    MPT_TRY(lay_out(o, options->gradients));
    MPT_TRY(mpt_safetensors_create(ctx, options->out, o->specs, o->n_specs, NULL, &o->writer));
    mpt_status status = compute(o, options->gradients, result);
    if (status == MPT_OK)
        return mpt_safetensors_commit(o->writer);
    mpt_safetensors_abandon(o->writer);
    return status;
}

mpt_status mpt_trainer_eval_file(mpt_trainer *trainer, const mpt_eval_options *options,
                                 mpt_eval_result *out_result) {
    mpt_eval_options o = MPT_EVAL_OPTIONS_INIT;
    mpt_eval_result result = {.loss = NAN, .bad_window = -1};
    token_file f;
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, options);
    MPT_TRY(mpt_options_read(trainer->ctx, __func__, options, &o, sizeof o));
    MPT_REQUIRE(trainer->ctx, o.tokens);
    MPT_REQUIRE(trainer->ctx, o.out);
    output out = {.trainer = trainer};
    mpt_arena_init(&out.arena, trainer->ctx);
    mpt_status status = open_tokens(trainer->ctx, o.tokens, &f);
    if (status == MPT_OK && mpt_safetensors_reads(f.file, o.out))
        status = MPT_FAIL(trainer->ctx, MPT_INVALID, MPT_NOWHERE,
                          "%s: the tokens are read from it, so it cannot be the output", o.out);
    if (status == MPT_OK && trainer->weights)
        status = mpt_weights_check_output(trainer->ctx, trainer->weights, o.out);
    if (status == MPT_OK)
        status = take_tokens(&f, trainer, o.gradients);
    int phase = trainer->phase;
    if (!o.gradients)
        (void)mpt_trainer_enter_end(trainer);
    result.phase = mpt_trainer_phase(trainer);
    result.eval_use = !o.gradients && trainer->program->n_evals > 0;
    if (status == MPT_OK)
        status = write_file(&out, &o, &result);
    trainer->phase = phase;
    mpt_weights_map_destroy(&out.map);
    mpt_arena_deinit(&out.arena);
    mpt_safetensors_close(f.file);
    if (out_result)
        *out_result = result;
    return status;
}
