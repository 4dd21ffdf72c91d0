#include "test/host/coll_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/types/coll_nodes.h"
#include "test/host/elements.h"
#include "test/host/reference.h"

const char *const case_algos[CASE_LAST_ALGO + 1] = {
    [MSCCLPP_COLL_BY_PACKETS] = "packets",
    [MSCCLPP_COLL_BY_ZEROCOPY] = "zerocopy",
    [MSCCLPP_COLL_BY_ENGINES] = "engines",
    [MSCCLPP_COLL_BY_SCRATCH] = "scratch",
    [MSCCLPP_COLL_BY_PUTS] = "puts",
    [CASE_AUTO] = "auto",
    [CASE_RING] = "nodes_ring",
    [CASE_HALVING] = "nodes_halving",
    [CASE_ROUNDS] = "nodes_rounds",
};

/* The selector's limits for packets on the twin, in bytes that a rank sends to all others together. */
#define AUTO_TWO 256
#define AUTO_MORE 512

/* The largest block between nodes, in bytes: there the threads of all ranks need long for a turn. */
#define NODES_LARGEST 20000

bool case_varies(int coll)
{
    return coll == MSCCLPP_COLL_ALLGATHERV || coll == MSCCLPP_COLL_ALLTOALLV || coll == MSCCLPP_COLL_ALLTOALLW ||
           coll == MSCCLPP_COLL_GATHERV || coll == MSCCLPP_COLL_SCATTERV || coll == MSCCLPP_COLL_REDUCE_SCATTER;
}

bool case_combines(int coll)
{
    return coll == MSCCLPP_COLL_REDUCE || coll == MSCCLPP_COLL_REDUCE_SCATTER ||
           coll == MSCCLPP_COLL_REDUCE_SCATTER_BLOCK || coll == MSCCLPP_COLL_SCAN || coll == MSCCLPP_COLL_EXSCAN ||
           coll == CASE_ALLREDUCE;
}

bool case_has_root(int coll)
{
    return coll == MSCCLPP_COLL_BCAST || coll == MSCCLPP_COLL_GATHER || coll == MSCCLPP_COLL_GATHERV ||
           coll == MSCCLPP_COLL_SCATTER || coll == MSCCLPP_COLL_SCATTERV || coll == MSCCLPP_COLL_REDUCE;
}

bool case_knows_in_place(int coll)
{
    return coll != MSCCLPP_COLL_BCAST;
}

static bool gathers(int coll)
{
    return coll == MSCCLPP_COLL_GATHER || coll == MSCCLPP_COLL_GATHERV;
}

bool case_scatters(int coll)
{
    return coll == MSCCLPP_COLL_SCATTER || coll == MSCCLPP_COLL_SCATTERV;
}

static bool gathers_all(int coll)
{
    return coll == MSCCLPP_COLL_ALLGATHER || coll == MSCCLPP_COLL_ALLGATHERV;
}

static bool exchanges(int coll)
{
    return coll == MSCCLPP_COLL_ALLTOALL || coll == MSCCLPP_COLL_ALLTOALLV || coll == MSCCLPP_COLL_ALLTOALLW;
}

bool case_reduce_scatters(int coll)
{
    return coll == MSCCLPP_COLL_REDUCE_SCATTER || coll == MSCCLPP_COLL_REDUCE_SCATTER_BLOCK;
}

/* True if the case asks for `algo`, by which nodes pass data on, and its data would not be rounded on the way. */
static bool is_passed_on(const case_t *c, int algo)
{
    const bool would_round = c->combines && (c->dtype == MSCCLPP_DTYPE_FLOAT16 || c->dtype == MSCCLPP_DTYPE_BFLOAT16);

    return c->served == CASE_BY_NODES && c->choice.algo == algo && c->coll != CASE_ALLREDUCE && !would_round;
}

bool case_goes_in_ring(const case_t *c)
{
    return is_passed_on(c, CASE_RING) && MSCCLPP_DEV_COLL_RINGS(mscclpp_coll_pattern(c->coll));
}

bool case_goes_by_halving(const case_t *c)
{
    return is_passed_on(c, CASE_HALVING) && MSCCLPP_DEV_COLL_RINGS(mscclpp_coll_pattern(c->coll));
}

bool case_goes_over_trees(const case_t *c)
{
    return is_passed_on(c, CASE_RING) && MSCCLPP_DEV_COLL_TREES(mscclpp_coll_pattern(c->coll));
}

bool case_sends_prefixes(const case_t *c)
{
    return is_passed_on(c, CASE_ROUNDS) && MSCCLPP_DEV_COLL_SCANS(mscclpp_coll_pattern(c->coll)) && c->choice.nodes > 0;
}

/* True if `sender` has something for `receiver`, as MPI defines the collective; a broadcast's root needs nothing. */
bool case_flows(const case_t *c, int sender, int receiver)
{
    switch ((int)c->coll) {
    case MSCCLPP_COLL_BCAST:
        return sender == c->root && receiver != c->root;
    case MSCCLPP_COLL_SCATTER:
    case MSCCLPP_COLL_SCATTERV:
        return sender == c->root;
    case MSCCLPP_COLL_GATHER:
    case MSCCLPP_COLL_GATHERV:
    case MSCCLPP_COLL_REDUCE:
        return receiver == c->root;
    case MSCCLPP_COLL_SCAN:
        return sender <= receiver;
    case MSCCLPP_COLL_EXSCAN:
        return sender < receiver;
    default:
        return true;
    }
}

mscclpp_dev_block_t *case_send_of(const case_t *c, int sender, int receiver)
{
    return &c->send[sender * c->ranks + receiver];
}

mscclpp_dev_block_t *case_recv_of(const case_t *c, int receiver, int sender)
{
    return &c->recv[receiver * c->ranks + sender];
}

/* Bytes of `count` elements, without the padding behind the last one. */
uint64_t case_span(const case_t *c, uint64_t count)
{
    return c->combines ? element_span(c->dtype, count) : count * c->extent;
}

uint64_t case_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The largest block for one peer, in bytes. */
static uint64_t limit(size_t scratch_size, int ranks)
{
    mscclpp_layout_t layout;

    mscclpp_layout_init(&layout, scratch_size);
    return 3 * layout.bulk_size / 2 / (uint64_t)ranks + 100;
}

size_t case_largest(size_t scratch_size, int ranks)
{
    return (size_t)(limit(scratch_size, ranks) + 96) * (size_t)ranks + 256;
}

/* Elements of the largest block. */
static uint64_t draw_count(const case_t *c, size_t scratch_size, uint64_t *state)
{
    const uint64_t n = (uint64_t)c->ranks, peers = n > 1 ? n - 1 : 1;
    const uint64_t most = case_min(limit(scratch_size, c->ranks), c->choice.nodes != 0 ? NODES_LARGEST : UINT64_MAX);
    const uint64_t automatic = (n <= 2 ? AUTO_TWO : AUTO_MORE) / peers;
    mscclpp_layout_t layout;
    uint64_t bytes, slot, tile;

    mscclpp_layout_init(&layout, scratch_size);
    slot = MSCCLPP_DEV_ONESHOT_CAPACITY(layout.packet_half, n) * MSCCLPP_DEV_UNIT;
    tile = MSCCLPP_DEV_COLL_TILE(layout.bulk_size, (uint64_t)c->choice.blocks, n);
    switch (c->choice.size) {
    case SIZE_NONE:
        return 0;
    case SIZE_ONE:
        return 1;
    case SIZE_FEW:
        return 2 + random_below(state, 39);
    case SIZE_AUTO:
        bytes = automatic + random_below(state, 3) - 1;
        break;
    case SIZE_KIB:
        bytes = 500 + random_below(state, 5000);
        break;
    case SIZE_SLOT:
        bytes = slot - random_below(state, 18);
        break;
    case SIZE_SLOT_UP:
        bytes = slot + c->extent + random_below(state, 17);
        break;
    case SIZE_TILE:
        bytes = tile + random_below(state, 40) - 20;
        break;
    case SIZE_TILES:
        bytes = tile * (2 + random_below(state, 4)) + random_below(state, 200);
        break;
    default:
        bytes = 1 + random_below(state, most);
        break;
    }
    bytes = case_min(bytes, most);
    return bytes < c->extent ? 1 : bytes / c->extent;
}

/* Draws the elements of one block, up to c->count. */
static uint64_t draw_part(const case_t *c, bool silent, uint64_t *state)
{
    switch (c->choice.layout) {
    case LAYOUT_EVEN:
        return c->count;
    case LAYOUT_HOLES:
        return random_below(state, 2) == 0 ? 0 : random_below(state, c->count + 1);
    case LAYOUT_SILENT:
        return silent ? 0 : random_below(state, c->count + 1);
    case LAYOUT_LONE:
        return 0;
    default:
        return random_below(state, 4) == 0 ? c->count : random_below(state, c->count + 1);
    }
}

/* Draws the bytes of each block of the send lists. At least one block has c->count elements. */
static void draw_sizes(const case_t *c, uint64_t *state)
{
    const bool by_sender = gathers_all(c->coll) || gathers(c->coll), by_pair = exchanges(c->coll);
    const bool mirrored = by_pair && c->choice.place > PLACE_OUT;
    const int full_sender = by_sender || by_pair ? (int)random_below(state, (uint64_t)c->ranks) : 0;
    const int full_receiver = by_sender ? 0 : (int)random_below(state, (uint64_t)c->ranks);
    bool silent[RANKS_MAX] = {false};
    int sender, receiver, rank;

    for (rank = 0; rank < c->ranks; ++rank) {
        silent[rank] = random_below(state, 2) == 0;
    }
    for (sender = 0; sender < c->ranks; ++sender) {
        for (receiver = 0; receiver < c->ranks; ++receiver) {
            mscclpp_dev_block_t *block = case_send_of(c, sender, receiver);
            uint64_t part;

            if (by_sender && receiver > 0) {
                block->bytes = case_send_of(c, sender, 0)->bytes;
                continue;
            }
            if (!by_sender && !by_pair && sender > 0) {
                block->bytes = case_send_of(c, 0, receiver)->bytes;
                continue;
            }
            part = draw_part(c, by_pair ? silent[sender] || silent[receiver] : silent[by_sender ? sender : receiver],
                             state);
            if (sender == full_sender && receiver == full_receiver) {
                part = c->count;
            }
            block->bytes = case_span(c, part);
            if (mirrored && receiver < sender) {
                block->bytes = case_send_of(c, receiver, sender)->bytes;
            }
        }
    }
    /* The transposed block may have been drawn before the full one, so both get their size here. */
    if (mirrored) {
        case_send_of(c, full_receiver, full_sender)->bytes = case_span(c, c->count);
        case_send_of(c, full_sender, full_receiver)->bytes = case_span(c, c->count);
    }
}

/* Gives the blocks of a list their places: gaps and order of the layout if `is_free`, else one behind the other. */
static void draw_places(const case_t *c, mscclpp_dev_block_t *list, bool is_free, uint64_t *state)
{
    const bool gaps = is_free && (c->choice.layout == LAYOUT_GAPS || c->choice.layout == LAYOUT_SHUFFLED);
    const bool shuffled = is_free && c->choice.layout == LAYOUT_SHUFFLED;
    int order[RANKS_MAX], i;
    uint64_t at = 0;

    for (i = 0; i < c->ranks; ++i) {
        const int other = shuffled ? (int)random_below(state, (uint64_t)i + 1) : i;

        order[i] = i;
        order[i] = order[other];
        order[other] = i;
    }
    for (i = 0; i < c->ranks; ++i) {
        mscclpp_dev_block_t *block = &list[order[i]];

        at += gaps ? random_below(state, 80 / c->extent) * c->extent : 0;
        block->offset = at;
        at += (block->bytes + c->extent - 1) / c->extent * c->extent;
    }
}

/* Draws the sizes of all blocks, and the places in the lists that the collective uses. */
static void draw_blocks(case_t *c, uint64_t *state)
{
    const bool many_out = gathers_all(c->coll) || gathers(c->coll) || exchanges(c->coll);
    const bool many_in = case_scatters(c->coll) || exchanges(c->coll) || case_reduce_scatters(c->coll);
    int rank, peer;

    if (c->varied) {
        draw_sizes(c, state);
    }
    for (rank = 0; rank < c->ranks; ++rank) {
        for (peer = 0; peer < c->ranks; ++peer) {
            mscclpp_dev_block_t *block = case_send_of(c, rank, peer);

            block->bytes = !case_flows(c, rank, peer) ? 0 : c->varied ? block->bytes : c->most;
            case_recv_of(c, peer, rank)->bytes = block->bytes;
        }
    }
    for (rank = 0; rank < c->ranks; ++rank) {
        if (many_in) {
            draw_places(c, case_send_of(c, rank, 0), c->varied && !c->combines, state);
        }
        if (many_out) {
            draw_places(c, case_recv_of(c, rank, 0), c->varied, state);
        }
    }
}

/* Bytes from the begin of a buffer to the end of its last block. */
static size_t end_of(const mscclpp_dev_block_t *list, int count)
{
    uint64_t end = 0;
    int i;

    for (i = 0; i < count; ++i) {
        end = list[i].bytes > 0 && list[i].offset + list[i].bytes > end ? list[i].offset + list[i].bytes : end;
    }
    return (size_t)end;
}

static user_kind_t draw_kind(int kind, uint64_t *state)
{
    static const user_kind_t kinds[] = {
        [KIND_DEVICE] = USER_DEVICE, [KIND_EXACT] = USER_EXACT, [KIND_HOST] = USER_HOST};

    return kind == KIND_MIXED ? (user_kind_t)random_below(state, USER_KINDS) : kinds[kind];
}

static unsigned draw_offset(int align, uint64_t *state)
{
    return align == ALIGN_UNIT   ? 0
           : align == ALIGN_WORD ? 4 * (unsigned)random_below(state, 4)
                                 : (unsigned)random_below(state, 16);
}

static bool draw_in_place(const case_t *c, int rank, uint64_t *state)
{
    const bool rooted = gathers(c->coll) || case_scatters(c->coll) || c->coll == MSCCLPP_COLL_REDUCE;
    const bool draw = random_below(state, 2) == 0;

    return c->choice.place > PLACE_OUT && (!rooted || rank == c->root) && (c->choice.place == PLACE_IN || draw);
}

/* The largest block that the rank knows of, if it does not know the sizes of all blocks. */
static uint64_t known_max(const case_t *c, int rank)
{
    uint64_t most = 0;
    int peer;

    for (peer = 0; peer < c->ranks; ++peer) {
        most = case_send_of(c, rank, peer)->bytes > most ? case_send_of(c, rank, peer)->bytes : most;
        most = case_recv_of(c, rank, peer)->bytes > most ? case_recv_of(c, rank, peer)->bytes : most;
    }
    return most;
}

/* True if the collective uses an input on the rank. */
static bool uses_in(const case_t *c, int rank)
{
    const bool of_root = case_scatters(c->coll) || c->coll == MSCCLPP_COLL_BCAST;

    return (!of_root || rank == c->root) && (!c->side[rank].in_place || case_scatters(c->coll));
}

/* Whether a rank's receive buffer is significant. */
static bool uses_out(const case_t *c, int rank)
{
    if (c->coll == MSCCLPP_COLL_BCAST) {
        return rank != c->root;
    }
    return (!gathers(c->coll) && c->coll != MSCCLPP_COLL_REDUCE) || rank == c->root
               ? !case_scatters(c->coll) || !c->side[rank].in_place
               : false;
}

/* Draws the buffers of one rank: in place or not, their kind and alignment. */
static void draw_side(case_t *c, int rank, uint64_t *state)
{
    case_side_t *side = &c->side[rank];
    size_t input = end_of(case_send_of(c, rank, 0), c->ranks);
    int peer;

    side->in_place = draw_in_place(c, rank, state);
    side->in_kind = draw_kind(c->choice.kind, state);
    side->out_kind = draw_kind(c->choice.kind, state);
    side->in_offset = draw_offset(c->choice.in_align, state);
    side->out_offset = draw_offset(c->choice.out_align, state);
    side->most = known_max(c, rank);
    side->out_bytes = end_of(case_recv_of(c, rank, 0), c->ranks);
    if (c->coll == MSCCLPP_COLL_SCAN || c->coll == MSCCLPP_COLL_EXSCAN) {
        input = side->out_bytes = (size_t)c->most; /* also on ranks that get no result */
    }
    if (side->in_place && exchanges(c->coll)) {
        memcpy(case_send_of(c, rank, 0), case_recv_of(c, rank, 0), (size_t)c->ranks * sizeof(*c->send));
    }
    if (side->in_place && (gathers_all(c->coll) || gathers(c->coll))) {
        for (peer = 0; peer < c->ranks; ++peer) {
            case_send_of(c, rank, peer)->offset = case_recv_of(c, rank, rank)->offset;
        }
    }
    if (side->in_place && !case_scatters(c->coll)) {
        side->out_bytes = input > side->out_bytes ? input : side->out_bytes;
        input = 0;
    } else if (side->in_place) {
        side->out_bytes = 0;
    }
    side->in_bytes = input;
    /* A rank without data in a buffer may pass any address, because nothing accesses it. */
    side->has_in = uses_in(c, rank) && (input > 0 || random_below(state, 2) == 0);
    side->has_out = uses_out(c, rank) && (side->out_bytes > 0 || random_below(state, 2) == 0);
}

/* True if all buffers that peers use can be mapped. */
static bool is_mapped(const case_t *c)
{
    bool mapped = true;
    int rank;

    for (rank = 0; rank < c->ranks; ++rank) {
        const case_side_t *side = &c->side[rank];
        const bool lends_in = c->combines || c->coll == MSCCLPP_COLL_BCAST;
        const bool lends_out = !case_reduce_scatters(c->coll) || side->in_place;
        const bool gets_none = c->coll == MSCCLPP_COLL_EXSCAN && rank == 0 && !side->in_place;

        mapped = mapped && (!lends_in || side->in_bytes == 0 || side->in_kind == USER_DEVICE);
        mapped = mapped && (!lends_out || gets_none || side->out_bytes == 0 || side->out_kind == USER_DEVICE);
    }
    return mapped;
}

/* Whether all ranks know the size of the largest block. */
static bool is_size_known(int coll)
{
    return !exchanges(coll) && coll != MSCCLPP_COLL_GATHERV && coll != MSCCLPP_COLL_SCATTERV;
}

/* Whether packets serve the case on one node if the largest block has so many bytes. */
static bool goes_by_packets(const case_t *c, size_t scratch_size, uint64_t bytes)
{
    const uint64_t n = (uint64_t)c->ranks, units = (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
    const bool is_auto = c->choice.algo == CASE_AUTO || c->choice.algo >= CASE_RING;
    mscclpp_layout_t layout;

    mscclpp_layout_init(&layout, scratch_size);
    return units <= MSCCLPP_DEV_ONESHOT_CAPACITY(layout.packet_half, n) &&
           (is_auto ? bytes * (n > 1 ? n - 1 : 1) <= (n <= 2 ? AUTO_TWO : AUTO_MORE)
                    : c->choice.algo == MSCCLPP_COLL_BY_PACKETS);
}

/* The algorithm that has to serve the case, as the library chooses it. */
static int find_served(const case_t *c, size_t scratch_size)
{
    const int n = c->ranks, algo = c->choice.algo;
    uint64_t chosen_by = c->most;
    mscclpp_layout_t layout;

    mscclpp_layout_init(&layout, scratch_size);
    if (c->most == 0 || (n == 1 && !(c->combines && element_of(c->dtype)->pair))) {
        return CASE_NOTHING;
    }
    if (c->choice.nodes < 0 ? n > 1 : c->choice.nodes > 0 && n > c->choice.nodes) {
        return CASE_BY_NODES;
    }
    if (n == 2 && c->varied && !is_size_known(c->coll)) {
        const uint64_t sent = case_send_of(c, 0, 1)->bytes, received = case_send_of(c, 1, 0)->bytes;
        const uint64_t exchanged = sent > received ? sent : received;

        /* What two ranks have for themselves does not matter to packets. */
        chosen_by = exchanged > 0 && goes_by_packets(c, scratch_size, exchanged) ? exchanged : c->most;
    }
    if (goes_by_packets(c, scratch_size, chosen_by)) {
        return MSCCLPP_COLL_BY_PACKETS;
    }
    if (algo == MSCCLPP_COLL_BY_PUTS && MSCCLPP_DEV_PUT_CAPACITY(layout.put_size, (uint64_t)n) >= 8) {
        return MSCCLPP_COLL_BY_PUTS;
    }
    if (algo == MSCCLPP_COLL_BY_SCRATCH || !is_mapped(c)) {
        return MSCCLPP_COLL_BY_SCRATCH;
    }
    return algo == MSCCLPP_COLL_BY_ENGINES && !c->combines ? MSCCLPP_COLL_BY_ENGINES : MSCCLPP_COLL_BY_ZEROCOPY;
}

void case_draw(const case_choice_t *choice, uint64_t seed, size_t scratch_size, case_t *c)
{
    static const uint64_t grains[] = {1, 1, 1, 2, 4, 8, 16};
    uint64_t state = seed;
    int rank;

    memset(c, 0, sizeof(*c));
    c->choice = *choice;
    c->drawn_from = seed;
    c->seed = random_next(&state);
    c->coll = (mscclpp_coll_t)choice->coll;
    c->ranks = choice->ranks;
    c->root = choice->root == ROOT_LAST ? c->ranks - 1 : choice->root == ROOT_MIDDLE ? c->ranks / 2 : 0;
    c->combines = case_combines(choice->coll);
    c->varied = case_varies(choice->coll);
    c->dtype = c->combines ? (mscclpp_dtype_t)choice->dtype : MSCCLPP_DTYPE_UINT8;
    c->op = c->combines ? (mscclpp_op_t)choice->op : MSCCLPP_OP_SUM;
    c->extent = c->combines ? element_of(c->dtype)->extent
                : c->varied ? grains[random_below(&state, sizeof(grains) / sizeof(grains[0]))]
                            : 1;
    c->count = draw_count(c, scratch_size, &state);
    c->most = case_span(c, c->count);
    c->send = calloc((size_t)(c->ranks * c->ranks), sizeof(*c->send));
    c->recv = calloc((size_t)(c->ranks * c->ranks), sizeof(*c->recv));
    if (c->send == NULL || c->recv == NULL) {
        perror("calloc");
        exit(1);
    }
    draw_blocks(c, &state);
    for (rank = 0; rank < c->ranks; ++rank) {
        draw_side(c, rank, &state);
    }
    c->served = find_served(c, scratch_size);
}

void case_free(case_t *c)
{
    free(c->send);
    free(c->recv);
}

/* Fills memory with random bytes. */
static void fill_noise(unsigned char *to, size_t bytes, uint64_t seed)
{
    uint64_t word;
    size_t i;

    for (i = 0; i < bytes; i += sizeof(word)) {
        word = random_next(&seed);
        memcpy(to + i, &word, bytes - i < sizeof(word) ? bytes - i : sizeof(word));
    }
}

/* Elements of a rank's input if the collective combines. */
static uint64_t input_count(const case_t *c, int rank)
{
    const mscclpp_dev_block_t *last = case_send_of(c, rank, c->ranks - 1);

    return case_reduce_scatters(c->coll) ? (last->offset + last->bytes + c->extent - 1) / c->extent : c->count;
}

void coll_case_fill(const case_t *c, int rank, unsigned char *in, unsigned char *out)
{
    const case_side_t *side = &c->side[rank];
    const uint64_t seed = random_mix(c->seed, (uint64_t)rank);
    unsigned char *operands = side->in_place ? out : in;

    if (out != NULL) {
        fill_noise(out, side->out_bytes, seed ^ 0x5555);
    }
    if (in != NULL) {
        fill_noise(in, side->in_bytes, seed ^ 0xaaaa);
    }
    if (c->combines && operands != NULL) {
        elements_fill(c->dtype, c->op, c->ranks, seed, operands, input_count(c, rank));
    }
}

void case_args(const case_t *c, int rank, const void *in, void *out, uint64_t call, mscclpp_coll_args_t *args)
{
    const bool sends = !case_scatters(c->coll) || rank == c->root, receives = !gathers(c->coll) || rank == c->root;

    memset(args, 0, sizeof(*args));
    args->coll = c->coll;
    args->in = in;
    args->out = out;
    args->in_place = c->side[rank].in_place;
    /* Where some ranks alone draw to be in place, none says so, and those copy their input. */
    args->passed_in_place = c->choice.place == PLACE_IN && exchanges(c->coll);
    args->varied = c->varied;
    args->is_size_known = !c->varied || is_size_known(c->coll);
    if (c->varied) {
        args->send = sends ? case_send_of(c, rank, 0) : NULL;
        args->recv = receives ? case_recv_of(c, rank, 0) : NULL;
        args->largest_block = args->is_size_known ? c->most : c->side[rank].most;
    } else {
        args->count = c->combines ? c->count : c->most;
    }
    args->dtype = c->dtype;
    args->op = c->op;
    args->root = c->root;
    args->call = call;
}
