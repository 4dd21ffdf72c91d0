/*
 * Pipelines: each tree has its own blocks, which handle a message in turns. A send of a rank arrives in a slot of the
 * receiver's scratch.
 *
 * Credits keep a sender from overwriting a slot before it was read, so a scratch of fixed size is enough for every
 * message:
 * 1. The receiver gives the sender CREDITS credits at the start of a launch.
 * 2. It gives one more for each turn that it has read. Each turn of a sender takes one credit.
 * 3. At the end the sender waits for CREDITS more credits: then everything has been read.
 *
 * There cannot be a cycle of waits. On the way to the root, a block waits for blocks that are nearer to the leaves. On
 * the way back, it waits for blocks that are nearer to the root. Credits are those of an earlier turn.
 */
#include "tools/synth/lib/lower_parts.h"

#include <stdlib.h>

enum {
    CREDITS = 4,                /* turns that a sender may be ahead of its receiver */
    MAX_BLOCKS = 64,            /* of a rank */
    MAX_TURN_BYTES = 256 << 10, /* bytes of a chunk in one turn */
    SCRATCH_BYTES =
        64 << 20, /* bytes of scratch that every executor has for a ring: MSCCL++ has this, others have more */
    UP = 0,       /* direction towards the root; also the tag of the channels in this direction */
    DOWN = 1      /* direction away from the root, likewise */
};

/* The position of a rank in the two trees of a chunk: the tree to the root, UP, and the tree away from it, DOWN. */
typedef struct {
    uint64_t child_set[2]; /* bit n for rank n. [UP]: ranks that send to this rank; [DOWN]: ranks to which it sends */
    int parent[2];         /* [UP]: the rank to which this rank sends; [DOWN]: the rank that sends to it; -1: none */
} position_t;

/*
 * Returns the position of a rank in the trees of a chunk. Sends that add go up, to the root; all others go down. Each
 * rank has at most one parent in either tree, as synth_has_trees has checked.
 */
static position_t position_of(const synth_schedule_t *schedule, int rank, int chunk)
{
    position_t position = {{0, 0}, {-1, -1}};

    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->chunk != chunk) {
            continue;
        }
        if (send->from == rank && send->adds) {
            position.parent[UP] = send->to;
        } else if (send->from == rank) {
            position.child_set[DOWN] |= UINT64_C(1) << send->to;
        } else if (send->to == rank && send->adds) {
            position.child_set[UP] |= UINT64_C(1) << send->from;
        } else if (send->to == rank) {
            position.parent[DOWN] = send->from;
        }
    }
    return position;
}

bool synth_has_trees(const synth_schedule_t *schedule)
{
    if (schedule->sends_whole_inputs) {
        return false;
    }
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        for (int j = 0; j < i; ++j) {
            const synth_send_t *other = &schedule->sends[j];

            /* Along trees, each rank sends a partial sum only once, and receives a result only once. */
            if (send->chunk == other->chunk && ((send->adds && other->adds && send->from == other->from) ||
                                                (!send->adds && !other->adds && send->to == other->to))) {
                return false;
            }
        }
    }
    return true;
}

/*
 * Returns true if a rank has a block on the way up for a chunk. Such a block adds up, and sends the sum up. A rank that
 * has the chunk and no parent on the way down also has such a block, which sends its input down.
 */
static bool has_up_block(const synth_layout_t *layout, const position_t *position, int rank, int chunk)
{
    bool has_chunk = layout->initial_place[rank * layout->total_chunks + chunk].buffer != 0;

    return position->child_set[UP] != 0 || position->parent[UP] >= 0 || (has_chunk && position->parent[DOWN] < 0);
}

int synth_turns_instances(const synth_layout_t *layout, int max_instances)
{
    int instances = 1;

    while (2 * instances <= max_instances &&
           2 * instances * 2 * layout->total_chunks <= MAX_BLOCKS) { /* two blocks for each chunk */
        instances *= 2;
    }
    return instances;
}

/* Returns the least power of two that is not less than `number`. */
static int round_up_to_power_of_two(int number)
{
    int power = 1;

    while (power < number) {
        power *= 2;
    }
    return power;
}

/*
 * Returns how many bytes of a chunk one instance moves in a turn. The number is a power of two, and so small that a
 * slot has room for CREDITS turns. The divisions are exact: all numbers here are powers of two, also `instances`
 * (synth_turns_instances).
 */
static uint64_t bytes_in_turn(const synth_layout_t *layout, int instances)
{
    uint64_t bytes = MAX_TURN_BYTES;

    for (int rank = 0; rank < layout->ranks; ++rank) {
        uint64_t slot_bytes =
            SCRATCH_BYTES / (uint64_t)(round_up_to_power_of_two(layout->scratch_chunks[rank]) * instances);

        bytes = bytes * CREDITS > slot_bytes ? slot_bytes / CREDITS : bytes;
    }
    return bytes;
}

uint64_t synth_turns_bytes(const synth_schedule_t *schedule, int max_instances)
{
    synth_layout_t layout;
    uint64_t bytes = 0;

    if (synth_layout_init(&layout, schedule, SYNTH_PIPELINE, false)) {
        int instances = synth_turns_instances(&layout, max_instances);

        bytes = bytes_in_turn(&layout, instances) * (uint64_t)instances;
    }
    synth_layout_destroy(&layout);
    return bytes;
}

/* Returns the set with one rank, or the empty set for -1. */
static uint64_t singleton(int rank)
{
    return rank >= 0 ? UINT64_C(1) << rank : 0;
}

/* Writes the operation `name`, a signal to each of the peers or a wait for each, once for each credit. */
static void sync_credits(synth_writer_t *writer, const char *name, int direction, uint64_t peers)
{
    for (int i = 0; i < CREDITS; ++i) {
        synth_writer_sync(writer, name, direction, peers);
    }
}

/*
 * Writes the operations that send a chunk from the place `source` to all its receivers in a direction, UP or DOWN. The
 * block waits for a credit from each receiver, puts, and signals. It flushes last: only then may `source` be
 * overwritten. Writes nothing if the set of receivers is empty.
 */
static void write_sends(synth_writer_t *writer, const synth_layout_t *layout, int rank, int chunk, synth_place_t source,
                        int direction, uint64_t receivers)
{
    const synth_schedule_t *schedule = layout->schedule;
    synth_moves_t moves = {NULL, 0, 0, false};

    if (receivers == 0) {
        return;
    }
    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->chunk == chunk && send->from == rank && send->adds == (direction == UP)) {
            synth_move_add_operand(synth_moves_begin(&moves, 0, rank, source), send->to,
                                   (synth_place_t){'s', layout->slot[i]});
        }
    }
    synth_writer_sync(writer, "wait", direction, receivers);
    synth_writer_simple(writer, "nop");
    synth_writer_put(writer, "put", direction, &moves);
    synth_writer_simple(writer, "nop");
    synth_writer_sync(writer, "signal", direction, receivers);
    synth_writer_sync(writer, "flush", direction, receivers);
    synth_moves_destroy(&moves);
}

/* Writes a copy within a rank. Writes nothing if both places are the same, or if `to` is no place. */
static void write_copy(synth_writer_t *writer, int rank, synth_place_t from, synth_place_t to)
{
    synth_moves_t moves = {NULL, 0, 0, false};

    if (to.buffer != 0 && (from.buffer != to.buffer || from.index != to.index)) {
        synth_move_add_operand(synth_moves_begin(&moves, 0, rank, from), rank, to);
        synth_writer_data(writer, "copy", &moves, 1);
    }
    synth_moves_destroy(&moves);
}

/*
 * Writes the operations of a block on the way up.
 * 1. The block gives its children CREDITS credits before the first turn.
 * 2. In each turn it adds the values from its children to its own value, and sends the sum to its parent. Without
 *    children it sends its own value. A rank without a parent on the way down is the root of that tree: it also sends
 *    the sum to its children there. A rank without a parent on the way up copies the sum to its output if the chunk
 *    belongs there.
 * 3. In each turn it gives its children one more credit, after it has read their slots.
 * 4. After the last turn it waits for CREDITS credits from each rank to which it sends.
 */
static void write_up(synth_writer_t *writer, const synth_layout_t *layout, const position_t *position, int rank,
                     int chunk, uint64_t turn_bytes)
{
    const synth_schedule_t *schedule = layout->schedule;
    synth_place_t value = layout->initial_place[rank * layout->total_chunks + chunk];
    uint64_t receivers_down = position->parent[DOWN] < 0 ? position->child_set[DOWN] : 0;
    synth_moves_t sum = {NULL, 0, 0, false};
    synth_move_t *move;

    sync_credits(writer, "rlxsignal", UP, position->child_set[UP]);
    synth_writer_begin_turns(writer, turn_bytes);
    if (position->child_set[UP] != 0) {
        move = synth_moves_begin(&sum, 0, rank, value);
        for (int i = 0; i < schedule->send_count; ++i) {
            if (schedule->sends[i].chunk == chunk && schedule->sends[i].to == rank && schedule->sends[i].adds) {
                synth_move_add_operand(move, rank, (synth_place_t){'s', layout->slot[i]});
            }
        }
        value = layout->stored_place[rank * layout->total_chunks + chunk];
        synth_move_add_operand(move, rank, value);
        synth_writer_sync(writer, "wait", UP, position->child_set[UP]);
        synth_writer_simple(writer, "nop");
        synth_writer_data(writer, "re", &sum, 0);
        synth_writer_simple(writer, "nop");
        synth_writer_sync(writer, "signal", UP, position->child_set[UP]);
        synth_moves_destroy(&sum);
    }
    write_sends(writer, layout, rank, chunk, value, UP, singleton(position->parent[UP]));
    write_sends(writer, layout, rank, chunk, value, DOWN, receivers_down);
    if (position->parent[UP] < 0) {
        write_copy(writer, rank, value, synth_layout_target(layout, rank, chunk));
    }
    synth_writer_end_turns(writer);
    sync_credits(writer, "wait", UP, singleton(position->parent[UP]));
    sync_credits(writer, "wait", DOWN, receivers_down);
}

/*
 * Writes the operations of a block on the way down.
 * 1. The block gives its parent CREDITS credits before the first turn.
 * 2. In each turn it forwards the chunk from its parent to its children, and copies the chunk to the output if it
 *    belongs there. Only then has the slot been read, and the parent gets a credit.
 * 3. After the last turn it waits for CREDITS credits from its children.
 */
static void write_down(synth_writer_t *writer, const synth_layout_t *layout, const position_t *position, int rank,
                       int chunk, uint64_t turn_bytes)
{
    int entry = rank * layout->total_chunks + chunk;
    synth_place_t slot = {'s', layout->slot[layout->final_send[entry]]};
    uint64_t parent = singleton(position->parent[DOWN]);

    sync_credits(writer, "rlxsignal", DOWN, parent);
    synth_writer_begin_turns(writer, turn_bytes);
    synth_writer_sync(writer, "wait", DOWN, parent);
    synth_writer_simple(writer, "nop");
    write_sends(writer, layout, rank, chunk, slot, DOWN, position->child_set[DOWN]);
    write_copy(writer, rank, slot, synth_layout_target(layout, rank, chunk));
    synth_writer_simple(writer, "nop");
    synth_writer_sync(writer, "signal", DOWN, parent);
    synth_writer_end_turns(writer);
    sync_credits(writer, "wait", DOWN, position->child_set[DOWN]);
}

/*
 * The blocks of a rank for a chunk: [UP] and [DOWN] are the numbers of the first of their instances, or -1 if there is
 * none.
 */
typedef int blocks_t[2];

/*
 * Adds the blocks of all ranks and chunks, one for each instance, and stores the numbers of the first instances in
 * blocks[rank * total_chunks + chunk]. The blocks of a rank are numbered in the order in which they are added, so
 * instance i has the number of the first instance plus i.
 */
static void add_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, blocks_t *blocks)
{
    for (int rank = 0; rank < layout->ranks; ++rank) {
        for (int chunk = 0; chunk < layout->total_chunks; ++chunk) {
            position_t position = position_of(layout->schedule, rank, chunk);

            for (int direction = UP; direction <= DOWN; ++direction) {
                bool has_block =
                    direction == UP ? has_up_block(layout, &position, rank, chunk) : position.parent[DOWN] >= 0;

                blocks[rank * layout->total_chunks + chunk][direction] = -1;
                for (int i = 0; i < instances && has_block; ++i) {
                    int block = synth_writer_add_block(writer, rank, i);

                    blocks[rank * layout->total_chunks + chunk][direction] = block - i;
                }
            }
        }
    }
}

/*
 * Adds a channel for each send and instance, from the sender's block to the receiver's block. The root has no block on
 * the way down, so it sends from its block on the way up.
 */
static void join_blocks(synth_writer_t *writer, const synth_layout_t *layout, int instances, const blocks_t *blocks)
{
    const synth_schedule_t *schedule = layout->schedule;

    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];
        const int *from = blocks[send->from * layout->total_chunks + send->chunk];
        const int *to = blocks[send->to * layout->total_chunks + send->chunk];
        int direction = send->adds ? UP : DOWN, sender = from[send->adds || from[DOWN] < 0 ? UP : DOWN];

        for (int instance = 0; instance < instances; ++instance) {
            synth_writer_join(writer, send->from, sender + instance, send->to, to[direction] + instance, direction);
        }
    }
}

/* Marks the writer as failed if memory runs out; synth_writer_finish then returns NULL. */
void synth_lower_turns(synth_writer_t *writer, synth_layout_t *layout, int instances)
{
    blocks_t *blocks = calloc((size_t)(layout->ranks * layout->total_chunks), sizeof(*blocks));
    uint64_t turn_bytes = bytes_in_turn(layout, instances);

    if (blocks == NULL) {
        synth_writer_fail(writer);
        return;
    }
    for (int rank = 0; rank < layout->ranks; ++rank) {
        layout->scratch_chunks[rank] =
            round_up_to_power_of_two(layout->scratch_chunks[rank]); /* as bytes_in_turn assumes */
    }
    /* All blocks and channels have to exist before the first operation, which refers to them by number. */
    add_blocks(writer, layout, instances, blocks);
    join_blocks(writer, layout, instances, (const blocks_t *)blocks);
    for (int entry = 0; entry < layout->ranks * layout->total_chunks; ++entry) {
        int rank = entry / layout->total_chunks, chunk = entry % layout->total_chunks;
        position_t position = position_of(layout->schedule, rank, chunk);

        for (int i = 0; i < instances; ++i) {
            if (blocks[entry][UP] >= 0) {
                synth_writer_select(writer, rank, blocks[entry][UP] + i);
                write_up(writer, layout, &position, rank, chunk, turn_bytes);
            }
            if (blocks[entry][DOWN] >= 0) {
                synth_writer_select(writer, rank, blocks[entry][DOWN] + i);
                write_down(writer, layout, &position, rank, chunk, turn_bytes);
            }
        }
    }
    free(blocks);
}
