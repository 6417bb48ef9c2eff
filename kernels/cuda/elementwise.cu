/* Ops that make each element from elements at the same place, and the op cast.
 *
 * All run through one kernel: vectors of eight elements a thread, in registers. Bound by
 * memory; those with exp, tanh or erf come close to the issue rate in two-byte storage. */
#include "kernels/cuda/values.h"

enum { MAP_IN = 3, MAP_OUT = 2 };

struct map_tensors {
    gpu_tensor in[MAP_IN], out[MAP_OUT];
};

/* Op::of makes one element of each output from one of each input. */
template <class Op> static __global__ void map_kernel(Op op, map_tensors t) {
    GPU_EACH_VECTOR(i, t.out[0].n) {
        gpu_floats<GPU_VECTOR> in[Op::ins], out[Op::outs];
        GPU_UNROLL
        for (int k = 0; k < Op::ins; k++)
            in[k] = gpu_get_n<GPU_VECTOR>(t.in[k], i, t.out[0].n);
        GPU_UNROLL
        for (int v = 0; v < GPU_VECTOR; v++) {
            float x[MAP_IN], y[MAP_OUT];
            GPU_UNROLL
            for (int k = 0; k < Op::ins; k++)
                x[k] = in[k].v[v];
            op.of(x, y);
            GPU_UNROLL
            for (int k = 0; k < Op::outs; k++)
                out[k].v[v] = y[k];
        }
        GPU_UNROLL
        for (int k = 0; k < Op::outs; k++)
            gpu_put_n(t.out[k], i, t.out[0].n, out[k]);
    }
}

static map_tensors map_tensors_of(const mpt_kernel_args *args) {
    map_tensors t;
    for (int i = 0; i < MAP_IN; i++)
        t.in[i] = gpu_in(args, i);
    for (int i = 0; i < MAP_OUT; i++)
        t.out[i] = gpu_out(args, i);
    return t;
}

#define MAP_OP(op)                                                                             \
    extern "C" void mpt_cuda_##op(const mpt_kernel_args *args) {                               \
        map_tensors t = map_tensors_of(args);                                                  \
        op##_op f = op##_op::make(args);                                                       \
        GPU_LAUNCH(map_kernel<op##_op>, gpu_vector_blocks(t.out[0].n), GPU_THREADS, 0,         \
                   args->gpu, f, t);                                                           \
    }

/* What an op is: how many inputs and outputs, and an element of each. */
#define MAP_DEFINE(op, n_in, n_out)                                                            \
    struct op##_op {                                                                           \
        enum { ins = n_in, outs = n_out };                                                     \
        static op##_op make(const mpt_kernel_args *) { return {}; }                            \
        __device__ __forceinline__ void of(const float *x, float *y) const;                    \
    };                                                                                         \
    MAP_OP(op)                                                                                 \
    __device__ __forceinline__ void op##_op::of(const float *x, float *y) const

/* ---- sums, products, factors ---- */

MAP_DEFINE(add, 2, 1) {
    y[0] = x[0] + x[1];
}

MAP_DEFINE(mul, 2, 1) {
    y[0] = x[0] * x[1];
}

struct scale_op {
    enum { ins = 1, outs = 1 };
    float factor;
    static scale_op make(const mpt_kernel_args *args) { return {args->node->attrs.scale}; }
    __device__ __forceinline__ void of(const float *x, float *y) const { y[0] = factor * x[0]; }
};
MAP_OP(scale)

/* ---- activations ---- */

static __device__ __forceinline__ float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

/* d/dx of x sigmoid(x), of its sigmoid. */
static __device__ __forceinline__ float silu_slope(float x, float s) {
    return s * (1 + x * (1 - s));
}

/* Written so that NaN passes: a comparison with NaN is false. */
static __device__ __forceinline__ float relu(float x) {
    return x <= 0 ? 0 : x;
}

static __device__ const float gelu_sqrt_2_over_pi = 0.79788456080286535588f;
static __device__ const float gelu_sqrt_half = 0.70710678118654752440f;
static __device__ const float gelu_cubic = 0.044715f;

/* (1 + tanh u) / 2 of the tanh form is sigmoid(2 u): one exp, and no cancellation. */
static __device__ __forceinline__ float gelu_gate(float x) {
    return sigmoid(2 * gelu_sqrt_2_over_pi * (x + gelu_cubic * x * x * x));
}

static __device__ __forceinline__ float gelu_normal(float x) {
    return 0.5f * (1 + erff(x * gelu_sqrt_half));
}

struct gelu_op {
    enum { ins = 1, outs = 1 };
    bool exact;
    static gelu_op make(const mpt_kernel_args *args) { return {args->node->attrs.exact}; }
    __device__ __forceinline__ void of(const float *x, float *y) const {
        y[0] = x[0] * (exact ? gelu_normal(x[0]) : gelu_gate(x[0]));
    }
};
MAP_OP(gelu)

static __device__ __forceinline__ float gelu_slope(float x, bool exact) {
    if (exact) {
        float phi = gelu_sqrt_2_over_pi / 2 * expf(-x * x / 2);
        return gelu_normal(x) + x * phi;
    }
    float s = gelu_gate(x);
    return s + 2 * x * s * (1 - s) * gelu_sqrt_2_over_pi * (1 + 3 * gelu_cubic * x * x);
}

struct gelu_grad_op {
    enum { ins = 2, outs = 1 };
    bool exact;
    static gelu_grad_op make(const mpt_kernel_args *args) { return {args->node->attrs.exact}; }
    __device__ __forceinline__ void of(const float *x, float *y) const {
        y[0] = x[1] * gelu_slope(x[0], exact);
    }
};
MAP_OP(gelu_grad)

MAP_DEFINE(silu, 1, 1) {
    y[0] = x[0] * sigmoid(x[0]);
}

MAP_DEFINE(silu_grad, 2, 1) {
    y[0] = x[1] * silu_slope(x[0], sigmoid(x[0]));
}

MAP_DEFINE(relu2, 1, 1) {
    y[0] = relu(x[0]) * relu(x[0]);
}

MAP_DEFINE(relu2_grad, 2, 1) {
    y[0] = 2 * relu(x[0]) * x[1];
}

/* log(1 + e^x) without overflow; NaN passes. */
MAP_DEFINE(softplus, 1, 1) {
    y[0] = relu(x[0]) + log1pf(expf(x[0] < 0 ? x[0] : -x[0]));
}

MAP_DEFINE(softplus_grad, 2, 1) {
    y[0] = x[1] * sigmoid(x[0]);
}

MAP_DEFINE(swiglu, 2, 1) {
    y[0] = x[0] * sigmoid(x[0]) * x[1];
}

MAP_DEFINE(swiglu_grad, 3, 2) {
    float s = sigmoid(x[0]);
    y[0] = x[2] * x[1] * silu_slope(x[0], s);
    y[1] = x[2] * x[0] * s;
}

/* ---- cast ---- */

/* Rounds to the output's format, of which two bytes hold BF16 and FP16 alone; all others lie in
 * float32. A NaN of two bytes becomes the canonical one of its sign, as where the host unpacks
 * it. */
struct cast_op {
    enum { ins = 1, outs = 1 };
    mpt_dtype to;
    bool decoded;
    static cast_op make(const mpt_kernel_args *args) {
        const mpt_tensor *y = &args->out[0];
        bool by_put = y->storage != MPT_STORAGE_HOST || mpt_is_wide(y->dtype);
        return {by_put ? MPT_DTYPE_FP32 : y->dtype, args->in[0].storage != MPT_STORAGE_HOST};
    }
    __device__ __forceinline__ void of(const float *x, float *y) const {
        uint32_t bits = mpt_float_bits(x[0]);
        if (decoded && mpt_abs_bits(x[0]) > MPT_INF_BITS)
            bits = (bits & ~MPT_ABS_BITS) | MPT_NAN_BITS;
        float v = mpt_bits_float(bits);
        y[0] = to == MPT_DTYPE_FP32 ? v : mpt_round(to, v);
    }
};
MAP_OP(cast)
