/* Load generator for Kafka's protocol: what its modes share. One process, one mode, one JSON object on stdout. */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stddef.h>
#include <stdint.h>

struct options {
    const char *mode;  /* with librdkafka: produce, consume, both, e2e, through; over plain sockets: raw-produce,
                          raw-fetch, raw-groups, raw-commits */
    const char *host;
    int port;
    const char *topic;
    const char *out_topic; /* through: where the records come out again */
    int partitions;
    int size;          /* bytes of one record's value */
    long count;        /* records; for the raw modes 0 means "until the time is over" */
    int acks;          /* 0, 1 or -1 */
    double linger_ms;
    long keys;         /* produce, through: different keys, given in turn; 0 for none */
    const char *stamp, *found; /* through: "key" or "value", where the time of sending is put and looked for */
    double rate;       /* e2e, through: records per second; produce: the same, raw-commits: commits; 0 for as fast as it goes */
    double seconds;    /* e2e, through and raw: length of the measured part */
    double warmup;     /* e2e, through: seconds before it, whose records are not counted */
    int connections;   /* raw */
    int depth;         /* raw: requests in flight on each connection */
    int groups;        /* raw-groups */
    int members;       /* raw-groups: of each group */
    const char *protocol; /* raw-groups, raw-commits: classic, or consumer (KIP-848) */
    double heartbeat_ms;
    const char *isolation; /* consume: read_committed or read_uncommitted */
    int pid;           /* raw-groups, raw-commits: the broker, whose processor time is then told */
    double timeout;    /* give up after this many seconds without progress */
};

/* Latencies in nanoseconds, kept one by one: percentiles are exact. */
struct samples {
    uint64_t *values;
    size_t count, room;
};

uint64_t now_ns(void);
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void sample(struct samples *samples, uint64_t nanoseconds);
/* Prints `,"p50_us":…,"p99_us":…,"p999_us":…,"max_us":…`; sorts the samples. */
void print_percentiles(struct samples *samples);
/* Prints `,"cpu_seconds":…` of this process, user and system. */
void print_cpu(void);
/* Processor seconds of the broker so far; 0 when it was not told which process that is. */
double broker_cpu(const struct options *options);

void run_raw(const struct options *options);
void run_groups(const struct options *options);
void run_rdkafka(const struct options *options);

#endif
