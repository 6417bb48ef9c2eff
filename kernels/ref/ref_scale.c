/* ref.scale_update: the definition of delayed scaling's update (numerics section 2.4). One
 * number comes out of one window, so no other backend has a kernel of its own. */
#include "comm/comm.h"
#include "kernels/numerics.h"
#include "kernels/ref/optim.h"

/* With reduce_amax the ranks put the largest of their amaxes into the window. */
void mpt_ref_scale_update(const mpt_kernel_args *args) {
    const mpt_quantizer *q = &args->node->attrs.row;
    bool most_recent = q->scale.algo == MPT_AMAX_MOST_RECENT;
    if (q->scale.reduce_amax)
        mpt_comm_max_floats(args->env->comm, args->in[1].data, 1);
    mpt_delayed_update(args->in[0].data, args->in[1].data, (int)args->in[1].dims[0],
                       most_recent, 0.0f, mpt_quantizer_delayed_max(q));
}
