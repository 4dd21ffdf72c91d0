/* Renumberings of the ranks that leave a topology as it is. */
#ifndef TOOLS_SYNTH_LIB_SYMMETRY_H
#define TOOLS_SYNTH_LIB_SYMMETRY_H

#include "tools/synth/lib/topology.h"

enum { SYNTH_MAX_SYMMETRIES = 64 };

typedef struct {
    int count; /* at least 1: the first is the identity */
    unsigned char map[SYNTH_MAX_SYMMETRIES][SYNTH_MAX_RANKS];
} synth_symmetry_t;

/*
 * All of them, or those that keep `fixed` where it is, if it is not negative. If there are more than fit, or if the
 * search takes too long, those that turn the ranks round by some number, if these are some, or the identity alone.
 */
void synth_symmetry_find(const synth_topology_t *topology, int fixed, synth_symmetry_t *symmetry);

#endif
