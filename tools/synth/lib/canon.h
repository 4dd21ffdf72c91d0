/* Canonical numberings: topologies that differ only in the numbering of their ranks get the same one. */
#ifndef TOOLS_SYNTH_LIB_CANON_H
#define TOOLS_SYNTH_LIB_CANON_H

#include "tools/synth/lib/topology.h"

typedef struct {
    int numbering[SYNTH_MAX_RANKS]; /* [rank]: its number in the canonical numbering */
    bool is_exact;                  /* false: the search was cut short; other numberings may lead to another text */
    char *text;                     /* ranks, nodes, links and groups in the canonical numbering; names are left out */
} synth_canon_t;

/*
 * Finds the canonical numbering and its text, as programs for graph isomorphism do (McKay, Piperno: "Practical graph
 * isomorphism, II", 2014). Two topologies have the same text only if one of them becomes the other by a renumbering of
 * its ranks. If `root` is not negative, the renumbering also has to map root onto root. The caller frees *canon with
 * synth_canon_free. Returns false if memory runs out.
 */
bool synth_canon_find(const synth_topology_t *topology, int root, synth_canon_t *canon);

enum { SYNTH_DIGEST = 33 }; /* 32 hexadecimal digits and a zero byte */

/* Writes a digest of the text, for the name of a file. */
void synth_canon_digest(const synth_canon_t *canon, char digest[SYNTH_DIGEST]);

void synth_canon_free(synth_canon_t *canon);

#endif
