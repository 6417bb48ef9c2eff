/* dropout: sixty-four calls of the generator side by side, with the bits of kernels/dropout.h.
 *
 * Each step of Philox4x32-10 is a loop over the calls, which the compiler turns into vectors.
 */
#include "kernels/dropout.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { CALLS = 64, STRIP = 4 * CALLS, PIECE_STRIPS = 32 };

/* The words of CALLS groups. */
typedef struct strip_words {
    uint32_t a[CALLS], b[CALLS], c[CALLS], d[CALLS];
} strip_words;

/* One round of all calls. */
MPT_ALWAYS_INLINE void words_round(strip_words *w, uint32_t key0, uint32_t key1) {
#pragma omp simd
    for (int i = 0; i < CALLS; i++) {
        uint64_t p = (uint64_t)0xD2511F53u * w->a[i], q = (uint64_t)0xCD9E8D57u * w->c[i];
        uint32_t b = w->b[i], d = w->d[i];
        w->a[i] = (uint32_t)(q >> 32) ^ b ^ key0;
        w->b[i] = (uint32_t)q;
        w->c[i] = (uint32_t)(p >> 32) ^ d ^ key1;
        w->d[i] = (uint32_t)p;
    }
}

/* The words of the groups from `first`. */
MPT_ALWAYS_INLINE void words_make(strip_words *w, const mpt_words_key *key, uint64_t first) {
    uint32_t key0 = (uint32_t)key->seed, key1 = (uint32_t)(key->seed >> 32) ^ key->stream;
    for (int i = 0; i < CALLS; i++) {
        uint64_t group = key->first_group + first + (uint64_t)i;
        w->a[i] = (uint32_t)group;
        w->b[i] = (uint32_t)(group >> 32);
        w->c[i] = key->scope;
        w->d[i] = key->step;
    }
    for (int round = 0; round < 10; round++) {
        words_round(w, key0, key1);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* A whole strip: what its numbers are multiplied by. */
MPT_ALWAYS_INLINE void strip_factors(const strip_words *w, uint32_t below, float kept,
                                     float *factor) {
    for (int i = 0; i < CALLS; i++) {
        factor[4 * i] = w->a[i] < below ? 0.0f : kept;
        factor[4 * i + 1] = w->b[i] < below ? 0.0f : kept;
        factor[4 * i + 2] = w->c[i] < below ? 0.0f : kept;
        factor[4 * i + 3] = w->d[i] < below ? 0.0f : kept;
    }
}

/* n elements from element `at`, a multiple of STRIP. */
MPT_CLONES static void drop_span(const mpt_dropout *d, float kept, int64_t at, const float *x,
                                 float *y, int64_t n) {
    strip_words words;
    float factor[STRIP];
    for (int64_t i = 0; i < n; i += STRIP) {
        words_make(&words, &d->key, (uint64_t)(at + i) / 4);
        strip_factors(&words, d->below, kept, factor);
        int64_t count = mpt_cpu_smaller(STRIP, n - i);
#pragma omp simd
        for (int64_t e = 0; e < count; e++)
            y[i + e] = x[i + e] * factor[e];
    }
}

void mpt_cpu_dropout(const mpt_kernel_args *args) {
    mpt_dropout d = mpt_dropout_of(args);
    const float *x = args->in[0].data;
    float *y = args->out[0].data, kept = 1.0f / (1.0f - args->node->attrs.p);
    int64_t n = mpt_tensor_elements(&args->out[0]), piece = PIECE_STRIPS * STRIP;
    int64_t n_pieces = (n + piece - 1) / piece;
    if (d.off) {
        memcpy(y, x, mpt_cpu_floats(n));
        return;
    }
#pragma omp parallel for schedule(static) if (n_pieces > 1)
    for (int64_t p = 0; p < n_pieces; p++) {
        int64_t at = p * piece;
        drop_span(&d, kept, at, x + at, y + at, mpt_cpu_smaller(piece, n - at));
    }
}
