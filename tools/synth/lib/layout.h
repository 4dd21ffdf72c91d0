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

/* Indexes count the chunks of a buffer. */
typedef struct {
    char buffer; /* i, o or s, as in plans; t: in the scratch, behind all packets; 0: nowhere */
    int index;
} synth_place_t;

typedef struct {
    synth_schedule_t
        *schedule;    /* a copy: chunks that may change places are numbered so that many travel side by side */
    int ranks, count; /* chunks in all; of each rank if whole inputs travel */
    bool adds;        /* partial sums travel, not inputs */
    bool in_place;
    synth_manner_t manner;
    synth_place_t *home;          /* [rank][chunk]: where the rank has the chunk before the first step */
    synth_place_t *later;         /* [rank][chunk]: where the chunk, or its sum, lies once it has arrived */
    int *since;                   /* [rank][chunk]: the step in which it first arrives; INT_MAX: never */
    int *arrival;                 /* [rank][chunk]: the send that brings the final value; -1: none */
    int *slot;                    /* of each send: the place in the receiver's scratch where it arrives; -1: none */
    int scratch[SYNTH_MAX_RANKS]; /* of each rank: chunks of scratch for slots and sums */
    int sums[SYNTH_MAX_RANKS];    /* of each rank: chunks of scratch for sums behind all packets */
    int block;                    /* chunks of the block that a rank has for one other rank, or of the whole vector */
} synth_layout_t;

/*
 * Lays out a schedule. With signals, only what is to be added arrives in a slot of the receiver's scratch; packets and
 * the turns of a pipeline all do. `in_place`: input and output are one buffer. False without memory.
 */
bool synth_layout_init(synth_layout_t *layout, const synth_schedule_t *schedule, synth_manner_t manner, bool in_place);
void synth_layout_destroy(synth_layout_t *layout);

/* Where a rank has a chunk before a step. */
synth_place_t synth_layout_at(const synth_layout_t *layout, int rank, int chunk, int step);

/* Where a chunk belongs in the output of a rank; nowhere if the rank does not want it. */
synth_place_t synth_layout_target(const synth_layout_t *layout, int rank, int chunk);

enum { SYNTH_MAX_ENDS = SYNTH_MAX_RANKS + 2 };

/* A copy or addition of adjacent chunks: its ends are the places that are read, then the places that are written. */
typedef struct {
    int order; /* of two moves the one with the smaller order comes first */
    int count; /* ends */
    int size;  /* chunks */
    struct {
        int rank;
        synth_place_t place;
    } end[SYNTH_MAX_ENDS];
} synth_move_t;

typedef struct {
    synth_move_t *move;
    int count, room;
    bool failed; /* no memory: some are missing */
} synth_moves_t;

void synth_moves_destroy(synth_moves_t *moves);

/* Appends a move of one chunk with its first end. NULL without memory. */
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

/* Adds a move for each chunk that ends in a slot: from the slot to its place in the output. */
void synth_moves_unpack(const synth_layout_t *layout, int rank, synth_moves_t *moves);

/* Adds a move for each chunk of a rank's input that belongs in its own output. */
void synth_moves_own(const synth_layout_t *layout, int rank, synth_moves_t *moves);

#endif
