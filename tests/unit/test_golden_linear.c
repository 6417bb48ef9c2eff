/* A linear layer in NVFP4, forward and backward, against Transformer Engine's reference: the
 * real quantizers, and plain products of what they put out.
 *
 * x and dy have 1x16 blocks and rotated columns, w has 16x16 blocks; nothing is stochastic.
 * Codes are compared bit for bit, products with a tolerance, as the order of a sum is free. */
#include "golden_case.h"

#include <math.h>

/* A quantized operand: its values without the factor, rows of the quantized orientation. */
typedef struct operand {
    int64_t rows, k;
    float *values;
    float factor;
} operand;

static operand quantized(const golden_file *file, const char *name, bool column) {
    golden_tensor x = golden_get(file, "lin", name);
    mpt_quantizer q = case_nvfp4(*name == 'w' ? 16 : 1);
    if (column && *name != 'w')
        q = case_rotated(q, 16, MPT_SIGNS_FIXED);
    mpt_quantize_job job = {.q = &q, .x = x.data, .rows = x.rows, .cols = x.cols};
    job.column = column;
    job.bf16 = true;
    golden_want want = {.q = &q, .scales_repeated = true, .positive_zeros = true};
    char tensor[3][16];
    snprintf(tensor[0], sizeof tensor[0], "%s_q_%s", name, column ? "col" : "row");
    snprintf(tensor[1], sizeof tensor[1], "%s_s_%s", name, column ? "col" : "row");
    snprintf(tensor[2], sizeof tensor[2], "%s_amax_%s", name, column ? "col" : "row");
    want.codes = golden_get(file, "lin", tensor[0]);
    want.scales = golden_get(file, "lin", tensor[1]);
    want.amax = golden_get(file, "lin", tensor[2]);
    golden_check(name, job, &want);
    case_result r = case_run(mpt_quantize_operand, job, CASE_DECODED);
    operand o = {column ? x.cols : x.rows, column ? x.rows : x.cols, NULL, r.factor};
    o.values = case_buffer((size_t)(o.rows * o.k) * 4);
    for (int64_t i = 0; i < o.rows; i++)
        for (int64_t k = 0; k < o.k; k++)
            o.values[i * o.k + k] = r.decoded[column ? k * o.rows + i : i * o.k + k];
    case_free(&r);
    return o;
}

/* y = a b^T over the dot product of both, alpha multiplied up as a GEMM does. */
static void check_product(const golden_file *file, const char *name, operand a, operand b) {
    golden_tensor y = golden_get(file, "lin", name);
    assert_true(y.rows == a.rows && y.cols == b.rows && a.k == b.k);
    mpt_quantizer q = case_nvfp4(1);
    float constant = mpt_quantizer_constant(&q);
    double alpha = (double)(a.factor * b.factor * (constant * constant));
    double most = 0, worst = 0;
    for (int64_t i = 0; i < a.rows; i++)
        for (int64_t j = 0; j < b.rows; j++) {
            double sum = 0, want = (double)((const float *)y.data)[i * y.cols + j];
            for (int64_t k = 0; k < a.k; k++)
                sum += (double)a.values[i * a.k + k] * (double)b.values[j * b.k + k];
            worst = fmax(worst, fabs(sum * alpha - want));
            most = fmax(most, fabs(want));
        }
    if (worst > 2e-6 * most)
        fail_msg("%s: off by %g of %g", name, worst, most);
    free(a.values);
    free(b.values);
}

static void test_linear_when_nvfp4_then_products_are_golden(void **state) {
    (void)state;
    golden_file file = golden_open("nvfp4_linear");
    check_product(&file, "y", quantized(&file, "x", false), quantized(&file, "w", false));
    check_product(&file, "dx", quantized(&file, "dy", false), quantized(&file, "w", true));
    check_product(&file, "dw", quantized(&file, "dy", true), quantized(&file, "x", true));
    golden_close(&file);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_linear_when_nvfp4_then_products_are_golden),
};

MPT_TEST_MAIN(cases)
