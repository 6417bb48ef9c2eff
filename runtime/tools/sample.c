/* Text from a model that was trained on bytes.
 *
 * Each byte is one forward pass over the window: the last `sequence` bytes, at its beginning,
 * with zeros behind them that a causal model does not see. Random bits are keyed by seed and
 * position, and all sums run in the order of the bytes, so the text depends on nothing else. */
#include <math.h>
#include <string.h>

#include "mpt/tools.h"
#include "train/random.h"
#include "train/trainer.h"

enum { BYTE_VALUES = 256 };

typedef struct sampler {
    mpt_trainer *trainer;
    const mpt_sample_options *options;
    int64_t batch, sequence;
    int64_t n;       /* bytes in the window */
    int32_t *tokens; /* [batch, sequence]: the window in the first row */
    float *logits;   /* [batch * sequence, 256] */
} sampler;

/* ---- one byte ---- */

/* Marks the k most probable bytes, of equals the smaller ones; gives the first of all. */
static int choose(const float *logits, int k, bool chosen[BYTE_VALUES]) {
    int first = 0;
    memset(chosen, 0, BYTE_VALUES * sizeof *chosen);
    for (int i = 0; i < k; i++) {
        int best = -1;
        for (int b = 0; b < BYTE_VALUES; b++)
            if (!chosen[b] && (best < 0 || logits[b] > logits[best]))
                best = b;
        chosen[best] = true;
        first = i == 0 ? best : first;
    }
    return first;
}

/* 53 random bits as a number in [0, 1). */
static double uniform(uint64_t seed, int64_t position) {
    uint32_t r[4];
    mpt_random4(seed, MPT_STREAM_SAMPLE, (uint64_t)position, 0, 0, r);
    return (double)(((uint64_t)r[1] << 32 | r[0]) >> 11) * 0x1p-53;
}

static int draw(const float *logits, const mpt_sample_options *o, int64_t position) {
    bool chosen[BYTE_VALUES];
    double share[BYTE_VALUES], sum = 0;
    bool greedy = o->temperature <= 0, all = o->top_k == 0 || o->top_k > BYTE_VALUES;
    int first = choose(logits, greedy ? 1 : all ? BYTE_VALUES : o->top_k, chosen);
    if (greedy)
        return first;
    for (int b = 0; b < BYTE_VALUES; b++) {
        double distance = (double)logits[b] - (double)logits[first];
        share[b] = chosen[b] ? exp(distance / o->temperature) : 0;
        sum += share[b];
    }
    double rest = uniform(o->seed, position) * sum;
    int last = first;
    for (int b = 0; b < BYTE_VALUES; b++) {
        if (share[b] <= 0)
            continue;
        last = b;
        rest -= share[b];
        if (rest < 0)
            break;
    }
    return last; /* rounding may leave a rest behind the last of them */
}

/* ---- the window ---- */

static void append(sampler *s, unsigned char byte) {
    if (s->n == s->sequence) {
        memmove(s->tokens, s->tokens + 1, (size_t)(s->sequence - 1) * sizeof *s->tokens);
        s->n--;
    }
    s->tokens[s->n++] = byte;
}

static void fill(sampler *s) {
    const mpt_sample_options *o = s->options;
    size_t most = (size_t)s->sequence;
    size_t from = o->prompt_bytes > most ? o->prompt_bytes - most : 0;
    for (size_t i = from; i < o->prompt_bytes; i++)
        append(s, (unsigned char)o->prompt[i]);
    if (o->prompt_bytes == 0)
        append(s, '\n');
}

/* Runs the model on the window; the logits of its last byte. Other rows repeat the first. */
static mpt_status run(sampler *s, int64_t position, const float **out) {
    mpt_forward_options forward = MPT_FORWARD_OPTIONS_INIT;
    for (int64_t row = 1; row < s->batch; row++)
        memcpy(s->tokens + row * s->sequence, s->tokens,
               (size_t)s->sequence * sizeof *s->tokens);
    forward.tokens = s->tokens;
    MPT_TRY(mpt_trainer_forward(s->trainer, &forward, s->logits, NULL));
    const float *logits = s->logits + (s->n - 1) * BYTE_VALUES;
    bool good = false; /* at least one byte can come */
    for (int b = 0; b < BYTE_VALUES; b++) {
        if (isnan(logits[b]) || (isinf(logits[b]) && logits[b] > 0)) {
            mpt_status status =
                MPT_FAIL(s->trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                         "byte %lld: the model's logits are %s", (long long)position,
                         isnan(logits[b]) ? "NaN" : "infinite");
            mpt_hint(s->trainer->ctx,
                     "look at the run's metrics: its weights have diverged, or "
                     "its forward formats overflow");
            return status;
        }
        good = good || !isinf(logits[b]);
    }
    *out = logits;
    return good ? MPT_OK
                : MPT_FAIL(s->trainer->ctx, MPT_STOPPED, MPT_NOWHERE,
                           "byte %lld: all logits of the model are -Inf", (long long)position);
}

/* ---- the text ---- */

static mpt_status put(mpt_ctx *ctx, mpt_write_fn write, void *ud, const char *text, size_t n) {
    if (n == 0 || write(ud, text, n))
        return MPT_OK;
    return MPT_FAIL(ctx, MPT_IO, MPT_NOWHERE, "the text could not be written");
}

static mpt_status generate(sampler *s, mpt_write_fn write, void *ud) {
    mpt_ctx *ctx = s->trainer->ctx;
    const mpt_sample_options *o = s->options;
    fill(s);
    MPT_TRY(put(ctx, write, ud, o->prompt, o->prompt_bytes));
    for (int64_t i = 0; i < o->n_tokens; i++) {
        const float *logits = NULL;
        MPT_TRY(run(s, i, &logits));
        int byte = draw(logits, o, i);
        char text = (char)byte;
        MPT_TRY(put(ctx, write, ud, &text, 1));
        append(s, (unsigned char)byte);
    }
    return MPT_OK;
}

static mpt_status check(const mpt_trainer *trainer, const mpt_sample_options *o) {
    mpt_ctx *ctx = trainer->ctx;
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    if (o->prompt_bytes > 0)
        MPT_REQUIRE(ctx, o->prompt);
    if (o->n_tokens < 0 || o->top_k < 0)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_sample: %s is %lld, expected 0 or more",
                        o->n_tokens < 0 ? "n_tokens" : "top_k",
                        o->n_tokens < 0 ? (long long)o->n_tokens : (long long)o->top_k);
    if (!isfinite(o->temperature) || o->temperature < 0)
        return MPT_FAIL(ctx, MPT_INVALID, MPT_NOWHERE,
                        "mpt_sample: temperature is %g, expected 0 or more", o->temperature);
    int64_t n_ids = mpt_graph_n_ids(graph), n_logits = mpt_graph_n_logits(graph);
    if (n_ids == BYTE_VALUES && n_logits == BYTE_VALUES)
        return MPT_OK;
    mpt_status status =
        MPT_FAIL(ctx, MPT_DATA, MPT_NOWHERE,
                 "%s: the vocabulary has %lld words, and is not the %d bytes",
                 trainer->program->recipe->model.name, (long long)n_logits, BYTE_VALUES);
    mpt_hint(ctx, "only a model that was trained on text gives text: data = text \"file\"");
    return status;
}

mpt_status mpt_sample(mpt_trainer *trainer, const mpt_sample_options *options,
                      mpt_write_fn write, void *ud) {
    mpt_sample_options o = MPT_SAMPLE_OPTIONS_INIT;
    MPT_REQUIRE_OBJECT(trainer);
    MPT_REQUIRE(trainer->ctx, write);
    MPT_TRY(mpt_options_read(trainer->ctx, __func__, options, &o, sizeof o));
    MPT_TRY(check(trainer, &o));
    const mpt_graph *graph = mpt_trainer_graph(trainer);
    sampler s = {trainer, &o, graph->batch, graph->sequence, 0, NULL, NULL};
    size_t n = mpt_size_mul((size_t)s.batch, (size_t)s.sequence);
    size_t token_bytes = mpt_size_mul(n, sizeof *s.tokens);
    size_t bytes = mpt_size_add(token_bytes, mpt_size_mul(n, BYTE_VALUES * sizeof *s.logits));
    s.tokens = mpt_alloc(trainer->ctx, bytes);
    if (!s.tokens)
        return mpt_fail_memory(trainer->ctx, bytes);
    memset(s.tokens, 0, token_bytes);
    s.logits = (float *)(void *)((char *)s.tokens + token_bytes);
    int phase = mpt_trainer_enter_end(trainer);
    mpt_status status = generate(&s, write, ud);
    trainer->phase = phase;
    mpt_free(trainer->ctx, s.tokens);
    return status;
}
