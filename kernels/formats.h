/* The number formats: one row each, from which the enum, the table and the tests are made.
 *
 * This is the lowest header of the tree: the recipe names formats, the graph types values with
 * them, the kernels round to them. How a value is rounded is in kernels/numerics.h; this file
 * holds only the facts of each format. C17, C++17 and CUDA.
 *
 * Sources: IEEE 754 (fp32, fp16), the OCP Microscaling Formats specification v1.0 (e4m3, e5m2,
 * e3m2, e2m3, e2m1, int8, e8m0), DeepSeek-V3, arXiv 2412.19437 (e5m6). */
#ifndef MPT_KERNELS_FORMATS_H
#define MPT_KERNELS_FORMATS_H

/* X(ENUM, "name", bits of a code, exponent bits, mantissa bits, bias, largest finite).
 *
 * INT8 is the Microscaling one, k/64 in two's complement: the numbers of one exponent bit, six
 * mantissa bits and bias 1, so that one row says all of it. E8M0 is a format of scales: powers
 * of two without a sign. Codes of 6 bits lie in a byte, codes of 12 bits in two. */
#define MPT_FORMAT_LIST(X)                                                                     \
    X(FP32, "fp32", 32, 8, 23, 127, 0x1.fffffep127)                                            \
    X(TF32, "tf32", 32, 8, 10, 127, 0x1.ffcp127)                                               \
    X(BF16, "bf16", 16, 8, 7, 127, 0x1.fep127)                                                 \
    X(FP16, "fp16", 16, 5, 10, 15, 65504.0)                                                    \
    X(E4M3, "e4m3", 8, 4, 3, 7, 448.0)                                                         \
    X(E5M2, "e5m2", 8, 5, 2, 15, 57344.0)                                                      \
    X(E5M6, "e5m6", 12, 5, 6, 15, 65024.0)                                                     \
    X(E3M2, "e3m2", 6, 3, 2, 3, 28.0)                                                          \
    X(E2M3, "e2m3", 6, 2, 3, 1, 7.5)                                                           \
    X(E2M1, "e2m1", 4, 2, 1, 1, 6.0)                                                           \
    X(INT8, "int8", 8, 1, 6, 1, 1.984375)                                                      \
    X(E8M0, "e8m0", 8, 8, 0, 127, 0x1p127)                                                     \
    X(I32, "i32", 32, 0, 31, 0, 2147483647.0)                                                  \
    X(U8, "u8", 8, 0, 8, 0, 255.0)

typedef enum mpt_dtype {
#define MPT_FORMAT_ENUM(id, name, bits, eb, mb, bias, max) MPT_DTYPE_##id,
    MPT_FORMAT_LIST(MPT_FORMAT_ENUM)
#undef MPT_FORMAT_ENUM
        MPT_DTYPE_COUNT
} mpt_dtype;

#endif
