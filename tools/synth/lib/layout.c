/* Determines where each rank has each chunk, before the operations of any rank are written. */
#include "tools/synth/lib/layout.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const synth_place_t nowhere = {0, 0};

/* Returns the entry of an array of places for a chunk of a rank. */
static synth_place_t *entry_of(synth_place_t *places, const synth_layout_t *layout, int rank, int chunk)
{
    return &places[rank * layout->total_chunks + chunk];
}

/*
 * Returns the rank to whose input a chunk belongs, and stores the chunk's position in that input in *index_p. Not for
 * partial sums, to which every rank has an input.
 */
static int source_of(const synth_layout_t *layout, int chunk, int *index_p)
{
    const synth_schedule_t *schedule = layout->schedule;

    if (schedule->collective == SYNTH_BROADCAST || schedule->collective == SYNTH_SCATTER) {
        *index_p = chunk;
        return schedule->root;
    }
    *index_p = chunk % schedule->chunks;
    return chunk / schedule->chunks;
}

/* In collectives with blocks, `source` is the rank whose block contains the chunk, and `index` is its number there. */
synth_place_t synth_layout_target(const synth_layout_t *layout, int rank, int chunk)
{
    const synth_schedule_t *schedule = layout->schedule;
    int source = chunk / schedule->chunks, index = chunk % schedule->chunks;

    if (schedule->sends_whole_inputs) { /* inputs arrive, but the output gets their sums, which add_inputs of lower.c
                                           writes */
        return nowhere;
    }
    switch (schedule->collective) {
    case SYNTH_ALLGATHER:
    case SYNTH_BROADCAST:
    case SYNTH_ALLREDUCE:
        return (synth_place_t){'o', chunk};
    case SYNTH_GATHER:
    case SYNTH_REDUCE:
        return rank == schedule->root ? (synth_place_t){'o', chunk} : nowhere;
    case SYNTH_SCATTER:
        return rank == source ? (synth_place_t){'o', index} : nowhere;
    case SYNTH_REDUCESCATTER: /* in place, the output is the rank's block of the input */
        return rank == source ? layout->in_place ? (synth_place_t){'i', chunk} : (synth_place_t){'o', index} : nowhere;
    case SYNTH_ALLTOALL: /* the rank wants the chunk if the chunk is in the block for this rank */
        return rank == index / layout->block_chunks
                   ? (synth_place_t){'o', source * layout->block_chunks + index % layout->block_chunks}
                   : nowhere;
    default:
        return nowhere;
    }
}

/*
 * Returns the place where a rank has a chunk before the first step, or `nowhere` if it does not have the chunk. If
 * partial sums are sent, every rank has its own value of every chunk. For plans in place, the chunk is already in the
 * output, except for the partial sums of a reduce-scatter.
 */
static synth_place_t initial_place_of(const synth_layout_t *layout, int rank, int chunk)
{
    int index, source;

    if (layout->adds) {
        return (synth_place_t){layout->in_place && layout->schedule->collective == SYNTH_ALLREDUCE ? 'o' : 'i', chunk};
    }
    source = source_of(layout, chunk, &index);
    if (source != rank) {
        return nowhere;
    }
    if (layout->in_place) {
        return (synth_place_t){'o', layout->schedule->sends_whole_inputs ? index : chunk};
    }
    return (synth_place_t){'i', index};
}

/*
 * Compares sends by step, receiver, sender and chunk, for qsort. The sends between two ranks in one step then become
 * neighbours, and so do their slots.
 */
static int by_receiver(const void *left, const void *right)
{
    const synth_send_t *a = left, *b = right;

    return a->step != b->step   ? a->step - b->step
           : a->to != b->to     ? a->to - b->to
           : a->from != b->from ? a->from - b->from
                                : a->chunk - b->chunk;
}

/* The path of a chunk: its sends. They are neighbours in the list of sends if that is sorted by chunk. */
typedef struct {
    int chunk, class; /* class: chunks of one class may exchange their numbers */
    int first, count; /* the first of its sends, and how many there are */
} path_t;

/* Compares sends by chunk, then by step and ranks, for qsort. */
static int by_chunk(const void *left, const void *right)
{
    const synth_send_t *a = left, *b = right;

    return a->chunk != b->chunk ? a->chunk - b->chunk : by_receiver(left, right);
}

static const synth_send_t
    *sends_of_paths; /* the list of the paths' sends, for by_path, since qsort passes no context */

/*
 * Compares paths by class, then by the steps, receivers and senders of their sends, and at last by the numbers of their
 * chunks, for qsort. So chunks of one class that take the same path become neighbours, in the order of their numbers.
 */
static int by_path(const void *left, const void *right)
{
    const path_t *a = left, *b = right;

    if (a->class != b->class) {
        return a->class - b->class;
    }
    for (int i = 0; i < a->count && i < b->count; ++i) {
        const synth_send_t *left_send = &sends_of_paths[a->first + i], *right_send = &sends_of_paths[b->first + i];
        int difference = left_send->step != right_send->step ? left_send->step - right_send->step
                         : left_send->to != right_send->to   ? left_send->to - right_send->to
                                                             : left_send->from - right_send->from;

        if (difference != 0) {
            return difference;
        }
    }
    return a->count != b->count ? a->count - b->count : a->chunk - b->chunk;
}

/* Returns the class of a chunk. Chunks of one class have the same source and are wanted by the same ranks. */
static int class_of(const synth_schedule_t *schedule, int chunk)
{
    int class_size = schedule->collective == SYNTH_ALLTOALL ? schedule->chunks / schedule->ranks : schedule->chunks;

    return schedule->sends_whole_inputs ? chunk : chunk / class_size; /* whole inputs are added up by their numbers */
}

/*
 * Exchanges the numbers of chunks of one class so that chunks that take the same path become neighbours. Leaves the
 * sends sorted by_receiver, because place_sends and synth_moves_add require this order. Returns false if memory runs
 * out.
 */
static bool renumber(synth_schedule_t *schedule)
{
    int count = schedule->sends_whole_inputs ? schedule->chunks * schedule->ranks : schedule->total_chunks;
    path_t *path = calloc((size_t)count + 1, sizeof(*path));
    int *number = calloc((size_t)count + 1, sizeof(*number));
    bool ok = path != NULL && number != NULL;

    qsort(schedule->sends, (size_t)schedule->send_count, sizeof(*schedule->sends), by_chunk);
    for (int i = 0, next_send = 0; ok && i < count; ++i) {
        path[i] = (path_t){.chunk = i, .class = class_of(schedule, i), .first = next_send};
        while (next_send < schedule->send_count && schedule->sends[next_send].chunk == i) {
            ++path[i].count;
            ++next_send;
        }
    }
    if (ok) {
        sends_of_paths = schedule->sends;
        qsort(path, (size_t)count, sizeof(*path), by_path);
        for (int i = 0; i < count; ++i) { /* the chunks of a class have consecutive numbers, before and after sorting */
            number[path[i].chunk] = i;
        }
        for (int i = 0; i < schedule->send_count; ++i) {
            schedule->sends[i].chunk = number[schedule->sends[i].chunk];
        }
        qsort(schedule->sends, (size_t)schedule->send_count, sizeof(*schedule->sends), by_receiver);
    }
    free(path);
    free(number);
    return ok;
}

/*
 * Determines where each send arrives. The sends have to be sorted by step, so that the first send that brings a chunk
 * to a rank sets first_step.
 * - A chunk arrives in a slot of the receiver's scratch if it is added, or if the manner needs slots for all sends.
 * - Otherwise it arrives at its place in the output.
 *
 * A chunk without a place in the output gets a stored place in the scratch if it is a sum, or if it has no slot where
 * it could stay. With packets, this place is behind all packets; otherwise it is behind the slots.
 */
static void place_sends(synth_layout_t *layout)
{
    const synth_schedule_t *schedule = layout->schedule;

    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];
        int entry = send->to * layout->total_chunks + send->chunk;

        layout->slot[i] = -1;
        if (send->adds || layout->manner != SYNTH_SIGNALS) {
            layout->slot[i] = layout->scratch_chunks[send->to]++;
        }
        if (!send->adds && layout->final_send[entry] < 0) {
            layout->final_send[entry] = i;
        }
        if (layout->first_step[entry] == INT_MAX) {
            layout->first_step[entry] = send->step;
            layout->stored_place[entry] = synth_layout_target(layout, send->to, send->chunk);
        }
    }
    for (int i = 0; i < schedule->send_count; ++i) { /* in a second loop, so that all slots are adjacent */
        const synth_send_t *send = &schedule->sends[i];
        synth_place_t *stored_place = entry_of(layout->stored_place, layout, send->to, send->chunk);

        if (stored_place->buffer == 0 && (send->adds || layout->manner == SYNTH_SIGNALS)) {
            *stored_place = layout->manner == SYNTH_PACKETS ? (synth_place_t){'t', layout->sum_chunks[send->to]++}
                                                            : (synth_place_t){'s', layout->scratch_chunks[send->to]++};
        }
    }
}

/* Copies the schedule, because its chunks are renumbered. */
bool synth_layout_init(synth_layout_t *layout, const synth_schedule_t *schedule, synth_manner_t manner, bool in_place)
{
    size_t entries;

    memset(layout, 0, sizeof(*layout));
    layout->schedule = synth_schedule_copy(schedule);
    if (layout->schedule == NULL || !renumber(layout->schedule)) {
        return false;
    }
    layout->ranks = schedule->ranks;
    layout->total_chunks = schedule->sends_whole_inputs ? schedule->chunks * schedule->ranks : schedule->total_chunks;
    layout->adds = synth_combines(schedule->collective) && !schedule->sends_whole_inputs;
    layout->manner = manner;
    layout->in_place = in_place;
    layout->block_chunks = schedule->chunks / (schedule->collective == SYNTH_ALLTOALL ? schedule->ranks : 1);
    entries = (size_t)layout->ranks * (size_t)layout->total_chunks;
    layout->initial_place = calloc(entries, sizeof(*layout->initial_place));
    layout->stored_place = calloc(entries, sizeof(*layout->stored_place));
    layout->first_step = calloc(entries, sizeof(*layout->first_step));
    layout->final_send = calloc(entries, sizeof(*layout->final_send));
    layout->slot = calloc((size_t)schedule->send_count + 1, sizeof(*layout->slot));
    if (layout->initial_place == NULL || layout->stored_place == NULL || layout->first_step == NULL ||
        layout->final_send == NULL || layout->slot == NULL) {
        return false;
    }
    for (size_t i = 0; i < entries; ++i) {
        layout->initial_place[i] =
            initial_place_of(layout, (int)(i / (size_t)layout->total_chunks), (int)(i % (size_t)layout->total_chunks));
        layout->first_step[i] = INT_MAX;
        layout->final_send[i] = -1;
    }
    place_sends(layout);
    return true;
}

void synth_layout_destroy(synth_layout_t *layout)
{
    synth_schedule_free(layout->schedule);
    free(layout->initial_place);
    free(layout->stored_place);
    free(layout->first_step);
    free(layout->final_send);
    free(layout->slot);
}

synth_place_t synth_layout_at(const synth_layout_t *layout, int rank, int chunk, int step)
{
    int entry = rank * layout->total_chunks + chunk;

    /* Chunks that stay in their slot have no stored place: a rank that forwards them reads the slot. */
    return layout->first_step[entry] < step && layout->stored_place[entry].buffer != 0 ? layout->stored_place[entry]
                                                                                       : layout->initial_place[entry];
}

void synth_moves_destroy(synth_moves_t *moves)
{
    free(moves->move);
    *moves = (synth_moves_t){NULL, 0, 0, false};
}

/* Returns a pointer that is valid until the next call, which may move the array. */
synth_move_t *synth_moves_begin(synth_moves_t *moves, int order, int rank, synth_place_t place)
{
    synth_move_t *move;

    if (moves->count == moves->room) {
        int room = moves->room > 0 ? 2 * moves->room : 32;

        move = realloc(moves->move, sizeof(*move) * (size_t)room);
        if (move == NULL) {
            moves->failed = true;
            return NULL;
        }
        moves->move = move;
        moves->room = room;
    }
    move = &moves->move[moves->count++];
    move->order = order;
    move->count = 0;
    move->size = 1;
    synth_move_add_operand(move, rank, place);
    return move;
}

void synth_move_add_operand(synth_move_t *move, int rank, synth_place_t place)
{
    if (move != NULL) {
        move->operand[move->count].rank = rank;
        move->operand[move->count++].place = place;
    }
}

/*
 * Compares moves so that moves between the same buffers become neighbours, sorted by their positions there, for qsort.
 */
static int by_operands(const void *left, const void *right)
{
    const synth_move_t *a = left, *b = right;

    if (a->order != b->order || a->count != b->count) {
        return a->order != b->order ? a->order - b->order : a->count - b->count;
    }
    for (int i = 0; i < a->count; ++i) {
        if (a->operand[i].rank != b->operand[i].rank) {
            return a->operand[i].rank - b->operand[i].rank;
        }
        if (a->operand[i].place.buffer != b->operand[i].place.buffer) {
            return a->operand[i].place.buffer - b->operand[i].place.buffer;
        }
    }
    for (int i = 0; i < a->count; ++i) {
        if (a->operand[i].place.index != b->operand[i].place.index) {
            return a->operand[i].place.index - b->operand[i].place.index;
        }
    }
    return 0;
}

/*
 * Returns true if every operand of `next` begins where the same operand of `move` ends, within the same block. The
 * scratch ('s' and 't') is not divided into blocks.
 */
static bool follows(const synth_layout_t *layout, const synth_move_t *move, const synth_move_t *next)
{
    bool is_adjacent = move->order == next->order && move->count == next->count;

    for (int i = 0; is_adjacent && i < move->count; ++i) {
        synth_place_t place = move->operand[i].place, next_place = next->operand[i].place;

        is_adjacent = move->operand[i].rank == next->operand[i].rank && place.buffer == next_place.buffer &&
                      place.index + move->size == next_place.index &&
                      (place.buffer >= 's' || next_place.index % layout->block_chunks != 0);
    }
    return is_adjacent;
}

/* Sorts the moves first, so that only neighbours can be adjacent. */
void synth_moves_merge(const synth_layout_t *layout, synth_moves_t *moves)
{
    int kept = 0;

    if (moves->count == 0) {
        return;
    }
    qsort(moves->move, (size_t)moves->count, sizeof(*moves->move), by_operands);
    for (int i = 1; i < moves->count; ++i) {
        if (follows(layout, &moves->move[kept], &moves->move[i])) {
            moves->move[kept].size += moves->move[i].size;
        } else {
            moves->move[++kept] = moves->move[i];
        }
    }
    moves->count = kept + 1;
}

/* Returns the slot of a send in the receiver's scratch. The send has to have one. */
static synth_place_t slot_of(const synth_layout_t *layout, int send)
{
    return (synth_place_t){'s', layout->slot[send]};
}

/* Returns where the data of a send arrive at the receiver: in its slot or, without a slot, at the chunk's stored place.
 */
static synth_place_t arrival_place(const synth_layout_t *layout, int number)
{
    const synth_send_t *send = &layout->schedule->sends[number];

    return layout->slot[number] >= 0 ? slot_of(layout, number)
                                     : layout->stored_place[send->to * layout->total_chunks + send->chunk];
}

/*
 * Returns the earlier send whose packets `send` forwards from the slot where they arrived; -1 if `send` reads a buffer.
 * Packets can be forwarded only if they arrived in an earlier step and were not added.
 */
static int relayed_send(const synth_layout_t *layout, const synth_send_t *send)
{
    int final_send = layout->final_send[send->from * layout->total_chunks + send->chunk];

    return layout->manner == SYNTH_PACKETS && !send->adds && final_send >= 0 &&
                   layout->schedule->sends[final_send].step < send->step
               ? final_send
               : -1;
}

/*
 * The moves of a step may be carried out in any order, so adjacent chunks for the same rank are merged into one move.
 */
void synth_moves_send(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves)
{
    const synth_schedule_t *schedule = layout->schedule;

    for (int i = 0; i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->step == step && send->from == rank && relayed_send(layout, send) < 0) {
            /* Each rank begins with the next higher one, so that not all send to one rank first. */
            int order = (send->to - rank + layout->ranks) % layout->ranks;

            synth_move_add_operand(
                synth_moves_begin(moves, order, rank, synth_layout_at(layout, rank, send->chunk, step)), send->to,
                arrival_place(layout, i));
        }
    }
    synth_moves_merge(layout, moves);
}

/* Puts all receivers of one chunk into one move, so that the packets are read only once. */
void synth_moves_relay(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves)
{
    const synth_schedule_t *schedule = layout->schedule;

    for (int chunk = 0; chunk < layout->total_chunks; ++chunk) {
        synth_move_t *move = NULL;

        for (int i = 0; i < schedule->send_count; ++i) {
            const synth_send_t *send = &schedule->sends[i];
            int relayed =
                send->step == step && send->from == rank && send->chunk == chunk ? relayed_send(layout, send) : -1;

            if (relayed >= 0) {
                move = move != NULL ? move : synth_moves_begin(moves, 0, rank, slot_of(layout, relayed));
                synth_move_add_operand(move, send->to, slot_of(layout, i));
            }
        }
    }
    synth_moves_merge(layout, moves);
}

/* A send whose value is added. */
typedef struct {
    int chunk, send;
} addend_t;

/* Compares addends by chunk, then by sender, which is the order of the sends, for qsort. */
static int by_addend(const void *left, const void *right)
{
    const addend_t *a = left, *b = right;

    return a->chunk != b->chunk ? a->chunk - b->chunk : a->send - b->send;
}

/* Collects the sends that add in this step, sorts them by chunk, and makes one move of all values of a chunk. */
void synth_moves_add(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves)
{
    const synth_schedule_t *schedule = layout->schedule;
    addend_t *addend = layout->adds ? malloc(sizeof(*addend) * (size_t)(schedule->send_count + 1)) : NULL;
    int count = 0;

    moves->failed = moves->failed || (layout->adds && addend == NULL);
    for (int i = 0; addend != NULL && i < schedule->send_count; ++i) {
        const synth_send_t *send = &schedule->sends[i];

        if (send->step == step && send->to == rank && send->adds) {
            addend[count++] = (addend_t){send->chunk, i};
        }
    }
    if (count > 0) {
        qsort(addend, (size_t)count, sizeof(*addend), by_addend);
    }
    for (int i = 0; i < count;) {
        int chunk = addend[i].chunk;
        synth_move_t *move = synth_moves_begin(moves, 0, rank, synth_layout_at(layout, rank, chunk, step));

        for (; i < count && addend[i].chunk == chunk; ++i) {
            synth_move_add_operand(move, rank, slot_of(layout, addend[i].send));
        }
        synth_move_add_operand(move, rank, layout->stored_place[rank * layout->total_chunks + chunk]);
    }
    free(addend);
    synth_moves_merge(layout, moves);
}

/* In the order of the steps, so that no chunk waits behind one that arrives in a later step. */
void synth_moves_unpack(const synth_layout_t *layout, int rank, synth_moves_t *moves)
{
    for (int chunk = 0; chunk < layout->total_chunks; ++chunk) {
        int final_send = layout->final_send[rank * layout->total_chunks + chunk];
        synth_place_t target = synth_layout_target(layout, rank, chunk);

        if (final_send >= 0 && target.buffer != 0) {
            synth_move_t *move =
                synth_moves_begin(moves, layout->schedule->sends[final_send].step, rank, slot_of(layout, final_send));

            synth_move_add_operand(move, rank, target);
        }
    }
    synth_moves_merge(layout, moves);
}

void synth_moves_local(const synth_layout_t *layout, int rank, synth_moves_t *moves)
{
    if (layout->adds || layout->in_place) {
        return;
    }
    for (int chunk = 0; chunk < layout->total_chunks; ++chunk) {
        synth_place_t home = layout->initial_place[rank * layout->total_chunks + chunk];
        synth_place_t target = synth_layout_target(layout, rank, chunk);

        if (home.buffer != 0 && target.buffer != 0) {
            synth_move_add_operand(synth_moves_begin(moves, 0, rank, home), rank, target);
        }
    }
    synth_moves_merge(layout, moves);
}
