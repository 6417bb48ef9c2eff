/* Beside training: files quantized, checkpoints probed, speeds measured, text sampled.
 *
 * Same rules as mpt.h: a status from every call that can fail, nothing printed, option structs
 * with their size and an initializer. A quantizer is written as in a recipe:
 * "nvfp4 { block = {16, 16} }". All calls are in library mpt. */
#ifndef MPT_TOOLS_H
#define MPT_TOOLS_H

#include "mpt/mpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How far a call is, in bytes of tensors: before each of them, within large ones, and at the
 * end, where `tensor` is NULL. False ends the call with MPT_INTERRUPTED. */
typedef bool (*mpt_tool_progress_fn)(void *ud, const char *tensor, uint64_t done,
                                     uint64_t total);

typedef struct mpt_quantize_options {
    size_t size;
    bool columnwise; /* quantizes the transpose of each tensor */
    uint64_t seed;   /* of stochastic rounding and random signs */
    uint32_t step;
    mpt_device device; /* AUTO and CPU: fast; REF: the definition. The bytes are the same */
    int n_threads;     /* 0: all cores */
    mpt_tool_progress_fn progress; /* NULL: nobody asks */
    void *progress_ud;
} mpt_quantize_options;
#define MPT_QUANTIZE_OPTIONS_INIT ((mpt_quantize_options){.size = sizeof(mpt_quantize_options)})

/* What was done with a file: for the last line that a user reads. */
typedef struct mpt_quantize_summary {
    int n_tensors, n_skipped; /* quantized; not of a floating type, or of no element */
    int64_t n_elements;
    uint64_t bytes_in,
        bytes_out; /* of the quantized tensors: as they were, codes with scales */
    double sqnr;   /* dB over all of them; INFINITY where nothing was lost; -INFINITY or NAN
                      where one does not decode to a number, NAN where all are zero */
    uint64_t n_overflow, n_underflow;
    uint64_t n_nonfinite;        /* values that are NaN or Inf */
    uint64_t n_became_nonfinite; /* finite ones that are NaN or Inf in t.dequantized */
    double packed_bits;          /* an element, if the codes had no gaps; scales included */
} mpt_quantize_summary;

/* Quantizes every floating tensor of the safetensors file `in` (or index, or folder) into
 * `out`: for tensor t the tensors t.codes, t.scales, t.amax and t.dequantized, each where the
 * quantizer has it. Tensors of rank 3 and more are taken as [dims[0] * ..., dims[last]],
 * vectors as one row. `out` appears when it is whole. out_summary may be NULL. */
MPT_API MPT_CHECKED mpt_status mpt_quantize_file(mpt_ctx *ctx, const char *quantizer,
                                                 const char *in, const char *out,
                                                 const mpt_quantize_options *options,
                                                 mpt_quantize_summary *out_summary);

typedef struct mpt_probe_options {
    size_t size;
    const char
        *formats; /* quantizers separated by commas; NULL: nvfp4,mxfp4,mxfp6,mxfp8,e4m3 */
    bool json;
    uint64_t seed;
    int n_threads;
    mpt_tool_progress_fn progress;
    void *progress_ud;
    int width; /* columns of the table; 0: as many as it takes */
} mpt_probe_options;
#define MPT_PROBE_OPTIONS_INIT ((mpt_probe_options){.size = sizeof(mpt_probe_options)})

/* The damage that each format does to each weight matrix of a checkpoint, worst first: SQNR,
 * shares of zeros and of saturated elements, amax. A table with what to do about it, or JSON.
 */
MPT_API MPT_CHECKED mpt_status mpt_probe_file(mpt_ctx *ctx, const char *weights,
                                              const mpt_probe_options *options,
                                              mpt_write_fn write, void *ud);

typedef struct mpt_bench_options {
    size_t size;
    bool json;
    int64_t rows, cols; /* 0: 4096 */
    int n_threads;
} mpt_bench_options;
#define MPT_BENCH_OPTIONS_INIT ((mpt_bench_options){.size = sizeof(mpt_bench_options)})

/* The speed of each quantizer, and as a fraction of a plain copy of the same matrix in the same
 * run: bytes read and written over time. A table, or JSON. */
MPT_API MPT_CHECKED mpt_status mpt_bench_quantizers(mpt_ctx *ctx,
                                                    const mpt_bench_options *options,
                                                    mpt_write_fn write, void *ud);

typedef struct mpt_bench_program_options {
    size_t size;
    bool json;
    int steps;         /* that are timed, after a warm-up of two; 0: 5; 4096 at most */
    int64_t peak_size; /* of the square matrices that find the library's peak; 0: 2048. A
                          device multiplies none, and it has to be 0 */
} mpt_bench_program_options;
#define MPT_BENCH_PROGRAM_OPTIONS_INIT                                                         \
    ((mpt_bench_program_options){.size = sizeof(mpt_bench_program_options)})

/* Where the time of a program's steps goes: step time, tokens a second, the rate of its GEMMs
 * beside the peak of the library in the same run, the share of each class of ops, and the
 * memory it took beside what was planned: of a device the device's. A table, or JSON. It trains
 * from the start on weights of its own and writes no file. */
MPT_API MPT_CHECKED mpt_status mpt_bench_program(const mpt_program *program,
                                                 const mpt_bench_program_options *options,
                                                 mpt_write_fn write, void *ud);

typedef struct mpt_tokens_options {
    size_t size;
    const char *from;   /* what an input without a header is: "text" or "nanogpt"; NULL: by its
                           bytes */
    const char *format; /* of the output: "nanogpt", "llmc", "llmc32", "megatron"; NULL: llmc */
    int64_t vocab;      /* ids must be below it; 0: not stated */
    bool json;
} mpt_tokens_options;
#define MPT_TOKENS_OPTIONS_INIT ((mpt_tokens_options){.size = sizeof(mpt_tokens_options)})

/* Makes a token file of the bytes of a text or of another token file, and says what is in it;
 * with `out` NULL says what is in `in`. Text, or JSON. `out` appears when it is whole, and no
 * id is cut to fit. */
MPT_API MPT_CHECKED mpt_status mpt_tokens_file(mpt_ctx *ctx, const char *in, const char *out,
                                               const mpt_tokens_options *options,
                                               mpt_write_fn write, void *ud);

typedef struct mpt_sample_options {
    size_t size;
    const char *prompt;  /* NULL: none, the text begins behind a newline */
    size_t prompt_bytes; /* any bytes, 0 among them */
    int64_t n_tokens;    /* to be drawn */
    double temperature;  /* the logits are divided by it; 0: always the most probable byte */
    int top_k;           /* only the most probable ones are drawn; 0: all */
    uint64_t seed;
} mpt_sample_options;
#define MPT_SAMPLE_OPTIONS_INIT                                                                \
    ((mpt_sample_options){                                                                     \
        .size = sizeof(mpt_sample_options), .n_tokens = 256, .temperature = 1})

/* Text from a trainer whose model was trained on bytes: `write` gets the prompt, then each byte
 * as it is drawn, from the last `sequence` bytes before it, in the precision of
 * mpt_trainer_eval. The same seed gives the same text for any number of threads. Training is
 * not touched. MPT_DATA: the model's vocabulary is not the 256 bytes; MPT_STOPPED: its logits
 * are not numbers; MPT_IO: `write` gave false. */
MPT_API MPT_CHECKED mpt_status mpt_sample(mpt_trainer *trainer,
                                          const mpt_sample_options *options, mpt_write_fn write,
                                          void *ud);

#ifdef __cplusplus
}
#endif

#endif
