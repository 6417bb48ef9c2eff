/* The device behind the CUDA module. */
#include <stdlib.h>

#include "exec/module.h"
#include "rig.h"

const bool rig_is_simulated = false;

const mpt_backend *rig_find(const char *folder, mpt_ctx *ctx, char why[RIG_WHY]) {
    mpt_module_answer answer;
    (void)ctx;
    mpt_module_look(&mpt_module_cuda, folder, &answer);
    if (!answer.module)
        snprintf(why, RIG_WHY, "%s", answer.why);
    return answer.module ? answer.module->backend : NULL;
}
