/*
 * What an all-reduce of a large vector takes at best if each piece of it is reduced along trees to one rank and sent
 * from there along trees, and each rank may be the root of as much of the vector as is good. Tree packings reach it in
 * the limit of many chunks and steps.
 */
#ifndef TOOLS_SYNTH_LIB_FREE_ROOTS_H
#define TOOLS_SYNTH_LIB_FREE_ROOTS_H

#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

/*
 * Rounds for each chunk: no such all-reduce has fewer, by the dual of a linear program, evaluated exactly. `value` is
 * what floating point says. MSCCLPP_ERR_NOT_SUPPORTED if the program is too large.
 */
mscclpp_status_t synth_free_roots(const synth_topology_t *topology, double seconds, synth_rational_t *bound,
                                  double *value);

#endif
