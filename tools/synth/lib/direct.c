/* Shortest ways, the greedy choice, and two levels. */
#include "tools/synth/lib/direct.h"

#include <stdlib.h>
#include <string.h>

/* What each link and group carries in the current step. */
typedef struct {
    const synth_topology_t *topology;
    int *link, *group; /* chunks on each link, in each group */
    int *first, *of;   /* the groups of a link: of[first[link]] to of[first[link + 1] - 1] */
} loads_t;

/* Allocates empty loads. False without memory; free_loads is called in either case. */
static bool make_loads(loads_t *loads, const synth_topology_t *topology)
{
    size_t members = 0;

    for (int i = 0; i < topology->group_count; ++i) {
        members += (size_t)topology->groups[i].count;
    }
    loads->topology = topology;
    loads->link = calloc((size_t)topology->link_count + 1, sizeof(int));
    loads->group = calloc((size_t)topology->group_count + 1, sizeof(int));
    loads->first = calloc((size_t)topology->link_count + 2, sizeof(int));
    loads->of = malloc(sizeof(int) * (members + 1));
    if (loads->link == NULL || loads->group == NULL || loads->first == NULL || loads->of == NULL) {
        return false;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        for (int k = 0; k < topology->groups[i].count; ++k) {
            ++loads->first[topology->groups[i].links[k] + 2];
        }
    }
    for (int link = 0; link < topology->link_count; ++link) {
        loads->first[link + 2] += loads->first[link + 1];
    }
    for (int i = 0; i < topology->group_count; ++i) {
        for (int k = 0; k < topology->groups[i].count; ++k) {
            loads->of[loads->first[topology->groups[i].links[k] + 1]++] = i;
        }
    }
    return true;
}

static void free_loads(loads_t *loads)
{
    free(loads->link);
    free(loads->group);
    free(loads->first);
    free(loads->of);
}

/* How many rounds a link, or the fullest group that it belongs to, would take with one more chunk. */
static double fullness(const loads_t *loads, int link)
{
    double most = (double)(loads->link[link] + 1) / loads->topology->links[link].capacity;

    for (int k = loads->first[link]; k < loads->first[link + 1]; ++k) {
        double here = (double)(loads->group[loads->of[k]] + 1) / loads->topology->groups[loads->of[k]].capacity;

        most = here > most ? here : most;
    }
    return most;
}

/* Puts one more chunk on a link. */
static void add_load(loads_t *loads, int link)
{
    ++loads->link[link];
    for (int k = loads->first[link]; k < loads->first[link + 1]; ++k) {
        ++loads->group[loads->of[k]];
    }
}

/* Empties all links and groups. */
static void clear_loads(loads_t *loads)
{
    memset(loads->link, 0, sizeof(int) * (size_t)loads->topology->link_count);
    memset(loads->group, 0, sizeof(int) * (size_t)loads->topology->group_count);
}

/* Completes a schedule without superfluous sends, or frees it and returns NULL if it failed. */
static synth_schedule_t *finished(const synth_topology_t *topology, synth_schedule_t *schedule, int steps, bool fine)
{
    if (fine) {
        schedule->steps = steps;
        fine = synth_schedule_prune(schedule);
        synth_schedule_fit(topology, schedule);
    }
    if (!fine) {
        synth_schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

synth_schedule_t *synth_shortest(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks)
{
    synth_demand_t *demand = synth_demand_new(collective, topology->ranks, root, chunks);
    synth_schedule_t *schedule = synth_schedule_new(collective, topology->ranks, root, chunks);
    uint64_t *needed = demand != NULL ? malloc(sizeof(*needed) * (size_t)demand->count) : NULL;
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], steps = 0;
    loads_t loads = {NULL, NULL, NULL, NULL, NULL};
    bool fine = demand != NULL && schedule != NULL && needed != NULL && make_loads(&loads, topology);

    synth_topology_distances(topology, distance);
    for (int c = 0; fine && c < demand->count; ++c) {
        needed[c] = demand->wanted[c];
        for (int r = 0; r < topology->ranks; ++r) {
            if ((needed[c] >> r & 1) != 0 && distance[demand->source[c]][r] > steps) {
                steps = distance[demand->source[c]][r];
            }
        }
    }
    for (int s = steps - 1; fine && s >= 0; --s) { /* from the last step, since who receives has to be known */
        clear_loads(&loads);
        for (int k = 0; fine && k < demand->count; ++k) {
            int c = k % chunks * (demand->count / chunks) + k / chunks; /* pieces of one rank far from each other */

            c = c < demand->count ? c : k;
            for (int to = 0; fine && to < topology->ranks; ++to) {
                double least = 1e30;
                int best = -1;

                if ((needed[c] >> to & 1) == 0 || distance[demand->source[c]][to] != s + 1) {
                    continue;
                }
                for (int from = 0; from < topology->ranks; ++from) {
                    if (distance[demand->source[c]][from] == s && from != to && topology->link_between[from][to] >= 0) {
                        double here = fullness(&loads, topology->link_between[from][to]);

                        if (here < least) {
                            least = here;
                            best = from;
                        }
                    }
                }
                add_load(&loads, topology->link_between[best][to]);
                needed[c] |= UINT64_C(1) << best;
                fine = synth_schedule_add(schedule, c, best, to, s, false);
            }
        }
    }
    if (schedule != NULL) {
        schedule = finished(topology, schedule, steps, fine);
    }
    free_loads(&loads);
    free(needed);
    synth_demand_free(demand);
    return schedule;
}

/* The state of the greedy choice. */
typedef struct {
    const synth_topology_t *topology;
    const synth_demand_t *demand;
    uint64_t *has, *comes; /* of each chunk: the ranks that have it, that receive it in this step */
    int (*distance)[SYNTH_MAX_RANKS];
} greedy_t;

/* Whether rank `to` has use for the chunk: it wants it, or it is nearer to the only rank that wants it than `from`
 * is. */
static bool helps(const greedy_t *greedy, int chunk, int from, int to)
{
    uint64_t wanted = greedy->demand->wanted[chunk];
    int target;

    if ((wanted >> to & 1) != 0) {
        return true;
    }
    if ((wanted & (wanted - 1)) != 0 || wanted == 0) {
        return false;
    }
    target = __builtin_ctzll(wanted);
    return (greedy->has[chunk] >> target & 1) == 0 && greedy->distance[to][target] < greedy->distance[from][target];
}

/* The chunk with the fewest holders that a link can usefully carry; -1: none. */
static int rarest(const greedy_t *greedy, int link)
{
    const synth_link_t *at = &greedy->topology->links[link];
    int best = -1, least = SYNTH_MAX_RANKS + 1;

    for (int c = 0; c < greedy->demand->count; ++c) {
        int holders = __builtin_popcountll(greedy->has[c] | greedy->comes[c]);

        if ((greedy->has[c] >> at->from & 1) != 0 && ((greedy->has[c] | greedy->comes[c]) >> at->to & 1) == 0 &&
            holders < least && helps(greedy, c, at->from, at->to)) {
            least = holders;
            best = c;
        }
    }
    return best;
}

synth_schedule_t *synth_greedy(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                               int rounds)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS];
    synth_demand_t *demand = synth_demand_new(collective, topology->ranks, root, chunks);
    synth_schedule_t *schedule = synth_schedule_new(collective, topology->ranks, root, chunks);
    uint64_t *sets = demand != NULL ? calloc((size_t)demand->count * 2, sizeof(*sets)) : NULL;
    loads_t loads = {NULL, NULL, NULL, NULL, NULL};
    greedy_t greedy = {topology, demand, sets, sets != NULL ? sets + demand->count : NULL, distance};
    bool fine = demand != NULL && schedule != NULL && sets != NULL && make_loads(&loads, topology), done = false;
    int s = 0;

    synth_topology_distances(topology, distance);
    for (int c = 0; fine && c < demand->count; ++c) {
        greedy.has[c] = UINT64_C(1) << demand->source[c];
    }
    for (; fine && !done; ++s) {
        bool any = true;

        if (s == SYNTH_MAX_STEPS) {
            fine = false;
            break;
        }
        clear_loads(&loads);
        while (fine && any) {
            any = false;
            for (int i = 0; fine && i < topology->link_count; ++i) {
                int link = (i + s) % topology->link_count;
                int chunk = fullness(&loads, link) <= rounds ? rarest(&greedy, link) : -1;

                if (chunk >= 0) {
                    any = true;
                    add_load(&loads, link);
                    greedy.comes[chunk] |= UINT64_C(1) << topology->links[link].to;
                    fine = synth_schedule_add(schedule, chunk, topology->links[link].from, topology->links[link].to, s,
                                              false);
                }
            }
        }
        done = true;
        for (int c = 0; c < demand->count; ++c) {
            greedy.has[c] |= greedy.comes[c];
            greedy.comes[c] = 0;
            done = done && (demand->wanted[c] & ~greedy.has[c]) == 0;
        }
    }
    if (schedule != NULL) {
        schedule = finished(topology, schedule, s, fine);
    }
    free_loads(&loads);
    free(sets);
    synth_demand_free(demand);
    return schedule;
}

/* Pairs ranks i and above of one half with ranks of the other that they have links with, by backtracking. twin[i]:
 * the position of the partner. False if it cannot be done. */
static bool pair_up(const synth_topology_t *topology, const int *half, const int *other, int count, int i, int *twin,
                    uint64_t used)
{
    if (i == count) {
        return true;
    }
    for (int j = 0; j < count; ++j) {
        if ((used >> j & 1) == 0 && topology->link_between[half[i]][other[j]] >= 0 &&
            topology->link_between[other[j]][half[i]] >= 0) {
            twin[i] = j;
            if (pair_up(topology, half, other, count, i + 1, twin, used | UINT64_C(1) << j)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether all ranks of a set have links with each other. */
static bool is_clique(const synth_topology_t *topology, const int *set, int count)
{
    for (int i = 0; i < count; ++i) {
        for (int j = 0; j < count; ++j) {
            if (i != j && topology->link_between[set[i]][set[j]] < 0) {
                return false;
            }
        }
    }
    return true;
}

/* The all-reduce over two halves and the pairs between them. NULL without memory. */
static synth_schedule_t *build_two_level(const synth_topology_t *topology, const int *half, const int *other,
                                         const int *twin, int count)
{
    synth_schedule_t *schedule = synth_schedule_new(SYNTH_ALLREDUCE, topology->ranks, 0, count);
    bool fine = schedule != NULL;

    for (int i = 0; fine && i < count; ++i) { /* chunk i is gathered by half[i] and by its twin */
        int pair[2] = {half[i], other[twin[i]]};

        for (int j = 0; fine && j < count; ++j) {
            if (j != i) {
                fine = synth_schedule_add(schedule, i, half[j], pair[0], 0, true) &&
                       synth_schedule_add(schedule, i, pair[0], half[j], 2, false);
            }
            if (j != twin[i]) {
                fine = fine && synth_schedule_add(schedule, i, other[j], pair[1], 0, true) &&
                       synth_schedule_add(schedule, i, pair[1], other[j], 2, false);
            }
        }
        fine = fine && synth_schedule_add(schedule, i, pair[0], pair[1], 1, true) &&
               synth_schedule_add(schedule, i, pair[1], pair[0], 1, true);
    }
    if (!fine) {
        synth_schedule_free(schedule);
        return NULL;
    }
    schedule->steps = 3;
    synth_schedule_sort(schedule);
    synth_schedule_fit(topology, schedule);
    return schedule;
}

synth_schedule_t *synth_two_level(const synth_topology_t *topology)
{
    enum { MOST = 16 };
    int n = topology->ranks, count = n / 2;

    if (n % 2 != 0 || n < 4 || n > MOST) {
        return NULL;
    }
    for (uint64_t set = 1; set < UINT64_C(1) << n; set += 2) { /* rank 0 is in it */
        int half[MOST], other[MOST], twin[MOST], in = 0, out = 0;

        if (__builtin_popcountll(set) != count) {
            continue;
        }
        for (int i = 0; i < n; ++i) {
            if ((set >> i & 1) != 0) {
                half[in++] = i;
            } else {
                other[out++] = i;
            }
        }
        if (is_clique(topology, half, count) && is_clique(topology, other, count) &&
            pair_up(topology, half, other, count, 0, twin, 0)) {
            return build_two_level(topology, half, other, twin, count);
        }
    }
    return NULL;
}
