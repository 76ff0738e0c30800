/* Bulk and end-to-end load through librdkafka: the client's own limits are then those of most real clients.
 *
 * produce   `count` records of `size` bytes as fast as they are taken, until all are acknowledged
 * consume   `count` records from the start of the topic; the clock starts with the first one
 * both      the two at once, two threads, the consumer following the producer on an empty topic
 * e2e       `rate` records a second for `seconds`; each carries its send time, so latency is send to receipt
 * through   the same, but what is received comes from another topic, to which an application writes what it makes of
 *           each record: lines of words, with the send time as 20 digits at the start of key or value
 *
 * Payloads are not copied and success is not reported record by record: the generator should cost little.
 */
#ifdef WITH_RDKAFKA
#include "loadgen.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CHUNK = 500 };            /* records handed to one partition before the next one has its turn */

static void set(rd_kafka_conf_t *conf, const char *name, const char *format, ...)
{
    char value[256], error[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        fail("%s", error);
}

static long delivery_errors;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
    (void)client, (void)opaque;
    if (message->err && !delivery_errors++)
        fprintf(stderr, "loadgen: delivery failed: %s\n", rd_kafka_err2str(message->err));
}

struct client {
    rd_kafka_t *handle;
    rd_kafka_topic_t *topic;
};

/* A client whose connection is open and which knows the topic, so that neither is part of what is measured. */
static struct client open_client(const struct options *options, rd_kafka_type_t type, double linger_ms)
{
    char error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", "%s:%d", options->host, options->port);
    set(conf, "client.id", "loadgen");
    set(conf, "socket.nagle.disable", "true");
    if (type == RD_KAFKA_PRODUCER) {
        set(conf, "linger.ms", "%g", linger_ms);
        set(conf, "acks", "%d", options->acks);
        set(conf, "compression.codec", "none");
        set(conf, "queue.buffering.max.messages", "500000");
        set(conf, "delivery.report.only.error", "true");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    } else {
        set(conf, "enable.auto.commit", "false");
        set(conf, "isolation.level", "%s", options->isolation);
        set(conf, "queued.min.messages", "1000000");
    }
    struct client client = {.handle = rd_kafka_new(type, conf, error, sizeof error)};
    if (!client.handle)
        fail("%s", error);
    rd_kafka_topic_conf_t *topic_conf = rd_kafka_topic_conf_new();
    if (type == RD_KAFKA_CONSUMER
        && rd_kafka_topic_conf_set(topic_conf, "auto.commit.enable", "false", error, sizeof error) != RD_KAFKA_CONF_OK)
        fail("%s", error);
    client.topic = rd_kafka_topic_new(client.handle, options->topic, topic_conf);
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t failure = rd_kafka_metadata(client.handle, 0, client.topic, &metadata, 10000);
    if (failure)
        fail("metadata: %s", rd_kafka_err2str(failure));
    if (metadata->topic_cnt != 1 || metadata->topics[0].partition_cnt < options->partitions)
        fail("topic %s has not %d partitions", options->topic, options->partitions);
    rd_kafka_metadata_destroy(metadata);
    return client;
}

static void close_client(struct client client)
{
    rd_kafka_topic_destroy(client.topic);
    rd_kafka_destroy(client.handle);
}

static void sleep_until(uint64_t when)
{
    struct timespec time = {.tv_sec = (time_t)(when / 1000000000u), .tv_nsec = (long)(when % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static double produce_all(const struct options *options)
{
    struct client client = open_client(options, RD_KAFKA_PRODUCER, options->linger_ms);
    char *value = malloc((size_t)options->size);
    memset(value, 'x', (size_t)options->size);
    rd_kafka_message_t chunk[CHUNK];
    static int64_t keys[CHUNK];
    long left = options->count, next_key = 0;
    uint64_t start = now_ns(), moved = start;
    for (int partition = 0; left; partition = (partition + 1) % options->partitions) {
        int count = left < CHUNK ? (int)left : CHUNK;
        if (options->rate > 0)
            sleep_until(start + (uint64_t)((double)(options->count - left) / options->rate * 1e9));
        left -= count;
        for (int from = 0; from < count;) {
            int wanted = count - from;
            memset(chunk, 0, sizeof *chunk * (size_t)wanted);
            for (int i = 0; i < wanted; i++) {
                chunk[i].payload = value;
                chunk[i].len = (size_t)options->size;
                if (options->keys) {
                    keys[i] = next_key++ % options->keys;
                    chunk[i].key = &keys[i];
                    chunk[i].key_len = sizeof keys[i];
                }
            }
            int taken = rd_kafka_produce_batch(client.topic, partition, 0, chunk, wanted);
            for (int i = taken; i < wanted; i++)
                if (chunk[i].err && chunk[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                    fail("produce: %s", rd_kafka_err2str(chunk[i].err));
            if (taken) {
                moved = now_ns();
                from += taken;
            } else if ((double)(now_ns() - moved) / 1e9 > options->timeout) {
                fail("producer stuck for %.0f s", options->timeout);
            }
            if (taken < wanted)
                rd_kafka_poll(client.handle, 1);
        }
    }
    if (rd_kafka_flush(client.handle, (int)(options->timeout * 1e3)))
        fail("%d records not acknowledged within %.0f s", rd_kafka_outq_len(client.handle), options->timeout);
    double seconds = (double)(now_ns() - start) / 1e9;
    if (delivery_errors)
        fail("%ld of %ld records failed", delivery_errors, options->count);
    close_client(client);
    free(value);
    return seconds;
}

struct consumer {
    const struct options *options;
    struct client client;
    rd_kafka_queue_t *queue;
    struct samples latencies;    /* e2e and through */
    _Atomic uint64_t counted_from;  /* through: what was sent before this is from another run, or a first try */
    _Atomic uint64_t measured_from; /* e2e and through: records sent before this are warm-up */
    long records, bytes;
    double seconds;
    _Atomic int ready;           /* e2e and through: a first record came through */
    _Atomic long stop_at;        /* records to expect; e2e and through: once known */
};

static int is_through(const struct options *options)
{
    return !strcmp(options->mode, "through");
}

/* Where a partition ends now. (A consumer that is told to begin at the end looks for it when it comes to it, and one
   partition's first record says nothing of the others.) */
static int64_t end_of(const struct options *options, const struct client *client, int partition)
{
    int64_t first, end;
    rd_kafka_resp_err_t failed = rd_kafka_query_watermark_offsets(
        client->handle, rd_kafka_topic_name(client->topic), partition, &first, &end, (int)(options->timeout * 1e3));
    if (failed)
        fail("offsets: %s", rd_kafka_err2str(failed));
    return end;
}

static struct consumer open_consumer(const struct options *options)
{
    struct options reading = *options;
    if (is_through(options))
        reading.topic = options->out_topic;
    struct consumer consumer = {.options = options, .client = open_client(&reading, RD_KAFKA_CONSUMER, 0)};
    consumer.queue = rd_kafka_queue_new(consumer.client.handle);
    for (int i = 0; i < options->partitions; i++) {
        int64_t from = is_through(options) ? end_of(options, &consumer.client, i) : RD_KAFKA_OFFSET_BEGINNING;
        if (rd_kafka_consume_start_queue(consumer.client.topic, i, from, consumer.queue))
            fail("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
    }
    consumer.stop_at = options->count ? options->count : __LONG_MAX__;
    return consumer;
}

static void close_consumer(struct consumer *consumer)
{
    for (int i = 0; i < consumer->options->partitions; i++)
        rd_kafka_consume_stop(consumer->client.topic, i);
    rd_kafka_queue_destroy(consumer->queue);
    close_client(consumer->client);
}

enum { DIGITS = 20 };            /* of a time in nanoseconds, as text; WORDS has a space there */

static int in_key(const char *where)
{
    return !strcmp(where, "key");
}

/* When a received record was sent; 0 for one that does not say. */
static uint64_t send_time(const struct options *options, const rd_kafka_message_t *message)
{
    uint64_t sent = 0;
    if (!is_through(options)) {
        memcpy(&sent, message->payload, sizeof sent);
        return sent;
    }
    const char *text = in_key(options->found) ? message->key : message->payload;
    size_t length = in_key(options->found) ? message->key_len : message->len;
    for (size_t i = 0; i < DIGITS; i++) {
        if (i == length || text[i] < '0' || text[i] > '9')
            return 0;
        sent = sent * 10 + (uint64_t)(text[i] - '0');
    }
    return sent;
}

/* Body of the consumer's thread. */
static void *consume_all(void *argument)
{
    struct consumer *consumer = argument;
    int timed = !strcmp(consumer->options->mode, "e2e") || is_through(consumer->options);
    rd_kafka_message_t *messages[1000];
    uint64_t start = 0, moved = now_ns();
    while (consumer->records < consumer->stop_at) {
        /* The call returns when all that it was asked for is there, or after its timeout. */
        long left = consumer->stop_at - consumer->records, wanted = timed ? 1 : left < 1000 ? left : 1000;
        ssize_t got = rd_kafka_consume_batch_queue(consumer->queue, 100, messages, (size_t)wanted);
        uint64_t now = now_ns();
        if (got < 0)
            fail("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        if (got)
            moved = now;
        else if ((double)(now - moved) / 1e9 > consumer->options->timeout)
            fail("consumer stuck for %.0f s after %ld records", consumer->options->timeout, consumer->records);
        for (ssize_t i = 0; i < got; i++) {
            rd_kafka_message_t *message = messages[i];
            if (message->err && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
                fail("consume: %s", rd_kafka_message_errstr(message));
            if (!message->err) {
                uint64_t sent = timed ? send_time(consumer->options, message) : 0;
                start = start ? start : now;
                if (sent >= consumer->counted_from)
                    consumer->records++;
                consumer->bytes += (long)message->len;
                if (sent) {
                    consumer->ready = 1;
                    if (consumer->measured_from && sent >= consumer->measured_from)
                        sample(&consumer->latencies, now_ns() - sent);
                }
            }
            rd_kafka_message_destroy(message);
        }
    }
    consumer->seconds = (double)(now_ns() - start) / 1e9;
    return NULL;
}

static const char WORDS[] = "that quick brown fox jumps over the lazy dog and runs on until the line is full ";

static void send_stamped(const struct options *options, struct client *client, long number)
{
    char value[options->size], stamp[DIGITS + 1], user[32], *key = NULL;
    uint64_t now = now_ns();
    int partition = (int)(number % options->partitions);
    if (is_through(options)) {
        snprintf(stamp, sizeof stamp, "%0*llu", DIGITS, (unsigned long long)now);
        for (size_t i = 0; i < sizeof value; i++)
            value[i] = WORDS[i % (sizeof WORDS - 1)];
        if (!in_key(options->stamp))
            memcpy(value, stamp, DIGITS);
        if (in_key(options->stamp)) {
            key = stamp;
        } else if (options->keys) {
            snprintf(user, sizeof user, "user%06ld", number % options->keys);
            key = user;
            partition = (int)(number % options->keys % options->partitions);
        }
    } else {
        memset(value, 'x', sizeof value);
        memcpy(value, &now, sizeof now);
    }
    if (rd_kafka_produce(client->topic, partition, RD_KAFKA_MSG_F_COPY, value, sizeof value, key, key ? strlen(key) : 0,
                         NULL))
        fail("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
}

static void run_e2e(const struct options *options)
{
    struct consumer consumer = open_consumer(options);
    struct client producer = open_client(options, RD_KAFKA_PRODUCER, 0);
    pthread_t thread;
    if (is_through(options))
        consumer.counted_from = UINT64_MAX;
    pthread_create(&thread, NULL, consume_all, &consumer);
    long sent = 0;
    for (uint64_t since = now_ns(); !consumer.ready; sent++) { /* the consumer's first fetch has to be under way */
        if ((double)(now_ns() - since) / 1e9 > options->timeout)
            fail("no record came through within %.0f s", options->timeout);
        send_stamped(options, &producer, sent);
        sleep_until(now_ns() + 20000000);
        rd_kafka_poll(producer.handle, 0);
    }
    uint64_t start = now_ns();
    if (is_through(options)) {
        consumer.counted_from = start;
        sent = 0;
    }
    consumer.measured_from = start + (uint64_t)(options->warmup * 1e9);
    long total = (long)((options->warmup + options->seconds) * options->rate);
    for (long i = 0; i < total; i++) {
        sleep_until(start + (uint64_t)((double)i * 1e9 / options->rate));
        send_stamped(options, &producer, i);
        rd_kafka_poll(producer.handle, 0);
    }
    if (rd_kafka_flush(producer.handle, (int)(options->timeout * 1e3)) || delivery_errors)
        fail("%d records not acknowledged, %ld failed", rd_kafka_outq_len(producer.handle), delivery_errors);
    consumer.stop_at = sent + total;
    pthread_join(thread, NULL);
    printf("{\"mode\":\"%s\",\"records\":%ld,\"samples\":%zu,\"seconds\":%.6f", options->mode, sent + total,
           consumer.latencies.count, (double)(now_ns() - start) / 1e9);
    print_percentiles(&consumer.latencies);
    close_consumer(&consumer);
    close_client(producer);
}

static void print_rate(const char *what, long records, int size, double seconds)
{
    printf(",\"%s_records\":%ld,\"%s_bytes\":%ld,\"%s_seconds\":%.6f", what, records, what, records * size, what, seconds);
}

void run_rdkafka(const struct options *options)
{
    int produces = !strcmp(options->mode, "produce") || !strcmp(options->mode, "both");
    int consumes = !strcmp(options->mode, "consume") || !strcmp(options->mode, "both");
    if (is_through(options) && (!options->out_topic || options->size <= DIGITS)) {
        fail("--out-topic is needed, and a --size above %d", DIGITS);
    } else if (!strcmp(options->mode, "e2e") || is_through(options)) {
        run_e2e(options);
    } else if (!produces && !consumes) {
        fail("unknown mode: %s", options->mode);
    } else if (options->count < 1) {
        fail("--count is needed");
    } else {
        struct consumer consumer;
        pthread_t thread;
        if (consumes) {
            consumer = open_consumer(options);
            pthread_create(&thread, NULL, consume_all, &consumer);
        }
        double seconds = produces ? produce_all(options) : 0;
        if (consumes)
            pthread_join(thread, NULL);
        printf("{\"mode\":\"%s\"", options->mode);
        if (produces)
            print_rate("produce", options->count, options->size, seconds);
        if (consumes) {
            if (consumer.bytes != consumer.records * options->size)
                fail("%ld records hold %ld bytes", consumer.records, consumer.bytes);
            print_rate("consume", consumer.records, options->size, consumer.seconds);
            close_consumer(&consumer);
        }
    }
    print_cpu();
    printf(",\"librdkafka\":\"%s\"}\n", rd_kafka_version_str());
}
#endif
