/* Many calls and many teams: sequences that single calls do not cover, with ranks that fall behind at random. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/ctrl/ctrl.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define MAX_COUNT 150000u
#define TEAMS 5

static parts_options_t options;

/* A configuration in which sizes up to MAX_COUNT reach every algorithm. */
static void configure(mscclpp_config_t *config, int blocks, int threads, size_t epoch_limit)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->oneshot_max = 2048;
    config->twophase_max = 16384;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->epoch_limit = epoch_limit;
    config->timeout = options.timeout;
    config->ucx = false;
}

/* Draws a size, equal on all ranks. Most sizes are small, so that there are many calls. */
static uint64_t draw_count(uint64_t *state)
{
    switch (random_below(state, 32)) {
    case 0:
        return random_below(state, MAX_COUNT);
    case 1:
    case 2:
    case 3:
        return random_below(state, 20000);
    case 4:
        return 0;
    default:
        return 1 + random_below(state, 600);
    }
}

typedef struct {
    int calls;
    unsigned delay_us;     /* the longest delay before a call */
    const char *algorithm; /* NULL: the selector's choice */
    user_kind_t kind;
    uint64_t max_count; /* 0: any */
    int ranks_per_node; /* 0: all ranks are on one node */
    bool by_turns;      /* small calls over several nodes take each of their algorithms */
} storm_t;

/* Calls back to back in one team. Which ranks are late changes from call to call. */
static void storm(rank_t *rank)
{
    const storm_t *plan = rank->argument;
    const mscclpp_config_t *shared_config = rank->config;
    const int calls = process_state_calls(plan->calls);
    mscclpp_config_t config = *shared_config;
    uint64_t shared = 42, own = (uint64_t)rank->rank + 1;
    traffic_t traffic;
    int i;

    /* Each rank may choose for itself whether its kernels store packets for other nodes themselves. */
    config.exchange_stores = rank->rank % 2 == 0;
    rank->config = &config;
    traffic_open(&traffic, create_team(rank), MAX_COUNT, plan->kind);
    for (i = 0; i < calls && traffic.team != NULL; ++i) {
        uint64_t count = draw_count(&shared);
        bool right = false;
        mscclpp_status_t status;

        if (plan->max_count != 0) {
            count %= plan->max_count + 1;
        }
        if (plan->delay_us != 0 && random_below(&own, 4) == 0) {
            jitter_sleep(&own, plan->delay_us);
        }
        status = traffic_call(&traffic, count, &right);
        CHECK_EQ(status, MSCCLPP_OK);
        CHECK(right);
        if (status != MSCCLPP_OK || !right) {
            fprintf(stderr, "    rank %d, call %d, %llu numbers, %s\n", rank->rank, i, (unsigned long long)count,
                    mscclpp_team_last_algorithm(traffic.team));
            break;
        }
    }
    traffic_close(&traffic);
    rank->config = shared_config;
}

static void run_storm(int ranks, int blocks, int threads, size_t epoch_limit, const storm_t *plan)
{
    mscclpp_config_t config;

    configure(&config, blocks, threads, epoch_limit);
    if (plan->algorithm != NULL) {
        config.algorithm = plan->algorithm;
    }
    config.ranks_per_node = plan->ranks_per_node;
    config.transport = plan->ranks_per_node != 0 ? "shm" : "auto";
    config.nodes_packets_max = plan->by_turns ? 400 : 8192;
    config.nodes_split_min = plan->by_turns ? 1000 : 100000;
    config.nodes_ring_min = plan->by_turns ? 1600 : 300000;
    config.exchange_size = 65536;
    /* Over several nodes, kernels of several threads linger and serve the next calls with some of their blocks. */
    if (plan->ranks_per_node != 0 && threads > 1) {
        config.linger = "on";
        config.linger_idle = config.linger_window = 1e6;
    }
    CHECK_EQ(run_ranks(ranks, &config, storm, (void *)(uintptr_t)plan), 0);
    mscclpp_team_finalize(1.0);
}

static void test_back_to_back(int scale)
{
    const size_t never = (size_t)1 << 31;
    const storm_t quick = {300 * scale, 0, NULL, USER_DEVICE, 0, 0, false},
                  late = {120 * scale, 2000, NULL, USER_DEVICE, 0, 0, false};
    const storm_t plain = {150 * scale, 200, NULL, USER_EXACT, 0, 0, false};

    run_storm(2, 1, 1, never, &quick);
    run_storm(3, 1, 2, never, &quick);
    run_storm(4, 2, 2, never, &plain);
    run_storm(5, 1, 1, never, &late);
    jitter_set(20, 1000);
    run_storm(3, 1, 1, never, &late);
    run_storm(3, 2, 3, never, &plain);
    jitter_set(0, 0);
}

/* Small packets only, kernels back to back: packets that one epoch leaves meet the epoch after the next. */
static void test_packets(int scale)
{
    static const char *const algorithms[] = {"oneshot", "twophase"};
    const size_t never = (size_t)1 << 31;
    int i;

    jitter_set(30, 1500);
    for (i = 0; i < 2; ++i) {
        const storm_t small = {150 * scale, 0, algorithms[i], USER_DEVICE, 40, 0, false};
        const storm_t long_ones = {40 * scale, 0, algorithms[i], USER_DEVICE, 0, 0, false};

        run_storm(3, 1, 1, never, &small);
        run_storm(4, 1, 3, never, &small);
        run_storm(3, 1, 2, never, &long_ones);
    }
    jitter_set(0, 0);
}

static void test_renewal(int scale)
{
    const storm_t plan = {100 * scale, 100, NULL, USER_DEVICE, 0, 0, false};

    run_storm(2, 1, 1, 16, &plan);
    run_storm(3, 2, 2, 16, &plan);
    run_storm(3, 1, 1, 37, &plan);
}

/*
 * Over several nodes: packets right after packets, packets and signals by turns, and flags that begin again. There is
 * little room for messages, so that calls take many exchanges.
 */
static void test_nodes(int scale)
{
    static const char *const algorithms[] = {"nodes_packets", "nodes_doubling", "nodes",       "nodes_split",
                                             "nodes_ring",    "nodes_halving",  "nodes_trees", NULL};
    const size_t never = (size_t)1 << 31;
    size_t i;

    for (i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); ++i) {
        /* So many calls that flags begin again where epoch_limit is smallest. */
        const int calls = (algorithms[i] == NULL || i == 0 ? 60 : 40) * scale;
        const storm_t alone = {calls, 0, algorithms[i], USER_DEVICE, 1000, 1, false};
        const storm_t pairs = {calls, 0, algorithms[i], USER_EXACT, 0, 2, false};
        const storm_t late = {calls, 1000, algorithms[i], USER_DEVICE, 9000, 2, false};
        /* Calls so short that not all blocks take part in each. */
        const storm_t brief = {calls, 0, algorithms[i], USER_DEVICE, 24, 1, false};

        run_storm(2, 1, 1, never, &alone);
        run_storm(2, 3, 2, never, &brief);
        run_storm(3, 2, 2, never, &alone);
        run_storm(5, 1, 2, 16, &late);
        jitter_set(30, 1500);
        run_storm(3, 1, 3, never, &alone);
        run_storm(4, 2, 2, 37, &pairs);
        run_storm(5, 1, 1, never, &late);
        jitter_set(0, 0);
    }
}

/*
 * The algorithms by turns. Each finds what the others leave behind: places that are used again, and signals that were
 * counted. Nodes of a ring get few messages from most other nodes.
 */
static void test_turns(int scale)
{
    const size_t never = (size_t)1 << 31;
    const storm_t alone = {60 * scale, 0, NULL, USER_DEVICE, 0, 1, true};
    const storm_t pairs = {60 * scale, 1000, NULL, USER_EXACT, 0, 2, true};

    run_storm(2, 1, 1, never, &alone);
    run_storm(4, 2, 2, never, &alone);
    run_storm(5, 1, 1, 37, &alone);
    jitter_set(30, 1500);
    run_storm(4, 1, 2, never, &alone);
    run_storm(7, 1, 2, 37, &pairs);
    jitter_set(0, 0);
}

/* One rank's teams, which live side by side. */
typedef struct {
    traffic_t traffic[TEAMS];
    mscclpp_gpu_stream_t *stream[TEAMS];
} teams_t;

static void open_teams(rank_t *rank, teams_t *teams)
{
    int i;

    for (i = 0; i < TEAMS; ++i) {
        traffic_open(&teams->traffic[i], create_team(rank), MAX_COUNT, i % 2 == 0 ? USER_DEVICE : USER_EXACT);
        CHECK_EQ(mscclpp_gpu_twin_ops.stream_create(0, &teams->stream[i]), MSCCLPP_OK);
    }
}

static void close_teams(teams_t *teams)
{
    int i;

    for (i = 0; i < TEAMS; ++i) {
        mscclpp_gpu_twin_ops.stream_destroy(teams->stream[i]);
        traffic_close(&teams->traffic[i]);
    }
}

/* Blocking calls of several teams. Their order changes all the time and is equal on all ranks. */
static void interleave(rank_t *rank)
{
    const int *calls = rank->argument;
    uint64_t shared = 7;
    teams_t teams;
    int i;

    open_teams(rank, &teams);
    for (i = 0; i < *calls && rank->failures == 0; ++i) {
        traffic_t *traffic = &teams.traffic[random_below(&shared, TEAMS)];
        bool right = false;

        CHECK_EQ(traffic_call(traffic, draw_count(&shared), &right), MSCCLPP_OK);
        CHECK(right);
        if (!right) {
            break;
        }
    }
    close_teams(&teams);
}

/*
 * Calls of several teams in flight at once. Each rank queues them in its own order. Several calls of one team follow
 * each other in its stream. Sizes are those of the packet algorithms, which need no other rank's host.
 */
static void enqueue_in_any_order(rank_t *rank)
{
    const int *rounds = rank->argument;
    uint64_t shared = 11, own = (uint64_t)rank->rank * 31 + 5;
    teams_t teams;
    int i, k;

    open_teams(rank, &teams);
    for (i = 0; i < *rounds && rank->failures == 0; ++i) {
        uint64_t count[TEAMS];
        int order[TEAMS], burst = 1 + (int)random_below(&shared, 4);
        bool right = true;

        for (k = 0; k < TEAMS; ++k) {
            int other = (int)random_below(&own, (uint64_t)k + 1);

            count[k] = 1 + random_below(&shared, 4000);
            order[k] = k;
            order[k] = order[other];
            order[other] = k;
        }
        for (k = 0; k < TEAMS * burst; ++k) {
            int team = order[k % TEAMS];

            /* Each call of a burst writes the buffers of the call before, whose kernels must have ended. */
            if (k >= TEAMS) {
                CHECK_EQ(mscclpp_gpu_twin_ops.stream_sync(teams.stream[team]), MSCCLPP_OK);
            }
            CHECK_EQ(traffic_enqueue(&teams.traffic[team], count[team], teams.stream[team]), MSCCLPP_OK);
        }
        for (k = 0; k < TEAMS; ++k) {
            CHECK_EQ(mscclpp_gpu_twin_ops.stream_sync(teams.stream[k]), MSCCLPP_OK);
            right = traffic_verify(&teams.traffic[k], count[k]) && right;
        }
        CHECK(right);
        if (!right) {
            break;
        }
    }
    close_teams(&teams);
}

static void test_teams(int scale)
{
    mscclpp_config_t config;
    int calls = process_state_calls(150 * scale), rounds = process_state_calls(20 * scale);

    configure(&config, 1, 1, (size_t)1 << 31);
    CHECK_EQ(run_ranks(3, &config, interleave, &calls), 0);
    configure(&config, 1, 2, (size_t)1 << 31);
    CHECK_EQ(run_ranks(3, &config, enqueue_in_any_order, &rounds), 0);
    configure(&config, 1, 2, 16);
    CHECK_EQ(run_ranks(3, &config, interleave, &calls), 0);
    mscclpp_team_finalize(1.0);
}

static void *world_main(void *argument)
{
    const int *number = argument;
    const storm_t plan = {*number / 100 * 40, 100, NULL, *number % 2 == 0 ? USER_DEVICE : USER_EXACT, 0, 0, false};
    mscclpp_config_t config;

    configure(&config, 1 + *number % 2, 1 + *number % 3, *number % 4 == 3 ? 16 : (size_t)1 << 31);
    CHECK_EQ(run_ranks(2 + *number % 2, &config, storm, (void *)(uintptr_t)&plan), 0);
    return NULL;
}

/* Teams that share nothing but the process, its streams and its cache of mappings. */
static void test_parallel_worlds(int scale)
{
    int numbers[4];
    pthread_t threads[4];
    int i;

    for (i = 0; i < 4; ++i) {
        numbers[i] = scale * 100 + i;
        REQUIRE(pthread_create(&threads[i], NULL, world_main, &numbers[i]) == 0);
    }
    for (i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    mscclpp_team_finalize(1.0);
}

/* Creates, uses once and destroys; every other time while a second team is alive. */
static void come_and_go(rank_t *rank)
{
    const int *teams = rank->argument;
    mscclpp_team_t *second = NULL;
    int32_t in[8] = {0, 1, 2, 3, 4, 5, 6, 7}, out[8];
    int i, k;

    for (i = 0; i < *teams && rank->failures == 0; ++i) {
        mscclpp_team_t *team = create_team(rank);
        const mscclpp_allreduce_args_t args = {
            .sendbuf = in, .recvbuf = out, .count = 8, .dtype = MSCCLPP_DTYPE_INT32, .op = MSCCLPP_OP_SUM, .call = 1};

        if (team == NULL) {
            break;
        }
        CHECK_EQ(mscclpp_allreduce(team, &args), MSCCLPP_OK);
        for (k = 0; k < 8 && out[k] == k * rank->size; ++k) {
        }
        CHECK_EQ(k, 8);
        if (i % 2 == 0) {
            mscclpp_team_destroy(second);
            second = team;
        } else {
            mscclpp_team_destroy(team);
        }
    }
    mscclpp_team_destroy(second);
}

static void run_come_and_go(int teams)
{
    mscclpp_config_t config;

    configure(&config, 1, 1, (size_t)1 << 31);
    CHECK_EQ(run_ranks(2, &config, come_and_go, &teams), 0);
    configure(&config, 1, 2, (size_t)1 << 31);
    CHECK_EQ(run_ranks(2, &config, come_and_go, &teams), 0);
    mscclpp_team_finalize(1.0);
    mscclpp_ctrl_finalize();
}

static void test_nothing_is_left(int teams)
{
    process_state_t before, after;

    run_come_and_go(50);
    process_state_read(&before);
    run_come_and_go(teams / 2);
    process_state_read(&after);
    printf("%d teams: descriptors %d to %d, mappings %d to %d, threads %d to %d, resident %ld to %ld KiB\n", teams,
           before.descriptors, after.descriptors, before.mappings, after.mappings, before.threads, after.threads,
           before.resident / 1024, after.resident / 1024);
    CHECK_EQ(after.descriptors, before.descriptors);
    CHECK_EQ(after.threads, before.threads);
    if (!process_state_sanitized()) {
        /* The C library keeps a few stacks of ended threads, and arenas for new ones. */
        CHECK(after.mappings <= before.mappings + 8);
        CHECK(after.resident <= before.resident + (1 << 20));
    }
}

static void test_leaks(int scale)
{
    (void)scale;
    test_nothing_is_left(process_state_slow() ? 200 : 2000);
}

static const part_t parts[] = {
    {"leaks", test_leaks}, {"calls", test_back_to_back}, {"packets", test_packets}, {"renewal", test_renewal},
    {"nodes", test_nodes}, {"turns", test_turns},        {"teams", test_teams},     {"worlds", test_parallel_worlds},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    unit_allowed = "whose value all ranks use"; /* the test gives ranks different parameters */
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
