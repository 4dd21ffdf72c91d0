#include "mca/common/algo/coll_between.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "device/lib/nodes_rounds.h"
#include "device/lib/nodes_trees.h"
#include "device/types/coll_nodes.h"
#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/shape/tiles.h"

#define KIB ((uint64_t)1024)

/*
 * Between nodes, the most bytes of data that a rank sends to another node as packets. Packets are twice as long as
 * their data, so larger messages go without them.
 */
#define NODES_PACKETS_MAX (8 * KIB)

/* Returns the number of units that the bytes take. */
static uint64_t units_of(uint64_t bytes)
{
    return (bytes + MSCCLPP_DEV_UNIT - 1) / MSCCLPP_DEV_UNIT;
}

/*
 * Chooses the grid and the tiles of a call that exchanges tiles between nodes. With DIRECT, also chooses whether it
 * goes in windows. Returns false, and leaves *choice unchanged, if there is no room for tiles, which does not depend on
 * the message size.
 */
static bool shape_nodes_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                              mscclpp_dev_nodes_pattern_t exchange, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;
    uint64_t tile;

    if (exchange == MSCCLPP_DEV_NODES_DIRECT) {
        exchange = mscclpp_tiles_direct(input, mscclpp_coll_pattern(coll), block_bytes);
    }
    if (!mscclpp_tiles_grid_of_coll(input, mscclpp_coll_pattern(coll), exchange, block_bytes, &grid, &tile)) {
        return false;
    }
    choice->tile = tile;
    choice->algo = MSCCLPP_COLL_BY_NODES;
    choice->exchange = exchange;
    choice->kernel = MSCCLPP_KERNEL_COLL_NODES;
    choice->nblocks = grid.nblocks;
    choice->nthreads = grid.nthreads;
    choice->epochs = 0;
    choice->radix = 0;
    choice->prefixes = false;
    return true;
}

/* An algorithm with tiles: how the tiles go between nodes, and the schedule by which the cost model estimates it. */
typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_nodes_pattern_t exchange;
    mscclpp_schedule_kind_t kind;
} tiles_t;

/*
 * The first one serves every call. The others are preferred in this order where the cost model gives them equal times.
 */
static const tiles_t tile_algos[] = {
    {MSCCLPP_COLL_BY_NODES, MSCCLPP_DEV_NODES_DIRECT, MSCCLPP_SCHEDULE_DIRECT},
    {MSCCLPP_COLL_BY_NODES_RING, MSCCLPP_DEV_NODES_RING, MSCCLPP_SCHEDULE_RING},
    {MSCCLPP_COLL_BY_NODES_HALVING, MSCCLPP_DEV_NODES_HALVING, MSCCLPP_SCHEDULE_HALVING},
    {MSCCLPP_COLL_BY_NODES_TREES, MSCCLPP_DEV_NODES_TREES, MSCCLPP_SCHEDULE_TREES},
};
#define TILE_ALGOS (sizeof(tile_algos) / sizeof(tile_algos[0]))

/*
 * Returns the seconds that the cost model expects of an exchange in tiles, or HUGE_VAL if there is no such schedule or
 * no room for a tile.
 */
static double estimate_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                             const tiles_t *tiles)
{
    mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    mscclpp_schedule_t schedule;

    if (!mscclpp_schedule_init(&schedule, tiles->kind, (int)mscclpp_coll_pattern(coll), input->nodes, 0, 0, 0) ||
        !mscclpp_between_take_tiles(input, &schedule, tiles->exchange, block_bytes, &figures)) {
        return HUGE_VAL;
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, block_bytes);
}

/* Returns true if each node on the way of a partial result would round it, as with 16-bit floats. */
static bool would_round(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype) && MSCCLPP_DEV_COLL_MERGES(mscclpp_coll_pattern(coll));
}

/*
 * Returns true if a call in rounds is a scan whose nodes send the combined operands of all nodes so far. That needs
 * ranks in the order of the nodes. 16-bit floats would be rounded on the way, so their operands go to all nodes.
 */
static bool sends_prefixes(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DEV_COLL_SCANS(mscclpp_coll_pattern(coll)) && input->nodes_in_order &&
           !MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype);
}

/*
 * Returns true if this way of exchanging tiles can serve the call. Rings, halving and trees pass blocks on from node to
 * node. They serve only patterns that allow this, and no call in which the partial results would be rounded on the way.
 */
static bool can_serve_call(const mscclpp_select_input_t *input, mscclpp_coll_t coll, const tiles_t *tiles)
{
    switch (tiles->algo) {
    case MSCCLPP_COLL_BY_NODES_RING:
    case MSCCLPP_COLL_BY_NODES_HALVING:
        return MSCCLPP_DEV_COLL_RINGS(mscclpp_coll_pattern(coll)) && !would_round(input, coll);
    case MSCCLPP_COLL_BY_NODES_TREES:
        return MSCCLPP_DEV_COLL_TREES(mscclpp_coll_pattern(coll)) && !would_round(input, coll);
    default:
        return true;
    }
}

/*
 * Returns true if the cost model may choose this way of exchanging tiles. Two nodes always exchange directly: the other
 * ways would send the same data, and reductions would combine them in another order. A ring is not chosen on one host,
 * where nodes share no links, so a ring has no advantage. In trees a node sends to its children at once, so trees are
 * not chosen if the children are more than nodes_fanout.
 */
static bool may_choose(const mscclpp_select_input_t *input, const tiles_t *tiles)
{
    switch (tiles->algo) {
    case MSCCLPP_COLL_BY_NODES_RING:
        return input->nodes > 2 && !input->is_one_host;
    case MSCCLPP_COLL_BY_NODES_HALVING:
        return input->nodes > 2;
    case MSCCLPP_COLL_BY_NODES_TREES:
        return input->nodes > 2 && mscclpp_between_keeps_fanout(input, MSCCLPP_DEV_TREES_CHILDREN);
    default:
        return true;
    }
}

/*
 * Chooses how the nodes exchange tiles. `forced` is the algorithm that a parameter or a rule asks for; if it has no
 * tiles or cannot serve this call, the cost model chooses. *choice comes from shape_nodes_tiles for DIRECT, and is
 * shaped again for what is chosen.
 */
static void choose_exchange(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, int forced,
                            mscclpp_coll_choice_t *choice)
{
    const tiles_t *best = &tile_algos[0];
    double min_time = estimate_tiles(input, coll, block_bytes, best);
    size_t i;

    for (i = 0; i < TILE_ALGOS; ++i) {
        const tiles_t *tiles = &tile_algos[i];

        if (forced == (int)tiles->algo && can_serve_call(input, coll, tiles)) {
            best = tiles;
            break;
        }
        if (can_serve_call(input, coll, tiles) && may_choose(input, tiles)) {
            const double time = estimate_tiles(input, coll, block_bytes, tiles);

            if (time < min_time) {
                best = tiles;
                min_time = time;
            }
        }
    }
    if (shape_nodes_tiles(input, coll, block_bytes, best->exchange, choice)) {
        choice->algo = best->algo;
    }
}

/*
 * Returns the seconds that the cost model expects of an exchange of packets. Radix 0 means from each node to all others
 * at once. What an owner has for a node counts as the block of one rank. Returns HUGE_VAL if there is no such schedule.
 */
static double estimate_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                               uint32_t radix)
{
    const int pattern =
        radix == 0 ? (int)mscclpp_coll_pattern(coll)
                   : (int)MSCCLPP_DEV_COLL_ROUNDS_PATTERN(mscclpp_coll_pattern(coll), sends_prefixes(input, coll));
    const mscclpp_schedule_kind_t rounds_kind =
        MSCCLPP_DEV_COLL_ROOTED(pattern) ? MSCCLPP_SCHEDULE_TREE : MSCCLPP_SCHEDULE_BRUCK;
    const mscclpp_schedule_kind_t kind = radix == 0 ? MSCCLPP_SCHEDULE_DIRECT : rounds_kind;
    const mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    mscclpp_schedule_t schedule;

    if (!mscclpp_schedule_init(&schedule, kind, pattern, input->nodes, 0, 0, radix)) {
        return HUGE_VAL;
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, block_bytes);
}

/* Returns the most blocks that an owner has for another node in rounds. */
static uint64_t rounds_blocks(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DEV_COLL_ROUNDS_BLOCKS(mscclpp_coll_pattern(coll), sends_prefixes(input, coll),
                                          input->max_node_ranks, input->shards);
}

/*
 * Returns true if the packet area has room for the rounds of this radix. An owner has `units` units of data for each
 * block.
 */
static bool rounds_fit(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t units, uint32_t radix)
{
    const mscclpp_dev_rounds_t rounds = {
        .nnodes = input->nodes,
        .radix = radix,
        .pattern = MSCCLPP_DEV_COLL_ROUNDS_PATTERN(mscclpp_coll_pattern(coll), sends_prefixes(input, coll)),
        .rounds = mscclpp_dev_rounds_count(input->nodes, radix)};
    const uint64_t place_units = units * rounds_blocks(input, coll);

    return mscclpp_dev_rounds_count_places(&rounds) * place_units + mscclpp_dev_rounds_max_messages(&rounds) + 1 <=
           ((uint64_t)input->nodes + 1) * input->packet_units;
}

/*
 * Returns the radix of the rounds that cost least. Returns 0 if no radix both has room and keeps to nodes_fanout. Also
 * returns 0 for 16-bit floats that are combined between nodes, because rounds would round partial results on the way.
 */
static uint32_t best_radix(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    uint32_t best_so_far = 0, radix;
    double min_time = HUGE_VAL; /* of best_so_far */

    if (would_round(input, coll)) {
        return 0;
    }
    for (radix = 2; radix <= MSCCLPP_COLL_RADIX_MAX; radix *= 2) {
        /* Radices above the number of nodes lead to the same rounds: one of them is tried if no smaller one serves. */
        if (mscclpp_between_keeps_fanout(input, radix - 1) && (best_so_far == 0 || radix <= input->nodes) &&
            rounds_fit(input, coll, units_of(block_bytes), radix)) {
            const double time = estimate_packets(input, coll, block_bytes, radix);

            if (best_so_far == 0 || time < min_time) {
                best_so_far = radix;
                min_time = time;
            }
        }
    }
    return best_so_far;
}

/* Returns the most units of a block for which the packet area of the scratch has rows. */
static uint64_t scratch_units(const mscclpp_select_input_t *input, mscclpp_coll_t coll, bool in_rounds)
{
    const uint64_t rows = MSCCLPP_DEV_COLL_NODES_PACKET_ROWS(mscclpp_coll_pattern(coll), in_rounds, input->all_ranks,
                                                             input->nodes, input->max_node_ranks, input->shards);

    return MSCCLPP_DEV_COLL_NODES_CAPACITY(input->layout->packet_half, rows);
}

/*
 * Chooses packets, straight to all nodes or in rounds, and their grid. Returns false, and leaves *choice unchanged, if
 * blocks differ in size (`varied`), if an owner sends much to another node, or if neither packets straight to all nodes
 * nor any rounds have room and keep to nodes_fanout. `forced` is the algorithm that a parameter or a rule asks for. If
 * that algorithm is not possible, another one with packets serves.
 */
static bool shape_nodes_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                bool varied, int forced, mscclpp_coll_choice_t *choice)
{
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(coll);
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const uint64_t slot_units = MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(pattern, input->nodes, input->packet_units);
    const uint64_t user_limit = input->protocol->nodes_packets_max,
                   max_bytes = user_limit != 0 ? user_limit : NODES_PACKETS_MAX;
    const uint64_t units = units_of(block_bytes);
    const bool in_rounds =
        block_bytes <= max_bytes / rounds_blocks(input, coll) && units <= scratch_units(input, coll, true);
    /* A slot needs one unit more than the data, because a packet without data takes one, too. */
    const bool fits_directly = block_bytes <= max_bytes / data_blocks && data_blocks * units + 1 <= slot_units &&
                               units <= scratch_units(input, coll, false) &&
                               mscclpp_between_keeps_fanout(input, input->nodes - 1);
    mscclpp_choice_t grid;
    uint32_t radix;

    if (varied || input->packet_units == 0 || !in_rounds || !mscclpp_algo_grid(input, units, 1, 0, true, &grid)) {
        return false;
    }
    radix = fits_directly && forced == MSCCLPP_COLL_BY_NODES_PACKETS ? 0 : best_radix(input, coll, block_bytes);
    if (!fits_directly && radix == 0) {
        return false;
    }
    if (fits_directly && radix != 0 && forced != MSCCLPP_COLL_BY_NODES_ROUNDS &&
        estimate_packets(input, coll, block_bytes, 0) <= estimate_packets(input, coll, block_bytes, radix)) {
        radix = 0;
    }
    choice->algo = radix != 0 ? MSCCLPP_COLL_BY_NODES_ROUNDS : MSCCLPP_COLL_BY_NODES_PACKETS;
    choice->exchange = MSCCLPP_DEV_NODES_DIRECT;
    choice->kernel = MSCCLPP_KERNEL_COLL_NODES_PACKETS;
    choice->nblocks = 1;
    choice->nthreads = grid.nthreads;
    choice->epochs = 1;
    choice->tile = 0;
    choice->radix = radix;
    choice->prefixes = radix != 0 && sends_prefixes(input, coll);
    return true;
}

/* A line that is written piece by piece. What does not fit into `size` bytes is cut off. */
typedef struct {
    char *text;
    size_t size;
    size_t used; /* bytes written so far, without the zero byte; `size` or more: the line is full */
} line_t;

static void append(line_t *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(line_t *line, const char *format, ...)
{
    va_list arguments;
    int length;

    if (line->used < line->size) {
        va_start(arguments, format);
        length = vsnprintf(line->text + line->used, line->size - line->used, format, arguments);
        va_end(arguments);
        line->used = length < 0 ? line->size : line->used + (size_t)length;
    }
}

/* Appends the estimates of all algorithms with tiles that can serve the call. Returns the number of them. */
static int list_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, line_t *line)
{
    int listed = 0;
    size_t i;

    for (i = 0; i < TILE_ALGOS; ++i) {
        if (can_serve_call(input, coll, &tile_algos[i])) {
            append(line, "%s%s %.1f us", listed++ == 0 ? "" : ", ", mscclpp_coll_algo_name(tile_algos[i].algo),
                   estimate_tiles(input, coll, block_bytes, &tile_algos[i]) * 1e6);
        }
    }
    return listed;
}

/*
 * Appends the estimates of packets straight to all nodes and of rounds of all radices, also of those that have no room
 * or that nodes_fanout rules out.
 */
static void list_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, line_t *line)
{
    uint32_t radix;

    append(line, "nodes_packets %.1f us", estimate_packets(input, coll, block_bytes, 0) * 1e6);
    for (radix = 2; radix <= MSCCLPP_COLL_RADIX_MAX; radix *= 2) {
        append(line, ", nodes_rounds %.1f us by %u", estimate_packets(input, coll, block_bytes, radix) * 1e6, radix);
    }
}

/*
 * Lists the estimates of all algorithms of the family that was chosen: of those with tiles, or of those with packets.
 * No other algorithm can replace an exchange in windows.
 */
bool mscclpp_coll_explain(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                          const mscclpp_coll_choice_t *choice, char *text, size_t size)
{
    const mscclpp_cost_figures_t figures = mscclpp_between_figures(input);
    line_t line = {.text = text, .size = size};

    append(&line, "%s of blocks of %llu bytes over %u nodes: %s", mscclpp_coll_name(coll),
           (unsigned long long)block_bytes, input->nodes, mscclpp_coll_algo_name(choice->algo));
    if (choice->exchange == MSCCLPP_DEV_NODES_WINDOWS) {
        append(&line, ", in windows of %u nodes", MSCCLPP_DEV_COLL_NODES_WINDOW);
        return true;
    }
    append(&line, "; by the cost model ");
    if (choice->kernel == MSCCLPP_KERNEL_COLL_NODES_PACKETS) {
        list_packets(input, coll, block_bytes, &line);
    } else if (list_tiles(input, coll, block_bytes, &line) == 1) {
        return false; /* there is nothing to compare */
    }
    if (line.used < line.size) {
        mscclpp_between_print_figures(input, &figures, line.text + line.used, line.size - line.used);
    }
    return true;
}

/*
 * Chooses tiles if packets cannot serve. Tiles are tried first, because they have room at every message size or at
 * none. Without room for tiles, the function returns MSCCLPP_ERR_NOT_SUPPORTED, even if packets could serve. Queued
 * kernels that a graph may repeat use tiles, because they cannot renew the flags of packets from other nodes. Calls
 * also use tiles if an algorithm with tiles is asked for and can serve them.
 */
mscclpp_status_t mscclpp_coll_select_between(const mscclpp_select_input_t *input, mscclpp_coll_t coll,
                                             uint64_t block_bytes, bool varied, int asked,
                                             mscclpp_coll_choice_t *choice_p)
{
    mscclpp_coll_choice_t choice;

    if (!shape_nodes_tiles(input, coll, block_bytes, MSCCLPP_DEV_NODES_DIRECT, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    choose_exchange(input, coll, block_bytes, asked, &choice);
    if (!input->replayed && asked != MSCCLPP_COLL_BY_NODES &&
        !(choice.algo != MSCCLPP_COLL_BY_NODES && asked == (int)choice.algo)) {
        (void)shape_nodes_packets(input, coll, block_bytes, varied, asked, &choice);
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}
