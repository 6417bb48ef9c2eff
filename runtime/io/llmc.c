/* Files of llm.c, laid out as karpathy/llm.c:train_gpt2.py (write_model) does.
 *
 * One table says the order of the tensors; each kind that a layer has lies there for all
 * layers, one after the other. */
#include "io/llmc.h"

#include <string.h>

#include "io/file.h"
#include "io/file_write.h"

enum {
    MAGIC = 20240326,
    VERSION_F32 = 3,
    VERSION_BF16 = 5,
    LLAMA_MAGIC = 20240803,
    HEADER_BYTES = 1024,
    PADDING = 128, /* the token table has a multiple of so many rows */
    MAX_LAYERS = 100000
};

/* The int32 of the header. */
enum { AT_MAGIC, AT_VERSION, AT_POSITIONS, AT_VOCAB, AT_LAYERS, AT_HEADS, AT_WIDTH, AT_PADDED };

struct mpt_llmc {
    mpt_ctx *ctx;
    mpt_arena arena;
    const char *path;
    mpt_file_map map;          /* of a file that is read */
    mpt_file_writer *new_file; /* of one that is written */
    mpt_llmc_shape shape;
    int32_t padded;
    mpt_tensor_type type;
    int n;
    mpt_stored_tensor *tensors; /* data: NULL before the file is there */
    size_t *offsets;
    size_t size;
};

/* Extents in widths, or one of the two others. */
enum { VOCAB = -1, POSITIONS = -2, NONE = 0 };

static const struct {
    const char *name; /* behind "h.N." where a layer has it */
    bool layered;
    int rows, columns; /* NONE: a vector */
} kinds[] = {
    {"wte.weight", false, VOCAB, 1},    {"wpe.weight", false, POSITIONS, 1},
    {"ln_1.weight", true, 1, NONE},     {"ln_1.bias", true, 1, NONE},
    {"attn.c_attn.weight", true, 3, 1}, {"attn.c_attn.bias", true, 3, NONE},
    {"attn.c_proj.weight", true, 1, 1}, {"attn.c_proj.bias", true, 1, NONE},
    {"ln_2.weight", true, 1, NONE},     {"ln_2.bias", true, 1, NONE},
    {"mlp.c_fc.weight", true, 4, 1},    {"mlp.c_fc.bias", true, 4, NONE},
    {"mlp.c_proj.weight", true, 1, 4},  {"mlp.c_proj.bias", true, 1, NONE},
    {"ln_f.weight", false, 1, NONE},    {"ln_f.bias", false, 1, NONE},
};

/* ---- the layout ---- */

static int64_t extent_of(const mpt_llmc *f, int code) {
    return code == VOCAB       ? f->shape.vocab
           : code == POSITIONS ? f->shape.positions
                               : (int64_t)code * f->shape.width;
}

static mpt_status lay_out_tensor(mpt_llmc *f, size_t kind, int layer, size_t *at) {
    size_t element = (size_t)mpt_tensor_type_bits(f->type) / 8;
    mpt_stored_tensor *t = &f->tensors[f->n];
    int64_t rows = extent_of(f, kinds[kind].rows), columns = 1;
    if (kinds[kind].columns != NONE)
        columns = extent_of(f, kinds[kind].columns);
    int64_t stored_rows = kinds[kind].rows == VOCAB ? f->padded : rows;
    size_t row_bytes = mpt_size_mul((size_t)columns, element);
    *t = (mpt_stored_tensor){.file = f->path, .type = f->type, .dims = {rows, columns}};
    t->name = kinds[kind].layered
                  ? mpt_arena_printf(&f->arena, "h.%d.%s", layer, kinds[kind].name)
                  : kinds[kind].name;
    if (!t->name)
        return MPT_OUT_OF_MEMORY;
    t->rank = kinds[kind].columns == NONE ? 1 : 2;
    t->elements = (int64_t)mpt_size_mul((size_t)rows, (size_t)columns);
    t->bytes = mpt_size_mul((size_t)rows, row_bytes);
    f->offsets[f->n++] = *at;
    *at = mpt_size_add(*at, mpt_size_mul((size_t)stored_rows, row_bytes));
    return MPT_OK;
}

/* Places all tensors by the shape that f has. */
static mpt_status lay_out(mpt_llmc *f) {
    size_t at = HEADER_BYTES, n = MPT_COUNT(kinds) * (size_t)f->shape.layers;
    f->tensors = mpt_arena_alloc(&f->arena, n * sizeof *f->tensors);
    f->offsets = mpt_arena_alloc(&f->arena, n * sizeof *f->offsets);
    if (!f->tensors || !f->offsets)
        return MPT_OUT_OF_MEMORY;
    for (size_t k = 0; k < MPT_COUNT(kinds); k++)
        for (int layer = 0; layer < (kinds[k].layered ? f->shape.layers : 1); layer++)
            MPT_TRY(lay_out_tensor(f, k, layer, &at));
    f->size = at;
    return MPT_OK;
}

static void point_into(mpt_llmc *f, const unsigned char *data) {
    for (int i = 0; i < f->n; i++)
        f->tensors[i].data = data + f->offsets[i];
}

/* ---- the header ---- */

static int32_t read_int(const unsigned char *header, int index) {
    const unsigned char *p = header + 4 * index;
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

static void write_int(unsigned char *header, int index, int32_t value) {
    for (int i = 0; i < 4; i++)
        header[4 * index + i] = (unsigned char)((uint32_t)value >> (8 * i));
}

static bool starts(const char *path, const unsigned char *start, size_t n) {
    (void)path;
    int32_t magic = n >= 4 ? read_int(start, AT_MAGIC) : 0;
    return magic == MAGIC || magic == LLAMA_MAGIC;
}

static mpt_status fail_header(const mpt_llmc *f, mpt_status code, const char *fault,
                              int32_t found) {
    return MPT_FAIL(f->ctx, code, MPT_NOWHERE, "%s: %s %d", f->path, fault, (int)found);
}

static mpt_status read_header(mpt_llmc *f) {
    const unsigned char *h = f->map.data;
    if (f->map.size < HEADER_BYTES)
        return MPT_FAIL(f->ctx, MPT_DATA, MPT_NOWHERE,
                        "%s: %zu bytes, and a checkpoint of llm.c has a header of %d", f->path,
                        f->map.size, HEADER_BYTES);
    int32_t magic = read_int(h, AT_MAGIC), version = read_int(h, AT_VERSION);
    if (magic != MAGIC)
        return fail_header(f, magic == LLAMA_MAGIC ? MPT_UNSUPPORTED : MPT_DATA,
                           "of the checkpoints of llm.c, mpt reads those of GPT-2 (20240326); "
                           "this one's number is",
                           magic);
    if (version != VERSION_F32 && version != VERSION_BF16)
        return fail_header(f, MPT_UNSUPPORTED,
                           "expected version 3 (float32) or 5 (bfloat16) of llm.c's "
                           "checkpoints, not",
                           version);
    f->type = version == VERSION_F32 ? MPT_TENSOR_F32 : MPT_TENSOR_BF16;
    f->shape = (mpt_llmc_shape){.positions = read_int(h, AT_POSITIONS),
                                .vocab = read_int(h, AT_VOCAB),
                                .layers = read_int(h, AT_LAYERS),
                                .heads = read_int(h, AT_HEADS),
                                .width = read_int(h, AT_WIDTH)};
    f->padded = read_int(h, AT_PADDED);
    const mpt_llmc_shape *s = &f->shape;
    if (s->positions < 1 || s->vocab < 1 || s->layers < 1 || s->layers > MAX_LAYERS ||
        s->heads < 1 || s->width < 1 || s->width > INT32_MAX / 4 || f->padded < s->vocab)
        return MPT_FAIL(f->ctx, MPT_DATA, MPT_NOWHERE,
                        "%s: no model has %d positions, %d tokens in %d rows, %d layers, %d "
                        "heads and a width of %d",
                        f->path, (int)s->positions, (int)s->vocab, (int)f->padded,
                        (int)s->layers, (int)s->heads, (int)s->width);
    return MPT_OK;
}

static void write_header(const mpt_llmc *f, unsigned char *h) {
    write_int(h, AT_MAGIC, MAGIC);
    write_int(h, AT_VERSION, f->type == MPT_TENSOR_F32 ? VERSION_F32 : VERSION_BF16);
    write_int(h, AT_POSITIONS, f->shape.positions);
    write_int(h, AT_VOCAB, f->shape.vocab);
    write_int(h, AT_LAYERS, f->shape.layers);
    write_int(h, AT_HEADS, f->shape.heads);
    write_int(h, AT_WIDTH, f->shape.width);
    write_int(h, AT_PADDED, f->padded);
}

/* ---- life ---- */

static mpt_status make(mpt_ctx *ctx, const char *path, mpt_llmc **out) {
    *out = NULL;
    mpt_llmc *f = mpt_alloc(ctx, sizeof *f);
    if (!f)
        return mpt_fail_memory(ctx, sizeof *f);
    f->ctx = ctx;
    mpt_arena_init(&f->arena, ctx);
    *out = f;
    f->path = mpt_arena_strdup(&f->arena, path);
    return f->path ? MPT_OK : MPT_OUT_OF_MEMORY;
}

/* Gives the file where all went well, else closes it. */
static mpt_status settle(mpt_llmc **out, mpt_status status) {
    if (status != MPT_OK) {
        mpt_llmc_close(*out);
        *out = NULL;
    }
    return status;
}

static mpt_status read_file(mpt_llmc *f) {
    MPT_TRY(mpt_file_map_open(f->ctx, MPT_NOWHERE, f->path, &f->map));
    MPT_TRY(read_header(f));
    MPT_TRY(lay_out(f));
    if (f->map.size != f->size) {
        mpt_status status =
            MPT_FAIL(f->ctx, MPT_DATA, MPT_NOWHERE,
                     "%s: %zu bytes, but its header says %zu: it is cut off or damaged",
                     f->path, f->map.size, f->size);
        mpt_hint(f->ctx, "fetch or write the file again");
        return status;
    }
    point_into(f, f->map.data);
    return MPT_OK;
}

mpt_status mpt_llmc_open(mpt_ctx *ctx, const char *path, mpt_llmc **out) {
    mpt_status status = make(ctx, path, out);
    return settle(out, status == MPT_OK ? read_file(*out) : status);
}

static mpt_status write_file(mpt_llmc *f, const mpt_llmc_shape *shape, mpt_tensor_type type) {
    static const mpt_file_kind kind = {"checkpoint of llm.c", 4, starts};
    f->shape = *shape;
    f->type = type;
    f->padded = (shape->vocab + PADDING - 1) / PADDING * PADDING;
    MPT_TRY(lay_out(f));
    MPT_TRY(mpt_file_create(f->ctx, f->path, f->size, &kind, &f->new_file));
    write_header(f, mpt_file_bytes(f->new_file));
    point_into(f, mpt_file_bytes(f->new_file));
    return MPT_OK;
}

mpt_status mpt_llmc_create(mpt_ctx *ctx, const char *path, const mpt_llmc_shape *shape,
                           mpt_tensor_type type, mpt_llmc **out) {
    mpt_status status = make(ctx, path, out);
    return settle(out, status == MPT_OK ? write_file(*out, shape, type) : status);
}

mpt_status mpt_llmc_commit(mpt_llmc *file) {
    mpt_status status = mpt_file_commit(file->new_file);
    file->new_file = NULL;
    mpt_llmc_close(file);
    return status;
}

void mpt_llmc_close(mpt_llmc *file) {
    if (!file)
        return;
    mpt_file_abandon(file->new_file);
    mpt_file_map_close(&file->map);
    mpt_arena_deinit(&file->arena);
    mpt_free(file->ctx, file);
}

/* ---- what is in it ---- */

bool mpt_llmc_is(const char *path) {
    unsigned char start[4];
    return mpt_file_start(path, start, sizeof start) == sizeof start &&
           starts(path, start, sizeof start);
}

mpt_llmc_shape mpt_llmc_get_shape(const mpt_llmc *file) {
    return file->shape;
}

int mpt_llmc_count(const mpt_llmc *file) {
    return file->n;
}

const mpt_stored_tensor *mpt_llmc_at(const mpt_llmc *file, int index) {
    return index >= 0 && index < file->n ? &file->tensors[index] : NULL;
}

void *mpt_llmc_data(mpt_llmc *file, int index) {
    return (unsigned char *)mpt_file_bytes(file->new_file) + file->offsets[index];
}
