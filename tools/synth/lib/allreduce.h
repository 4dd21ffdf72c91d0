/* All-reduces that are composed of other collectives. */
#ifndef TOOLS_SYNTH_LIB_ALLREDUCE_H
#define TOOLS_SYNTH_LIB_ALLREDUCE_H

#include "tools/synth/lib/front.h"

/*
 * Fills the front as synth_front_find does. Its points come from five kinds of schedules:
 * - a reduce-scatter followed by an all-gather,
 * - a reduce followed by a broadcast of the same root,
 * - an all-gather of whole inputs,
 * - trees to and from several roots,
 * - an all-reduce of two levels.
 *
 * Only 1 step has its own bound. A point with more steps is proven only if it meets the bound for any number of steps.
 * Returns MSCCLPP_OK, with no points if none has the steps and chunks that the options ask for. The only error is
 * MSCCLPP_ERR_NO_MEMORY; `reason` is then unchanged, and there is nothing to free.
 */
mscclpp_status_t synth_allreduce_find(const synth_topology_t *topology, const synth_options_t *options,
                                      synth_front_t *front, char *reason, size_t reason_size);

#endif
