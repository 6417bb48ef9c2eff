/* Event records as bytes. See events.h.
 *
 * Fields that are written, by number: Event {1 wall_time, 2 step, 3 file_version, 5 summary,
 * 7 session_log}, Summary {1 value}, Value {1 tag, 2 simple_value}, SessionLog {1 status}. */
#include "io/events.h"

#include <string.h>

#include "io/crc32c.h"

enum { HEADER = 12, FOOTER = 4 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { SESSION_START = 1 };

static void put_byte(mpt_event_record *r, unsigned value) {
    r->bytes[r->n++] = (unsigned char)value;
}

static void put_little(unsigned char *at, uint64_t value, int n) {
    for (int i = 0; i < n; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static void put_varint(mpt_event_record *r, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        put_byte(r, (unsigned)(value & 0x7f) | 0x80);
    put_byte(r, (unsigned)value);
}

static void put_field(mpt_event_record *r, unsigned field, unsigned wire) {
    put_byte(r, field << 3 | wire);
}

static size_t varint_bytes(uint64_t value) {
    size_t n = 1;
    for (; value >= 0x80; value >>= 7)
        n++;
    return n;
}

static void begin(mpt_event_record *r, double wall) {
    uint64_t bits;
    memcpy(&bits, &wall, sizeof bits);
    r->n = HEADER;
    put_field(r, 1, WIRE_64);
    put_little(r->bytes + r->n, bits, 8);
    r->n += 8;
}

static void put_step(mpt_event_record *r, int64_t step) {
    put_field(r, 2, WIRE_VARINT);
    put_varint(r, (uint64_t)step);
}

/* Length and sums around the data that is there. */
static void end(mpt_event_record *r) {
    size_t n = r->n - HEADER;
    put_little(r->bytes, n, 8);
    put_little(r->bytes + 8, mpt_crc32c_masked(r->bytes, 8), 4);
    put_little(r->bytes + r->n, mpt_crc32c_masked(r->bytes + HEADER, n), FOOTER);
    r->n += FOOTER;
}

void mpt_event_version(mpt_event_record *out, double wall) {
    static const char version[] = "brain.Event:2";
    begin(out, wall);
    put_field(out, 3, WIRE_BYTES);
    put_varint(out, sizeof version - 1);
    memcpy(out->bytes + out->n, version, sizeof version - 1);
    out->n += sizeof version - 1;
    end(out);
}

void mpt_event_restart(mpt_event_record *out, double wall, int64_t step) {
    begin(out, wall);
    put_step(out, step);
    put_field(out, 7, WIRE_BYTES);
    put_varint(out, 2);
    put_field(out, 1, WIRE_VARINT);
    put_varint(out, SESSION_START);
    end(out);
}

void mpt_event_scalar(mpt_event_record *out, double wall, int64_t step, const char *tag,
                      float value) {
    size_t tag_bytes = strlen(tag);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (tag_bytes > MPT_EVENT_TAG)
        tag_bytes = MPT_EVENT_TAG;
    size_t value_bytes = 1 + varint_bytes(tag_bytes) + tag_bytes + 1 + sizeof bits;
    begin(out, wall);
    put_step(out, step);
    put_field(out, 5, WIRE_BYTES);
    put_varint(out, 1 + varint_bytes(value_bytes) + value_bytes);
    put_field(out, 1, WIRE_BYTES);
    put_varint(out, value_bytes);
    put_field(out, 1, WIRE_BYTES);
    put_varint(out, tag_bytes);
    memcpy(out->bytes + out->n, tag, tag_bytes);
    out->n += tag_bytes;
    put_field(out, 2, WIRE_32);
    put_little(out->bytes + out->n, bits, sizeof bits);
    out->n += sizeof bits;
    end(out);
}
