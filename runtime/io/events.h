/* Records of a TensorBoard event file: an Event of event.proto, protocol buffer wire format,
 * between its length and check sums.
 *
 *   u64 length | u32 masked CRC-32C of these 8 bytes | data | u32 masked CRC-32C of the data
 *
 * all little-endian. events_file.c keeps the file. */
#ifndef MPT_IO_EVENTS_H
#define MPT_IO_EVENTS_H

#include "base/base.h"

/* Longer tags are cut. */
enum { MPT_EVENT_TAG = 600, MPT_EVENT_RECORD = MPT_EVENT_TAG + 100 };

typedef struct mpt_event_record {
    unsigned char bytes[MPT_EVENT_RECORD];
    size_t n;
} mpt_event_record;

/* The first record of every file; `wall` are seconds since 1970. */
void mpt_event_version(mpt_event_record *out, double wall);

/* Says that a run goes on with this step: what other files of the folder hold of it and of
 * later ones is from before. */
void mpt_event_restart(mpt_event_record *out, double wall, int64_t step);

/* One number; also NaN and infinities. */
void mpt_event_scalar(mpt_event_record *out, double wall, int64_t step, const char *tag,
                      float value);

#endif
