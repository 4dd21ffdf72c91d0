/*
 * Methods that find schedules in polynomial time. Each returns a schedule, which the caller frees with
 * synth_schedule_free, or NULL if it finds none or memory runs out.
 */
#ifndef TOOLS_SYNTH_LIB_DIRECT_H
#define TOOLS_SYNTH_LIB_DIRECT_H

#include <signal.h>

#include "tools/synth/lib/schedule.h"

/* Sends each chunk along shortest paths, spread over the links. No schedule has fewer steps. */
synth_schedule_t *synth_shortest(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks);

/*
 * Fills one step after another, with at most `rounds` rounds each, until all ranks have the chunks that they want. The
 * links take turns, and each link takes the rarest chunk that it helps to send over it.
 */
synth_schedule_t *synth_greedy(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                               int rounds);

/*
 * Finds a gather or scatter of `steps` steps, at most SYNTH_MAX_STEPS, and `rounds` rounds. Computes one flow for each
 * way to divide the rounds among the steps. Returns the schedule, which the caller frees with synth_schedule_free, or
 * NULL if it finds none, gives up, or has no memory.
 *
 * Without groups of links, and with fewer than TOO_MANY_WAYS such ways (by_flow.c), it finds a schedule if there is
 * one. With groups it ignores their limits, so the caller must replay the schedule. It gives up after the deadline (by
 * mscclpp_now), or soon after *stop becomes true; `stop` may be NULL.
 */
synth_schedule_t *synth_find_by_flow(const synth_topology_t *topology, synth_collective_t collective, int root,
                                     int chunks, int steps, int rounds, double deadline,
                                     const volatile sig_atomic_t *stop);

/*
 * Makes an all-reduce in three steps: a reduce-scatter within two full meshes, an exchange between them, and an
 * all-gather within them. The ranks must be divisible into two full meshes whose ranks are joined in pairs.
 */
synth_schedule_t *synth_two_level(const synth_topology_t *topology);

#endif
