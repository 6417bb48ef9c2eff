/* The channel's functions, and the channel of one rank.
 *
 * Floats are compared as integers: the bits of a float with its sign turned into an order that
 * integers share, and NaN behind everything. What a channel of several ranks has to bring is in
 * comm.h; with one rank nothing is called at all. */
#include "comm/comm.h"

#include <stddef.h>
#include <string.h>

/* ---- one rank ---- */

static void keep_floats(const mpt_comm *comm, float *x, int64_t n) {
    (void)comm, (void)x, (void)n;
}

static void keep_doubles(const mpt_comm *comm, double *x, int64_t n) {
    (void)comm, (void)x, (void)n;
}

static void keep_longs(const mpt_comm *comm, int64_t *x, int64_t n) {
    (void)comm, (void)x, (void)n;
}

static void keep_ints(const mpt_comm *comm, int32_t *x, int64_t n) {
    (void)comm, (void)x, (void)n;
}

const mpt_comm *mpt_comm_self(void) {
    static const mpt_comm_api api = {"self", keep_floats, keep_doubles, keep_longs, keep_ints};
    static const mpt_comm self = {&api, 0, 1, NULL};
    return &self;
}

/* ---- floats in the order of integers ---- */

/* -Inf < ... < -0 < +0 < ... < +Inf < NaN, whatever the NaN's sign. */
static int32_t order_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & INT32_MAX) > 0x7F800000)
        return INT32_MAX;
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

static float float_at(int32_t order) {
    int32_t bits = order == INT32_MAX ? 0x7FC00000 : order < 0 ? order ^ INT32_MAX : order;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- reductions ---- */

static int several(const mpt_comm *comm) {
    return comm && comm->count > 1;
}

void mpt_comm_sum_floats(const mpt_comm *comm, float *x, int64_t n) {
    if (several(comm))
        comm->api->sum_floats(comm, x, n);
}

double mpt_comm_sum_double(const mpt_comm *comm, double x) {
    if (several(comm))
        comm->api->sum_doubles(comm, &x, 1);
    return x;
}

int64_t mpt_comm_sum_int(const mpt_comm *comm, int64_t x) {
    if (several(comm))
        comm->api->sum_ints(comm, &x, 1);
    return x;
}

void mpt_comm_max_floats(const mpt_comm *comm, float *x, int64_t n) {
    for (int64_t i = 0; several(comm) && i < n; i++) {
        int32_t order = order_of(x[i]);
        comm->api->max_ints(comm, &order, 1);
        x[i] = float_at(order);
    }
}

int32_t mpt_comm_max_int(const mpt_comm *comm, int32_t x) {
    if (several(comm))
        comm->api->max_ints(comm, &x, 1);
    return x;
}
