/* Requests in the making, replies taken apart, and the socket between them: what the modes without librdkafka share. */
#ifndef WIRE_H
#define WIRE_H

#include <stddef.h>
#include <stdint.h>

struct options;

enum { CORRELATION_AT = 8 };     /* in a frame, behind length 4, api key 2, version 2 */

struct writer {
    uint8_t *bytes;
    size_t length, room;
};

struct reader {
    const uint8_t *at, *end;
};

void store(uint8_t *at, uint64_t value, int width);
uint64_t load(const uint8_t *at, int width);

uint8_t *extend(struct writer *writer, size_t count);
void put(struct writer *writer, int64_t value, int width);
void put_bytes(struct writer *writer, const void *bytes, size_t count);
void put_uvarint(struct writer *writer, uint32_t value);
void put_varint(struct writer *writer, int32_t value);
void put_string(struct writer *writer, const char *text);          /* int16 length; NULL for none */
void put_compact_string(struct writer *writer, const char *text);  /* varint length */

/* Room for a frame's length, then the header: version 2, with tags, for a flexible request, else version 1. */
struct writer start_request(int api_key, int version, int flexible);
void finish_request(struct writer *request);
void send_all(int handle, const uint8_t *bytes, size_t count);

/* These fail the run where a reply is too short. */
const uint8_t *take_bytes(struct reader *reader, size_t count);
int64_t take(struct reader *reader, int width);                    /* with a sign */
uint32_t take_uvarint(struct reader *reader);
void skip_string(struct reader *reader);
void take_string(struct reader *reader, char *text, size_t room);

int connect_to(const struct options *options);

#endif
