/* Samples of the synthetic language: the default data, endless, with a known entropy.
 *
 * Each training row and validation window is a stream of its own, keyed by its position, that
 * starts with a new sentence. So any of them can be made without any other, and everything that
 * predicts the next token stands in the row itself. The language's tables are in language.c. */
#include "train/data_source.h"

#include "train/language.h"
#include "train/random.h"

/* A walk in progress. One 32-bit number decides each choice. */
typedef struct walk {
    const mpt_language *l;
    uint64_t seed, a;
    uint32_t stream, b, n_drawn;
    uint32_t buffer[4];
    int32_t state;         /* class of the last word; n_classes: a sentence starts */
    int64_t sentence;      /* where the last sentence, copy or not, begins in the row */
    int64_t copy_from;     /* position that the next token copies, or -1 */
    const int32_t *tokens; /* what was written so far, for copies */
} walk;

static uint32_t draw(walk *w) {
    if (w->n_drawn % 4 == 0)
        mpt_random4(w->seed, w->stream, w->a, w->b, w->n_drawn / 4, w->buffer);
    return w->buffer[w->n_drawn++ % 4];
}

/* The next word of the grammar, or STOP. */
static int32_t grammar_token(walk *w) {
    const mpt_language *l = w->l;
    const mpt_follow *f = &l->follow[w->state];
    uint32_t r = draw(w);
    if (r < f->stop) {
        w->state = l->n_classes;
        return MPT_LANGUAGE_STOP;
    }
    int32_t c = f->to[mpt_language_pick(f->below, MPT_LANGUAGE_SUCCESSORS, r)];
    w->state = c;
    int32_t first = l->first_word[c];
    return l->word[first +
                   mpt_language_pick(l->below + first, l->first_word[c + 1] - first, draw(w))];
}

static int32_t next_token(walk *w, int64_t position) {
    bool after_stop = position > 0 && w->tokens[position - 1] == MPT_LANGUAGE_STOP;
    if (after_stop) {
        if (draw(w) < w->l->again) {
            w->copy_from = w->sentence;
            w->sentence = position + 1;
            return MPT_LANGUAGE_AGAIN;
        }
        w->sentence = position;
        w->copy_from = -1;
    }
    return w->copy_from >= 0 ? w->tokens[w->copy_from++] : grammar_token(w);
}

static void generate(walk *w, int64_t sequence, int32_t *tokens, int32_t *targets) {
    w->state = w->l->n_classes;
    w->copy_from = -1;
    w->tokens = tokens;
    for (int64_t i = 0; i <= sequence; i++) {
        int32_t token = next_token(w, i);
        if (i < sequence)
            tokens[i] = token;
        if (i > 0)
            targets[i - 1] = token;
    }
}

static void draw_row(const mpt_data *data, uint64_t seed, int64_t step, int64_t row,
                     int32_t *tokens, int32_t *targets) {
    walk w = {.l = data->self, .seed = seed, .stream = MPT_STREAM_TRAIN};
    w.a = (uint64_t)step;
    w.b = (uint32_t)row;
    generate(&w, data->sequence, tokens, targets);
}

static int64_t n_windows(const mpt_data *data) {
    (void)data;
    return MPT_DATA_MAX_WINDOWS;
}

/* Validation does not depend on the run's seed: runs are compared on the same windows. */
static void window(const mpt_data *data, int64_t window, int32_t *tokens, int32_t *targets) {
    walk w = {.l = data->self, .stream = MPT_STREAM_VALIDATE, .a = (uint64_t)window};
    generate(&w, data->sequence, tokens, targets);
}

/* It is never too short. */
static mpt_status settle(mpt_data *data) {
    (void)data;
    return MPT_OK;
}

static const mpt_data_ops synthetic_ops = {
    .settle = settle, .draw = draw_row, .n_windows = n_windows, .window = window};

mpt_status mpt_data_open_synthetic(mpt_data *data, uint64_t seed, int32_t vocab) {
    if (vocab < MPT_LANGUAGE_MIN_VOCAB || vocab > MPT_LANGUAGE_MAX_VOCAB) {
        mpt_status status = MPT_FAIL(data->ctx, MPT_INVALID, data->where,
                                     "data.vocab: %d words are no language", (int)vocab);
        mpt_hint(data->ctx, "give %d to %d", MPT_LANGUAGE_MIN_VOCAB, MPT_LANGUAGE_MAX_VOCAB);
        return status;
    }
    mpt_language *l = mpt_arena_alloc(&data->arena, sizeof *l);
    if (!l)
        return MPT_OUT_OF_MEMORY;
    MPT_TRY(mpt_language_init(l, &data->arena, seed, vocab));
    data->self = l;
    data->ops = &synthetic_ops;
    data->vocab = vocab;
    data->entropy = l->entropy;
    data->unigram = l->unigram;
    data->description =
        mpt_arena_printf(&data->arena, "synthetic language, %d words", (int)vocab);
    return data->description ? MPT_OK : MPT_OUT_OF_MEMORY;
}
