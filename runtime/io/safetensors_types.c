/* The element types of safetensors: names, sizes, and values as float32.
 *
 * The casts are those of kernels/numerics_cast.h, so a stored code means here what it means to
 * the kernels. */
#include "io/safetensors_read.h"

#include <string.h>

#include "kernels/numerics_cast.h"

static const struct {
    const char *name;
    int bits;
} types[] = {
#define ROW(id, name, bits) {name, bits},
    MPT_TENSOR_TYPE_LIST(ROW)
#undef ROW
};

const char *mpt_tensor_type_name(mpt_tensor_type type) {
    return (unsigned)type < MPT_TENSOR_TYPE_COUNT ? types[type].name : "?";
}

int mpt_tensor_type_bits(mpt_tensor_type type) {
    return (unsigned)type < MPT_TENSOR_TYPE_COUNT ? types[type].bits : 0;
}

mpt_tensor_type mpt_tensor_type_by_name(const char *name) {
    for (int i = 0; i < MPT_TENSOR_TYPE_COUNT; i++)
        if (strcmp(types[i].name, name) == 0)
            return (mpt_tensor_type)i;
    return MPT_TENSOR_TYPE_COUNT;
}

/* A zero among the dims makes the tensor empty, but the others must still be countable: readers
 * multiply some of them alone, for rows or strides. */
const char *mpt_tensor_size(mpt_tensor_type type, const int64_t *dims, int rank,
                            int64_t *out_elements, size_t *out_bytes) {
    int64_t count = 1, bits;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty |= dims[i] == 0;
        if (dims[i] && __builtin_mul_overflow(count, dims[i], &count))
            return "more elements than can be counted";
    }
    if (__builtin_mul_overflow(count, (int64_t)mpt_tensor_type_bits(type), &bits))
        return "more bits than can be counted";
    if (!empty && bits % 8 != 0)
        return "no whole number of bytes";
    *out_elements = empty ? 0 : count;
    *out_bytes = empty ? 0 : (size_t)(bits / 8);
    return NULL;
}

/* ---- values ---- */

static void read_doubles(const unsigned char *p, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, p + (size_t)i * sizeof x, sizeof x);
        out[i] = (float)x;
    }
}

static void read_halves(const unsigned char *p, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t code;
        memcpy(&code, p + (size_t)i * sizeof code, sizeof code);
        out[i] = mpt_decode(MPT_DTYPE_FP16, code);
    }
}

/* BF16 is the upper half of a float32. Most checkpoints are of it, so this is kept to a shift.
 */
static void read_bf16(const unsigned char *p, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t code;
        memcpy(&code, p + (size_t)i * sizeof code, sizeof code);
        out[i] = mpt_bits_float((uint32_t)code << 16);
    }
}

static void read_bytes(const unsigned char *p, int64_t n, mpt_dtype dtype, float *out) {
    float values[256];
    for (uint32_t code = 0; code < 256; code++)
        values[code] = mpt_decode(dtype, code);
    for (int64_t i = 0; i < n; i++)
        out[i] = values[p[i]];
}

bool mpt_stored_tensor_floats(const mpt_stored_tensor *tensor, int64_t first, int64_t n,
                              float *out) {
    size_t element = (size_t)mpt_tensor_type_bits(tensor->type) / 8;
    const unsigned char *p = (const unsigned char *)tensor->data + (size_t)first * element;
    switch (tensor->type) {
    case MPT_TENSOR_F64:
        read_doubles(p, n, out);
        return true;
    case MPT_TENSOR_F32:
        memcpy(out, p, (size_t)n * sizeof *out);
        return true;
    case MPT_TENSOR_F16:
        read_halves(p, n, out);
        return true;
    case MPT_TENSOR_BF16:
        read_bf16(p, n, out);
        return true;
    case MPT_TENSOR_F8_E4M3:
        read_bytes(p, n, MPT_DTYPE_E4M3, out);
        return true;
    case MPT_TENSOR_F8_E5M2:
        read_bytes(p, n, MPT_DTYPE_E5M2, out);
        return true;
    default:
        return false;
    }
}
