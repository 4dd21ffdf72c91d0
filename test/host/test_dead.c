/*
 * Ranks that fall silent for good, also after they have come to a call and wait in it. All calls end soon after a
 * deadline from then on, and one rank alone names the silent one. And ranks that live, but are slow, which no other
 * rank may take for silent. Ranks are threads.
 *
 * Usage: test_dead [TEST]..., by their names in main; all of them by default.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/setup/setup.h"
#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "test/host/jitter.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

/* Bytes of a block of an all-gather. */
#define GATHERED 20000

/* Times are in seconds from the beginning of the call. */
typedef struct {
    const char *name;
    int ranks;
    int per_node; /* 0: all on one node */
    int silent;   /* this rank comes, and falls silent at `silent_at` while it waits; -1: none */
    double silent_at;
    int slow; /* this rank comes at `slow_at` */
    double slow_at;
    int worker; /* this rank works so long between two waits of the call; -1: none */
    double works;
    double timeout;
    double most_seconds; /* of any rank's call; 0: it must end well */
} plan_t;

/* What the ranks of a test have seen. */
typedef struct {
    const plan_t *plan;
    double started;
    int has_begun; /* the call of the plan: before it, no rank is silent or works */
    int released;  /* all others' calls have ended, so the silent rank may go on */
    int ended;     /* number of ranks whose calls have ended */
    mscclpp_status_t status[RANKS_MAX];
    double seconds[RANKS_MAX];
} outcome_t;

static outcome_t outcome;
static mscclpp_gpu_ops_t working_ops;             /* the twin's, but for the worker */
static mscclpp_admission_t admissions[RANKS_MAX]; /* each rank is a thread here; this is what it has as a process */
static __thread int own_rank;

static bool has_begun(void)
{
    return __atomic_load_n(&outcome.has_begun, __ATOMIC_ACQUIRE) != 0;
}

/* The progress of a rank, which is where the silent one stops. */
static void progress(void *context)
{
    (void)context;
    sched_yield();
    while (own_rank == outcome.plan->silent && has_begun() &&
           mscclpp_now() - outcome.started > outcome.plan->silent_at &&
           !__atomic_load_n(&outcome.released, __ATOMIC_ACQUIRE)) {
        (void)usleep(1000);
    }
}

/* The launch of a kernel, which is where the worker takes its time. */
static mscclpp_status_t launch_late(mscclpp_gpu_stream_t *stream, const mscclpp_dev_launch_t *launch)
{
    if (own_rank == outcome.plan->worker && has_begun()) {
        (void)usleep((useconds_t)(1e6 * outcome.plan->works));
    }
    return mscclpp_gpu_twin_ops.launch(stream, launch);
}

/* An early all-gather: ranks meet before the kernels begin, so that each call waits twice. */
static mscclpp_status_t gather(const rank_t *rank, mscclpp_team_t *team, uint64_t call)
{
    static char in[GATHERED], out[16][16 * GATHERED];
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_ALLGATHER,
                                      .in = in,
                                      .out = out[rank->rank],
                                      .is_size_known = true,
                                      .count = GATHERED,
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .early = true,
                                      .call = call};

    return mscclpp_collective(team, &args);
}

static void gather_slowly(rank_t *rank)
{
    const plan_t *plan = outcome.plan;
    mscclpp_team_t *team;

    own_rank = rank->rank;
    rank->oob.progress = progress;
    rank->admission = &admissions[rank->rank];
    rank->gpu = &working_ops;
    team = create_team(rank);
    CHECK_EQ(gather(rank, team, 1), MSCCLPP_OK);
    meet(rank);
    if (rank->rank == 0) {
        outcome.started = mscclpp_now();
        __atomic_store_n(&outcome.has_begun, 1, __ATOMIC_RELEASE);
    }
    meet(rank);
    if (rank->rank == plan->slow) {
        (void)usleep((useconds_t)(1e6 * plan->slow_at));
    }
    outcome.status[rank->rank] = gather(rank, team, 2);
    outcome.seconds[rank->rank] = mscclpp_now() - outcome.started;
    if (rank->rank != plan->silent && __atomic_add_fetch(&outcome.ended, 1, __ATOMIC_ACQ_REL) == plan->ranks - 1) {
        __atomic_store_n(&outcome.released, 1, __ATOMIC_RELEASE);
    }
    meet(rank);
    mscclpp_team_destroy(team);
}

/* Checks that the call has failed on every rank, and that one line names the silent rank. */
static void check_failure(const plan_t *plan)
{
    double longest = 0;
    int rank, timeouts = 0;
    char late[64];

    for (rank = 0; rank < plan->ranks; ++rank) {
        if (rank == plan->silent) {
            continue;
        }
        timeouts += outcome.status[rank] == MSCCLPP_ERR_TIMEOUT;
        longest = outcome.seconds[rank] > longest ? outcome.seconds[rank] : longest;
        CHECK(outcome.status[rank] == MSCCLPP_ERR_TIMEOUT || outcome.status[rank] == MSCCLPP_ERR_PEER);
    }
    printf("%s: errors after up to %.1f s, %.1f s after the rank fell silent, with a deadline of %g s\n", plan->name,
           longest, longest - plan->silent_at, plan->timeout);
    snprintf(late, sizeof(late), "have not arrived: %d;", plan->silent);
    CHECK(timeouts >= 1);
    CHECK(longest < plan->most_seconds);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, late, "did not end on rank"), 1);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 1);
}

static void begin(const plan_t *plan, mscclpp_config_t *config)
{
    int rank;

    mscclpp_config_init(config);
    config->twin_blocks = config->twin_threads = 1;
    config->scratch_size = (size_t)1 << 20;
    config->ucx = false;
    config->transport = "shm";
    config->linger = "off";
    config->ranks_per_node = plan->per_node;
    config->timeout = plan->timeout;
    config->warn_after = 0.5;
    memset(&outcome, 0, sizeof(outcome));
    outcome.plan = plan;
    log_record_clear();
    for (rank = 0; rank < plan->ranks; ++rank) {
        memset(&admissions[rank], 0, sizeof(admissions[rank]));
        mscclpp_admission_init(&admissions[rank]);
    }
}

/* Prints what was logged if a check has failed since there were `failed_before` failures. */
static void end(const plan_t *plan, int failed_before)
{
    mscclpp_team_finalize(1.0);
    if (__atomic_load_n(&unit_failed, __ATOMIC_RELAXED) != failed_before) {
        fprintf(stderr, "%s: logged:\n%s", plan->name, log_record_text());
    }
}

static void test_plan(const plan_t *plan)
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;
    int rank;

    begin(plan, &config);
    config.allgather_algorithm = plan->per_node > 0 ? "nodes_ring" : "auto";
    CHECK_EQ(run_ranks(plan->ranks, &config, gather_slowly, NULL), 0);
    if (plan->most_seconds > 0) {
        check_failure(plan);
    }
    for (rank = 0; rank < plan->ranks && plan->most_seconds <= 0; ++rank) {
        CHECK_EQ(outcome.status[rank], MSCCLPP_OK);
    }
    end(plan, failed_before);
}

/* A team is taken over, and a rank comes late to the first call of the next communicator. */
static void take_over(rank_t *rank)
{
    traffic_t traffic;
    bool right = false;

    rank->reuse = true;
    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    meet(rank);
    (void)usleep(rank->rank == outcome.plan->slow ? 200000 : 0); /* so that the others really wait */
    CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_OK);
    meet(rank);
    traffic_close(&traffic);
    (void)usleep((useconds_t)(1e6 * (outcome.plan->timeout + 0.5)));
    meet(rank);
    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK(traffic.team->group.calls_before > 0); /* it is the same team */
    meet(rank);
    (void)usleep(rank->rank == outcome.plan->slow ? (useconds_t)(1e6 * outcome.plan->slow_at) : 0);
    outcome.status[rank->rank] = traffic_call(&traffic, 10, &right);
    meet(rank);
    traffic_close(&traffic);
}

static void test_taken_over(const plan_t *plan)
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;
    int rank;

    begin(plan, &config);
    CHECK_EQ(run_ranks(plan->ranks, &config, take_over, NULL), 0);
    for (rank = 0; rank < plan->ranks; ++rank) {
        CHECK_EQ(outcome.status[rank], MSCCLPP_OK);
    }
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 0);
    end(plan, failed_before);
}

/* Seconds between two looks of the rank in a fiber, and after which the test ends a call that does not end by itself.
 */
#define LOOK_EVERY 1.3
#define GIVE_UP 25.0

typedef struct {
    traffic_t *traffic;
    mscclpp_status_t status;
} fiber_call_t;

static void call_in_fiber(void *argument)
{
    fiber_call_t *call = argument;
    bool right;

    call->status = traffic_call(call->traffic, 10, &right);
}

/* A rank calls MPI less than once a second while it waits for one that never comes. */
static void look_rarely(rank_t *rank)
{
    traffic_t traffic;
    bool right = false;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_OK);
    meet(rank);
    if (rank->rank == 0) {
        fiber_call_t call = {.traffic = &traffic};
        mscclpp_fiber_t *fiber = mscclpp_fiber_create(call_in_fiber, &call);
        const double started = mscclpp_now();
        bool has_given_up = false;

        while (!mscclpp_fiber_resume(fiber)) {
            (void)usleep((useconds_t)(1e6 * LOOK_EVERY));
            if (!has_given_up && mscclpp_now() - started > GIVE_UP) {
                has_given_up = true;
                revoke_all(rank);
            }
        }
        outcome.status[0] = call.status;
        outcome.seconds[0] = mscclpp_now() - started;
    }
    meet(rank);
    traffic_close(&traffic);
}

static void test_rare_looks(const plan_t *plan)
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;

    begin(plan, &config);
    CHECK_EQ(run_ranks(plan->ranks, &config, look_rarely, NULL), 0);
    CHECK_EQ(outcome.status[0], MSCCLPP_ERR_TIMEOUT);
    printf("%s: an error after %.1f s\n", plan->name, outcome.seconds[0]);
    CHECK(outcome.seconds[0] > plan->timeout && outcome.seconds[0] < plan->most_seconds);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "have not arrived: 1;", "did not end on rank"), 1);
    end(plan, failed_before);
}

/* Rank 1 waits for so many seconds, and rank 0 so often for so long. */
#define WAITED 1.8
#define WAITS 3
#define EACH_WAITED 3.5

/* Waits for nothing, for some seconds. */
static mscclpp_status_t wait_for(mscclpp_group_t *group, double seconds)
{
    const double until = mscclpp_now() + seconds;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait;

    mscclpp_group_wait_init(&wait, group, "nothing", 0);
    while (status == MSCCLPP_OK && mscclpp_now() < until) {
        status = mscclpp_group_wait_turn(&wait);
    }
    mscclpp_group_wait_end(&wait);
    return status;
}

typedef struct {
    mscclpp_group_t *group;
    double until; /* the application goes on without this fiber from then on */
} away_t;

static void wait_away(void *argument)
{
    away_t *away = argument;

    CHECK_EQ(wait_for(away->group, WAITED + 0.5), MSCCLPP_OK);
}

/*
 * Rank 0 waits longer than a deadline in all, in waits that are shorter each. Rank 1 has waited in the call, and then
 * works, or its application is away. Both are alive, and rank 0 must not end its waits.
 */
static void leave_wait(rank_t *rank)
{
    const bool is_away = strncmp(outcome.plan->name, "away", 4) == 0;
    traffic_t traffic;
    mscclpp_group_t *group;
    bool right = false;
    int i;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_OK);
    group = &traffic.team->group;
    group->call = 2;
    meet(rank);
    if (rank->rank == 0) {
        for (i = 0; i < WAITS; ++i) {
            CHECK_EQ(wait_for(group, EACH_WAITED), MSCCLPP_OK);
        }
        meet(rank);
    } else if (is_away) {
        away_t away = {.group = group, .until = mscclpp_now() + WAITED};
        mscclpp_fiber_t *fiber = mscclpp_fiber_create(wait_away, &away);
        bool has_ended = false;

        while (!has_ended && mscclpp_now() < away.until) {
            has_ended = mscclpp_fiber_resume(fiber);
        }
        CHECK(!has_ended);
        meet(rank);
        while (!has_ended) {
            has_ended = mscclpp_fiber_resume(fiber);
        }
    } else {
        CHECK_EQ(wait_for(group, WAITED), MSCCLPP_OK);
        meet(rank);
    }
    meet(rank);
    group->call = traffic.call;
    CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_OK);
    traffic_close(&traffic);
}

static void test_without_error(const plan_t *plan, void (*body)(rank_t *rank))
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;

    begin(plan, &config);
    CHECK_EQ(run_ranks(plan->ranks, &config, body, NULL), 0);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 0);
    end(plan, failed_before);
}

/*
 * The last rank ends its call because another rank has told it of a failure. The other rank of its node learns that
 * from the board, in an agreement, although nobody has told it. Ranks of the other node are told nothing.
 */
static void fail_after_peer(rank_t *rank)
{
    traffic_t traffic;
    mscclpp_team_t *team;
    bool right = false;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    team = traffic.team;
    CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_OK);
    meet(rank);
    if (rank->rank == 3) {
        CHECK_EQ(mscclpp_team_fail_call(team, 2, "all-reduce", MSCCLPP_ERR_PEER, true), MSCCLPP_ERR_PEER);
    }
    meet(rank);
    if (rank->rank != 3) {
        mscclpp_team_begin_signs(team);
        CHECK_EQ(mscclpp_team_give_signs(team, 2), rank->rank == 2 ? MSCCLPP_ERR_PEER : MSCCLPP_OK);
        mscclpp_team_end_signs(team);
    }
    meet(rank);
    traffic_close(&traffic);
}

/* A second deadline would end the calls of the first plans after `slow_at` and the whole `timeout`. */
static const plan_t plans[] = {
    {.name = "node",
     .ranks = 4,
     .silent = 2,
     .silent_at = 2,
     .slow = 1,
     .slow_at = 11,
     .worker = -1,
     .timeout = 12,
     .most_seconds = 19},
    {.name = "nodes",
     .ranks = 6,
     .per_node = 3,
     .silent = 4,
     .silent_at = 2,
     .slow = 1,
     .slow_at = 11,
     .worker = -1,
     .timeout = 12,
     .most_seconds = 19},
    /* A whole node, and the rank that begins a search. */
    {.name = "whole node",
     .ranks = 6,
     .per_node = 1,
     .silent = 2,
     .silent_at = 3,
     .slow = 4,
     .slow_at = 11,
     .worker = -1,
     .timeout = 12,
     .most_seconds = 21},
    {.name = "first node",
     .ranks = 4,
     .per_node = 1,
     .silent_at = 3,
     .slow = 1,
     .slow_at = 11,
     .worker = -1,
     .timeout = 12,
     .most_seconds = 21},
    /* These end well. */
    {.name = "works",
     .ranks = 6,
     .per_node = 3,
     .silent = -1,
     .slow = 1,
     .slow_at = 5,
     .worker = 4,
     .works = 5.5,
     .timeout = 7},
    {.name = "works:whole node",
     .ranks = 4,
     .per_node = 1,
     .silent = -1,
     .slow = 1,
     .slow_at = 5,
     .worker = 3,
     .works = 5.5,
     .timeout = 7},
    {.name = "works:node", .ranks = 3, .silent = -1, .slow = 1, .slow_at = 5, .worker = 2, .works = 5.5, .timeout = 7},
    {.name = "taken over", .ranks = 3, .silent = -1, .slow = 2, .slow_at = 4.5, .worker = -1, .timeout = 6},
    {.name = "rare looks",
     .ranks = 2,
     .per_node = 1,
     .silent = -1,
     .slow = -1,
     .worker = -1,
     .timeout = 3,
     .most_seconds = 20},
    {.name = "told", .ranks = 4, .per_node = 2, .silent = -1, .slow = -1, .worker = -1, .timeout = 5},
    {.name = "left", .ranks = 2, .silent = -1, .slow = -1, .worker = -1, .timeout = 5},
    {.name = "left:nodes", .ranks = 2, .per_node = 1, .silent = -1, .slow = -1, .worker = -1, .timeout = 5},
    {.name = "away", .ranks = 2, .silent = -1, .slow = -1, .worker = -1, .timeout = 5},
    {.name = "away:nodes", .ranks = 2, .per_node = 1, .silent = -1, .slow = -1, .worker = -1, .timeout = 5},
};

/* Most tests wait for deadlines, so this many run at once, each in a process of its own. */
#define LANES 4

static void run_test(void *argument)
{
    const plan_t *plan = argument;

    alarm(300);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    mscclpp_gpu_twin_set_filter(user_is_host);
    working_ops = mscclpp_gpu_twin_ops;
    working_ops.launch = launch_late;
    jitter_rest(true);
    if (strcmp(plan->name, "taken over") == 0) {
        test_taken_over(plan);
    } else if (strcmp(plan->name, "rare looks") == 0) {
        test_rare_looks(plan);
    } else if (strncmp(plan->name, "left", 4) == 0 || strncmp(plan->name, "away", 4) == 0) {
        test_without_error(plan, leave_wait);
    } else if (strcmp(plan->name, "told") == 0) {
        test_without_error(plan, fail_after_peer);
    } else {
        test_plan(plan);
    }
}

int main(int argc, char **argv)
{
    pid_t started[sizeof(plans) / sizeof(plans[0])];
    int k, count = 0, joined = 0;
    size_t i;

    unit_begin();
    for (i = 0; i < sizeof(plans) / sizeof(plans[0]); ++i) {
        bool chosen = argc == 1;

        for (k = 1; k < argc; ++k) {
            chosen = chosen || strcmp(argv[k], plans[i].name) == 0;
        }
        if (!chosen) {
            continue;
        }
        if (count - joined == LANES) {
            unit_join(started[joined++]);
        }
        started[count++] = unit_fork(run_test, (void *)(uintptr_t)&plans[i]);
    }
    while (joined < count) {
        unit_join(started[joined++]);
    }
    if (count < argc - 1) {
        fprintf(stderr, "usage: test_dead [TEST]..., by their names in the source; all by default\n");
        return 2;
    }
    return unit_end();
}
