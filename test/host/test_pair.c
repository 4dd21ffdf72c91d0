/*
 * Calls of two ranks whose block sizes only the two ends know. If packets can carry what the ranks send one another,
 * they agree on nothing first. A rank's block for itself, which the other one does not know, may have any size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/task/collective.h"
#include "mca/common/team/parts.h"
#include "test/host/elements.h"
#include "test/host/log_record.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/unit/unit.h"

#define RANKS 2
#define CALLS 80
#define BLOCKS 3        /* of the twin's grid */
#define THREADS 4       /* of a block */
#define PACKETS_MAX 256 /* bytes of the largest block that the twin sends as packets between two ranks */
#define HUGE 70000      /* bytes that packets cannot carry, even if they are asked for */
#define HOLE 2          /* bytes from one byte of data to the next in blocks with holes */
#define MARGIN 3        /* bytes before the first block */
#define PLACE (HOLE * HUGE + 24)
#define ROOM ((size_t)RANKS * PLACE)

static parts_options_t options;
static mscclpp_admission_t admissions[RANKS]; /* each rank has its own, as in processes of their own */
static const unsigned char untouched = 0xa5;

static const mscclpp_coll_t collectives[] = {MSCCLPP_COLL_ALLTOALLV, MSCCLPP_COLL_ALLTOALLW, MSCCLPP_COLL_GATHERV,
                                             MSCCLPP_COLL_SCATTERV};

/* One call. Both ranks draw the same calls; each passes only what concerns it. */
typedef struct {
    mscclpp_coll_t coll;
    int root;
    bool in_place;
    bool early;
    bool has_holes[RANKS][2];     /* [rank]: in the input, and in the output */
    uint64_t bytes[RANKS][RANKS]; /* [sender][receiver] */
} call_t;

/* One rank's part of a call. A block with holes has its bytes HOLE bytes apart. */
typedef struct {
    const call_t *call;
    int rank;
    bool moves_in_place; /* this rank passes MPI_IN_PLACE */
    bool sends;          /* this rank has an input */
    bool receives;
    mscclpp_dev_block_t send[RANKS], recv[RANKS];
    mscclpp_coll_pack_t packs[2][RANKS];
    unsigned char *in, *out;
} side_t;

static const mscclpp_coll_piece_t one_byte = {.length = 1, .count = 1, .stride = 1};

static bool is_all_to_all(const call_t *call)
{
    return call->coll == MSCCLPP_COLL_ALLTOALLV || call->coll == MSCCLPP_COLL_ALLTOALLW;
}

static uint64_t draw_own(uint64_t *seed)
{
    static const uint64_t sizes[] = {0, 0, 7, 300, 5000, HUGE};

    return sizes[random_below(seed, sizeof(sizes) / sizeof(sizes[0]))];
}

static uint64_t draw_exchanged(uint64_t *seed)
{
    static const uint64_t sizes[] = {0, 1, 16, 100, PACKETS_MAX - 1, PACKETS_MAX, PACKETS_MAX + 1, 5000};

    return sizes[random_below(seed, sizeof(sizes) / sizeof(sizes[0]))];
}

static void draw_call(uint64_t *seed, call_t *call)
{
    memset(call, 0, sizeof(*call));
    call->coll = collectives[random_below(seed, 4)];
    call->root = (int)random_below(seed, RANKS);
    call->in_place = random_below(seed, 4) == 0;
    call->early = random_below(seed, 4) == 0;
    for (int sender = 0; sender < RANKS; ++sender) {
        for (int receiver = 0; receiver < RANKS; ++receiver) {
            const bool flows = call->coll == MSCCLPP_COLL_GATHERV    ? receiver == call->root
                               : call->coll == MSCCLPP_COLL_SCATTERV ? sender == call->root
                                                                     : true;
            const uint64_t bytes = sender == receiver ? draw_own(seed) : draw_exchanged(seed);

            call->bytes[sender][receiver] = flows ? bytes : 0;
        }
        for (int side = 0; side < 2; ++side) {
            const bool has_holes = random_below(seed, 4) == 0;

            call->has_holes[sender][side] = has_holes && !call->in_place;
        }
    }
    if (call->in_place && is_all_to_all(call)) {
        call->bytes[1][0] = call->bytes[0][1];
    }
}

/* Whether the input, or the output, is a single block. A call then gets the address of the block. */
static bool is_one_block(const side_t *side, bool of_output)
{
    return side->call->coll == (of_output ? MSCCLPP_COLL_SCATTERV : MSCCLPP_COLL_GATHERV);
}

/* Where byte `k` of the block for, or from, a peer lies in this rank's input, or output. */
static size_t place_of(const side_t *side, bool of_output, int peer, uint64_t k)
{
    const uint64_t distance = side->call->has_holes[side->rank][of_output] ? HOLE : 1;

    return (is_one_block(side, of_output) ? 0 : (size_t)peer * PLACE) + MARGIN + k * distance;
}

static unsigned char value_of(int number, int sender, int receiver, uint64_t k)
{
    return (unsigned char)(number * 7 + sender * 31 + receiver * 11 + (int)(k % 251));
}

/* Lists the blocks of one buffer, and the packs if it has holes. */
static void list_blocks(side_t *side, bool of_output, mscclpp_dev_block_t *list)
{
    const bool has_holes = side->call->has_holes[side->rank][of_output];
    const size_t first = is_one_block(side, of_output) ? MARGIN : 0; /* where the buffer that the call gets begins */
    uint64_t packed = 0;

    for (int peer = 0; peer < RANKS; ++peer) {
        const uint64_t bytes = of_output ? side->call->bytes[peer][side->rank] : side->call->bytes[side->rank][peer];
        const size_t place = place_of(side, of_output, peer, 0);

        list[peer] = (mscclpp_dev_block_t){has_holes ? packed : place - first, bytes};
        side->packs[of_output][peer] =
            (mscclpp_coll_pack_t){.with_holes = (char *)(of_output ? side->out : side->in) + place,
                                  .elements = bytes,
                                  .extent = HOLE,
                                  .size = 1,
                                  .pieces = &one_byte,
                                  .piece_count = 1,
                                  .offset = packed};
        packed += bytes;
    }
}

/* Fills in this rank's part of a call, whose buffers are side->in and side->out, and their contents. */
static void fill_side(const call_t *call, int number, int rank, side_t *side)
{
    const bool gathers = call->coll == MSCCLPP_COLL_GATHERV, scatters = call->coll == MSCCLPP_COLL_SCATTERV;

    side->call = call;
    side->rank = rank;
    side->moves_in_place = call->in_place && (is_all_to_all(call) || rank == call->root);
    side->sends = (!scatters || rank == call->root) && (scatters || !side->moves_in_place);
    side->receives = (!gathers || rank == call->root) && (!scatters || !side->moves_in_place);
    list_blocks(side, false, side->send);
    list_blocks(side, true, side->recv);
    memset(side->out, untouched, ROOM);
    for (int peer = 0; peer < RANKS; ++peer) {
        const bool lies_in_output = side->moves_in_place && is_all_to_all(call);

        for (uint64_t k = 0; k < side->send[peer].bytes; ++k) {
            (lies_in_output ? side->out : side->in)[place_of(side, lies_in_output, peer, k)] =
                value_of(number, rank, peer, k);
        }
    }
    if (side->moves_in_place && is_all_to_all(call)) {
        memcpy(side->send, side->recv, sizeof(side->send));
    }
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static mscclpp_status_t make_call(mscclpp_team_t *team, const side_t *side, uint64_t number)
{
    const call_t *call = side->call;
    const bool *has_holes = call->has_holes[side->rank];
    const bool has_send = side->sends || (side->moves_in_place && is_all_to_all(call));
    const mscclpp_coll_args_t args = {.coll = call->coll,
                                      .in = side->sends ? side->in + (is_one_block(side, false) ? MARGIN : 0) : NULL,
                                      .out =
                                          side->receives ? side->out + (is_one_block(side, true) ? MARGIN : 0) : NULL,
                                      .in_place = side->moves_in_place,
                                      .passed_in_place = call->in_place && is_all_to_all(call),
                                      .in_packs = side->packs[0],
                                      .in_pack_count = side->sends && has_holes[0] ? RANKS : 0,
                                      .out_packs = side->packs[1],
                                      .out_pack_count = side->receives && has_holes[1] ? RANKS : 0,
                                      .varied = true,
                                      .send = has_send ? side->send : NULL,
                                      .recv = side->receives ? side->recv : NULL,
                                      .largest_block = greater(greater(side->send[0].bytes, side->send[1].bytes),
                                                               greater(side->recv[0].bytes, side->recv[1].bytes)),
                                      .dtype = MSCCLPP_DTYPE_UINT8,
                                      .op = MSCCLPP_OP_SUM,
                                      .root = call->root,
                                      .early = call->early,
                                      .call = number};

    return mscclpp_collective(team, &args);
}

/* Every byte of the output: what a peer has sent, or what was there before. */
static bool is_right(const side_t *side, int number)
{
    const call_t *call = side->call;
    unsigned char *const wanted = malloc(ROOM);
    bool right;

    REQUIRE(wanted != NULL);
    memset(wanted, untouched, ROOM);
    for (int peer = 0; peer < RANKS && side->receives; ++peer) {
        const bool is_unmoved = peer == side->rank && side->moves_in_place && !is_all_to_all(call);

        for (uint64_t k = 0; k < side->recv[peer].bytes && !is_unmoved; ++k) {
            wanted[place_of(side, true, peer, k)] = value_of(number, peer, side->rank, k);
        }
    }
    right = memcmp(side->out, wanted, ROOM) == 0;
    free(wanted);
    return right;
}

static void describe(const call_t *call, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s, root %d, bytes %llu %llu %llu %llu, holes %d%d %d%d", mscclpp_coll_name(call->coll),
             call->in_place ? " in place" : "", call->early ? " early" : "", call->root,
             (unsigned long long)call->bytes[0][0], (unsigned long long)call->bytes[0][1],
             (unsigned long long)call->bytes[1][0], (unsigned long long)call->bytes[1][1], call->has_holes[0][0],
             call->has_holes[0][1], call->has_holes[1][0], call->has_holes[1][1]);
}

/* Returns the blocks of the grid that a rank has to get for units of so many bytes. */
static int blocks_for(uint64_t bytes)
{
    const uint64_t units = (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT, blocks = (units + THREADS - 1) / THREADS;

    return blocks < BLOCKS ? (int)blocks : BLOCKS;
}

typedef struct {
    int calls;
    bool lingers;
    uint64_t seed;
    uint64_t rings; /* calls without a launch, of both ranks */
} run_t;

/* Makes a call, and checks what it did. Returns false after a fault, which it reports. */
static bool check_call(rank_t *rank, const run_t *run, mscclpp_team_t *team, const side_t *side, int number)
{
    const call_t *call = side->call;
    const uint64_t exchanged = greater(call->bytes[0][1], call->bytes[1][0]);
    const uint64_t own = side->moves_in_place ? 0 : side->recv[side->rank].bytes;
    const bool agrees = exchanged == 0 || exchanged > PACKETS_MAX;
    const uint64_t before = team->group.exchanges;
    const mscclpp_status_t status = make_call(team, side, (uint64_t)number + 1);
    const uint64_t exchanges = team->group.exchanges - before;
    const char *algorithm = mscclpp_team_last_algorithm(team);
    const bool is_served = agrees || strcmp(algorithm, "packets") == 0;
    /* A lingering kernel may have served the call, on other blocks. */
    const bool has_grid =
        agrees || run->lingers || team->runner.reporting_blocks == (uint32_t)blocks_for(greater(exchanged, own));
    const bool good =
        status == MSCCLPP_OK && is_right(side, number) && is_served && has_grid && (exchanges > 0) == agrees;
    char text[160];

    if (!good) {
        describe(call, text, sizeof(text));
        fprintf(stderr, "FAIL rank %d, call %d, %s: %s, %s bytes, by %s, %llu exchanges, %u blocks\n", rank->rank,
                number, text, mscclpp_status_string(status), is_right(side, number) ? "right" : "wrong", algorithm,
                (unsigned long long)exchanges, team->runner.reporting_blocks);
        ++rank->failures;
    }
    return good;
}

static unsigned char *make_buffer(const rank_t *rank)
{
    void *address = NULL;

    REQUIRE(rank->gpu->device_alloc(0, ROOM, &address) == MSCCLPP_OK);
    return address;
}

static void make_calls(rank_t *rank)
{
    run_t *run = rank->argument;
    side_t side = {.in = make_buffer(rank), .out = make_buffer(rank)};
    mscclpp_team_t *team;
    uint64_t seed = run->seed;
    call_t call;

    rank->admission = &admissions[rank->rank];
    team = create_team(rank);
    REQUIRE(team != NULL);
    CHECK(MSCCLPP_DEV_ONESHOT_CAPACITY(team->runner.layout.packet_half, RANKS) * MSCCLPP_DEV_UNIT < HUGE);
    for (int i = 0; i < run->calls; ++i) {
        draw_call(&seed, &call);
        fill_side(&call, i, rank->rank, &side);
        if (meet_any(rank, !check_call(rank, run, team, &side, i))) {
            break;
        }
    }
    __atomic_fetch_add(&run->rings, mscclpp_team_lingered(team), __ATOMIC_RELAXED);
    mscclpp_team_destroy(team);
    meet(rank);
    rank->gpu->device_free(0, side.in);
    rank->gpu->device_free(0, side.out);
}

static void configure(mscclpp_config_t *config)
{
    mscclpp_config_init(config);
    config->scratch_size = (size_t)1 << 20;
    config->twin_blocks = BLOCKS;
    config->twin_threads = THREADS;
    config->timeout = options.timeout;
    config->ucx = false;
}

static void test_launched(int scale)
{
    run_t run = {.calls = CALLS * scale, .seed = 5};
    mscclpp_config_t config;

    configure(&config);
    CHECK_EQ(run_ranks(RANKS, &config, make_calls, &run), 0);
    mscclpp_team_finalize(1.0);
}

/* A rank's lingering kernel serves the calls in which the rank's own block is small, whatever the other rank does. */
static void test_lingering(int scale)
{
    run_t run = {.calls = 4 * CALLS * scale, .seed = 6, .lingers = true};
    mscclpp_config_t config;

    configure(&config);
    config.linger = "on";
    config.linger_window = 1e6;
    config.linger_idle = 20000;
    mscclpp_linger_share_devices(true);
    CHECK_EQ(run_ranks(RANKS, &config, make_calls, &run), 0);
    mscclpp_linger_share_devices(false);
    printf("%llu of %d calls without a launch\n", (unsigned long long)run.rings, RANKS * run.calls);
    CHECK(run.rings > 0);
    mscclpp_team_finalize(1.0);
}

/* Rank 0 sends fewer bytes than rank 1 expects. */
static void disagree(rank_t *rank)
{
    const uint64_t *expected = rank->argument;
    call_t call = {.coll = MSCCLPP_COLL_ALLTOALLV, .bytes = {{50, 24}, {24, HUGE}}};
    side_t side = {.in = make_buffer(rank), .out = make_buffer(rank)};
    mscclpp_team_t *team = create_team(rank);
    mscclpp_status_t status;

    REQUIRE(team != NULL);
    fill_side(&call, 1, rank->rank, &side);
    side.recv[0].bytes = rank->rank == 1 ? *expected : side.recv[0].bytes;
    status = make_call(team, &side, 1);
    /* Rank 0 may have all that it waits for. */
    rank->failures += rank->rank == 1 && status != MSCCLPP_ERR_INVALID && status != MSCCLPP_ERR_PEER;
    rank->failures += status == MSCCLPP_ERR_TIMEOUT;
    meet(rank);
    mscclpp_team_destroy(team);
    meet(rank);
    rank->gpu->device_free(0, side.in);
    rank->gpu->device_free(0, side.out);
}

/* Ranks find that they disagree, also if one of them waits for packets and the other for an exchange. */
static void test_mismatch(int scale)
{
    static const uint64_t expected[] = {100, PACKETS_MAX + 1};

    (void)scale;
    mscclpp_log_set(log_record_sink, NULL, MSCCLPP_LOG_ERROR);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); ++i) {
        mscclpp_config_t config;

        configure(&config);
        log_record_clear();
        CHECK_EQ(run_ranks(RANKS, &config, disagree, (void *)(uintptr_t)&expected[i]), 0);
        CHECK(log_record_count(MSCCLPP_LOG_ERROR, "alltoallv of 24 bytes", "they must be equal") > 0);
        mscclpp_team_finalize(1.0);
    }
    mscclpp_log_set(NULL, NULL, MSCCLPP_LOG_WARN);
}

static const part_t parts[] = {
    {"launched", test_launched}, {"lingering", test_lingering}, {"mismatch", test_mismatch}, {NULL, NULL}};

int main(int argc, char **argv)
{
    unit_begin();
    for (int i = 0; i < RANKS; ++i) {
        mscclpp_admission_init(&admissions[i]);
    }
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
