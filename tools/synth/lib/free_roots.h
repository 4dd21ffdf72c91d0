/*
 * What an all-reduce of a large vector takes at best if each piece of it is reduced along trees to one rank and sent
 * from there along trees, and each rank may be the root of as much of the vector as is good. Tree packings reach it in
 * the limit of many chunks and steps.
 */
#ifndef TOOLS_SYNTH_LIB_FREE_ROOTS_H
#define TOOLS_SYNTH_LIB_FREE_ROOTS_H

#include "tools/synth/lib/rational.h"
#include "tools/synth/lib/topology.h"

typedef struct {
    synth_rational_t
        bound;    /* rounds for each chunk: no such all-reduce has fewer; computed exactly from a dual solution */
    double value; /* the same as floating point has it */
    double share[SYNTH_MAX_RANKS]; /* of the vector, of which each rank is the root */
    double *load; /* if it is not NULL: what trees of a root put on a link, [out of it, into it][root][link] */
} synth_free_roots_t;

/* MSCCLPP_ERR_NOT_SUPPORTED if the program is too large, MSCCLPP_ERR_TIMEOUT if `seconds` were not enough. */
mscclpp_status_t synth_free_roots(const synth_topology_t *topology, double seconds, synth_free_roots_t *result);

#endif
