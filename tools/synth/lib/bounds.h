/* Lower bounds of steps and rounds that hold for every schedule, with their proofs. */
#ifndef TOOLS_SYNTH_LIB_BOUNDS_H
#define TOOLS_SYNTH_LIB_BOUNDS_H

#include "tools/synth/lib/demand.h"
#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

/* Returns a lower bound of the number of steps: the greatest distance, in links, that a chunk has to be sent. */
int synth_bound_steps(const synth_topology_t *topology, synth_collective_t collective, int root);

typedef struct {
    synth_rational_t ratio; /* rounds for each chunk, whatever the number of steps */
    uint64_t cut;      /* the set of ranks on one side of the cut that proves the bound; 0: something else proves it */
    const char *proof; /* "cut", "linear program" or "number of sends" */
} synth_bound_t;

/*
 * Computes the bound by maximum flows in whole numbers. A group whose links all leave or all enter one rank becomes a
 * vertex of the graph. Other groups are ignored, which may make the bound lower, but it remains valid. An all-to-all
 * also uses a group that contains all links out of a set of ranks. Returns MSCCLPP_OK, or MSCCLPP_ERR_NO_MEMORY.
 */
mscclpp_status_t synth_bound_cut(const synth_topology_t *topology, synth_collective_t collective, int root,
                                 synth_bound_t *bound);

/*
 * Computes two bounds, by cuts and by the linear program, and returns the larger one. The linear program may run for
 * `seconds` seconds, and is left out if it is too large. Returns MSCCLPP_OK, or MSCCLPP_ERR_NO_MEMORY.
 */
mscclpp_status_t synth_bound_rounds(const synth_topology_t *topology, synth_collective_t collective, int root,
                                    double seconds, synth_bound_t *bound);

/*
 * Computes two bounds of an all-reduce, and returns the larger one. If memory runs out, the bound may be lower, but it
 * remains valid.
 * 1. The reduced vector has to reach each rank, and so has to cross each cut.
 * 2. Every piece of the vector has to be summed up and then sent to all ranks. This takes a number of sends between
 *    ranks and between nodes.
 */
void synth_bound_allreduce(const synth_topology_t *topology, synth_bound_t *bound);

#endif
