/*
 * The bound of the fan-out between nodes (nodes_fanout): while all other nodes are late, a node sends to as many of
 * them as the bound says, and to no more. So no more nodes than that send to one that is late. Ranks are threads.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "mca/common/fabric/internal.h"
#include "mca/common/setup/setup.h"
#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "test/host/rank_threads.h"
#include "test/host/traffic.h"
#include "test/unit/unit.h"

#define NODES 6
#define BYTES 3000     /* of a block, which is too large for packets */
#define PATIENCE 20.0  /* seconds that the early rank has on a busy machine */
#define LINGER 20000   /* microseconds in which it could send more than it may */
#define ALLREDUCE (-1) /* in place of a collective's number */

typedef struct {
    int coll; /* mscclpp_coll_t or ALLREDUCE */
    const char *name;
    unsigned watched;     /* how often a late rank has seen enough */
    uint64_t sent[NODES]; /* messages that have come from the early rank, by receiver */
} plan_t;

/* The messages that have come from a node in all calls so far. */
static uint64_t count_from(const mscclpp_fabric_t *fabric, int node)
{
    const uint64_t *tokens = fabric->tokens.host;
    uint64_t sum = 0;
    uint32_t block;

    for (block = 0; block < MSCCLPP_DEV_NODES_BLOCKS_OF(NODES); ++block) {
        sum += __atomic_load_n(&tokens[MSCCLPP_DEV_NODES_TOKEN(NODES, block, (uint32_t)node)], __ATOMIC_RELAXED);
    }
    return sum;
}

/* Byte i of the block that one rank has for another. */
static char byte_of(int sender, int receiver, int i)
{
    return (char)(7 * sender + 31 * receiver + i);
}

static void call_coll(const rank_t *rank, const plan_t *plan, traffic_t *traffic)
{
    static char in[NODES][NODES * BYTES], out[NODES][NODES * BYTES];
    const bool to_all = plan->coll == MSCCLPP_COLL_ALLGATHER;
    const mscclpp_coll_args_t args = {.coll = (mscclpp_coll_t)plan->coll,
                                      .in = in[rank->rank],
                                      .out = out[rank->rank],
                                      .is_size_known = true,
                                      .count = BYTES,
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .call = ++traffic->call};
    int other, i, wrong = 0;

    for (other = 0; other < (to_all ? 1 : NODES); ++other) {
        for (i = 0; i < BYTES; ++i) {
            in[rank->rank][other * BYTES + i] = byte_of(rank->rank, to_all ? 0 : other, i);
        }
    }
    CHECK_EQ(mscclpp_collective(traffic->team, &args), MSCCLPP_OK);
    for (other = 0; other < NODES; ++other) {
        for (i = 0; i < BYTES; ++i) {
            wrong += out[rank->rank][other * BYTES + i] != byte_of(other, to_all ? 0 : rank->rank, i);
        }
    }
    CHECK_EQ(wrong, 0);
}

static void call(const rank_t *rank, const plan_t *plan, traffic_t *traffic)
{
    bool right = false;

    if (plan->coll == ALLREDUCE) {
        CHECK_EQ(traffic_call(traffic, BYTES, &right), MSCCLPP_OK);
        CHECK(right);
    } else {
        call_coll(rank, plan, traffic);
    }
    CHECK_TEXT(mscclpp_team_last_algorithm(traffic->team), plan->name);
}

/* What all late ranks together have received. */
static uint64_t sum_up(plan_t *plan)
{
    uint64_t sum = 0;
    int rank;

    for (rank = 0; rank < NODES; ++rank) {
        sum += __atomic_load_n(&plan->sent[rank], __ATOMIC_RELAXED);
    }
    return sum;
}

/* Waits until the early rank has sent what it may, and then for more. */
static void watch(const rank_t *rank, plan_t *plan, const traffic_t *traffic, int early, uint64_t before)
{
    const uint64_t fanout = (uint64_t)rank->config->nodes_fanout;
    const uint64_t most = fanout < NODES - 1 ? fanout : NODES - 1;
    const double started = mscclpp_now();
    int looks;

    for (looks = 0; looks < 2; ++looks) {
        do {
            __atomic_store_n(&plan->sent[rank->rank], count_from(traffic->team->fabric, early) - before,
                             __ATOMIC_RELAXED);
            usleep(100);
        } while (sum_up(plan) < most && mscclpp_now() - started < PATIENCE);
        if (looks == 0) {
            usleep(LINGER);
        }
    }
    CHECK_EQ(sum_up(plan), most);
    /* The early rank may go on once one of the others comes. */
    __atomic_fetch_add(&plan->watched, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&plan->watched, __ATOMIC_RELAXED) % (NODES - 1) != 0) {
        usleep(100);
    }
}

static void run_on(rank_t *rank)
{
    plan_t *plan = rank->argument;
    traffic_t traffic;
    int early;

    traffic_open(&traffic, create_team(rank), BYTES, USER_DEVICE);
    call(rank, plan, &traffic);
    for (early = 0; early < NODES; early += NODES - 1) {
        uint64_t before;

        meet(rank);
        before = count_from(traffic.team->fabric, early);
        plan->sent[rank->rank] = 0;
        meet(rank);
        if (rank->rank != early) {
            watch(rank, plan, &traffic, early, before);
        }
        call(rank, plan, &traffic);
    }
    meet(rank);
    traffic_close(&traffic);
}

static void test_fanout(int coll, const char *name, int fanout)
{
    const int failed_before = unit_failed;
    mscclpp_config_t config;
    plan_t plan = {.coll = coll, .name = name};

    mscclpp_config_init(&config);
    config.algorithm = coll == ALLREDUCE ? name : "auto";
    config.alltoall_algorithm = config.allgather_algorithm = "nodes";
    config.nodes_packets_max = 1;
    config.nodes_fanout = fanout;
    config.twin_blocks = config.twin_threads = 1;
    config.scratch_size = (size_t)1 << 20;
    config.exchange_size = (size_t)16 << 20; /* so that each call has one tile */
    config.timeout = 60;
    config.warn_after = 0;
    config.ucx = false;
    config.transport = "shm";
    config.ranks_per_node = 1;
    CHECK_EQ(run_ranks(NODES, &config, run_on, &plan), 0);
    mscclpp_team_finalize(1.0);
    if (unit_failed != failed_before) {
        fprintf(stderr, "%s, collective %d, fan-out %d\n", name, coll, fanout);
    }
}

int main(void)
{
    static const int fanouts[] = {1, 2, 4, 64};
    size_t i;

    unit_begin();
    for (i = 0; i < sizeof(fanouts) / sizeof(fanouts[0]); ++i) {
        test_fanout(MSCCLPP_COLL_ALLTOALL, "nodes", fanouts[i]);
        test_fanout(MSCCLPP_COLL_ALLGATHER, "nodes", fanouts[i]);
        test_fanout(ALLREDUCE, "nodes", fanouts[i]);
        test_fanout(ALLREDUCE, "nodes_split", fanouts[i]);
    }
    return unit_end();
}
