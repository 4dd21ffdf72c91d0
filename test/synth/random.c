/*
 * Random topologies: bounds against brute force over all cuts, schedules against the replay and the bounds, and small
 * instances against a search of all schedules. Usage: random [COUNT [SEED]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/allreduce.h"
#include "tools/synth/lib/bounds.h"
#include "tools/synth/lib/sat.h"
#include "tools/synth/lib/slp.h"

static int passed, failed, searched, proven, points;
static uint64_t state;

static uint32_t below(uint32_t most)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % most;
}

static void check(bool fine, int number, const char *what)
{
    if (fine) {
        ++passed;
    } else {
        ++failed;
        printf("FAIL  topology %d: %s\n", number, what);
    }
}

/* A ring in a random order, so that all is connected, and more links; now and then a port that several share. */
static synth_topology_t *make(void)
{
    int n = 3 + (int)below(5), order[8];
    synth_topology_t *topology = synth_topology_new("random", n);

    for (int i = 0; i < n; ++i) {
        int j = (int)below((uint32_t)i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n; ++i) {
        synth_topology_add_link(topology, order[i], order[(i + 1) % n], 1 + (int)below(2));
    }
    for (int i = 0; i < 2 * n; ++i) {
        int a = (int)below((uint32_t)n), b = (int)below((uint32_t)n);

        if (a != b && topology->link_between[a][b] < 0) {
            synth_topology_add_link(topology, a, b, 1 + (int)below(3));
        }
    }
    for (int rank = 0; rank < n; ++rank) {
        int links[8], count = 0;

        for (int to = 0; to < n; ++to) {
            if (to != rank && topology->link_between[rank][to] >= 0) {
                links[count++] = topology->link_between[rank][to];
            }
        }
        if (count > 1 && below(5) == 0) {
            synth_topology_add_group(topology, "port", 1 + (int)below(2), links, count);
        }
    }
    return topology;
}

/* What crosses from a set to the rest in a round: of each rank's links, at most what its port carries. */
static int crossing(const synth_topology_t *topology, uint64_t set)
{
    int sum = 0;

    for (int rank = 0; rank < topology->ranks; ++rank) {
        int here = 0, port = 1 << 20;

        for (int i = 0; i < topology->link_count; ++i) {
            const synth_link_t *link = &topology->links[i];

            if (link->from == rank && (set >> rank & 1) != 0 && (set >> link->to & 1) == 0) {
                here += link->capacity;
            }
        }
        for (int i = 0; i < topology->group_count; ++i) {
            if (topology->links[topology->groups[i].links[0]].from == rank) {
                port = topology->groups[i].capacity;
            }
        }
        sum += here < port ? here : port;
    }
    return sum;
}

static synth_rational_t all_cuts(const synth_topology_t *topology, synth_collective_t collective, int root)
{
    synth_rational_t most = {0, 1};
    uint64_t end = UINT64_C(1) << topology->ranks;

    for (uint64_t set = 1; set + 1 < end; ++set) {
        int inside = __builtin_popcountll(set), outside = topology->ranks - inside, need = inside;

        if (collective == SYNTH_BROADCAST) {
            need = (int)(set >> root & 1);
        } else if (collective == SYNTH_GATHER) {
            need = (set >> root & 1) != 0 ? 0 : inside;
        } else if (collective == SYNTH_SCATTER) {
            need = (set >> root & 1) != 0 ? outside : 0;
        }
        most = synth_larger(most, synth_fraction(need, crossing(topology, set)));
    }
    return most;
}

/*
 * All-gather or broadcast of single chunks in so many steps of one round each, by trying every choice of sends for one
 * step after the other. Only with links of capacity 1 and no groups, and few of both.
 */
static bool brute(const synth_topology_t *topology, const uint64_t *has, int chunks, int link, uint64_t *next,
                  int steps)
{
    uint64_t all = UINT64_MAX >> (64 - topology->ranks);
    bool done = true;

    for (int c = 0; c < chunks; ++c) {
        done = done && has[c] == all;
    }
    if (done || steps == 0) {
        return done;
    }
    if (link == topology->link_count) {
        uint64_t before[8], after[8];

        memcpy(before, next, sizeof(before));
        memcpy(after, next, sizeof(after));
        return brute(topology, before, chunks, 0, after, steps - 1);
    }
    for (int c = 0; c < chunks; ++c) {
        const synth_link_t *at = &topology->links[link];

        if ((has[c] >> at->from & 1) != 0 && (next[c] >> at->to & 1) == 0) {
            next[c] |= UINT64_C(1) << at->to;
            if (brute(topology, has, chunks, link + 1, next, steps)) {
                return true;
            }
            next[c] &= ~(UINT64_C(1) << at->to);
        }
    }
    return brute(topology, has, chunks, link + 1, next, steps);
}

static void against_brute_force(int number)
{
    int n = 3 + (int)below(2), chunks, steps;
    synth_topology_t *topology = synth_topology_new("small", n);
    synth_collective_t collective = below(2) == 0 ? SYNTH_ALLGATHER : SYNTH_BROADCAST;
    synth_symmetry_t one = {1, {{0, 1, 2, 3}}};
    synth_demand_t *demand;
    synth_schedule_t *schedule = NULL;
    uint64_t has[8] = {0}, next[8];
    synth_sat_answer_t answer;
    bool found;

    for (int i = 0; i < n; ++i) {
        synth_topology_add_link(topology, i, (i + 1) % n, 1);
    }
    for (int i = 0; i < 3; ++i) {
        int a = (int)below((uint32_t)n), b = (int)below((uint32_t)n);

        if (a != b && topology->link_between[a][b] < 0) {
            synth_topology_add_link(topology, a, b, 1);
        }
    }
    chunks = collective == SYNTH_BROADCAST ? 1 + (int)below(3) : 1;
    steps = 1 + (int)below(4);
    demand = synth_demand_new(collective, n, 0, chunks);
    for (int c = 0; c < demand->total_chunks; ++c) {
        has[c] = UINT64_C(1) << demand->source[c];
    }
    memcpy(next, has, sizeof(next));
    found = brute(topology, has, demand->total_chunks, 0, next, steps);
    answer = synth_sat_search(topology, demand, steps, steps, &one, false, 30, NULL, &schedule);
    if (answer != SYNTH_SAT_ABSENT) {
        ++searched;
        check(answer == (found ? SYNTH_SAT_FOUND : SYNTH_SAT_NONE), number,
              found ? "there is a schedule, and none was found" : "a schedule was found where there is none");
    }
    synth_schedule_free(schedule);
    synth_demand_free(demand);
    synth_topology_free(topology);
}

static void against_bounds(int number)
{
    synth_topology_t *topology = make();
    int root = (int)below((uint32_t)topology->ranks);

    for (int i = 0; i < SYNTH_ALLREDUCE; ++i) {
        synth_collective_t collective = i;
        synth_options_t options = {.root = root,
                                   .max_chunks = 2 * topology->ranks,
                                   .tree_chunks = 64,
                                   .closed_chunks = 64,
                                   .seconds = 0.3,
                                   .searches = true};
        synth_bound_t cut, bound;
        synth_front_t front;
        char reason[SYNTH_REASON] = "";

        check(synth_bound_cut(topology, collective, root, &cut) == MSCCLPP_OK &&
                  synth_bound_rounds(topology, collective, root, 5, &bound) == MSCCLPP_OK,
              number, "no bound");
        check(synth_compare(cut.ratio, bound.ratio) <= 0, number, "the bound is below that of cuts");
        if (collective != SYNTH_ALLTOALL && !synth_combines(collective)) {
            check(synth_compare(cut.ratio, all_cuts(topology, collective, root)) == 0, number,
                  "cuts by flows are not those by brute force");
            /* A cut lets what goes through a port be copied behind it, the program does not. */
            check(synth_compare(cut.ratio, bound.ratio) == 0 ||
                      (topology->group_count > 0 && (collective == SYNTH_ALLGATHER || collective == SYNTH_BROADCAST)),
                  number, "cuts and the linear program differ");
        }
        if (synth_front_find(topology, collective, &options, &front, reason, sizeof(reason)) != MSCCLPP_OK) {
            check(false, number, reason);
            continue;
        }
        check(front.count > 0, number, "no schedule");
        for (int k = 0; k < front.count; ++k) {
            const synth_point_t *point = &front.points[k];
            synth_fault_t fault;

            check(synth_schedule_verify(topology, point->schedule, &fault), number, fault.text);
            check(synth_compare(point->ratio, bound.ratio) >= 0 && synth_compare(point->ratio, point->bound) >= 0,
                  number, "a schedule beats its bound");
            check(point->schedule->steps >= synth_bound_steps(topology, collective, root), number,
                  "a schedule has fewer steps than the bound");
            check(k == 0 || synth_compare(front.points[k - 1].ratio, point->ratio) > 0, number, "a point is dominated");
            proven += point->label == SYNTH_PROVEN;
            ++points;
        }
        synth_front_free(&front);
    }
    synth_topology_free(topology);
}

/* Whatever an all-reduce is put together from, none may beat its bound. */
static void all_reduces(int number)
{
    synth_topology_t *topology = make();
    synth_options_t options = {.max_chunks = 4, .tree_chunks = 64, .closed_chunks = 64, .seconds = 1};
    synth_bound_t bound;
    synth_front_t front;
    char reason[SYNTH_REASON] = "";

    synth_bound_allreduce(topology, &bound);
    if (synth_allreduce_find(topology, &options, &front, reason, sizeof(reason)) != MSCCLPP_OK) {
        check(false, number, reason);
        synth_topology_free(topology);
        return;
    }
    for (int k = 0; k < front.count; ++k) {
        check(synth_compare(front.points[k].ratio, bound.ratio) >= 0, number, "an all-reduce beats its bound");
        proven += front.points[k].label == SYNTH_PROVEN;
        ++points;
    }
    synth_front_free(&front);
    synth_topology_free(topology);
}

/* The least rounds of a broadcast from rank 0, by cuts, must be 1 / `per_round`. Frees the topology. */
static void has_bound(synth_topology_t *topology, int64_t per_round, const char *what)
{
    synth_bound_t bound = {{0, 1}, 0, NULL};

    check(synth_bound_cut(topology, SYNTH_BROADCAST, 0, &bound) == MSCCLPP_OK &&
              synth_compare(bound.ratio, synth_fraction(1, per_round)) == 0,
          -1, what);
    synth_topology_free(topology);
}

/* Three ranks that are all joined by links of this capacity. */
static synth_topology_t *triangle(int capacity)
{
    synth_topology_t *topology = synth_topology_new("triangle", 3);

    for (int from = 0; from < 3; ++from) {
        for (int to = 0; to < 3; ++to) {
            if (from != to) {
                synth_topology_add_link(topology, from, to, capacity);
            }
        }
    }
    return topology;
}

/* A port of one link beside one of both; a group of one link that is in and out; several links of the most capacity. */
static void known_bounds(void)
{
    synth_topology_t *topology = triangle(1);
    int links[2] = {topology->link_between[0][1], topology->link_between[0][2]};

    synth_topology_add_group(topology, "one", 1, links, 1);
    synth_topology_add_group(topology, "both", 2, links, 2);
    has_bound(topology, 2, "a bound where ports overlap");
    topology = triangle(2);
    synth_topology_add_group(topology, "both", 2, links, 2);
    synth_topology_add_group(topology, "one", 1, links, 1);
    has_bound(topology, 2, "a bound where a port holds another");
    has_bound(triangle(SYNTH_MAX_CAPACITY), 2 * SYNTH_MAX_CAPACITY, "a bound of large capacities");
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 40;

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    known_bounds();
    for (int i = 0; i < count; ++i) {
        against_bounds(i);
        against_brute_force(i);
        all_reduces(i);
    }
    printf("%d topologies, %d of %d points proven, %d instances against brute force: %d passed, %d failed\n", count,
           proven, points, searched, passed, failed);
    return failed > 0;
}
