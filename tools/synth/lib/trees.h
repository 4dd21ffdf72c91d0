/* Schedules from packed trees, unit after unit: as many steps as one likes, and ever closer to the bound. */
#ifndef TOOLS_SYNTH_LIB_TREES_H
#define TOOLS_SYNTH_LIB_TREES_H

#include "tools/synth/lib/schedule.h"

typedef struct synth_trees synth_trees_t;

/*
 * Trees for an all-gather or a broadcast with `rounds` rounds for `chunks` chunks. The ratio has to be that of the
 * bound or larger: then there are trees (Edmonds, "Edge-disjoint branchings", 1973). Where groups limit links, the
 * program of slp.h, which takes up to `seconds`, first says how much of each link trees may use. NULL if there are no
 * such trees of few chunks, or without memory.
 */
synth_trees_t *synth_trees_new(const synth_topology_t *topology, synth_collective_t collective, int root, int rounds,
                               int chunks, double seconds);
void synth_trees_free(synth_trees_t *trees); /* NULL is allowed */

/* Chunks of one unit: a multiple of those that synth_trees_new was told of. */
int synth_trees_chunks(const synth_trees_t *trees);

/* A schedule of so many units. NULL without memory, or if it has too many steps. */
synth_schedule_t *synth_trees_schedule(const synth_topology_t *topology, const synth_trees_t *trees, int units);

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
