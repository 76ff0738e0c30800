/* Small requests over plain sockets: N connections, D requests in flight on each, one thread, epoll.
 *
 * Requests are made once per partition and differ only in their correlation id:
 *   Produce v9, acks as asked, one batch of one record (a valid v2 batch; its CRC leaves out what the broker fills in)
 *   Fetch v12, no session, from offset 0, partition_max_bytes 1: answered at once with the first batch alone
 * Both are flexible versions: compact lengths, tagged fields.
 * Every reply is checked: order (correlation id), error code, and for Fetch that a batch came.
 */
#include "loadgen.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { PRODUCE = 0, FETCH = 1, PRODUCE_VERSION = 9, FETCH_VERSION = 12 };

static uint32_t crc32c(const uint8_t *bytes, size_t count)
{
    uint32_t crc = ~0u;
    while (count--) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    return ~crc;
}

/* baseOffset 8, batchLength 4, leaderEpoch 4, magic 1, crc 4, then what the CRC covers: attributes 2, lastOffsetDelta 4,
 * two timestamps 8, producerId 8, producerEpoch 2, baseSequence 4, count 4, records. */
static struct writer one_record_batch(int size)
{
    struct writer record = {0}, batch = {0};
    put(&record, 0, 1);          /* attributes */
    put_varint(&record, 0);      /* timestamp delta */
    put_varint(&record, 0);      /* offset delta */
    put_varint(&record, -1);     /* no key */
    put_varint(&record, size);
    memset(extend(&record, (size_t)size), 'x', (size_t)size);
    put_varint(&record, 0);      /* headers */

    const int64_t timestamp = 1700000000000;
    put(&batch, 0, 8);
    put(&batch, 0, 4);           /* length, below */
    put(&batch, -1, 4);
    put(&batch, 2, 1);
    put(&batch, 0, 4);           /* crc, below */
    put(&batch, 0, 2);
    put(&batch, 0, 4);
    put(&batch, timestamp, 8);
    put(&batch, timestamp, 8);
    put(&batch, -1, 8);
    put(&batch, -1, 2);
    put(&batch, -1, 4);
    put(&batch, 1, 4);
    put_varint(&batch, (int32_t)record.length);
    put_bytes(&batch, record.bytes, record.length);
    store(batch.bytes + 8, batch.length - 12, 4);
    store(batch.bytes + 17, crc32c(batch.bytes + 21, batch.length - 21), 4);
    free(record.bytes);
    return batch;
}

static struct writer produce_request(const struct options *options, int partition)
{
    struct writer request = start_request(PRODUCE, PRODUCE_VERSION, 1), batch = one_record_batch(options->size);
    put_uvarint(&request, 0);    /* no transactional id */
    put(&request, options->acks, 2);
    put(&request, 30000, 4);     /* timeout */
    put_uvarint(&request, 1 + 1);
    put_compact_string(&request, options->topic);
    put_uvarint(&request, 1 + 1);
    put(&request, partition, 4);
    put_uvarint(&request, (uint32_t)batch.length + 1);
    put_bytes(&request, batch.bytes, batch.length);
    put(&request, 0, 3);         /* tags of partition, topic and request */
    free(batch.bytes);
    finish_request(&request);
    return request;
}

static struct writer fetch_request(const struct options *options, int partition)
{
    struct writer request = start_request(FETCH, FETCH_VERSION, 1);
    put(&request, -1, 4);        /* replica id */
    put(&request, 500, 4);       /* max wait */
    put(&request, 1, 4);         /* min bytes */
    put(&request, 1 << 20, 4);   /* max bytes */
    put(&request, 0, 1);         /* read uncommitted */
    put(&request, 0, 4);         /* session id */
    put(&request, -1, 4);        /* session epoch: no session */
    put_uvarint(&request, 1 + 1);
    put_compact_string(&request, options->topic);
    put_uvarint(&request, 1 + 1);
    put(&request, partition, 4);
    put(&request, -1, 4);        /* current leader epoch */
    put(&request, 0, 8);         /* fetch offset */
    put(&request, -1, 4);        /* last fetched epoch */
    put(&request, -1, 8);        /* log start offset */
    put(&request, 1, 4);         /* partition max bytes: the first batch, whatever its size */
    put(&request, 0, 2);         /* tags of partition and topic */
    put_uvarint(&request, 0 + 1);/* forgotten topics */
    put_uvarint(&request, 0 + 1);/* rack id */
    put_uvarint(&request, 0);
    finish_request(&request);
    return request;
}

/* Both replies hold one topic and one partition, so what precedes the error code has a fixed length. */
static int reply_error(const struct options *options, int api_key, const uint8_t *reply, size_t length)
{
    size_t topic = 1 + 1 + strlen(options->topic); /* array of one, compact name */
    size_t at = 4 + 1 + (api_key == FETCH ? 4 + 2 + 4 : 0) + topic + 1 + 4;
    if (strlen(options->topic) > 126 || length < at + 2)
        return -2;
    int error = (int16_t)load(reply + at, 2);
    if (error || api_key == PRODUCE)
        return error;
    at += 2 + 8 + 8 + 8;                           /* error, high watermark, last stable, log start */
    at += 1 + 4;                                   /* no aborted transactions, preferred replica */
    return length > at + 61 && reply[at] > 1 ? 0 : -2;
}

struct connection {
    int socket;
    int partition;
    uint32_t sent, received;
    size_t filled;
    uint64_t *sent_at;           /* ring of `depth` send times */
    uint8_t buffer[1 << 16];
};

/* Sends `count` requests in one write. The kernel's buffer holds far more than `depth` of them, so the write is whole. */
static void send_requests(struct connection *connection, const struct writer *request, int count, int depth, uint8_t *out)
{
    uint64_t now = now_ns();
    for (int i = 0; i < count; i++) {
        uint8_t *frame = out + (size_t)i * request->length;
        memcpy(frame, request->bytes, request->length);
        store(frame + CORRELATION_AT, connection->sent, 4);
        connection->sent_at[connection->sent++ % (uint32_t)depth] = now;
    }
    send_all(connection->socket, out, (size_t)count * request->length);
}

void run_raw(const struct options *options)
{
    int api_key = !strcmp(options->mode, "raw-produce") ? PRODUCE : !strcmp(options->mode, "raw-fetch") ? FETCH : -1;
    if (api_key < 0)
        fail("unknown mode: %s", options->mode);
    if (options->acks == 0)
        fail("raw-produce waits for replies: acks 1 or -1");
    struct writer *requests = calloc((size_t)options->partitions, sizeof *requests);
    for (int i = 0; i < options->partitions; i++)
        requests[i] = api_key == PRODUCE ? produce_request(options, i) : fetch_request(options, i);
    uint8_t *out = malloc(requests[0].length * (size_t)options->depth);
    struct connection *connections = calloc((size_t)options->connections, sizeof *connections);
    struct samples latencies = {0};
    int poller = epoll_create1(0), depth = options->depth;
    for (int i = 0; i < options->connections; i++) {
        struct connection *connection = &connections[i];
        connection->socket = connect_to(options);
        connection->partition = i % options->partitions;
        connection->sent_at = calloc((size_t)depth, sizeof *connection->sent_at);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, connection->socket, &event))
            fail("epoll: %s", strerror(errno));
    }

    uint64_t start = now_ns(), end = start + (uint64_t)(options->seconds * 1e9), now = start;
    long total = options->count ? options->count : __LONG_MAX__, issued = 0, answered = 0, errors = 0, bytes = 0;
    int first_error = 0;
    for (int i = 0; i < options->connections && issued < total; i++) {
        int burst = total - issued < depth ? (int)(total - issued) : depth;
        send_requests(&connections[i], &requests[connections[i].partition], burst, depth, out);
        issued += burst;
    }
    while (answered < issued) {
        struct epoll_event events[256];
        int ready = epoll_wait(poller, events, 256, (int)(options->timeout * 1e3));
        if (ready <= 0)
            fail("no reply for %.0f s, %ld of %ld requests open", options->timeout, issued - answered, issued);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            ssize_t got = recv(connection->socket, connection->buffer + connection->filled,
                               sizeof connection->buffer - connection->filled, MSG_DONTWAIT);
            if (got <= 0)
                fail("connection lost after %u replies: %s", connection->received, got ? strerror(errno) : "closed");
            connection->filled += (size_t)got;
            bytes += got;
            now = now_ns();
            int done = 0;
            size_t at = 0;
            while (connection->filled - at >= 8) {
                const uint8_t *frame = connection->buffer + at;
                size_t length = load(frame, 4);
                if (length + 4 > sizeof connection->buffer || length < 4)
                    fail("a reply of %zu bytes", length);
                if (connection->filled - at < length + 4)
                    break;
                if (load(frame + 4, 4) != connection->received)
                    fail("reply out of order: correlation id %u, not %u", (uint32_t)load(frame + 4, 4),
                         connection->received);
                sample(&latencies, now - connection->sent_at[connection->received++ % (uint32_t)depth]);
                int error = reply_error(options, api_key, frame + 4, length);
                if (error) {
                    errors++;
                    first_error = first_error ? first_error : error;
                }
                at += length + 4;
                done++;
            }
            memmove(connection->buffer, connection->buffer + at, connection->filled - at);
            connection->filled -= at;
            answered += done;
            int more = options->count || now < end ? done : 0;
            more = total - issued < more ? (int)(total - issued) : more;
            if (more)
                send_requests(connection, &requests[connection->partition], more, depth, out);
            issued += more;
        }
    }
    double seconds = (double)(now - start) / 1e9;
    printf("{\"mode\":\"%s\",\"requests\":%ld,\"errors\":%ld,\"first_error\":%d,\"reply_bytes\":%ld,\"seconds\":%.6f",
           options->mode, answered, errors, first_error, bytes, seconds);
    print_percentiles(&latencies);
    print_cpu();
    puts("}");
}
