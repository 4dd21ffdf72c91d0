/* Every collective but all-reduce on the twin: each two values of its arguments, algorithms, ranks and grids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "test/host/coll_end.h"
#include "test/host/covering.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/unit/unit.h"

#define MAX_RANKS 9
#define MAX_IN_RING 16

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

/* The collectives of the matrices of calls that nodes pass on: in a ring or by halving, or over trees. */
static const mscclpp_coll_t ring_colls[] = {
    MSCCLPP_COLL_ALLGATHER,
    MSCCLPP_COLL_ALLGATHERV,
    MSCCLPP_COLL_REDUCE_SCATTER,
    MSCCLPP_COLL_REDUCE_SCATTER_BLOCK,
    /* over trees */
    MSCCLPP_COLL_BCAST,
    MSCCLPP_COLL_REDUCE,
};

#define RING_COLLS ((int)(sizeof(ring_colls) / sizeof(ring_colls[0])))
#define HALVING_COLLS (RING_COLLS - 2)

/* The collectives that can overwrite their input in place, and the algorithms by which they are tried. */
static const mscclpp_coll_t in_place_colls[] = {MSCCLPP_COLL_ALLTOALL, MSCCLPP_COLL_ALLTOALLV, MSCCLPP_COLL_ALLTOALLW,
                                                MSCCLPP_COLL_REDUCE_SCATTER, MSCCLPP_COLL_REDUCE_SCATTER_BLOCK};
static const int in_place_algos[] = {MSCCLPP_COLL_BY_ZEROCOPY, MSCCLPP_COLL_BY_SCRATCH, MSCCLPP_COLL_BY_PUTS,
                                     CASE_AUTO};

#define IN_PLACE_COLLS ((int)(sizeof(in_place_colls) / sizeof(in_place_colls[0])))
#define IN_PLACE_ALGOS ((int)(sizeof(in_place_algos) / sizeof(in_place_algos[0])))

/* The collectives of the matrix of calls in rounds of packets. */
static const mscclpp_coll_t rounds_colls[] = {MSCCLPP_COLL_SCAN, MSCCLPP_COLL_EXSCAN};

#define ROUNDS_COLLS ((int)(sizeof(rounds_colls) / sizeof(rounds_colls[0])))

static bool in_place;   /* the current matrix is that of calls in place */
static bool over_nodes; /* it is one of several nodes */
static bool in_ring;    /* it is one of calls that nodes pass on */
static bool in_halving; /* it is that of calls by halving */
static bool in_rounds;  /* it is that of calls in rounds */

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

static int coll_of(const int *row)
{
    return in_rounds  ? (int)rounds_colls[row[BY_COLL]]
           : in_ring  ? (int)ring_colls[row[BY_COLL]]
           : in_place ? (int)in_place_colls[row[BY_COLL]]
                      : row[BY_COLL];
}

static int algo_of(const int *row)
{
    return in_halving   ? CASE_HALVING
           : in_rounds  ? CASE_ROUNDS
           : in_ring    ? CASE_RING
           : over_nodes ? CASE_AUTO
           : in_place   ? in_place_algos[row[BY_ALGO]]
                        : row[BY_ALGO];
}

static void choice_of(const int *row, case_choice_t *choice)
{
    choice->coll = coll_of(row);
    choice->algo = algo_of(row);
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

    if (!case_combines(coll_of(row))) {
        row[BY_DTYPE] = row[BY_OP] = -1;
    }
    while (row[BY_OP] >= 0 && !mscclpp_dev_supports((mscclpp_dtype_t)row[BY_DTYPE], (mscclpp_op_t)row[BY_OP], true)) {
        row[BY_OP] = (row[BY_OP] + 1) % MSCCLPP_OP_LAST;
    }
    row[BY_PLACE] = in_place ? PLACE_IN : case_knows_in_place(coll_of(row)) ? row[BY_PLACE] : -1;
    row[BY_ROOT] = case_has_root(coll_of(row)) && row[BY_RANKS] > 0 ? row[BY_ROOT] : -1;
    row[BY_LAYOUT] = case_varies(coll_of(row)) ? row[BY_LAYOUT] : -1;
    /* One grid for each algorithm and number of ranks, so that all grids get equally many. */
    row[BY_GRID] = one_grid ? (row[BY_ALGO] + row[BY_RANKS]) % GRIDS : row[BY_GRID];
    choice_of(row, &choice);
    case_draw(&choice, seed_of(row), COLL_END_SCRATCH, &c);
    row[BY_SERVED] = c.served;
    case_free(&c);
}

static const covering_t matrix = {
    .dims = DIMS,
    .values = {MSCCLPP_COLL_NEIGHBORS, CASE_ALGOS, MAX_RANKS, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES,
               ALIGNS, ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_NOTHING + 1},
    .settle = settle,
};

static const covering_t in_place_matrix = {
    .dims = DIMS,
    .values = {IN_PLACE_COLLS, IN_PLACE_ALGOS, MAX_RANKS, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES,
               ALIGNS, ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_NOTHING + 1},
    .settle = settle,
};

static const covering_t nodes_matrix = {
    .dims = DIMS,
    .values = {MSCCLPP_COLL_NEIGHBORS, SHAPES, MAX_RANKS, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES,
               ALIGNS, ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_BY_NODES + 1},
    .settle = settle,
};

static const covering_t ring_matrix = {
    .dims = DIMS,
    .values = {RING_COLLS, SHAPES, MAX_IN_RING, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES, ALIGNS,
               ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_BY_NODES + 1},
    .settle = settle,
};

static const covering_t halving_matrix = {
    .dims = DIMS,
    .values = {HALVING_COLLS, SHAPES, MAX_IN_RING, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES, ALIGNS,
               ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_BY_NODES + 1},
    .settle = settle,
};

static const covering_t rounds_matrix = {
    .dims = DIMS,
    .values = {ROUNDS_COLLS, SHAPES, MAX_IN_RING, GRIDS, SIZES, MSCCLPP_DTYPE_LAST, MSCCLPP_OP_LAST, PLACES, ALIGNS,
               ALIGNS, ROOTS, KINDS, LAYOUTS, CASE_BY_NODES + 1},
    .settle = settle,
};

/* The twin's runtime, except that copies in streams end later than their calls, as on GPUs. */
static mscclpp_gpu_ops_t late_copies;

/* Cases that one team runs. */
typedef struct {
    const case_choice_t *choices;
    const uint64_t *seeds;
    int count;
    coll_images_t images;
} group_t;

/* What each rank does: all cases of the group on one team. */
static void run_group_on(rank_t *rank)
{
    group_t *group = rank->argument;
    coll_end_t end;
    int i;

    rank->gpu = &late_copies;
    coll_end_open(&end, rank, create_team(rank), case_largest(COLL_END_SCRATCH, rank->size));
    for (i = 0; i < group->count && end.team != NULL; ++i) {
        case_t c;

        case_draw(&group->choices[i], group->seeds[i], COLL_END_SCRATCH, &c);
        coll_case_fill(&c, rank->rank, group->images.in[rank->rank], group->images.out[rank->rank]);
        meet(rank);
        if (c.choice.nodes != 0 && group->seeds[i] % 3 == 0) {
            coll_end_all_reduce(&end, group->seeds[i]);
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

/* Runs cases of the same ranks and grid on one team. */
static void run_group(const case_choice_t *choices, const uint64_t *seeds, int count)
{
    const int ranks = choices[0].ranks;
    group_t group = {choices, seeds, count, {{NULL}, {NULL}}};
    mscclpp_config_t config;

    coll_end_configure(&config, &choices[0], options.timeout);
    coll_images_create(&group.images, ranks, case_largest(COLL_END_SCRATCH, ranks));
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

/*
 * Under a sanitizer, unless all calls are asked for, keeps of the rows those that are the first of their collective, of
 * their algorithm or shape, and of what serves them, and each eighth of the others. Returns how many it keeps.
 */
static int thin_out(int (*rows)[COVERING_DIMS], int count)
{
    int kept = 0, others = 0, i, k;

    if (process_state_whole()) {
        return count;
    }
    for (i = 0; i < count; ++i) {
        const int *row = rows[i];

        for (k = 0; k < kept && (rows[k][BY_COLL] != row[BY_COLL] || rows[k][BY_ALGO] != row[BY_ALGO] ||
                                 rows[k][BY_SERVED] != row[BY_SERVED]);
             ++k) {
        }
        if (k == kept || others++ % 8 == 0) {
            memmove(rows[kept++], row, sizeof(*rows));
        }
    }
    return kept;
}

static void run_matrix(const covering_t *covering)
{
    const double started = mscclpp_now();
    covering_result_t result;

    in_halving = covering == &halving_matrix;
    in_ring = in_halving || covering == &ring_matrix;
    in_rounds = covering == &rounds_matrix;
    over_nodes = in_ring || in_rounds || covering == &nodes_matrix;
    in_place = covering == &in_place_matrix;
    covering_build(covering, base_seed, &result);
    printf("%d cases cover %d pairs, %d others cannot be; %.1f s\n", result.count, result.pairs, result.impossible,
           mscclpp_now() - started);
    run_rows(result.rows, thin_out(result.rows, result.count));
    printf("%.1f s\n", mscclpp_now() - started);
    free(result.rows);
}

static void test_matrix(int scale)
{
    (void)scale;
    run_matrix(&matrix);
}

static void test_in_place(int scale)
{
    (void)scale;
    run_matrix(&in_place_matrix);
}

static void test_nodes(int scale)
{
    (void)scale;
    run_matrix(&nodes_matrix);
    printf("%d calls by packets\n", coll_end_packets);
    CHECK(coll_end_packets > 0);
}

static void test_ring(int scale)
{
    (void)scale;
    run_matrix(&ring_matrix);
}

static void test_halving(int scale)
{
    (void)scale;
    run_matrix(&halving_matrix);
}

static void test_rounds(int scale)
{
    (void)scale;
    run_matrix(&rounds_matrix);
    printf("%d calls in rounds\n", coll_end_rounds);
    CHECK(coll_end_rounds > 0);
}

static const part_t parts[] = {
    {"matrix", test_matrix},   {"in_place", test_in_place}, {"nodes", test_nodes}, {"ring", test_ring},
    {"halving", test_halving}, {"rounds", test_rounds},     {NULL, NULL},
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

/* Runs the one case that the numbers of a failure name. Returns the exit status. */
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
