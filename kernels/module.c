/* What a program and a module have to agree in, as this side was compiled. */
#include "kernels/module.h"

#include "kernels/cuda/device.h"
#include "kernels/packed.h"
#include "kernels/quantize.h"

#define SIZE(type) {#type, sizeof(type)},
const mpt_module_size mpt_module_sizes[] = {
    SIZE(mpt_ctx)       /* its allocator and error */
    SIZE(mpt_graph)     /* what select asks about */
    SIZE(mpt_node)      /* in mpt_kernel_args */
    SIZE(mpt_value)     /* in mpt_graph */
    SIZE(mpt_quantizer) /* in a node's attributes */
    SIZE(mpt_tensor)    /* in mpt_kernel_args */
    SIZE(mpt_packed)    /* of a tensor */
    SIZE(mpt_quantize_counts) SIZE(mpt_run_env) SIZE(mpt_kernel_args) SIZE(mpt_kernel)
        SIZE(mpt_gpu) SIZE(mpt_device_ops) SIZE(mpt_backend){NULL, 0},
};
#undef SIZE

#define MPT_OP(name, n_in, n_out, flags, summary) #name " "
const char mpt_module_numbers[] =
#include "graph/ops.def"
#define MPT_FORMAT_NAME(id, name, bits, eb, mb, bias, max) name " "
    MPT_FORMAT_LIST(MPT_FORMAT_NAME);
#undef MPT_OP
#undef MPT_FORMAT_NAME
