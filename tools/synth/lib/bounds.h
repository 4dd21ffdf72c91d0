/* Lower bounds of steps and rounds that hold for every schedule, and what proves them. */
#ifndef TOOLS_SYNTH_LIB_BOUNDS_H
#define TOOLS_SYNTH_LIB_BOUNDS_H

#include "tools/synth/lib/demand.h"
#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

/* The least number of steps: the longest of the shortest paths that a chunk has to go. */
int synth_bound_steps(const synth_topology_t *topology, synth_collective_t collective, int root);

typedef struct {
    synth_rational_t ratio; /* rounds for each chunk, whatever the number of steps */
    uint64_t set;           /* of ranks: the cut that proves it; 0 if something else does */
    const char *by;         /* "cut", "linear program" or "number of sends" */
} synth_bound_t;

/*
 * By maximum flows in whole numbers. Links that lead out of one rank or into one rank and share a limit go through a
 * vertex of their own; other groups are left out, which makes the bound lower but no less true.
 */
mscclpp_status_t synth_bound_cut(const synth_topology_t *topology, synth_collective_t collective, int root,
                                 synth_bound_t *bound);

/* The larger one of that and of the linear program, if it is small enough and ends within `seconds`. */
mscclpp_status_t synth_bound_rounds(const synth_topology_t *topology, synth_collective_t collective, int root,
                                    double seconds, synth_bound_t *bound);

/*
 * All-reduce: the whole vector, reduced, has to come from the rest to each rank, and so through each cut; and every
 * piece of it takes so many sends between ranks, and between nodes, as it takes to sum it up once and to tell all.
 */
void synth_bound_allreduce(const synth_topology_t *topology, synth_bound_t *bound);

#endif
