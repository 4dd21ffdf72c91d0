/*
 * The fewest rounds of an all-reduce of a large vector. Each piece of the vector is reduced along trees to one rank,
 * its root, and sent from there along trees. The parts of the vector for which each rank is the root are chosen so that
 * there are as few rounds as possible. Schedules of packed trees approach this number of rounds with more and more
 * chunks and steps.
 */
#ifndef TOOLS_SYNTH_LIB_FREE_ROOTS_H
#define TOOLS_SYNTH_LIB_FREE_ROOTS_H

#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

typedef struct {
    synth_rational_t bound;        /* rounds for each chunk: no such all-reduce has fewer; computed exactly */
    double value;                  /* the same in floating point; larger than the bound if rounding lost something */
    double share[SYNTH_MAX_RANKS]; /* [rank]: the part of the vector for which it is the root; the parts add up to 1 */
    double *load; /* array of the caller, or NULL: how much of the vector the trees of a root send over a link. In
                     [(direction * ranks + root) * links + link]; direction is 0 away from the root, 1 towards it */
} synth_free_roots_t;

/*
 * Solves the program and fills in the result. Returns MSCCLPP_ERR_NOT_SUPPORTED if the program is too large,
 * MSCCLPP_ERR_TIMEOUT if it takes longer than `seconds`, and MSCCLPP_ERR_NO_MEMORY, also for too many cuts. On any
 * error the result must not be used.
 */
mscclpp_status_t synth_free_roots(const synth_topology_t *topology, double seconds, synth_free_roots_t *result);

#endif
