/* From a tensor to the operand of a product. */
#include "kernels/cuda/operand.h"

#include "kernels/tensor.h"

static gpu_operand packed_operand(const mpt_tensor *t, gpu_operand o) {
    const mpt_packed *p = t->packed;
    o.format = p->q.format;
    o.row = p->code_row;
    o.across = o.across != p->column;
    if (!p->scales)
        return o;
    o.scales = (const uint8_t *)t->data + p->scales;
    o.scale_format = p->q.scale_format;
    o.block_rows = p->q.block_rows;
    o.block_cols = p->q.block_cols;
    o.scale_ld = p->scale_ld;
    return o;
}

gpu_operand mpt_gpu_operand(const mpt_tensor *t, bool by_rows) {
    int64_t rows = mpt_tensor_rows(t), cols = mpt_tensor_cols(t);
    gpu_operand o = {.data = t->data,
                     .format = t->dtype,
                     .storage = t->storage,
                     .outer = by_rows ? cols : rows,
                     .k = by_rows ? rows : cols,
                     .row = cols,
                     .across = by_rows};
    return t->storage == MPT_STORAGE_PACKED ? packed_operand(t, o) : o;
}
