/* Where the chunks of a schedule lie on each rank, and what has to move in each step. */
#ifndef TOOLS_SYNTH_LIB_LAYOUT_H
#define TOOLS_SYNTH_LIB_LAYOUT_H

#include "tools/synth/lib/schedule.h"

/* How a plan tells a receiver that data are there. */
typedef enum {
    SYNTH_SIGNALS,  /* by a signal behind them */
    SYNTH_PACKETS,  /* by a flag in each packet: no signals, but twice the bytes */
    SYNTH_PIPELINE, /* by signals, in turns that follow one another along trees */
    SYNTH_MANNERS
} synth_manner_t;

/* A place of one chunk in a buffer. */
typedef struct {
    char buffer; /* i, o, s: input, output, scratch; t: in the scratch, behind all packets; 0: nowhere */
    int index;   /* in chunks */
} synth_place_t;

typedef struct {
    synth_schedule_t *schedule; /* a copy, with chunks renumbered so that those that go the same way are neighbours */
    int ranks, count;           /* count: chunks in all; if whole inputs travel, the chunks of all inputs */
    bool adds;                  /* partial sums travel, not inputs */
    bool in_place;
    synth_manner_t manner;
    synth_place_t *home;          /* [rank * count + chunk]: where the rank has the chunk before the first step */
    synth_place_t *new_home;      /* likewise: where the chunk, or its sum, lies once it has arrived */
    int *first_step;              /* likewise: the step in which it first arrives; INT_MAX: never */
    int *final_send;              /* likewise: the send that brings the final value; -1: none */
    int *slot;                    /* of each send: the place in the receiver's scratch where it arrives; -1: none */
    int scratch[SYNTH_MAX_RANKS]; /* of each rank: chunks of scratch for slots and sums */
    int sums[SYNTH_MAX_RANKS];    /* of each rank: chunks of scratch for sums behind all packets */
    int block;                    /* chunks of the block that a rank has for one other rank, or of the whole vector */
} synth_layout_t;

/*
 * Lays out a schedule. With signals, only what is to be added arrives in a slot of the receiver's scratch; with packets
 * and in pipelines, everything does. `in_place`: input and output are one buffer. Returns false if memory runs out. The
 * caller destroys the layout in any case.
 */
bool synth_layout_init(synth_layout_t *layout, const synth_schedule_t *schedule, synth_manner_t manner, bool in_place);
void synth_layout_destroy(synth_layout_t *layout);

/* Returns where a rank has a chunk, or its sum so far, before a step; nowhere if it does not have it. */
synth_place_t synth_layout_at(const synth_layout_t *layout, int rank, int chunk, int step);

/* Returns where a chunk belongs in the output of a rank; nowhere if the rank does not want it. */
synth_place_t synth_layout_target(const synth_layout_t *layout, int rank, int chunk);

enum { SYNTH_MAX_ENDS = SYNTH_MAX_RANKS + 2 };

/* A copy or addition of adjacent chunks. Its ends are first the places that are read, then those that are written. */
typedef struct {
    int order; /* moves with a smaller order come first */
    int count; /* how many ends it has */
    int size;  /* how many chunks each end has */
    struct {
        int rank;
        synth_place_t place;
    } end[SYNTH_MAX_ENDS];
} synth_move_t;

typedef struct {
    synth_move_t *move;
    int count, room; /* room: moves that the memory has place for */
    bool failed;     /* memory ran out: some moves are missing */
} synth_moves_t;

void synth_moves_destroy(synth_moves_t *moves);

/* Appends a move of one chunk with its first end. Returns NULL, with `failed` set, if memory runs out. */
synth_move_t *synth_moves_begin(synth_moves_t *moves, int order, int rank, synth_place_t place);
/* Adds an end to a move. A move of NULL is ignored. */
void synth_move_end(synth_move_t *move, int rank, synth_place_t place);

/* Merges moves whose chunks are adjacent at all ends, unless the result would cross from one block into the next. */
void synth_moves_merge(const synth_layout_t *layout, synth_moves_t *moves);

/* Adds a move for each send of a rank in a step that reads its buffers, from the source to the target. */
void synth_moves_send(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* Adds a move for each chunk that arrived as packets and is passed on: from its slot to those of all receivers. */
void synth_moves_relay(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* Adds a move for each sum after a step: the rank's own value and the slots, sorted by sender, into the target. */
void synth_moves_add(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* Adds a move for each chunk that ends in a slot: from the slot to its place in the output. With packets and in
 * pipelines only, where every send has a slot. */
void synth_moves_unpack(const synth_layout_t *layout, int rank, synth_moves_t *moves);

/* Adds a move for each chunk of a rank's input that belongs in its own output. */
void synth_moves_own(const synth_layout_t *layout, int rank, synth_moves_t *moves);

#endif
