/* The lower envelope of the straight lines that the cost model draws. */
#include "tools/synth/lib/ranges.h"

#include <math.h>

static double alpha(const synth_topology_t *topology)
{
    return topology->alpha_us > 0 ? topology->alpha_us : SYNTH_ALPHA_US;
}

/* Microseconds for each byte of a message. */
static double slope(const synth_topology_t *topology, const synth_schedule_t *schedule)
{
    double gbps = topology->unit_gbps > 0 ? topology->unit_gbps : SYNTH_UNIT_GBPS;
    bool blocks = schedule->collective == SYNTH_ALLGATHER || schedule->collective == SYNTH_REDUCESCATTER ||
                  schedule->collective == SYNTH_GATHER || schedule->collective == SYNTH_SCATTER;

    /* Chunks of these are of one rank's block, of the others of the whole. */
    return synth_value(synth_schedule_ratio(schedule)) / (gbps * 1000) / (blocks ? schedule->ranks : 1);
}

double synth_cost(const synth_topology_t *topology, const synth_schedule_t *schedule, double bytes)
{
    return schedule->steps * alpha(topology) + slope(topology, schedule) * bytes;
}

void synth_ranges(const synth_topology_t *topology, const synth_front_t *front, synth_range_t *range)
{
    int at = 0; /* points have ever more steps and ever smaller slopes, so the first is the fastest for no bytes */
    uint64_t least = 0;

    for (int i = 0; i < front->count; ++i) {
        range[i] = (synth_range_t){false, 0, 0};
    }
    while (at < front->count) {
        double nearest = INFINITY;
        int next = front->count;

        for (int i = at + 1; i < front->count; ++i) {
            double more = (front->point[i].schedule->steps - front->point[at].schedule->steps) * alpha(topology);
            double less = slope(topology, front->point[at].schedule) - slope(topology, front->point[i].schedule);
            double crossing = less > 0 ? more / less : INFINITY;

            if (crossing <= nearest && crossing < 1e18) {
                nearest = crossing;
                next = i;
            }
        }
        range[at].any = next == front->count || nearest >= (double)least;
        range[at].least = least;
        range[at].most = next == front->count ? UINT64_MAX : (uint64_t)nearest;
        least = next == front->count || !range[at].any ? least : range[at].most + 1;
        at = next;
    }
}
