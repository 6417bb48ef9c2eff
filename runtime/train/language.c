/* Tables of the synthetic language and its entropy. See language.h; data_synthetic.c samples.
 *
 * The entropy is exact by a renewal argument: a unit is a sentence with its copies, units are
 * independent, so entropy per token = entropy of a unit / expected tokens of a unit. A sentence
 * is an absorbing Markov chain; its entropy is the sum over classes of expected visits times
 * the entropy of what is drawn there. Copies are determined, but for the choice to copy. */
#include "train/language.h"

#include <math.h>

#include "train/random.h"

static const double two32 = 4294967296.0;

enum { AGAIN_PERCENT = 25, MAX_CLASSES = 256 };

/* One number of a table of this language, below n. */
static int32_t draw_below(uint64_t seed, uint64_t table, uint32_t index, int32_t n) {
    uint32_t r[4];
    mpt_random4(seed, MPT_STREAM_LANGUAGE, table, index, 0, r);
    return (int32_t)mpt_random_below((uint64_t)r[1] << 32 | r[0], (uint64_t)n);
}

/* About sqrt(2 words) classes: 16 of 8 words in the default language, so that the class before
 * tells about two nats of the next word. */
static int32_t count_classes(int32_t vocab) {
    int32_t n = 2;
    while (n < MAX_CLASSES && (n + 1) * (n + 1) <= 2 * vocab)
        n++;
    return n;
}

static void shuffle(int32_t *list, int32_t n, uint64_t seed, uint64_t table) {
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t j = draw_below(seed, table, (uint32_t)i, i + 1), kept = list[i];
        list[i] = list[j];
        list[j] = kept;
    }
}

/* Words in random order, cut into classes; Zipf: the k-th word of a class weighs 1/k. */
static void fill_words(mpt_language *l, uint64_t seed) {
    int32_t n = l->vocab - MPT_LANGUAGE_MARKERS;
    for (int32_t i = 0; i < n; i++)
        l->word[i] = i + MPT_LANGUAGE_MARKERS;
    shuffle(l->word, n, seed, 0);
    for (int32_t c = 0; c <= l->n_classes; c++)
        l->first_word[c] = (int32_t)((int64_t)n * c / l->n_classes);
    for (int32_t c = 0; c < l->n_classes; c++) {
        int32_t at = l->first_word[c], size = l->first_word[c + 1] - at;
        double total = 0, sum = 0;
        for (int32_t k = 1; k <= size; k++)
            total += 1.0 / k;
        for (int32_t k = 1; k <= size; k++) {
            sum += 1.0 / k;
            l->below[at + k - 1] =
                k == size ? (uint64_t)1 << 32 : (uint64_t)(sum / total * two32);
        }
    }
}

/* Sentences end after each class with 1/32 to 8/32; of what goes on, 11/16, 4/16 and 1/16 go to
 * the three successors. The first successors form one ring over all classes, so that each class
 * can be reached from each. */
static void fill_grammar(mpt_language *l, int32_t *ring, uint64_t seed) {
    static const uint64_t share[MPT_LANGUAGE_SUCCESSORS] = {11, 15, 16}; /* cumulative, of 16 */
    int32_t n = l->n_classes;
    for (int32_t c = 0; c < n; c++)
        ring[c] = c;
    shuffle(ring, n, seed, 1);
    for (int32_t i = 0; i <= n; i++) {
        int32_t c = i < n ? ring[i] : n;
        mpt_follow *f = &l->follow[c];
        f->stop = i < n ? (uint64_t)(1 + draw_below(seed, 2, (uint32_t)i, 8)) << 27 : 0;
        uint64_t rest = ((uint64_t)1 << 32) - f->stop;
        for (int32_t k = 0; k < MPT_LANGUAGE_SUCCESSORS; k++) {
            f->below[k] = f->stop + rest / 16 * share[k];
            f->to[k] = draw_below(seed, 3 + (uint64_t)k, (uint32_t)i, n);
        }
        f->to[0] = ring[(i + 1) % n];
    }
}

/* ---- entropy ---- */

static double term(uint64_t width) {
    double p = (double)width / two32;
    return p > 0 ? -p * log(p) : 0;
}

/* Of the drawn class: successors that are the same class count as one outcome. */
static double follow_entropy(const mpt_follow *f) {
    uint64_t width[MPT_LANGUAGE_SUCCESSORS];
    double h = term(f->stop);
    for (int k = 0; k < MPT_LANGUAGE_SUCCESSORS; k++)
        width[k] = f->below[k] - (k ? f->below[k - 1] : f->stop);
    for (int k = 0; k < MPT_LANGUAGE_SUCCESSORS; k++) {
        for (int j = 0; j < k; j++)
            if (f->to[j] == f->to[k]) {
                width[j] += width[k];
                width[k] = 0;
                break;
            }
    }
    for (int k = 0; k < MPT_LANGUAGE_SUCCESSORS; k++)
        h += term(width[k]);
    return h;
}

static double word_entropy(const mpt_language *l, int32_t c) {
    double h = 0;
    for (int32_t w = l->first_word[c]; w < l->first_word[c + 1]; w++)
        h += term(l->below[w] - (w > l->first_word[c] ? l->below[w - 1] : 0));
    return h;
}

/* Expected visits of each class in a sentence: the walk from the start state, summed until what
 * is still walking is below what a double can add. */
static void expected_visits(const mpt_language *l, double *visits, double *now, double *next) {
    int32_t n = l->n_classes;
    now[n] = 1;
    for (double walking = 1; walking > 1e-18;) {
        for (int32_t c = 0; c <= n; c++)
            next[c] = 0;
        for (int32_t c = 0; c <= n; c++)
            for (int k = 0; k < MPT_LANGUAGE_SUCCESSORS; k++) {
                const mpt_follow *f = &l->follow[c];
                uint64_t from = k ? f->below[k - 1] : f->stop;
                next[f->to[k]] += now[c] * (double)(f->below[k] - from) / two32;
            }
        walking = 0;
        for (int32_t c = 0; c <= n; c++) {
            visits[c] += next[c];
            walking += next[c];
            now[c] = next[c];
        }
    }
}

static void compute_entropies(mpt_language *l, const double *visits) {
    int32_t n = l->n_classes;
    double again = (double)l->again / two32, copies = again / (1 - again);
    double sentence_tokens = 1, sentence_entropy = follow_entropy(&l->follow[n]);
    for (int32_t c = 0; c < n; c++) {
        sentence_tokens += visits[c];
        sentence_entropy += visits[c] * (follow_entropy(&l->follow[c]) + word_entropy(l, c));
    }
    /* Each of the 1 + copies sentences is followed by one choice to copy it or not. */
    double choices = (1 + copies) * (term(l->again) + term(((uint64_t)1 << 32) - l->again));
    double unit_tokens = sentence_tokens * (1 + copies) + copies;
    l->entropy = (sentence_entropy + choices) / unit_tokens;

    double stop = (1 + copies) / unit_tokens, marker = copies / unit_tokens;
    l->unigram = -stop * log(stop) - marker * log(marker);
    for (int32_t c = 0; c < n; c++) {
        double share = visits[c] * (1 + copies) / unit_tokens;
        l->unigram += share * word_entropy(l, c) - (share > 0 ? share * log(share) : 0);
    }
}

mpt_status mpt_language_init(mpt_language *l, mpt_arena *arena, uint64_t seed, int32_t vocab) {
    l->vocab = vocab;
    l->n_classes = count_classes(vocab);
    l->again = ((uint64_t)AGAIN_PERCENT << 32) / 100;
    size_t n = (size_t)l->n_classes, words = (size_t)(vocab - MPT_LANGUAGE_MARKERS);
    l->follow = mpt_arena_alloc(arena, (n + 1) * sizeof *l->follow);
    l->first_word = mpt_arena_alloc(arena, (n + 1) * sizeof *l->first_word);
    l->word = mpt_arena_alloc(arena, words * sizeof *l->word);
    l->below = mpt_arena_alloc(arena, words * sizeof *l->below);
    int32_t *ring = mpt_arena_alloc(arena, n * sizeof *ring);
    double *visits = mpt_arena_alloc(arena, 3 * (n + 1) * sizeof *visits);
    if (!l->follow || !l->first_word || !l->word || !l->below || !ring || !visits)
        return MPT_OUT_OF_MEMORY;
    fill_words(l, seed);
    fill_grammar(l, ring, seed);
    expected_visits(l, visits, visits + n + 1, visits + 2 * (n + 1));
    compute_entropies(l, visits);
    return MPT_OK;
}

int mpt_language_pick(const uint64_t *below, int n, uint32_t draw) {
    int low = 0, high = n - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (draw < below[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
