/*
 * Schedules that send along packed trees, one unit after another. With more units, and so more steps, they come closer
 * and closer to the bound.
 */
#ifndef TOOLS_SYNTH_LIB_TREES_H
#define TOOLS_SYNTH_LIB_TREES_H

#include "tools/synth/lib/schedule.h"

typedef struct synth_trees synth_trees_t;

/*
 * Makes trees for an all-gather or a broadcast with `rounds` rounds for `chunks` chunks. If no groups limit the links,
 * there are such trees if this ratio is not below the bound (Edmonds, "Edge-disjoint branchings", 1973). If groups
 * limit links, the linear program of slp.h first determines how much of each link the trees may use, within `seconds`.
 * Returns NULL for other collectives, if there are too many ranks or trees, if no such trees with few chunks are found,
 * or if memory runs out.
 */
synth_trees_t *synth_trees_new(const synth_topology_t *topology, synth_collective_t collective, int root, int rounds,
                               int chunks, double seconds);
void synth_trees_free(synth_trees_t *trees); /* NULL is allowed */

/* Returns the number of chunks of one unit: the number that was passed to synth_trees_new, or a multiple of it. */
int synth_trees_chunks(const synth_trees_t *trees);

/* Makes a schedule of `units` units. Returns NULL if memory runs out, or if it has too many steps or sends. */
synth_schedule_t *synth_trees_schedule(const synth_topology_t *topology, const synth_trees_t *trees, int units);

/*
 * Trees for an all-reduce: each piece of the vector is reduced along one tree to its root and sent from there along
 * another tree. The linear program of free_roots.h determines for which part of the vector each rank is the root.
 */
typedef struct synth_allreduce_trees synth_allreduce_trees_t;

/*
 * Makes these trees. The linear program may take up to `seconds`. Returns NULL if the program takes longer or is too
 * large, if no such trees with few chunks are found, or if memory runs out.
 */
synth_allreduce_trees_t *synth_allreduce_trees_new(const synth_topology_t *topology, double seconds);
void synth_allreduce_trees_free(synth_allreduce_trees_t *trees);

/* Makes an all-reduce of `units` units. Returns NULL if memory runs out, or if it has too many steps or sends. */
synth_schedule_t *synth_allreduce_trees_schedule(const synth_topology_t *topology, const synth_allreduce_trees_t *trees,
                                                 int units);

/* Returns the number of chunks of one unit of such an all-reduce. */
int synth_allreduce_trees_chunks(const synth_allreduce_trees_t *trees);

#endif
