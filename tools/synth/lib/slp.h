/*
 * The linear program that says how few rounds for each chunk a number of steps takes, whatever the number of chunks:
 * flows in a graph that has every rank once for each step. Its value in floating point is no proof. The dual solution
 * is rounded to whole numbers and evaluated exactly; what that gives is a bound, whatever the rounding.
 */
#ifndef TOOLS_SYNTH_LIB_SLP_H
#define TOOLS_SYNTH_LIB_SLP_H

#include "tools/synth/lib/demand.h"
#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

enum { SYNTH_SLP_RANKS = 24 }; /* more make programs that are too large */

typedef struct {
    synth_rational_t bound; /* proven: no schedule has fewer rounds for each chunk */
    double value;           /* of the cuts that are known; the same as the bound unless rounding lost something */
    int cuts, pivots;
} synth_slp_t;

/*
 * For a collective that does not combine. steps 0: any number of steps. After `seconds` it makes do with the cuts it
 * has: the bound is lower then, and no less true. MSCCLPP_ERR_NOT_SUPPORTED if the program is too large.
 */
mscclpp_status_t synth_slp_solve(const synth_topology_t *topology, synth_collective_t collective, int root, int steps,
                                 double seconds, synth_slp_t *slp);

/*
 * All-gather or broadcast, with any number of steps: how much of each link the chunks of each rank take at best, for
 * one chunk of each rank, in load[rank * links + link]. No link and no group then carries more than it can, and trees
 * can be packed into the links of each rank by themselves. False if the program is too large or takes too long.
 */
bool synth_slp_loads(const synth_topology_t *topology, synth_collective_t collective, int root, double seconds,
                     double *load);

#endif
