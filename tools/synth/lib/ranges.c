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
 * Computes the cost of a schedule by the model: *fixed_us_p microseconds, and *us_per_byte_p microseconds for each byte
 * of the message. With signals, ranks first tell each other that they have started, which takes as long as a step.
 * Packets need no such start and are noticed in half the time, but are twice as many bytes. A pipeline is filled and
 * drained once. Each of its turns takes as long as the busiest link needs, and the time of one step.
 */
static void cost_line(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                      int instances, double *fixed_us_p, double *us_per_byte_p)
{
    double us_per_byte = synth_schedule_rounds(schedule) * chunk_share(schedule) * byte_us(topology);

    *fixed_us_p = (schedule->steps + 1) * step_us(topology);
    *us_per_byte_p = us_per_byte;
    if (manner == SYNTH_PACKETS) {
        *fixed_us_p = schedule->steps * step_us(topology) / 2;
        *us_per_byte_p = 2 * us_per_byte;
    } else if (manner == SYNTH_PIPELINE) {
        double turn_us = synth_schedule_rounds_at_once(topology, schedule) * byte_us(topology) *
                         (double)synth_turns_bytes(schedule, instances);

        *fixed_us_p += (schedule->steps - 1) * turn_us;
        *us_per_byte_p = synth_schedule_rounds_at_once(topology, schedule) * chunk_share(schedule) * byte_us(topology) *
                         (1 + step_us(topology) / turn_us);
    }
}

double synth_cost(const synth_topology_t *topology, const synth_schedule_t *schedule, synth_manner_t manner,
                  int instances, double bytes)
{
    double fixed_us, us_per_byte;

    cost_line(topology, schedule, manner, instances, &fixed_us, &us_per_byte);
    return fixed_us + us_per_byte * bytes;
}

/*
 * Finds the candidate that is the first to become faster than the current one as messages grow. If there are several,
 * takes the one with the smallest slope. Returns its index, and sets *crossing_p to the size in bytes at which it
 * becomes faster. Returns `count` if there is none.
 */
static int next_fastest(const synth_candidate_t *candidates, int count, int current, double *crossing_p)
{
    int next = count;

    *crossing_p = INFINITY;
    for (int i = 0; i < count; ++i) {
        double slope_saved = candidates[current].us_per_byte - candidates[i].us_per_byte;
        double crossing =
            slope_saved > 0 ? (candidates[i].fixed_us - candidates[current].fixed_us) / slope_saved : INFINITY;

        if (crossing < 1e18 && /* so that it fits into 64 bits */
            (crossing < *crossing_p ||
             (crossing == *crossing_p && candidates[i].us_per_byte < candidates[next].us_per_byte))) {
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
static void assign_ranges(synth_candidate_t *candidates, int count)
{
    int current = 0;
    uint64_t first_size = 0;

    for (int i = 1; i < count; ++i) { /* start with the fastest candidate for messages of 0 bytes */
        if (candidates[i].fixed_us < candidates[current].fixed_us ||
            (candidates[i].fixed_us == candidates[current].fixed_us &&
             candidates[i].us_per_byte < candidates[current].us_per_byte)) {
            current = i;
        }
    }
    while (current < count) {
        double crossing;
        int next = next_fastest(candidates, count, current, &crossing);
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
    cost_line(topology, schedule, manner, instances, &candidate->fixed_us, &candidate->us_per_byte);
    return synth_can_lower(topology, schedule, manner, in_place, &reason);
}

/* Each schedule of the front may become a plan with signals and one with packets, and the trees one with a pipeline. */
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
    assign_ranges(candidates, count);
    return count;
}

/* Looks for the candidates whose ranges are adjacent to the range of the unusable one. */
int synth_reassign_range(synth_candidate_t *candidates, int count, int unusable)
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
