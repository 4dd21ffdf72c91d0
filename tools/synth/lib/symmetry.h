/* Renumberings of the ranks that leave a topology as it is. */
#ifndef TOOLS_SYNTH_LIB_SYMMETRY_H
#define TOOLS_SYNTH_LIB_SYMMETRY_H

#include "tools/synth/lib/topology.h"

enum { SYNTH_MAX_SYMMETRIES = 64 };

typedef struct {
    int count;                                                /* at least 1: the first is the identity */
    unsigned char map[SYNTH_MAX_SYMMETRIES][SYNTH_MAX_RANKS]; /* [symmetry][rank]: the new number of the rank */
} synth_symmetry_t;

/*
 * Finds all symmetries, or, if `fixed` is not negative, those that keep this rank where it is. If there are more than
 * SYNTH_MAX_SYMMETRIES, or if the search takes too long, finds only those that turn the ranks round by some number;
 * with a fixed rank, that is the identity alone.
 */
void synth_symmetry_find(const synth_topology_t *topology, int fixed, synth_symmetry_t *symmetry);

#endif
