/* The search along the front: for each number of steps, the bound first, then schedules that come closer and closer. */
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

#define SCOUT_SECONDS 3.0
#define SCOUT_LOOK 0.4

enum { SCOUT_RANKS = 9, SCOUT_CHUNKS = 4, SCOUT_STEPS = 3 };
enum { MOST_TRIES = 400, MOST_LITERALS = 3000000, MOST_ROUNDS = 10000, STEPS_BEYOND = 8, PASSES = 5, FIRST_TRIES = 12 };

/* The state of one search. Functions that find schedules look for those of `dual` on `topology`. */
typedef struct {
    const synth_topology_t *topology; /* of the dual collective: reversed if the collective combines */
    const synth_topology_t *real;     /* as given */
    synth_collective_t collective, dual;
    const synth_options_t *options;
    synth_front_t *front;
    synth_shape_t shape;
    synth_symmetry_t symmetry;
    double start, end;    /* times by mscclpp_now */
    synth_cache_t *cache; /* NULL: none */
} search_t;

/* A number of chunks and of rounds for which a schedule is looked for. */
typedef struct {
    int chunks, rounds;
    int passes; /* how many passes of the search were not cut short */
    bool none;  /* it is proven that no such schedule exists */
} try_t;

/* Reports progress to the caller's function. */
static void report(const search_t *search, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(const search_t *search, const char *format, ...)
{
    char text[SYNTH_WHY];
    va_list arguments;

    if (search->options->progress != NULL) {
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        search->options->progress(search->options->context, text);
    }
}

/* Whether the time is up or the caller has asked to stop. */
static bool is_over(search_t *search)
{
    bool over = mscclpp_now() > search->end || (search->options->stop != NULL && *search->options->stop != 0);

    search->front->stopped = search->front->stopped || over;
    return over;
}

/* The least rounds for each chunk among points of at most so many steps. False if there is no such point. */
static bool best_of(const search_t *search, int steps, synth_rational_t *ratio_p)
{
    bool any = false;

    for (int i = 0; i < search->front->count && search->front->point[i].schedule->steps <= steps; ++i) {
        *ratio_p = search->front->point[i].ratio; /* later points have fewer */
        any = true;
    }
    return any;
}

/* Whether a schedule of at most so many steps meets the bound. */
static bool meets(const search_t *search, int steps, synth_rational_t bound)
{
    synth_rational_t best;

    return best_of(search, steps, &best) && synth_compare(best, bound) <= 0;
}

/* Takes ownership of a schedule of the dual collective, reverses it if need be, and replays it. NULL if the replay
 * finds it wrong. */
static synth_schedule_t *replayed(search_t *search, synth_schedule_t *schedule, const char *by)
{
    synth_fault_t fault;

    if (schedule != NULL && search->dual != search->collective) {
        synth_schedule_t *turned = synth_schedule_invert(schedule, search->collective);

        synth_schedule_free(schedule);
        schedule = turned;
    }
    if (schedule != NULL && !synth_schedule_verify(search->real, schedule, &fault)) {
        report(search, "a schedule by %s is wrong (%s): %s", by, fault.name, fault.text);
        synth_schedule_free(schedule);
        schedule = NULL;
    }
    return schedule;
}

/* Takes ownership of a schedule of the dual, and adds it to the front if it is right and has the number of steps
 * that was asked for. `seconds`: how long it took to find. */
static void offer_after(search_t *search, synth_schedule_t *schedule, const char *by, synth_label_t label,
                        double seconds)
{
    schedule = replayed(search, schedule, by);
    if (schedule != NULL && (search->options->steps == 0 || schedule->steps == search->options->steps)) {
        synth_front_add(search->front, schedule, by, label, seconds);
    } else {
        synth_schedule_free(schedule);
    }
}

/* The same for a schedule that was found just now. */
static void offer(search_t *search, synth_schedule_t *schedule, const char *by, synth_label_t label)
{
    offer_after(search, schedule, by, label, mscclpp_now() - search->start);
}

/* The number of chunks of which all others are multiples. */
static int least_chunks(const search_t *search)
{
    return synth_least_chunks(search->dual, search->topology->ranks);
}

/* Whether schedules of so many chunks are asked for. */
static bool wanted(const search_t *search, int chunks)
{
    return search->options->chunks == 0 || search->options->chunks == chunks;
}

/* Adds schedules by formulas: of each number of steps that is gone through, then of ever twice as many. */
static void try_closed(search_t *search, synth_rational_t bound)
{
    int first = search->options->steps != 0 ? search->options->steps : search->front->least_steps;
    int last = search->options->steps != 0 ? first : SYNTH_MAX_STEPS;
    int most = search->options->chunks != 0 ? search->options->chunks : search->options->closed_chunks;

    for (int steps = first; steps <= last && !meets(search, SYNTH_MAX_STEPS, bound) && !is_over(search);
         steps += steps - first < STEPS_BEYOND ? 1 : steps) {
        synth_schedule_t *schedule =
            synth_closed(search->topology, &search->shape, search->dual, search->options->root, steps, most);

        if (schedule != NULL && wanted(search, schedule->chunks)) {
            offer(search, schedule, "closed form", SYNTH_HEURISTIC);
        } else {
            synth_schedule_free(schedule);
        }
    }
}

/* Adds schedules that need no search: by shortest paths, then by the greedy choice, from the cheapest to those that
 * take longer. */
static void try_direct(search_t *search, synth_rational_t bound)
{
    const synth_topology_t *topology = search->topology;
    int root = search->options->root, least = least_chunks(search), most = search->options->most_chunks;
    double size = (double)topology->link_count * (search->dual == SYNTH_BROADCAST ? 1 : topology->ranks);

    for (int chunks = least; chunks <= (most > least ? most : least) && !meets(search, SYNTH_MAX_STEPS, bound) &&
                             (chunks == least || !is_over(search)); /* one schedule is found in any case */
         chunks += least) {
        if (wanted(search, chunks) && (chunks == least || size * chunks < 1e6)) {
            offer(search, synth_shortest(topology, search->dual, root, chunks), "shortest ways", SYNTH_HEURISTIC);
        }
    }
    for (int chunks = least;
         chunks <= 6 * least && !meets(search, search->front->least_steps, bound) && !is_over(search);
         chunks += least) {
        for (int rounds = 1; rounds <= 6 && wanted(search, chunks) && size * chunks < 1e5 && !is_over(search);
             ++rounds) {
            offer(search, synth_greedy(topology, search->dual, root, chunks, rounds), "greedy choice", SYNTH_HEURISTIC);
        }
    }
}

/* Adds schedules of packed trees, which keep the links busy that the bound says are the bottleneck. Twice as many
 * units each time. */
static void try_trees(search_t *search, synth_rational_t least)
{
    const synth_topology_t *topology = search->topology;
    synth_trees_t *trees;

    if ((search->dual != SYNTH_ALLGATHER && search->dual != SYNTH_BROADCAST) || least.num >= MOST_ROUNDS ||
        meets(search, SYNTH_MAX_STEPS, least)) {
        return;
    }
    trees = synth_trees_new(topology, search->dual, search->options->root, (int)least.num, (int)least.den,
                            search->options->seconds / 8);
    if (trees == NULL) {
        return;
    }
    if (search->options->steps == 0 && search->options->chunks == 0) {
        search->front->trees = replayed(search, synth_trees_schedule(topology, trees, 1), "packed trees");
    }
    for (int units = 1; synth_trees_chunks(trees) * units <= search->options->tree_chunks &&
                        !meets(search, SYNTH_MAX_STEPS, least) && !is_over(search);
         units *= 2) {
        if (wanted(search, synth_trees_chunks(trees) * units)) {
            offer(search, synth_trees_schedule(topology, trees, units), "packed trees", SYNTH_HEURISTIC);
        }
    }
    synth_trees_free(trees);
}

/* For qsort: by rounds for each chunk, then by chunks. */
static int by_ratio(const void *left, const void *right)
{
    const try_t *a = left, *b = right;
    long first = (long)a->rounds * b->chunks, second = (long)b->rounds * a->chunks;

    return first != second ? (first > second) - (first < second) : a->chunks - b->chunks;
}

/* Lists all pairs of chunks and rounds that are better than the known schedules and not excluded by the bound.
 * Returns how many. */
static int list_tries(const search_t *search, int steps, synth_rational_t bound, try_t *tries)
{
    int least = least_chunks(search), count = 0;
    synth_rational_t best = {0, 1};
    bool any = best_of(search, steps, &best);

    for (int chunks = least; chunks <= search->options->most_chunks || chunks == search->options->chunks;
         chunks += least) {
        int64_t from = synth_ceiling(bound, chunks);

        from = from < steps ? steps : from;
        for (int64_t rounds = from; wanted(search, chunks) && rounds < from + 4 && count < MOST_TRIES; ++rounds) {
            if (!any || synth_compare(synth_fraction(rounds, chunks), best) < 0) {
                tries[count] = (try_t){chunks, (int)rounds, 0, false};
                if (search->cache != NULL) {
                    tries[count].passes =
                        synth_cache_tried(search->cache, steps, chunks, (int)rounds, &tries[count].none);
                }
                ++count;
            }
        }
    }
    qsort(tries, (size_t)count, sizeof(*tries), by_ratio);
    return count;
}

/* Looks for one schedule by satisfiability: first for one that has all symmetries, then for any. Pass 0 gives the
 * second part only a quarter of the time. */
static void search_one(search_t *search, int steps, try_t *try, size_t pass)
{
    static const double limits[PASSES] = {1, 2, 6, 30, 200};
    double seconds = limits[pass];
    bool optimistic = pass % 2 == 1;
    synth_demand_t *demand =
        synth_demand_new(search->dual, search->topology->ranks, search->options->root, try->chunks);
    synth_symmetry_t *identity = calloc(1, sizeof(*identity));
    synth_schedule_t *schedule = NULL;
    synth_sat_answer_t answer = SYNTH_SAT_UNKNOWN;

    if (demand != NULL && identity != NULL) {
        double time_left = search->end - mscclpp_now();

        bool is_full = seconds <= time_left;

        identity->count = 1;
        memcpy(identity->map[0], search->symmetry.map[0], sizeof(identity->map[0]));
        seconds = is_full ? seconds : time_left;
        if (search->symmetry.count > 1) {
            answer = synth_sat_search(search->topology, demand, steps, try->rounds, &search->symmetry, optimistic,
                                      seconds, search->options->stop, &schedule);
            seconds = pass == 0 ? seconds / 4 : seconds;
        }
        if (answer != SYNTH_SAT_FOUND) {
            answer = synth_sat_search(search->topology, demand, steps, try->rounds, identity, optimistic, seconds,
                                      search->options->stop, &schedule);
            try->none = answer == SYNTH_SAT_NONE;
        }
        is_full = answer == SYNTH_SAT_NONE || (is_full && !is_over(search)); /* a search cut short is repeated */
        try->passes = is_full ? (int)pass + 1 : try->passes;
        if (search->cache != NULL && is_full && answer != SYNTH_SAT_FOUND) {
            synth_cache_try(search->cache, steps, try->chunks, try->rounds, try->passes, try->none);
        }
        if (answer == SYNTH_SAT_FOUND) {
            if (search->cache != NULL) {
                synth_cache_keep(search->cache, schedule, mscclpp_now() - search->start);
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

/* Searches shortly for schedules of few chunks that have all symmetries, before the bounds of large machines take
 * their time. Searches that find nothing are repeated later. */
static void scout(search_t *search, synth_rational_t least)
{
    int chunk = least_chunks(search), first = search->front->least_steps;
    double end = mscclpp_now() + SCOUT_SECONDS;

    if (search->topology->ranks < SCOUT_RANKS || search->symmetry.count < 2) {
        return;
    }
    for (int k = 0; k < SCOUT_CHUNKS * SCOUT_STEPS && mscclpp_now() < end && !is_over(search); ++k) {
        int chunks = chunk * (1 + k / SCOUT_STEPS), steps = first + k % SCOUT_STEPS;
        int64_t from = synth_ceiling(least, chunks);
        synth_demand_t *demand;

        if (!wanted(search, chunks) || (search->options->steps != 0 && search->options->steps != steps)) {
            continue;
        }
        demand = synth_demand_new(search->dual, search->topology->ranks, search->options->root, chunks);
        from = from < steps ? steps : from;
        for (int64_t rounds = from; demand != NULL && rounds < from + 4 && mscclpp_now() < end; ++rounds) {
            synth_schedule_t *schedule = NULL;
            synth_rational_t best;

            if (best_of(search, steps, &best) && synth_compare(synth_fraction(rounds, chunks), best) >= 0) {
                break;
            }
            if (synth_sat_search(search->topology, demand, steps, (int)rounds, &search->symmetry, false, SCOUT_LOOK,
                                 search->options->stop, &schedule) == SYNTH_SAT_FOUND) {
                if (search->cache != NULL) {
                    synth_cache_keep(search->cache, schedule, mscclpp_now() - search->start);
                }
                report(search, "%d steps, %d rounds, %d chunks: found", steps, (int)rounds, chunks);
                offer(search, schedule, "search", SYNTH_BEST);
                break;
            }
        }
        synth_demand_free(demand);
    }
}

/* Searches for better schedules of this number of steps, from the least ratio up. Each pass gives each try more
 * time. */
static void search_steps(search_t *search, int steps, synth_rational_t bound)
{
    try_t *tries = malloc(sizeof(*tries) * MOST_TRIES);
    int count = tries != NULL ? list_tries(search, steps, bound, tries) : 0;
    size_t literals = (size_t)search->topology->link_count * (size_t)steps * (size_t)search->topology->ranks;
    bool found = false;

    for (size_t pass = 0; pass < PASSES; ++pass) {
        int open = 0;

        for (int i = 0; i < (pass == 0 && count > FIRST_TRIES ? FIRST_TRIES : count) && !is_over(search) &&
                        !meets(search, steps, bound);
             ++i) {
            synth_rational_t best = {0, 1}, ratio = synth_fraction(tries[i].rounds, tries[i].chunks);
            bool known = best_of(search, steps, &best);

            if (tries[i].none || (known && synth_compare(ratio, best) >= 0) ||
                literals * (size_t)tries[i].chunks > MOST_LITERALS) {
                continue;
            }
            if ((size_t)tries[i].passes <= pass) {
                search_one(search, steps, &tries[i], pass);
            }
            open += !tries[i].none;
            found = meets(search, steps, bound);
        }
        if (found || (open == 0 && (pass > 0 || count <= FIRST_TRIES)) || is_over(search)) {
            break;
        }
    }
    free(tries);
}

/* Gather and scatter: finds the least number of chunks for which a flow meets the bound, or else the best up to the
 * most chunks. */
static void try_flows(search_t *search, int steps, synth_rational_t bound)
{
    int most = search->options->chunks != 0 ? search->options->chunks : search->options->most_chunks;

    for (int chunks = 1; chunks <= most && !is_over(search) && !meets(search, steps, bound); ++chunks) {
        int64_t rounds = synth_ceiling(bound, chunks);

        rounds = rounds < steps ? steps : rounds;
        for (int64_t most_rounds = rounds + 2; wanted(search, chunks) && rounds <= most_rounds; ++rounds) {
            synth_rational_t best;
            synth_schedule_t *schedule;

            if (best_of(search, steps, &best) && synth_compare(synth_fraction(rounds, chunks), best) >= 0) {
                break;
            }
            schedule = synth_by_flow(search->topology, search->dual, search->options->root, chunks, steps, (int)rounds);
            if (schedule != NULL) {
                offer(search, schedule, "flow", SYNTH_BEST);
                break;
            }
        }
    }
}

/* Marks the points of this number of steps that meet its bound as proven. */
static void label_proven(search_t *search, int steps, synth_rational_t bound)
{
    for (int i = 0; i < search->front->count; ++i) {
        synth_point_t *point = &search->front->point[i];

        if (point->schedule->steps == steps) {
            point->bound = bound;
            if (synth_compare(point->ratio, bound) <= 0) {
                point->label = SYNTH_PROVEN;
            }
        }
    }
}

/* Marks points of numbers of steps that were not gone through, by the bound of all and by formulas. */
static void label_others(search_t *search, synth_rational_t least)
{
    for (int i = 0; i < search->front->count; ++i) {
        int steps = search->front->point[i].schedule->steps;

        if (search->front->point[i].bound.num == 0) {
            label_proven(search, steps, synth_larger(least, synth_closed_bound(&search->shape, search->dual, steps)));
        }
    }
}

/* Goes through the numbers of steps upwards: computes the bound of each, then searches for schedules that meet it. */
static void search_all_steps(search_t *search, synth_rational_t least)
{
    bool flows = search->dual == SYNTH_GATHER || search->dual == SYNTH_SCATTER, given = search->options->steps != 0;
    int first = given ? search->options->steps : search->front->least_steps;
    int last = given ? first : first + STEPS_BEYOND;

    for (int steps = first; steps <= last && !is_over(search); ++steps) {
        synth_rational_t closed = synth_closed_bound(&search->shape, search->dual, steps);
        synth_rational_t bound = synth_larger(least, closed);
        double rest = search->end - mscclpp_now();
        synth_slp_t slp;

        if (closed.num == 0 && !meets(search, steps, bound) &&
            synth_slp_solve(search->topology, search->dual, search->options->root, steps, rest < 20 ? rest / 2 : 10,
                            &slp) == MSCCLPP_OK) {
            bound = synth_larger(bound, slp.bound);
        }
        report(search, "%d steps: at least %lld/%lld rounds for each chunk", steps, (long long)bound.num,
               (long long)bound.den);
        if (flows && !meets(search, steps, bound)) {
            try_flows(search, steps, bound);
        }
        if (search->options->search && search->symmetry.count > 0 && synth_sat_available() &&
            !meets(search, steps, bound)) {
            search_steps(search, steps, bound);
        }
        label_proven(search, steps, bound);
        if (meets(search, steps, least)) {
            search->front->complete = true;
            break;
        }
    }
}

/* Adds what earlier searches left in the cache, if it fits the options. */
static void read_cache(search_t *search)
{
    bool rooted = search->dual != SYNTH_ALLGATHER && search->dual != SYNTH_ALLTOALL;
    char why[SYNTH_WHY];

    if (search->options->cache == NULL || !search->options->search || !synth_sat_available() ||
        search->topology->ranks > SYNTH_SLP_RANKS) {
        return;
    }
    search->cache = synth_cache_open(search->options->cache, search->topology, search->dual,
                                     rooted ? search->options->root : -1, why, sizeof(why));
    if (search->cache != NULL && why[0] != '\0') {
        report(search, "%s", why);
        snprintf(search->front->note, sizeof(search->front->note), "%s", why);
    }
    for (int i = 0; search->cache != NULL && i < synth_cache_count(search->cache); ++i) {
        double seconds;
        synth_schedule_t *schedule = synth_cache_schedule(search->cache, i, &seconds);

        if (schedule != NULL && wanted(search, schedule->chunks) &&
            (schedule->chunks <= search->options->most_chunks || search->options->chunks != 0)) {
            offer_after(search, schedule, "search, from the cache", SYNTH_BEST, seconds);
        } else {
            synth_schedule_free(schedule);
        }
    }
}

/* Closes the cache. A cache that cannot be written is reported, but is no failure. */
static void close_cache(search_t *search)
{
    char why[SYNTH_WHY];

    if (search->cache != NULL && !synth_cache_close(search->cache, why, sizeof(why))) {
        report(search, "%s", why);
        snprintf(search->front->note, sizeof(search->front->note), "%s", why);
    }
}

mscclpp_status_t synth_front_find(const synth_topology_t *topology, synth_collective_t collective,
                                  const synth_options_t *options, synth_front_t *front, char *why, size_t why_size)
{
    search_t search = {topology, topology, collective, synth_dual(collective), options, front, .end = 0};
    synth_topology_t *turned = NULL;
    synth_bound_t bound;
    mscclpp_status_t status;

    memset(front, 0, sizeof(*front));
    search.start = mscclpp_now();
    search.end = search.start + options->seconds;
    front->least_steps = synth_bound_steps(topology, collective, options->root);
    if (options->chunks % synth_least_chunks(collective, topology->ranks) != 0) {
        snprintf(why, why_size, "the number of chunks is %d; allowed for %s on %d ranks are multiples of %d",
                 options->chunks, synth_collective_names[collective], topology->ranks,
                 synth_least_chunks(collective, topology->ranks));
        return MSCCLPP_ERR_INVALID;
    }
    if (options->steps != 0 && options->steps < front->least_steps) {
        snprintf(why, why_size, "the number of steps is %d; %s on this topology takes at least %d", options->steps,
                 synth_collective_names[collective], front->least_steps);
        return MSCCLPP_ERR_INVALID;
    }
    if (search.dual != collective) {
        turned = synth_topology_transposed(topology);
        if (turned == NULL) {
            return MSCCLPP_ERR_NO_MEMORY;
        }
        search.topology = turned;
    }
    synth_shape(search.topology, &search.shape);
    status = search.shape.kind != SYNTH_IRREGULAR /* cuts are sharp there */
                 ? synth_bound_cut(topology, collective, options->root, &bound)
                 : synth_bound_rounds(topology, collective, options->root, options->seconds / 4, &bound);
    if (status == MSCCLPP_OK) {
        bool rooted = search.dual != SYNTH_ALLGATHER && search.dual != SYNTH_ALLTOALL;

        front->least_ratio = bound.ratio;
        front->least_by = bound.by;
        if (topology->ranks <= SYNTH_SLP_RANKS) { /* others are too large to be searched */
            synth_symmetry_find(search.topology, rooted ? options->root : -1, &search.symmetry);
        }
        read_cache(&search);
        try_closed(&search, bound.ratio);
        try_direct(&search, bound.ratio);
        if (options->search && search.symmetry.count > 0 && synth_sat_available()) {
            scout(&search, bound.ratio);
        }
        try_trees(&search, bound.ratio);
        search_all_steps(&search, bound.ratio);
        label_others(&search, bound.ratio);
        close_cache(&search);
    }
    synth_topology_free(turned);
    return status;
}
