/* See wire.h. */
#include "wire.h"
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

uint8_t *extend(struct writer *writer, size_t count)
{
    if (writer->length + count > writer->room) {
        writer->room = (writer->length + count) * 2;
        writer->bytes = realloc(writer->bytes, writer->room);
        if (!writer->bytes)
            fail("no memory for a request");
    }
    uint8_t *at = writer->bytes + writer->length;
    writer->length += count;
    return at;
}

void store(uint8_t *at, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

void put(struct writer *writer, int64_t value, int width)
{
    store(extend(writer, (size_t)width), (uint64_t)value, width);
}

void put_bytes(struct writer *writer, const void *bytes, size_t count)
{
    memcpy(extend(writer, count), bytes, count);
}

void put_uvarint(struct writer *writer, uint32_t value)
{
    for (; value > 127; value >>= 7)
        put(writer, (value & 127) | 128, 1);
    put(writer, value, 1);
}

void put_varint(struct writer *writer, int32_t value)
{
    put_uvarint(writer, ((uint32_t)value << 1) ^ (uint32_t)(value >> 31));
}

void put_string(struct writer *writer, const char *text)
{
    put(writer, text ? (int64_t)strlen(text) : -1, 2);
    if (text)
        put_bytes(writer, text, strlen(text));
}

void put_compact_string(struct writer *writer, const char *text)
{
    put_uvarint(writer, (uint32_t)strlen(text) + 1);
    put_bytes(writer, text, strlen(text));
}

struct writer start_request(int api_key, int version, int flexible)
{
    struct writer request = {0};
    put(&request, 0, 4);
    put(&request, api_key, 2);
    put(&request, version, 2);
    put(&request, 0, 4);
    put_string(&request, "loadgen");
    if (flexible)
        put_uvarint(&request, 0);
    return request;
}

void finish_request(struct writer *request)
{
    store(request->bytes, request->length - 4, 4);
}

void send_all(int handle, const uint8_t *bytes, size_t count)
{
    while (count) {
        ssize_t written = send(handle, bytes, count, MSG_NOSIGNAL);
        if (written < 0)
            fail("send: %s", strerror(errno));
        bytes += written;
        count -= (size_t)written;
    }
}

uint64_t load(const uint8_t *at, int width)
{
    uint64_t value = 0;
    for (int i = 0; i < width; i++)
        value = value << 8 | at[i];
    return value;
}

const uint8_t *take_bytes(struct reader *reader, size_t count)
{
    if ((size_t)(reader->end - reader->at) < count)
        fail("a reply ends too soon");
    reader->at += count;
    return reader->at - count;
}

int64_t take(struct reader *reader, int width)
{
    uint64_t value = load(take_bytes(reader, (size_t)width), width);
    int unused = 64 - 8 * width;
    return (int64_t)(value << unused) >> unused;
}

uint32_t take_uvarint(struct reader *reader)
{
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint32_t byte = *take_bytes(reader, 1);
        value |= (byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    fail("a reply has a number of more than five bytes");
}

void skip_string(struct reader *reader)
{
    int64_t length = take(reader, 2);
    take_bytes(reader, length > 0 ? (size_t)length : 0);
}

void take_string(struct reader *reader, char *text, size_t room)
{
    int64_t length = take(reader, 2);
    if (length < 0 || (size_t)length >= room)
        fail("a reply has a string of %ld bytes", (long)length);
    memcpy(text, take_bytes(reader, (size_t)length), (size_t)length);
    text[length] = 0;
}

int connect_to(const struct options *options)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options->port)};
    if (inet_pton(AF_INET, options->host, &address.sin_addr) != 1)
        fail("--host wants an IPv4 address: %s", options->host);
    int one = 1, handle = socket(AF_INET, SOCK_STREAM, 0);
    if (handle < 0 || connect(handle, (struct sockaddr *)&address, sizeof address))
        fail("connect %s:%d: %s", options->host, options->port, strerror(errno));
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return handle;
}
