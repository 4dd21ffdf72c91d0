/* Methods that find schedules in polynomial time. Each returns NULL if it finds none, or if memory runs out. */
#ifndef TOOLS_SYNTH_LIB_DIRECT_H
#define TOOLS_SYNTH_LIB_DIRECT_H

#include <signal.h>

#include "tools/synth/lib/schedule.h"

/* Sends each chunk by shortest ways, spread over the links. The schedule has as few steps as any. */
synth_schedule_t *synth_shortest(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks);

/* Fills step after step with at most so many rounds, until all ranks have what they want: each link in turn takes the
 * rarest chunk that it helps to send over it. */
synth_schedule_t *synth_greedy(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                               int rounds);

/*
 * Finds a gather or scatter of so many steps and rounds, by one flow for each way to spread the rounds over the steps.
 * It finds a schedule if there is one, provided that all groups are ports. It gives up after the deadline (by
 * mscclpp_now), or soon after *stop becomes true; `stop` may be NULL.
 */
synth_schedule_t *synth_by_flow(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                                int steps, int rounds, double deadline, const volatile sig_atomic_t *stop);

/*
 * Makes an all-reduce in three steps if the ranks fall into two full meshes whose ranks are joined in pairs:
 * reduce-scatter within the meshes, exchange between the pairs, all-gather within the meshes.
 */
synth_schedule_t *synth_two_level(const synth_topology_t *topology);

#endif
