/*
 * Machines that need no search, whatever their size: meshes, switches, and nodes whose GPUs are meshes and are joined
 * to those of the same position on other nodes. Formulas give schedules, and bounds for a number of steps.
 */
#ifndef TOOLS_SYNTH_LIB_CLOSED_H
#define TOOLS_SYNTH_LIB_CLOSED_H

#include "tools/synth/lib/schedule.h"

typedef enum { SYNTH_IRREGULAR, SYNTH_COMPLETE, SYNTH_NODES } synth_kind_t;

typedef struct {
    synth_kind_t kind;
    int nodes, gpus;         /* gpus: of each node; SYNTH_COMPLETE has one node */
    int inside;              /* capacity of each link, of nodes of each link within a node */
    int port;                /* what a rank sends or receives in one round, from nodes to others only */
    int at[SYNTH_MAX_RANKS]; /* the rank of node n and position g is at[n * gpus + g] */
} synth_shape_t;

void synth_shape(const synth_topology_t *topology, synth_shape_t *shape);

/* Least rounds for each chunk of a collective that does not combine in so many steps; 0/1 if no formula tells. */
synth_rational_t synth_closed_bound(const synth_shape_t *shape, synth_collective_t collective, int steps);

/*
 * The best schedule of so many steps that a formula gives, with at most so many chunks and SYNTH_MAX_SENDS sends, of a
 * collective that does not combine. NULL if there is none, or without memory.
 */
synth_schedule_t *synth_closed(const synth_topology_t *topology, const synth_shape_t *shape,
                               synth_collective_t collective, int root, int steps, int most_chunks);

#endif
