/*
 * A linear program for the rounds of schedules with a given number of steps and any number of chunks. Its value is the
 * least number of rounds for each chunk. It describes flows in a graph that has every rank once for each step. Its
 * value in floating point is no proof. Therefore the solution of its dual is rounded to whole numbers and evaluated
 * exactly. The result is a valid bound, whatever the rounding changed.
 */
#ifndef TOOLS_SYNTH_LIB_SLP_H
#define TOOLS_SYNTH_LIB_SLP_H

#include "tools/synth/lib/demand.h"
#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

enum { SYNTH_SLP_RANKS = 24 }; /* programs of more ranks are too large */

typedef struct {
    synth_rational_t bound; /* proven: no schedule has fewer rounds for each chunk */
    double value;           /* the program's value in floating point; above the bound if rounding lost something */
    int cuts, pivots;       /* how many cuts were added, and how many pivots of the simplex method were made */
} synth_slp_t;

/*
 * Computes the bound of a collective that does not combine, for `steps` steps; 0 means any number of steps. After
 * `seconds` it stops with the cuts that it has found: the bound is valid, but may be lower. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if the program is too large, and MSCCLPP_ERR_NO_MEMORY if memory runs out or there are too
 * many cuts; *slp is then not valid.
 */
mscclpp_status_t synth_slp_solve(const synth_topology_t *topology, synth_collective_t collective, int root, int steps,
                                 double seconds, synth_slp_t *slp);

/*
 * Divides the links among the ranks for an all-gather or broadcast with any number of steps. load[rank * links + link]
 * becomes how much of the link one chunk of the rank uses. In the least number of rounds, no link and no group carries
 * more than its capacity. The trees of each rank can be packed into its own loads. Returns false if the program is too
 * large, if it takes longer than `seconds`, or if memory runs out.
 */
bool synth_slp_loads(const synth_topology_t *topology, synth_collective_t collective, int root, double seconds,
                     double *load);

#endif
