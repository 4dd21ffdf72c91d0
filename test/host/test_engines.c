/* Copy engines on the twin: set-up and its faults, calls in a row, ranks out of step, calls that others serve. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/engine/engine.h"
#include "mca/common/base/log.h"
#include "mca/common/team/parts.h"
#include "test/host/elements.h"
#include "test/host/faulty_gpu.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

/* Seconds within which a call ends on a busy machine, well or not. */
#define SLACK 20.0

static int refusals; /* lines that say that engines do not serve */

static void log_sink(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    (void)level;
    if (strstr(line, "copy engines are not used") != NULL) {
        __atomic_add_fetch(&refusals, 1, __ATOMIC_RELAXED);
    }
}

static void configure(mscclpp_config_t *config, int blocks, int threads)
{
    mscclpp_config_init(config);
    config->algorithm = "engines";
    config->engine_chunk = 1024;
    config->twin_blocks = blocks;
    config->twin_threads = threads;
    config->scratch_size = (size_t)1 << 20;
    config->timeout = 60;
    config->warn_after = 0;
    config->ucx = false;
}

static bool is_engines(const traffic_t *traffic)
{
    return strcmp(mscclpp_team_last_algorithm(traffic->team), "engines") == 0;
}

/* One fault of the runtime on one rank, in the first call of a team. */
typedef struct {
    faulty_function_t function;
    int nth;
    int culprit;
    bool happened;
    mscclpp_status_t called[RANKS_MAX];
    double seconds[RANKS_MAX];
    const char *algorithm[RANKS_MAX];
} injection_t;

static void inject(rank_t *rank)
{
    injection_t *injection = rank->argument;
    const bool culprit = rank->rank == injection->culprit;
    double started;
    traffic_t traffic;
    bool right = false;

    rank->gpu = &faulty_gpu_ops;
    traffic_open(&traffic, create_team(rank), 20000, USER_DEVICE);
    meet(rank);
    started = mscclpp_now();
    if (culprit) {
        faulty_arm(injection->function, injection->nth, MSCCLPP_ERR_DEVICE);
    }
    injection->called[rank->rank] = traffic_call(&traffic, 15000, &right);
    injection->seconds[rank->rank] = mscclpp_now() - started;
    if (culprit) {
        injection->happened = faulty_disarm();
    }
    if (injection->called[rank->rank] == MSCCLPP_OK) {
        CHECK(right);
    }
    injection->algorithm[rank->rank] = mscclpp_team_last_algorithm(traffic.team);
    if (!meet_any(rank, injection->called[rank->rank] != MSCCLPP_OK)) {
        CHECK_EQ(traffic_call(&traffic, 16000, &right), MSCCLPP_OK);
        CHECK(right);
    }
    meet(rank);
    traffic_close(&traffic);
}

/* True if all ranks ended alike, in time, and with the status that the fault must have. */
static bool ended_well(const injection_t *injection, int ranks, int refused)
{
    const mscclpp_status_t *called = injection->called;
    const bool good = called[injection->culprit] == MSCCLPP_OK;
    bool well = injection->happened || (good && strcmp(injection->algorithm[0], "engines") == 0);
    int rank;

    for (rank = 0; rank < ranks; ++rank) {
        well = well && injection->seconds[rank] < SLACK;
        if (good) {
            well =
                well && called[rank] == MSCCLPP_OK && strcmp(injection->algorithm[rank], injection->algorithm[0]) == 0;
        } else if (rank == injection->culprit) {
            well = well && called[rank] == MSCCLPP_ERR_DEVICE;
        } else {
            /* A rank that needs nothing more from the culprit has its result. */
            well = well && (called[rank] == MSCCLPP_ERR_PEER || called[rank] == MSCCLPP_OK);
        }
    }
    /* Without memory there are no engines, but another algorithm serves. */
    if (injection->happened &&
        (injection->function == FAULTY_DEVICE_ALLOC || injection->function == FAULTY_EVENT_CREATE)) {
        well = well && good && strcmp(injection->algorithm[0], "zerocopy") == 0 && refused == ranks;
    }
    return well;
}

/*
 * If the set-up of the engines fails, all ranks alike go on without engines, and lose nothing else. A later fault ends
 * the call.
 */
static void test_faults(int ranks)
{
    int function, nth, reached = 0, cured = 0;

    for (function = 0; function < FAULTY_LAST; ++function) {
        bool more = true;

        for (nth = 1; more && nth < 80; ++nth) {
            mscclpp_config_t config;
            injection_t injection;
            bool well;

            configure(&config, 1, 2);
            memset(&injection, 0, sizeof(injection));
            injection.function = (faulty_function_t)function;
            injection.nth = nth;
            injection.culprit = 1;
            refusals = 0;
            CHECK_EQ(run_ranks(ranks, &config, inject, &injection), 0);
            well = ended_well(&injection, ranks, refusals);
            CHECK(well);
            mscclpp_team_finalize(1.0);
            CHECK_EQ(faulty_held(), 0);
            if (!well) {
                fprintf(stderr, "    call %d of %s on rank 1 of %d: statuses %d %d %d, algorithm %s\n", nth,
                        faulty_name((faulty_function_t)function), ranks, (int)injection.called[0],
                        (int)injection.called[1], (int)injection.called[2], injection.algorithm[0]);
            }
            more = well && injection.happened;
            reached += injection.happened;
            cured += injection.happened && injection.called[0] == MSCCLPP_OK && injection.called[1] == MSCCLPP_OK;
        }
    }
    printf("%d faults in the first call of %d ranks; %d took away the engines only\n", reached, ranks, cured);
    /* Events, memory, export, the peers' memory, the copies of the trial. */
    CHECK(cured >= (ranks - 1) * (MSCCLPP_DEV_ENGINE_DEPTH + 1) + 2 + (ranks - 1) + ranks);
    CHECK(reached > cured);
}

/* Many calls of many chunks, each rank at its own pace. */
static void run_many(rank_t *rank)
{
    const int calls = *(const int *)rank->argument;
    uint64_t shared = 77, own = random_mix(5, (uint64_t)rank->rank);
    traffic_t traffic;
    int i;

    traffic_open(&traffic, create_team(rank), 100000, USER_DEVICE);
    for (i = 0; i < calls; ++i) {
        const uint64_t count = 1 + random_below(&shared, random_below(&shared, 8) == 0 ? 100000 : 5000);
        bool right = false;

        if (random_below(&own, 10) == 0) {
            nanosleep(&(struct timespec){.tv_nsec = (long)random_below(&own, 2000000)}, NULL);
        }
        if (traffic_call(&traffic, count, &right) != MSCCLPP_OK || !right || !is_engines(&traffic)) {
            ++rank->failures;
        }
        /* This holds whether or not the rank had a chunk to reduce. */
        if (traffic.team->runner.hold_count != 0) {
            fprintf(stderr, "    call %d of %llu numbers leaves %d mappings held\n", i, (unsigned long long)count,
                    traffic.team->runner.hold_count);
            ++rank->failures;
        }
        if (meet_any(rank, rank->failures != 0)) {
            break;
        }
    }
    traffic_close(&traffic);
}

static void test_many_calls(int calls)
{
    static const int grids[][2] = {{1, 1}, {2, 2}};
    mscclpp_config_t config;
    size_t i;
    int ranks;

    for (i = 0; i < sizeof(grids) / sizeof(grids[0]); ++i) {
        for (ranks = 2; ranks <= 4; ++ranks) {
            configure(&config, grids[i][0], grids[i][1]);
            config.engine_chunk = 256;
            CHECK_EQ(run_ranks(ranks, &config, run_many, &calls), 0);
        }
    }
    mscclpp_team_finalize(1.0);
}

/* Calls that engines do not serve: queued calls, and calls of teams that have no room for engines. */
static void run_leftovers(rank_t *rank)
{
    mscclpp_gpu_stream_t *stream = NULL;
    traffic_t traffic;
    bool right = false;

    CHECK_EQ(rank->gpu->stream_create(0, &stream), MSCCLPP_OK);
    traffic_open(&traffic, create_team(rank), 2000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 1000, &right), MSCCLPP_OK);
    CHECK(right && is_engines(&traffic));
    meet(rank);
    CHECK_EQ(traffic_enqueue(&traffic, 1000, stream), MSCCLPP_OK);
    CHECK_EQ(rank->gpu->stream_sync(stream), MSCCLPP_OK);
    CHECK(traffic_verify(&traffic, 1000));
    CHECK_TEXT(mscclpp_team_last_algorithm(traffic.team), "zerocopy");
    meet(rank);
    CHECK_EQ(traffic_call(&traffic, 2000, &right), MSCCLPP_OK);
    CHECK(right && is_engines(&traffic));
    meet(rank);
    traffic_close(&traffic);
    rank->gpu->stream_destroy(stream);
}

static void run_without(rank_t *rank)
{
    traffic_t traffic;
    bool right = false;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 3000, &right), MSCCLPP_OK);
    CHECK(right);
    CHECK_TEXT(mscclpp_team_last_algorithm(traffic.team), "zerocopy");
    traffic_close(&traffic);
}

/* Small calls go by packets. Larger calls go by engines if their buffers can be mapped, and else as without engines. */
static void run_chosen(rank_t *rank)
{
    const user_kind_t kind = *(const user_kind_t *)rank->argument;
    traffic_t traffic;
    int i;

    traffic_open(&traffic, create_team(rank), 5000, kind);
    for (i = 0; i < 6; ++i) {
        bool right = false;

        CHECK_EQ(traffic_call(&traffic, i % 2 != 0 ? 5000 : 100, &right), MSCCLPP_OK);
        CHECK(right);
        CHECK_TEXT(mscclpp_team_last_algorithm(traffic.team), i % 2 == 0            ? "oneshot"
                                                              : kind == USER_DEVICE ? "engines"
                                                                                    : "oneshot_put");
        meet(rank);
    }
    traffic_close(&traffic);
}

static void test_chosen(void)
{
    user_kind_t kind;
    mscclpp_config_t config;
    int ranks;

    for (ranks = 2; ranks <= 3; ++ranks) {
        for (kind = USER_EXACT; kind <= USER_DEVICE; ++kind) {
            configure(&config, 1, 2);
            config.algorithm = "auto";
            config.oneshot_max = 2048;
            config.engine_min = 1;
            config.put_max = (size_t)1 << 20;
            CHECK_EQ(run_ranks(ranks, &config, run_chosen, &kind), 0);
        }
    }
    mscclpp_team_finalize(1.0);
}

static void test_leftovers(void)
{
    mscclpp_config_t config;

    configure(&config, 1, 1);
    config.engine_chunk = 128;
    CHECK_EQ(run_ranks(2, &config, run_leftovers, NULL), 0);
    config.engine_scratch = 0;
    CHECK_EQ(run_ranks(2, &config, run_without, NULL), 0);
    /* Room for one slot less than there have to be. */
    config.engine_scratch = MSCCLPP_DEV_ENGINE_SLOTS + (size_t)128 * 2 * MSCCLPP_DEV_ENGINE_DEPTH - 1;
    CHECK_EQ(run_ranks(3, &config, run_without, NULL), 0);
    mscclpp_team_finalize(1.0);
}

int main(int argc, char **argv)
{
    process_state_t before, after;

    unit_begin();
    alarm(900);
    mscclpp_log_set(log_sink, NULL, MSCCLPP_LOG_INFO);
    mscclpp_gpu_twin_set_filter(user_is_host);
    test_leftovers();
    test_chosen();
    /* Everything that is made once has been made. */
    process_state_read(&before);
    test_many_calls(process_state_slow() ? 60 : process_state_calls(300));
    if (argc < 2 || strcmp(argv[1], "--calls") != 0) {
        test_faults(3);
    }
    process_state_read(&after);
    CHECK_EQ(after.descriptors, before.descriptors);
    CHECK_EQ(after.threads, before.threads);
    return unit_end();
}
