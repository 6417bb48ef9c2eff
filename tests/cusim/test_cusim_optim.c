/* The optimizer's tail as CUDA kernels against the definition, run by the simulator.
 *
 * AdamW, SGD, zero, the rounding of what is sent and the numbers of the step are the same bits,
 * whatever the tensors are stored as; a norm may differ by an ulp, since its sum has another
 * order. */
#include "mpt_test.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.h"
#include "kernels/optim.h"
#include "kernels/packed.h"
#include "kernels/ref/optim.h"

/* More than one block of four a thread, more than one chunk of a norm, and multiples of
 * neither.
 */
enum { LONG = 2 * 16 * 1024 + 1003, MAX_TENSORS = 5, GUARD = 16 };

/* ---- tensors on both sides ---- */

/* How a tensor is kept: the host has float32 that are numbers of the dtype. `shift` elements
 * lie before the first, so that it need not begin at 16 bytes. */
typedef struct kept_as {
    mpt_dtype dtype;
    mpt_storage storage;
    int shift;
} kept_as;

static const kept_as fp32 = {MPT_DTYPE_FP32, MPT_STORAGE_HOST, 0};
static const kept_as bf16 = {MPT_DTYPE_BF16, MPT_STORAGE_BF16, 0};
static const kept_as fp16 = {MPT_DTYPE_FP16, MPT_STORAGE_FP16, 0};
static const kept_as wide_bf16 = {MPT_DTYPE_BF16, MPT_STORAGE_HOST, 0};
static const kept_as fp32_odd = {MPT_DTYPE_FP32, MPT_STORAGE_HOST, 1};
static const kept_as bf16_odd = {MPT_DTYPE_BF16, MPT_STORAGE_BF16, 3};

typedef struct pair {
    float *host;
    unsigned char *memory; /* of the device, with a guard behind the tensor */
    mpt_tensor on_host, on_device;
    size_t bytes;
} pair;

static pair pair_of(const float *x, int64_t n, kept_as as) {
    size_t each = mpt_storage_bytes(as.storage), before = (size_t)as.shift * each;
    pair p = {.host = malloc((size_t)n * sizeof *x), .bytes = before + (size_t)n * each};
    p.memory = aligned_alloc(64, (p.bytes + GUARD + 63) / 64 * 64);
    assert_true(p.host && p.memory);
    memset(p.memory, 0xA5, p.bytes + GUARD);
    memcpy(p.host, x, (size_t)n * sizeof *x);
    mpt_round_to(as.dtype, p.host, (size_t)n);
    p.on_host = (mpt_tensor){.data = p.host, .dtype = as.dtype, .rank = 1, .dims = {n}};
    p.on_device = p.on_host;
    p.on_device.storage = as.storage;
    p.on_device.data = p.memory + before;
    mpt_pack(as.storage, p.host, n, p.on_device.data);
    return p;
}

/* The same bits on both sides, NaN for NaN, and nothing written behind or before. */
static void assert_same(const pair *p, const char *what) {
    int64_t n = p->on_host.dims[0];
    float *got = malloc((size_t)n * sizeof *got);
    mpt_unpack(p->on_device.storage, NULL, p->on_device.data, n, got);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &p->host[i], sizeof *got) != 0 &&
            !(isnan(got[i]) && isnan(p->host[i])))
            fail_msg("%s, element %lld of %lld: %a, not %a", what, (long long)i, (long long)n,
                     (double)got[i], (double)p->host[i]);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(p->memory[p->bytes + i], 0xA5);
    for (const unsigned char *b = p->memory; b < (unsigned char *)p->on_device.data; b++)
        assert_int_equal(*b, 0xA5);
    free(got);
}

static void pair_free(pair *p) {
    free(p->host);
    free(p->memory);
}

/* ---- calls on both sides ---- */

typedef struct call {
    mpt_node node;
    pair *in[MAX_TENSORS];
    pair *out;
    mpt_run_env env;
} call;

static call new_call(void) {
    call c = {.env = {.grad_unscale = 0.25f, .n_threads = 1, .lr = 1e-3f}};
    c.env.bias_correction1 = (float)(1 - pow(0.9, 3));
    c.env.bias_correction2 = (float)(1 - pow(0.95, 3));
    c.node.attrs = (mpt_attrs){.beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};
    c.node.n_in = MAX_TENSORS;
    c.node.n_out = 1;
    return c;
}

typedef void kernel_of(const mpt_kernel_args *);

/* The device's kernel reads the environment from its own copy alone: the launch's says other
 * numbers. */
static void run_both(call *c, kernel_of *host, kernel_of *device) {
    static double scratch[64];
    mpt_tensor in[2][MAX_TENSORS] = {0};
    for (int i = 0; i < MAX_TENSORS && c->in[i]; i++) {
        in[0][i] = c->in[i]->on_host;
        in[1][i] = c->in[i]->on_device;
    }
    mpt_kernel_args args = {&c->node, in[0], &c->out->on_host, scratch, &c->env, NULL};
    host(&args);
    mpt_run_env elsewhere = {.lr = NAN, .grad_unscale = NAN};
    mpt_gpu gpu = {.target = MPT_TARGET_SM90, .n_multiprocessors = 2, .env = &c->env};
    device(&(mpt_kernel_args){&c->node, in[1], &c->out->on_device, scratch, &elsewhere, &gpu});
}

/* Numbers of both signs over eight decades. */
static void fill(float *x, int64_t n, uint32_t salt) {
    uint32_t h = salt * 2654435761u + 12345;
    for (int64_t i = 0; i < n; i++) {
        h = h * 1664525u + 1013904223u;
        double u = (double)(h >> 8) / 0x1p24, sign = h & 64 ? 1 : -1;
        x[i] = (float)(sign * pow(10, -8 * u));
    }
}

static pair random_pair(int64_t n, uint32_t salt, kept_as as) {
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    fill(x, n, salt);
    for (int64_t i = 0; salt == 4 && i < n; i++) /* second moments */
        x[i] = fabsf(x[i]);
    pair p = pair_of(x, n, as);
    free(x);
    return p;
}

/* ---- AdamW, SGD ---- */

/* Weights, gradient and moments of one parameter, and the factor. */
typedef struct optimized {
    pair w, grad, m, v, factor;
} optimized;

static optimized optimized_of(int64_t n, kept_as w, kept_as grad, kept_as state, float factor) {
    return (optimized){random_pair(n, 1, w), random_pair(n, 2, grad), random_pair(n, 3, state),
                       random_pair(n, 4, state), pair_of(&factor, 1, fp32)};
}

static void optimized_free(optimized *o) {
    pair *all[] = {&o->w, &o->grad, &o->m, &o->v, &o->factor};
    for (size_t i = 0; i < MPT_COUNT(all); i++)
        pair_free(all[i]);
}

static call adamw_call(optimized *o) {
    call c = new_call();
    pair *in[MAX_TENSORS] = {&o->w, &o->grad, &o->m, &o->v, &o->factor};
    memcpy(c.in, in, sizeof in);
    c.out = &o->w;
    c.node.attrs.weight_decay = 0.1f;
    return c;
}

static void check_adamw(int64_t n, kept_as w, kept_as grad, kept_as state, bool later) {
    optimized o = optimized_of(n, w, grad, state, 0.3f);
    call c = adamw_call(&o);
    c.node.attrs.kept_later = later;
    for (int step = 0; step < 3; step++)
        run_both(&c, mpt_ref_adamw, mpt_cuda_adamw);
    assert_same(&o.w, "weights");
    assert_same(&o.m, "first moment");
    assert_same(&o.v, "second moment");
    optimized_free(&o);
}

static void test_adamw_when_any_length_then_bits_of_ref(void **s) {
    (void)s;
    const int64_t lengths[] = {1, 3, 4, 5, 33, 1023, 4099, 9001};
    for (size_t i = 0; i < MPT_COUNT(lengths); i++)
        check_adamw(lengths[i], fp32, fp32, fp32, false);
}

static void test_adamw_when_any_storage_then_bits_of_ref(void **s) {
    (void)s;
    const kept_as kinds[] = {fp32, bf16, fp16, wide_bf16, fp32_odd, bf16_odd};
    for (size_t w = 0; w < MPT_COUNT(kinds); w++)
        for (size_t g = 0; g < MPT_COUNT(kinds); g++)
            for (size_t k = 0; k < MPT_COUNT(kinds); k++)
                check_adamw(77, kinds[w], kinds[g], kinds[k], false);
}

/* A node behind rounds them, by chance: this one must not. */
static void test_adamw_when_weights_are_kept_later_then_they_stay_float32(void **s) {
    (void)s;
    check_adamw(131, wide_bf16, fp32, bf16, true);
}

static void test_adamw_when_factor_is_nan_then_nothing_is_written(void **s) {
    (void)s;
    optimized o = optimized_of(131, fp32, bf16, wide_bf16, NAN);
    ((float *)o.m.on_device.data)[5] = o.m.host[5] = 0.1f; /* no BF16 number: rounding shows */
    call c = adamw_call(&o);
    run_both(&c, mpt_ref_adamw, mpt_cuda_adamw);
    assert_same(&o.w, "weights");
    assert_same(&o.m, "first moment");
    assert_true(((float *)o.m.on_device.data)[5] == 0.1f);
    optimized_free(&o);
}

static void test_adamw_when_a_gradient_is_not_finite_then_it_stays_visible(void **s) {
    (void)s;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < MPT_COUNT(bad); b++) {
        optimized o = optimized_of(70, fp32, fp32, bf16, 1);
        for (int i = 0; i < 70; i += 23)
            o.grad.host[i] = ((float *)o.grad.on_device.data)[i] = bad[b];
        call c = adamw_call(&o);
        run_both(&c, mpt_ref_adamw, mpt_cuda_adamw);
        assert_true(isnan(o.w.host[23]));
        assert_same(&o.w, "weights");
        assert_same(&o.v, "second moment");
        optimized_free(&o);
    }
}

static void check_sgd(int64_t n, kept_as w, kept_as grad, kept_as state, bool moves) {
    optimized o = optimized_of(n, w, grad, state, 0.3f);
    call c = adamw_call(&o);
    pair absent = {0};
    c.in[2] = moves ? &o.m : &absent;
    c.in[3] = &o.factor;
    c.in[4] = NULL;
    c.node.attrs.momentum = 0.9f;
    for (int step = 0; step < 3; step++)
        run_both(&c, mpt_ref_sgd, mpt_cuda_sgd);
    assert_same(&o.w, "weights");
    assert_same(&o.m, "momentum");
    optimized_free(&o);
}

static void test_sgd_when_any_storage_then_bits_of_ref(void **s) {
    (void)s;
    const kept_as kinds[] = {fp32, bf16, wide_bf16, fp32_odd, bf16_odd};
    for (size_t w = 0; w < MPT_COUNT(kinds); w++)
        for (size_t k = 0; k < MPT_COUNT(kinds); k++)
            for (int moves = 0; moves < 2; moves++)
                check_sgd(141, kinds[w], kinds[(w + k) % MPT_COUNT(kinds)], kinds[k], moves);
    check_sgd(4099, fp32, bf16, fp32, true);
}

/* ---- gradients ---- */

static void test_zero_when_any_storage_then_all_is_zero(void **s) {
    (void)s;
    const kept_as kinds[] = {fp32, bf16, fp16, fp32_odd, bf16_odd};
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (int64_t n = 1; n < 40; n += 6) {
            pair g = random_pair(n, 5, kinds[k]);
            call c = new_call();
            c.out = &g;
            run_both(&c, mpt_ref_zero, mpt_cuda_zero);
            assert_same(&g, "gradient");
            pair_free(&g);
        }
}

static void test_grad_reduce_when_one_rank_then_gradient_is_rounded_as_it_is_sent(void **s) {
    (void)s;
    const kept_as kinds[] = {fp32, bf16, fp32_odd};
    const mpt_dtype sent[] = {MPT_DTYPE_FP32, MPT_DTYPE_BF16, MPT_DTYPE_FP16};
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (size_t d = 0; d < MPT_COUNT(sent); d++) {
            pair g = random_pair(1027, 6, kinds[k]);
            call c = new_call();
            c.out = &g;
            c.node.attrs.reduce = sent[d];
            run_both(&c, mpt_ref_grad_reduce, mpt_cuda_grad_reduce);
            mpt_ref_round_to(g.on_host.dtype, g.host, 1027); /* as the executor does */
            assert_same(&g, "gradient");
            pair_free(&g);
        }
}

/* ---- norms ---- */

typedef struct norms {
    float ref[2], device[2];
} norms;

static norms norms_of(pair *g, float unscale) {
    pair factor = pair_of(&unscale, 1, fp32);
    pair rows = pair_of((float[]){-1, -1, -1, -1, -1, -1}, 6, fp32);
    call c = new_call();
    c.in[0] = g;
    c.in[1] = &factor;
    c.out = &rows;
    c.node.attrs.row_index = 1;
    run_both(&c, mpt_ref_grad_norm, mpt_cuda_grad_norm);
    const float *device = rows.on_device.data;
    assert_true(device[1] == -1 && device[4] == -1); /* other rows are other nodes' */
    norms r = {{rows.host[2], rows.host[3]}, {device[2], device[3]}};
    pair_free(&factor);
    pair_free(&rows);
    return r;
}

static void test_grad_norm_when_any_length_then_within_an_ulp_of_ref(void **s) {
    (void)s;
    const kept_as kinds[] = {fp32, bf16, fp16, fp32_odd, bf16_odd};
    const int64_t lengths[] = {1, 2, 7, 1025, 16 * 1024, LONG};
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (size_t i = 0; i < MPT_COUNT(lengths); i++) {
            pair g = random_pair(lengths[i], 7, kinds[k]);
            norms r = norms_of(&g, 0.25f);
            assert_true(r.device[1] == 1);
            assert_true(r.device[0] >= nextafterf(r.ref[0], 0) &&
                        r.device[0] <= nextafterf(r.ref[0], INFINITY));
            pair_free(&g);
        }
}

static void test_grad_norm_when_squares_would_overflow_float_then_finite(void **s) {
    (void)s;
    pair g = pair_of((float[]){3e30f, 0, 0, 0, 4e30f}, 5, fp32);
    norms r = norms_of(&g, 1);
    assert_true(r.device[1] == 1 && fabs((double)r.device[0] / 5e30 - 1) < 1e-6);
    pair_free(&g);
}

static void test_grad_norm_when_one_element_is_bad_then_flagged(void **s) {
    (void)s;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const int64_t at[] = {0, 16 * 1024 - 1, 16 * 1024, LONG - 1};
    pair g = random_pair(LONG, 8, fp32);
    float *device = g.on_device.data;
    for (size_t b = 0; b < MPT_COUNT(bad); b++)
        for (size_t k = 0; k < MPT_COUNT(at); k++) {
            float good = device[at[k]];
            device[at[k]] = bad[b];
            norms r = norms_of(&g, 1);
            assert_true(r.device[1] == 0 && !isfinite(r.device[0]));
            device[at[k]] = good;
        }
    pair_free(&g);
}

/* The bits of a norm are those of the tree, in whatever order its threads run. */
static void test_grad_norm_when_threads_are_shuffled_then_same_bits(void **s) {
    (void)s;
    pair g = random_pair(LONG, 9, fp32);
    norms first = norms_of(&g, 0.5f);
    const char *seeds[] = {"1", "77", "123456"};
    for (size_t k = 0; k < MPT_COUNT(seeds); k++) {
        setenv("CUSIM_SEED", seeds[k], 1);
        norms r = norms_of(&g, 0.5f);
        assert_memory_equal(r.device, first.device, sizeof r.device);
        check_adamw(1023, fp32, bf16, fp32, false);
    }
    unsetenv("CUSIM_SEED");
    pair_free(&g);
}

/* ---- the numbers of the step ---- */

typedef struct step_numbers {
    pair rows, unscale, bad, norm, factor;
} step_numbers;

/* finite_check gives an int32 and works on float tensors alike: four bytes. */
static step_numbers check_numbers(const float *rows, int64_t n, float clip) {
    const float zero = 0;
    step_numbers t = {pair_of(rows, 2 * n, fp32), pair_of(&zero, 1, fp32),
                      pair_of(&zero, 1, fp32), pair_of(&zero, 1, fp32),
                      pair_of(&zero, 1, fp32)};
    t.rows.on_host.rank = t.rows.on_device.rank = 2;
    t.rows.on_host.dims[0] = t.rows.on_device.dims[0] = n;
    t.rows.on_host.dims[1] = t.rows.on_device.dims[1] = 2;
    call c = new_call();
    c.node.attrs.clip = clip;
    c.out = &t.unscale;
    run_both(&c, mpt_ref_unscale, mpt_cuda_unscale);
    c.in[0] = &t.rows;
    c.out = &t.bad;
    run_both(&c, mpt_ref_finite_check, mpt_cuda_finite_check);
    c.out = &t.norm;
    run_both(&c, mpt_ref_global_norm, mpt_cuda_global_norm);
    c.in[0] = &t.norm;
    c.in[1] = &t.unscale;
    c.in[2] = &t.bad;
    c.out = &t.factor;
    run_both(&c, mpt_ref_clip_factor, mpt_cuda_clip_factor);
    assert_memory_equal(t.bad.host, t.bad.on_device.data, sizeof(int32_t));
    assert_same(&t.unscale, "unscale");
    assert_same(&t.norm, "norm");
    assert_same(&t.factor, "factor");
    return t;
}

static void numbers_free(step_numbers *t) {
    pair *all[] = {&t->rows, &t->unscale, &t->bad, &t->norm, &t->factor};
    for (size_t i = 0; i < MPT_COUNT(all); i++)
        pair_free(all[i]);
}

static void test_numbers_when_any_count_of_parameters_then_bits_of_ref(void **s) {
    (void)s;
    enum { MANY = 1023 };
    float *rows = malloc(2 * MANY * sizeof *rows);
    fill(rows, 2 * MANY, 10);
    for (int i = 0; i < MANY; i++)
        rows[2 * i + 1] = 1;
    for (int64_t n = 1; n <= MANY; n = 4 * n + 3)
        for (int clip = 0; clip < 2; clip++) {
            step_numbers t = check_numbers(rows, n, clip ? 1e-3f : 0);
            assert_int_equal(*(int32_t *)t.bad.on_device.data, -1);
            numbers_free(&t);
        }
    free(rows);
}

static void test_numbers_when_two_are_bad_then_first_is_named_and_factor_is_nan(void **s) {
    (void)s;
    float rows[2 * 600];
    for (int i = 0; i < 600; i++) {
        rows[2 * i] = 1;
        rows[2 * i + 1] = 1;
    }
    for (int first = 0; first < 599; first += 299) {
        rows[2 * first] = rows[2 * 599] = INFINITY;
        rows[2 * first + 1] = rows[2 * 599 + 1] = 0;
        step_numbers t = check_numbers(rows, 600, 1);
        assert_int_equal(*(int32_t *)t.bad.on_device.data, first);
        assert_true(isnan(*(float *)t.factor.on_device.data));
        numbers_free(&t);
        rows[2 * first + 1] = 1;
    }
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_adamw_when_any_length_then_bits_of_ref),
    cmocka_unit_test(test_adamw_when_any_storage_then_bits_of_ref),
    cmocka_unit_test(test_adamw_when_weights_are_kept_later_then_they_stay_float32),
    cmocka_unit_test(test_adamw_when_factor_is_nan_then_nothing_is_written),
    cmocka_unit_test(test_adamw_when_a_gradient_is_not_finite_then_it_stays_visible),
    cmocka_unit_test(test_sgd_when_any_storage_then_bits_of_ref),
    cmocka_unit_test(test_zero_when_any_storage_then_all_is_zero),
    cmocka_unit_test(test_grad_reduce_when_one_rank_then_gradient_is_rounded_as_it_is_sent),
    cmocka_unit_test(test_grad_norm_when_any_length_then_within_an_ulp_of_ref),
    cmocka_unit_test(test_grad_norm_when_squares_would_overflow_float_then_finite),
    cmocka_unit_test(test_grad_norm_when_one_element_is_bad_then_flagged),
    cmocka_unit_test(test_grad_norm_when_threads_are_shuffled_then_same_bits),
    cmocka_unit_test(test_numbers_when_any_count_of_parameters_then_bits_of_ref),
    cmocka_unit_test(test_numbers_when_two_are_bad_then_first_is_named_and_factor_is_nan),
};

MPT_TEST_MAIN(cases)
