/* Lingering kernels on the twin: ranks ring or launch, and come too early or too late. All results are right. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/types/linger.h"
#include "mca/common/base/clock.h"
#include "mca/common/run/linger.h"
#include "test/host/elements.h"
#include "test/host/faulty_gpu.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define MAX_COUNT 40000u
#define TEAMS 3

/* A storm ends after this time, however many calls are left. With --long it has very many calls. */
#define STORM_SECONDS 200.0

/* Calls between two looks at the clock. */
#define LOOK_CALLS 1000

static parts_options_t options;

typedef struct {
    int blocks;
    int threads;
    double window; /* microseconds, as all times here */
    double idle;
    unsigned gap;       /* sleeps of up to so long between calls; 0: none */
    unsigned gap_every; /* one in so many calls */
    bool alone;         /* ranks do not send one another's kernels away */
    int calls;
} plan_t;

/* If true, blocks form no clusters, so that their relay lies in device memory. */
static bool flat;

/* What the ranks of one run saw together. */
static uint64_t all_rings;
static uint64_t all_calls;

static void configure(mscclpp_config_t *config, const plan_t *plan)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->oneshot_max = 2048;
    config->twophase_max = 16384;
    config->twin_blocks = plan->blocks;
    config->twin_threads = plan->threads;
    config->timeout = options.timeout;
    config->ucx = false;
    config->linger = "on";
    config->linger_window = plan->window;
    config->linger_idle = plan->idle;
    config->linger_max = 8192;
    config->linger_cluster = !flat;
}

/* Most calls are for one block. Some are for all blocks, some in two phases, and some for kernels that never linger. */
static uint64_t draw_count(uint64_t *state)
{
    switch (random_below(state, 16)) {
    case 0:
        return random_below(state, MAX_COUNT);
    case 1:
    case 2:
        return 512 + random_below(state, 1536);
    case 3:
    case 4:
    case 5:
        return 65 + random_below(state, 400);
    default:
        return 1 + random_below(state, 64);
    }
}

static void call_on(rank_t *rank, traffic_t *traffic, int i, uint64_t count)
{
    bool right = false;
    mscclpp_status_t status = traffic_call(traffic, count, &right);

    if (status != MSCCLPP_OK || !right) {
        fprintf(stderr, "    rank %d, call %d, %llu numbers, %s: %s\n", rank->rank, i, (unsigned long long)count,
                mscclpp_team_last_algorithm(traffic->team), mscclpp_status_string(status));
        ++rank->failures;
    }
}

/* True once the time is up, on all ranks alike. Ranks ask after each call. */
static bool is_over(rank_t *rank, int calls, double started)
{
    return calls % LOOK_CALLS == 0 && meet_any(rank, mscclpp_now() - started > STORM_SECONDS);
}

static void storm(rank_t *rank)
{
    const plan_t *plan = rank->argument;
    uint64_t shared = 11, own = (uint64_t)rank->rank + 5;
    traffic_t traffic[TEAMS];
    int i, t, teams = plan->alone ? 1 : TEAMS;
    const double started = mscclpp_now();

    for (t = 0; t < teams; ++t) {
        traffic_open(&traffic[t], create_team(rank), MAX_COUNT, t == 0 ? USER_DEVICE : USER_EXACT);
    }
    for (i = 0; i < plan->calls && rank->failures == 0; ++i) {
        traffic_t *one = &traffic[random_below(&shared, 8) == 0 ? random_below(&shared, (uint64_t)teams) : 0];

        if (plan->gap != 0 && random_below(&own, plan->gap_every) == 0) {
            jitter_sleep(&own, plan->gap);
        }
        call_on(rank, one, i, draw_count(&shared));
        if (is_over(rank, i + 1, started)) {
            break;
        }
    }
    __atomic_fetch_add(&all_rings, mscclpp_team_lingered(traffic[0].team), __ATOMIC_RELAXED);
    __atomic_fetch_add(&all_calls, (uint64_t)i, __ATOMIC_RELAXED);
    for (t = 0; t < teams; ++t) {
        traffic_close(&traffic[t]);
    }
}

/* Returns the share of calls that were served by ringing. */
static double run_storm(int ranks, const plan_t *plan)
{
    mscclpp_config_t config;

    configure(&config, plan);
    all_rings = all_calls = 0;
    mscclpp_linger_share_devices(plan->alone);
    CHECK_EQ(run_ranks(ranks, &config, storm, (void *)(uintptr_t)plan), 0);
    mscclpp_linger_share_devices(false);
    mscclpp_team_finalize(1.0);
    printf("%d ranks, %d x %d%s, gaps to %u us: %llu of %llu calls without a launch\n", ranks, plan->blocks,
           plan->threads, flat || plan->blocks == 1 ? "" : " in a cluster", plan->gap, (unsigned long long)all_rings,
           (unsigned long long)all_calls);
    return all_calls == 0 ? 0 : (double)all_rings / (double)all_calls;
}

#define SET_COUNT 6000u /* numbers in each buffer of a set */

typedef struct {
    int sets; /* buffers that the calls go through in turn */
    int calls;
    uint64_t rings;
} sets_t;

/* Zero-copy calls, with a small one now and then. */
static void storm_sets(rank_t *rank)
{
    sets_t *plan = rank->argument;
    uint64_t shared = 23;
    traffic_t traffic;
    int32_t *in, *out;
    int i;

    traffic_open(&traffic, create_team(rank), MAX_COUNT, USER_DEVICE);
    in = traffic.in;
    out = traffic.out;
    for (i = 0; i < plan->calls && rank->failures == 0; ++i) {
        const size_t first = (size_t)(i % plan->sets) * SET_COUNT;

        traffic.in = in + first;
        traffic.out = out + first;
        call_on(rank, &traffic, i,
                i % 7 == 6 ? 1 + random_below(&shared, 100) : SET_COUNT - random_below(&shared, SET_COUNT / 2));
    }
    __atomic_fetch_add(&plan->rings, mscclpp_team_lingered(traffic.team), __ATOMIC_RELAXED);
    traffic_close(&traffic);
}

static double run_sets(int ranks, const plan_t *shape, bool puts, int sets, int calls)
{
    sets_t plan = {sets, calls, 0};
    mscclpp_config_t config;

    configure(&config, shape);
    config.twophase_max = 4096;
    config.put_max = puts ? (size_t)1 << 20 : 0;
    config.linger_max = (size_t)1 << 20;
    mscclpp_linger_share_devices(true);
    CHECK_EQ(run_ranks(ranks, &config, storm_sets, &plan), 0);
    mscclpp_linger_share_devices(false);
    mscclpp_team_finalize(1.0);
    printf("%d ranks, %d buffers in turn%s: %llu of %d calls without a launch\n", ranks, sets, puts ? ", puts" : "",
           (unsigned long long)plan.rings, ranks * calls);
    return (double)plan.rings / (double)(ranks * calls);
}

/* Ringing serves zero-copy calls if the kernel knows their buffers, and puts always: they need no peer's buffers. */
static void test_sets(int scale)
{
    const plan_t one = {1, 1, 1e6, 1e6, 0, 1, true, 0};
    const plan_t wide = {3, 2, 1e6, 1e6, 0, 1, true, 0};

    CHECK(run_sets(2, &one, false, 1, 100 * scale) > 0.5);
    CHECK(run_sets(2, &one, false, MSCCLPP_DEV_LINGER_SETS, 100 * scale) > 0.5);
    CHECK(run_sets(3, &wide, false, 3, 60 * scale) > 0.5);
    CHECK(run_sets(2, &wide, false, MSCCLPP_DEV_LINGER_SETS + 2, 60 * scale) < 0.3);
    CHECK(run_sets(2, &one, true, MSCCLPP_DEV_LINGER_SETS + 2, 100 * scale) > 0.5);
    CHECK(run_sets(3, &wide, true, MSCCLPP_DEV_LINGER_SETS + 2, 60 * scale) > 0.5);
}

/* Kernels that hardly ever leave by themselves serve nearly all small calls. */
static void test_rings(int scale)
{
    const plan_t one = {1, 1, 1e6, 1e6, 0, 1, true, 300 * scale};
    const plan_t two = {1, 2, 1e6, 1e6, 0, 1, true, 200 * scale};
    const plan_t wide = {3, 2, 1e6, 1e6, 0, 1, true, 150 * scale};
    /* Other threads than the first one take words of the relay. */
    const plan_t deep = {2, 4, 1e6, 1e6, 0, 1, true, 20 * scale};
    const plan_t period = {2, 1, 1e6, 1e6, 0, 1, true, 12 * MSCCLPP_DEV_LINGER_PERIOD * scale};
    int i;

    CHECK(run_storm(2, &one) > 0.5);
    CHECK(run_storm(3, &two) > 0.5);
    run_storm(2, &deep);
    for (i = 0; i < 2; ++i) {
        flat = i == 1;
        CHECK(run_storm(2, &wide) > 0.2); /* calls for one block and for all follow one another */
        jitter_set(20, 500);
        CHECK(run_storm(3, &wide) > 0.2);
        /* Kernels often leave right after an operation, when some of their blocks have not begun it yet. */
        run_storm(2, &period);
        jitter_set(0, 0);
    }
    flat = false;
}

/* Calls come just as kernels leave, so ringing serves some of them and launches serve the others. */
static void test_race(int scale)
{
    const unsigned slow = process_state_slow() ? 4 : 1;
    const plan_t idle = {1, 1, 1e6, 1500 * slow, 2400 * slow, 1, true, 150 * scale};
    const plan_t window = {1, 2, 2000 * slow, 1e6, 400 * slow, 2, true, 300 * scale};
    const plan_t wide = {2, 2, 3000 * slow, 500 * slow, 1000 * slow, 2, true, 200 * scale};
    double share;

    share = run_storm(2, &idle);
    CHECK(share > 0 && share < 1);
    share = run_storm(2, &window);
    CHECK(share > 0 && share < 1);
    share = run_storm(3, &wide);
    CHECK(share < 1);
    flat = true;
    share = run_storm(3, &wide);
    CHECK(share < 1);
    flat = false;
}

/* Teams and ranks send one another's kernels away all the time. */
static void test_dismissals(int scale)
{
    const plan_t narrow = {1, 1, 1e6, 1e6, 0, 1, false, 300 * scale};
    const plan_t wide = {2, 2, 1e6, 1e6, 300, 4, false, 100 * scale};

    run_storm(2, &narrow);
    run_storm(3, &wide);
    flat = true;
    run_storm(3, &wide);
    flat = false;
}

/* Kernels leave in long gaps between calls, at the latest when they get a processor. */
static void leave_gaps(rank_t *rank)
{
    struct timespec gap = {0, 20000000};
    traffic_t traffic;
    int i;

    traffic_open(&traffic, create_team(rank), MAX_COUNT, USER_DEVICE);
    for (i = 0; i < 8; ++i) {
        nanosleep(&gap, NULL);
        call_on(rank, &traffic, i, 10);
    }
    meet(rank);
    for (i = 0; i < 40; ++i) {
        call_on(rank, &traffic, i, 10);
    }
    /* Calls that follow closely are served without launches again. */
    rank->failures += mscclpp_team_lingered(traffic.team) == 0;
    traffic_close(&traffic);
}

static void test_gaps(int scale)
{
    const plan_t plan = {1, 1, 1e6, 10000, 0, 1, true, 0};
    mscclpp_config_t config;

    (void)scale;
    configure(&config, &plan);
    mscclpp_linger_share_devices(true);
    CHECK_EQ(run_ranks(2, &config, leave_gaps, NULL), 0);
    mscclpp_linger_share_devices(false);
    mscclpp_team_finalize(1.0);
}

/* The last rank stays away from a call that the others ring for. */
static void stay_away(rank_t *rank)
{
    bool right = false;
    traffic_t traffic;
    int i;

    traffic_open(&traffic, create_team(rank), MAX_COUNT, USER_DEVICE);
    for (i = 0; i < 20; ++i) {
        call_on(rank, &traffic, i, 10);
    }
    if (rank->rank != rank->size - 1) {
        mscclpp_status_t status = traffic_call(&traffic, 10, &right);

        rank->failures += status != MSCCLPP_ERR_TIMEOUT && status != MSCCLPP_ERR_PEER;
    }
    meet(rank);
    traffic_close(&traffic);
}

static void test_absence(int scale)
{
    const plan_t plan = {2, 1, 1e6, 1e6, 0, 1, true, 0};
    mscclpp_config_t config;

    (void)scale;
    configure(&config, &plan);
    config.timeout = process_state_slow() ? 2 : 0.5;
    mscclpp_linger_share_devices(true);
    unit_expect_log();
    CHECK_EQ(run_ranks(3, &config, stay_away, NULL), 0);
    CHECK(unit_logged() > 0);
    mscclpp_linger_share_devices(false);
    mscclpp_team_finalize(1.0);
}

/* Very many calls, with gaps around the idle time and the window: with --long a million, if there is time. */
static void test_long(int scale)
{
    const unsigned slow = process_state_slow() ? 8 : 1;
    const plan_t idle = {1, 1, 1e6, 600 * slow, 1000 * slow, 4, true, (int)(10000 / slow) * scale};
    const plan_t window = {2, 1, 1000 * slow, 1e6, 60 * slow, 4, true, (int)(2500 / slow) * scale};
    double share;

    share = run_storm(2, &idle);
    CHECK(share > 0 && share < 1);
    share = run_storm(2, &window);
    CHECK(share > 0 && share < 1);
}

#define THREADS 2

/* Two communicators of one process, each called by its own thread. Both want to be the device's owner. */
typedef struct {
    const plan_t *plan;
    const mscclpp_config_t *config;
    pthread_barrier_t *ready;
    int failures;
} pair_t;

static void storm_beside(rank_t *rank)
{
    const plan_t *plan = ((pair_t *)rank->argument)->plan;
    uint64_t shared = 3, own = (uint64_t)rank->rank + 17;
    traffic_t traffic;
    int i, stay;

    while (rank->failures == 0) {
        /* Teams come and go while the other thread sends their kernels away. */
        traffic_open(&traffic, create_team(rank), MAX_COUNT, USER_DEVICE);
        for (i = 0; i < plan->calls && rank->failures == 0; ++i) {
            if (random_below(&own, plan->gap_every) == 0) {
                jitter_sleep(&own, plan->gap);
            }
            call_on(rank, &traffic, i, draw_count(&shared));
        }
        __atomic_fetch_add(&all_rings, mscclpp_team_lingered(traffic.team), __ATOMIC_RELAXED);
        __atomic_fetch_add(&all_calls, (uint64_t)i, __ATOMIC_RELAXED);
        traffic_close(&traffic);
        stay = random_below(&shared, 4) != 0;
        if (!stay) {
            break;
        }
    }
}

static void *run_beside(void *argument)
{
    pair_t *pair = argument;

    pthread_barrier_wait(pair->ready);
    pair->failures = run_ranks(2, pair->config, storm_beside, pair);
    return NULL;
}

static void test_threads(int scale)
{
    const plan_t narrow = {1, 1, 1e6, 1e6, 100, 8, false, 40 * scale};
    const plan_t wide = {2, 2, 1e6, 500, 100, 8, false, 25 * scale};
    const plan_t *plans[] = {&narrow, &wide};
    pthread_barrier_t ready;
    size_t p;
    int i;

    pthread_barrier_init(&ready, NULL, THREADS);
    for (p = 0; p < sizeof(plans) / sizeof(plans[0]); ++p) {
        mscclpp_config_t config;
        pthread_t threads[THREADS];
        pair_t pairs[THREADS];

        configure(&config, plans[p]);
        all_rings = all_calls = 0;
        for (i = 0; i < THREADS; ++i) {
            pairs[i] = (pair_t){plans[p], &config, &ready, 0};
            CHECK_EQ(pthread_create(&threads[i], NULL, run_beside, &pairs[i]), 0);
        }
        for (i = 0; i < THREADS; ++i) {
            pthread_join(threads[i], NULL);
            CHECK_EQ(pairs[i].failures, 0);
        }
        printf("%d threads, each with 2 ranks, %d x %d: %llu of %llu calls without a launch\n", THREADS,
               plans[p]->blocks, plans[p]->threads, (unsigned long long)all_rings, (unsigned long long)all_calls);
    }
    pthread_barrier_destroy(&ready);
    mscclpp_team_finalize(1.0);
}

/* The launch of a kernel that was to linger fails. Its team breaks and ends, so no one may send its kernel away. */
static void fail_launch(rank_t *rank)
{
    int round, i;

    rank->gpu = &faulty_gpu_ops;
    for (round = 0; round < 4 && rank->failures == 0; ++round) {
        bool right = false;
        traffic_t broken, whole;
        mscclpp_status_t status;

        traffic_open(&broken, create_team(rank), MAX_COUNT, USER_DEVICE);
        for (i = 0; i < 5 * round; ++i) {
            call_on(rank, &broken, i, 10);
        }
        meet(rank); /* else a rank may hear of the failure before it has looked at the last of these */
        /* A call that is rung for needs no launch, so the fault takes a while. */
        if (rank->rank == 0 || round % 2 == 0) {
            faulty_arm(FAULTY_LAUNCH, 1, MSCCLPP_ERR_DEVICE);
        }
        for (i = 0, status = MSCCLPP_OK; i < 1000 && status == MSCCLPP_OK; ++i) {
            status = traffic_call(&broken, 10, &right);
        }
        rank->failures += status == MSCCLPP_OK;
        (void)faulty_disarm();
        meet(rank);
        traffic_close(&broken);
        traffic_open(&whole, create_team(rank), MAX_COUNT, USER_DEVICE);
        for (i = 0; i < 20; ++i) {
            call_on(rank, &whole, i, 10);
        }
        traffic_close(&whole);
    }
}

static void test_failures(int scale)
{
    const plan_t plan = {2, 1, 1e6, 1e6, 0, 1, false, 0};
    mscclpp_config_t config;

    (void)scale;
    configure(&config, &plan);
    unit_expect_log();
    CHECK_EQ(run_ranks(2, &config, fail_launch, NULL), 0);
    CHECK(unit_logged() > 0);
    mscclpp_team_finalize(1.0);
}

static const part_t parts[] = {
    {"rings", test_rings},
    {"race", test_race},
    {"dismissals", test_dismissals},
    {"long", test_long},
    {"gaps", test_gaps},
    {"absence", test_absence},
    {"threads", test_threads},
    {"failures", test_failures},
    {"sets", test_sets},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
