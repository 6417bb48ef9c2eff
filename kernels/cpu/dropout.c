/* dropout: sixteen calls of the generator side by side, with the bits of kernels/dropout.h.
 *
 * Each step of Philox4x32-10 is a loop over the calls, which the compiler turns into vectors.
 */
#include "kernels/dropout.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { CALLS = 16, STRIP = 4 * CALLS, PIECE_STRIPS = 128 };

static const uint64_t multiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u};

/* The words of CALLS groups from `first`: word[w][call]. */
MPT_ALWAYS_INLINE void make_words(const mpt_words_key *key, uint64_t first,
                                  uint32_t word[4][CALLS]) {
    uint32_t k[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32) ^ key->stream};
    for (int i = 0; i < CALLS; i++) {
        uint64_t group = key->first_group + first + (uint64_t)i;
        word[0][i] = (uint32_t)group;
        word[1][i] = (uint32_t)(group >> 32);
        word[2][i] = key->scope;
        word[3][i] = key->step;
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < CALLS; i++) {
            uint64_t a = multiplier[0] * word[0][i], b = multiplier[1] * word[2][i];
            word[0][i] = (uint32_t)(b >> 32) ^ word[1][i] ^ k[0];
            word[1][i] = (uint32_t)b;
            word[2][i] = (uint32_t)(a >> 32) ^ word[3][i] ^ k[1];
            word[3][i] = (uint32_t)a;
        }
        k[0] += weyl[0];
        k[1] += weyl[1];
    }
}

/* n elements from element `at`, a multiple of STRIP. */
MPT_CLONES static void drop_span(const mpt_dropout *d, float kept, int64_t at, const float *x,
                                 float *y, int64_t n) {
    uint32_t word[4][CALLS];
    float factor[STRIP];
    for (int64_t i = 0; i < n; i += STRIP) {
        make_words(&d->key, (uint64_t)(at + i) / 4, word);
        for (int c = 0; c < CALLS; c++)
            for (int w = 0; w < 4; w++)
                factor[4 * c + w] = word[w][c] < d->below ? 0.0f : kept;
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
