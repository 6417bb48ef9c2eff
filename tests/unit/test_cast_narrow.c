/* Casts to 8 and 12 bits as operations use them: each level of vectors gives ref's bytes. */
#include "mpt_test.h"

#include <stdlib.h>

#include "kernels/cpu/quantize.h"

enum { N = 1 << 16 };

static const mpt_dtype formats[] = {MPT_DTYPE_E4M3, MPT_DTYPE_E5M2, MPT_DTYPE_E5M6};

/* All upper halves of a float, NaN and Inf included, over lower halves that make ties, near
 * ties and neither. */
static void test_cast_when_narrow_then_every_level_is_as_ref(void **state) {
    (void)state;
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    float *x = malloc(N * sizeof *x), *ref = malloc(N * sizeof *x), *y = malloc(N * sizeof *x);
    assert_true(x && ref && y);
    for (size_t f = 0; f < MPT_COUNT(formats); f++) {
        for (size_t l = 0; l < MPT_COUNT(low); l++) {
            for (uint32_t i = 0; i < N; i++) {
                uint32_t bits = i << 16 | low[l];
                memcpy(&x[i], &bits, sizeof bits);
            }
            mpt_ref_round_copy(formats[f], x, ref, N);
            for (int level = 0; level <= (int)mpt_quantize_best_level(); level++) {
                mpt_round_copy_at((mpt_quantize_level)level, formats[f], x, y, N);
                assert_memory_equal(y, ref, N * sizeof *y);
            }
        }
    }
    free(x);
    free(ref);
    free(y);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_cast_when_narrow_then_every_level_is_as_ref),
};
MPT_TEST_MAIN(cases)
