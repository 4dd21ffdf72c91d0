/* Schedules in polynomial time. Each returns NULL where it has none, or without memory. */
#ifndef TOOLS_SYNTH_LIB_DIRECT_H
#define TOOLS_SYNTH_LIB_DIRECT_H

#include "tools/synth/lib/schedule.h"

/* Each chunk goes by shortest ways, spread over the links: as few steps as there can be. */
synth_schedule_t *synth_shortest(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks);

/* So many rounds in each step, and in each the rarest chunk that a link can carry, until all is done. */
synth_schedule_t *synth_greedy(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                               int rounds);

/*
 * Gather and scatter in so many steps and rounds, by one flow for each way to spread the rounds over the steps: finds a
 * schedule if there is one, unless a group is no port.
 */
synth_schedule_t *synth_by_flow(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                                int steps, int rounds);

/*
 * All-reduce where the ranks fall into two full meshes whose ranks are joined in pairs: reduce-scatter inside,
 * exchange, all-gather inside.
 */
synth_schedule_t *synth_two_level(const synth_topology_t *topology);

#endif
