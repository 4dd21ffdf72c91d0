/*
 * Between nodes: ranks that fall silent for good, also after they have answered the question whom they wait for. All
 * calls end soon after their deadline, and one rank alone names a rank that is silent. Ranks are threads.
 *
 * Usage: test_dead_nodes [PLAN], the number of one of the plans; all of them by default.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/call.h"
#include "mca/common/base/clock.h"
#include "mca/common/setup/setup.h"
#include "mca/common/task/collective.h"
#include "test/host/jitter.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

/* Bytes of a block of an all-gather. */
#define GATHERED 20000

/* Times are in seconds from the beginning of the call. */
typedef struct {
    int ranks;
    int per_node;
    int dead_from; /* the ranks from this one to the one before `dead_to` never come to the call */
    int dead_to;
    int silent; /* this rank comes, and falls silent at `silent_at` while it waits; -1: none */
    double silent_at;
    int slow; /* this rank comes at `slow_at`; -1: none */
    double slow_at;
    bool gathers; /* an early all-gather, for which ranks vote before kernels begin; else an all-reduce */
    double timeout;
    double most_seconds; /* of any rank's call */
} plan_t;

/* What the ranks of a test have seen. */
typedef struct {
    const plan_t *plan;
    double started;
    int has_begun; /* the call that fails: before it, no rank is silent */
    int released;  /* all others' calls have ended, so the silent rank may go on */
    int ended;     /* number of ranks whose calls have ended */
    mscclpp_status_t status[RANKS_MAX];
    double seconds[RANKS_MAX];
} outcome_t;

static outcome_t outcome;
static mscclpp_admission_t admissions[RANKS_MAX]; /* each rank is a thread here; this is what it has as a process */
static __thread int own_rank;

/* The progress of a rank, which is where the silent one stops. */
static void progress(void *context)
{
    (void)context;
    sched_yield();
    while (own_rank == outcome.plan->silent && __atomic_load_n(&outcome.has_begun, __ATOMIC_ACQUIRE) &&
           mscclpp_now() - outcome.started > outcome.plan->silent_at &&
           !__atomic_load_n(&outcome.released, __ATOMIC_ACQUIRE)) {
        (void)usleep(1000);
    }
}

/* The number of ranks that make the call and are not silent. */
static int count_living(const plan_t *plan)
{
    return plan->ranks - (plan->dead_to - plan->dead_from) - (plan->silent >= 0);
}

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

/* Makes a call of the plan. */
static mscclpp_status_t call_by(const rank_t *rank, traffic_t *traffic, uint64_t number)
{
    bool right = false;

    return outcome.plan->gathers ? gather(rank, traffic->team, number) : traffic_call(traffic, 10, &right);
}

static void die_amid(rank_t *rank)
{
    const plan_t *plan = outcome.plan;
    const bool is_dead = rank->rank >= plan->dead_from && rank->rank < plan->dead_to;
    traffic_t traffic;

    own_rank = rank->rank;
    rank->oob.progress = progress;
    rank->admission = &admissions[rank->rank];

    traffic_open(&traffic, create_team(rank), 3000, USER_DEVICE);
    CHECK_EQ(call_by(rank, &traffic, 1), MSCCLPP_OK);
    meet(rank);
    if (rank->rank == 0) {
        outcome.started = mscclpp_now();
        __atomic_store_n(&outcome.has_begun, 1, __ATOMIC_RELEASE);
    }
    meet(rank);
    if (!is_dead) {
        const double started = mscclpp_now();

        if (rank->rank == plan->slow) {
            (void)usleep((useconds_t)(1e6 * plan->slow_at));
        }
        outcome.status[rank->rank] = call_by(rank, &traffic, 2);
        outcome.seconds[rank->rank] = mscclpp_now() - started;
        if (rank->rank != plan->silent &&
            __atomic_add_fetch(&outcome.ended, 1, __ATOMIC_ACQ_REL) == count_living(plan)) {
            __atomic_store_n(&outcome.released, 1, __ATOMIC_RELEASE);
        }
    }
    meet(rank);
    traffic_close(&traffic);
}

/* Returns true if the error names one of the ranks that do not come or are silent, and no other one. */
static bool names_dead(const plan_t *plan)
{
    static const char before[] = "have not arrived: ";
    const char *line = strstr(log_record_text(), "did not end on rank");
    char *end;
    long rank;

    line = line != NULL ? strstr(line, before) : NULL;
    if (line == NULL) {
        return false;
    }
    rank = strtol(line + strlen(before), &end, 10);
    return *end == ';' && (rank == plan->silent || (rank >= plan->dead_from && rank < plan->dead_to));
}

static void test_dead(const plan_t *plan)
{
    const int failed_before = unit_failed;
    const unsigned long long sent_before = *mscclpp_messages_sent();
    unsigned long long sent;
    double longest = 0;
    mscclpp_config_t config;
    int rank, timeouts = 0;

    mscclpp_config_init(&config);
    config.twin_blocks = config.twin_threads = 1;
    config.scratch_size = (size_t)1 << 20;
    config.ucx = false;
    config.transport = "shm";
    config.ranks_per_node = plan->per_node;
    config.allgather_algorithm = "nodes_ring";
    config.timeout = plan->timeout;
    config.warn_after = 0.5;
    memset(&outcome, 0, sizeof(outcome));
    outcome.plan = plan;
    log_record_clear();
    for (rank = 0; rank < plan->ranks; ++rank) {
        memset(&admissions[rank], 0, sizeof(admissions[rank]));
        mscclpp_admission_init(&admissions[rank]);
    }
    CHECK_EQ(run_ranks(plan->ranks, &config, die_amid, NULL), 0);
    sent = *mscclpp_messages_sent() - sent_before;
    for (rank = 0; rank < plan->ranks; ++rank) {
        if (rank == plan->silent || (rank >= plan->dead_from && rank < plan->dead_to)) {
            continue;
        }
        timeouts += outcome.status[rank] == MSCCLPP_ERR_TIMEOUT;
        longest = outcome.seconds[rank] > longest ? outcome.seconds[rank] : longest;
        /* A rank that has had all its data may have ended well. */
        CHECK(outcome.status[rank] == MSCCLPP_OK || outcome.status[rank] == MSCCLPP_ERR_TIMEOUT ||
              outcome.status[rank] == MSCCLPP_ERR_PEER);
    }
    fprintf(stderr, "%s", log_record_text());
    printf("%d ranks, nodes of %d: errors after up to %.1f s of %g, %llu messages\n", plan->ranks, plan->per_node,
           longest, plan->timeout, sent);
    CHECK_EQ(timeouts, 1);
    CHECK(longest < plan->most_seconds);
    CHECK(names_dead(plan));
    CHECK_EQ(log_record_count(MSCCLPP_LOG_ERROR, "", ""), 1);
    CHECK(log_record_count(MSCCLPP_LOG_WARN, "", "") <= 1);
    /* The warning and the error go to all ranks, and a few ranks ask others. */
    CHECK(sent <= 8 * (unsigned long long)plan->ranks);
    mscclpp_team_finalize(1.0);
    if (__atomic_load_n(&unit_failed, __ATOMIC_RELAXED) != failed_before) {
        fprintf(stderr, "rank %d silent, %d to %d dead, of %d, nodes of %d; logged:\n%s", plan->silent, plan->dead_from,
                plan->dead_to - 1, plan->ranks, plan->per_node, log_record_text());
    }
}

int main(int argc, char **argv)
{
    static const plan_t plans[] = {
        /* The rank that searches first, and the next one. */
        {.ranks = 9, .per_node = 1, .dead_to = 2, .silent = -1, .slow = -1, .timeout = 3, .most_seconds = 30},
        /* A whole node. */
        {.ranks = 24, .per_node = 8, .dead_to = 8, .silent = -1, .slow = -1, .timeout = 3, .most_seconds = 30},
        /* A rank that has told for whom it waits, and falls silent before that one comes. */
        {.ranks = 6,
         .per_node = 3,
         .silent = 4,
         .silent_at = 3,
         .slow = 1,
         .slow_at = 6,
         .timeout = 8,
         .most_seconds = 40},
        {.ranks = 6,
         .per_node = 3,
         .silent = 3,
         .silent_at = 3,
         .slow = 1,
         .slow_at = 6,
         .timeout = 8,
         .most_seconds = 40},
        /* The same in a meeting before the kernel. A second deadline would end the calls after 42 s. */
        {.ranks = 6,
         .per_node = 1,
         .silent = 2,
         .silent_at = 3,
         .slow = 4,
         .slow_at = 20,
         .gathers = true,
         .timeout = 22,
         .most_seconds = 40},
        {.ranks = 6,
         .per_node = 3,
         .silent = 4,
         .silent_at = 3,
         .slow = 1,
         .slow_at = 20,
         .gathers = true,
         .timeout = 22,
         .most_seconds = 40},
    };
    const size_t count = sizeof(plans) / sizeof(plans[0]);
    const size_t first = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    size_t i;

    unit_begin();
    if (argc > 2 || first >= count) {
        fprintf(stderr, "usage: test_dead_nodes [PLAN], below %zu; all by default\n", count);
        return 2;
    }
    alarm(600);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    mscclpp_gpu_twin_set_filter(user_is_host);
    jitter_rest(true);
    for (i = first; i < (argc > 1 ? first + 1 : count); ++i) {
        test_dead(&plans[i]);
    }
    return unit_end();
}
