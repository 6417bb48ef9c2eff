/* rope: a table of cosines and sines by position, then every head of every token turned by it.
 *
 * The table goes by pieces of positions. A piece starts with the library's cosine and sine and
 * goes on by adding angles, cos(a + f) = cos a cos f - sin a sin f, in double: over the steps
 * of a piece that is exact to 1e-14, far below the float to which it is rounded. */
#include "kernels/rope.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"

enum { PIECE = 64, PAIRS = 64 };

/* One call's tensors and table; rows of `half` floats. */
typedef struct rope_rows {
    const float *x;
    float *y, *cosine, *sine;
    int64_t half, head_dim, heads, sequence;
    float sign; /* -1: the way back */
} rope_rows;

/* The angles of up to PAIRS pairs, and the step from one position to the next. */
typedef struct rope_turn {
    double c[PAIRS], s[PAIRS], step_c[PAIRS], step_s[PAIRS];
} rope_turn;

static void turn_start(rope_turn *turn, const mpt_rope *rope, int64_t first_pair, int64_t n,
                       int64_t position) {
    for (int64_t i = 0; i < n; i++) {
        double f = mpt_rope_frequency(rope, first_pair + i);
        turn->c[i] = cos((double)position * f);
        turn->s[i] = sin((double)position * f);
        turn->step_c[i] = cos(f);
        turn->step_s[i] = sin(f);
    }
}

/* Writes what the angles are now, and goes on to the next position. */
MPT_CLONES static void turn_write(rope_turn *turn, int64_t n, float *cosine, float *sine) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double c = turn->c[i], s = turn->s[i];
        cosine[i] = (float)c;
        sine[i] = (float)s;
        turn->c[i] = c * turn->step_c[i] - s * turn->step_s[i];
        turn->s[i] = s * turn->step_c[i] + c * turn->step_s[i];
    }
}

static void fill_piece(const rope_rows *k, const mpt_rope *rope, int64_t first) {
    rope_turn turn;
    int64_t end = mpt_cpu_smaller(first + PIECE, k->sequence);
    for (int64_t p = 0; p < k->half; p += PAIRS) {
        int64_t n = mpt_cpu_smaller(PAIRS, k->half - p);
        turn_start(&turn, rope, p, n, first);
        for (int64_t t = first; t < end; t++)
            turn_write(&turn, n, k->cosine + t * k->half + p, k->sine + t * k->half + p);
    }
}

MPT_CLONES static void rotate_token(const rope_rows *k, int64_t token) {
    int64_t half = k->half, rest = k->head_dim - 2 * half, t = token % k->sequence;
    const float *c = k->cosine + t * half, *s = k->sine + t * half;
    float sign = k->sign;
    for (int64_t h = 0; h < k->heads; h++) {
        const float *x = k->x + (token * k->heads + h) * k->head_dim;
        float *y = k->y + (token * k->heads + h) * k->head_dim;
#pragma omp simd
        for (int64_t i = 0; i < half; i++) {
            float a = x[i], b = x[i + half], turn = sign * s[i];
            y[i] = a * c[i] - b * turn;
            y[i + half] = b * c[i] + a * turn;
        }
        if (rest > 0)
            memcpy(y + 2 * half, x + 2 * half, mpt_cpu_floats(rest));
    }
}

static void rotate(const mpt_kernel_args *args, float sign) {
    const mpt_attrs *a = &args->node->attrs;
    rope_rows k = {.x = args->in[0].data,
                   .y = args->out[0].data,
                   .cosine = args->scratch,
                   .half = a->rope.dims / 2,
                   .head_dim = a->head_dim,
                   .heads = a->heads,
                   .sequence = a->sequence,
                   .sign = sign};
    k.sine = k.cosine + mpt_cpu_round_up(k.half * k.sequence);
    int64_t n_rows = mpt_tensor_rows(&args->in[0]);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t t = 0; t < k.sequence; t += PIECE)
            fill_piece(&k, &a->rope, t);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < n_rows; t++)
            rotate_token(&k, t);
    }
}

static size_t table_bytes(const mpt_node *node) {
    const mpt_attrs *a = &node->attrs;
    return mpt_cpu_floats(2 * mpt_cpu_round_up(a->rope.dims / 2 * a->sequence));
}

size_t mpt_cpu_rope_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph, (void)n_threads;
    return table_bytes(node);
}

size_t mpt_cpu_rope_grad_scratch(const mpt_graph *graph, const mpt_node *node, int n_threads) {
    (void)graph, (void)n_threads;
    return table_bytes(node);
}

void mpt_cpu_rope(const mpt_kernel_args *args) {
    rotate(args, 1.0f);
}

void mpt_cpu_rope_grad(const mpt_kernel_args *args) {
    rotate(args, -1.0f);
}
