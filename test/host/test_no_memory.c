/*
 * Ranks that run out of memory while a team is set up: each allocation of the library fails once. All ranks have to end
 * alike and at once, a message has to name the rank, and nothing may leak.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/gpu/mapping.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "mca/common/user/user.h"
#include "test/host/faulty_gpu.h"
#include "test/host/log_record.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/shortage.h"
#include "test/unit/shortage_post.h"
#include "test/unit/unit.h"

#define COUNT 3000u
#define RANKS_EXCHANGING 3
#define NTH_MAX 1000

/* Seconds within which ranks have to end on a busy machine. This is less than any deadline that they could wait for. */
#define PROMPT 8.0

/* Counts the lines that name the rank as the reason why device buffers are staged. */
static int count_blame(int rank)
{
    char name[32];
    const char *at, *end;
    int blame = 0;

    snprintf(name, sizeof(name), "rank %d", rank);
    for (at = log_record_text(); (end = strchr(at, '\n')) != NULL; at = end + 1) {
        char line[2100];

        snprintf(line, sizeof(line), "%.*s", (int)(end - at), at);
        blame += strstr(line, name) != NULL && (strstr(line, "staged") != NULL || strstr(line, "transport") != NULL);
    }
    return blame;
}

typedef struct {
    int culprit; /* equal to the number of ranks: all of them */
    int nth;
    bool in_exchange; /* there is no memory for the nth all-gather of the embedding runtime */
    bool reached;     /* by any culprit */
    mscclpp_status_t created[RANKS_MAX];
    double seconds[RANKS_MAX];
} plan_t;

/* The nth all-gather of this thread from now on ends, on all ranks, as if a rank had no memory. */
static _Thread_local int exchanges_left;

static mscclpp_status_t (*gather)(void *context, const void *sendbuf, void *recvbuf, size_t length);

static mscclpp_status_t gather_or_abstain(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    const long kept = shortage_left;
    int abstains = exchanges_left != 0 && --exchanges_left == 0, all[RANKS_MAX], i;
    mscclpp_status_t status;

    memset(all, 0, sizeof(all));
    shortage_left = 0;
    shortage_happened = shortage_happened || abstains != 0;
    status = gather(context, &abstains, all, sizeof(abstains));
    for (i = 0; i < RANKS_MAX; ++i) {
        status = all[i] != 0 ? MSCCLPP_ERR_NOT_SUPPORTED : status;
    }
    if (status == MSCCLPP_OK) {
        status = gather(context, sendbuf, recvbuf, length);
    }
    shortage_left = kept;
    return status;
}

static void set_up(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_team_t *team = NULL;
    traffic_t traffic;
    bool right = false;
    double started;

    rank->gpu = &faulty_gpu_ops;
    rank->oob.post_message = shortage_post_spared;
    rank->oob.allgather = gather_or_abstain;
    meet(rank);
    started = mscclpp_now();
    shortage_happened = false;
    if (rank->rank == plan->culprit || rank->size == plan->culprit) {
        shortage_left = plan->in_exchange ? 0 : plan->nth;
        exchanges_left = plan->in_exchange ? plan->nth : 0;
    }
    plan->created[rank->rank] = try_team(rank, rank->config, &team);
    shortage_left = 0;
    exchanges_left = 0;
    plan->seconds[rank->rank] = mscclpp_now() - started;
    if (shortage_happened) {
        __atomic_store_n(&plan->reached, true, __ATOMIC_RELAXED);
    }
    /* A team that is created although memory was short has to work like any other. */
    if (!meet_any(rank, team == NULL)) {
        traffic_open(&traffic, team, COUNT, USER_DEVICE);
        CHECK_EQ(traffic_call(&traffic, COUNT, &right), MSCCLPP_OK);
        CHECK(right);
        meet(rank);
        traffic_close(&traffic);
    } else {
        mscclpp_team_destroy(team);
    }
}

/*
 * An all-to-all between nodes in which only the two ends of a pair know the size of its block: without memory for all
 * sizes, no rank may be left waiting for this one.
 */
static void exchange_sizes(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_dev_block_t blocks[RANKS_EXCHANGING];
    int32_t in[RANKS_EXCHANGING] = {1, 2, 3}, out[RANKS_EXCHANGING] = {0};
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_ALLTOALLV,
                                      .in = in,
                                      .out = out,
                                      .send = blocks,
                                      .recv = blocks,
                                      .varied = true,
                                      .largest_block = sizeof(in[0]),
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .call = 1};
    mscclpp_team_t *team = create_team(rank);
    double started;
    int i;

    for (i = 0; i < RANKS_EXCHANGING; ++i) {
        blocks[i] = (mscclpp_dev_block_t){(uint64_t)i * sizeof(in[0]), sizeof(in[0])};
    }
    meet(rank);
    started = mscclpp_now();
    shortage_left = rank->rank == plan->culprit ? plan->nth : 0;
    plan->created[rank->rank] = mscclpp_collective(team, &args);
    shortage_left = 0;
    plan->seconds[rank->rank] = mscclpp_now() - started;
    if (plan->created[rank->rank] == MSCCLPP_OK) {
        CHECK(out[0] == rank->rank + 1 && out[1] == rank->rank + 1 && out[2] == rank->rank + 1);
    }
    meet(rank);
    mscclpp_team_destroy(team);
}

static void test_sizes(void)
{
    mscclpp_config_t config;
    plan_t plan;
    int rank, nth;

    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = 60;
    config.ucx = false;
    config.ranks_per_node = 2;
    config.transport = "shm";
    for (nth = 0; nth < 2; ++nth) { /* the first allocation of the call is that for the sizes */
        memset(&plan, 0, sizeof(plan));
        plan.culprit = 1;
        plan.nth = nth;
        CHECK_EQ(run_ranks(RANKS_EXCHANGING, &config, exchange_sizes, &plan), 0);
        for (rank = 0; rank < RANKS_EXCHANGING; ++rank) {
            CHECK_EQ(plan.created[rank] == MSCCLPP_OK, nth == 0);
            CHECK(plan.seconds[rank] < PROMPT);
        }
    }
    mscclpp_team_finalize(1.0);
}

/* The first calls by copy engines, of which the first one sets them up while memory is short on one rank or on all. */
static void use_engines(rank_t *rank)
{
    plan_t *plan = rank->argument;
    mscclpp_team_t *team = create_team(rank);
    traffic_t traffic;
    bool right = false;
    double started;
    int i;

    traffic_open(&traffic, team, COUNT, USER_DEVICE);
    meet(rank);
    started = mscclpp_now();
    shortage_happened = false;
    shortage_left = rank->rank == plan->culprit || rank->size == plan->culprit ? plan->nth : 0;
    plan->created[rank->rank] = traffic_call(&traffic, COUNT, &right);
    shortage_left = 0;
    for (i = 0; i < 2 && plan->created[rank->rank] == MSCCLPP_OK; ++i) {
        CHECK(right);
        CHECK_EQ(traffic_call(&traffic, COUNT, &right), MSCCLPP_OK);
    }
    plan->seconds[rank->rank] = mscclpp_now() - started;
    if (shortage_happened) {
        __atomic_store_n(&plan->reached, true, __ATOMIC_RELAXED);
    }
    meet(rank);
    traffic_close(&traffic);
}

/*
 * A rank that lacks memory in the set-up of engines must not leave the others waiting, in that call or in later ones.
 * Without memory for an engine's description, all ranks go on without engines.
 */
static void test_engines(void)
{
    mscclpp_config_t config;
    int culprit, nth, total = 0, undescribed = 0;
    plan_t plan = {.reached = true};

    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = 60;
    config.ucx = false;
    config.algorithm = "engines";
    for (culprit = 0; culprit <= 2; ++culprit) {
        for (nth = 1, plan.reached = true; nth < NTH_MAX && plan.reached; ++nth) {
            memset(&plan, 0, sizeof(plan));
            plan.culprit = culprit;
            plan.nth = nth;
            log_record_clear();
            CHECK_EQ(run_ranks(2, &config, use_engines, &plan), 0);
            CHECK_EQ(plan.created[0] == MSCCLPP_OK, plan.created[1] == MSCCLPP_OK);
            CHECK(plan.seconds[0] < PROMPT && plan.seconds[1] < PROMPT);
            total += plan.reached;
            if (strstr(log_record_text(), "no memory for their description") != NULL) {
                CHECK_EQ(plan.created[0], MSCCLPP_OK);
                ++undescribed;
            }
        }
    }
    CHECK(total >= 6 && undescribed == 3);
    printf("first call by copy engines: %d allocations failed\n", total);
    mscclpp_team_finalize(1.0);
}

#define CALLS_RENEWED 120

/* Calls of one flag each. In those in which the flags begin again, an allocation of a rank fails. */
static void renew_flags(rank_t *rank)
{
    const plan_t *plan = rank->argument;
    mscclpp_team_t *team = create_team(rank);
    uint64_t epochs = 0;
    int renewals = 0, i;
    bool right = false;
    traffic_t traffic;

    traffic_open(&traffic, team, COUNT, USER_DEVICE);
    CHECK_EQ(traffic_call(&traffic, 1, &right), MSCCLPP_OK);
    for (i = 0; i < CALLS_RENEWED; ++i) {
        shortage_left =
            rank->rank == plan->culprit && team->runner.epochs == rank->config->epoch_limit ? 1 + renewals % 4 : 0;
        CHECK_EQ(traffic_call(&traffic, 1, &right), MSCCLPP_OK);
        CHECK(right);
        renewals += team->runner.epochs < epochs;
        epochs = team->runner.epochs;
        shortage_left = 0;
    }
    CHECK(renewals > 0);
    meet(rank);
    traffic_close(&traffic);
}

static void test_renewals(void)
{
    mscclpp_config_t config;
    plan_t plan = {.culprit = 1};

    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = 60;
    config.ucx = false;
    config.transport = "shm";
    config.epoch_limit = 16;
    for (config.ranks_per_node = 1; config.ranks_per_node <= 2; ++config.ranks_per_node) {
        CHECK_EQ(run_ranks(3, &config, renew_flags, &plan), 0);
    }
    mscclpp_team_finalize(1.0);
}

/* Memory of kernels that is joined with that of the other node. */
typedef struct {
    void *memory;
    mscclpp_fabric_join_t *join;
    mscclpp_dev_port_channel_t channel;
} joined_t;

/* Joins the memory, and returns this rank's own status. *status_p becomes equal on all ranks. */
static mscclpp_status_t join_memory(rank_t *rank, mscclpp_team_t *team, joined_t *joined, mscclpp_status_t *status_p)
{
    const bool peers[2] = {rank->rank == 1, rank->rank == 0};
    const mscclpp_fabric_port_t port = {.peer = 1 - rank->rank};
    const mscclpp_fabric_memory_params_t params = {
        .memory = joined->memory, .bytes = COUNT, .tokens = 1, .peers = peers, .ports = &port, .port_count = 1};
    mscclpp_status_t own_status = MSCCLPP_OK;

    *status_p = mscclpp_fabric_join(team->fabric, &params, MSCCLPP_OK, &joined->channel, &joined->join, &own_status);
    return own_status;
}

/* Makes all objects of kernels of the application that these ranks can have, until one fails. Frees them again. */
static void make_objects(rank_t *rank)
{
    plan_t *plan = rank->argument;
    const int peer = 1 - rank->rank;
    const bool on_one_node = rank->config->ranks_per_node == 0;
    mscclpp_user_t *user = NULL;
    mscclpp_user_memory_t *memory = NULL;
    mscclpp_user_channels_t *ports = NULL, *channels = NULL;
    mscclpp_user_room_t *room = NULL;
    joined_t joined = {.join = NULL};
    mscclpp_team_t *team;
    mscclpp_status_t status, own_status = MSCCLPP_OK;
    double started;

    rank->gpu = &faulty_gpu_ops;
    rank->oob.post_message = shortage_post_spared;
    team = create_team(rank);
    CHECK_EQ(rank->gpu->device_alloc(0, COUNT, &joined.memory), MSCCLPP_OK);
    meet(rank);
    started = mscclpp_now();
    shortage_happened = false;
    shortage_left = rank->rank == plan->culprit || rank->size == plan->culprit ? plan->nth : 0;
    status = mscclpp_user_create(team, rank->config, &user);
    status = status == MSCCLPP_OK ? mscclpp_user_memory_create(user, NULL, COUNT, &memory) : status;
    status = status == MSCCLPP_OK
                 ? mscclpp_user_channels_create(memory, MSCCLPP_USER_PORT_CHANNELS, 1, &peer, 2, &ports)
                 : status;
    if (status == MSCCLPP_OK && on_one_node) {
        status = mscclpp_user_channels_create(memory, MSCCLPP_USER_MEMORY_CHANNELS, 1, &peer, 2, &channels);
    }
    if (status == MSCCLPP_OK && on_one_node) {
        status = mscclpp_user_room_create(user, 2, sizeof(uint64_t), &room);
    }
    if (status == MSCCLPP_OK && !on_one_node) {
        own_status = join_memory(rank, team, &joined, &status);
    }
    shortage_left = 0;
    plan->created[rank->rank] = status;
    plan->seconds[rank->rank] = mscclpp_now() - started;
    CHECK(own_status == MSCCLPP_OK || joined.join == NULL);
    CHECK((status == MSCCLPP_OK && own_status == MSCCLPP_OK) || plan->culprit >= 0);
    if (shortage_happened) {
        __atomic_store_n(&plan->reached, true, __ATOMIC_RELAXED);
    }
    meet(rank);
    mscclpp_fabric_leave(joined.join);
    meet(rank);
    rank->gpu->device_free(0, joined.memory);
    CHECK(room == NULL || mscclpp_user_room_free(room) == MSCCLPP_OK);
    CHECK(channels == NULL || mscclpp_user_channels_free(channels) == MSCCLPP_OK);
    CHECK(ports == NULL || mscclpp_user_channels_free(ports) == MSCCLPP_OK);
    CHECK(memory == NULL || mscclpp_user_memory_free(memory) == MSCCLPP_OK);
    mscclpp_user_end(user);
    mscclpp_team_destroy(team);
    meet(rank);
}

/* Lets one allocation fail while objects are made. All ranks have to end alike. True if there was such an allocation.
 */
static bool fail_objects_once(const mscclpp_config_t *config, int culprit, int nth, long held_before)
{
    const int failed_before = unit_failed;
    plan_t plan = {.culprit = culprit, .nth = nth};

    log_record_clear();
    CHECK_EQ(run_ranks(2, config, make_objects, &plan), 0);
    mscclpp_team_finalize(1.0);
    CHECK_EQ(plan.created[0], plan.created[1]);
    CHECK(plan.seconds[0] < PROMPT && plan.seconds[1] < PROMPT);
    CHECK(plan.reached || plan.created[0] == MSCCLPP_OK);
    (void)mscclpp_mapping_drain();
    mscclpp_stream_drain();
    CHECK_EQ(faulty_held(), 0);
    CHECK_EQ(__atomic_load_n(&shortage_held, __ATOMIC_RELAXED), held_before);
    if (unit_failed != failed_before) {
        fprintf(stderr, "in allocation %d of rank %d, ranks_per_node %d; logged:\n%s", nth, culprit,
                config->ranks_per_node, log_record_text());
    }
    return plan.reached && unit_failed == failed_before;
}

static void test_objects(int ranks_per_node)
{
    plan_t none = {.culprit = -1};
    mscclpp_config_t config;
    int culprit, nth, total = 0;
    long held_before;

    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = 60;
    config.ucx = false;
    config.ranks_per_node = ranks_per_node;
    config.transport = "shm";
    for (nth = 0; nth < 2; ++nth) { /* what is made only once */
        CHECK_EQ(run_ranks(2, &config, make_objects, &none), 0);
        mscclpp_team_finalize(1.0);
        (void)mscclpp_mapping_drain();
        mscclpp_stream_drain();
    }
    CHECK_EQ(none.created[0], MSCCLPP_OK);
    held_before = __atomic_load_n(&shortage_held, __ATOMIC_RELAXED);
    for (culprit = 0; culprit <= 2; ++culprit) {
        for (nth = 1; nth < NTH_MAX && fail_objects_once(&config, culprit, nth, held_before); ++nth) {
        }
        CHECK(nth > 15 && nth < NTH_MAX);
        total += nth - 1;
    }
    printf("objects of the application, %d a node: %d allocations failed\n", ranks_per_node, total);
}

static void keep_functions(rank_t *rank)
{
    if (rank->rank == 0) {
        shortage_post = rank->oob.post_message;
        gather = rank->oob.allgather;
    }
}

static void run_plan(int ranks, const mscclpp_config_t *config, plan_t *plan)
{
    log_record_clear();
    CHECK_EQ(run_ranks(ranks, config, set_up, plan), 0);
    mscclpp_team_finalize(1.0);
}

/* Lets one allocation or exchange fail. True if there was such an allocation or exchange. */
static bool fail_once(int ranks, const mscclpp_config_t *config, int culprit, int nth, bool in_exchange,
                      long held_before)
{
    const int failed_before = unit_failed;
    plan_t plan;
    int rank;

    memset(&plan, 0, sizeof(plan));
    plan.culprit = culprit;
    plan.nth = nth;
    plan.in_exchange = in_exchange;
    run_plan(ranks, config, &plan);
    for (rank = 0; rank < ranks; ++rank) {
        CHECK(plan.created[rank] == MSCCLPP_OK || plan.created[rank] == MSCCLPP_ERR_NOT_SUPPORTED);
        CHECK_EQ(plan.created[rank], plan.created[0]);
        CHECK(plan.seconds[rank] < PROMPT);
    }
    CHECK(plan.reached || plan.created[0] == MSCCLPP_OK);
    CHECK(!plan.reached || !in_exchange || plan.created[0] == MSCCLPP_ERR_NOT_SUPPORTED);
    if (plan.created[0] != MSCCLPP_OK && !in_exchange) {
        /* If several ranks ran out of memory, messages name the first one. */
        for (rank = culprit < ranks ? culprit : 0; culprit == ranks && count_blame(rank) == 0 && rank < ranks; ++rank) {
        }
        CHECK(count_blame(rank) >= ranks);
    }
    CHECK_EQ(faulty_held(), 0);
    CHECK_EQ(__atomic_load_n(&shortage_held, __ATOMIC_RELAXED), held_before);
    if (unit_failed != failed_before) {
        fprintf(stderr, "in %s %d of rank %d of %d, ranks_per_node %d; logged:\n%s",
                in_exchange ? "exchange" : "allocation", nth, culprit, ranks, config->ranks_per_node,
                log_record_text());
    }
    return plan.reached && unit_failed == failed_before;
}

static void test_set_up(int ranks, int ranks_per_node, const char *transport, const char *memory, const char *proxy,
                        int at_least)
{
    mscclpp_config_t config;
    plan_t none;
    long held_before;
    int culprit, nth, total = 0, exchanges = 0;

    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = 60;
    config.ucx = false;
    config.ranks_per_node = ranks_per_node;
    config.transport = transport;
    config.exchange_memory = memory;
    config.proxy = proxy;
    /* The first run makes everything that is made only once. */
    memset(&none, 0, sizeof(none));
    none.culprit = -1;
    run_plan(ranks, &config, &none);
    run_plan(ranks, &config, &none);
    CHECK_EQ(none.created[0], MSCCLPP_OK);
    held_before = __atomic_load_n(&shortage_held, __ATOMIC_RELAXED);
    for (culprit = 0; culprit <= ranks; ++culprit) {
        for (nth = 1; nth < NTH_MAX && fail_once(ranks, &config, culprit, nth, false, held_before); ++nth) {
        }
        CHECK(nth < NTH_MAX);
        CHECK(nth > at_least);
        total += nth - 1;
        for (nth = 1; nth < NTH_MAX && fail_once(ranks, &config, culprit, nth, true, held_before); ++nth) {
        }
        CHECK(nth > 4);
        exchanges += nth - 1;
    }
    printf("%d ranks, %d a node, %s, %s: %d allocations and %d exchanges failed\n", ranks, ranks_per_node, transport,
           proxy, total, exchanges);
}

int main(void)
{
    mscclpp_config_t config;

    unit_begin();
    alarm(300);
    mscclpp_config_init(&config);
    CHECK_EQ(run_ranks(1, &config, keep_functions, NULL), 0);
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_INFO);
    test_sizes();
    test_engines();
    test_renewals();
    test_objects(0);
    test_objects(1);
    test_set_up(3, 0, "auto", "auto", "progress", 8);
    test_set_up(3, 2, "shm", "auto", "progress", 8);
    test_set_up(2, 1, "shm", "device", "thread", 15);
    return unit_end();
}
