/*
 * Regular machines of any size that need no search: meshes, switches, and nodes. Each node is a mesh, and each of its
 * GPUs is joined to the GPUs of the same position on other nodes. Formulas give schedules for these machines, and
 * bounds for a number of steps.
 */
#ifndef TOOLS_SYNTH_LIB_CLOSED_H
#define TOOLS_SYNTH_LIB_CLOSED_H

#include "tools/synth/lib/schedule.h"

typedef enum {
    SYNTH_IRREGULAR, /* no formula is known */
    SYNTH_COMPLETE,  /* equal links between all ranks, perhaps with equal ports: a mesh or a switch */
    SYNTH_NODES      /* nodes that are meshes, and equal links between ranks of one position */
} synth_kind_t;

typedef struct {
    synth_kind_t kind;
    int nodes, gpus;              /* gpus: of each node; SYNTH_COMPLETE has one node */
    int inside;                   /* capacity of each link within a node */
    int port;                     /* chunks that a rank can send, or receive, in one round; SYNTH_NODES: across nodes */
    int rank_of[SYNTH_MAX_RANKS]; /* [node * gpus + position]: the rank; ranks of one position are joined */
} synth_shape_t;

/* Determines the kind of machine. If it is SYNTH_IRREGULAR, only `kind` is meaningful. */
void synth_shape_find(const synth_topology_t *topology, synth_shape_t *shape);

/*
 * Returns the least number of rounds for each chunk of a collective that does not combine, in `steps` steps. Returns
 * 0/1 if there is no formula, or if there are so many steps that the bound for any number of steps is as good.
 */
synth_rational_t synth_closed_bound(const synth_shape_t *shape, synth_collective_t collective, int steps);

/*
 * Makes the best schedule of `steps` steps that a formula gives for a collective that does not combine, with at most
 * `max_chunks` chunks and SYNTH_MAX_SENDS sends. Returns the schedule, which the caller frees with synth_schedule_free,
 * or NULL if there is none or memory runs out.
 */
synth_schedule_t *synth_closed_schedule(const synth_topology_t *topology, const synth_shape_t *shape,
                                        synth_collective_t collective, int root, int steps, int max_chunks);

#endif
