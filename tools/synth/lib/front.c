/* The search for the front: cheap methods first; then, for each number of steps, its bound and a search up to it. */
#include "tools/synth/lib/front.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/bounds.h"
#include "tools/synth/lib/cache.h"
#include "tools/synth/lib/closed.h"
#include "tools/synth/lib/direct.h"
#include "tools/synth/lib/sat.h"
#include "tools/synth/lib/slp.h"
#include "tools/synth/lib/trees.h"

#define SHORT_SECONDS 3.0     /* limit of the short search before the bounds: in all */
#define SHORT_TRY_SECONDS 0.4 /* and for one try */
#define SLP_SECONDS 10        /* limit of the linear program of one number of steps */

/* Methods without a search are left out above these sizes: links times chunks of all ranks. */
#define SHORTEST_SIZE 1e6
#define GREEDY_SIZE 1e5

enum {
    SHORT_RANKS = 9,        /* the short search is left out for fewer ranks */
    SHORT_CHUNKS = 4,       /* it tries this many numbers of chunks */
    SHORT_STEPS = 3,        /* and this many numbers of steps */
    GREEDY_CHUNKS = 6,      /* the greedy choice is tried with up to this many times the least number of chunks */
    GREEDY_ROUNDS = 6,      /* and up to this many rounds a step */
    STEPS_BEYOND = 8,       /* how many more steps than the least are searched */
    ROUNDS_BEYOND = 4,      /* how many numbers of rounds are tried for a number of chunks, from the bound up */
    MAX_TRIES = 400,        /* of one number of steps */
    MAX_LITERALS = 3000000, /* links * steps * ranks * chunks; larger tries are skipped */
    MAX_ROUNDS = 10000,     /* a bound with more rounds is not tried with packed trees */
    PASSES = 5,             /* how often all tries are made, each time with more seconds for each */
    FIRST_TRIES = 12,       /* the first pass makes only this many tries */
    BOUND_PART = 4,         /* the bound for any number of steps may take one fourth of the time */
    TREES_PART = 8,         /* packing trees may take one eighth */
    FLOW_ROUNDS_BEYOND = 2  /* how many more rounds than the bound are tried by flows */
};

/* The state of one search. The functions that find schedules search for schedules of `dual` on `topology`. */
typedef struct {
    const synth_topology_t *topology;    /* the topology of the dual collective: reversed if the collective combines */
    const synth_topology_t *original;    /* the topology of the caller */
    synth_collective_t collective, dual; /* dual: see synth_dual; the same if the collective does not combine */
    const synth_options_t *options;
    synth_front_t *front;
    synth_shape_t shape;
    synth_symmetry_t symmetry; /* count 0: the machine is too large to be searched */
    double started, deadline;  /* times by mscclpp_now */
    synth_cache_t *cache;      /* NULL: none */
} search_t;

/* The numbers of chunks and rounds of a schedule that is searched for. */
typedef struct {
    int chunks, rounds;
    int passes;         /* how many passes of the search were not cut short */
    bool is_impossible; /* it is proven that no such schedule exists */
} try_t;

/* Passes a line about the progress to the caller's function, if there is one. */
__attribute__((format(printf, 2, 3))) static void report(const search_t *search, const char *format, ...)
{
    char text[SYNTH_REASON];
    va_list arguments;

    if (search->options->progress != NULL) {
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        search->options->progress(search->options->context, text);
    }
}

/* Returns true if the time is over or the caller has asked to stop, and notes it in the front. */
static bool stop_if_over(search_t *search)
{
    bool is_over = mscclpp_now() > search->deadline || (search->options->stop != NULL && *search->options->stop != 0);

    search->front->was_stopped = search->front->was_stopped || is_over;
    return is_over;
}

/* Finds the least rounds for each chunk among points of at most `steps` steps. Returns false if there are none. */
static bool find_best_ratio(const search_t *search, int steps, synth_rational_t *ratio_p)
{
    bool has_point = false;

    for (int i = 0; i < search->front->count && search->front->points[i].schedule->steps <= steps; ++i) {
        *ratio_p = search->front->points[i].ratio; /* later points have fewer */
        has_point = true;
    }
    return has_point;
}

/* Returns true if a schedule of at most `steps` steps meets the bound. */
static bool meets_bound(const search_t *search, int steps, synth_rational_t bound)
{
    synth_rational_t ratio;

    return find_best_ratio(search, steps, &ratio) && synth_compare(ratio, bound) <= 0;
}

/* Converts a schedule from the dual, if the collective has a different one, and replays it. Takes ownership of it.
 * Returns a schedule that is proven right, or NULL if it is wrong, which is reported, or if memory runs out. */
static synth_schedule_t *replay(search_t *search, synth_schedule_t *schedule, const char *method)
{
    synth_fault_t fault;

    if (schedule != NULL && search->dual != search->collective) {
        synth_schedule_t *inverted = synth_schedule_invert(schedule, search->collective);

        synth_schedule_free(schedule);
        schedule = inverted;
    }
    if (schedule != NULL && !synth_schedule_verify(search->original, schedule, &fault)) {
        report(search, "a schedule by %s is wrong (%s): %s", method, fault.name, fault.text);
        synth_schedule_free(schedule);
        schedule = NULL;
    }
    return schedule;
}

/* Offers a schedule of the dual, or NULL, to the front, and takes ownership. Drops it if its replay fails, or if
 * another number of steps was asked for. `method` names the method, which took `seconds`. */
static void offer_timed(search_t *search, synth_schedule_t *schedule, const char *method, synth_label_t label,
                        double seconds)
{
    schedule = replay(search, schedule, method);
    if (schedule != NULL && (search->options->steps == 0 || schedule->steps == search->options->steps)) {
        synth_front_add(search->front, schedule, method, label, seconds);
    } else {
        synth_schedule_free(schedule);
    }
}

/* Offers a schedule that was found just now, as offer_timed does. */
static void offer(search_t *search, synth_schedule_t *schedule, const char *method, synth_label_t label)
{
    offer_timed(search, schedule, method, label, mscclpp_now() - search->started);
}

/* Returns the least allowed number of chunks; all others are multiples of it. */
static int find_min_chunks(const search_t *search)
{
    return synth_min_chunks(search->dual, search->topology->ranks);
}

/* Returns true if the options ask for schedules of this many chunks. */
static bool is_allowed(const search_t *search, int chunks)
{
    return search->options->chunks == 0 || search->options->chunks == chunks;
}

/* Adds schedules by formulas: for each number of steps that search_all_steps tries, and then for numbers of steps that
 * double each time. Stops as soon as a schedule meets `bound`, which holds for any number of steps. */
static void try_closed(search_t *search, synth_rational_t bound)
{
    int first = search->options->steps != 0 ? search->options->steps : search->front->min_steps;
    int last = search->options->steps != 0 ? first : SYNTH_MAX_STEPS;
    int max_chunks = search->options->chunks != 0 ? search->options->chunks : search->options->closed_chunks;

    for (int steps = first; steps <= last && !meets_bound(search, SYNTH_MAX_STEPS, bound) && !stop_if_over(search);
         steps += steps - first < STEPS_BEYOND ? 1 : steps) {
        synth_schedule_t *schedule = synth_closed_schedule(search->topology, &search->shape, search->dual,
                                                           search->options->root, steps, max_chunks);

        if (schedule != NULL && is_allowed(search, schedule->chunks)) {
            offer(search, schedule, "closed form", SYNTH_HEURISTIC);
        } else {
            synth_schedule_free(schedule);
        }
    }
}

/*
 * Adds schedules by shortest paths and by the greedy choice, which need no search. Fewer chunks come first.
 * Combinations of many links and many chunks are left out. Shortest paths with the fewest chunks are always tried, even
 * after the end of the time, unless a schedule meets the bound or the options ask for other numbers of chunks.
 */
static void try_direct(search_t *search, synth_rational_t bound)
{
    const synth_topology_t *topology = search->topology;
    int root = search->options->root, min_chunks = find_min_chunks(search), max_chunks = search->options->max_chunks;
    double size_per_chunk = (double)topology->link_count * (search->dual == SYNTH_BROADCAST ? 1 : topology->ranks);

    for (int chunks = min_chunks;
         chunks <= (max_chunks > min_chunks ? max_chunks : min_chunks) &&
         !meets_bound(search, SYNTH_MAX_STEPS, bound) && (chunks == min_chunks || !stop_if_over(search));
         chunks += min_chunks) {
        if (is_allowed(search, chunks) && (chunks == min_chunks || size_per_chunk * chunks < SHORTEST_SIZE)) {
            offer(search, synth_shortest(topology, search->dual, root, chunks), "shortest ways", SYNTH_HEURISTIC);
        }
    }
    for (int chunks = min_chunks; chunks <= GREEDY_CHUNKS * min_chunks &&
                                  !meets_bound(search, search->front->min_steps, bound) && !stop_if_over(search);
         chunks += min_chunks) {
        for (int rounds = 1; rounds <= GREEDY_ROUNDS && is_allowed(search, chunks) &&
                             size_per_chunk * chunks < GREEDY_SIZE && !stop_if_over(search);
             ++rounds) {
            offer(search, synth_greedy(topology, search->dual, root, chunks, rounds), "greedy choice", SYNTH_HEURISTIC);
        }
    }
}

/* Adds schedules of packed trees, which keep the links of the bottleneck always busy. The number of units doubles until
 * a schedule meets the bound, the time is over or tree_chunks is reached. If the options ask neither for steps nor for
 * chunks, also sets one turn of the trees, for pipelines. Does nothing for other duals than all-gather and broadcast,
 * or if bound.num >= MAX_ROUNDS or the bound is already met. */
static void try_trees(search_t *search, synth_rational_t bound)
{
    const synth_topology_t *topology = search->topology;
    synth_trees_t *trees;

    if ((search->dual != SYNTH_ALLGATHER && search->dual != SYNTH_BROADCAST) || bound.num >= MAX_ROUNDS ||
        meets_bound(search, SYNTH_MAX_STEPS, bound)) {
        return;
    }
    trees = synth_trees_new(topology, search->dual, search->options->root, (int)bound.num, (int)bound.den,
                            search->options->seconds / TREES_PART);
    if (trees == NULL) {
        return;
    }
    if (search->options->steps == 0 && search->options->chunks == 0) {
        search->front->trees = replay(search, synth_trees_schedule(topology, trees, 1), "packed trees");
    }
    for (int units = 1; synth_trees_chunks(trees) * units <= search->options->tree_chunks &&
                        !meets_bound(search, SYNTH_MAX_STEPS, bound) && !stop_if_over(search);
         units *= 2) {
        if (is_allowed(search, synth_trees_chunks(trees) * units)) {
            offer(search, synth_trees_schedule(topology, trees, units), "packed trees", SYNTH_HEURISTIC);
        }
    }
    synth_trees_free(trees);
}

/* Compares tries by rounds for each chunk, then by chunks, for qsort. */
static int by_ratio(const void *left, const void *right)
{
    const try_t *a = left, *b = right;
    long first = (long)a->rounds * b->chunks, second = (long)b->rounds * a->chunks;

    return first != second ? (first > second) - (first < second) : a->chunks - b->chunks;
}

/* Lists up to MAX_TRIES pairs of chunks and rounds that the bound allows and that would beat the known schedules, the
 * best ratio first. Each pair gets the results that the cache has for it. Returns how many pairs there are. */
static int list_tries(const search_t *search, int steps, synth_rational_t bound, try_t *tries)
{
    int min_chunks = find_min_chunks(search), count = 0;
    synth_rational_t best = {0, 1};
    bool has_best = find_best_ratio(search, steps, &best);

    for (int chunks = min_chunks; chunks <= search->options->max_chunks || chunks == search->options->chunks;
         chunks += min_chunks) {
        int64_t first_rounds = synth_ceiling(bound, chunks);

        first_rounds = first_rounds < steps ? steps : first_rounds;
        for (int64_t rounds = first_rounds;
             is_allowed(search, chunks) && rounds < first_rounds + ROUNDS_BEYOND && count < MAX_TRIES; ++rounds) {
            if (!has_best || synth_compare(synth_fraction(rounds, chunks), best) < 0) {
                tries[count] = (try_t){.chunks = chunks, .rounds = (int)rounds};
                if (search->cache != NULL) {
                    tries[count].passes =
                        synth_cache_tried(search->cache, steps, chunks, (int)rounds, &tries[count].is_impossible);
                }
                ++count;
            }
        }
    }
    qsort(tries, (size_t)count, sizeof(*tries), by_ratio);
    return count;
}

/* Searches for one schedule by satisfiability: first for one with all symmetries; then for any, with a quarter of the
 * time in pass 0. Only the second search can show that there is none. Adds the schedule to the front and the cache.
 * Records a failed try in `try` and in the cache, unless time or memory ran out: the pass then counts as not made. */
static void search_pair(search_t *search, int steps, try_t *try, size_t pass)
{
    static const double pass_seconds[PASSES] = {1, 2, 6, 30, 200};
    double seconds = pass_seconds[pass];
    bool optimistic = pass % 2 == 1; /* neither setting is always faster, so the passes alternate */
    synth_demand_t *demand =
        synth_demand_new(search->dual, search->topology->ranks, search->options->root, try->chunks);
    synth_symmetry_t *identity = calloc(1, sizeof(*identity));
    synth_schedule_t *schedule = NULL;
    synth_sat_answer_t answer = SYNTH_SAT_UNKNOWN;

    if (demand != NULL && identity != NULL) {
        double time_left = search->deadline - mscclpp_now();
        bool is_pass_over = seconds <= time_left; /* the pass has its full time, and so counts as made */

        identity->count = 1;
        memcpy(identity->map[0], search->symmetry.map[0], sizeof(identity->map[0]));
        seconds = is_pass_over ? seconds : time_left;
        if (search->symmetry.count > 1) {
            answer = synth_sat_search(search->topology, demand, steps, try->rounds, &search->symmetry, optimistic,
                                      seconds, search->options->stop, &schedule);
            seconds = pass == 0 ? seconds / 4 : seconds;
        }
        if (answer != SYNTH_SAT_FOUND) {
            answer = synth_sat_search(search->topology, demand, steps, try->rounds, identity, optimistic, seconds,
                                      search->options->stop, &schedule);
            try->is_impossible = answer == SYNTH_SAT_NONE;
        }
        is_pass_over =
            answer == SYNTH_SAT_NONE || (is_pass_over && answer != SYNTH_SAT_NO_MEMORY && !stop_if_over(search));
        try->passes = is_pass_over ? (int)pass + 1 : try->passes;
        if (search->cache != NULL && is_pass_over && answer != SYNTH_SAT_FOUND) {
            synth_cache_try(search->cache, steps, try->chunks, try->rounds, try->passes, try->is_impossible);
        }
        if (answer == SYNTH_SAT_FOUND) {
            if (search->cache != NULL) {
                synth_cache_keep(search->cache, schedule, mscclpp_now() - search->started);
            }
            offer(search, schedule, "search", SYNTH_BEST);
        }
        report(search, "%d steps, %d rounds, %d chunks: %s", steps, try->rounds, try->chunks,
               answer == SYNTH_SAT_FOUND  ? "found"
               : answer == SYNTH_SAT_NONE ? "there is none"
                                          : "not decided in time");
    }
    free(identity);
    synth_demand_free(demand);
}

/* Searches a few seconds for schedules of few chunks with all symmetries, because search_all_steps first takes long for
 * bounds. Does nothing for few ranks or without symmetries. Failed tries are not recorded. */
static void search_shortly(search_t *search, synth_rational_t bound)
{
    int min_chunks = find_min_chunks(search), first_steps = search->front->min_steps;
    double short_deadline = mscclpp_now() + SHORT_SECONDS;

    if (search->topology->ranks < SHORT_RANKS || search->symmetry.count < 2) {
        return;
    }
    for (int i = 0; i < SHORT_CHUNKS * SHORT_STEPS && mscclpp_now() < short_deadline && !stop_if_over(search); ++i) {
        int chunks = min_chunks * (1 + i / SHORT_STEPS), steps = first_steps + i % SHORT_STEPS;
        int64_t first_rounds = synth_ceiling(bound, chunks);
        synth_demand_t *demand;

        if (!is_allowed(search, chunks) || (search->options->steps != 0 && search->options->steps != steps)) {
            continue;
        }
        demand = synth_demand_new(search->dual, search->topology->ranks, search->options->root, chunks);
        first_rounds = first_rounds < steps ? steps : first_rounds;
        for (int64_t rounds = first_rounds;
             demand != NULL && rounds < first_rounds + ROUNDS_BEYOND && mscclpp_now() < short_deadline; ++rounds) {
            synth_schedule_t *schedule = NULL;
            synth_rational_t best;

            if (find_best_ratio(search, steps, &best) && synth_compare(synth_fraction(rounds, chunks), best) >= 0) {
                break;
            }
            if (synth_sat_search(search->topology, demand, steps, (int)rounds, &search->symmetry, false,
                                 SHORT_TRY_SECONDS, search->options->stop, &schedule) == SYNTH_SAT_FOUND) {
                if (search->cache != NULL) {
                    synth_cache_keep(search->cache, schedule, mscclpp_now() - search->started);
                }
                report(search, "%d steps, %d rounds, %d chunks: found", steps, (int)rounds, chunks);
                offer(search, schedule, "search", SYNTH_BEST);
                break;
            }
        }
        synth_demand_free(demand);
    }
}

/* Searches for better schedules of `steps` steps, from the least ratio up. Each pass gives each try more time, and the
 * first one makes only a few tries. Ends if a schedule meets the bound, all tries that are small enough are decided,
 * all passes are made, or the time is over. */
static void search_steps(search_t *search, int steps, synth_rational_t bound)
{
    try_t *tries = malloc(sizeof(*tries) * MAX_TRIES);
    int count = tries != NULL ? list_tries(search, steps, bound, tries) : 0;
    size_t literals_per_chunk = (size_t)search->topology->link_count * (size_t)steps * (size_t)search->topology->ranks;
    bool is_met = false;

    for (size_t pass = 0; pass < PASSES; ++pass) {
        int undecided = 0;

        for (int i = 0; i < (pass == 0 && count > FIRST_TRIES ? FIRST_TRIES : count) && !stop_if_over(search) &&
                        !meets_bound(search, steps, bound);
             ++i) {
            synth_rational_t best = {0, 1}, ratio = synth_fraction(tries[i].rounds, tries[i].chunks);
            bool has_best = find_best_ratio(search, steps, &best);

            if (tries[i].is_impossible || (has_best && synth_compare(ratio, best) >= 0) ||
                literals_per_chunk * (size_t)tries[i].chunks > MAX_LITERALS) {
                continue;
            }
            if ((size_t)tries[i].passes <= pass) {
                search_pair(search, steps, &tries[i], pass);
            }
            undecided += !tries[i].is_impossible;
            is_met = meets_bound(search, steps, bound);
        }
        if (is_met || (undecided == 0 && (pass > 0 || count <= FIRST_TRIES)) || stop_if_over(search)) {
            break;
        }
    }
    free(tries);
}

/* Adds schedules of a gather or scatter by flows, for 1, 2, ... chunks, until one meets the bound, the options allow no
 * more, or the time is over. For each number of chunks, adds the first that it finds, which has the fewest rounds. */
static void try_flows(search_t *search, int steps, synth_rational_t bound)
{
    int max_chunks = search->options->chunks != 0 ? search->options->chunks : search->options->max_chunks;

    for (int chunks = 1; chunks <= max_chunks && !stop_if_over(search) && !meets_bound(search, steps, bound);
         ++chunks) {
        int64_t rounds = synth_ceiling(bound, chunks);

        rounds = rounds < steps ? steps : rounds;
        for (int64_t max_rounds = rounds + FLOW_ROUNDS_BEYOND;
             is_allowed(search, chunks) && rounds <= max_rounds && !stop_if_over(search); ++rounds) {
            synth_rational_t best;
            synth_schedule_t *schedule;

            if (find_best_ratio(search, steps, &best) && synth_compare(synth_fraction(rounds, chunks), best) >= 0) {
                break;
            }
            schedule = synth_find_by_flow(search->topology, search->dual, search->options->root, chunks, steps,
                                          (int)rounds, search->deadline, search->options->stop);
            if (schedule != NULL) {
                offer(search, schedule, "flow", SYNTH_BEST);
                break;
            }
        }
    }
}

/* Sets the bound of all points of `steps` steps, and labels those that meet it as proven. */
static void label_proven(search_t *search, int steps, synth_rational_t bound)
{
    for (int i = 0; i < search->front->count; ++i) {
        synth_point_t *point = &search->front->points[i];

        if (point->schedule->steps == steps) {
            point->bound = bound;
            if (synth_compare(point->ratio, bound) <= 0) {
                point->label = SYNTH_PROVEN;
            }
        }
    }
}

/* Labels the points whose number of steps was not searched, so that they have no bound yet. It becomes the bound for
 * any number of steps or, if that is larger, the bound of a formula for their number. */
static void label_others(search_t *search, synth_rational_t any_steps_bound)
{
    for (int i = 0; i < search->front->count; ++i) {
        int steps = search->front->points[i].schedule->steps;

        if (search->front->points[i].bound.num == 0) {
            label_proven(search, steps,
                         synth_larger(any_steps_bound, synth_closed_bound(&search->shape, search->dual, steps)));
        }
    }
}

/* Computes the bound of each number of steps, in ascending order, and searches for schedules that meet it. Ends early
 * if a schedule meets the bound for any number of steps: the front is complete. */
static void search_all_steps(search_t *search, synth_rational_t any_steps_bound)
{
    bool has_flows = search->dual == SYNTH_GATHER || search->dual == SYNTH_SCATTER;
    bool has_steps = search->options->steps != 0;
    int first = has_steps ? search->options->steps : search->front->min_steps;
    int last = has_steps ? first : first + STEPS_BEYOND;

    for (int steps = first; steps <= last && !stop_if_over(search); ++steps) {
        synth_rational_t closed_bound = synth_closed_bound(&search->shape, search->dual, steps);
        synth_rational_t bound = synth_larger(any_steps_bound, closed_bound);
        double time_left = search->deadline - mscclpp_now();
        synth_slp_t slp;

        if (closed_bound.num == 0 && !meets_bound(search, steps, bound) &&
            synth_slp_solve(search->topology, search->dual, search->options->root, steps,
                            time_left < 2 * SLP_SECONDS ? time_left / 2 : SLP_SECONDS, &slp) == MSCCLPP_OK) {
            bound = synth_larger(bound, slp.bound);
        }
        report(search, "%d steps: at least %lld/%lld rounds for each chunk", steps, (long long)bound.num,
               (long long)bound.den);
        if (has_flows && !meets_bound(search, steps, bound)) {
            try_flows(search, steps, bound);
        }
        if (search->options->searches && search->symmetry.count > 0 && synth_sat_available() &&
            !meets_bound(search, steps, bound)) {
            search_steps(search, steps, bound);
        }
        label_proven(search, steps, bound);
        if (meets_bound(search, steps, any_steps_bound)) {
            search->front->is_complete = true;
            break;
        }
    }
}

/* Opens the cache and adds the schedules of earlier searches that fit the options. A cache that cannot be read is
 * reported and noted in the front, but is no failure. Does nothing if no search will be made. */
static void read_cache(search_t *search)
{
    bool has_root = search->dual != SYNTH_ALLGATHER && search->dual != SYNTH_ALLTOALL;
    char reason[SYNTH_REASON];

    if (search->options->cache == NULL || !search->options->searches || !synth_sat_available() ||
        search->topology->ranks > SYNTH_SLP_RANKS) {
        return;
    }
    search->cache = synth_cache_open(search->options->cache, search->topology, search->dual,
                                     has_root ? search->options->root : -1, reason, sizeof(reason));
    if (search->cache != NULL && reason[0] != '\0') {
        report(search, "%s", reason);
        snprintf(search->front->note, sizeof(search->front->note), "%s", reason);
    }
    for (int i = 0; search->cache != NULL && i < synth_cache_count(search->cache); ++i) {
        double seconds;
        synth_schedule_t *schedule = synth_cache_schedule(search->cache, i, &seconds);

        if (schedule != NULL && is_allowed(search, schedule->chunks) &&
            (schedule->chunks <= search->options->max_chunks || search->options->chunks != 0)) {
            offer_timed(search, schedule, "search, from the cache", SYNTH_BEST, seconds);
        } else {
            synth_schedule_free(schedule);
        }
    }
}

/* Writes and closes the cache. If it cannot be written, this is reported and noted in the front, but is no failure. */
static void close_cache(search_t *search)
{
    char *note = search->front->note;

    if (search->cache != NULL && !synth_cache_close(search->cache, note, sizeof(search->front->note))) {
        report(search, "%s", note);
    }
}

mscclpp_status_t synth_front_find(const synth_topology_t *topology, synth_collective_t collective,
                                  const synth_options_t *options, synth_front_t *front, char *reason,
                                  size_t reason_size)
{
    search_t search = {topology, topology, collective, synth_dual(collective), options, front, .deadline = 0};
    synth_topology_t *reversed = NULL;
    synth_bound_t bound;
    mscclpp_status_t status;

    memset(front, 0, sizeof(*front));
    search.started = mscclpp_now();
    search.deadline = search.started + options->seconds;
    front->min_steps = synth_bound_steps(topology, collective, options->root);
    if (options->chunks % synth_min_chunks(collective, topology->ranks) != 0) {
        snprintf(reason, reason_size, "the number of chunks is %d; allowed for %s on %d ranks are multiples of %d",
                 options->chunks, synth_collective_names[collective], topology->ranks,
                 synth_min_chunks(collective, topology->ranks));
        return MSCCLPP_ERR_INVALID;
    }
    if (options->steps != 0 && options->steps < front->min_steps) {
        snprintf(reason, reason_size, "the number of steps is %d; %s on this topology takes at least %d",
                 options->steps, synth_collective_names[collective], front->min_steps);
        return MSCCLPP_ERR_INVALID;
    }
    if (search.dual != collective) {
        reversed = synth_topology_transposed(topology);
        if (reversed == NULL) {
            return MSCCLPP_ERR_NO_MEMORY;
        }
        search.topology = reversed;
    }
    synth_shape_find(search.topology, &search.shape);
    status = search.shape.kind != SYNTH_IRREGULAR /* cuts give the best bound for these kinds */
                 ? synth_bound_cut(topology, collective, options->root, &bound)
                 : synth_bound_rounds(topology, collective, options->root, options->seconds / BOUND_PART, &bound);
    if (status == MSCCLPP_OK) {
        bool has_root = search.dual != SYNTH_ALLGATHER && search.dual != SYNTH_ALLTOALL;

        front->min_ratio = bound.ratio;
        front->min_ratio_proof = bound.proof;
        if (topology->ranks <= SYNTH_SLP_RANKS) { /* larger machines are not searched */
            synth_symmetry_find(search.topology, has_root ? options->root : -1, &search.symmetry);
        }
        /* Cheap methods come first: later ones have less to do if an earlier one came near the bound. */
        read_cache(&search);
        try_closed(&search, bound.ratio);
        try_direct(&search, bound.ratio);
        if (options->searches && search.symmetry.count > 0 && synth_sat_available()) {
            search_shortly(&search, bound.ratio);
        }
        try_trees(&search, bound.ratio);
        search_all_steps(&search, bound.ratio);
        label_others(&search, bound.ratio);
        close_cache(&search);
    }
    synth_topology_free(reversed);
    return status;
}
