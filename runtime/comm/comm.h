/* The channel between the ranks of a run: every reduction that decides something goes through
 * it, so that all ranks decide alike.
 *
 * The gradient's sum, the count of targets, the finite flag, the norm, the amax of histories
 * and the loss: the kernels of the step find the channel in their environment, the trainer
 * holds it. comm_self.c is that of one rank. A library for messages fills the table; it need
 * not know of NaN: the largest of floats is taken over integers in whose order NaN comes last,
 * since many libraries lose a NaN in a maximum, and with it the only sign that a step went
 * wrong. */
#ifndef MPT_COMM_COMM_H
#define MPT_COMM_COMM_H

#include <stdint.h>

typedef struct mpt_comm mpt_comm;

/* What a channel can do. All are called by every rank in the same order and give every rank the
 * same bits; sums of floats are made in FP32 in the order of the ranks. */
typedef struct mpt_comm_api {
    const char *name;
    void (*sum_floats)(const mpt_comm *comm, float *x, int64_t n);
    void (*sum_doubles)(const mpt_comm *comm, double *x, int64_t n);
    void (*sum_ints)(const mpt_comm *comm, int64_t *x, int64_t n);
    void (*max_ints)(const mpt_comm *comm, int32_t *x, int64_t n);
} mpt_comm_api;

struct mpt_comm {
    const mpt_comm_api *api;
    int rank, count;
    void *ud; /* the channel's own */
};

/* The channel of one rank, which leaves everything as it is. Static. */
const mpt_comm *mpt_comm_self(void);

/* In place, over all ranks; where `comm` is NULL there is one rank. NaN and Inf of any rank
 * stay visible in sums, as in any sum. */
void mpt_comm_sum_floats(const mpt_comm *comm, float *x, int64_t n);
double mpt_comm_sum_double(const mpt_comm *comm, double x);
int64_t mpt_comm_sum_int(const mpt_comm *comm, int64_t x);

/* The largest over all ranks. NaN of any rank wins over every number, Inf included, whatever
 * the order of the ranks; it comes back as the quiet NaN 0x7FC00000. */
void mpt_comm_max_floats(const mpt_comm *comm, float *x, int64_t n);
int32_t mpt_comm_max_int(const mpt_comm *comm, int32_t x);

#endif
