/* Consumer groups over plain sockets: many members, each with a connection of its own, one thread, epoll.
 *
 * raw-groups    `groups` groups of `members` members join at once; ends when all are stable
 * raw-commits   `connections` members, each in a group of its own, commit one offset at a time: `rate` a second in all, or
 *               each as soon as its last commit was answered. At a given rate a latency counts from when the commit was
 *               due, also if the answer to the one before it was late
 *
 * Two protocols, in the versions that are easiest to write:
 *   classic     FindCoordinator 0, JoinGroup 5, SyncGroup 3, Heartbeat 3, LeaveGroup 1, OffsetCommit 7. The leader gives
 *               member i the partitions i, i + members, ... A group is stable when all have their assignment of the same
 *               generation
 *   consumer    ConsumerGroupHeartbeat 1 (KIP-848). A group is stable when all members are in the same epoch, each has
 *               partitions, and together they have all
 * The clock starts with the first request to join, when all are connected and the coordinator is there, and stops when the
 * last group is stable. Members leave when the measurement is over.
 */
#include "loadgen.h"
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OFFSET_COMMIT = 8, FIND_COORDINATOR = 10, JOIN_GROUP = 11, HEARTBEAT = 12, LEAVE_GROUP = 13, SYNC_GROUP = 14,
       CONSUMER_HEARTBEAT = 68 };
enum { COORDINATOR_LOAD_IN_PROGRESS = 14, COORDINATOR_NOT_AVAILABLE = 15, NOT_COORDINATOR = 16, ILLEGAL_GENERATION = 22,
       REBALANCE_IN_PROGRESS = 27, MEMBER_ID_REQUIRED = 79 };
enum { SESSION_MS = 45000, REBALANCE_MS = 60000, RETRY_MS = 20 };
enum { AT_ONCE = 25 };           /* connections; a broker has room for 50 that it has not accepted yet, and others wait a second */

struct group {
    char id[160];
    int generation;              /* the newest that a member has; an epoch in the consumer protocol */
    int settled;                 /* members that have their assignment of it */
    int owned;                   /* consumer protocol: partitions that members have */
};

struct member {
    struct group *group;
    int socket, number;          /* number: within its group */
    int api_key;                 /* of the request that it waits for the answer of, or 0 */
    uint32_t correlation;
    char id[128];
    int generation;              /* 0: not joined yet */
    int settled;
    struct writer owned;         /* consumer protocol: topic_partitions, as they came */
    int owned_count;
    uint64_t due;                /* when its next request is; UINT64_MAX for not at all */
    uint64_t since;              /* from when the latency of a commit counts */
    uint8_t *buffer;
    size_t filled, room;
};

static struct {
    const struct options *options;
    int consumer;                /* protocol */
    struct group *groups;
    struct member *members;
    int count, per_group, poller;
    int committing;              /* all are stable, and commit from now on */
    int groups_stable, joins;
    int named;                   /* members that the broker has given an id */
    int done;                    /* members that have made their last commit */
    uint64_t commits_end, interval;
    long commits, errors, first_error;
    struct samples latencies;
} run;

static void ask(struct member *member, struct writer *request)
{
    finish_request(request);
    member->api_key = (int)load(request->bytes + 4, 2);
    store(request->bytes + CORRELATION_AT, ++member->correlation, 4);
    send_all(member->socket, request->bytes, request->length);
    free(request->bytes);
    member->due = UINT64_MAX;
}

static void later(struct member *member, double milliseconds) { member->due = now_ns() + (uint64_t)(milliseconds * 1e6); }

static int is_passing(int error)
{
    return error == COORDINATOR_LOAD_IN_PROGRESS || error == COORDINATOR_NOT_AVAILABLE || error == NOT_COORDINATOR;
}

/* -- whether a group is stable --------------------------------------------------------------------------------------- */

static int is_stable(const struct group *group)
{
    return group->settled == run.per_group && (!run.consumer || group->owned == run.options->partitions);
}

static void unsettle(struct member *member)
{
    run.groups_stable -= is_stable(member->group);
    member->group->settled -= member->settled;
    member->settled = 0;
}

static void settle(struct member *member, int generation)
{
    struct group *group = member->group;
    unsettle(member);
    member->generation = generation;
    if (generation > group->generation) {
        group->generation = generation;
        group->settled = 0;
        for (struct member *other = member - member->number, *end = other + run.per_group; other < end; other++)
            other->settled = 0;
    }
    member->settled = generation == group->generation && (!run.consumer || member->owned_count);
    group->settled += member->settled;
    run.groups_stable += is_stable(group);
}

/* -- requests -------------------------------------------------------------------------------------------------------- */

static struct writer about_member(const struct member *member, int api_key, int version)
{
    struct writer request = start_request(api_key, version, 0);
    put_string(&request, member->group->id);
    put(&request, member->generation, 4);
    put_string(&request, member->id);
    put_string(&request, NULL);  /* no instance id */
    return request;
}

static void join(struct member *member)
{
    struct writer metadata = {0}, request = start_request(JOIN_GROUP, 5, 0);
    put(&metadata, 0, 2);        /* version of the subscription */
    put(&metadata, 1, 4);
    put_string(&metadata, run.options->topic);
    put(&metadata, -1, 4);       /* no user data */
    put_string(&request, member->group->id);
    put(&request, SESSION_MS, 4);
    put(&request, REBALANCE_MS, 4);
    put_string(&request, member->id);
    put_string(&request, NULL);
    put_string(&request, "consumer");
    put(&request, 1, 4);
    put_string(&request, "range");
    put(&request, (int64_t)metadata.length, 4);
    put_bytes(&request, metadata.bytes, metadata.length);
    free(metadata.bytes);
    run.joins++;
    ask(member, &request);
}

static void put_assignment(struct writer *request, int position, int members)
{
    struct writer assignment = {0};
    put(&assignment, 0, 2);
    put(&assignment, 1, 4);
    put_string(&assignment, run.options->topic);
    int count = 0;
    size_t at = assignment.length;
    put(&assignment, 0, 4);
    for (int partition = position; partition < run.options->partitions; partition += members, count++)
        put(&assignment, partition, 4);
    store(assignment.bytes + at, (uint64_t)count, 4);
    put(&assignment, -1, 4);
    put(request, (int64_t)assignment.length, 4);
    put_bytes(request, assignment.bytes, assignment.length);
    free(assignment.bytes);
}

/* `reply`: at the members of JoinGroup's answer, none for those that do not lead. */
static void sync_group(struct member *member, struct reader *reply)
{
    struct writer request = about_member(member, SYNC_GROUP, 3);
    int members = (int)take(reply, 4);
    put(&request, members, 4);
    for (int i = 0; i < members; i++) {
        char id[128];
        take_string(reply, id, sizeof id);
        skip_string(reply);
        take_bytes(reply, (size_t)take(reply, 4));
        put_string(&request, id);
        put_assignment(&request, i, members);
    }
    ask(member, &request);
}

static void consumer_heartbeat(struct member *member, int epoch)
{
    struct writer request = start_request(CONSUMER_HEARTBEAT, 1, 1);
    put_compact_string(&request, member->group->id);
    put_compact_string(&request, member->id);
    put(&request, epoch, 4);
    put_uvarint(&request, 0);    /* instance id */
    put_uvarint(&request, 0);    /* rack */
    put(&request, epoch ? -1 : REBALANCE_MS, 4);
    put_uvarint(&request, epoch ? 0 : 1 + 1);
    if (!epoch)
        put_compact_string(&request, run.options->topic);
    put_uvarint(&request, 0);    /* regular expression */
    put_uvarint(&request, 0);    /* assignor */
    if (!epoch)
        put_uvarint(&request, 0 + 1);
    else if (member->owned.length)
        put_bytes(&request, member->owned.bytes, member->owned.length);
    else
        put_uvarint(&request, 0);
    put_uvarint(&request, 0);
    member->owned.length = 0;    /* told once */
    ask(member, &request);
}

static void commit(struct member *member)
{
    struct writer request = about_member(member, OFFSET_COMMIT, 7);
    put(&request, 1, 4);
    put_string(&request, run.options->topic);
    put(&request, 1, 4);
    put(&request, (member - run.members) % run.options->partitions, 4);
    put(&request, run.commits, 8);
    put(&request, -1, 4);        /* leader epoch */
    put_string(&request, "");
    ask(member, &request);
}

/* What a member does when its time has come. */
static void act(struct member *member)
{
    if (run.committing) {
        member->since = member->due;
        commit(member);
    } else if (run.consumer) {
        consumer_heartbeat(member, member->generation);
    } else if (member->settled) {
        struct writer request = about_member(member, HEARTBEAT, 3);
        ask(member, &request);
    } else {
        join(member);
    }
}

/* -- replies --------------------------------------------------------------------------------------------------------- */

static void joined(struct member *member, struct reader *reply)
{
    int error = (int)take(reply, 2);
    if (is_passing(error)) {
        later(member, RETRY_MS);
        return;
    }
    int generation = (int)take(reply, 4);
    skip_string(reply);          /* protocol */
    skip_string(reply);          /* leader */
    if (error && error != MEMBER_ID_REQUIRED)
        fail("JoinGroup: error %d", error);
    take_string(reply, member->id, sizeof member->id);
    if (error) {                 /* it has an id now; all join together, or luck would say how often a group rebalances */
        if (++run.named == run.count)
            for (int i = 0; i < run.count; i++)
                join(&run.members[i]);
        return;
    }
    member->generation = generation;
    sync_group(member, reply);
}

static void synced(struct member *member, struct reader *reply)
{
    int error = (int)take(reply, 2);
    if (error == REBALANCE_IN_PROGRESS || error == ILLEGAL_GENERATION) {
        join(member);
        return;
    }
    if (error)
        fail("SyncGroup: error %d", error);
    if (take(reply, 4) <= 0)
        fail("SyncGroup: an empty assignment");
    settle(member, member->generation);
    later(member, run.options->heartbeat_ms);
}

static void heard(struct member *member, struct reader *reply)
{
    int error = (int)take(reply, 2);
    if (error == REBALANCE_IN_PROGRESS || error == ILLEGAL_GENERATION) {
        unsettle(member);
        join(member);
        return;
    }
    if (error)
        fail("Heartbeat: error %d", error);
    later(member, run.options->heartbeat_ms);
}

static void skip_compact_string(struct reader *reply)
{
    uint32_t length = take_uvarint(reply);
    take_bytes(reply, length ? length - 1 : 0);
}

static void consumer_heard(struct member *member, struct reader *reply)
{
    int error = (int)take(reply, 2);
    skip_compact_string(reply);  /* message */
    skip_compact_string(reply);  /* member id */
    int epoch = (int)take(reply, 4);
    take(reply, 4);              /* interval */
    if (is_passing(error)) {
        later(member, RETRY_MS);
        return;
    }
    if (error)
        fail("ConsumerGroupHeartbeat: error %d", error);
    run.joins += member->generation == 0;
    later(member, run.options->heartbeat_ms);
    unsettle(member);
    if (take(reply, 1) == 1) {   /* an assignment: take it and say so at once, as a client without listeners does */
        const uint8_t *start = reply->at;
        uint32_t topics = take_uvarint(reply);
        int owned = 0;
        for (uint32_t i = 1; i < topics; i++) {
            take_bytes(reply, 16);
            uint32_t partitions = take_uvarint(reply) - 1;
            take_bytes(reply, (size_t)partitions * 4 + 1);
            owned += (int)partitions;
        }
        member->group->owned += owned - member->owned_count;
        member->owned_count = owned;
        member->owned.length = 0;
        put_bytes(&member->owned, start, (size_t)(reply->at - start));
        member->due = 0;
    }
    settle(member, epoch);
}

static void committed(struct member *member, struct reader *reply)
{
    take(reply, 4);
    skip_string(reply);
    take(reply, 4);
    take(reply, 4);
    int error = (int)take(reply, 2);
    uint64_t now = now_ns();
    sample(&run.latencies, now - member->since);
    run.commits++;
    run.errors += error != 0;
    run.first_error = run.first_error ? run.first_error : error;
    member->due = run.interval ? member->since + run.interval : now;
    if (member->due >= run.commits_end) {
        member->due = UINT64_MAX;
        run.done++;
    }
}

static void answered(struct member *member, const uint8_t *frame, size_t length)
{
    struct reader reply = {frame, frame + length};
    if ((uint32_t)take(&reply, 4) != member->correlation)
        fail("a reply that nobody waits for");
    int api_key = member->api_key;
    member->api_key = 0;
    if (api_key == CONSUMER_HEARTBEAT)
        take_uvarint(&reply);    /* tags */
    take(&reply, 4);             /* throttle time */
    switch (api_key) {
    case JOIN_GROUP: joined(member, &reply); break;
    case SYNC_GROUP: synced(member, &reply); break;
    case HEARTBEAT: heard(member, &reply); break;
    case CONSUMER_HEARTBEAT: consumer_heard(member, &reply); break;
    case OFFSET_COMMIT: committed(member, &reply); break;
    }
}

/* -- the run --------------------------------------------------------------------------------------------------------- */

/* Takes what has come. Returns the length of the first frame when it is whole, else 0. */
static size_t receive(struct member *member, int flags)
{
    if (member->room - member->filled < 4096) {
        member->room = member->room * 2 + 8192;
        member->buffer = realloc(member->buffer, member->room);
        if (!member->buffer)
            fail("no memory for replies");
    }
    ssize_t got = recv(member->socket, member->buffer + member->filled, member->room - member->filled, flags);
    if (got <= 0)
        fail("connection lost: %s", got ? strerror(errno) : "closed");
    member->filled += (size_t)got;
    size_t length = member->filled < 4 ? 0 : load(member->buffer, 4) + 4;
    return member->filled < length ? 0 : length;
}

/* Waits for replies until the next request is due, and handles both. */
static void step(void)
{
    uint64_t next = UINT64_MAX, now = now_ns();
    for (int i = 0; i < run.count; i++) {
        struct member *member = &run.members[i];
        if (member->due <= now && !member->api_key)
            act(member);
        if (member->due < next)
            next = member->due;
    }
    uint64_t wait = next > now ? next - now : 0, patience = (uint64_t)(run.options->timeout * 1e9);
    if (wait > patience)
        wait = patience;
    struct timespec timeout = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};
    struct epoll_event events[256];
    int ready = epoll_pwait2(run.poller, events, 256, &timeout, NULL);
    if (ready < 0 || (!ready && wait == patience))
        fail("no reply for %.0f s, %d of %d groups are stable", run.options->timeout, run.groups_stable,
             run.count / run.per_group);
    for (int i = 0; i < ready; i++) {
        struct member *member = events[i].data.ptr;
        size_t length = receive(member, MSG_DONTWAIT);
        if (length) {            /* never more than one: a member asks one thing at a time */
            member->filled = 0;
            answered(member, member->buffer + 4, length - 4);
        }
    }
}

static void wait_for_reply(struct member *member)
{
    while (!receive(member, 0))
        ;
    member->filled = 0;
    member->api_key = 0;
}

/* The broker's topic of offsets may have to be made first. */
static void wait_for_coordinator(struct member *member)
{
    for (uint64_t since = now_ns();; usleep(RETRY_MS * 1000)) {
        struct writer request = start_request(FIND_COORDINATOR, 0, 0);
        put_string(&request, member->group->id);
        ask(member, &request);
        wait_for_reply(member);
        int error = (int)load(member->buffer + 8, 2);
        if (!error)
            break;
        if (!is_passing(error) || (double)(now_ns() - since) / 1e9 > run.options->timeout)
            fail("FindCoordinator: error %d", error);
    }
    member->due = 0;
}

static void open_members(void)
{
    run.groups = calloc((size_t)(run.count / run.per_group), sizeof *run.groups);
    run.members = calloc((size_t)run.count, sizeof *run.members);
    run.poller = epoll_create1(0);
    for (int i = 0; i < run.count; i++) {
        struct member *member = &run.members[i];
        member->group = &run.groups[i / run.per_group];
        member->number = i % run.per_group;
        snprintf(member->group->id, sizeof member->group->id, "%s-%d", run.options->topic, i / run.per_group);
        if (run.consumer)
            snprintf(member->id, sizeof member->id, "member-%d", i);
        member->socket = connect_to(run.options);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = member};
        if (epoll_ctl(run.poller, EPOLL_CTL_ADD, member->socket, &event))
            fail("epoll: %s", strerror(errno));
        if (i % AT_ONCE == 0)
            wait_for_coordinator(member);
    }
}

/* So that no session expires while something else is measured. */
static void leave(struct member *member)
{
    if (member->api_key)
        wait_for_reply(member);
    if (run.consumer) {
        consumer_heartbeat(member, -1);
    } else {
        struct writer request = start_request(LEAVE_GROUP, 1, 0);
        put_string(&request, member->group->id);
        put_string(&request, member->id);
        ask(member, &request);
    }
}

static void run_commits(void)
{
    const struct options *options = run.options;
    double cpu = broker_cpu(options);
    uint64_t start = now_ns();
    run.committing = 1;
    run.commits_end = start + (uint64_t)(options->seconds * 1e9);
    run.interval = options->rate > 0 ? (uint64_t)(run.count / options->rate * 1e9) : 0;
    for (int i = 0; i < run.count; i++) {
        if (run.members[i].api_key)
            wait_for_reply(&run.members[i]);
        run.members[i].due = start + run.interval * (uint64_t)i / (uint64_t)run.count;
    }
    while (run.done < run.count)
        step();
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("{\"mode\":\"raw-commits\",\"requests\":%ld,\"errors\":%ld,\"first_error\":%ld,\"seconds\":%.6f,"
           "\"broker_cpu\":%.6f", run.commits, run.errors, run.first_error, seconds, broker_cpu(options) - cpu);
    print_percentiles(&run.latencies);
}

void run_groups(const struct options *options)
{
    int commits = !strcmp(options->mode, "raw-commits");
    run.options = options;
    run.consumer = !strcmp(options->protocol, "consumer");
    if (!run.consumer && strcmp(options->protocol, "classic"))
        fail("--protocol: classic or consumer, not %s", options->protocol);
    if (run.consumer && commits)
        fail("raw-commits knows the classic protocol only");
    if (options->partitions < options->members)
        fail("%d members want as many partitions", options->members);
    run.per_group = commits ? 1 : options->members;
    int groups = commits ? options->connections : options->groups;
    run.count = groups * run.per_group;
    open_members();
    double cpu = broker_cpu(options);
    uint64_t start = now_ns();
    while (run.groups_stable < groups)
        step();
    if (commits)
        run_commits();
    else
        printf("{\"mode\":\"raw-groups\",\"groups\":%d,\"members\":%d,\"joins\":%d,\"seconds\":%.6f,\"broker_cpu\":%.6f",
               groups, run.per_group, run.joins, (double)(now_ns() - start) / 1e9, broker_cpu(options) - cpu);
    print_cpu();
    puts("}");
    for (int i = 0; i < run.count; i++)
        leave(&run.members[i]);
    for (int i = 0; i < run.count; i++)
        wait_for_reply(&run.members[i]);
}
