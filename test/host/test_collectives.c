/*
 * Every collective but all-reduce on the twin: each two values of its arguments, algorithms, ranks and grids, and calls
 * back to back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/types/nodes.h"
#include "mca/common/base/clock.h"
#include "mca/common/run/linger.h"
#include "mca/common/team/parts.h"
#include "test/host/coll_end.h"
#include "test/host/covering.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/unit/unit.h"

#define SCRATCH_SIZE ((size_t)1 << 20)
#define MOST_RANKS 9

static const struct {
    int blocks;
    int threads;
} grids[] = {{1, 1}, {1, 3}, {2, 2}, {3, 4}, {2, 8}};

#define GRIDS ((int)(sizeof(grids) / sizeof(grids[0])))

/*
 * How nodes are imitated: values of ranks_per_node. A node has consecutive ranks, or, if the value is negative, ranks
 * that are dealt out. In the matrix of several nodes these shapes take the place of the algorithms.
 */
static const int node_shapes[] = {1, 2, 3, 5, -2, -3};

#define SHAPES ((int)(sizeof(node_shapes) / sizeof(node_shapes[0])))

static bool over_nodes; /* the current matrix is that of several nodes */

static parts_options_t options;
static uint64_t base_seed = 1;

/* The dimensions of the matrix. */
enum {
    BY_COLL,
    BY_ALGO,
    BY_RANKS,
    BY_GRID,
    BY_SIZE,
    BY_DTYPE,
    BY_OP,
    BY_PLACE,
    BY_IN,
    BY_OUT,
    BY_ROOT,
    BY_KIND,
    BY_LAYOUT,
    BY_SERVED, /* follows from the others */
    DIMS
};

static const char *const dim_names[DIMS] = {"collective", "algorithm", "ranks",  "grid", "size", "type",   "operation",
                                            "place",      "input",     "output", "root", "kind", "layout", "served"};

static void choice_of(const int *row, case_choice_t *choice)
{
    choice->coll = row[BY_COLL];
    choice->algo = over_nodes ? CASE_AUTO : row[BY_ALGO];
    choice->nodes = over_nodes ? node_shapes[row[BY_ALGO]] : 0;
    choice->ranks = row[BY_RANKS] + 1;
    choice->blocks = grids[row[BY_GRID]].blocks;
    choice->threads = grids[row[BY_GRID]].threads;
    choice->size = row[BY_SIZE];
    choice->dtype = row[BY_DTYPE];
    choice->op = row[BY_OP];
    choice->place = row[BY_PLACE];
    choice->in_align = row[BY_IN];
    choice->out_align = row[BY_OUT];
    choice->root = row[BY_ROOT];
    choice->kind = row[BY_KIND];
    choice->layout = row[BY_LAYOUT];
}

/* The seed of a row's case. It has 32 bits, so that a user can type it again. */
static uint64_t seed_of(const int *row)
{
    uint64_t seed = base_seed;
    int i;

    for (i = 0; i < BY_SERVED; ++i) {
        seed = random_mix(seed, (uint64_t)(row[i] + 2));
    }
    return seed & 0xffffffffu;
}

/* Takes out dimensions without a part in the row, chooses an operation that the type has, and fills in what serves. */
static void settle(const void *context, int *row)
{
    const bool one_grid = context == NULL;
    case_choice_t choice;
    case_t c;

    if (!case_combines(row[BY_COLL])) {
        row[BY_DTYPE] = row[BY_OP] = -1;
    }
    while (row[BY_OP] >= 0 && !mscclpp_dev_supports((mscclpp_dtype_t)row[BY_DTYPE], (mscclpp_op_t)row[BY_OP], true)) {
        row[BY_OP] = (row[BY_OP] + 1) % MSCCLPP_OP_LAST;
    }
    row[BY_PLACE] = case_knows_in_place(row[BY_COLL]) ? row[BY_PLACE] : -1;
    row[BY_ROOT] = case_has_root(row[BY_COLL]) && row[BY_RANKS] > 0 ? row[BY_ROOT] : -1;
    row[BY_LAYOUT] = case_varies(row[BY_COLL]) ? row[BY_LAYOUT] : -1;
    /* One grid for each algorithm and number of ranks, so that all grids get equally many. */
    row[BY_GRID] = one_grid ? (row[BY_ALGO] + row[BY_RANKS]) % GRIDS : row[BY_GRID];
    choice_of(row, &choice);
    case_draw(&choice, seed_of(row), SCRATCH_SIZE, &c);
    row[BY_SERVED] = c.served;
    case_free(&c);
}

static const covering_t matrix = {
    .dims = DIMS,
    .values = {MSCCLPP_COLL_NEIGHBORS, CASE_ALGOS, MOST_RANKS, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST,
               PLACES, ALIGNS, ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_NOTHING + 1},
    .settle = settle,
};

static const covering_t nodes_matrix = {
    .dims = DIMS,
    .values = {MSCCLPP_COLL_NEIGHBORS, SHAPES, MOST_RANKS, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES,
               ALIGNS, ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_BY_NODES + 1},
    .settle = settle,
};

/* Cases vary the number of tiles, what drives the proxy, and the size of the FIFO, which is then often full. */
static void configure_nodes(mscclpp_config_t *config, const case_choice_t *choice)
{
    const int draw = choice->ranks + choice->nodes + 64, per = choice->nodes;
    const int nodes = per > 0 ? (choice->ranks + per - 1) / per : choice->ranks < -per ? choice->ranks : -per;
    const size_t slots = (size_t)MSCCLPP_DEV_NODES_SLOTS(nodes);

    config->ranks_per_node = choice->nodes;
    config->transport = "shm";
    config->exchange_size = slots * (draw % 2 == 0 ? 5000 : 40000);
    config->proxy = draw % 3 == 0 ? "thread" : "progress";
    config->fifo_size = draw % 5 == 0 ? 2 : 512;
}

static void configure(mscclpp_config_t *config, const case_choice_t *choice)
{
    mscclpp_config_init(config);
    config->scratch_size = SCRATCH_SIZE;
    config->twin_blocks = choice->blocks;
    config->twin_threads = choice->threads;
    config->timeout = options.timeout;
    config->ucx = false;
    if (choice->nodes != 0) {
        configure_nodes(config, choice);
    }
#define FORCE(id_, name_, pattern_) config->name_##_algorithm = case_algos[choice->algo];
    MSCCLPP_COLLS(FORCE)
#undef FORCE
}

/* The twin's runtime, except that copies in streams end later than their calls, as on GPUs. */
static mscclpp_gpu_ops_t late_copies;

/* Cases that one team runs. */
typedef struct {
    const case_choice_t *choices;
    const uint64_t *seeds;
    int count;
    coll_images_t images;
} group_t;

/* An all-reduce between other calls, because all of them share the memory of exchanges between nodes. */
static void all_reduce(coll_end_t *end, uint64_t seed)
{
    const size_t count = 1 + (size_t)(seed % 4000);
    int32_t *values = calloc(count, sizeof(*values));
    const mscclpp_allreduce_args_t args = {.sendbuf = values,
                                           .recvbuf = values,
                                           .count = count,
                                           .dtype = MSCCLPP_DTYPE_INT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = ++end->call};
    const int32_t n = end->rank->size;
    bool good = true;
    size_t i;

    REQUIRE(values != NULL);
    for (i = 0; i < count; ++i) {
        values[i] = (int32_t)i + end->rank->rank;
    }
    good = mscclpp_allreduce(end->team, &args) == MSCCLPP_OK;
    for (i = 0; i < count && good; ++i) {
        good = values[i] == n * (int32_t)i + n * (n - 1) / 2;
    }
    if (!good) {
        fprintf(stderr, "FAIL an all-reduce of %zu integers between other calls\n", count);
        ++end->rank->failures;
    }
    free(values);
}

static void run_group_on(rank_t *rank)
{
    group_t *group = rank->argument;
    coll_end_t end;
    int i;

    rank->gpu = &late_copies;
    coll_end_open(&end, rank, create_team(rank), case_largest(SCRATCH_SIZE, rank->size));
    for (i = 0; i < group->count && end.team != NULL; ++i) {
        case_t c;

        case_draw(&group->choices[i], group->seeds[i], SCRATCH_SIZE, &c);
        coll_case_fill(&c, rank->rank, group->images.in[rank->rank], group->images.out[rank->rank]);
        meet(rank);
        if (c.choice.nodes != 0 && group->seeds[i] % 3 == 0) {
            all_reduce(&end, group->seeds[i]);
        }
        (void)coll_end_call(&end, &c, &group->images);
        case_free(&c);
        /* After an error the team is useless. After a wrong result one report is enough. */
        if (meet_any(rank, rank->failures != 0)) {
            break;
        }
    }
    coll_end_close(&end);
}

static void run_group(const case_choice_t *choices, const uint64_t *seeds, int count)
{
    const int ranks = choices[0].ranks;
    group_t group = {choices, seeds, count, {{NULL}, {NULL}}};
    mscclpp_config_t config;

    configure(&config, &choices[0]);
    coll_images_create(&group.images, ranks, case_largest(SCRATCH_SIZE, ranks));
    CHECK_EQ(run_ranks(ranks, &config, run_group_on, &group), 0);
    mscclpp_team_finalize(1.0);
    coll_images_destroy(&group.images);
}

static int compare_teams(const void *a, const void *b)
{
    static const int order[] = {BY_ALGO, BY_RANKS, BY_GRID};
    const int *x = a, *y = b;
    int i, difference = 0;

    for (i = 0; i < 3 && difference == 0; ++i) {
        difference = x[order[i]] - y[order[i]];
    }
    return difference;
}

/* Runs rows. Rows that one team can run are run together. */
static void run_rows(int (*rows)[COVERING_DIMS], int count)
{
    case_choice_t *choices = calloc((size_t)count + 1, sizeof(*choices));
    uint64_t *seeds = calloc((size_t)count + 1, sizeof(*seeds));
    int i, first = 0;

    REQUIRE(choices != NULL && seeds != NULL);
    qsort(rows, (size_t)count, sizeof(*rows), compare_teams);
    for (i = 0; i < count; ++i) {
        choice_of(rows[i], &choices[i]);
        seeds[i] = seed_of(rows[i]);
    }
    for (i = 1; i <= count; ++i) {
        if (i == count || compare_teams(rows[i - 1], rows[i]) != 0) {
            run_group(&choices[first], &seeds[first], i - first);
            first = i;
        }
    }
    free(choices);
    free(seeds);
}

static void run_matrix(const covering_t *covering)
{
    const double started = mscclpp_now();
    covering_result_t result;

    over_nodes = covering == &nodes_matrix;
    covering_build(covering, base_seed, &result);
    printf("%d cases cover %d pairs, %d others cannot be; %.1f s\n", result.count, result.pairs, result.impossible,
           mscclpp_now() - started);
    run_rows(result.rows, result.count);
    printf("%.1f s\n", mscclpp_now() - started);
    free(result.rows);
}

static void test_matrix(int scale)
{
    (void)scale;
    run_matrix(&matrix);
}

static void test_nodes(int scale)
{
    (void)scale;
    run_matrix(&nodes_matrix);
    printf("%d calls by packets\n", coll_end_packets);
    CHECK(coll_end_packets > 0);
}

/* ---- Calls back to back over several nodes, or by lingering kernels, with ranks that are late by chance ---- */

/* Calls that the ranks of a storm have rung for. */
static uint64_t storm_rings;

#define STORM_CALLS 400
#define STORM_SMALL 40 /* most integers of a block, except in some calls */
#define STORM_LARGE 3000

typedef struct {
    coll_end_t end;
    int32_t *in;
    int32_t *out;
    mscclpp_coll_t coll;
    int root;
    int count;   /* integers of each block, or of the largest one */
    bool varied; /* the blocks differ in size */
    bool lists;  /* of the calls that move blocks, or that scatter a result, some have blocks that differ in size */
    mscclpp_dev_block_t send[RANKS_MAX];
    mscclpp_dev_block_t recv[RANKS_MAX];
} storm_t;

/* True if a rank has one block for all ranks, so that its size depends on nothing else. */
static bool sends_one(const storm_t *storm)
{
    return !MSCCLPP_DEV_COLL_SENDS_MANY(mscclpp_coll_pattern(storm->coll));
}

/* How many integers the block of `from` for `to` has. All contributions to one result have the same number. */
static int count_of(const storm_t *storm, int from, int to)
{
    if (storm->coll == MSCCLPP_COLL_REDUCE_SCATTER_BLOCK) {
        from = 0;
    } else if (sends_one(storm)) {
        to = 0;
    }
    return storm->varied ? (int)(random_mix(storm->end.call, (uint64_t)(from * RANKS_MAX + to + 7)) %
                                 (uint64_t)(storm->count + 1))
                         : storm->count;
}

/* Element `i` of the block of `from` for `to`. A block for all ranks has `to` 0. */
static int32_t value_of(const storm_t *storm, int from, int to, int i)
{
    return (int32_t)(random_mix(random_mix(storm->end.call, (uint64_t)(from * RANKS_MAX + to)), (uint64_t)i) & 0xfffff);
}

/* The sum of element `i` of the blocks of ranks `begin` to `end` - 1 for `to`. */
static int32_t sum_of(const storm_t *storm, int begin, int end, int to, int i)
{
    int32_t sum = 0;

    for (; begin < end; ++begin) {
        sum += value_of(storm, begin, to, i);
    }
    return sum;
}

/* True for collectives that have a variant with blocks that differ in size. */
static bool varies(mscclpp_coll_t coll)
{
    return coll == MSCCLPP_COLL_ALLGATHER || coll == MSCCLPP_COLL_ALLTOALL || coll == MSCCLPP_COLL_GATHER ||
           coll == MSCCLPP_COLL_SCATTER || coll == MSCCLPP_COLL_REDUCE_SCATTER_BLOCK;
}

/* Goes on to the next call. */
static mscclpp_dev_pattern_t draw_storm(storm_t *storm)
{
    static const mscclpp_coll_t colls[] = {
        MSCCLPP_COLL_BCAST,  MSCCLPP_COLL_ALLGATHER, MSCCLPP_COLL_ALLTOALL,
        MSCCLPP_COLL_GATHER, MSCCLPP_COLL_SCATTER,   MSCCLPP_COLL_REDUCE,
        MSCCLPP_COLL_SCAN,   MSCCLPP_COLL_EXSCAN,    MSCCLPP_COLL_REDUCE_SCATTER_BLOCK};
    uint64_t state = random_mix(base_seed, ++storm->end.call);

    storm->coll = colls[random_below(&state, sizeof(colls) / sizeof(colls[0]))];
    storm->root = (int)random_below(&state, (uint64_t)storm->end.rank->size);
    storm->count = 1 + (int)random_below(&state, random_below(&state, 12) == 0 ? STORM_LARGE : STORM_SMALL);
    storm->varied = storm->lists && random_below(&state, 2) == 0 && varies(storm->coll);
    return mscclpp_coll_pattern(storm->coll);
}

/* Element `i` that block `b` of the rank's output has to hold. False if the block must be unchanged. */
static bool expect_storm(const storm_t *storm, int b, int i, int32_t *value_p)
{
    const int me = storm->end.rank->rank, n = storm->end.rank->size;
    const bool many = MSCCLPP_DEV_COLL_RECVS_MANY(mscclpp_coll_pattern(storm->coll));

    if (i >= count_of(storm, many ? b : storm->root, me)) {
        return false; /* behind the end of a smaller block */
    }
    switch (storm->coll) {
    case MSCCLPP_COLL_BCAST:
        *value_p = value_of(storm, storm->root, 0, i);
        return b == 0 && me != storm->root;
    case MSCCLPP_COLL_ALLGATHER:
        *value_p = value_of(storm, b, 0, i);
        return true;
    case MSCCLPP_COLL_ALLTOALL:
        *value_p = value_of(storm, b, me, i);
        return true;
    case MSCCLPP_COLL_GATHER:
        *value_p = value_of(storm, b, 0, i);
        return me == storm->root;
    case MSCCLPP_COLL_SCATTER:
        *value_p = value_of(storm, storm->root, me, i);
        return b == 0;
    case MSCCLPP_COLL_REDUCE:
        *value_p = sum_of(storm, 0, n, 0, i);
        return b == 0 && me == storm->root;
    case MSCCLPP_COLL_SCAN:
        *value_p = sum_of(storm, 0, me + 1, 0, i);
        return b == 0;
    case MSCCLPP_COLL_EXSCAN:
        *value_p = sum_of(storm, 0, me, 0, i);
        return b == 0 && me > 0;
    default:
        *value_p = sum_of(storm, 0, n, me, i);
        return b == 0;
    }
}

/* Lists the blocks of this rank, which lie as far from one another as if all had the largest one's size. */
static void list_blocks(storm_t *storm, mscclpp_coll_args_t *args)
{
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(storm->coll);
    const uint64_t room = (uint64_t)storm->count * sizeof(int32_t);
    const int me = storm->end.rank->rank, n = storm->end.rank->size;

    memset(storm->send, 0, sizeof(storm->send));
    memset(storm->recv, 0, sizeof(storm->recv));
    for (int peer = 0; peer < n; ++peer) {
        if (MSCCLPP_DEV_COLL_SENDS(pattern, (uint32_t)storm->root, (uint32_t)me, (uint32_t)peer)) {
            storm->send[peer].offset = sends_one(storm) ? 0 : (uint64_t)peer * room;
            storm->send[peer].bytes = (uint64_t)count_of(storm, me, peer) * sizeof(int32_t);
        }
        if (MSCCLPP_DEV_COLL_SENDS(pattern, (uint32_t)storm->root, (uint32_t)peer, (uint32_t)me)) {
            storm->recv[peer].offset = MSCCLPP_DEV_COLL_RECVS_MANY(pattern) ? (uint64_t)peer * room : 0;
            storm->recv[peer].bytes = (uint64_t)count_of(storm, peer, me) * sizeof(int32_t);
        }
    }
    args->varied = true;
    args->send = storm->send;
    args->recv = storm->recv;
    args->most = room;
}

static bool call_storm(storm_t *storm)
{
    const mscclpp_dev_pattern_t pattern = draw_storm(storm);
    const bool combines = MSCCLPP_DEV_COMBINES(pattern), many = MSCCLPP_DEV_COLL_SENDS_MANY(pattern);
    const int n = storm->end.rank->size, me = storm->end.rank->rank;
    const bool sends = (storm->coll != MSCCLPP_COLL_BCAST && storm->coll != MSCCLPP_COLL_SCATTER) || me == storm->root;
    mscclpp_coll_args_t args;
    int b, i;
    int32_t value;

    for (b = 0; b < n; ++b) {
        for (i = 0; i < storm->count; ++i) {
            storm->in[b * storm->count + i] = value_of(storm, me, many ? b : 0, i);
            storm->out[b * storm->count + i] = -1;
        }
    }
    memset(&args, 0, sizeof(args));
    args.coll = storm->coll;
    args.in = sends ? storm->in : NULL;
    args.out = storm->coll == MSCCLPP_COLL_BCAST && me == storm->root ? NULL : storm->out;
    args.known = true;
    args.count = combines ? (uint64_t)storm->count : (uint64_t)storm->count * sizeof(int32_t);
    args.dtype = combines ? MSCCLPP_DTYPE_INT32 : MSCCLPP_DTYPE_UINT8;
    args.op = MSCCLPP_OP_SUM;
    args.root = storm->root;
    args.call = storm->end.call;
    if (storm->varied) {
        list_blocks(storm, &args);
    }
    if (mscclpp_collective(storm->end.team, &args) != MSCCLPP_OK) {
        return false;
    }
    for (b = 0; b < n; ++b) {
        for (i = 0; i < storm->count; ++i) {
            if (!expect_storm(storm, b, i, &value)) {
                value = -1;
            }
            if (storm->out[b * storm->count + i] != value) {
                fprintf(stderr, "FAIL call %llu, %s of %d, root %d: element %d of block %d of rank %d is %d, not %d\n",
                        (unsigned long long)storm->end.call, mscclpp_coll_name(storm->coll), storm->count, storm->root,
                        i, b, me, (int)storm->out[b * storm->count + i], (int)value);
                return false;
            }
        }
    }
    return true;
}

static int storm_rounds; /* calls that went in rounds, of all ranks */

static void run_storm_on(rank_t *rank)
{
    const size_t bytes = (size_t)rank->size * (STORM_LARGE + STORM_SMALL) * sizeof(int32_t);
    storm_t storm;
    int i;

    memset(&storm, 0, sizeof(storm));
    coll_end_open(&storm.end, rank, create_team(rank), 64);
    storm.lists = rank->argument != NULL;
    storm.in = malloc(bytes);
    storm.out = malloc(bytes);
    REQUIRE(storm.in != NULL && storm.out != NULL);
    for (i = 0; i < STORM_CALLS && storm.end.team != NULL && rank->failures == 0; ++i) {
        const uint64_t draw = random_mix(base_seed, (uint64_t)(i * RANKS_MAX + rank->rank));

        if (draw % 4 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = (long)(draw / 4 % 200000)}, NULL);
        }
        if (i % 7 == 3) {
            all_reduce(&storm.end, (uint64_t)i * 41);
        }
        rank->failures += !call_storm(&storm);
        if (strcmp(mscclpp_team_last_algorithm(storm.end.team), "nodes_rounds") == 0) {
            __atomic_fetch_add(&storm_rounds, 1, __ATOMIC_RELAXED);
        }
    }
    __atomic_fetch_add(&storm_rings, storm.end.team != NULL ? mscclpp_linger_served(&storm.end.team->runner) : 0,
                       __ATOMIC_RELAXED);
    coll_end_close(&storm.end);
    free(storm.in);
    free(storm.out);
}

/* `fanout`: the parameter nodes_fanout; `renews`: packet flags begin again after some calls. */
static void run_storm(int ranks, int nodes, int fanout, bool renews)
{
    const case_choice_t choice = {.algo = CASE_AUTO, .ranks = ranks, .blocks = 2, .threads = 2, .nodes = nodes};
    mscclpp_config_t config;

    configure(&config, &choice);
    config.epoch_limit = renews ? 40 : config.epoch_limit;
    config.nodes_fanout = fanout;
    CHECK_EQ(run_ranks(ranks, &config, run_storm_on, NULL), 0);
    mscclpp_team_finalize(1.0);
}

static void test_storm(int scale)
{
    static const int ranks[] = {2, 3, 4, 5, 5, 4};
    static const int shapes[] = {1, 2, 2, -2, 4, 1};
    size_t i;

    (void)scale;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(ranks[i], shapes[i], 64, i % 2 == 0);
    }
}

/* The same where small blocks go between nodes in rounds. */
static void test_rounds(int scale)
{
    static const int ranks[] = {5, 6, 7, 4}, shapes[] = {1, -4, 2, 1}, fanouts[] = {1, 1, 2, 2};
    size_t i;

    (void)scale;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(ranks[i], shapes[i], fanouts[i], i % 2 == 0);
    }
    printf("%d calls in rounds\n", storm_rounds);
    CHECK(storm_rounds > 0);
}

/* The same on one node, where the blocks of many calls differ in size, by kernels that stay and are rung for. */
static void test_rung(int scale)
{
    bool lists = true;
    int ranks;

    (void)scale;
    storm_rings = 0;
    mscclpp_linger_share_devices(true); /* the ranks are threads of one process, and have one device */
    for (ranks = 2; ranks <= 5; ++ranks) {
        const case_choice_t choice = {.algo = CASE_AUTO, .ranks = ranks, .blocks = 2, .threads = ranks, .nodes = 0};
        mscclpp_config_t config;

        configure(&config, &choice);
        config.linger = "on";
        config.linger_idle = 100000; /* microseconds */
        config.linger_window = 1000000;
        config.epoch_limit = ranks % 2 == 0 ? 40 : config.epoch_limit;
        CHECK_EQ(run_ranks(ranks, &config, run_storm_on, &lists), 0);
        mscclpp_team_finalize(1.0);
    }
    mscclpp_linger_share_devices(false);
    CHECK(storm_rings > STORM_CALLS);
}

static const part_t parts[] = {
    {"matrix", test_matrix}, {"nodes", test_nodes}, {"storm", test_storm},
    {"rounds", test_rounds}, {"rung", test_rung},   {NULL, NULL},
};

/* Takes --seed N and --case NUMBERS out of the arguments. */
static const char *take_option(int *argc, char **argv, const char *name)
{
    const char *value = NULL;
    int i;

    for (i = 1; i + 1 < *argc; ++i) {
        if (strcmp(argv[i], name) == 0) {
            value = argv[i + 1];
            memmove(&argv[i], &argv[i + 2], (size_t)(*argc - i - 1) * sizeof(*argv));
            *argc -= 2;
            break;
        }
    }
    return value;
}

static int run_one(const char *text)
{
    case_choice_t choice;

    if (!case_read_choice(text, &choice)) {
        fprintf(stderr, "--case: '%s' is not allowed; use the numbers that a failure prints\n", text);
        return 2;
    }
    options.timeout = 60;
    run_group(&choice, &base_seed, 1);
    return unit_end();
}

int main(int argc, char **argv)
{
    const char *seed = take_option(&argc, argv, "--seed"), *one = take_option(&argc, argv, "--case");

    unit_begin();
    (void)dim_names;
    mscclpp_gpu_twin_set_filter(user_is_host);
    late_copies = mscclpp_gpu_twin_ops;
    late_copies.copy = late_copies.put;
    base_seed = seed != NULL ? strtoull(seed, NULL, 10) : base_seed;
    if (one != NULL) {
        return run_one(one);
    }
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
