/* From a schedule to an execution plan, in the format that mscclpp_plan reads (docs/plans.md). */
#ifndef TOOLS_SYNTH_LIB_LOWER_H
#define TOOLS_SYNTH_LIB_LOWER_H

#include "tools/synth/lib/ranges.h"

enum { SYNTH_MAX_INSTANCES = 64 };

typedef struct {
    const char *name;
    synth_manner_t manner;
    bool in_place;       /* input and output are one buffer */
    int instances;       /* number of blocks that share the work of a rank; in pipelines, the work of a tree */
    synth_range_t range; /* sizes of the messages that the plan is for */
} synth_lowering_t;

/*
 * Returns true if a schedule can become a plan of this kind; otherwise sets *why_p to the reason, a string literal.
 * - Packets: on one node, for schedules of at most 1024 sends, of collectives in which each rank receives data from
 *   every other one, directly or indirectly.
 * - Pipelines: for schedules whose chunks are sent along trees.
 * - Plans in place: for all-gather, all-reduce and reduce-scatter.
 */
bool synth_can_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                     bool in_place, const char **why_p);

/*
 * Returns the plan as JSON text, which the caller frees, and stores its length in *size_p. Returns NULL if memory runs
 * out. synth_can_lower has to allow the plan. A collective for which the format has no name becomes "custom".
 */
char *synth_lower(const synth_topology_t *topology, const synth_schedule_t *schedule, const synth_lowering_t *lowering,
                  size_t *size_p);

/*
 * Parses a plan, checks it, and simulates MSCCLPP_PLAN_LAUNCHES launches back to back. Returns true if the plan is
 * correct. Otherwise returns false, with a text in `reason`; if memory runs out, `reason` may be unchanged. *checked
 * says whether the results were compared with the definition of the collective.
 */
bool synth_prove(const char *text, size_t size, bool *checked, char *reason, size_t reason_size);

#endif
