/*
 * Every collective, all-reduce included, among more ranks than a node may have, on imitated nodes of equal and of
 * different sizes: each with small blocks, with blocks of several tiles, and with blocks of different sizes, where it
 * has such.
 *
 * Also with few nodes and a small fan-out.
 *
 * Usage: test_many [--long] [PART]...; MSCCLPP_TEST_LONG=1 and --long add larger shapes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/types/nodes.h"
#include "mca/common/base/clock.h"
#include "test/host/coll_end.h"
#include "test/host/elements.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/unit/unit.h"

#define SCRATCH_SIZE ((size_t)512 << 10)

/* Cases of each collective on one shape. */
#define EACH 2
#define CASES (EACH * (MSCCLPP_COLL_NEIGHBORS + 1))

typedef struct {
    int ranks;
    int nodes;  /* the parameter ranks_per_node */
    int fanout; /* the parameter nodes_fanout; 0: as it is */
} shape_t;

static parts_options_t options;

/* What the ranks of a team share. */
typedef struct {
    case_choice_t choice[CASES];
    coll_images_t images;
} many_t;

static int number_of_nodes(const shape_t *shape)
{
    return shape->nodes > 0 ? (shape->ranks + shape->nodes - 1) / shape->nodes : -shape->nodes;
}

static void configure(mscclpp_config_t *config, const shape_t *shape)
{
    mscclpp_config_init(config);
    config->scratch_size = SCRATCH_SIZE;
    config->twin_blocks = 1;
    config->twin_threads = 1;
    config->timeout = options.timeout;
    config->warn_after = 0; /* on a busy machine, so many threads may be late */
    config->ucx = false;
    config->ranks_per_node = shape->nodes;
    config->transport = "shm";
    config->nodes_fanout = shape->fanout != 0 ? shape->fanout : config->nodes_fanout;
    config->exchange_size =
        (size_t)MSCCLPP_DEV_NODES_SLOTS(number_of_nodes(shape)) * (number_of_nodes(shape) < 20 ? 4000 : 1200);
}

/* The choices of case `i`. What has no part in a collective is left out, as the matrix of test_collectives does. */
static void draw(const shape_t *shape, int i, case_choice_t *choice)
{
    const int coll = i / EACH < MSCCLPP_COLL_NEIGHBORS ? i / EACH : (int)CASE_ALLREDUCE;
    uint64_t state = random_mix((uint64_t)(shape->ranks + 4096 * shape->fanout), (uint64_t)(i + 1));

    memset(choice, 0, sizeof(*choice));
    choice->coll = coll;
    choice->algo = CASE_AUTO;
    choice->ranks = shape->ranks;
    choice->blocks = choice->threads = 1;
    choice->nodes = shape->nodes;
    choice->size = i % EACH == 0 ? SIZE_FEW : SIZE_KIB;
    choice->dtype = case_combines(coll) ? (int)MSCCLPP_DTYPE_INT32 : -1;
    choice->op = case_combines(coll) ? (int)MSCCLPP_OP_SUM : -1;
    choice->place = case_knows_in_place(coll) ? (int)random_below(&state, PLACES) : -1;
    choice->in_align = (int)random_below(&state, ALIGNS);
    choice->out_align = (int)random_below(&state, ALIGNS);
    choice->root = case_has_root(coll) ? (int)random_below(&state, ROOTS) : -1;
    choice->kind = KIND_DEVICE;
    choice->layout = case_varies(coll) ? (i % EACH == 0 ? LAYOUT_SHUFFLED : LAYOUT_HOLES) : -1;
}

static void run_on(rank_t *rank)
{
    many_t *many = rank->argument;
    coll_end_t end;
    int i;

    coll_end_open(&end, rank, create_team(rank), case_largest(SCRATCH_SIZE, rank->size));
    for (i = 0; i < CASES && end.team != NULL; ++i) {
        case_t c;

        CHECK(many->choice[i].coll == CASE_ALLREDUCE ||
              mscclpp_collective_serves(end.team, (mscclpp_coll_t)many->choice[i].coll));
        case_draw(&many->choice[i], (uint64_t)(i + 1), SCRATCH_SIZE, &c);
        coll_case_fill(&c, rank->rank, many->images.in[rank->rank], many->images.out[rank->rank]);
        meet(rank);
        (void)coll_end_call(&end, &c, &many->images);
        case_free(&c);
        if (meet_any(rank, rank->failures != 0)) {
            break;
        }
    }
    coll_end_close(&end);
}

static void run_shape(const shape_t *shape)
{
    const double started = mscclpp_now();
    many_t *many = calloc(1, sizeof(*many));
    mscclpp_config_t config;
    int i;

    REQUIRE(many != NULL);
    for (i = 0; i < CASES; ++i) {
        draw(shape, i, &many->choice[i]);
    }
    configure(&config, shape);
    coll_images_create(&many->images, shape->ranks, case_largest(SCRATCH_SIZE, shape->ranks));
    CHECK_EQ(run_ranks(shape->ranks, &config, run_on, many), 0);
    mscclpp_team_finalize(1.0);
    coll_images_destroy(&many->images);
    free(many);
    printf("%d ranks on %d nodes, fan-out %d: %.1f s\n", shape->ranks, number_of_nodes(shape), config.nodes_fanout,
           mscclpp_now() - started);
}

/* The sanitizers' threads are slow, so they run the smallest shape alone. */
static void test_many(int scale)
{
    static const shape_t shapes[] = {{65, 5, 0}, {65, 1, 0}, {96, 3, 0}, {100, -7, 0}};
    static const shape_t more[] = {{127, 3, 0}, {128, 1, 0}, {256, 16, 0}};
    const size_t count = UNIT_SANITIZED ? 1 : sizeof(shapes) / sizeof(shapes[0]);
    size_t i;

    for (i = 0; i < count; ++i) {
        run_shape(&shapes[i]);
    }
    for (i = 0; scale > 1 && i < sizeof(more) / sizeof(more[0]); ++i) {
        run_shape(&more[i]);
    }
    printf("%d calls by packets\n", coll_end_packets);
    CHECK(coll_end_packets > 0);
}

/*
 * With a bound on the fan-out below the number of other nodes: small blocks go in rounds, and tiles to a few nodes at a
 * time. Powers of the radix and numbers beside them, nodes of different sizes, ranks in any order.
 */
static void test_rounds(int scale)
{
    static const shape_t shapes[] = {{3, 1, 1},   {4, 1, 1},  {5, 1, 1},  {8, 1, 3},   {9, 1, 7},
                                     {13, 2, 1},  {16, 1, 3}, {17, 1, 7}, {17, -5, 1}, {20, -9, 3},
                                     {23, -6, 2}, {33, 1, 7}, {40, 3, 7}};
    static const shape_t more[] = {{64, 1, 7}, {65, 1, 1}, {96, 3, 3}, {100, -33, 7}, {127, 3, 1}, {256, 4, 7}};
    const size_t count = UNIT_SANITIZED ? 5 : sizeof(shapes) / sizeof(shapes[0]);
    size_t i;

    for (i = 0; i < count; ++i) {
        run_shape(&shapes[i]);
    }
    for (i = 0; scale > 1 && i < sizeof(more) / sizeof(more[0]); ++i) {
        run_shape(&more[i]);
    }
    printf("%d calls in rounds\n", coll_end_rounds);
    CHECK(coll_end_rounds > 0);
}

/* ---- All-reduces by each algorithm ---- */

#define MAX_ELEMENTS 6000u

/* One all-reduce of `count` elements, each other on each rank. */
static void sum(rank_t *rank, mscclpp_team_t *team, uint32_t *in, uint32_t *out, uint32_t count, uint64_t call)
{
    const uint32_t n = (uint32_t)rank->size;
    const mscclpp_allreduce_args_t args = {.sendbuf = in,
                                           .recvbuf = out,
                                           .count = count,
                                           .dtype = MSCCLPP_DTYPE_UINT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = call};
    uint32_t wrong = 0, i;

    for (i = 0; i < count; ++i) {
        in[i] = (uint32_t)rank->rank * (i + 1);
        out[i] = 0;
    }
    CHECK_EQ(mscclpp_allreduce(team, &args), MSCCLPP_OK);
    for (i = 0; i < count; ++i) {
        wrong += out[i] != n * (n - 1) / 2 * (i + 1);
    }
    CHECK_EQ(wrong, 0);
    CHECK_TEXT(mscclpp_team_last_algorithm(team), rank->config->algorithm);
    rank->failures += wrong != 0;
}

/* Few elements, some for which not every part of a tile has one, and several tiles. */
static void sum_on(rank_t *rank)
{
    static const uint32_t counts[] = {2, 37, 1500, MAX_ELEMENTS};
    mscclpp_team_t *team = create_team(rank);
    uint32_t *in = calloc(MAX_ELEMENTS, sizeof(*in)), *out = calloc(MAX_ELEMENTS, sizeof(*out));
    size_t i;

    if (meet_any(rank, team == NULL || in == NULL || out == NULL)) {
        CHECK(false);
    } else {
        for (i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
            sum(rank, team, in, out, counts[i], i + 1);
            if (meet_any(rank, rank->failures != 0)) {
                break;
            }
        }
    }
    mscclpp_team_destroy(team);
    free(in);
    free(out);
}

/* Nodes of different sizes, odd numbers of nodes, ranks dealt out in turn. */
static void test_algorithms(int scale)
{
    static const char *const algorithms[] = {"nodes_halving", "nodes_doubling", "nodes_ring",   "nodes_trees",
                                             "nodes_split",   "nodes",          "nodes_packets"};
    static const shape_t sanitized[] = {{64, 4, 0}}, shapes[] = {{33, -11, 0}, {24, 1, 0}};
    static const shape_t more[] = {{65, 1, 0}, {256, 16, 0}, {1024, 64, 0}};
    const size_t each = UNIT_SANITIZED ? 2 : sizeof(algorithms) / sizeof(algorithms[0]);
    const size_t few = UNIT_SANITIZED ? 1 : 2, all = few + (scale > 1 && !UNIT_SANITIZED ? 3 : 0);
    size_t i, j;

    for (i = 0; i < all; ++i) {
        const shape_t *shape = i >= few ? &more[i - few] : UNIT_SANITIZED ? &sanitized[i] : &shapes[i];

        for (j = 0; j < each; ++j) {
            const double started = mscclpp_now();
            mscclpp_config_t config;

            configure(&config, shape);
            config.algorithm = algorithms[j];
            if (shape->ranks > 100) { /* or their areas would take several GiB */
                config.exchange_size = (size_t)MSCCLPP_DEV_NODES_SLOTS(number_of_nodes(shape)) * 256;
            }
            CHECK_EQ(run_ranks(shape->ranks, &config, sum_on, NULL), 0);
            mscclpp_team_finalize(1.0);
            printf("%d ranks on %d nodes, %s: %.1f s\n", shape->ranks, number_of_nodes(shape), algorithms[j],
                   mscclpp_now() - started);
        }
    }
}

static const part_t parts[] = {
    {"many", test_many},
    {"rounds", test_rounds},
    {"algorithms", test_algorithms},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    mscclpp_gpu_twin_set_filter(user_is_host);
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
