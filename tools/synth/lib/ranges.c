/*
 * Divides the sizes of messages among candidates. By the cost model, the time of each candidate is a linear function of
 * the size. The fastest candidates form the lower envelope of these lines.
 */
#include "tools/synth/lib/ranges.h"

#include <math.h>

#include "tools/synth/lib/lower.h"
#include "tools/synth/lib/lower_parts.h"

/* Returns the microseconds that a step takes at least. */
static double step_us(const synth_topology_t *topology)
{
    return topology->alpha_us > 0 ? topology->alpha_us : SYNTH_ALPHA_US;
}

/* Returns the microseconds in which a link of capacity 1 carries one byte. */
static double byte_us(const synth_topology_t *topology)
{
    return 1 / (1000 * (topology->unit_gbps > 0 ? topology->unit_gbps : SYNTH_UNIT_GBPS));
}

/* Returns the size of a chunk, as a part of the whole message. */
static double chunk_share(const synth_schedule_t *schedule)
{
    bool has_blocks = schedule->collective == SYNTH_ALLGATHER || schedule->collective == SYNTH_REDUCESCATTER ||
                      schedule->collective == SYNTH_GATHER || schedule->collective == SYNTH_SCATTER;

    /* In these collectives `chunks` counts those of one rank's block, in the others those of the whole message. */
    return 1.0 / schedule->chunks / (has_blocks ? schedule->ranks : 1);
}

/*
 * Computes the cost of a schedule by the model: *fixed microseconds, and *slope microseconds for each byte of the
 * message. With signals, ranks first tell each other that they have started, which takes as long as a step. Packets
 * need no such start and are noticed in half the time, but are twice as many bytes. A pipeline is filled and drained
 * once. Each of its turns takes as long as the busiest link needs, and the time of one step.
 */
static void cost_line(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                      int instances, double *fixed, double *slope)
{
    double us_per_byte = synth_schedule_rounds(schedule) * chunk_share(schedule) * byte_us(topology);

    *fixed = (schedule->steps + 1) * step_us(topology);
    *slope = us_per_byte;
    if (manner == SYNTH_PACKETS) {
        *fixed = schedule->steps * step_us(topology) / 2;
        *slope = 2 * us_per_byte;
    } else if (manner == SYNTH_PIPELINE) {
        double turn_us = synth_schedule_load(topology, schedule) * byte_us(topology) *
                         (double)synth_turns_bytes(schedule, instances);

        *fixed += (schedule->steps - 1) * turn_us;
        *slope = synth_schedule_load(topology, schedule) * chunk_share(schedule) * byte_us(topology) *
                 (1 + step_us(topology) / turn_us);
    }
}

double synth_cost(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                  int instances, double bytes)
{
    double fixed, slope;

    cost_line(topology, schedule, manner, instances, &fixed, &slope);
    return fixed + slope * bytes;
}

/*
 * Finds the candidate that is the first to become faster than the current one as messages grow. If there are several,
 * takes the one with the smallest slope. Returns its index, and sets *crossing_p to the size in bytes at which it
 * becomes faster. Returns `count` if there is none.
 */
static int next_after(const synth_candidate_t *candidates, int count, int current, double *crossing_p)
{
    int next = count;

    *crossing_p = INFINITY;
    for (int i = 0; i < count; ++i) {
        double slope_saved = candidates[current].slope - candidates[i].slope;
        double crossing = slope_saved > 0 ? (candidates[i].fixed - candidates[current].fixed) / slope_saved : INFINITY;

        if (crossing < 1e18 && /* so that it fits into 64 bits */
            (crossing < *crossing_p || (crossing == *crossing_p && candidates[i].slope < candidates[next].slope))) {
            *crossing_p = crossing;
            next = i;
        }
    }
    return next;
}

/*
 * Gives each candidate the range of sizes for which it is the fastest, in ascending order of sizes. Each candidate has
 * a smaller slope than the one before, so the loop ends. Candidates that are never the fastest keep an empty range. So
 * does a candidate that is replaced below the first size that is not assigned yet.
 */
static void share_sizes(synth_candidate_t *candidates, int count)
{
    int current = 0;
    uint64_t first_size = 0;

    for (int i = 1; i < count; ++i) { /* start with the fastest candidate for messages of 0 bytes */
        if (candidates[i].fixed < candidates[current].fixed ||
            (candidates[i].fixed == candidates[current].fixed && candidates[i].slope < candidates[current].slope)) {
            current = i;
        }
    }
    while (current < count) {
        double crossing;
        int next = next_after(candidates, count, current, &crossing);
        bool is_last = next == count;

        if (is_last || crossing >= (double)first_size) {
            candidates[current].range = (synth_range_t){
                .is_used = true, .min_bytes = first_size, .max_bytes = is_last ? UINT64_MAX : (uint64_t)crossing};
            first_size = candidates[current].range.max_bytes + 1;
        }
        current = next;
    }
}

/*
 * Fills in a candidate. Returns by how many candidates the list grows: 1 if a plan can be made of this one, otherwise
 * 0.
 */
static int add_candidate(const synth_topology_t *topology, const synth_schedule_t *schedule, const synth_point_t *point,
                         synth_manner_t manner, bool in_place, int instances, synth_candidate_t *candidate)
{
    const char *reason;

    *candidate = (synth_candidate_t){.point = point, .schedule = schedule, .manner = manner, .range = {false, 0, 0}};
    cost_line(topology, schedule, manner, instances, &candidate->fixed, &candidate->slope);
    return synth_can_lower(topology, schedule, manner, in_place, &reason);
}

int synth_candidates(const synth_topology_t *topology, const synth_front_t *front, bool in_place, int instances,
                     synth_candidate_t *candidates)
{
    int count = 0;

    for (int i = 0; i < front->count; ++i) {
        const synth_point_t *point = &front->points[i];

        count +=
            add_candidate(topology, point->schedule, point, SYNTH_SIGNALS, in_place, instances, &candidates[count]);
        count +=
            add_candidate(topology, point->schedule, point, SYNTH_PACKETS, in_place, instances, &candidates[count]);
    }
    if (front->trees != NULL) {
        count += add_candidate(topology, front->trees, NULL, SYNTH_PIPELINE, in_place, instances, &candidates[count]);
    }
    share_sizes(candidates, count);
    return count;
}

/* Looks for the candidates whose ranges are adjacent to the range of the unusable one. */
int synth_pass_range_on(synth_candidate_t *candidates, int count, int unusable)
{
    synth_range_t *range = &candidates[unusable].range;
    int larger = -1, smaller = -1;

    for (int i = 0; i < count && range->is_used; ++i) {
        if (candidates[i].range.is_used && candidates[i].range.min_bytes == range->max_bytes + 1 &&
            range->max_bytes != UINT64_MAX) {
            larger = i;
        } else if (candidates[i].range.is_used && candidates[i].range.max_bytes + 1 == range->min_bytes &&
                   range->min_bytes != 0) {
            smaller = i;
        }
    }
    if (larger >= 0) {
        candidates[larger].range.min_bytes = range->min_bytes;
    } else if (smaller >= 0) {
        candidates[smaller].range.max_bytes = range->max_bytes;
    }
    range->is_used = false;
    return larger >= 0 ? larger : smaller;
}
