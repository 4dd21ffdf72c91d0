/* One numbering of the ranks for all topologies that differ in their numbering alone. */
#ifndef TOOLS_SYNTH_LIB_CANON_H
#define TOOLS_SYNTH_LIB_CANON_H

#include "tools/synth/lib/topology.h"

typedef struct {
    int place[SYNTH_MAX_RANKS]; /* of each rank in the canonical numbering */
    bool sure;                  /* false: the search was cut short; other numberings may lead to another text */
    char *text;                 /* ranks, nodes, links and groups in the canonical numbering; names are left out */
} synth_canon_t;

/*
 * Refines colours of ranks by what they are joined to, tells ranks of one colour apart one by one, and takes the least
 * text, as programs for graph isomorphism do (McKay, Piperno: "Practical graph isomorphism, II", 2014). Two topologies
 * have the same text only if a renumbering of ranks makes one of the other; `root`, if it is not negative, has to
 * become the root. False without memory.
 */
bool synth_canon_find(const synth_topology_t *topology, int root, synth_canon_t *canon);

/* 32 hexadecimal digits and a zero byte. */
enum { SYNTH_DIGEST = 33 };
void synth_canon_digest(const synth_canon_t *canon, char digest[SYNTH_DIGEST]);

void synth_canon_free(synth_canon_t *canon);

#endif
