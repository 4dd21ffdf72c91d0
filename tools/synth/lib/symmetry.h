/* Renumberings of the ranks that do not change a topology. */
#ifndef TOOLS_SYNTH_LIB_SYMMETRY_H
#define TOOLS_SYNTH_LIB_SYMMETRY_H

#include "tools/synth/lib/topology.h"

enum { SYNTH_MAX_SYMMETRIES = 64 };

typedef struct {
    int count;                                                /* at least 1: the first is the identity */
    unsigned char map[SYNTH_MAX_SYMMETRIES][SYNTH_MAX_RANKS]; /* [symmetry][rank]: the new number of the rank */
} synth_symmetry_t;

/*
 * Finds all symmetries or, if `fixed` is not negative, all symmetries that map this rank onto itself. If there are more
 * than SYNTH_MAX_SYMMETRIES, or if the search takes too long, finds only rotations, which add the same number to all
 * ranks. With a fixed rank, the only such rotation is the identity.
 */
void synth_symmetry_find(const synth_topology_t *topology, int fixed, synth_symmetry_t *symmetry);

#endif
