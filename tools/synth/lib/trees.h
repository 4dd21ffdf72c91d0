/* Schedules from packed trees, unit after unit: as many steps as one likes, and ever closer to the bound. */
#ifndef TOOLS_SYNTH_LIB_TREES_H
#define TOOLS_SYNTH_LIB_TREES_H

#include "tools/synth/lib/schedule.h"

/*
 * All-gather or broadcast with `rounds` rounds for `chunks` chunks and `units` times as many chunks in all. The ratio
 * has to be that of a cut bound or larger: then there are trees (Edmonds, "Edge-disjoint branchings", 1973). NULL if
 * there are groups, if there are no such trees, or without memory.
 */
synth_schedule_t *synth_trees(const synth_topology_t *topology, synth_collective_t collective, int root, int rounds,
                              int chunks, int units);

/*
 * All-reduce: each piece of the vector is reduced along a tree to a root and sent from there along another, with shares
 * of the roots from the linear program of free_roots.h, which takes up to `seconds`. NULL as above, and if the program
 * is too large.
 */
typedef struct synth_shares synth_shares_t;

synth_shares_t *synth_shares_new(const synth_topology_t *topology, double seconds);
void synth_shares_free(synth_shares_t *shares);
synth_schedule_t *synth_tree_allreduce(const synth_topology_t *topology, const synth_shares_t *shares, int units);

/* Chunks of one unit. */
int synth_shares_chunks(const synth_shares_t *shares);

#endif
