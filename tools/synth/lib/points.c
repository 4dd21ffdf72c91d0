/* Adds and removes the points of a front, and frees them. */
#include <string.h>

#include "tools/synth/lib/front.h"

const char *const synth_label_names[SYNTH_LABELS] = {"proven", "best found", "heuristic"};

bool synth_front_beats(const synth_front_t *front, int steps, synth_rational_t ratio)
{
    for (int i = 0; i < front->count; ++i) {
        if (front->points[i].schedule->steps <= steps && synth_compare(front->points[i].ratio, ratio) <= 0) {
            return true;
        }
    }
    return false;
}

/*
 * Compares the new point with the others. A point beats another one if it has at most as many steps and at most as many
 * rounds for each chunk.
 */
void synth_front_add(synth_front_t *front, synth_schedule_t *schedule, const char *method, synth_label_t label,
                     double seconds)
{
    synth_rational_t ratio = synth_schedule_ratio(schedule);
    int kept = 0, position = 0;

    if (synth_front_beats(front, schedule->steps, ratio)) {
        synth_schedule_free(schedule);
        return;
    }
    for (int i = 0; i < front->count; ++i) { /* remove the points that the new point beats */
        if (front->points[i].schedule->steps >= schedule->steps && synth_compare(front->points[i].ratio, ratio) >= 0) {
            synth_schedule_free(front->points[i].schedule);
        } else {
            front->points[kept++] = front->points[i];
        }
    }
    front->count = kept;
    if (front->count == SYNTH_MAX_POINTS) {
        synth_schedule_free(schedule);
        return;
    }
    while (position < front->count && front->points[position].schedule->steps < schedule->steps) {
        ++position;
    }
    memmove(&front->points[position + 1], &front->points[position],
            sizeof(front->points[0]) * (size_t)(front->count - position));
    front->points[position] = (synth_point_t){
        .schedule = schedule, .ratio = ratio, .bound = {0, 1}, .label = label, .method = method, .seconds = seconds};
    ++front->count;
}

void synth_front_free(synth_front_t *front)
{
    for (int i = 0; i < front->count; ++i) {
        synth_schedule_free(front->points[i].schedule);
    }
    front->count = 0;
    synth_schedule_free(front->trees);
    front->trees = NULL;
}
