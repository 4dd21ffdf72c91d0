/*
 * Early calls, as nonblocking and persistent ones are, on the mapped buffers of all ranks, by kernels and by copy
 * engines: the first one with some buffers exchanges them, and those that pass the same ones again do not. Buffers that
 * are freed, and new ones at their addresses; more buffers than are kept; mappings that are not kept; buffers that
 * nobody can map; small calls. Calls by engines in which a copy fails, or to which a rank does not come.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/gpu/mapping.h"
#include "mca/common/task/collective.h"
#include "mca/common/task/task.h"
#include "mca/common/team/parts.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

enum { COUNT = 9000, SMALL = 4, BLOCK = COUNT / 4 };

static parts_options_t options;

/* Rules by which engines serve collectives that move data. NULL: kernels serve all of them. */
static mscclpp_rules_t *rules;

/* Each rank is a thread here; this is what it has if it is a process. */
static mscclpp_admission_t admissions[MSCCLPP_DEV_MAX_RANKS];

/* A team, with an operand and a result. */
typedef struct {
    rank_t *rank;
    mscclpp_team_t *team;
    int32_t *in, *out;
    uint64_t calls;
    int shift;     /* of the places of blocks that differ in size */
    bool prepares; /* before each call, as the function does that makes a persistent request */
} known_t;

static void configure(mscclpp_config_t *config)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->twin_blocks = 2;
    config->twin_threads = 1;
    config->timeout = options.timeout;
    config->ucx = false;
}

static int32_t *make_buffer(const rank_t *rank)
{
    void *address = NULL;

    REQUIRE(rank->gpu->device_alloc(0, sizeof(int32_t) * COUNT, &address) == MSCCLPP_OK);
    return address;
}

static void open_known(rank_t *rank, known_t *known)
{
    rank->admission = &admissions[rank->rank];
    rank->rules = rules;
    *known = (known_t){.rank = rank, .team = create_team(rank), .in = make_buffer(rank), .out = make_buffer(rank)};
    REQUIRE(known->team != NULL);
}

static void close_known(known_t *known)
{
    meet(known->rank);
    mscclpp_team_destroy(known->team);
    meet(known->rank);
    known->rank->gpu->device_free(0, known->in);
    known->rank->gpu->device_free(0, known->out);
}

/*
 * Makes an early all-reduce, and checks its result, which algorithm served it, and how many exchanges and meetings the
 * hosts needed.
 */
static void sum(known_t *known, int count, const char *algorithm, uint64_t exchanges, uint64_t meetings)
{
    const mscclpp_group_t *group = &known->team->group;
    const int32_t n = known->rank->size, call = (int32_t)++known->calls;
    const mscclpp_allreduce_args_t args = {.sendbuf = known->in,
                                           .recvbuf = known->out,
                                           .count = (uint64_t)count,
                                           .dtype = MSCCLPP_DTYPE_INT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = known->calls,
                                           .early = true};
    mscclpp_allreduce_args_t prepared = args;
    uint64_t exchanges_before, arrivals_before;
    int wrong = 0;

    if (known->prepares) {
        prepared.call = 0;
        CHECK_EQ(mscclpp_allreduce_prepare(known->team, &prepared), MSCCLPP_OK);
    }
    exchanges_before = group->exchanges;
    arrivals_before = group->arrivals;

    for (int k = 0; k < count; ++k) {
        known->in[k] = 100 * call + k + known->rank->rank;
        known->out[k] = -1;
    }
    CHECK_EQ(mscclpp_allreduce(known->team, &args), MSCCLPP_OK);
    for (int k = 0; k < count; ++k) {
        wrong += known->out[k] != n * (100 * call + k) + n * (n - 1) / 2;
    }
    CHECK_EQ(wrong, 0);
    CHECK(strcmp(mscclpp_team_last_algorithm(known->team), algorithm) == 0);
    CHECK_EQ(group->exchanges - exchanges_before, exchanges);
    CHECK_EQ(group->arrivals - arrivals_before, meetings);
}

/* Number `k` of the block that rank `from` sends to rank `to`. */
static int32_t number_of(int from, int to, int k, uint64_t call)
{
    return (int32_t)(call * 1000) + 100 * from + 10 * to + k;
}

/*
 * Makes an early all-to-all, of blocks that differ in size if `varied`, or an all-gather. In the former, each rank's
 * output has the blocks in an order of its own. Checks the same as `sum` does. Engines never need a slot, and their
 * calls end with one more meeting, which counts as an exchange.
 *
 * Another rank comes late to each call, and only then makes its output ready.
 */
static void move(known_t *known, mscclpp_coll_t coll, bool repeated, const char *algorithm, uint64_t exchanges)
{
    const mscclpp_group_t *group = &known->team->group;
    const int n = known->rank->size, own = known->rank->rank;
    const bool varied = coll == MSCCLPP_COLL_ALLTOALLV, gathers = coll == MSCCLPP_COLL_ALLGATHER;
    mscclpp_dev_block_t send[MSCCLPP_DEV_MAX_RANKS], recv[MSCCLPP_DEV_MAX_RANKS];
    const mscclpp_coll_args_t args = {.coll = coll,
                                      .in = known->in,
                                      .out = known->out,
                                      .count = BLOCK,
                                      .varied = varied,
                                      .send = varied ? send : NULL,
                                      .recv = varied ? recv : NULL,
                                      .largest_block = BLOCK * sizeof(int32_t),
                                      .is_size_known = true,
                                      .dtype = varied ? MSCCLPP_DTYPE_UINT8 : MSCCLPP_DTYPE_INT32,
                                      .early = true,
                                      .repeated = repeated,
                                      .call = ++known->calls};
    const uint64_t ends = strcmp(algorithm, "engines") == 0;
    mscclpp_coll_args_t prepared = args;
    uint64_t exchanges_before;
    int wrong = 0;

    for (int peer = 0; peer < n; ++peer) {
        const uint64_t bytes = BLOCK * sizeof(int32_t), place = (uint64_t)((own + peer + known->shift) % n);

        send[peer] = (mscclpp_dev_block_t){.offset = (uint64_t)peer * bytes, .bytes = bytes};
        recv[peer] = (mscclpp_dev_block_t){.offset = place * bytes, .bytes = bytes};
        for (int k = 0; k < BLOCK; ++k) {
            known->in[peer * BLOCK + k] = number_of(own, gathers ? 0 : peer, k, known->calls);
        }
    }
    if (known->prepares) {
        prepared.call = 0;
        CHECK_EQ(mscclpp_collective_prepare(known->team, &prepared), MSCCLPP_OK);
    }
    exchanges_before = group->exchanges;
    if (known->calls % (uint64_t)n == (uint64_t)own) {
        jitter_sleep(&(uint64_t){known->calls}, 2000);
    }
    for (int k = 0; k < n * BLOCK; ++k) {
        known->out[k] = -1;
    }
    CHECK_EQ(mscclpp_collective(known->team, &args), MSCCLPP_OK);
    for (int peer = 0; peer < n; ++peer) {
        const int place = varied ? (own + peer + known->shift) % n : peer;

        for (int k = 0; k < BLOCK; ++k) {
            wrong += known->out[place * BLOCK + k] != number_of(peer, gathers ? 0 : own, k, known->calls);
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK(strcmp(mscclpp_team_last_algorithm(known->team), algorithm) == 0);
    CHECK(!group->has_slot);
    CHECK_EQ(group->exchanges - exchanges_before, exchanges + ends);
}

/*
 * Makes a large early call of the kind that the test is for, which exchanges the buffers if `exchanges` is set. If they
 * cannot be mapped (`refused`), it goes through the scratch.
 */
static void use(known_t *known, bool refused, bool exchanges)
{
    if (rules != NULL) {
        move(known, MSCCLPP_COLL_ALLGATHER, false, refused ? "scratch" : "engines", exchanges);
    } else {
        sum(known, COUNT, refused ? "scratch" : "zerocopy", exchanges, 1 + exchanges);
    }
}

/* By turns with small calls, which neither exchange anything nor make the ranks meet more than once. */
static void repeat(rank_t *rank)
{
    known_t known;

    open_known(rank, &known);
    sum(&known, COUNT, "zerocopy", 1, 2);
    for (int turn = 0; turn < 4; ++turn) {
        sum(&known, SMALL, "oneshot", 0, 1);
        sum(&known, COUNT - turn, "zerocopy", 0, 1);
    }
    close_known(&known);
}

/* A table of functions by which allocations of some ranks have other numbers, as if they had been made anew. */
static mscclpp_gpu_ops_t renumbering_ops;
static const int32_t *renumbered; /* the buffer whose allocation has another number */

static uint64_t identify_other(const void *address)
{
    const uint64_t number = mscclpp_gpu_twin_ops.identify(address);

    return address == __atomic_load_n(&renumbered, __ATOMIC_RELAXED) ? number + 1000000 : number;
}

/*
 * A buffer of one rank has been freed, and another one is at its address: the peers have not mapped that one. Engines
 * of peers do not read the input, so it may be another.
 */
static void replace_buffers(rank_t *rank)
{
    known_t known;

    rank->gpu = &renumbering_ops;
    open_known(rank, &known);
    use(&known, false, true);
    for (int turn = 0; turn < 2 * rank->size; ++turn) {
        meet(rank);
        if (turn / 2 == rank->rank) {
            __atomic_store_n(&renumbered, turn % 2 == 0 ? known.in : known.out, __ATOMIC_RELAXED);
        }
        meet(rank);
        use(&known, false, rules == NULL || turn % 2 == 1);
        meet(rank);
        __atomic_store_n(&renumbered, NULL, __ATOMIC_RELAXED);
        meet(rank);
        use(&known, false, false);
    }
    close_known(&known);
}

/* Only the last MSCCLPP_RUNNER_KNOWN pairs of buffers are kept. On one rank, all results are in one buffer. */
static void use_many(rank_t *rank)
{
    enum { PAIRS = MSCCLPP_RUNNER_KNOWN + 1 };
    int32_t *outs[PAIRS];
    known_t known;

    open_known(rank, &known);
    outs[0] = known.out;
    for (int pair = 1; pair < PAIRS; ++pair) {
        outs[pair] = make_buffer(rank);
    }
    for (int turn = 0; turn < 2 * PAIRS; ++turn) {
        known.out = outs[turn % PAIRS];
        use(&known, false, true);
    }
    for (int turn = 0; turn < 2 * PAIRS; ++turn) { /* the last two by turns */
        known.out = outs[PAIRS - 1 - turn % 2];
        use(&known, false, false);
    }
    /* The ranks know these buffers, but not from one exchange. */
    known.out = outs[rank->rank == 0 ? PAIRS - 1 : PAIRS - 2];
    use(&known, false, true);
    use(&known, false, false);
    meet(rank);
    for (int pair = 1; pair < PAIRS; ++pair) {
        rank->gpu->device_free(0, outs[pair]);
    }
    known.out = outs[0];
    close_known(&known);
}

/* The mappings are closed between calls, as they are where too many are kept, so each call exchanges the buffers. */
static void keep_none(rank_t *rank)
{
    known_t known;

    open_known(rank, &known);
    for (int turn = 0; turn < 4; ++turn) {
        meet(rank);
        mscclpp_runner_release_mappings(&known.team->runner, false);
        (void)mscclpp_mapping_drain();
        meet(rank);
        use(&known, false, true);
    }
    close_known(&known);
}

/*
 * A rank's result lies where no peer can map it. After each failure, more calls go through the scratch without an
 * exchange: 1, 2, 4 and so on. Once the buffers can be mapped, they are.
 */
static void refuse(rank_t *rank)
{
    int32_t *shared, *private = malloc(sizeof(int32_t) * COUNT);
    known_t known;

    open_known(rank, &known);
    shared = known.out;
    known.out = rank->rank == 0 ? private : shared;
    for (int failure = 0; failure < 3; ++failure) {
        use(&known, true, true);
        for (int call = 0; call < 1 << failure; ++call) {
            known.out = failure == 2 ? shared : known.out;
            use(&known, true, false);
        }
    }
    use(&known, false, true);
    use(&known, false, false);
    known.out = rank->rank == 0 ? private : shared;
    use(&known, true, true);
    known.out = shared;
    use(&known, true, false);
    use(&known, false, false);
    close_known(&known);
    free(private);
}

/* With the parameter zerocopy set to 0, nothing is mapped. */
static void map_nothing(rank_t *rank)
{
    known_t known;

    open_known(rank, &known);
    for (int turn = 0; turn < 3; ++turn) {
        use(&known, true, false);
    }
    close_known(&known);
}

/* The collectives that share only their outputs know one another's buffers. */
static void move_blocks(rank_t *rank)
{
    const char *const algorithm = rules != NULL ? "engines" : "zerocopy";
    known_t known;

    open_known(rank, &known);
    move(&known, MSCCLPP_COLL_ALLGATHER, false, algorithm, 1);
    move(&known, MSCCLPP_COLL_ALLTOALL, false, algorithm, 0);
    move(&known, MSCCLPP_COLL_ALLGATHER, false, algorithm, 0);
    for (int turn = 0; turn < 3; ++turn) { /* any call may have other places */
        move(&known, MSCCLPP_COLL_ALLTOALLV, false, algorithm, 1);
    }
    close_known(&known);
    open_known(rank, &known);
    for (int turn = 0; turn < 3; ++turn) {
        move(&known, MSCCLPP_COLL_ALLTOALLV, true, algorithm, turn == 0);
    }
    close_known(&known);
}

/*
 * Persistent requests exchange their buffers as they are made, so that the first start needs no exchange. One whose
 * buffers cannot be mapped tries again as it is started.
 */
static void prepare(rank_t *rank)
{
    static const mscclpp_coll_t colls[] = {MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_ALLTOALL, MSCCLPP_COLL_ALLTOALLV};
    const char *const algorithm = rules != NULL ? "engines" : "zerocopy";
    int32_t *shared, *private = malloc(sizeof(int32_t) * COUNT);
    known_t known;

    for (int i = 0; i < 3; ++i) {
        open_known(rank, &known);
        known.prepares = true;
        move(&known, colls[i], true, algorithm, 0);
        known.prepares = false;
        move(&known, colls[i], true, algorithm, 0);
        close_known(&known);
    }
    open_known(rank, &known);
    known.prepares = true;
    sum(&known, COUNT, "zerocopy", 0, 1);
    sum(&known, SMALL, "oneshot", 0, 1);
    close_known(&known);
    open_known(rank, &known);
    shared = known.out;
    known.prepares = true;
    known.out = rank->rank == 0 ? private : shared;
    move(&known, MSCCLPP_COLL_ALLGATHER, true, "scratch", 1);
    known.out = shared;
    close_known(&known);
    free(private);
}

/*
 * A team is taken over by another request, which has the same buffers, and its blocks at other places there. What the
 * first request's team knows of the buffers must not serve the second one.
 */
static void take_over(rank_t *rank)
{
    const char *const algorithm = rules != NULL ? "engines" : "zerocopy";
    known_t known;

    rank->reuse = true;
    open_known(rank, &known);
    move(&known, MSCCLPP_COLL_ALLTOALLV, true, algorithm, 1);
    meet(rank);
    mscclpp_team_destroy(known.team);
    known.team = create_team(rank);
    REQUIRE(known.team != NULL);
    CHECK(known.team->group.exchanges > 0); /* it is the same team */
    known.shift = 1;
    move(&known, MSCCLPP_COLL_ALLTOALLV, true, algorithm, 1);
    close_known(&known);
}

/* Makes an early all-gather that is to fail on every rank. */
static void gather_in_vain(known_t *known)
{
    const mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_ALLGATHER,
                                      .in = known->in,
                                      .out = known->out,
                                      .count = BLOCK,
                                      .largest_block = BLOCK * sizeof(int32_t),
                                      .is_size_known = true,
                                      .dtype = MSCCLPP_DTYPE_INT32,
                                      .early = true,
                                      .call = ++known->calls};

    CHECK(mscclpp_collective(known->team, &args) < 0);
    CHECK(mscclpp_team_broken(known->team));
}

/* A table of functions by which a copy by engines fails. */
static mscclpp_gpu_ops_t failing_ops;

static mscclpp_status_t put_in_vain(mscclpp_gpu_stream_t *stream, void *to, const void *from, size_t size)
{
    (void)stream;
    (void)to;
    (void)from;
    (void)size;
    return MSCCLPP_ERR_DEVICE;
}

/* The copies of one rank fail in a call with known buffers, while those of the others go on. */
static void fail_copies(rank_t *rank)
{
    known_t known;

    open_known(rank, &known);
    use(&known, false, true);
    use(&known, false, false);
    if (rank->rank == 1) {
        known.team->runner.gpu = &failing_ops;
    }
    gather_in_vain(&known);
    known.team->runner.gpu = rank->gpu;
    close_known(&known);
}

/* A rank comes only when the others have given up. */
static void miss_call(rank_t *rank)
{
    known_t known;

    open_known(rank, &known);
    use(&known, false, true);
    use(&known, false, false);
    if (rank->rank != 1) {
        gather_in_vain(&known);
    }
    meet(rank);
    if (rank->rank == 1) {
        gather_in_vain(&known);
    }
    close_known(&known);
}

/* Runs a test with two ranks and with four. */
static void run_each(const mscclpp_config_t *config, void (*body)(rank_t *rank))
{
    jitter_set(5, 1000);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        CHECK_EQ(run_ranks(ranks, config, body, NULL), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

static void test_repeated(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config);
    run_each(&config, repeat);
    run_each(&config, use_many);
    run_each(&config, move_blocks);
    run_each(&config, prepare);
    run_each(&config, take_over);
}

static void test_replaced(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config);
    renumbering_ops = mscclpp_gpu_twin_ops;
    renumbering_ops.identify = identify_other;
    run_each(&config, replace_buffers);
}

static void test_limited(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config);
    run_each(&config, keep_none);
}

static void test_refused(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    configure(&config);
    run_each(&config, refuse);
    config.zerocopy = false;
    run_each(&config, map_nothing);
}

/* The same with collectives that engines move. */
static void test_engines(int scale)
{
    static const mscclpp_coll_t colls[] = {MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_ALLTOALL, MSCCLPP_COLL_ALLTOALLV};
    const mscclpp_rule_set_t all = {.count = 1, .rules = {{.bytes = UINT64_MAX, .algorithm = MSCCLPP_COLL_BY_ENGINES}}};
    mscclpp_config_t config;

    rules = mscclpp_rules_create();
    REQUIRE(rules != NULL);
    for (int i = 0; i < 3; ++i) {
        REQUIRE(mscclpp_rules_replace_coll(rules, colls[i], 2, 1, true, &all));
        REQUIRE(mscclpp_rules_replace_coll(rules, colls[i], 4, 1, true, &all));
    }
    test_repeated(scale);
    test_replaced(scale);
    test_limited(scale);
    test_refused(scale);
    configure(&config);
    failing_ops = mscclpp_gpu_twin_ops;
    failing_ops.put = put_in_vain;
    unit_expect_log();
    run_each(&config, fail_copies);
    config.timeout = 1;
    run_each(&config, miss_call);
    CHECK_EQ(unit_logged(), 4); /* the lowest rank that notices says it, in each run */
    mscclpp_rules_destroy(rules);
    rules = NULL;
}

static const part_t parts[] = {{"repeated", test_repeated}, {"replaced", test_replaced}, {"limited", test_limited},
                               {"refused", test_refused},   {"engines", test_engines},   {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    for (int i = 0; i < MSCCLPP_DEV_MAX_RANKS; ++i) {
        mscclpp_admission_init(&admissions[i]);
    }
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
