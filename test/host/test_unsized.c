/*
 * Queued calls whose block sizes only the two ends of a pair know (device/kern/coll/unsized.h): in one call some pairs
 * have nothing, some a block that goes as packets, and some one that goes through tiles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "test/host/elements.h"
#include "test/host/jitter.h"
#include "test/host/line.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define RANKS 5
#define CALLS 12          /* queued one after the other, with nothing in between */
#define MOST 5000         /* bytes of the largest block */
#define PLACE (MOST + 24) /* bytes from one block to the next: there are gaps */
#define ROOM ((size_t)RANKS * PLACE)

static parts_options_t options;

static const mscclpp_coll_t collectives[] = {MSCCLPP_COLL_ALLTOALLV, MSCCLPP_COLL_GATHERV, MSCCLPP_COLL_SCATTERV};

/* One call. All ranks draw the same calls; each passes only what concerns it. */
typedef struct {
    mscclpp_coll_t coll;
    int root;
    bool in_place;                /* an all-to-all in which each two ranks swap blocks of one size */
    uint64_t bytes[RANKS][RANKS]; /* [sender][receiver] */
} call_t;

/* In a third of the calls all blocks are small, and in the others some are large. */
static uint64_t draw_bytes(uint64_t *seed, bool may_be_large)
{
    switch (random_below(seed, may_be_large ? 4 : 3)) {
    case 0:
        return 0;
    case 1:
        return 1 + random_below(seed, 16);
    case 2:
        return 1 + random_below(seed, 100);
    default:
        return 100 + random_below(seed, MOST - 100);
    }
}

static void draw_call(uint64_t *seed, int ranks, bool in_place, call_t *call)
{
    const bool may_be_large = random_below(seed, 3) != 0;

    memset(call, 0, sizeof(*call));
    call->in_place = in_place;
    call->coll = in_place ? MSCCLPP_COLL_ALLTOALLV : collectives[random_below(seed, 3)];
    call->root = (int)random_below(seed, (uint64_t)ranks);
    for (int sender = 0; sender < ranks; ++sender) {
        for (int receiver = 0; receiver < ranks; ++receiver) {
            const uint64_t bytes = draw_bytes(seed, may_be_large);
            const bool flows = call->coll == MSCCLPP_COLL_GATHERV    ? receiver == call->root
                               : call->coll == MSCCLPP_COLL_SCATTERV ? sender == call->root
                                                                     : true;

            call->bytes[sender][receiver] = !flows                          ? 0
                                            : in_place && sender > receiver ? call->bytes[receiver][sender]
                                                                            : bytes;
        }
    }
}

static unsigned char value_of(int number, int sender, int receiver, uint64_t k)
{
    return (unsigned char)(number * 7 + sender * 31 + receiver * 11 + (int)(k % 251));
}

/* The lists of one rank, and its buffers. */
typedef struct {
    mscclpp_dev_block_t send[RANKS], recv[RANKS];
    unsigned char *in, *out;
} side_t;

static const unsigned char untouched = 0xa5;

static void fill_side(const call_t *call, int number, int rank, int ranks, side_t *side)
{
    const bool gathers = call->coll == MSCCLPP_COLL_GATHERV, scatters = call->coll == MSCCLPP_COLL_SCATTERV;

    memset(side->out, untouched, ROOM);
    for (int peer = 0; peer < ranks; ++peer) {
        const uint64_t place = (uint64_t)peer * PLACE + 3;

        side->send[peer] = (mscclpp_dev_block_t){gathers ? 0 : place, call->bytes[rank][peer]};
        side->recv[peer] = (mscclpp_dev_block_t){scatters ? 0 : place, call->bytes[peer][rank]};
        for (uint64_t k = 0; k < side->send[peer].bytes; ++k) {
            unsigned char *const from = call->in_place ? side->out : side->in;

            from[side->send[peer].offset + k] = value_of(number, rank, peer, k);
        }
    }
}

static uint64_t largest_of(const side_t *side, int ranks)
{
    uint64_t largest = 0;

    for (int peer = 0; peer < ranks; ++peer) {
        largest = side->send[peer].bytes > largest ? side->send[peer].bytes : largest;
        largest = side->recv[peer].bytes > largest ? side->recv[peer].bytes : largest;
    }
    return largest;
}

static void send_off(const call_t *call, const rank_t *rank, line_t *line, const side_t *side)
{
    const bool sends = call->coll != MSCCLPP_COLL_SCATTERV || rank->rank == call->root;
    const bool receives = call->coll != MSCCLPP_COLL_GATHERV || rank->rank == call->root;
    const mscclpp_coll_args_t args = {.coll = call->coll,
                                      .in = call->in_place ? side->out
                                            : sends        ? side->in
                                                           : NULL,
                                      .out = receives ? side->out : NULL,
                                      .in_place = call->in_place,
                                      .passed_in_place = call->in_place,
                                      .varied = true,
                                      .send = sends ? side->send : NULL,
                                      .recv = receives ? side->recv : NULL,
                                      .largest_block = largest_of(side, rank->size),
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .root = call->root,
                                      .may_wait = true,
                                      .call = ++line->calls};

    CHECK_EQ(mscclpp_collective_enqueue(line->team, &args, line->stream), MSCCLPP_OK);
}

/* Every byte of the output: what a peer has sent, or what was there before. */
static bool is_right(const call_t *call, int number, const rank_t *rank, const side_t *side)
{
    unsigned char *const wanted = malloc(ROOM);
    bool right = true;

    memset(wanted, untouched, ROOM);
    for (int peer = 0; peer < rank->size; ++peer) {
        for (uint64_t k = 0; k < side->recv[peer].bytes; ++k) {
            wanted[side->recv[peer].offset + k] = value_of(number, peer, rank->rank, k);
        }
    }
    for (size_t i = 0; i < ROOM && right; ++i) {
        right = side->out[i] == wanted[i];
        if (!right) {
            fprintf(stderr, "rank %d of %d, %s%s %d: byte %zu is %d, not %d\n", rank->rank, rank->size,
                    mscclpp_coll_name(call->coll), call->in_place ? " in place" : "", number, i, side->out[i],
                    wanted[i]);
        }
    }
    free(wanted);
    return right;
}

typedef struct {
    int rounds;
    bool in_place;
} run_t;

static void run_calls(rank_t *rank)
{
    const run_t *run = rank->argument;
    uint64_t seed = 77;
    void *memory = NULL;
    call_t calls[CALLS];
    side_t sides[CALLS];
    line_t line;

    CHECK_EQ(rank->gpu->device_alloc(0, 2 * ROOM * CALLS, &memory), MSCCLPP_OK);
    if (line_open(rank, &line)) {
        for (int round = 0; round < run->rounds; ++round) {
            bool right = true;

            for (int i = 0; i < CALLS; ++i) {
                sides[i].in = (unsigned char *)memory + 2 * ROOM * (size_t)i;
                sides[i].out = sides[i].in + ROOM;
                draw_call(&seed, rank->size, run->in_place, &calls[i]);
                fill_side(&calls[i], round * CALLS + i, rank->rank, rank->size, &sides[i]);
            }
            for (int i = 0; i < CALLS; ++i) {
                send_off(&calls[i], rank, &line, &sides[i]);
            }
            CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
            for (int i = 0; i < CALLS; ++i) {
                right = is_right(&calls[i], round * CALLS + i, rank, &sides[i]) && right;
            }
            CHECK(right);
            if (meet_any(rank, !right)) {
                break;
            }
        }
        CHECK_EQ(mscclpp_team_check_kernels(line.team), MSCCLPP_OK);
    }
    line_close(rank, &line);
    rank->gpu->device_free(0, memory);
}

/* `algorithm` is that of the three collectives; NULL: the default, which takes packets for small blocks. */
static void run_grids(run_t *run, const char *algorithm)
{
    static const struct {
        int ranks, blocks, threads;
        size_t limit;
    } cases[] = {{1, 1, 1, 16}, {2, 1, 1, 16}, {3, 2, 2, 16}, {2, 3, 2, 24}, {4, 1, 3, (size_t)1 << 31}, {5, 2, 1, 20}};
    mscclpp_config_t config;

    jitter_set(10, 2000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        mscclpp_config_init(&config);
        config.scratch_size = (size_t)1 << 20;
        config.twin_blocks = cases[i].blocks;
        config.twin_threads = cases[i].threads;
        config.epoch_limit = cases[i].limit;
        config.timeout = options.timeout;
        config.ucx = false;
        if (algorithm != NULL) {
            config.alltoallv_algorithm = config.gatherv_algorithm = config.scatterv_algorithm = algorithm;
        }
        CHECK_EQ(run_ranks(cases[i].ranks, &config, run_calls, run), 0);
    }
    jitter_set(0, 0);
    mscclpp_team_finalize(1.0);
}

static void test_mixed(int scale)
{
    run_t run = {.rounds = 4 * scale};

    run_grids(&run, NULL);
}

static void test_in_place(int scale)
{
    run_t run = {.rounds = 3 * scale, .in_place = true};

    run_grids(&run, NULL);
}

static void test_tiles(int scale)
{
    run_t run = {.rounds = 2 * scale};

    run_grids(&run, "scratch");
}

/* A rank's block for itself takes no part in the exchange, and so no barrier, whatever its size. */
static void run_own(rank_t *rank)
{
    void *memory = NULL;
    call_t call = {.coll = MSCCLPP_COLL_ALLTOALLV, .bytes = {{MOST, 16}, {16, MOST}}};
    side_t side;
    line_t line;

    CHECK_EQ(rank->gpu->device_alloc(0, 2 * ROOM, &memory), MSCCLPP_OK);
    side.in = memory;
    side.out = side.in + ROOM;
    if (line_open(rank, &line)) {
        const mscclpp_runner_t *runner = &line.team->runner;
        const mscclpp_dev_state_t *state = NULL;
        uint64_t barriers = 0;

        for (int number = 0; number < 3; ++number) {
            fill_side(&call, number, rank->rank, rank->size, &side);
            meet(rank);
            send_off(&call, rank, &line, &side);
            CHECK_EQ(rank->gpu->stream_sync(line.stream), MSCCLPP_OK);
            CHECK(is_right(&call, number, rank, &side));
            /* The first call makes the scratch. */
            state = (const mscclpp_dev_state_t *)(const void *)(runner->scratch + runner->layout.state_offset);
            barriers = number == 0 ? state->barrier[0] : barriers;
        }
        CHECK_EQ(state->barrier[0], barriers);
    }
    meet(rank);
    line_close(rank, &line);
    rank->gpu->device_free(0, memory);
}

static void test_own(int scale)
{
    mscclpp_config_t config;

    (void)scale;
    mscclpp_config_init(&config);
    config.scratch_size = (size_t)1 << 20;
    config.timeout = options.timeout;
    config.ucx = false;
    CHECK_EQ(run_ranks(2, &config, run_own, NULL), 0);
    mscclpp_team_finalize(1.0);
}

static const part_t parts[] = {
    {"mixed", test_mixed}, {"in_place", test_in_place}, {"tiles", test_tiles}, {"own", test_own}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
