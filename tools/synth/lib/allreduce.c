/* Finds the front of all-reduce. Its schedules are composed of the schedules of other collectives in several ways. */
#include "tools/synth/lib/allreduce.h"

#include <stdio.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/bounds.h"
#include "tools/synth/lib/direct.h"
#include "tools/synth/lib/trees.h"

/*
 * The part of options->seconds that each search may take. The search for trees comes last, and may take another fourth
 * of it.
 */
#define SCATTER_PART 0.7 /* reduce-scatter and all-gather */
#define REDUCE_PART 0.3  /* reduce and broadcast */
#define TREES_PART 4

/* The front of all-reduce that is being composed. */
typedef struct {
    const synth_topology_t *topology;
    const synth_options_t *options;
    synth_front_t *front;
    double started; /* by mscclpp_now */
} composer_t;

/*
 * Adds a schedule to the front if it passes the replay and has the numbers of steps and chunks that the options ask
 * for. Otherwise frees it. Takes ownership of the schedule, which may be NULL. `method` must last as long as the front.
 */
static void offer(composer_t *composer, synth_schedule_t *schedule, const char *method, synth_label_t label)
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
    synth_front_add(composer->front, schedule, method, label, mscclpp_now() - composer->started);
}

/*
 * Returns the label of a schedule that is made of two: heuristic if either is, else best found. It is not proven, even
 * if both are.
 */
static synth_label_t weaker_label(synth_label_t a, synth_label_t b)
{
    return a == SYNTH_HEURISTIC || b == SYNTH_HEURISTIC ? SYNTH_HEURISTIC : SYNTH_BEST;
}

/*
 * Joins the schedules of two points, which then run one after the other, and offers the result. Large schedules take
 * long to make and to replay. So the ratio and the number of sends are computed first. The schedule is not made if it
 * has too many sends, or if the front already has one that is as good.
 *
 * The ratio of an all-reduce, a reduce or a broadcast counts the rounds for each chunk of the whole vector. The ratio
 * of a reduce-scatter or an all-gather counts the rounds for each chunk of one rank's block, so it is divided by the
 * number of blocks.
 */
static void offer_pair(composer_t *composer, const synth_point_t *first, const synth_point_t *second,
                       const char *method)
{
    const synth_schedule_t *a = first->schedule, *b = second->schedule;
    int64_t blocks = a->collective == SYNTH_REDUCE ? 1 : a->ranks;
    synth_rational_t ratio =
        synth_fraction((int64_t)synth_schedule_rounds(a) * b->chunks + (int64_t)synth_schedule_rounds(b) * a->chunks,
                       blocks * a->chunks * b->chunks);
    int64_t common_chunks = a->chunks / synth_gcd(a->chunks, b->chunks) * b->chunks;
    int64_t sends = a->send_count * (common_chunks / a->chunks) + b->send_count * (common_chunks / b->chunks);

    if (sends <= SYNTH_MAX_SENDS && !synth_front_beats(composer->front, a->steps + b->steps, ratio)) {
        offer(composer, synth_schedule_join(a, b), method, weaker_label(first->label, second->label));
    }
}

/*
 * Joins each schedule of one front with each schedule of another, and offers the results.
 *
 * Pairs whose positions in the two fronts are equal come first, then pairs whose positions are 1 apart, and so on. Both
 * fronts are sorted by steps, so two schedules of equal positions fit together best, and the pair is likely to be
 * better than other pairs. offer_pair does not make a schedule that is no better than a known one, so this order saves
 * work.
 */
static void offer_pairs(composer_t *composer, const synth_front_t *first, const synth_front_t *second,
                        const char *method)
{
    for (int apart = 0; apart < first->count || apart < second->count; ++apart) {
        for (int i = 0; i < first->count; ++i) {
            if (i >= apart && i - apart < second->count) {
                offer_pair(composer, &first->points[i], &second->points[i - apart], method);
            }
            if (apart > 0 && i + apart < second->count) {
                offer_pair(composer, &first->points[i], &second->points[i + apart], method);
            }
        }
    }
}

/* Offers, for each all-gather of a front, the all-reduce that gathers whole inputs. */
static void offer_whole_inputs(composer_t *composer, const synth_front_t *gathers)
{
    for (int i = 0; i < gathers->count; ++i) {
        offer(composer, synth_schedule_oneshot(gathers->points[i].schedule), "all-gather of whole inputs",
              weaker_label(gathers->points[i].label, SYNTH_BEST));
    }
}

/* Copies the note of a search, unless it is empty, and whether the search was stopped, to the front of all-reduce. */
static void note_search(composer_t *composer, const synth_front_t *found)
{
    if (found->note[0] != '\0') {
        memcpy(composer->front->note, found->note, sizeof(found->note));
    }
    composer->front->was_stopped = composer->front->was_stopped || found->was_stopped;
}

/*
 * Searches for schedules of the collectives `first` and `second`, joins each of the first with each of the second, and
 * offers the results. If `second` is all-gather, also offers all-gathers of whole inputs. `method` names the joined
 * schedules in the front, which keeps the pointer.
 *
 * Each of the two searches takes up to half of `seconds`. options->steps and ->chunks are for the joined schedule, so
 * they do not limit the searches. offer checks them.
 *
 * If a search fails, returns its error and offers nothing. That is always MSCCLPP_ERR_NO_MEMORY, because the searches
 * have neither steps nor chunks to refuse. So no text is written to `reason`, which has room for `reason_size` bytes.
 */
static mscclpp_status_t search_and_join(composer_t *composer, synth_collective_t first, synth_collective_t second,
                                        int root, double seconds, const char *method, char *reason, size_t reason_size)
{
    synth_options_t options = *composer->options;
    synth_front_t first_front, second_front;
    mscclpp_status_t status;

    options.root = root;
    options.steps = 0;
    options.chunks = 0;
    options.seconds = seconds / 2;
    status = synth_front_find(composer->topology, first, &options, &first_front, reason, reason_size);
    if (status != MSCCLPP_OK) {
        return status;
    }
    status = synth_front_find(composer->topology, second, &options, &second_front, reason, reason_size);
    if (status != MSCCLPP_OK) {
        synth_front_free(&first_front);
        return status;
    }
    note_search(composer, &second_front);
    note_search(composer, &first_front); /* last, so that its note replaces the other one */
    offer_pairs(composer, &first_front, &second_front, method);
    if (second == SYNTH_ALLGATHER) {
        offer_whole_inputs(composer, &second_front);
    }
    synth_front_free(&first_front);
    synth_front_free(&second_front);
    return MSCCLPP_OK;
}

/*
 * Returns the most central rank: the one whose distance to the farthest rank, plus the distance from the farthest rank
 * back, is least. If there are several, returns the first of them.
 */
static int central_rank(const synth_topology_t *topology)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], best = 0, min_distance = 1 << 30;

    synth_topology_distances(topology, distance);
    for (int rank = 0; rank < topology->ranks; ++rank) {
        int farthest_out = 0, farthest_in = 0;

        for (int other = 0; other < topology->ranks; ++other) {
            farthest_out = distance[rank][other] > farthest_out ? distance[rank][other] : farthest_out;
            farthest_in = distance[other][rank] > farthest_in ? distance[other][rank] : farthest_in;
        }
        if (farthest_out + farthest_in < min_distance) {
            min_distance = farthest_out + farthest_in;
            best = rank;
        }
    }
    return best;
}

/*
 * Adds schedules that reduce pieces of the vector along trees to roots and send the results back along trees. The
 * number of units is doubled until the schedule has too many chunks. On machines whose ranks differ, no other method
 * comes near the bound. If the options ask neither for steps nor for chunks, the front also gets one turn of the trees,
 * for pipelines. Adds nothing if synth_allreduce_trees_new finds no such trees or memory runs out.
 */
static void offer_trees(composer_t *composer)
{
    synth_allreduce_trees_t *trees =
        synth_allreduce_trees_new(composer->topology, composer->options->seconds / TREES_PART);
    synth_fault_t fault;

    for (int units = 1; trees != NULL && synth_allreduce_trees_chunks(trees) * units <= composer->options->tree_chunks;
         units *= 2) {
        offer(composer, synth_allreduce_trees_schedule(composer->topology, trees, units), "trees of free roots",
              SYNTH_HEURISTIC);
    }
    if (trees != NULL && composer->options->steps == 0 && composer->options->chunks == 0) {
        composer->front->trees = synth_allreduce_trees_schedule(composer->topology, trees, 1);
        if (composer->front->trees != NULL &&
            !synth_schedule_verify(composer->topology, composer->front->trees, &fault)) {
            synth_schedule_free(composer->front->trees);
            composer->front->trees = NULL;
        }
    }
    synth_allreduce_trees_free(trees);
}

/*
 * Tries the methods one after another, and then compares each point with the bounds. Frees the front if a search fails.
 */
mscclpp_status_t synth_allreduce_find(const synth_topology_t *topology, const synth_options_t *options,
                                      synth_front_t *front, char *reason, size_t reason_size)
{
    composer_t composer = {.topology = topology, .options = options, .front = front, .started = mscclpp_now()};
    mscclpp_status_t status;
    synth_bound_t bound, gather_bound;

    memset(front, 0, sizeof(*front));
    front->min_steps = synth_bound_steps(topology, SYNTH_ALLREDUCE, 0);
    synth_bound_allreduce(topology, &bound);
    front->min_ratio = bound.ratio;
    front->min_ratio_proof = bound.proof;
    offer(&composer, synth_two_level(topology), "two levels", SYNTH_BEST);
    status = search_and_join(&composer, SYNTH_REDUCESCATTER, SYNTH_ALLGATHER, 0, options->seconds * SCATTER_PART,
                             "reduce-scatter and all-gather", reason, reason_size);
    if (status == MSCCLPP_OK) {
        status = search_and_join(&composer, SYNTH_REDUCE, SYNTH_BROADCAST, central_rank(topology),
                                 options->seconds * REDUCE_PART, "reduce and broadcast", reason, reason_size);
    }
    if (status == MSCCLPP_OK) {
        offer_trees(&composer);
    }
    for (int i = 0; i < front->count; ++i) {
        synth_point_t *point = &front->points[i];

        point->bound = front->min_ratio;
        /* In one step, no sums can be forwarded, so each rank's whole input has to be sent to all other ranks. */
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
