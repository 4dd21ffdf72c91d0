#include "mca/common/algo/coll_between.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "device/lib/nodes_rounds.h"
#include "device/lib/nodes_trees.h"
#include "device/types/coll_nodes.h"
#include "mca/common/algo/allreduce/between.h"
#include "mca/common/algo/shape/tiles.h"
#include "mca/common/base/numbers.h"

#define KIB ((uint64_t)1024)

/*
 * The maximum number of bytes of data that a rank sends to another node as packets. Packets are twice as long as their
 * data, so larger messages go in tiles.
 */
#define NODES_PACKETS_MAX (8 * KIB)

/*
 * Chooses the grid and the tiles of a call that exchanges tiles between nodes. For DIRECT, also chooses whether the
 * exchange is in windows. Returns false, with *choice unchanged, if there is no room for tiles, which does not depend
 * on the message size.
 */
static bool shape_nodes_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                              mscclpp_dev_nodes_pattern_t exchange, mscclpp_coll_choice_t *choice)
{
    mscclpp_choice_t grid;
    uint64_t tile;

    if (exchange == MSCCLPP_DEV_NODES_DIRECT) {
        exchange = mscclpp_tiles_choose_direct(input, mscclpp_coll_pattern(coll), block_bytes);
    }
    if (!mscclpp_tiles_choose_coll_grid(input, mscclpp_coll_pattern(coll), exchange, block_bytes, &grid, &tile)) {
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

/* An algorithm with tiles. */
typedef struct {
    mscclpp_coll_algo_t algo;
    mscclpp_dev_nodes_pattern_t exchange; /* how nodes exchange the tiles */
    mscclpp_schedule_kind_t kind;         /* the schedule of the exchange, for the cost model */
} tile_algo_t;

/* The first row serves every call. If the cost model predicts equal times, the earlier row is chosen. */
static const tile_algo_t tile_algos[] = {
    {MSCCLPP_COLL_BY_NODES, MSCCLPP_DEV_NODES_DIRECT, MSCCLPP_SCHEDULE_DIRECT},
    {MSCCLPP_COLL_BY_NODES_RING, MSCCLPP_DEV_NODES_RING, MSCCLPP_SCHEDULE_RING},
    {MSCCLPP_COLL_BY_NODES_HALVING, MSCCLPP_DEV_NODES_HALVING, MSCCLPP_SCHEDULE_HALVING},
    {MSCCLPP_COLL_BY_NODES_TREES, MSCCLPP_DEV_NODES_TREES, MSCCLPP_SCHEDULE_TREES},
};
#define TILE_ALGOS (sizeof(tile_algos) / sizeof(tile_algos[0]))

/*
 * Returns the time in seconds that the cost model predicts for an exchange in tiles, or HUGE_VAL if there is no such
 * schedule or no room for a tile.
 */
static double estimate_tiles(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                             const tile_algo_t *tile_algo)
{
    mscclpp_cost_figures_t figures = mscclpp_between_find_figures(input);
    mscclpp_schedule_t schedule;

    if (!mscclpp_schedule_init(&schedule, tile_algo->kind, (int)mscclpp_coll_pattern(coll), input->nodes, 0, 0, 0) ||
        !mscclpp_between_set_tiles(input, &schedule, tile_algo->exchange, block_bytes, &figures)) {
        return HUGE_VAL;
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, block_bytes);
}

/* Returns true if nodes that pass partial results on would round them, as they do with 16-bit floats. */
static bool would_round(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype) && MSCCLPP_DEV_COLL_MERGES(mscclpp_coll_pattern(coll));
}

/*
 * Returns true if a call in rounds is a scan whose nodes send combined operands of several nodes (prefixes). Prefixes
 * need ranks in the order of the nodes. They are not for 16-bit floats, which the nodes would round on the way.
 */
static bool sends_prefixes(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DEV_COLL_SCANS(mscclpp_coll_pattern(coll)) && input->are_nodes_in_order &&
           !MSCCLPP_DTYPE_IS_16_BIT_FLOAT(input->dtype);
}

/*
 * Returns true if the algorithm can serve the call. Rings, halving and trees pass blocks on from node to node. They
 * serve only patterns that allow this, and no call in which nodes would round the partial results.
 */
static bool can_serve_call(const mscclpp_select_input_t *input, mscclpp_coll_t coll, const tile_algo_t *tile_algo)
{
    switch (tile_algo->algo) {
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
 * Returns true if the cost model may choose the algorithm. Two nodes always exchange directly: the other algorithms
 * would send the same data, and combine it in another order. A ring gains nothing on one host, where nodes share no
 * links. In trees, a node sends to its children at once, which nodes_fanout must allow.
 */
static bool may_choose(const mscclpp_select_input_t *input, const tile_algo_t *tile_algo)
{
    switch (tile_algo->algo) {
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
 * Returns the algorithm with tiles that is forced, or the one for which the cost model predicts the shortest time. A
 * forced algorithm that has no tiles or cannot serve the call does not count.
 */
static const tile_algo_t *find_tile_algo(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                         int forced)
{
    const tile_algo_t *best = &tile_algos[0];
    double time, min_time = estimate_tiles(input, coll, block_bytes, best);
    size_t i;

    for (i = 0; i < TILE_ALGOS; ++i) {
        if (forced == (int)tile_algos[i].algo && can_serve_call(input, coll, &tile_algos[i])) {
            return &tile_algos[i];
        }
    }
    for (i = 1; i < TILE_ALGOS; ++i) {
        if (can_serve_call(input, coll, &tile_algos[i]) && may_choose(input, &tile_algos[i])) {
            time = estimate_tiles(input, coll, block_bytes, &tile_algos[i]);
            if (time < min_time) {
                best = &tile_algos[i];
                min_time = time;
            }
        }
    }
    return best;
}

/* Returns the pattern of the rounds of a call, as mscclpp_dev_rounds_t has it. */
static uint32_t find_rounds_pattern(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DEV_COLL_ROUNDS_PATTERN(mscclpp_coll_pattern(coll), sends_prefixes(input, coll));
}

/*
 * Returns the time in seconds that the cost model predicts for an exchange with packets: in rounds with this radix or,
 * if the radix is 0, from each node to all others at once. All data of an owner for a node counts as the block of one
 * rank. Returns HUGE_VAL if there is no such schedule.
 */
static double estimate_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                               uint32_t radix)
{
    const mscclpp_cost_figures_t figures = mscclpp_between_find_figures(input);
    mscclpp_schedule_kind_t kind = MSCCLPP_SCHEDULE_DIRECT;
    int pattern = (int)mscclpp_coll_pattern(coll);
    mscclpp_schedule_t schedule;

    if (radix != 0) {
        pattern = (int)find_rounds_pattern(input, coll);
        kind = MSCCLPP_DEV_COLL_ROOTED(pattern) ? MSCCLPP_SCHEDULE_TREE : MSCCLPP_SCHEDULE_BRUCK;
    }
    if (!mscclpp_schedule_init(&schedule, kind, pattern, input->nodes, 0, 0, radix)) {
        return HUGE_VAL;
    }
    return mscclpp_cost_estimate(&figures, &schedule, input->shards, block_bytes);
}

/* Returns the maximum number of blocks that an owner has for another node in rounds. */
static uint64_t count_rounds_blocks(const mscclpp_select_input_t *input, mscclpp_coll_t coll)
{
    return MSCCLPP_DEV_COLL_ROUNDS_BLOCKS(mscclpp_coll_pattern(coll), sends_prefixes(input, coll),
                                          input->max_node_ranks, input->shards);
}

/* Returns true if the packet area has room for the rounds with this radix. Each block of an owner has `units` units. */
static bool have_rounds_room(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t units, uint32_t radix)
{
    const mscclpp_dev_rounds_t rounds = {.nnodes = input->nodes,
                                         .radix = radix,
                                         .pattern = find_rounds_pattern(input, coll),
                                         .rounds = mscclpp_dev_rounds_count(input->nodes, radix)};
    const uint64_t place_units = units * count_rounds_blocks(input, coll);

    return mscclpp_dev_rounds_count_places(&rounds) * place_units + mscclpp_dev_rounds_max_messages(&rounds) + 1 <=
           ((uint64_t)input->nodes + 1) * input->packet_units;
}

/*
 * Returns the radix of the rounds for which the cost model predicts the shortest time. Returns 0 if no radix both has
 * room and keeps to nodes_fanout, or if rounds would round partial results on the way.
 */
static uint32_t find_best_radix(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    const uint64_t units = mscclpp_divide_up(block_bytes, MSCCLPP_DEV_UNIT);
    uint32_t best_radix = 0, radix;
    double time, min_time = HUGE_VAL; /* min_time is that of best_radix */

    if (would_round(input, coll)) {
        return 0;
    }
    for (radix = 2; radix <= MSCCLPP_COLL_RADIX_MAX; radix *= 2) {
        /* All radices above the number of nodes have the same rounds, so one of them is enough. */
        if (best_radix != 0 && radix > input->nodes) {
            break;
        }
        if (mscclpp_between_keeps_fanout(input, radix - 1) && have_rounds_room(input, coll, units, radix)) {
            time = estimate_packets(input, coll, block_bytes, radix);
            if (best_radix == 0 || time < min_time) {
                best_radix = radix;
                min_time = time;
            }
        }
    }
    return best_radix;
}

/* Returns the maximum number of units of a block for which the packet area of the scratch has rows. */
static uint64_t find_scratch_units(const mscclpp_select_input_t *input, mscclpp_coll_t coll, bool in_rounds)
{
    const uint64_t rows = MSCCLPP_DEV_COLL_NODES_PACKET_ROWS(mscclpp_coll_pattern(coll), in_rounds, input->all_ranks,
                                                             input->nodes, input->max_node_ranks, input->shards);

    return MSCCLPP_DEV_COLL_NODES_CAPACITY(input->layout->packet_half, rows);
}

/* Returns the maximum number of bytes of data that an owner sends to another node as packets. */
static uint64_t find_max_packet_bytes(const mscclpp_select_input_t *input)
{
    return input->protocol->nodes_packets_max != 0 ? input->protocol->nodes_packets_max : NODES_PACKETS_MAX;
}

/* Returns true if blocks of this size may go as packets in rounds, and their rows have room. */
static bool may_use_rounds(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    return block_bytes <= find_max_packet_bytes(input) / count_rounds_blocks(input, coll) &&
           mscclpp_divide_up(block_bytes, MSCCLPP_DEV_UNIT) <= find_scratch_units(input, coll, true);
}

/* Returns true if blocks of this size may go as packets straight to all nodes, and both rows and slots have room. */
static bool may_send_directly(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes)
{
    const mscclpp_dev_pattern_t pattern = mscclpp_coll_pattern(coll);
    const uint64_t data_blocks = MSCCLPP_DEV_COLL_NODES_BLOCKS(pattern, input->max_node_ranks, input->shards);
    const uint64_t slot_units = MSCCLPP_DEV_COLL_NODES_PACKET_ROOM(pattern, input->nodes, input->packet_units);
    const uint64_t units = mscclpp_divide_up(block_bytes, MSCCLPP_DEV_UNIT);

    /* A slot needs one unit more than the data, because a packet without data takes a unit, too. */
    return block_bytes <= find_max_packet_bytes(input) / data_blocks && data_blocks * units + 1 <= slot_units &&
           units <= find_scratch_units(input, coll, false) && mscclpp_between_keeps_fanout(input, input->nodes - 1);
}

/*
 * Finds the radix of the rounds of a call with packets; 0: packets go straight to all nodes. Returns false if neither
 * way is possible. A forced way that is not possible does not count.
 */
static bool find_radix(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes, int forced,
                       uint32_t *radix_p)
{
    const bool can_be_direct = may_send_directly(input, coll, block_bytes);
    uint32_t radix;

    if (can_be_direct && forced == MSCCLPP_COLL_BY_NODES_PACKETS) {
        *radix_p = 0;
        return true;
    }
    radix = find_best_radix(input, coll, block_bytes);
    if (can_be_direct && radix != 0 && forced != MSCCLPP_COLL_BY_NODES_ROUNDS &&
        estimate_packets(input, coll, block_bytes, 0) <= estimate_packets(input, coll, block_bytes, radix)) {
        radix = 0;
    }
    *radix_p = radix;
    return can_be_direct || radix != 0;
}

/*
 * Chooses packets and their grid of one block. `forced` is the algorithm that a parameter or a rule asks for; if it is
 * not possible, another one with packets serves. Returns false, with *choice unchanged, in these cases: blocks differ
 * in size (`varied`); there is no room for packets; an owner sends too much to another node; nodes_fanout forbids all
 * ways to send packets.
 */
static bool shape_nodes_packets(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                bool varied, int forced, mscclpp_coll_choice_t *choice)
{
    const uint64_t units = mscclpp_divide_up(block_bytes, MSCCLPP_DEV_UNIT);
    mscclpp_choice_t grid;
    uint32_t radix;

    if (varied || input->packet_units == 0 || !may_use_rounds(input, coll, block_bytes) ||
        !mscclpp_algo_choose_grid(input, units, 1, MSCCLPP_ANY_CAPACITY, MSCCLPP_SMALL_BLOCKS, &grid) ||
        !find_radix(input, coll, block_bytes, forced, &radix)) {
        return false;
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

/* A line that is written piece by piece. Text that does not fit into `size` bytes is cut off. */
typedef struct {
    char *text;
    size_t size;
    size_t used; /* number of bytes written so far, without the zero byte; `size` or more: the line is full */
} line_t;

/* Appends text to the line, as printf would write it. */
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

/* Appends the times of all algorithms with tiles that can serve the call. Returns the number of these algorithms. */
static int append_tile_times(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                             line_t *line)
{
    const char *separator = "";
    int count = 0;
    size_t i;

    for (i = 0; i < TILE_ALGOS; ++i) {
        if (can_serve_call(input, coll, &tile_algos[i])) {
            append(line, "%s%s %.1f us", separator, mscclpp_coll_algo_name(tile_algos[i].algo),
                   estimate_tiles(input, coll, block_bytes, &tile_algos[i]) * 1e6);
            separator = ", ";
            ++count;
        }
    }
    return count;
}

/*
 * Appends the times of packets straight to all nodes, and of rounds with each radix. Includes those for which there is
 * no room, and those that nodes_fanout forbids.
 */
static void append_packet_times(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                                line_t *line)
{
    uint32_t radix;

    append(line, "nodes_packets %.1f us", estimate_packets(input, coll, block_bytes, 0) * 1e6);
    for (radix = 2; radix <= MSCCLPP_COLL_RADIX_MAX; radix *= 2) {
        append(line, ", nodes_rounds %.1f us by %u", estimate_packets(input, coll, block_bytes, radix) * 1e6, radix);
    }
}

/* Nothing is compared with an exchange in windows, because no other algorithm can replace it. */
bool mscclpp_coll_explain(const mscclpp_select_input_t *input, mscclpp_coll_t coll, uint64_t block_bytes,
                          const mscclpp_coll_choice_t *choice, char *text, size_t size)
{
    const mscclpp_cost_figures_t figures = mscclpp_between_find_figures(input);
    line_t line = {.text = text, .size = size};

    append(&line, "%s of blocks of %llu bytes over %u nodes: %s", mscclpp_coll_name(coll),
           (unsigned long long)block_bytes, input->nodes, mscclpp_coll_algo_name(choice->algo));
    if (choice->exchange == MSCCLPP_DEV_NODES_WINDOWS) {
        append(&line, ", in windows of %u nodes", MSCCLPP_DEV_COLL_NODES_WINDOW);
        return true;
    }
    append(&line, "; by the cost model ");
    if (choice->kernel == MSCCLPP_KERNEL_COLL_NODES_PACKETS) {
        append_packet_times(input, coll, block_bytes, &line);
    } else if (append_tile_times(input, coll, block_bytes, &line) == 1) {
        return false; /* there is nothing to compare */
    }
    if (line.used < line.size) {
        mscclpp_between_print_figures(input, &figures, line.text + line.used, line.size - line.used);
    }
    return true;
}

/*
 * Returns true if packets may serve a call for which the choice of tiles is `choice`. Tiles serve if an algorithm with
 * tiles is forced and was chosen. They also serve calls that a graph may repeat, because a queued kernel cannot renew
 * the flags of packets from other nodes.
 */
static bool may_use_packets(const mscclpp_select_input_t *input, const mscclpp_coll_choice_t *choice, int forced)
{
    return !input->may_be_replayed && forced != MSCCLPP_COLL_BY_NODES && forced != (int)choice->algo;
}

/*
 * Shapes tiles first. There is room for them at every message size or at none, so this refuses a call on all ranks or
 * on none. Packets then replace the tiles if they can serve the call.
 */
mscclpp_status_t mscclpp_coll_select_between(const mscclpp_select_input_t *input, mscclpp_coll_t coll,
                                             uint64_t block_bytes, bool varied, int forced,
                                             mscclpp_coll_choice_t *choice_p)
{
    const tile_algo_t *tile_algo;
    mscclpp_coll_choice_t choice;

    if (!shape_nodes_tiles(input, coll, block_bytes, MSCCLPP_DEV_NODES_DIRECT, &choice)) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    tile_algo = find_tile_algo(input, coll, block_bytes, forced);
    if (shape_nodes_tiles(input, coll, block_bytes, tile_algo->exchange, &choice)) {
        choice.algo = tile_algo->algo;
    }
    if (may_use_packets(input, &choice, forced)) {
        (void)shape_nodes_packets(input, coll, block_bytes, varied, forced, &choice);
    }
    *choice_p = choice;
    return MSCCLPP_OK;
}
