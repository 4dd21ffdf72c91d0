/* Lower bounds of steps and rounds that hold for every schedule, and what proves them. */
#ifndef TOOLS_SYNTH_LIB_BOUNDS_H
#define TOOLS_SYNTH_LIB_BOUNDS_H

#include "tools/synth/lib/demand.h"
#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

/* Returns the least number of steps: the longest of the shortest paths that a chunk has to go. */
int synth_bound_steps(const synth_topology_t *topology, synth_collective_t collective, int root);

typedef struct {
    synth_rational_t ratio; /* rounds for each chunk, whatever the number of steps */
    uint64_t set;           /* of ranks: the cut that proves it; 0 if something else does */
    const char *by;         /* "cut", "linear program" or "number of sends" */
} synth_bound_t;

/*
 * Computes the bound by maximum flows in whole numbers. Groups of links that all leave or all enter one rank become a
 * vertex; other groups are left out, which may make the bound lower, but it stays valid. Fails only if memory
 * runs out.
 */
mscclpp_status_t synth_bound_cut(const synth_topology_t *topology, synth_collective_t collective, int root,
                                 synth_bound_t *bound);

/* Computes the larger one of the bound by cuts and that by the linear program. The program gets `seconds`, and is left
 * out if it is too large. Fails only if memory runs out. */
mscclpp_status_t synth_bound_rounds(const synth_topology_t *topology, synth_collective_t collective, int root,
                                    double seconds, synth_bound_t *bound);

/*
 * Computes the bound of an all-reduce, the larger one of two. The reduced vector has to come to each rank, and so
 * through each cut. Every piece of it has to be summed up and then told to all ranks, which takes sends between ranks
 * and between nodes. If memory runs out, the bound may be lower, but it stays valid.
 */
void synth_bound_allreduce(const synth_topology_t *topology, synth_bound_t *bound);

#endif
