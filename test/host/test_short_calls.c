/*
 * Ranks that run out of memory in calls: each allocation of the library in the first large calls fails once. The calls
 * have to end alike on all ranks and at once, and nothing may leak.
 */
#include <stdio.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/gpu/streams.h"
#include "test/host/faulty_gpu.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/shortage.h"
#include "test/unit/shortage_post.h"
#include "test/unit/unit.h"

#define COUNT 3000u
#define LARGE 20000u /* more than a call takes without scratch, and few enough steps when there is none */
#define NTH_MAX 1000

/* Seconds within which calls have to end on a busy machine. This is less than any deadline. */
#define PROMPT 8.0

typedef struct {
    int culprit; /* equal to the number of ranks: all of them */
    int nth;
    bool reached; /* by any culprit */
    mscclpp_status_t ended[RANKS_MAX];
    double seconds[RANKS_MAX];
} plan_t;

/* The first large calls, for which a team takes more memory while one rank, or all of them, are short of it. */
static void grow(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_team_t *team;
    traffic_t traffic;
    bool right = false;
    double started;
    int i;

    rank->gpu = &faulty_gpu_ops;
    rank->oob.post_message = shortage_post_spared;
    team = create_team(rank);
    traffic_open(&traffic, team, LARGE, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 1, &right), MSCCLPP_OK);
    meet(rank);
    started = mscclpp_now();
    shortage_happened = false;
    shortage_left = rank->rank == plan->culprit || rank->size == plan->culprit ? plan->nth : 0;
    plan->ended[rank->rank] = MSCCLPP_OK;
    for (i = 0; i < 3 && plan->ended[rank->rank] == MSCCLPP_OK; ++i) {
        plan->ended[rank->rank] = traffic_call(&traffic, i < 2 ? LARGE : COUNT, &right);
        CHECK(plan->ended[rank->rank] != MSCCLPP_OK || right);
    }
    shortage_left = 0;
    plan->seconds[rank->rank] = mscclpp_now() - started;
    if (shortage_happened) {
        __atomic_store_n(&plan->reached, true, __ATOMIC_RELAXED);
    }
    meet(rank);
    traffic_close(&traffic);
    meet(rank);
}

static int unlisted; /* warnings of mappings that could not be listed, and so were not used */

/* Lets one allocation of large calls fail. True if there was such an allocation. */
static bool fail_growth_once(int ranks, const mscclpp_config_t *config, int culprit, int nth, long held_before)
{
    const int failed_before = unit_failed;
    plan_t plan = {.culprit = culprit, .nth = nth};
    int rank;

    log_record_clear();
    CHECK_EQ(run_ranks(ranks, config, grow, &plan), 0);
    mscclpp_team_finalize(1.0);
    for (rank = 0; rank < ranks; ++rank) {
        CHECK_EQ(plan.ended[rank] == MSCCLPP_OK, plan.ended[0] == MSCCLPP_OK);
        CHECK(plan.seconds[rank] < PROMPT);
    }
    CHECK(plan.reached || plan.ended[0] == MSCCLPP_OK);
    CHECK_EQ(mscclpp_mapping_drain(), 0);
    mscclpp_stream_drain();
    unlisted += log_record_count(MSCCLPP_LOG_WARN, "no memory to keep count of", "the call goes without");
    CHECK_EQ(faulty_held(), 0);
    CHECK_EQ(__atomic_load_n(&shortage_held, __ATOMIC_RELAXED), held_before);
    if (unit_failed != failed_before) {
        fprintf(stderr, "in allocation %d of rank %d of %d, ranks_per_node %d; logged:\n%s", nth, culprit, ranks,
                config->ranks_per_node, log_record_text());
    }
    return plan.reached && unit_failed == failed_before;
}

static void test_growth(int ranks, int ranks_per_node, const char *algorithm)
{
    plan_t none = {.culprit = -1};
    mscclpp_config_t config;
    int culprit, nth, total = 0;
    long held_before;

    mscclpp_config_init(&config);
    config.scratch_size = (size_t)4 << 20;
    config.timeout = 60;
    config.ucx = false;
    config.ranks_per_node = ranks_per_node;
    config.transport = "shm";
    config.algorithm = algorithm;
    for (nth = 0; nth < 2; ++nth) { /* what is made only once */
        CHECK_EQ(run_ranks(ranks, &config, grow, &none), 0);
        mscclpp_team_finalize(1.0);
        (void)mscclpp_mapping_drain();
        mscclpp_stream_drain();
    }
    CHECK_EQ(none.ended[0], MSCCLPP_OK);
    held_before = __atomic_load_n(&shortage_held, __ATOMIC_RELAXED);
    for (culprit = 0; culprit <= ranks; ++culprit) {
        for (nth = 1; nth < NTH_MAX && fail_growth_once(ranks, &config, culprit, nth, held_before); ++nth) {
        }
        CHECK(nth < NTH_MAX);
        total += nth - 1;
    }
    printf("large calls of %d ranks, %d a node, %s: %d allocations failed\n", ranks, ranks_per_node, algorithm, total);
}

static void keep_function(rank_t *rank)
{
    shortage_post = rank->oob.post_message;
}

int main(void)
{
    mscclpp_config_t config;

    unit_begin();
    alarm(300);
    mscclpp_config_init(&config);
    CHECK_EQ(run_ranks(1, &config, keep_function, NULL), 0);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    test_growth(2, 0, "auto");
    CHECK(unlisted >= 3);
    test_growth(2, 0, "scratch");
    test_growth(3, 2, "auto");
    test_growth(2, 1, "auto");
    return unit_end();
}
