/*
 * All-to-alls of blocks with holes that the twin's kernel moves from buffer to buffer (device/kern/coll/strided.h).
 * Where that kernel has to serve a call, the description for packing is empty, so a call that packs has wrong results.
 * Where a buffer cannot be mapped, the description is complete, and packing has to be right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/task/collective.h"
#include "test/host/elements.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/host/user_buffer.h"
#include "test/unit/unit.h"

#define MAX_RANKS 5
#define CASES 24
#define SCRATCH ((size_t)1 << 20)

static parts_options_t options;

/* A case: what each rank sends to each other one. Index of blocks: sender * ranks + receiver. */
typedef struct {
    uint64_t seed;
    int ranks;
    int spoiled; /* the rank whose buffers cannot be used where they are; negative: none */
    user_kind_t kind;
    size_t in_bytes[MAX_RANKS];
    size_t out_bytes[MAX_RANKS];
    mscclpp_dev_runs_t from[MAX_RANKS * MAX_RANKS];
    mscclpp_dev_runs_t to[MAX_RANKS * MAX_RANKS];
} case_t;

typedef void (*draw_t)(case_t *c, uint64_t *random);

/* What the ranks of one team run. */
typedef struct {
    draw_t draw;
    int cases;
    uint64_t seed;
} work_t;

static uint64_t bytes_of(const mscclpp_dev_runs_t *runs)
{
    return runs->length * runs->count;
}

/* Where byte `index` of a block lies. */
static int64_t place_of(const mscclpp_dev_runs_t *runs, uint64_t index)
{
    return runs->offset + (int64_t)(index / runs->length) * runs->stride + (int64_t)(index % runs->length);
}

static unsigned char noise(const case_t *c, int buffer, uint64_t index)
{
    return (unsigned char)(random_mix(c->seed + (uint64_t)buffer, index / 8) >> index % 8 * 8);
}

/* Draws where runs lie from `*end` on, with distances that are multiples of `grain`. Some lie in reverse order. */
static mscclpp_dev_runs_t draw_runs(uint64_t length, uint64_t count, uint64_t grain, size_t *end, uint64_t *random)
{
    const uint64_t distance = length + grain * random_below(random, 4);
    mscclpp_dev_runs_t runs = {.length = length, .count = count, .stride = (int64_t)distance};

    runs.offset = (int64_t)(*end + grain * random_below(random, 3));
    *end = (size_t)runs.offset + (size_t)((count - 1) * distance + length);
    if (random_below(random, 4) == 0) {
        runs.offset += (int64_t)((count - 1) * distance);
        runs.stride = -runs.stride;
    }
    return runs;
}

/* Blocks of a * b * c units, in runs that differ between the two sides, some as short as a byte, some empty. */
static void draw_any(case_t *c, uint64_t *random)
{
    for (int i = 0; i < c->ranks * c->ranks; ++i) {
        const uint64_t grain = (uint64_t)1 << random_below(random, 5), unit = grain * (1 + random_below(random, 9));
        const uint64_t a = 1 + random_below(random, 5), b = 1 + random_below(random, 7),
                       d = 1 + random_below(random, 30);
        const uint64_t lengths[] = {a, a * b, a * d, a * b * d};
        const uint64_t mine = lengths[random_below(random, 4)], theirs = lengths[random_below(random, 4)];

        if (random_below(random, 8) == 0) {
            c->from[i] = c->to[i] = (mscclpp_dev_runs_t){.count = 1};
            continue;
        }
        c->from[i] = draw_runs(unit * mine, a * b * d / mine, grain, &c->in_bytes[i / c->ranks], random);
        c->to[i] = draw_runs(unit * theirs, a * b * d / theirs, grain, &c->out_bytes[i % c->ranks], random);
    }
}

/* The share of an axis that a rank has. */
static uint64_t first_of(uint64_t length, int rank, int ranks)
{
    return length * (uint64_t)rank / (uint64_t)ranks;
}

/* Part `begin` to `end` along `axis` of an array. */
static mscclpp_dev_runs_t part_of(const uint64_t *shape, int axis, uint64_t begin, uint64_t end, uint64_t element)
{
    mscclpp_dev_runs_t runs = {.count = 1, .length = end - begin, .stride = (int64_t)shape[axis]};
    uint64_t inner = element;

    for (int i = 0; i < axis; ++i) {
        runs.count *= shape[i];
    }
    for (int i = axis + 1; i < 3; ++i) {
        inner *= shape[i];
    }
    runs.offset = (int64_t)(begin * inner);
    runs.length *= inner;
    runs.stride *= (int64_t)inner;
    return runs;
}

/* An array that is spread along one axis becomes one that is spread along another one. */
static void draw_transposition(case_t *c, uint64_t *random)
{
    const uint64_t shape[] = {5 + random_below(random, 9), 5 + random_below(random, 9), 5 + random_below(random, 9)};
    const uint64_t element = (uint64_t)4 << random_below(random, 3);
    const int old = (int)random_below(random, 3), new = (old + 1 + (int)random_below(random, 2)) % 3;

    for (int rank = 0; rank < c->ranks; ++rank) {
        uint64_t before[3], after[3];

        memcpy(before, shape, sizeof(shape));
        memcpy(after, shape, sizeof(shape));
        before[old] = first_of(shape[old], rank + 1, c->ranks) - first_of(shape[old], rank, c->ranks);
        after[new] = first_of(shape[new], rank + 1, c->ranks) - first_of(shape[new], rank, c->ranks);
        c->in_bytes[rank] = before[0] * before[1] * before[2] * element;
        c->out_bytes[rank] = after[0] * after[1] * after[2] * element;
        for (int peer = 0; peer < c->ranks; ++peer) {
            c->from[rank * c->ranks + peer] = part_of(before, new, first_of(shape[new], peer, c->ranks),
                                                      first_of(shape[new], peer + 1, c->ranks), element);
            c->to[peer * c->ranks + rank] = part_of(after, old, first_of(shape[old], peer, c->ranks),
                                                    first_of(shape[old], peer + 1, c->ranks), element);
        }
    }
}

/* A buffer's blocks as the component describes them to a call. */
typedef struct {
    mscclpp_dev_runs_t runs[MAX_RANKS];
    mscclpp_dev_block_t blocks[MAX_RANKS]; /* packed */
    mscclpp_coll_piece_t pieces[MAX_RANKS];
    mscclpp_coll_pack_t packs[MAX_RANKS];
    uint64_t most;
} described_t;

/* Block `first` + i * `step` is the one for, or from, rank i. With `packs`, packing them would be right. */
static void describe(const case_t *c, const mscclpp_dev_runs_t *all, int first, int step, char *buffer, bool packs,
                     described_t *described)
{
    uint64_t packed = 0;

    memset(described, 0, sizeof(*described));
    for (int i = 0; i < c->ranks; ++i) {
        const mscclpp_dev_runs_t *runs = &all[first + i * step];
        const uint64_t bytes = bytes_of(runs);

        described->runs[i] = *runs;
        described->blocks[i] = (mscclpp_dev_block_t){.offset = packed, .bytes = bytes};
        described->pieces[i] = (mscclpp_coll_piece_t){runs->offset, runs->length, runs->count, runs->stride};
        described->packs[i] = (mscclpp_coll_pack_t){.with_holes = buffer,
                                                    .elements = packs && bytes > 0 ? 1 : 0,
                                                    .size = bytes,
                                                    .pieces = &described->pieces[i],
                                                    .piece_count = 1,
                                                    .offset = packed};
        packed += bytes;
        described->most = bytes > described->most ? bytes : described->most;
    }
}

/* True if the output has the other ranks' bytes where they belong, and what it had elsewhere. */
static bool is_right(const case_t *c, int rank, const unsigned char *got)
{
    unsigned char *expected = malloc(c->out_bytes[rank] + 1);
    bool right;

    REQUIRE(expected != NULL);
    for (size_t i = 0; i < c->out_bytes[rank]; ++i) {
        expected[i] = noise(c, c->ranks + rank, i);
    }
    for (int sender = 0; sender < c->ranks; ++sender) {
        const int block = sender * c->ranks + rank;

        for (uint64_t i = 0; i < bytes_of(&c->from[block]); ++i) {
            expected[place_of(&c->to[block], i)] = noise(c, sender, (uint64_t)place_of(&c->from[block], i));
        }
    }
    right = memcmp(expected, got, c->out_bytes[rank]) == 0;
    free(expected);
    return right;
}

/* One call of one rank. */
static void call(rank_t *rank, mscclpp_team_t *team, const case_t *c, const user_pool_t *pools, uint64_t number)
{
    const int me = rank->rank;
    const bool packs = c->spoiled >= 0;
    const user_kind_t kind = c->spoiled == me ? c->kind : USER_DEVICE;
    mscclpp_coll_args_t args = {.coll = MSCCLPP_COLL_ALLTOALLW, .varied = true, .dtype = MSCCLPP_DTYPE_UINT8};
    described_t sent, received;
    user_buffer_t in, out;
    bool good;

    user_buffer_open(&in, kind, &pools[0], (unsigned)(c->seed % 2 * 16), c->in_bytes[me]);
    user_buffer_open(&out, kind, &pools[1], (unsigned)(c->seed % 3 * 8), c->out_bytes[me]);
    for (size_t i = 0; i < c->in_bytes[me]; ++i) {
        ((unsigned char *)in.data)[i] = noise(c, me, i);
    }
    for (size_t i = 0; i < c->out_bytes[me]; ++i) {
        ((unsigned char *)out.data)[i] = noise(c, c->ranks + me, i);
    }
    describe(c, c->from, me * c->ranks, 1, in.data, packs, &sent);
    describe(c, c->to, me, c->ranks, out.data, packs, &received);
    args.in = in.data;
    args.out = out.data;
    args.send = sent.blocks;
    args.recv = received.blocks;
    args.send_runs = sent.runs;
    args.recv_runs = received.runs;
    args.in_packs = sent.packs;
    args.out_packs = received.packs;
    args.in_pack_count = args.out_pack_count = (size_t)c->ranks;
    args.largest_block = sent.most > received.most ? sent.most : received.most;
    args.call = number;
    good = mscclpp_collective(team, &args) == MSCCLPP_OK && is_right(c, me, out.data) && user_buffer_intact(&in) &&
           user_buffer_intact(&out);
    good = good && (packs || strcmp(mscclpp_team_last_algorithm(team), "zerocopy") == 0);
    if (!good) {
        fprintf(stderr, "FAIL rank %d of %d, seed %llu, %s: wrong bytes, or by %s\n", me, c->ranks,
                (unsigned long long)c->seed, packs ? "packed" : "from buffer to buffer",
                mscclpp_team_last_algorithm(team));
        ++rank->failures;
    }
    user_buffer_close(&in);
    user_buffer_close(&out);
}

/* Every rank draws the same cases. */
static void run_cases(rank_t *rank)
{
    const work_t *work = rank->argument;
    mscclpp_team_t *team = create_team(rank);
    uint64_t random = work->seed;
    user_pool_t pools[2];

    user_pool_create(&pools[0], 4 << 20);
    user_pool_create(&pools[1], 4 << 20);
    for (int i = 0; i < work->cases && team != NULL; ++i) {
        case_t c = {.seed = random_next(&random) & 0xffffffff, .ranks = rank->size, .spoiled = -1};

        if (i % 4 == 3 && rank->size > 1) {
            c.spoiled = (int)random_below(&random, (uint64_t)c.ranks);
            c.kind = random_below(&random, 2) == 0 ? USER_HOST : USER_EXACT;
        }
        work->draw(&c, &random);
        call(rank, team, &c, pools, (uint64_t)i + 1);
        if (meet_any(rank, rank->failures > 0)) {
            break;
        }
    }
    mscclpp_team_destroy(team);
    user_pool_destroy(&pools[0]);
    user_pool_destroy(&pools[1]);
}

static void run_teams(draw_t draw, int cases)
{
    static const int grids[][2] = {{1, 1}, {2, 3}, {1, 8}, {3, 4}, {2, 16}};

    for (int ranks = 1; ranks <= MAX_RANKS; ++ranks) {
        work_t work = {draw, cases, (uint64_t)(40 + ranks)};
        mscclpp_config_t config;

        mscclpp_config_init(&config);
        config.scratch_size = SCRATCH;
        config.twin_blocks = grids[ranks - 1][0];
        config.twin_threads = grids[ranks - 1][1];
        config.timeout = options.timeout;
        config.ucx = false;
        config.alltoallw_algorithm = ranks % 2 == 0 ? "engines" : "zerocopy";
        CHECK_EQ(run_ranks(ranks, &config, run_cases, &work), 0);
        mscclpp_team_finalize(1.0);
    }
}

static void test_runs(int scale)
{
    run_teams(draw_any, CASES * scale);
}

static void test_transpositions(int scale)
{
    run_teams(draw_transposition, CASES * scale);
}

static const part_t parts[] = {{"runs", test_runs}, {"transpositions", test_transpositions}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    mscclpp_gpu_twin_set_filter(user_is_host);
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
