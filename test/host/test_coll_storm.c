/*
 * Collectives other than all-reduce back to back, with ranks that are late by chance: over several nodes, and by
 * kernels that stay and are rung for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/run/linger.h"
#include "mca/common/team/parts.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/parts.h"
#include "test/host/process_state.h"
#include "test/host/storm_call.h"
#include "test/unit/unit.h"

static parts_options_t options;
static const uint64_t base_seed = 1;

/* Calls that the ranks of a storm have rung for. */
static uint64_t storm_rings;

/*
 * Calls of all ranks whose blocks differ in size: those that several blocks of a kernel that stays have to serve, how
 * many of them the ranks have rung for, and the rings for calls whose blocks lie too far away for a bell.
 */
static uint64_t storm_wide_lists, storm_wide_lists_rung, storm_beyond_rung;

/* The blocks of many calls have sizes at which the ways of the lists of blocks end, up to STORM_HUGE integers. */
static bool storm_lists_wide;

/* All calls are this collective, with large blocks. MSCCLPP_COLL_LAST: any collective, with blocks of any size. */
static mscclpp_coll_t storm_of = MSCCLPP_COLL_LAST;

/* Most calls have a root and small blocks, and there is room for the places of few of them. */
static bool storm_rooted;

/* Their blocks have sizes at which packets and rows end, up to 8 KiB, and there is room for many places. */
static bool storm_rooted_wide;

/* Every second of these calls is another one. MSCCLPP_COLL_LAST: none is. */
static mscclpp_coll_t storm_other = MSCCLPP_COLL_LAST;

#define STORM_CALLS 400
#define STORM_SMALL 40 /* most integers of a block, except in some calls */
#define STORM_LARGE 3000
#define STORM_HUGE 4097

/* The most bytes that one block of a kernel of the twin moves for all peers. */
#define STORM_NARROW 256u

/* Distances to the blocks that have no room in one word of the bell of a kernel that stays, and in two words. */
#define STORM_FAR (MSCCLPP_DEV_BELL_MAX_OFFSET + 1u)
#define STORM_BEYOND ((uint64_t)UINT32_MAX + 1)

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
    static const mscclpp_coll_t rooted[] = {MSCCLPP_COLL_BCAST, MSCCLPP_COLL_GATHER, MSCCLPP_COLL_SCATTER,
                                            MSCCLPP_COLL_REDUCE};
    static const int wide_counts[] = {1, 4, 5, 255, 256, 257, 1023, 1024, 1025, 2047, 2048};
    static const int list_counts[] = {1, 8, 31, 32, 33, 64, 65, 1024, 4094, 4095, 4096, STORM_HUGE};
    uint64_t state = random_mix(base_seed, ++storm->end.call);

    storm->coll = colls[random_below(&state, sizeof(colls) / sizeof(colls[0]))];
    storm->coll = storm_of != MSCCLPP_COLL_LAST ? storm_of : storm->coll;
    if (storm_rooted && random_below(&state, 8) != 0) {
        storm->coll = rooted[random_below(&state, 4)];
    }
    storm->coll = storm_other != MSCCLPP_COLL_LAST && storm->end.call % 2 == 0 ? storm_other : storm->coll;
    storm->root = (int)random_below(&state, (uint64_t)storm->end.rank->size);
    storm->count = 1 + (int)random_below(&state, random_below(&state, 12) == 0 ? STORM_LARGE : STORM_SMALL);
    storm->count = storm_of != MSCCLPP_COLL_LAST ? STORM_LARGE - storm->count % STORM_SMALL : storm->count;
    storm->count = storm_rooted_wide ? wide_counts[random_below(&state, sizeof(wide_counts) / sizeof(wide_counts[0]))]
                   : storm_rooted    ? 1 + storm->count % 8
                                     : storm->count;
    if (storm_lists_wide) {
        storm->count = list_counts[random_below(&state, sizeof(list_counts) / sizeof(list_counts[0]))];
    }
    storm->varied = storm->lists && random_below(&state, storm_lists_wide ? 4 : 2) != 1 && varies(storm->coll);
    storm->distance = !storm->varied || random_below(&state, 3) != 0 ? 0 : STORM_FAR;
    storm->distance = storm->distance != 0 && random_below(&state, 16) == 0 ? STORM_BEYOND : storm->distance;
    return mscclpp_coll_pattern(storm->coll);
}

/* Counts a call with lists that has ended; `was_rung` tells whether the rank rang for it. */
static void count_lists(const storm_t *storm, bool was_rung)
{
    const uint64_t sent_bytes = (uint64_t)storm->count * sizeof(int32_t) * (uint64_t)(storm->end.rank->size - 1);
    bool has_block = false;

    for (int peer = 0; peer < storm->end.rank->size; ++peer) {
        has_block = has_block || storm->send[peer].bytes != 0 ||
                    (storm->recv[peer].bytes != 0 && storm->recv[peer].offset != 0);
    }
    if (storm->distance == STORM_BEYOND) {
        __atomic_fetch_add(&storm_beyond_rung, was_rung && has_block, __ATOMIC_RELAXED);
    } else if (sent_bytes > STORM_NARROW) {
        __atomic_fetch_add(&storm_wide_lists, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&storm_wide_lists_rung, was_rung, __ATOMIC_RELAXED);
    }
}

static bool call_storm(storm_t *storm)
{
    const mscclpp_dev_pattern_t pattern = draw_storm(storm);
    const bool combines = MSCCLPP_DEV_COMBINES(pattern), many = MSCCLPP_DEV_COLL_SENDS_MANY(pattern);
    const int n = storm->end.rank->size, me = storm->end.rank->rank;
    const bool sends = (storm->coll != MSCCLPP_COLL_BCAST && storm->coll != MSCCLPP_COLL_SCATTER) || me == storm->root;
    const uint64_t rings = mscclpp_team_lingered(storm->end.team);
    mscclpp_coll_args_t args;
    int b, i;
    int32_t value;

    for (b = 0; b < n; ++b) {
        for (i = 0; i < storm->count; ++i) {
            storm->in[b * storm->count + i] = storm_value(storm, me, many ? b : 0, i);
            storm->out[b * storm->count + i] = -1;
        }
    }
    memset(&args, 0, sizeof(args));
    args.coll = storm->coll;
    args.in = sends ? storm->in : NULL;
    args.out = storm->coll == MSCCLPP_COLL_BCAST && me == storm->root ? NULL : storm->out;
    args.is_size_known = true;
    args.count = combines ? (uint64_t)storm->count : (uint64_t)storm->count * sizeof(int32_t);
    args.dtype = combines ? MSCCLPP_DTYPE_INT32 : MSCCLPP_DTYPE_UINT8;
    args.op = MSCCLPP_OP_SUM;
    args.root = storm->root;
    args.call = storm->end.call;
    if (storm->varied) {
        storm_list_blocks(storm, &args);
    }
    if (mscclpp_collective(storm->end.team, &args) != MSCCLPP_OK) {
        return false;
    }
    if (storm->varied) {
        count_lists(storm, mscclpp_team_lingered(storm->end.team) != rings);
    }
    for (b = 0; b < n; ++b) {
        for (i = 0; i < storm->count; ++i) {
            if (!storm_expect(storm, b, i, &value)) {
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

static int storm_calls = STORM_CALLS; /* of each rank */
static int storm_rounds;              /* calls that went in rounds, of all ranks */
static int storm_sparse;              /* the same without empty messages */
static int storm_dense;               /* the same with them, although the call has a root */
static int storm_in_ring;             /* the same in a ring of nodes */
static int storm_in_halving;          /* the same by halving */
static int storm_in_trees;            /* the same over trees of nodes */
static int storm_in_windows;          /* the same in windows of nodes */

/*
 * Returns memory for a buffer of `bytes` bytes, STORM_BEYOND bytes behind its start. The system reserves nothing for
 * what is not touched.
 */
static char *map_buffer(size_t bytes)
{
    void *memory =
        mmap(NULL, STORM_BEYOND + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    REQUIRE(memory != MAP_FAILED);
    return memory;
}

static void run_storm_on(rank_t *rank)
{
    const size_t bytes = (size_t)rank->size * (STORM_HUGE + STORM_SMALL) * sizeof(int32_t);
    const int calls = storm_of == MSCCLPP_COLL_LAST ? process_state_calls(storm_calls) : storm_calls;
    char *in, *out;
    storm_t storm;
    int i;

    memset(&storm, 0, sizeof(storm));
    coll_end_open(&storm.end, rank, create_team(rank), 64);
    storm.lists = rank->argument != NULL;
    in = map_buffer(bytes);
    out = map_buffer(bytes);
    storm.in = (int32_t *)(void *)(in + STORM_BEYOND);
    storm.out = (int32_t *)(void *)(out + STORM_BEYOND);
    for (i = 0; i < calls && storm.end.team != NULL && rank->failures == 0; ++i) {
        const uint64_t draw = random_mix(base_seed, (uint64_t)(i * RANKS_MAX + rank->rank));

        if (draw % 4 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = (long)(draw / 4 % 200000)}, NULL);
        }
        if (i % (storm_rooted || storm_lists_wide ? 23 : 7) == 3) {
            coll_end_all_reduce(&storm.end, (uint64_t)i * 41);
        }
        rank->failures += !call_storm(&storm);
        if (strcmp(mscclpp_team_last_algorithm(storm.end.team), "nodes_rounds") == 0) {
            const bool has_root = MSCCLPP_DEV_COLL_ROOTED(mscclpp_coll_pattern(storm.coll));

            __atomic_fetch_add(&storm_rounds, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(storm.end.team->fabric->is_sparse ? &storm_sparse : &storm_dense, has_root,
                               __ATOMIC_RELAXED);
        }
        if (strcmp(mscclpp_team_last_algorithm(storm.end.team), "nodes_ring") == 0) {
            __atomic_fetch_add(&storm_in_ring, 1, __ATOMIC_RELAXED);
        }
        if (strcmp(mscclpp_team_last_algorithm(storm.end.team), "nodes_halving") == 0) {
            __atomic_fetch_add(&storm_in_halving, 1, __ATOMIC_RELAXED);
        }
        if (strcmp(mscclpp_team_last_algorithm(storm.end.team), "nodes_trees") == 0) {
            __atomic_fetch_add(&storm_in_trees, 1, __ATOMIC_RELAXED);
        }
        if (storm.end.team->fabric != NULL && storm.end.team->fabric->pattern == MSCCLPP_DEV_NODES_WINDOWS) {
            __atomic_fetch_add(&storm_in_windows, 1, __ATOMIC_RELAXED);
        }
    }
    __atomic_fetch_add(&storm_rings, storm.end.team != NULL ? mscclpp_linger_count_served(&storm.end.team->runner) : 0,
                       __ATOMIC_RELAXED);
    coll_end_close(&storm.end);
    munmap(in, STORM_BEYOND + bytes);
    munmap(out, STORM_BEYOND + bytes);
}

/*
 * `algo` is what parameters ask for, and `fanout` the parameter nodes_fanout; `renews`: packet flags begin again after
 * some calls. `crowds`: slots between nodes are small, so that blocks go in many turns.
 */
static void run_storm(int algo, int ranks, int nodes, int fanout, bool renews, bool crowds)
{
    const case_choice_t choice = {.algo = algo, .ranks = ranks, .blocks = 2, .threads = 2, .nodes = nodes};
    mscclpp_config_t config;

    coll_end_configure(&config, &choice, options.timeout);
    config.epoch_limit = renews ? 40 : config.epoch_limit;
    config.nodes_fanout = fanout;
    /* Over trees, a tile takes the slots of several nodes. */
    config.exchange_size /= !crowds ? 1 : storm_of == MSCCLPP_COLL_BCAST || storm_of == MSCCLPP_COLL_REDUCE ? 64 : 8;
    /* In windows, so do the slots of a message. */
    config.exchange_size /= storm_rooted && !storm_rooted_wide ? 32 : 1;
    config.exchange_size /= storm_of == MSCCLPP_COLL_ALLTOALL || storm_of == MSCCLPP_COLL_SCATTER ? 4 : 1;
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
        run_storm(CASE_AUTO, ranks[i], shapes[i], 64, i % 2 == 0, false);
    }
}

/* The same where small blocks go between nodes in rounds. */
static void test_rounds(int scale)
{
    static const int ranks[] = {5, 6, 7, 4}, shapes[] = {1, -4, 2, 1}, fanouts[] = {1, 1, 2, 2};
    size_t i;

    (void)scale;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(CASE_AUTO, ranks[i], shapes[i], fanouts[i], i % 2 == 0, false);
    }
    printf("%d calls in rounds\n", storm_rounds);
    CHECK(storm_rounds > 0);
}

/*
 * Calls with a root between many nodes: without empty messages, so that ranks run ahead of others, until a call with
 * them has to free places.
 */
static void test_sparse(int scale)
{
    static const int ranks[] = {9, 20, 21, 22}, shapes[] = {1, 2, -9, -10}, fanouts[] = {1, 2, 4, 8};
    size_t i;

    (void)scale;
    storm_rooted = true;
    storm_sparse = storm_dense = 0;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(CASE_ROUNDS, ranks[i], shapes[i], fanouts[i], i % 2 == 0, false);
    }
    storm_rooted = false;
    printf("%d calls without empty messages, %d with them\n", storm_sparse, storm_dense);
    CHECK(storm_sparse > 10 * storm_dense && storm_dense > 0);
}

/* The same with blocks of 4 bytes to 8 KiB: what grows with the nodes must not take the room of the packets. */
static void test_sparse_wide(int scale)
{
    static const int ranks[] = {10, 22}, shapes[] = {1, -10}, fanouts[] = {2, 4};
    size_t i;

    (void)scale;
    storm_rooted = storm_rooted_wide = true;
    storm_calls = STORM_CALLS / 4;
    storm_sparse = storm_dense = 0;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(CASE_ROUNDS, ranks[i], shapes[i], fanouts[i], i % 2 == 0, false);
    }
    storm_calls = STORM_CALLS;
    storm_rooted = storm_rooted_wide = false;
    printf("%d calls without empty messages\n", storm_sparse);
    CHECK(storm_sparse > 0);
}

/* The same where calls go around a ring of nodes or over trees if they can. */
static void test_ring(int scale)
{
    static const int ranks[] = {2, 3, 5, 8, 6, 10}, shapes[] = {1, 1, 1, 1, -3, 2};
    size_t i;

    (void)scale;
    storm_calls = STORM_CALLS / 3;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(CASE_RING, ranks[i], shapes[i], 64, i % 2 == 0, true);
    }
    printf("%d calls in a ring, %d over trees\n", storm_in_ring, storm_in_trees);
    CHECK(storm_in_ring > 0 && storm_in_trees > 0);
    storm_calls = STORM_CALLS;
}

/* Calls of one collective, with blocks that go in many turns, while threads fall behind. */
static void run_storm_of(mscclpp_coll_t coll, int algo)
{
    static const int ranks[] = {4, 7, 8}, shapes[] = {1, 1, 2};
    size_t i;

    storm_calls = 12;
    storm_of = coll;
    storm_in_trees = storm_in_ring = storm_in_halving = 0;
    jitter_set(100, 300);
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(algo, ranks[i], shapes[i], 64, i % 2 == 0, true);
    }
    jitter_set(0, 0);
    storm_of = MSCCLPP_COLL_LAST;
    storm_calls = STORM_CALLS;
}

/* Broadcasts over trees: a node may not send a turn before its children have done with an earlier one. */
static void test_trees(int scale)
{
    (void)scale;
    run_storm_of(MSCCLPP_COLL_BCAST, CASE_RING);
    printf("%d calls over trees\n", storm_in_trees);
    CHECK(storm_in_trees > 0);
}

/* Reduces over trees: a node may not send a turn before its parent has done with an earlier one. */
static void test_merging_trees(int scale)
{
    (void)scale;
    run_storm_of(MSCCLPP_COLL_REDUCE, CASE_RING);
    printf("%d reduces over trees\n", storm_in_trees);
    CHECK(storm_in_trees > 0);
}

/* Reduce-scatters in a ring: a node combines what it passes on, and may not send it before all of it is there. */
static void test_merging_ring(int scale)
{
    (void)scale;
    run_storm_of(MSCCLPP_COLL_REDUCE_SCATTER_BLOCK, CASE_RING);
    printf("%d reduce-scatters in a ring\n", storm_in_ring);
    CHECK(storm_in_ring > 0);
}

/* By halving: a node may not send what it has not combined yet, nor use places again that others still need. */
static void test_halving(int scale)
{
    (void)scale;
    run_storm_of(MSCCLPP_COLL_REDUCE_SCATTER_BLOCK, CASE_HALVING);
    printf("%d reduce-scatters by halving\n", storm_in_halving);
    CHECK(storm_in_halving > 0);
    run_storm_of(MSCCLPP_COLL_ALLGATHER, CASE_HALVING);
    printf("%d all-gathers by doubling\n", storm_in_halving);
    CHECK(storm_in_halving > 0);
}

/*
 * In windows: a node may not send before the receiver has done with what another one has sent to the same place, nor
 * store what it sends before the same place has been left. The other storms mix calls in windows with others, which use
 * the same memory in other ways: with one that comes just before and after, or with all.
 */
static void test_windows(int scale)
{
    static const mscclpp_coll_t colls[] = {MSCCLPP_COLL_ALLTOALL, MSCCLPP_COLL_SCATTER};
    static const int ranks[] = {16, 17, 20, 20}, shapes[] = {1, 1, 2, -9}, fanouts[] = {64, 2, 10, 64};
    size_t i, j;

    (void)scale;
    jitter_set(100, 300);
    for (j = 0; j < sizeof(colls) / sizeof(colls[0]); ++j) {
        storm_of = colls[j];
        storm_calls = 5;
        for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
            run_storm(MSCCLPP_COLL_BY_NODES, ranks[i], shapes[i], fanouts[i], false, true);
        }
    }
    storm_of = MSCCLPP_COLL_ALLTOALL;
    storm_other = MSCCLPP_COLL_ALLGATHER;
    storm_calls = 12;
    run_storm(MSCCLPP_COLL_BY_NODES, 10, 1, 64, false, true);
    jitter_set(0, 0);
    CHECK(storm_in_windows > 200);
    storm_of = storm_other = MSCCLPP_COLL_LAST;
    storm_calls = STORM_CALLS / 8;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        run_storm(MSCCLPP_COLL_BY_NODES, ranks[i], shapes[i], fanouts[i], false, i % 2 == 0);
    }
    storm_calls = STORM_CALLS;
}

/*
 * Runs a storm on one node, where the blocks of many calls differ in size, by kernels that stay and are rung for, and
 * have so many blocks. `cluster`: the blocks form a cluster.
 */
static void run_storm_rung(int algo, int ranks, int blocks, bool cluster)
{
    const case_choice_t choice = {.algo = algo, .ranks = ranks, .blocks = blocks, .threads = ranks, .nodes = 0};
    mscclpp_config_t config;
    bool lists = true;

    coll_end_configure(&config, &choice, options.timeout);
    config.scratch_size *= (size_t)(storm_lists_wide ? 4 : 1);
    config.linger = "on";
    config.linger_idle = 100000; /* microseconds */
    config.linger_window = 1000000;
    config.linger_cluster = cluster;
    config.epoch_limit = ranks % 2 == 0 ? 40 : config.epoch_limit;
    mscclpp_linger_share_devices(true); /* the ranks are threads of one process, and have one device */
    CHECK_EQ(run_ranks(ranks, &config, run_storm_on, &lists), 0);
    mscclpp_linger_share_devices(false);
    mscclpp_team_finalize(1.0);
}

static void test_rung(int scale)
{
    int ranks;

    (void)scale;
    storm_rings = storm_beyond_rung = 0;
    for (ranks = 2; ranks <= 5; ++ranks) {
        run_storm_rung(CASE_AUTO, ranks, 2, true);
    }
    CHECK(storm_rings > (uint64_t)process_state_calls(STORM_CALLS));
    CHECK_EQ(storm_beyond_rung, 0);
}

/* The same where most blocks go as packets that several blocks of the kernel serve. */
static void test_rung_wide(int scale)
{
    static const int ranks[] = {2, 3, 4, 5, 8, 9}, blocks[] = {2, 3, 4, 2, 3, 2};
    uint64_t all = 0, rung = 0;
    size_t i;

    (void)scale;
    storm_lists_wide = true;
    storm_calls = STORM_CALLS / 2;
    for (i = 0; i < sizeof(ranks) / sizeof(ranks[0]); ++i) {
        storm_wide_lists = storm_wide_lists_rung = storm_beyond_rung = 0;
        run_storm_rung(MSCCLPP_COLL_BY_PACKETS, ranks[i], blocks[i], i % 2 == 0);
        printf("%d ranks: %llu of %llu calls with lists for several blocks were rung for\n", ranks[i],
               (unsigned long long)storm_wide_lists_rung, (unsigned long long)storm_wide_lists);
        CHECK((storm_wide_lists_rung != 0) == (ranks[i] <= MSCCLPP_DEV_LINGER_PEERS));
        all += ranks[i] <= MSCCLPP_DEV_LINGER_PEERS ? storm_wide_lists : 0;
        rung += storm_wide_lists_rung;
        CHECK_EQ(storm_beyond_rung, 0);
    }
    CHECK(rung > all / 2);
    storm_calls = STORM_CALLS;
    storm_lists_wide = false;
}

static const part_t parts[] = {
    {"storm", test_storm},
    {"rounds", test_rounds},
    {"sparse", test_sparse},
    {"sparse_wide", test_sparse_wide},
    {"ring", test_ring},
    {"trees", test_trees},
    {"merging_ring", test_merging_ring},
    {"merging_trees", test_merging_trees},
    {"halving", test_halving},
    {"windows", test_windows},
    {"rung", test_rung},
    {"rung_wide", test_rung_wide},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    mscclpp_gpu_twin_set_filter(user_is_host);
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
