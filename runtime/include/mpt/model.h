/* Drawing a model in C, for hosts without Lua: forward lines only, no precision anywhere.
 *
 * Handed to mpt_recipe_set_model as a build function:
 *
 *   static mpt_status build(void *ud, mpt_nn *nn, bool proxy) {
 *       mpt_model_value x = mpt_model_embedding(nn, "wte", mpt_model_tokens(nn), 0, 64);
 *       mpt_model_block(nn, "h", 0);
 *       mpt_model_value h = mpt_model_rmsnorm(nn, "norm", x, 1e-5f);
 *       h = mpt_model_linear(nn, "up", h, MPT_LINEAR(.out = 256));
 *       h = mpt_model_linear(nn, "down", mpt_model_activation(nn, "relu2", h),
 *                            MPT_LINEAR(.out = 64));
 *       x = mpt_model_add(nn, x, h);
 *       mpt_model_end_block(nn);
 *       x = mpt_model_linear(nn, "lm_head", x, MPT_LINEAR(.head = true));
 *       return mpt_model_cross_entropy(nn, x);
 *   }
 *
 * Values are [tokens, features]. Names are relative to the open block ("up" in block 0 of "h"
 * is "h.0.up") and make the names of parameters. The first call that fails sets the context's
 * error; it and all later ones give -1, and mpt_model_cross_entropy its status. A wrong
 * argument (NULL where no comment allows it) is such a failure. The builder is lent for the
 * length of the build function. */
#ifndef MPT_MODEL_H
#define MPT_MODEL_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mpt_nn mpt_nn;
typedef int32_t mpt_model_value; /* -1: a call failed */

/* Where the next lines stand, for messages and plans. `file` outlives the program. */
MPT_API void mpt_model_at(mpt_nn *nn, const char *file, int line);

/* What the recipe and its data ask for. The vocabulary is 0 where the data are token files and
 * nothing states it. */
MPT_API int64_t mpt_model_vocabulary(const mpt_nn *nn);
MPT_API int64_t mpt_model_sequence(const mpt_nn *nn);

/* What the names of the model's tensors begin with in checkpoints: "model.", with the dot;
 * copied. Default
 * nothing. Files with another root are read all the same. */
MPT_API void mpt_model_prefix(mpt_nn *nn, const char *prefix);

/* Blocks are numbered from 0 and opened in order; `root` is "layers" or "h". */
MPT_API void mpt_model_block(mpt_nn *nn, const char *root, int index);
MPT_API void mpt_model_end_block(mpt_nn *nn);

/* Inputs. Positions are 0 ... sequence-1 of each sequence. */
MPT_API mpt_model_value mpt_model_tokens(mpt_nn *nn);
MPT_API mpt_model_value mpt_model_positions(mpt_nn *nn);

/* Rows of a table by number; rows 0 means one for each word of the vocabulary. */
MPT_API mpt_model_value mpt_model_embedding(mpt_nn *nn, const char *name, mpt_model_value ids,
                                            int64_t rows, int64_t width);

/* y = x W^T + b. */
typedef struct mpt_linear {
    size_t size;
    int64_t out;              /* features; 0 with `head` means the vocabulary */
    bool bias;                /* starts at zero */
    bool head;                /* the projection to the vocabulary: rules call it "head" */
    bool transposed;          /* stored [in, out] in checkpoints, as GPT-2's Conv1D */
    const char *tied;         /* use this parameter as weight: "wte.weight" */
    float init_std;           /* weight starts from N(0, init_std); 0 means 0.02 */
    const char *const *parts; /* names of the parts that are fused in it, for rules */
    int n_parts;
} mpt_linear;
#define MPT_LINEAR(...) (&(const mpt_linear){.size = sizeof(mpt_linear), __VA_ARGS__})
MPT_API mpt_model_value mpt_model_linear(mpt_nn *nn, const char *name, mpt_model_value x,
                                         const mpt_linear *options);

/* Norms; eps 0 means 1e-5. The gated one normalises x * silu(z) in `groups` slices. */
MPT_API mpt_model_value mpt_model_rmsnorm(mpt_nn *nn, const char *name, mpt_model_value x,
                                          float eps);
MPT_API mpt_model_value mpt_model_layernorm(mpt_nn *nn, const char *name, mpt_model_value x,
                                            float eps, bool bias);
MPT_API mpt_model_value mpt_model_gated_rmsnorm(mpt_nn *nn, const char *name,
                                                const mpt_model_value x_z[2], int groups,
                                                float eps);

/* Causal attention of `heads` query heads over `kv_heads` (0: as many) key and value heads. */
MPT_API mpt_model_value mpt_model_attention(mpt_nn *nn, const char *name,
                                            const mpt_model_value q_k_v[3], int heads,
                                            int kv_heads);

/* Rotary positions on queries or keys, before attention: of each head, numbers i and i +
 * rotary_dim/2 turn as a pair by theta^(-2 i / rotary_dim) a token. */
typedef enum mpt_rope_kind {
    MPT_ROPE_KIND_DEFAULT,
    MPT_ROPE_KIND_LINEAR, /* all pairs `factor` times slower */
    MPT_ROPE_KIND_LLAMA3  /* those alone that turn slowly */
} mpt_rope_kind;

typedef struct mpt_rope_options {
    size_t size;
    int heads;
    float theta;    /* 0 means 10000 */
    int rotary_dim; /* numbers of a head that turn, the first ones; 0 means all */
    mpt_rope_kind kind;
    float factor;
    float low_freq_factor, high_freq_factor; /* llama3 */
    int original_max_position_embeddings;    /* llama3 */
} mpt_rope_options;
#define MPT_ROPE(...) (&(const mpt_rope_options){.size = sizeof(mpt_rope_options), __VA_ARGS__})
MPT_API mpt_model_value mpt_model_rope(mpt_nn *nn, mpt_model_value x,
                                       const mpt_rope_options *options);

/* Depthwise causal convolution over `kernel` tokens. */
MPT_API mpt_model_value mpt_model_conv1d(mpt_nn *nn, const char *name, mpt_model_value x,
                                         int kernel, bool bias);

/* Mamba-2's scan over x, B, C and dt; head and state sizes follow from their widths. */
MPT_API mpt_model_value mpt_model_ssm_scan(mpt_nn *nn, const char *name,
                                           const mpt_model_value x_b_c_dt[4], int heads,
                                           int groups);

/* Element by element. Activations: "gelu" (tanh), "gelu_exact" (erf), "silu", "relu2",
 * "softplus"; and "softmax" over the features of each token. */
MPT_API mpt_model_value mpt_model_activation(mpt_nn *nn, const char *kind, mpt_model_value x);
MPT_API mpt_model_value mpt_model_add(mpt_nn *nn, mpt_model_value a, mpt_model_value b);
MPT_API mpt_model_value mpt_model_mul(mpt_nn *nn, mpt_model_value a, mpt_model_value b);
MPT_API mpt_model_value mpt_model_scale(mpt_nn *nn, mpt_model_value x, float factor);

/* silu(gate) * up. */
MPT_API mpt_model_value mpt_model_swiglu(mpt_nn *nn, mpt_model_value gate, mpt_model_value up);

/* A share p of the numbers to zero, the others times 1 / (1 - p); the name keys the choice. No
 * operation where p is 0. An evaluation drops nothing. */
MPT_API mpt_model_value mpt_model_dropout(mpt_nn *nn, const char *name, mpt_model_value x,
                                          float p);

/* Columns into n parts of these widths, and parts into columns; n is at most 8. */
MPT_API void mpt_model_split(mpt_nn *nn, mpt_model_value x, const int64_t *widths, int n,
                             mpt_model_value *out_parts);
MPT_API mpt_model_value mpt_model_concat(mpt_nn *nn, const mpt_model_value *parts, int n);

/* Ends the model: mean cross-entropy against the next tokens. Gives the first failure of the
 * whole drawing. */
MPT_API MPT_CHECKED mpt_status mpt_model_cross_entropy(mpt_nn *nn, mpt_model_value logits);

#ifdef __cplusplus
}
#endif

#endif
