/* Finds the front of all-reduce, which is put together from other collectives in several ways. */
#include "tools/synth/lib/allreduce.h"

#include <stdio.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/bounds.h"
#include "tools/synth/lib/direct.h"
#include "tools/synth/lib/trees.h"

/* Which part of options->seconds each search may take. Trees come last; they may take a fourth of it on top. */
#define SCATTER_PART 0.7 /* reduce-scatter and all-gather */
#define REDUCE_PART 0.3  /* reduce and broadcast */
#define TREES_PART 4

/* The front of all-reduce that is being put together. */
typedef struct {
    const synth_topology_t *topology;
    const synth_options_t *options;
    synth_front_t *front;
    double start; /* by mscclpp_now */
} composer_t;

/* Adds a schedule to the front if the replay finds no fault in it and it has the steps and chunks that the options ask
 * for; otherwise drops it. Takes ownership of the schedule, which may be NULL. */
static void offer(composer_t *composer, synth_schedule_t *schedule, const char *by, synth_label_t label)
{
    synth_fault_t fault;

    if (schedule == NULL) {
        return;
    }
    if (!synth_schedule_verify(composer->topology, schedule, &fault) ||
        (composer->options->steps != 0 && composer->options->steps != schedule->steps) ||
        (composer->options->chunks != 0 && composer->options->chunks != schedule->chunks)) {
        synth_schedule_free(schedule);
        return;
    }
    synth_front_add(composer->front, schedule, by, label, mscclpp_now() - composer->start);
}

/* Returns the label of a schedule that is made of two: heuristic if either is, else best found. It is not proven, even
 * if both are. */
static synth_label_t weaker_label(synth_label_t a, synth_label_t b)
{
    return a == SYNTH_HEURISTIC || b == SYNTH_HEURISTIC ? SYNTH_HEURISTIC : SYNTH_BEST;
}

/*
 * Adds the schedule that does one after the other. It is not even made if it is too large, or if the front has one that
 * is as good: large schedules take long to make and to replay. So its ratio and its sends are computed beforehand. The
 * ratio of an all-reduce counts rounds for each chunk of the whole vector. So does that of a reduce or a broadcast,
 * while a reduce-scatter and an all-gather count the chunks of one rank's block.
 */
static void offer_pair(composer_t *composer, const synth_point_t *first, const synth_point_t *second, const char *by)
{
    const synth_schedule_t *a = first->schedule, *b = second->schedule;
    int64_t blocks = a->collective == SYNTH_REDUCE ? 1 : a->ranks;
    synth_rational_t ratio =
        synth_fraction((int64_t)synth_schedule_rounds(a) * b->chunks + (int64_t)synth_schedule_rounds(b) * a->chunks,
                       blocks * a->chunks * b->chunks);
    int64_t common_chunks = a->chunks / synth_gcd(a->chunks, b->chunks) * b->chunks;
    int64_t sends = a->send_count * (common_chunks / a->chunks) + b->send_count * (common_chunks / b->chunks);

    if (sends <= SYNTH_MAX_SENDS && !synth_front_beats(composer->front, a->steps + b->steps, ratio)) {
        offer(composer, synth_schedule_join(a, b), by, weaker_label(first->label, second->label));
    }
}

/* Adds all combinations of a schedule of `first` and one of `second`. If `second` is all-gather, also adds all-gathers
 * of whole inputs. The two searches take up to `seconds` together. They look for any number of steps and chunks, since
 * the options' numbers are those of the whole; offer compares them. Fails as synth_front_find does; then
 * composer->front has what was added before. */
static mscclpp_status_t offer_joined(composer_t *composer, synth_collective_t first, synth_collective_t second,
                                     int root, double seconds, const char *by, char *why, size_t why_size)
{
    synth_options_t options = *composer->options;
    synth_front_t first_front, second_front;
    mscclpp_status_t status;

    options.root = root;
    options.steps = 0;
    options.chunks = 0;
    options.seconds = seconds / 2;
    status = synth_front_find(composer->topology, first, &options, &first_front, why, why_size);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = synth_front_find(composer->topology, second, &options, &second_front, why, why_size);
    if (status != MSCCLPP_OK) {
        synth_front_free(&first_front);
        return status;
    }
    if (first_front.note[0] != '\0' || second_front.note[0] != '\0') {
        memcpy(composer->front->note, first_front.note[0] != '\0' ? first_front.note : second_front.note,
               sizeof(first_front.note));
    }
    composer->front->stopped = composer->front->stopped || first_front.stopped || second_front.stopped;
    /* Pairs of like positions in the fronts come first. They are the likeliest to beat other pairs, and offer_pair does
     * not make a schedule that is beaten already. */
    for (int apart = 0; apart < first_front.count || apart < second_front.count; ++apart) {
        for (int i = 0; i < first_front.count; ++i) {
            if (i >= apart && i - apart < second_front.count) {
                offer_pair(composer, &first_front.point[i], &second_front.point[i - apart], by);
            }
            if (apart > 0 && i + apart < second_front.count) {
                offer_pair(composer, &first_front.point[i], &second_front.point[i + apart], by);
            }
        }
    }
    for (int j = 0; second == SYNTH_ALLGATHER && j < second_front.count; ++j) {
        offer(composer, synth_schedule_oneshot(second_front.point[j].schedule), "all-gather of whole inputs",
              weaker_label(second_front.point[j].label, SYNTH_BEST));
    }
    synth_front_free(&first_front);
    synth_front_free(&second_front);
    return MSCCLPP_OK;
}

/* Returns the most central rank: the one whose distance to the farthest rank, plus the distance from the farthest rank
 * back to it, is least. Of several, the first. */
static int central_rank(const synth_topology_t *topology)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], best = 0, least = 1 << 30;

    synth_topology_distances(topology, distance);
    for (int rank = 0; rank < topology->ranks; ++rank) {
        int farthest_out = 0, farthest_in = 0;

        for (int other = 0; other < topology->ranks; ++other) {
            farthest_out = distance[rank][other] > farthest_out ? distance[rank][other] : farthest_out;
            farthest_in = distance[other][rank] > farthest_in ? distance[other][rank] : farthest_in;
        }
        if (farthest_out + farthest_in < least) {
            least = farthest_out + farthest_in;
            best = rank;
        }
    }
    return best;
}

/*
 * Adds schedules that reduce pieces along trees to roots and send them back, with more and more units. On machines
 * whose ranks are unequal, no other way comes near the bound. If neither steps nor chunks are asked for, the front also
 * gets one turn of the trees, for pipelines. If there are no such trees, nothing is added.
 */
static void offer_trees(composer_t *composer)
{
    synth_shares_t *shares = synth_shares_new(composer->topology, composer->options->seconds / TREES_PART);
    synth_fault_t fault;

    for (int units = 1; shares != NULL && synth_shares_chunks(shares) * units <= composer->options->tree_chunks;
         units *= 2) {
        offer(composer, synth_tree_allreduce(composer->topology, shares, units), "trees of free roots",
              SYNTH_HEURISTIC);
    }
    if (shares != NULL && composer->options->steps == 0 && composer->options->chunks == 0) {
        composer->front->trees = synth_tree_allreduce(composer->topology, shares, 1);
        if (composer->front->trees != NULL &&
            !synth_schedule_verify(composer->topology, composer->front->trees, &fault)) {
            synth_schedule_free(composer->front->trees);
            composer->front->trees = NULL;
        }
    }
    synth_shares_free(shares);
}

mscclpp_status_t synth_allreduce_find(const synth_topology_t *topology, const synth_options_t *options,
                                      synth_front_t *front, char *why, size_t why_size)
{
    composer_t composer = {topology, options, front, mscclpp_now()};
    mscclpp_status_t status;
    synth_bound_t bound, gather_bound;

    memset(front, 0, sizeof(*front));
    front->least_steps = synth_bound_steps(topology, SYNTH_ALLREDUCE, 0);
    synth_bound_allreduce(topology, &bound);
    front->least_ratio = bound.ratio;
    front->least_by = bound.by;
    offer(&composer, synth_two_level(topology), "two levels", SYNTH_BEST);
    status = offer_joined(&composer, SYNTH_REDUCESCATTER, SYNTH_ALLGATHER, 0, options->seconds * SCATTER_PART,
                          "reduce-scatter and all-gather", why, why_size);
    if (status == MSCCLPP_OK) {
        status = offer_joined(&composer, SYNTH_REDUCE, SYNTH_BROADCAST, central_rank(topology),
                              options->seconds * REDUCE_PART, "reduce and broadcast", why, why_size);
    }
    if (status == MSCCLPP_OK) {
        offer_trees(&composer);
    }
    for (int i = 0; i < front->count; ++i) {
        synth_point_t *point = &front->point[i];

        point->bound = front->least_ratio;
        /* In one step, nothing can be added on the way, so all whole inputs have to go to all ranks. */
        if (point->schedule->steps == 1 && synth_bound_cut(topology, SYNTH_ALLGATHER, 0, &gather_bound) == MSCCLPP_OK) {
            point->bound = synth_larger(point->bound, gather_bound.ratio);
        }
        if (synth_compare(point->ratio, point->bound) <= 0) {
            point->label = SYNTH_PROVEN;
        }
    }
    if (status != MSCCLPP_OK) {
        synth_front_free(front);
    }
    return status;
}
