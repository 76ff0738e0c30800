/* Options, clock, percentiles and the choice of mode. See loadgen.h. */
#include "loadgen.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void sample(struct samples *samples, uint64_t nanoseconds)
{
    if (samples->count == samples->room) {
        samples->room = samples->room ? samples->room * 2 : 1 << 16;
        samples->values = realloc(samples->values, samples->room * sizeof *samples->values);
        if (!samples->values)
            fail("no memory for %zu samples", samples->room);
    }
    samples->values[samples->count++] = nanoseconds;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static double percentile(const struct samples *samples, double share)
{
    if (!samples->count)
        return 0;
    size_t at = (size_t)(share * (double)samples->count);
    return samples->values[at < samples->count ? at : samples->count - 1] / 1e3;
}

void print_percentiles(struct samples *samples)
{
    qsort(samples->values, samples->count, sizeof *samples->values, compare);
    printf(",\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f", percentile(samples, 0.5),
           percentile(samples, 0.99), percentile(samples, 0.999), percentile(samples, 1));
}

void print_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf(",\"cpu_seconds\":%.3f",
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
               + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

double broker_cpu(const struct options *options)
{
    struct timespec time = {0};
    if (options->pid && clock_gettime((clockid_t)(~(unsigned)options->pid << 3 | 2), &time)) /* CPUCLOCK_SCHED of a pid */
        fail("no process %d", options->pid);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double number(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end)
        fail("--%s: not a number: %s", name, text);
    return value;
}

int main(int argc, char **argv)
{
    struct options options = {
        .host = "127.0.0.1", .port = 9092, .topic = "bench", .partitions = 1, .size = 100, .acks = 1, .linger_ms = 5,
        .seconds = 3, .connections = 16, .depth = 1, .groups = 1, .members = 1, .protocol = "classic", .heartbeat_ms = 3000,
        .isolation = "read_committed", .timeout = 30, .stamp = "value", .found = "value",
    };
    static const struct option names[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"topic", 1, 0, 't'}, {"partitions", 1, 0, 'P'},
        {"size", 1, 0, 's'}, {"count", 1, 0, 'n'}, {"acks", 1, 0, 'a'}, {"linger-ms", 1, 0, 'l'},
        {"rate", 1, 0, 'r'}, {"seconds", 1, 0, 'S'}, {"warmup", 1, 0, 'w'}, {"connections", 1, 0, 'c'},
        {"depth", 1, 0, 'd'}, {"timeout", 1, 0, 'T'}, {"keys", 1, 0, 'k'}, {"groups", 1, 0, 'g'},
        {"members", 1, 0, 'm'}, {"protocol", 1, 0, 'o'}, {"heartbeat-ms", 1, 0, 'b'}, {"isolation", 1, 0, 'i'},
        {"pid", 1, 0, 'I'}, {"out-topic", 1, 0, 'O'}, {"stamp", 1, 0, 'A'}, {"found", 1, 0, 'F'}, {0, 0, 0, 0},
    };
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", names, &index)) != -1) {
        const char *name = names[index].name;
        switch (letter) {
        case 'h': options.host = optarg; break;
        case 'p': options.port = (int)number(name, optarg); break;
        case 't': options.topic = optarg; break;
        case 'P': options.partitions = (int)number(name, optarg); break;
        case 's': options.size = (int)number(name, optarg); break;
        case 'n': options.count = (long)number(name, optarg); break;
        case 'a': options.acks = (int)number(name, optarg); break;
        case 'k': options.keys = (long)number(name, optarg); break;
        case 'l': options.linger_ms = number(name, optarg); break;
        case 'r': options.rate = number(name, optarg); break;
        case 'S': options.seconds = number(name, optarg); break;
        case 'w': options.warmup = number(name, optarg); break;
        case 'c': options.connections = (int)number(name, optarg); break;
        case 'd': options.depth = (int)number(name, optarg); break;
        case 'T': options.timeout = number(name, optarg); break;
        case 'g': options.groups = (int)number(name, optarg); break;
        case 'm': options.members = (int)number(name, optarg); break;
        case 'o': options.protocol = optarg; break;
        case 'b': options.heartbeat_ms = number(name, optarg); break;
        case 'i': options.isolation = optarg; break;
        case 'O': options.out_topic = optarg; break;
        case 'A': options.stamp = optarg; break;
        case 'F': options.found = optarg; break;
        case 'I': options.pid = (int)number(name, optarg); break;
        default: return 2;
        }
    }
    if (optind != argc - 1)
        fail("usage: loadgen [--option value]... "
             "produce|consume|both|e2e|through|raw-produce|raw-fetch|raw-groups|raw-commits");
    options.mode = argv[optind];
    if (options.partitions < 1 || options.size < 16 || options.connections < 1 || options.depth < 1
        || options.groups < 1 || options.members < 1)
        fail("partitions, connections, depth, groups and members start at 1, size at 16");
    if (!strcmp(options.mode, "raw-groups") || !strcmp(options.mode, "raw-commits"))
        run_groups(&options);
    else if (!strncmp(options.mode, "raw-", 4))
        run_raw(&options);
    else
#ifdef WITH_RDKAFKA
        run_rdkafka(&options);
#else
        fail("mode %s needs librdkafka, which was not there when this was built", options.mode);
#endif
    return 0;
}
