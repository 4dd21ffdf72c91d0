/* From a schedule to an execution plan, in the format that mscclpp_plan reads (docs/plans.md). */
#ifndef TOOLS_SYNTH_LIB_LOWER_H
#define TOOLS_SYNTH_LIB_LOWER_H

#include "tools/synth/lib/ranges.h"

enum { SYNTH_MAX_INSTANCES = 64 };

typedef struct {
    const char *name;
    synth_manner_t manner;
    bool in_place;       /* input and output are one buffer */
    int instances;       /* blocks of each rank that share its work; in pipelines, of each tree */
    synth_range_t range; /* sizes of the messages that the plan is for */
} synth_lowering_t;

/*
 * Whether a schedule can become a plan of this kind; if not, *why_p says why. Packets are for collectives in which all
 * ranks hear of one another, on one node. Pipelines are for schedules whose chunks go along trees. Plans in place are
 * for all-gather, all-reduce and reduce-scatter.
 */
bool synth_can_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                     bool in_place, const char **why_p);

/*
 * Returns the plan as JSON text, which the caller frees, and its length; NULL if memory runs out. synth_can_lower has
 * to allow the plan. Collectives that the format has no name for become "custom".
 */
char *synth_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, const synth_lowering_t *lowering,
                  size_t *size_p);

/*
 * Parses a plan, checks it, and simulates some launches back to back (MSCCLPP_PLAN_LAUNCHES). Returns false, and says
 * why, if anything is wrong with it; if memory runs out, `why` may stay as it was. *checked: whether the results were
 * compared with what the collective asks for.
 */
bool synth_prove(const char *text, size_t size, bool *checked, char *why, size_t why_size);

#endif
