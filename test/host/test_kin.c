/*
 * Teams over several nodes that take over what an earlier communicator of the same ranks has agreed on. They have to
 * work as well as others, and cost fewer exchanges. All ranks have to return the same status, whatever fails on one.
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

#define MOST 20000u
#define NTH_MAX 100 /* calls of one function in a set-up, at most */

typedef struct {
    int culprit;
    faulty_function_t function;
    int nth;
    bool happened;
    int waits; /* exchanges in the set-up of a communicator that takes over what ranks have agreed on */
} plan_t;

/* The embedding runtime's all-gather, with a counter for each rank. */
static mscclpp_status_t (*allgather)(void *context, const void *sendbuf, void *recvbuf, size_t length);
static mscclpp_status_t (*exchange_and_gather)(void *context, const mscclpp_oob_ahead_t *ahead, const void *sendbuf,
                                               void *recvbuf, size_t length);
static _Thread_local int gathers;
static _Thread_local int exchanges_ahead; /* of these, those for a set-up that a rank has begun ahead */

static mscclpp_status_t count_gather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    ++gathers;
    return allgather(context, sendbuf, recvbuf, length);
}

static mscclpp_status_t count_exchange(void *context, const mscclpp_oob_ahead_t *ahead, const void *sendbuf,
                                       void *recvbuf, size_t length)
{
    ++gathers;
    ++exchanges_ahead;
    return exchange_and_gather(context, ahead, sendbuf, recvbuf, length);
}

/* An exchange in pairs counts as well: all ranks wait in it. */
static mscclpp_status_t (*exchange)(void *context, const int *peers, int count, const void *sent, const size_t *lengths,
                                    void *received, size_t pitch);

static mscclpp_status_t count_pairs(void *context, const int *peers, int count, const void *sent, const size_t *lengths,
                                    void *received, size_t pitch)
{
    ++gathers;
    return exchange(context, peers, count, sent, lengths, received, pitch);
}

static _Thread_local uint64_t members; /* of the teams that are opened */

static mscclpp_status_t try_to_open(rank_t *rank, bool reuse, mscclpp_team_t **team_p)
{
    mscclpp_team_params_t params;

    memset(&params, 0, sizeof(params));
    params.config = rank->config;
    params.gpu = rank->gpu;
    params.oob = rank->oob;
    params.reuse = reuse;
    params.members = members;
    *team_p = NULL;
    gathers = exchanges_ahead = 0;
    return mscclpp_team_create(&params, team_p);
}

/* Opens a team, and small and large calls of it. */
static void open_traffic(rank_t *rank, bool reuse, traffic_t *traffic)
{
    mscclpp_team_t *team;

    CHECK_EQ(try_to_open(rank, reuse, &team), MSCCLPP_OK);
    traffic_open(traffic, team, MOST, USER_DEVICE);
}

static void call(traffic_t *traffic)
{
    static const uint64_t counts[] = {1, MOST, 300};
    size_t i;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        bool right = false;

        CHECK_EQ(traffic_call(traffic, counts[i], &right), MSCCLPP_OK);
        CHECK(right);
    }
}

/* Three communicators that live at the same time; the last one after the first has ended. */
static void live(rank_t *rank)
{
    const plan_t *plan = rank->argument;
    traffic_t first, second, third;

    if (rank->rank == 0) {
        allgather = rank->oob.allgather;
        exchange_and_gather = rank->oob.exchange_and_gather;
        exchange = rank->oob.exchange;
    }
    meet(rank);
    rank->oob.allgather = count_gather;
    rank->oob.exchange_and_gather = count_exchange;
    rank->oob.exchange = count_pairs;
    open_traffic(rank, true, &first);
    /* Six of all ranks; three of those of a node and one for its end, which are of all ranks here, too. */
    CHECK_EQ(gathers, 10);
    call(&first);
    open_traffic(rank, true, &second);
    CHECK_EQ(gathers, plan->waits);
    call(&second);
    call(&first);
    /* One of other processes with the same numbers of ranks gets no offer, and prepares nothing in vain. */
    members = 1;
    open_traffic(rank, true, &third);
    CHECK_EQ(gathers, 10);
    CHECK_EQ(exchanges_ahead, 0);
    call(&third);
    meet(rank);
    traffic_close(&third);
    members = 0;
    meet(rank);
    traffic_close(&first);
    open_traffic(rank, true, &third);
    CHECK_EQ(gathers, plan->waits);
    call(&third);
    call(&second);
    meet(rank);
    traffic_close(&second);
    traffic_close(&third);
    meet(rank);
    /* Nobody is left that knows. */
    open_traffic(rank, true, &first);
    CHECK_EQ(gathers, 10);
    call(&first);
    meet(rank);
    traffic_close(&first);
}

/* If one rank does not know, or a team that all know of has failed on one, the set-up is a whole one. */
static void lack(rank_t *rank)
{
    const plan_t *plan = rank->argument;
    traffic_t first, second;
    int i;

    for (i = 0; i < 2; ++i) {
        open_traffic(rank, i != 0 || rank->rank != plan->culprit, &first);
        call(&first);
        meet(rank);
        if (i == 1 && rank->rank == plan->culprit) {
            mscclpp_kin_spoil(first.team->kin);
        }
        meet(rank);
        open_traffic(rank, true, &second);
        call(&second);
        meet(rank);
        traffic_close(&second);
        traffic_close(&first);
        meet(rank);
    }
}

/* Something fails on one rank in the second set-up. The third one is in order again. */
static void fail_once(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_team_t *team;
    traffic_t first, last;
    mscclpp_status_t status;

    rank->gpu = &faulty_gpu_ops;
    open_traffic(rank, true, &first);
    call(&first);
    meet(rank);
    if (rank->rank == plan->culprit) {
        faulty_arm(plan->function, plan->nth, MSCCLPP_ERR_NO_MEMORY);
    }
    status = try_to_open(rank, true, &team);
    if (rank->rank == plan->culprit) {
        plan->happened = faulty_disarm();
    }
    /* Either all ranks have a team or none has. */
    CHECK(status == MSCCLPP_OK || status == MSCCLPP_ERR_NOT_SUPPORTED);
    CHECK_EQ(meet_any(rank, status == MSCCLPP_OK), status == MSCCLPP_OK);
    CHECK_EQ(team != NULL, status == MSCCLPP_OK);
    if (team != NULL) {
        traffic_open(&last, team, MOST, USER_DEVICE);
        call(&last);
        meet(rank);
        traffic_close(&last);
    }
    call(&first);
    open_traffic(rank, true, &last);
    call(&last);
    meet(rank);
    traffic_close(&last);
    traffic_close(&first);
}

static void configure(mscclpp_config_t *config, int per)
{
    mscclpp_config_init(config);
    config->timeout = 60;
    config->ucx = false;
    config->exchange_size = 1u << 20;
    config->scratch_size = 1u << 20;
    config->transport = "shm";
    config->ranks_per_node = per;
}

/* The number of ranks' teams since the log was cleared that have taken over what others have agreed on. */
static int inherited(void)
{
    return log_record_count(MSCCLPP_LOG_INFO, "with what a communicator of these ranks has agreed on", "");
}

static void test_lives(int ranks, int per)
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;
    plan_t plan;

    configure(&config, per);
    memset(&plan, 0, sizeof(plan));
    /*
     * With one rank on each node a single one. Else three of all ranks, two of those of a node, whose kernels do not
     * meet again, and one for its end.
     */
    plan.waits = per == 1 ? 1 : 6;
    log_record_clear();
    CHECK_EQ(run_ranks(ranks, &config, live, &plan), 0);
    CHECK_EQ(inherited(), 2 * ranks);
    mscclpp_team_finalize(1.0);
    log_record_clear();
    for (plan.culprit = 0; plan.culprit < ranks; ++plan.culprit) {
        CHECK_EQ(run_ranks(ranks, &config, lack, &plan), 0);
        mscclpp_team_finalize(1.0);
    }
    CHECK_EQ(inherited(), 0);
    if (unit_failed != failed_before) {
        fprintf(stderr, "with %d ranks, %d on a node; logged:\n%s", ranks, per, log_record_text());
    }
}

/* Each call of the runtime in the set-up fails once. */
static void test_failures(int ranks, int per)
{
    static const faulty_function_t functions[] = {FAULTY_DEVICE_ALLOC, FAULTY_HOST_ALLOC, FAULTY_HOST_REGISTER,
                                                  FAULTY_COPY, FAULTY_STREAM_SYNC};
    mscclpp_config_t config;
    int faults = 0;
    size_t i;

    configure(&config, per);
    for (i = 0; i < sizeof(functions) / sizeof(functions[0]) * (size_t)ranks; ++i) {
        plan_t plan = {.function = functions[i / (size_t)ranks], .culprit = (int)i % ranks, .happened = true};

        for (plan.nth = 1; plan.happened && plan.nth < NTH_MAX; ++plan.nth) {
            const int failed_before = unit_failed;

            plan.happened = false;
            log_record_clear();
            CHECK_EQ(run_ranks(ranks, &config, fail_once, &plan), 0);
            mscclpp_team_finalize(1.0);
            CHECK_EQ(faulty_held(), 0);
            faults += plan.happened;
            if (unit_failed != failed_before) {
                fprintf(stderr, "in %s, call %d on rank %d; logged:\n%s", faulty_name(plan.function), plan.nth,
                        plan.culprit, log_record_text());
            }
        }
    }
    CHECK(faults >= 20);
}

int main(void)
{
    process_state_t before, after;

    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    test_lives(2, 1);
    process_state_read(&before);
    test_lives(3, 2);
    test_lives(10, 1); /* so many nodes that not all are connected at first */
    test_failures(2, 1);
    test_failures(3, 2);
    process_state_read(&after);
    CHECK_EQ(after.descriptors, before.descriptors);
    CHECK_EQ(after.threads, before.threads);
    return unit_end();
}
