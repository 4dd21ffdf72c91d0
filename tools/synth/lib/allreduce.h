/* All-reduces that are put together from other collectives. */
#ifndef TOOLS_SYNTH_LIB_ALLREDUCE_H
#define TOOLS_SYNTH_LIB_ALLREDUCE_H

#include "tools/synth/lib/front.h"

/*
 * Fills the front as synth_front_find does. Its points come from five kinds of schedules: a reduce-scatter and an
 * all-gather; a reduce and a broadcast of one root; an all-gather of whole inputs; trees to and from several roots; and
 * two levels. Only for 1 step is there a bound of its own. A point of more steps is proven only if it meets the bound
 * for any number of steps.
 */
mscclpp_status_t synth_allreduce_find(const synth_topology_t *topology, const synth_options_t *options,
                                      synth_front_t *front, char *why, size_t why_size);

#endif
