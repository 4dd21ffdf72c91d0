/* From a schedule to an execution plan, in the format that mscclpp_plan reads (docs/plans.md). */
#ifndef TOOLS_SYNTH_LIB_LOWER_H
#define TOOLS_SYNTH_LIB_LOWER_H

#include "tools/synth/lib/ranges.h"

enum { SYNTH_MAX_INSTANCES = 64 };

/*
 * The plan as JSON text, which the caller frees; NULL without memory. `instances` blocks of each rank share the work.
 * Collectives that the format has no name for become "custom". `range` says which messages the plan is for.
 * Ranks of one node are joined by memory channels, those of several nodes by port channels.
 */
char *synth_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, const char *name, int instances,
                  const synth_range_t *range, size_t *size_p);

/*
 * Reads the plan as anyone would, checks it and simulates it, three launches back to back. False, and why, if anything
 * is wrong with it. `checked` says whether the results were compared, too.
 */
bool synth_prove(const char *text, size_t size, bool *checked, char *why, size_t why_size);

#endif
