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
    synth_place_t *home;          /* [rank][chunk]: where a rank has it at first */
    synth_place_t *later;         /* [rank][chunk]: where it comes to, or is summed up */
    int *since;                   /* [rank][chunk]: the step in which it comes there; INT_MAX: never */
    int *arrival;                 /* [rank][chunk]: the send that brings it as it stays; -1: none */
    int *slot;                    /* of each send: the place in the receiver's scratch where it arrives; -1: none */
    int scratch[SYNTH_MAX_RANKS]; /* chunks of it: slots and sums, */
    int sums[SYNTH_MAX_RANKS];    /* and sums that lie behind packets */
    int block;                    /* chunks that a rank has for each other one, or of the whole vector */
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

/* Chunks that lie side by side at each of several ends: what is read comes first, what is written last. */
typedef struct {
    int order; /* of two moves the one with the smaller order comes first */
    int count, size;
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

/* Begins a move of one chunk, with its first end. NULL without memory. */
synth_move_t *synth_moves_begin(synth_moves_t *moves, int order, int rank, synth_place_t place);
void synth_move_end(synth_move_t *move, int rank, synth_place_t place); /* NULL is allowed */

/* Makes one move of those whose chunks lie side by side at all ends and do not reach from one block into the next. */
void synth_moves_merge(const synth_layout_t *layout, synth_moves_t *moves);

/* What a rank sends in a step out of its buffers: a source and a target each. */
void synth_moves_send(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* With slots: what a rank passes on in a step that came as packets: its slot, and those of all receivers. */
void synth_moves_relay(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* What a rank adds up after a step: what it has, the slots of what came in the order of senders, and the target. */
void synth_moves_add(const synth_layout_t *layout, int rank, int step, synth_moves_t *moves);

/* With slots: what has come to stay: a slot and its place in the output. */
void synth_moves_unpack(const synth_layout_t *layout, int rank, synth_moves_t *moves);

/* What a rank sends to itself. */
void synth_moves_own(const synth_layout_t *layout, int rank, synth_moves_t *moves);

#endif
