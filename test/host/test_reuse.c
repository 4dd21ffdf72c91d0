/*
 * Teams that a communicator of the same ranks takes over, and scratch that grows with the first large message. Both
 * have to work as well as what a set-up makes, also if a rank has no such team, or no memory.
 */
#include <stdio.h>
#include <string.h>

#include "mca/common/setup/setup.h"
#include "mca/common/team/parts.h"
#include "test/host/faulty_gpu.h"
#include "test/host/log_record.h"
#include "test/host/process_state.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define SMALL 100u
#define LARGE 200000u
#define LIVES 6

typedef struct {
    int culprit;
    int nth;
    faulty_function_t function;
    bool happened;
} plan_t;

static mscclpp_team_t *open_team(rank_t *rank, bool reuse)
{
    mscclpp_team_params_t params;
    mscclpp_team_t *team = NULL;

    memset(&params, 0, sizeof(params));
    params.config = rank->config;
    params.gpu = rank->gpu;
    params.oob = rank->oob;
    params.reuse = reuse;
    CHECK_EQ(mscclpp_team_create(&params, &team), MSCCLPP_OK);
    return team;
}

static void call(traffic_t *traffic, uint64_t count)
{
    bool right = false;

    CHECK_EQ(traffic_call(traffic, count, &right), MSCCLPP_OK);
    CHECK(right);
}

static void use(rank_t *rank, mscclpp_team_t *team, const uint64_t *counts, int calls)
{
    traffic_t traffic;
    int i;

    traffic_open(&traffic, team, LARGE, USER_DEVICE);
    for (i = 0; i < calls; ++i) {
        call(&traffic, counts[i]);
    }
    meet(rank); /* peers' kernels may still read the buffers */
    traffic_close(&traffic);
    meet(rank);
}

/* A decision of ranks in a call of an ended communicator does not affect the call of that number in the next one. */
static void decide(rank_t *rank, mscclpp_team_t *team, bool device)
{
    enum { CALL = 3 };

    if (rank->rank == rank->size - 1) {
        CHECK_EQ(mscclpp_team_decide(team, CALL, device), device);
    }
    meet(rank);
    CHECK_EQ(mscclpp_team_decide(team, CALL, !device), device);
    mscclpp_team_announce(team, CALL, device ? MSCCLPP_CALL_DEVICE : MSCCLPP_CALL_HOST);
    meet(rank);
    CHECK(mscclpp_team_find_announced(team, CALL, device ? MSCCLPP_CALL_HOST : MSCCLPP_CALL_DEVICE) < 0);
    CHECK(!mscclpp_group_is_behind(&team->group, 1 - rank->rank % 2, CALL));
    CHECK(mscclpp_group_is_behind(&team->group, 1 - rank->rank % 2, CALL + 1));
    meet(rank);
}

/* One life after another. A team that has grown gives its memory back. Other teams are taken over as they are. */
static void live(rank_t *rank)
{
    static const uint64_t small[] = {SMALL, 1, SMALL * 7}, large[] = {SMALL, LARGE, SMALL, LARGE};
    int life;

    for (life = 0; life < LIVES; ++life) {
        mscclpp_team_t *team = open_team(rank, true);

        decide(rank, team, life % 2 == 0);
        use(rank, team, life == LIVES - 2 ? large : small, life == LIVES - 2 ? 4 : 3);
    }
}

/* Two communicators that ranks end in different orders, so that ranks have different teams ready first. */
static void cross(rank_t *rank)
{
    static const uint64_t counts[] = {SMALL, LARGE};
    traffic_t traffic[2];
    int first = rank->rank % 2, i;

    for (i = 0; i < 2; ++i) {
        traffic_open(&traffic[i], open_team(rank, true), LARGE, USER_DEVICE);
        call(&traffic[i], SMALL);
    }
    meet(rank);
    traffic_close(&traffic[first]);
    traffic_close(&traffic[1 - first]);
    meet(rank);
    use(rank, open_team(rank, true), counts, 2);
}

/* If one rank does not have a team any more, no rank takes that team over. */
static void lack(rank_t *rank)
{
    static const uint64_t counts[] = {SMALL, LARGE, SMALL};
    const plan_t *plan = rank->argument;

    use(rank, open_team(rank, rank->rank != plan->culprit), counts, 1);
    use(rank, open_team(rank, true), counts, 3);
}

/* If anything fails on one rank while the scratch grows, the calls are still right on all ranks. */
static void fail_to_grow(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;

    rank->gpu = &faulty_gpu_ops;
    traffic_open(&traffic, open_team(rank, false), LARGE, USER_EXACT);
    call(&traffic, SMALL);
    meet(rank);
    if (rank->rank == plan->culprit) {
        faulty_arm(plan->function, plan->nth, MSCCLPP_ERR_NO_MEMORY);
    }
    call(&traffic, LARGE);
    if (rank->rank == plan->culprit) {
        plan->happened = faulty_disarm();
    }
    meet(rank);
    call(&traffic, SMALL);
    call(&traffic, LARGE);
    meet(rank);
    traffic_close(&traffic);
}

static void configure(mscclpp_config_t *config)
{
    mscclpp_config_init(config);
    config->timeout = 20;
    config->ucx = false;
    config->linger = "on";
    config->linger_window = 3000;
}

/* The number of teams of all ranks that were taken over since the log was cleared. */
static int reused(void)
{
    return log_record_count(MSCCLPP_LOG_INFO, "ready with what an ended communicator has left", "");
}

static void test_lives(int ranks)
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;
    plan_t plan;

    configure(&config);
    config.zerocopy = false; /* where buffers are mapped, the scratch does not grow */
    memset(&plan, 0, sizeof(plan));
    log_record_clear();
    CHECK_EQ(run_ranks(ranks, &config, live, &plan), 0);
    /* All teams but the first one, and the one after the team that grew. */
    CHECK_EQ(reused(), ranks * (LIVES - 2));
    mscclpp_team_finalize(1.0);
    log_record_clear();
    CHECK_EQ(run_ranks(ranks, &config, cross, &plan), 0);
    CHECK_EQ(reused(), ranks);
    mscclpp_team_finalize(1.0);
    log_record_clear();
    for (plan.culprit = 0; plan.culprit < ranks; ++plan.culprit) {
        CHECK_EQ(run_ranks(ranks, &config, lack, &plan), 0);
        mscclpp_team_finalize(1.0);
    }
    CHECK_EQ(reused(), 0);
    if (unit_failed != failed_before) {
        fprintf(stderr, "with %d ranks; logged:\n%s", ranks, log_record_text());
    }
}

/* Each call of the runtime while the scratch grows fails once. */
static void test_no_growth(int ranks)
{
    static const faulty_function_t functions[] = {FAULTY_DEVICE_ALLOC, FAULTY_EXPORT, FAULTY_IMPORT, FAULTY_COPY};
    mscclpp_config_t config;
    plan_t plan;
    size_t i;

    configure(&config);
    config.zerocopy = false; /* zero-copy has imports and exports of its own */
    for (i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        /* Ranks are threads here, and share mappings. Of two, each maps the other's memory itself. */
        if (ranks > 2 && functions[i] == FAULTY_IMPORT) {
            continue;
        }
        memset(&plan, 0, sizeof(plan));
        plan.function = functions[i];
        plan.nth = 1;
        for (plan.culprit = 0; plan.culprit < ranks; ++plan.culprit) {
            const int failed_before = unit_failed;

            log_record_clear();
            CHECK_EQ(run_ranks(ranks, &config, fail_to_grow, &plan), 0);
            CHECK(plan.happened);
            CHECK_EQ(log_record_count(MSCCLPP_LOG_WARN, "bytes of scratch for large messages", "take many steps"), 1);
            mscclpp_team_finalize(1.0);
            CHECK_EQ(faulty_held(), 0);
            if (unit_failed != failed_before) {
                fprintf(stderr, "in %s on rank %d; logged:\n%s", faulty_name(functions[i]), plan.culprit,
                        log_record_text());
            }
        }
    }
}

int main(void)
{
    process_state_t before, after;

    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    test_lives(2);
    process_state_read(&before);
    test_lives(2);
    test_lives(3);
    test_lives(4); /* a process keeps so many: two for each rank, which is a thread here */
    test_no_growth(2);
    test_no_growth(3);
    process_state_read(&after);
    CHECK_EQ(after.descriptors, before.descriptors);
    CHECK_EQ(after.threads, before.threads);
    return unit_end();
}
