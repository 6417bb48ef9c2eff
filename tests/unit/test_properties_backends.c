/* What must not change a byte: the backend, the outputs asked for, both copies at once, the
 * threads. Over quantizers drawn from all that can be written, shapes from 1 x 1 to 257 x 511,
 * and values of every magnitude, NaN and Inf among them. */
#include "any_quantizer.h"

#include <omp.h>

enum { CASES = 300 };

static void assert_same(const any_case *c, any_outputs *a, any_outputs *b, bool exact) {
    const char *what = any_difference(a, b);
    if (what)
        any_fail(c, what);
    if (!case_same_counts(&a->counts, &b->counts, exact))
        any_fail(c, "counts");
}

static void test_cpu_when_any_quantizer_then_ref_to_the_byte(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        any_case c = any_case_of(seed, false);
        any_outputs ref = any_run(mpt_ref_quantize_operand, any_job(&c));
        any_outputs cpu = any_run(mpt_quantize_operand, any_job(&c));
        any_outputs fast = any_run_with(mpt_quantize_operand, any_job(&c), false);
        assert_same(&c, &ref, &cpu, false);
        if (any_difference(&ref, &fast))
            any_fail(&c, any_difference(&ref, &fast));
        any_free(&ref);
        any_free(&cpu);
        any_free(&fast);
        any_case_free(&c);
    }
}

/* The counts of a job that asks for nothing else. */
static mpt_quantize_counts counts_alone(const any_case *c) {
    mpt_quantize_counts counts;
    mpt_quantize_job job = any_job(c);
    any_buffer scratch = any_buffer_of(mpt_quantize_scratch(&job));
    job.scratch = (void *)scratch.data;
    job.counts = &counts;
    mpt_quantize_operand(&job);
    any_buffer_free(&scratch);
    return counts;
}

/* Fast paths differ by the outputs that are wanted: one at a time gives what all give. */
static void test_cpu_when_one_output_is_asked_for_then_as_with_all(void **state) {
    (void)state;
    for (uint64_t seed = 1000; seed < 1000 + CASES; seed++) {
        any_case c = any_case_of(seed, false);
        any_outputs all = any_run(mpt_ref_quantize_operand, any_job(&c));
        for (int which = 0; which < 4; which++) {
            mpt_quantize_job job = any_job(&c);
            any_outputs o = any_outputs_of(&job, c.q.outer == MPT_OUTER_ROW);
            any_buffer scratch = any_buffer_of(mpt_quantize_scratch(&job));
            job.scratch = (void *)scratch.data;
            job.stands_for = NULL;
            if (which != 0)
                job.decoded = NULL;
            if (which != 1)
                job.codes = NULL;
            if (which != 2)
                job.scales = NULL;
            if (which != 3)
                job.amax = job.amax_history = NULL;
            mpt_quantize_operand(&job);
            any_buffer *got[] = {&o.decoded, &o.codes, &o.scales, &o.amax};
            any_buffer *want[] = {&all.decoded, &all.codes, &all.scales, &all.amax};
            if (memcmp(got[which]->data, want[which]->data, got[which]->bytes) != 0 ||
                memcmp(o.factor.data, all.factor.data, o.factor.bytes) != 0)
                any_fail(&c, "one output differs from the same among all");
            any_buffer_free(&scratch);
            any_free(&o);
        }
        mpt_quantize_counts counts = counts_alone(&c);
        if (!case_same_counts(&all.counts, &counts, false))
            any_fail(&c, "counts alone");
        any_free(&all);
        any_case_free(&c);
    }
}

/* decoded_k cuts the padding of a rotation: the part that is written is the same. */
static void test_decoded_when_its_extent_is_cut_then_the_same_part(void **state) {
    (void)state;
    int cut = 0;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        any_case c = any_case_of(seed, false);
        any_outputs all = any_run(mpt_ref_quantize_operand, any_job(&c));
        mpt_quantize_job job = any_job(&c);
        any_shape s = any_shape_of(&job);
        any_buffer part = any_buffer_of((size_t)(s.rows * s.k_in) * 4);
        any_buffer scratch = any_buffer_of(mpt_quantize_scratch(&job));
        job.scratch = (void *)scratch.data;
        job.decoded = (void *)part.data;
        job.decoded_k = s.k_in;
        cut += s.k_in < s.k;
        mpt_quantize_operand(&job);
        for (int64_t r = 0; r < (job.column ? 1 : s.rows); r++) {
            size_t bytes = job.column ? part.bytes : (size_t)s.k_in * 4;
            const uint8_t *from = all.decoded.data + (job.column ? 0 : r * s.k * 4);
            if (memcmp(part.data + r * s.k_in * 4, from, bytes) != 0)
                any_fail(&c, "decoded without padding");
        }
        any_buffer_free(&scratch);
        any_buffer_free(&part);
        any_free(&all);
        any_case_free(&c);
    }
    assert_true(cut > CASES / 10);
}

static void test_operand_when_bf16_codes_come_in_then_as_their_values(void **state) {
    (void)state;
    for (uint64_t seed = 2000; seed < 2000 + CASES; seed++) {
        any_case c = any_case_of(seed, false);
        uint16_t *codes = malloc(c.n * 2);
        assert_non_null(codes);
        for (size_t i = 0; i < c.n; i++) {
            codes[i] = (uint16_t)mpt_encode(MPT_DTYPE_BF16, c.x[i]);
            c.x[i] = mpt_decode(MPT_DTYPE_BF16, codes[i]);
        }
        c.job.bf16 = true;
        c.job.fp16 = false;
        any_outputs values = any_run(mpt_ref_quantize_operand, any_job(&c));
        mpt_quantize_job job = any_job(&c);
        job.x = NULL;
        job.x_bf16 = codes;
        job.bf16 = false;
        any_outputs ref = any_run(mpt_ref_quantize_operand, job);
        any_outputs cpu = any_run_with(mpt_quantize_operand, job, false);
        assert_same(&c, &values, &ref, true);
        if (any_difference(&values, &cpu))
            any_fail(&c, any_difference(&values, &cpu));
        any_free(&values);
        any_free(&ref);
        any_free(&cpu);
        free(codes);
        any_case_free(&c);
    }
}

/* ---- threads ---- */

static void test_any_when_threads_differ_then_same_bytes_and_counts(void **state) {
    (void)state;
    int before = omp_get_max_threads();
    for (uint64_t seed = 3000; seed < 3000 + CASES; seed++) {
        any_case c = any_case_of(seed, false);
        omp_set_num_threads(1);
        any_outputs one = any_run(mpt_quantize_operand, any_job(&c));
        omp_set_num_threads(2);
        any_outputs two = any_run(mpt_quantize_operand, any_job(&c));
        any_outputs fast = any_run_with(mpt_quantize_operand, any_job(&c), false);
        assert_same(&c, &one, &two, true);
        if (any_difference(&one, &fast))
            any_fail(&c, any_difference(&one, &fast));
        any_free(&fast);
        any_free(&one);
        any_free(&two);
        any_case_free(&c);
    }
    omp_set_num_threads(before);
}

/* Matrices that are shared among the threads, in panels of every sort. */
static void test_counts_when_threads_differ_then_the_same_bits(void **state) {
    (void)state;
    int before = omp_get_max_threads();
    for (uint64_t seed = 6000; seed < 6000 + CASES / 5; seed++) {
        any_case c = any_case_of(seed, seed % 2);
        free(c.x);
        c.job.rows = 129 + (int64_t)seed % 60;
        c.job.cols = 300 - (int64_t)seed % 50;
        c.n = (size_t)(c.job.rows * c.job.cols);
        c.x = case_buffer(c.n * 4);
        c.job.x = c.x;
        case_fill(c.x, c.n, (int)(seed % 3), seed);
        omp_set_num_threads(1);
        mpt_quantize_counts one = counts_alone(&c);
        omp_set_num_threads(2);
        mpt_quantize_counts two = counts_alone(&c);
        if (!case_same_counts(&one, &two, true))
            any_fail(&c, "counts of one thread and of two");
        any_case_free(&c);
    }
    omp_set_num_threads(before);
}

/* ---- both copies ---- */

typedef void (*both_fn)(const mpt_quantize_job *, const mpt_quantize_job *);

/* Runs both copies at once; the column's quantizer may be another than the row's. */
static void run_both(both_fn both, mpt_quantize_job row, mpt_quantize_job col,
                     any_outputs out[2], bool counted) {
    out[0] = any_outputs_of(&row, row.q->outer == MPT_OUTER_ROW);
    out[1] = any_outputs_of(&col, col.q->outer == MPT_OUTER_ROW);
    any_buffer scratch[] = {any_buffer_of(mpt_quantize_scratch(&row)),
                            any_buffer_of(mpt_quantize_both_scratch(&row, &col))};
    row.scratch = (void *)scratch[0].data;
    col.scratch = (void *)scratch[1].data;
    row.counts = counted ? &out[0].counts : NULL;
    col.counts = counted ? &out[1].counts : NULL;
    if (!counted)
        row.stands_for = col.stands_for = NULL;
    both(&row, &col);
    mpt_dequantize(&row, (void *)out[0].dequantized.data);
    mpt_dequantize(&col, (void *)out[1].dequantized.data);
    any_buffer_free(&scratch[0]);
    any_buffer_free(&scratch[1]);
    for (int i = 0; !counted && i < 2; i++)
        out[i].stands_for.bytes = 0;
}

/* The column copy of `source` = "dequantized", put together by hand: what the row copy stands
 * for is the operand, rounded to BF16 where it was one. */
static any_outputs column_of_dequantized(const any_outputs *row, mpt_quantize_job col) {
    size_t n = (size_t)(col.rows * col.cols);
    float *x = malloc(n * 4);
    assert_non_null(x);
    memcpy(x, row->dequantized.data, n * 4);
    if (col.bf16)
        mpt_ref_round_to(MPT_DTYPE_BF16, x, n);
    col.x = x;
    any_outputs o = any_run(mpt_ref_quantize_operand, col);
    free(x);
    return o;
}

static void check_both(uint64_t seed, int *dequantized) {
    any_case c = any_case_of(seed, false), other = any_case_of(seed + 50000, false);
    mpt_quantize_job row = any_job(&c), col = any_job(&c);
    row.column = false;
    col.column = true;
    col.q = &other.q;
    col.scale = NULL;
    bool again = other.q.source == MPT_SOURCE_DEQUANTIZED;
    if (again && c.q.hadamard.size)
        other.q.source = MPT_SOURCE_ORIGINAL;
    again = other.q.source == MPT_SOURCE_DEQUANTIZED;
    *dequantized += again;
    any_outputs want[2] = {any_run(mpt_ref_quantize_operand, row)}, got[2];
    want[1] =
        again ? column_of_dequantized(&want[0], col) : any_run(mpt_ref_quantize_operand, col);
    static const both_fn both[] = {mpt_ref_quantize_both, mpt_quantize_both, mpt_quantize_both};
    for (size_t b = 0; b < MPT_COUNT(both); b++) {
        bool counted = b < 2;
        run_both(both[b], row, col, got, counted);
        for (int i = 0; i < 2; i++) {
            const char *what = any_difference(&want[i], &got[i]);
            if (what)
                any_fail(i ? &other : &c, what);
            if (counted && !case_same_counts(&want[i].counts, &got[i].counts, false))
                any_fail(i ? &other : &c, "counts");
            any_free(&got[i]);
        }
    }
    any_free(&want[0]);
    any_free(&want[1]);
    any_case_free(&c);
    any_case_free(&other);
}

static void test_both_when_any_two_quantizers_then_as_two_single_calls(void **state) {
    (void)state;
    int dequantized = 0;
    for (uint64_t seed = 4000; seed < 4000 + CASES; seed++)
        check_both(seed, &dequantized);
    assert_true(dequantized > CASES / 5);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_cpu_when_any_quantizer_then_ref_to_the_byte),
    cmocka_unit_test(test_cpu_when_one_output_is_asked_for_then_as_with_all),
    cmocka_unit_test(test_decoded_when_its_extent_is_cut_then_the_same_part),
    cmocka_unit_test(test_operand_when_bf16_codes_come_in_then_as_their_values),
    cmocka_unit_test(test_any_when_threads_differ_then_same_bytes_and_counts),
    cmocka_unit_test(test_counts_when_threads_differ_then_the_same_bits),
    cmocka_unit_test(test_both_when_any_two_quantizers_then_as_two_single_calls),
};

MPT_TEST_MAIN(cases)
