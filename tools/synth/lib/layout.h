/* Where each rank has the chunks of a schedule, and the moves (copies and additions) of each step. */
#ifndef TOOLS_SYNTH_LIB_LAYOUT_H
#define TOOLS_SYNTH_LIB_LAYOUT_H

#include "tools/synth/lib/schedule.h"

/* How a plan tells a receiver that data have arrived. */
typedef enum {
    SYNTH_SIGNALS,  /* by a signal after the data */
    SYNTH_PACKETS,  /* by a flag in each packet: no signals, but twice the bytes */
    SYNTH_PIPELINE, /* by signals, in turns that are sent one after another along trees */
    SYNTH_MANNERS
} synth_manner_t;

/* A place of one chunk in a buffer. */
typedef struct {
    char buffer; /* i, o, s: input, output, scratch; t: in the scratch, behind all packets; 0: no place */
    int index;   /* in chunks */
} synth_place_t;

typedef struct {
    synth_schedule_t *schedule; /* a copy, with chunks renumbered so that chunks with the same path are neighbours */
    int ranks, total_chunks;    /* total_chunks: if whole inputs are sent, the chunks of all inputs */
    bool adds;                  /* partial sums are sent, not inputs */
    bool in_place;
    synth_manner_t manner;
    synth_place_t *initial_place; /* [rank * total_chunks + chunk]: the place of the chunk before the first step */
    synth_place_t *stored_place;  /* likewise: the place of the chunk, or of its sum, after it has arrived */
    int *first_step;              /* likewise: the step in which it first arrives; INT_MAX: never */
    int *final_send;              /* likewise: the send that brings the final value; -1: none */
    int *slot;                    /* [send]: its slot in the receiver's scratch; -1: none */
    int scratch_chunks[SYNTH_MAX_RANKS]; /* [rank]: size of the scratch for slots and sums, in chunks */
    int sum_chunks[SYNTH_MAX_RANKS];     /* [rank]: size of the scratch for sums behind all packets, in chunks */
    int block_chunks; /* a block: what a rank has for another one (all-to-all), a rank's data, or the whole vector */
} synth_layout_t;

/*
 * Makes the layout of a schedule. A slot is a place in the receiver's scratch for the chunk of one send. With signals,
 * only values that are added arrive in slots; with packets and in pipelines, all chunks do. `in_place` means that input
 * and output are one buffer. Returns false if memory runs out. The caller calls synth_layout_destroy in any case.
 */
bool synth_layout_init(synth_layout_t *layout, const synth_schedule_t *schedule, synth_manner_t manner, bool in_place);
void synth_layout_destroy(synth_layout_t *layout);

/*
 * Returns the place where a rank has a chunk, or its sum so far, before a step. Its buffer is 0 if the rank does not
 * have the chunk, or has it only in a slot. With packets, a chunk that belongs in the output is copied there only at
 * the end (synth_moves_unpack). But its place there is returned as soon as the chunk has arrived in its slot.
 */
synth_place_t synth_layout_at(const synth_layout_t *layout, int rank, int chunk, int step);

/*
 * Returns the place of a chunk in the output of a rank. Its buffer is 0 if the rank does not want the chunk, or if
 * whole inputs are sent.
 */
synth_place_t synth_layout_target(const synth_layout_t *layout, int rank, int chunk);

enum { SYNTH_MAX_OPERANDS = SYNTH_MAX_RANKS + 2 };

/*
 * A copy or addition of adjacent chunks. Its operands are the places that are read, followed by the places that are
 * written.
 */
typedef struct {
    int order; /* moves with a smaller order come first */
    int count; /* how many operands it has */
    int size;  /* how many chunks each operand has */
    struct {
        int rank;
        synth_place_t place;
    } operand[SYNTH_MAX_OPERANDS];
} synth_move_t;

typedef struct {
    synth_move_t *move;
    int count, room; /* room: number of moves for which memory is allocated */
    bool failed;     /* memory ran out: some moves are missing */
} synth_moves_t;

void synth_moves_destroy(synth_moves_t *moves);

/* Appends a move of one chunk with its first operand. If memory runs out, sets `failed` and returns NULL. */
synth_move_t *synth_moves_begin(synth_moves_t *moves, int order, int rank, synth_place_t place);
/* Adds an operand to a move. Does nothing if the move is NULL. */
void synth_move_add_operand(synth_move_t *move, int rank, synth_place_t place);

/* Merges moves whose chunks are adjacent in all operands, but not across the border of two blocks. */
void synth_moves_merge(const synth_layout_t *layout, synth_moves_t *moves);

/*
 * Adds a move for each send of a rank in a step, from the source to the target, except for sends that forward packets.
 */
void synth_moves_send(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* Adds a move for each chunk that arrived as packets and is forwarded: from its slot to the slots of all receivers. */
void synth_moves_relay(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/*
 * Adds a move for each sum that is formed after a step. The move reads the rank's own value and the slots, sorted by
 * sender, and writes the sum to its place. Sets `failed` if memory runs out.
 */
void synth_moves_add(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/*
 * Adds a move for each chunk that arrives in a slot and belongs to the rank's output: from the slot to its place there.
 * The layout must be one for packets or for a pipeline, in which every send has a slot.
 */
void synth_moves_unpack(const synth_layout_t *layout, int rank, synth_moves_t *moves);

/*
 * Adds a move for each chunk that a rank's own input contributes to its own output. Adds no move if input and output
 * are one buffer, since the chunk is there already, or if partial sums are sent.
 */
void synth_moves_local(const synth_layout_t *layout, int rank, synth_moves_t *moves);

#endif
