/* All-reduce put together from other collectives. */
#ifndef TOOLS_SYNTH_LIB_ALLREDUCE_H
#define TOOLS_SYNTH_LIB_ALLREDUCE_H

#include "tools/synth/lib/front.h"

/*
 * Points from reduce-scatter and all-gather, from reduce and broadcast of one root, from an all-gather of whole inputs,
 * and from two levels. No bound for a number of steps but 1 is known, so a point of more steps is proven only if it
 * meets the bound of all.
 */
mscclpp_status_t synth_allreduce_find(const synth_topology_t *topology, const synth_options_t *options,
                                      synth_front_t *front, char *why, size_t why_size);

#endif
