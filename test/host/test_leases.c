/*
 * Scratch for large messages, which the teams of a process take over from one another (mca/common/team/lease.h). Ranks
 * are threads of one process here, so even the ranks of one team compete for the chunks.
 *
 * Usage: test_leases [--long] [--timeout SECONDS] [PART]...
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mca/common/task/collective.h"
#include "mca/common/team/lease.h"
#include "test/host/jitter.h"
#include "test/host/log_record.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define SCRATCH_SIZE ((size_t)2 << 20)
#define LARGE 20000u
#define SMALL 60u
#define TEAMS 24 /* of one world, which makes them live at the same time */
#define WORLDS 3
#define PAIRS 3 /* teams of each of several worlds */

static parts_options_t options;
static mscclpp_gpu_ops_t counting;
static int64_t large_held, large_max, large_made; /* chunks of device memory */
static int64_t copied;                            /* bytes, by copies of streams */

static int per_node;                /* ranks of a node; 0: one node has all */
static __thread bool has_no_memory; /* this rank's thread gets no chunk */

/*
 * A chunk has three halves of packets, the bulk area, the put area, and what counts. Over several nodes it has no put
 * area.
 */
static bool is_chunk(size_t size)
{
    return size > (per_node == 0 ? 2 : 1) * SCRATCH_SIZE;
}

static struct {
    void *address;
} known[256];

static mscclpp_status_t count_alloc(int device, size_t size, void **address_p)
{
    const mscclpp_status_t status = has_no_memory && is_chunk(size)
                                        ? MSCCLPP_ERR_NO_MEMORY
                                        : mscclpp_gpu_twin_ops.device_alloc(device, size, address_p);
    size_t i;

    if (status != MSCCLPP_OK || !is_chunk(size)) {
        return status;
    }
    for (i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        void *none = NULL;

        if (__atomic_compare_exchange_n(&known[i].address, &none, *address_p, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            break;
        }
    }
    (void)__atomic_add_fetch(&large_made, 1, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&large_held, 1, __ATOMIC_RELAXED) > __atomic_load_n(&large_max, __ATOMIC_RELAXED)) {
        __atomic_store_n(&large_max, __atomic_load_n(&large_held, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
    return status;
}

static void count_free(int device, void *address)
{
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]) && address != NULL; ++i) {
        void *mine = address;

        if (__atomic_compare_exchange_n(&known[i].address, &mine, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            (void)__atomic_sub_fetch(&large_held, 1, __ATOMIC_RELAXED);
            break;
        }
    }
    mscclpp_gpu_twin_ops.device_free(device, address);
}

static mscclpp_status_t count_copy(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    (void)__atomic_add_fetch(&copied, (int64_t)size, __ATOMIC_RELAXED);
    return mscclpp_gpu_twin_ops.copy(stream, to, from, size);
}

static void begin(void)
{
    counting = mscclpp_gpu_twin_ops;
    counting.device_alloc = count_alloc;
    counting.device_free = count_free;
    counting.copy = count_copy;
    large_held = large_max = large_made = copied = 0;
}

static void configure(mscclpp_config_t *config, const char *algorithm, size_t epoch_limit)
{
    mscclpp_config_init(config);
    config->scratch_size = SCRATCH_SIZE;
    config->zerocopy = false; /* then large messages go through the scratch */
    config->algorithm = algorithm;
    config->epoch_limit = epoch_limit != 0 ? epoch_limit : config->epoch_limit;
    config->twin_blocks = 2;
    config->twin_threads = 1;
    config->timeout = options.timeout;
    config->warn_after = 0;
    config->ucx = false;
    config->ranks_per_node = per_node;
    config->transport = "shm";
    config->exchange_size = SCRATCH_SIZE;
}

static bool call(rank_t *rank, traffic_t *traffic, uint64_t count)
{
    bool right = false;
    const mscclpp_status_t status = traffic_call(traffic, count, &right);

    rank->failures += status != MSCCLPP_OK || !right;
    return status == MSCCLPP_OK && right;
}

/* An all-gather of up to `count` numbers in all; over several nodes, small ones go as packets and others by tiles. */
static bool gather(rank_t *rank, traffic_t *traffic, uint64_t count)
{
    const uint64_t each = count / (uint64_t)rank->size;
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_ALLGATHER,
                                      .in = traffic->in,
                                      .out = traffic->out,
                                      .count = each,
                                      .dtype = MSCCLPP_DTYPE_INT32,
                                      .is_size_known = true,
                                      .call = ++traffic->call};
    bool right = true;
    uint64_t i;

    for (i = 0; i < each; ++i) {
        traffic->in[i] = (int32_t)((uint64_t)rank->rank * each + i + traffic->call);
    }
    right = mscclpp_collective(traffic->team, &args) == MSCCLPP_OK;
    for (i = 0; i < each * (uint64_t)rank->size && right; ++i) {
        right = traffic->out[i] == (int32_t)(i + traffic->call);
    }
    CHECK(right);
    rank->failures += !right;
    return right;
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Many communicators of the same ranks, of which each sends large messages now and then. */
static void use_many(rank_t *rank)
{
    static const uint64_t counts[] = {LARGE, SMALL, LARGE / 7, 1, LARGE / 2, LARGE};
    traffic_t traffic[TEAMS];
    uint64_t common = 1;
    int i, k;

    rank->gpu = &counting;
    for (i = 0; i < TEAMS; ++i) {
        traffic_open(&traffic[i], create_team(rank), LARGE, USER_DEVICE);
    }
    for (i = 0; i < TEAMS && rank->failures == 0; ++i) {
        (void)call(rank, &traffic[i], LARGE);
    }
    for (k = 0; k < 60 * options.scale && rank->failures == 0; ++k) {
        const uint64_t team = draw(&common) % TEAMS, times = 1 + draw(&common) % 3;
        const uint64_t count = counts[draw(&common) % (sizeof(counts) / sizeof(counts[0]))];
        uint64_t i_call;

        for (i_call = 0; i_call < times && rank->failures == 0; ++i_call) {
            if (per_node != 0 && times == 2) {
                (void)gather(rank, &traffic[team], count);
            } else {
                (void)call(rank, &traffic[team], count > times ? count - i_call : count);
            }
        }
    }
    meet_any(rank, false);
    for (i = 0; i < TEAMS; ++i) {
        traffic_close(&traffic[i]);
    }
}

/* `ranks` ranks with memory for a few communicators only; all is given back. */
static void test_many_of(int ranks, const char *algorithm, size_t epoch_limit)
{
    mscclpp_config_t config;

    begin();
    configure(&config, algorithm, epoch_limit);
    CHECK_EQ(run_ranks(ranks, &config, use_many, NULL), 0);
    mscclpp_team_finalize(1.0);
    printf("%d ranks, %s: %d chunks at most for %d communicators\n", ranks, algorithm, (int)large_max, ranks * TEAMS);
    /*
     * A rank may be in the next call while others are in the last one, and holds the chunks of both. Over several nodes
     * calls take longer, and a rank that looks at one chunk after another may find one more in use.
     */
    CHECK(large_max >= ranks && large_max <= MSCCLPP_LEASE_CHUNKS + (per_node == 0 ? 2 : 3) * ranks);
    CHECK_EQ(large_held, 0);
}

static void test_many(int scale)
{
    (void)scale;
    test_many_of(2, "auto", 0);
    test_many_of(3, "auto", 0);
}

/* Packets that other teams have left in a chunk, also when flags begin again. */
static void test_packets(int scale)
{
    (void)scale;
    test_many_of(2, "twophase", 0);
    test_many_of(2, "oneshot", 40);
    test_many_of(3, "twophase", 24);
    test_many_of(2, "oneshot_put", 0);
}

/* Some communicators of each of several worlds, whose ranks call at any time. */
static void use_some(rank_t *rank)
{
    const int *number = rank->argument;
    uint64_t common = (uint64_t)*number + 7, own = common * 100 + (uint64_t)rank->rank;
    traffic_t traffic[PAIRS];
    uint64_t count;
    int i, k;

    rank->gpu = &counting;
    for (i = 0; i < PAIRS; ++i) {
        traffic_open(&traffic[i], create_team(rank), LARGE, USER_DEVICE);
    }
    for (k = 0; k < 60 * options.scale && rank->failures == 0; ++k) {
        jitter_sleep(&own, 200);
        i = (int)(draw(&common) % PAIRS);
        count = draw(&common) % 3 == 0 ? SMALL : LARGE / (per_node == 0 ? 1 : 1 + k % 8) - draw(&common) % 100;
        if (per_node != 0 && draw(&common) % 2 == 0) {
            (void)gather(rank, &traffic[i], count);
        } else {
            (void)call(rank, &traffic[i], count);
        }
        /* One of them ends now and then, and another begins. */
        if (k % 20 == 19) {
            traffic_close(&traffic[i]);
            traffic_open(&traffic[i], create_team(rank), LARGE, USER_DEVICE);
        }
    }
    meet_any(rank, false);
    for (i = 0; i < PAIRS; ++i) {
        traffic_close(&traffic[i]);
    }
}

static const char *linger, *algorithm_of_all;

static void *world_main(void *argument)
{
    const int *number = argument;
    mscclpp_config_t config;

    configure(&config, algorithm_of_all, 0);
    config.linger = linger;
    config.linger_window = 3000;
    CHECK_EQ(run_ranks((per_node == 0 ? 2 : 2 * per_node) + *number % 2, &config, use_some, argument), 0);
    return NULL;
}

/* Threads of one process that call in different communicators at the same time. */
static void run_worlds(const char *algorithm, const char *lingers)
{
    pthread_t threads[WORLDS];
    int numbers[WORLDS], i;

    begin();
    algorithm_of_all = algorithm;
    linger = lingers;
    jitter_set(5, 300);
    for (i = 0; i < WORLDS; ++i) {
        numbers[i] = i;
        REQUIRE(pthread_create(&threads[i], NULL, world_main, &numbers[i]) == 0);
    }
    for (i = 0; i < WORLDS; ++i) {
        pthread_join(threads[i], NULL);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
    printf("%d worlds, %s, linger %s: %d chunks at most, of %d made\n", WORLDS, algorithm, lingers, (int)large_max,
           (int)large_made);
    CHECK_EQ(large_held, 0);
}

static void test_together(int scale)
{
    (void)scale;
    run_worlds("auto", "off");
    run_worlds("twophase", "on");
}

/* Over several nodes. Other worlds take the chunks of some nodes while other nodes still have theirs. */
static void test_nodes(int scale)
{
    (void)scale;
    per_node = 1;
    test_many_of(2, "auto", 0);
    test_many_of(3, "auto", 40);
    run_worlds("auto", "off");
    per_node = 2;
    test_many_of(4, "auto", 24);
    test_many_of(5, "nodes_packets", 60);
    run_worlds("nodes_packets", "off");
    run_worlds("auto", "on");
    per_node = 0;
}

/*
 * A team has lost its chunks to another one, which keeps them for good. One rank gets no other chunk, so the call fails
 * on all ranks, of all nodes, and so does the next one. The other team goes on.
 */
static void use_refused(rank_t *rank)
{
    const bool refused = rank->rank == 1;
    traffic_t loser, winner;
    bool right;

    rank->gpu = &counting;
    traffic_open(&loser, create_team(rank), LARGE, USER_DEVICE);
    traffic_open(&winner, create_team(rank), LARGE, USER_DEVICE);
    (void)call(rank, &loser, LARGE);
    meet_any(rank, false);
    (void)call(rank, &winner, LARGE);
    mscclpp_lease_retire(winner.team);
    meet_any(rank, false);
    (void)call(rank, &loser, SMALL); /* learns of the loss, and needs no chunk */
    CHECK(loser.team->has_lost);
    has_no_memory = refused;
    CHECK_EQ(traffic_call(&loser, LARGE, &right), refused ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_PEER);
    has_no_memory = false;
    CHECK(traffic_call(&loser, SMALL, &right) != MSCCLPP_OK);
    (void)call(rank, &winner, LARGE);
    meet_any(rank, false);
    traffic_close(&loser);
    traffic_close(&winner);
}

/* More communicators than there are chunks. Each takes one, in which it leaves packets with several flags. */
static void take_over(rank_t *rank)
{
    traffic_t traffic[MSCCLPP_LEASE_CHUNKS + 1];
    const int count = MSCCLPP_LEASE_CHUNKS + 1;
    int64_t before = 0;
    int i, k;

    rank->gpu = &counting;
    for (i = 0; i < count; ++i) {
        traffic_open(&traffic[i], create_team(rank), LARGE, USER_DEVICE);
        CHECK_EQ(traffic[i].team->runner.layout.put_size == 0, per_node != 0);
        meet_any(rank, false);
        before = __atomic_load_n(&copied, __ATOMIC_RELAXED);
        meet_any(rank, false);
        (void)call(rank, &traffic[i], LARGE);
        meet_any(rank, false);
        CHECK(traffic[i].team->full_size == 0);
        for (k = 0; k < 3; ++k) {
            (void)call(rank, &traffic[i], SMALL);
        }
        CHECK(__atomic_load_n(&copied, __ATOMIC_RELAXED) - before < (int64_t)SCRATCH_SIZE / 4);
        meet_any(rank, false);
    }
    for (i = 0; i < count; ++i) {
        (void)call(rank, &traffic[i], LARGE);
        (void)call(rank, &traffic[i], SMALL);
    }
    meet_any(rank, false);
    for (i = 0; i < count; ++i) {
        traffic_close(&traffic[i]);
    }
}

/* Whoever takes over a chunk at its first large message clears no packets there, also over several nodes. */
static void test_growth(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    for (per_node = 1; per_node >= 0; --per_node) {
        begin();
        configure(&config, "auto", 0);
        CHECK_EQ(run_ranks(2, &config, take_over, NULL), 0);
        mscclpp_team_finalize(1.0);
        printf("2 ranks, nodes of %d: %lld bytes copied in all\n", per_node, (long long)copied);
    }
    per_node = 0;
}

#define MANY_NODES 32
#define MORE (MSCCLPP_LEASE_CHUNKS + 2)
#define PACKETS 512u /* 2 KiB, in packets */

/* More communicators than the process lends chunks to, each of which has one call. */
static void use_briefly(rank_t *rank)
{
    traffic_t traffic[MORE];
    int i;

    rank->gpu = &counting;
    for (i = 0; i < MORE; ++i) {
        traffic_open(&traffic[i], create_team(rank), PACKETS, USER_DEVICE);
        (void)call(rank, &traffic[i], PACKETS);
        CHECK(traffic[i].team->full_size != 0);
    }
    meet_any(rank, false);
    for (i = 0; i < MORE; ++i) {
        traffic_close(&traffic[i]);
    }
}

/* What only packets between nodes carry needs no larger scratch, however many ranks other nodes have. */
static void test_small(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    per_node = 1;
    begin();
    configure(&config, "nodes_doubling", 0);
    CHECK_EQ(run_ranks(MANY_NODES, &config, use_briefly, NULL), 0);
    mscclpp_team_finalize(1.0);
    per_node = 0;
}

/* Whoever has no memory names itself, in the one line about this call, and all memory is given back. */
static void test_refused(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    per_node = 2;
    begin();
    configure(&config, "auto", 0);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(run_ranks(MSCCLPP_LEASE_CHUNKS, &config, use_refused, NULL), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "rank 1: no ", "of scratch in place of those"), 1);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "failed in an earlier call", ""), MSCCLPP_LEASE_CHUNKS);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 1 + MSCCLPP_LEASE_CHUNKS);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "", ""), 0);
    if (unit_failed != 0) {
        fprintf(stderr, "logged:\n%s", log_record_text());
    }
    CHECK_EQ(large_held, 0);
    per_node = 0;
}

/* Large messages from buffer to buffer, by an all-reduce and by a broadcast. */
static void use_mapped(rank_t *rank)
{
    mscclpp_coll_args_t bcast = {
        .coll = MSCCLPP_COLL_BCAST, .count = LARGE, .dtype = MSCCLPP_DTYPE_INT32, .is_size_known = true, .call = 2};
    traffic_t traffic;

    rank->gpu = &counting;
    traffic_open(&traffic, create_team(rank), LARGE, USER_DEVICE);
    (void)call(rank, &traffic, LARGE);
    traffic.out[LARGE - 1] = rank->rank == 0 ? 5 : 6;
    bcast.in = rank->rank == 0 ? traffic.out : NULL;
    bcast.out = rank->rank == 0 ? NULL : traffic.out;
    CHECK_EQ(mscclpp_collective(traffic.team, &bcast), MSCCLPP_OK);
    CHECK_EQ(traffic.out[LARGE - 1], 5);
    CHECK(strcmp(mscclpp_team_last_algorithm(traffic.team), "zerocopy") == 0);
    meet_any(rank, false);
    CHECK(traffic.team->full_size != 0);
    traffic_close(&traffic);
}

/* They need no larger scratch. */
static void test_mapped(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    begin();
    configure(&config, "auto", 0);
    config.zerocopy = true;
    CHECK_EQ(run_ranks(3, &config, use_mapped, NULL), 0);
    mscclpp_team_finalize(1.0);
    CHECK_EQ(large_made, 0);
}

static const part_t parts[] = {
    {"many", test_many},         {"packets", test_packets}, {"nodes", test_nodes},
    {"together", test_together}, {"mapped", test_mapped},   {"refused", test_refused},
    {"small", test_small},       {"growth", test_growth},   {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    mscclpp_linger_share_devices(true);
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
