#include "train/checkpoint.h"
mpt_status mpt_trainer_roll_back(mpt_trainer *trainer, int64_t *out_step) {
    (void)trainer;
    *out_step = -1;
    return MPT_NOT_FOUND;
}
