/* Between nodes: a rank that does not come to a call is named, by one rank alone. Ranks are threads. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/task/collective.h"
#include "test/host/jitter.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

/* Seconds by which a deadline may be missed on a busy machine. */
#define SLACK 8.0

/* Bytes of a block of an all-gather, and of an all-to-all. */
#define GATHERED 20000
#define SCATTERED 2000

/*
 * What is called: an all-reduce by steps, a broadcast in rounds or over trees, an all-gather in a ring, or an
 * all-to-all in windows.
 */
typedef enum { BY_STEPS, IN_ROUNDS, DOWN_ROUNDS, PAST_ROUNDS, IN_RING, IN_WINDOWS, OVER_TREES } way_t;

/* The plan of one test, shared by its ranks. */
typedef struct {
    int culprit;
    way_t way;
    mscclpp_status_t status[RANKS_MAX];
    double seconds[RANKS_MAX];
} plan_t;

/*
 * A reduce to a rank, in rounds. The ranks that wait for nobody go on to an all-reduce if `goes_on`, and wait there for
 * others that are still in the reduce.
 */
static mscclpp_status_t reduce(const rank_t *rank, traffic_t *traffic, uint64_t call, int root, bool goes_on)
{
    const int32_t value = rank->rank;
    int32_t sum = 0;
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_REDUCE,
                                      .in = &value,
                                      .out = &sum,
                                      .is_size_known = true,
                                      .count = 1,
                                      .dtype = MSCCLPP_DTYPE_INT32,
                                      .op = MSCCLPP_OP_SUM,
                                      .root = root,
                                      .call = call};
    mscclpp_status_t status = mscclpp_collective(traffic->team, &args);
    bool right = false;

    CHECK_TEXT(mscclpp_team_last_algorithm(traffic->team), "nodes_rounds");
    if (status == MSCCLPP_OK && goes_on) {
        traffic->call = call;
        status = traffic_call(traffic, 10, &right);
    }
    return status;
}

/* A broadcast from rank 0, which `name` serves. */
static mscclpp_status_t broadcast(const rank_t *rank, mscclpp_team_t *team, uint64_t call, const char *name)
{
    int32_t value = rank->rank == 0 ? 77 : 0;
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_BCAST,
                                      .in = rank->rank == 0 ? &value : NULL,
                                      .out = rank->rank == 0 ? NULL : &value,
                                      .is_size_known = true,
                                      .count = sizeof(value),
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .call = call};
    const mscclpp_status_t status = mscclpp_collective(team, &args);

    CHECK_TEXT(mscclpp_team_last_algorithm(team), name);
    return status;
}

/* An all-gather or an all-to-all of many tiles, which `name` serves. */
static mscclpp_status_t exchange_all(const rank_t *rank, mscclpp_team_t *team, uint64_t call, mscclpp_coll_t coll,
                                     const char *name)
{
    static char in[16 * GATHERED], out[16][16 * GATHERED];
    const mscclpp_coll_args_t args = {.coll = coll,
                                      .in = in,
                                      .out = out[rank->rank],
                                      .is_size_known = true,
                                      .count = coll == MSCCLPP_COLL_ALLTOALL ? SCATTERED : GATHERED,
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .call = call};
    const mscclpp_status_t status = mscclpp_collective(team, &args);

    CHECK_TEXT(mscclpp_team_last_algorithm(team), name);
    return status;
}

/* Makes a call of the plan. */
static mscclpp_status_t call_by(const rank_t *rank, traffic_t *traffic, uint64_t call)
{
    const way_t way = ((const plan_t *)rank->argument)->way;
    bool right = false;

    return way == BY_STEPS      ? traffic_call(traffic, 10, &right)
           : way == IN_ROUNDS   ? reduce(rank, traffic, call, 0, false)
           : way == PAST_ROUNDS ? reduce(rank, traffic, 10 * call, 1, true)
           : way == DOWN_ROUNDS ? broadcast(rank, traffic->team, call, "nodes_rounds")
           : way == OVER_TREES  ? broadcast(rank, traffic->team, call, "nodes_trees")
           : way == IN_WINDOWS  ? exchange_all(rank, traffic->team, call, MSCCLPP_COLL_ALLTOALL, "nodes")
                                : exchange_all(rank, traffic->team, call, MSCCLPP_COLL_ALLGATHER, "nodes_ring");
}

/*
 * A call in which the culprit does not arrive. All ranks have made such a call before, since the first one connects
 * nodes, and these tests' exchange has no deadline.
 */
static void miss_between(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;
    bool right = false;

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 10, &right), MSCCLPP_OK);
    CHECK_TEXT(mscclpp_team_last_algorithm(traffic.team), "nodes_doubling");
    if (plan->way != BY_STEPS) {
        CHECK_EQ(call_by(rank, &traffic, 2), MSCCLPP_OK);
    }
    meet(rank);
    if (rank->rank != plan->culprit) {
        const double started = mscclpp_now();

        plan->status[rank->rank] = call_by(rank, &traffic, 3);
        plan->seconds[rank->rank] = mscclpp_now() - started;
    }
    meet(rank);
    traffic_close(&traffic);
}

/*
 * Between nodes most ranks wait for others that wait, too. All name the one that does not come, in one line before the
 * deadline and in another one at the deadline, whatever the number of ranks.
 */
static void test_missing_between(int ranks, int per_node, int culprit, way_t way)
{
    int failed_before = unit_failed, rank, timeouts = 0;
    mscclpp_config_t config;
    plan_t plan;
    char late[64];

    mscclpp_config_init(&config);
    config.algorithm = "nodes_doubling";
    config.twin_blocks = config.twin_threads = 1;
    config.scratch_size = (size_t)1 << 20;
    config.ucx = false;
    config.transport = "shm";
    config.ranks_per_node = per_node;
    config.allgather_algorithm = "nodes_ring";
    config.alltoall_algorithm = "nodes";
    config.exchange_size = way == IN_WINDOWS ? 64 << 10 : config.exchange_size; /* so little room calls for windows */
    config.bcast_algorithm = way == OVER_TREES ? "nodes_trees" : "auto";
    config.nodes_fanout = 1;
    config.timeout = 5;
    config.warn_after = 0.5;
    memset(&plan, 0, sizeof(plan));
    plan.culprit = culprit;
    plan.way = way;
    log_record_clear();
    CHECK_EQ(run_ranks(ranks, &config, miss_between, &plan), 0);
    for (rank = 0; rank < ranks; ++rank) {
        /* A rank that has had all its data may have ended well. */
        timeouts += plan.status[rank] == MSCCLPP_ERR_TIMEOUT;
        CHECK(rank == culprit || plan.status[rank] == MSCCLPP_OK || plan.status[rank] == MSCCLPP_ERR_TIMEOUT ||
              plan.status[rank] == MSCCLPP_ERR_PEER);
        CHECK(plan.seconds[rank] < config.timeout + SLACK);
    }
    CHECK_EQ(timeouts, 1);
    snprintf(late, sizeof(late), "have not arrived: %d", culprit);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, late, " has waited "), 1);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, " has waited ", ""), 1);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, late, "did not end on rank"), 1);
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 1);
    mscclpp_team_finalize(1.0);
    if (__atomic_load_n(&unit_failed, __ATOMIC_RELAXED) != failed_before) {
        fprintf(stderr, "rank %d of %d, nodes of %d; logged:\n%s", culprit, ranks, per_node, log_record_text());
    }
}

int main(void)
{
    unit_begin();
    alarm(600);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    mscclpp_gpu_twin_set_filter(user_is_host);
    jitter_rest(true);
    test_missing_between(9, 1, 6, BY_STEPS);
    test_missing_between(9, 1, 3, IN_ROUNDS);
    test_missing_between(11, 3, 7, IN_ROUNDS);
    test_missing_between(9, 1, 4, DOWN_ROUNDS);
    test_missing_between(9, 1, 4, PAST_ROUNDS);
    test_missing_between(7, 2, 3, IN_RING);
    test_missing_between(6, 1, 4, OVER_TREES);
    test_missing_between(16, 1, 4, IN_WINDOWS);
    return unit_end();
}
