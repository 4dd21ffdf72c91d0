/* Which schedule is the fastest for which sizes, by the cost model. */
#ifndef TOOLS_SYNTH_LIB_RANGES_H
#define TOOLS_SYNTH_LIB_RANGES_H

#include "tools/synth/lib/front.h"

#define SYNTH_ALPHA_US 2.0   /* of a step, where the topology does not say */
#define SYNTH_UNIT_GBPS 25.0 /* of a unit of capacity, likewise */

typedef struct {
    bool any;             /* false: others are faster for every size */
    uint64_t least, most; /* bytes of a message as execution plans count them: all blocks of the collective together */
} synth_range_t;

/* Microseconds that a schedule takes for a message of so many bytes. */
double synth_cost(const synth_topology_t *topology, const synth_schedule_t *schedule, double bytes);

/* The range of each point of a front. Together they cover all sizes, once. */
void synth_ranges(const synth_topology_t *topology, const synth_front_t *front, synth_range_t *range);

#endif
