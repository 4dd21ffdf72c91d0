/* Determines which plan is the fastest for which sizes, by the cost model. */
#ifndef TOOLS_SYNTH_LIB_RANGES_H
#define TOOLS_SYNTH_LIB_RANGES_H

#include "tools/synth/lib/front.h"
#include "tools/synth/lib/layout.h"

#define SYNTH_ALPHA_US 2.0   /* microseconds of a step, if the topology does not specify them */
#define SYNTH_UNIT_GBPS 25.0 /* GB/s of a unit of capacity, if the topology does not specify them */

typedef struct {
    bool is_used; /* false: the range is empty, since others are faster for every size */
    uint64_t min_bytes,
        max_bytes; /* bytes of a message as execution plans count them: all blocks of the collective together */
} synth_range_t;

/* A schedule and a manner that may become a plan. */
typedef struct {
    const synth_point_t *point; /* NULL: the front's pipeline */
    const synth_schedule_t *schedule;
    synth_manner_t manner;
    double fixed_us, us_per_byte; /* cost by the model: microseconds, and microseconds for each byte */
    synth_range_t range;
} synth_candidate_t;

enum { SYNTH_MAX_CANDIDATES = SYNTH_MANNERS * SYNTH_MAX_POINTS };

/* Returns the microseconds that a schedule takes for a message of `bytes` bytes, by the model. */
double synth_cost(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                  int instances, double bytes);

/*
 * Lists the plans that a front may become, in place or not, with `instances` instances, and gives each of them its
 * range of sizes. The ranges together contain every size once. Returns the number of candidates. `candidates` needs
 * room for SYNTH_MAX_CANDIDATES.
 */
int synth_candidates(const synth_topology_t *topology, const synth_front_t *front, bool in_place, int instances,
                     synth_candidate_t *candidates);

/*
 * Gives the sizes of a candidate that cannot be used to the candidate for the next larger sizes. If there is none, the
 * candidate for the next smaller sizes gets them. Returns the index of the candidate that got them, or -1 if no other
 * candidate has a range.
 */
int synth_reassign_range(synth_candidate_t *candidates, int count, int unusable);

#endif
