/* Methods that need no search: shortest paths, the greedy choice, and an all-reduce of two levels. */
#include "tools/synth/lib/direct.h"

#include <stdlib.h>
#include <string.h>

/* The load of each link and group in the current step. */
typedef struct {
    const synth_topology_t *topology;
    int *link, *group; /* chunks on each link, in each group */
    int *first_group,
        *groups_of; /* the groups of a link: groups_of[first_group[link]] to groups_of[first_group[link + 1] - 1] */
} loads_t;

/* Allocates empty loads. Returns false if memory runs out; the caller calls free_loads in either case. */
static bool make_loads(loads_t *loads, const synth_topology_t *topology)
{
    size_t members = 0;

    for (int i = 0; i < topology->group_count; ++i) {
        members += (size_t)topology->groups[i].count;
    }
    loads->topology = topology;
    loads->link = calloc((size_t)topology->link_count + 1, sizeof(int));
    loads->group = calloc((size_t)topology->group_count + 1, sizeof(int));
    loads->first_group = calloc((size_t)topology->link_count + 2, sizeof(int));
    loads->groups_of = malloc(sizeof(int) * (members + 1));
    if (loads->link == NULL || loads->group == NULL || loads->first_group == NULL || loads->groups_of == NULL) {
        return false;
    }
    for (int i = 0; i < topology->group_count; ++i) {
        for (int j = 0; j < topology->groups[i].count; ++j) {
            /*
             * Counted two places further, since the last loop advances the start of each link to the start of the next
             * link.
             */
            ++loads->first_group[topology->groups[i].links[j] + 2];
        }
    }
    for (int link = 0; link < topology->link_count; ++link) {
        loads->first_group[link + 2] += loads->first_group[link + 1];
    }
    for (int i = 0; i < topology->group_count; ++i) {
        for (int j = 0; j < topology->groups[i].count; ++j) {
            loads->groups_of[loads->first_group[topology->groups[i].links[j] + 1]++] = i;
        }
    }
    return true;
}

static void free_loads(loads_t *loads)
{
    free(loads->link);
    free(loads->group);
    free(loads->first_group);
    free(loads->groups_of);
}

/*
 * Returns how many rounds a step would take if the link carried one more chunk. Only the limits of this link and of its
 * groups are considered.
 */
static double rounds_with_one_more(const loads_t *loads, int link)
{
    double rounds = (double)(loads->link[link] + 1) / loads->topology->links[link].capacity;

    for (int i = loads->first_group[link]; i < loads->first_group[link + 1]; ++i) {
        double group_rounds =
            (double)(loads->group[loads->groups_of[i]] + 1) / loads->topology->groups[loads->groups_of[i]].capacity;

        rounds = group_rounds > rounds ? group_rounds : rounds;
    }
    return rounds;
}

static void add_load(loads_t *loads, int link)
{
    ++loads->link[link];
    for (int i = loads->first_group[link]; i < loads->first_group[link + 1]; ++i) {
        ++loads->group[loads->groups_of[i]];
    }
}

/* Makes the loads of all links and groups 0, for the next step. */
static void clear_loads(loads_t *loads)
{
    memset(loads->link, 0, sizeof(int) * (size_t)loads->topology->link_count);
    memset(loads->group, 0, sizeof(int) * (size_t)loads->topology->group_count);
}

/*
 * Removes the sends that no rank needs, and then gives each step the rounds that its remaining sends need. Takes
 * ownership of the schedule. If not all sends were added (`ok` is false) or memory runs out, frees the schedule and
 * returns NULL. `steps` is at most SYNTH_MAX_STEPS.
 */
static synth_schedule_t *prune_and_finish(const synth_topology_t *topology, synth_schedule_t *schedule, int steps,
                                          bool ok)
{
    if (ok) {
        schedule->steps = steps;
        ok = synth_schedule_prune(schedule);
        synth_schedule_set_rounds(topology, schedule);
    }
    if (!ok) {
        synth_schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

/* Receives a chunk over the least loaded link if a rank can receive it from several ranks. */
synth_schedule_t *synth_shortest(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks)
{
    synth_demand_t *demand = synth_demand_new(collective, topology->ranks, root, chunks);
    synth_schedule_t *schedule = synth_schedule_new(collective, topology->ranks, root, chunks);
    uint64_t *needed = demand != NULL ? malloc(sizeof(*needed) * (size_t)demand->total_chunks) : NULL;
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS], steps = 0;
    loads_t loads = {NULL, NULL, NULL, NULL, NULL};
    bool ok = demand != NULL && schedule != NULL && needed != NULL && make_loads(&loads, topology);

    synth_topology_distances(topology, distance);
    for (int chunk = 0; ok && chunk < demand->total_chunks; ++chunk) {
        needed[chunk] = demand->wanted[chunk];
        for (int rank = 0; rank < topology->ranks; ++rank) {
            if ((needed[chunk] >> rank & 1) != 0 && distance[demand->source[chunk]][rank] > steps) {
                steps = distance[demand->source[chunk]][rank];
            }
        }
    }
    /*
     * The loop runs backwards through the steps. In each step, a chunk has to reach the ranks that want it or that send
     * it in a later step. A rank whose distance from the source is step + 1 receives the chunk in this step, from a
     * rank that is one link nearer to the source. There is such a rank, since all ranks can be reached.
     */
    for (int step = steps - 1; ok && step >= 0; --step) {
        clear_loads(&loads);
        for (int i = 0; ok && i < demand->total_chunks; ++i) {
            /*
             * Take each chunk once, but not block by block, so that no rank's chunks are all assigned to links before
             * the chunks of other ranks.
             */
            int chunk = i % chunks * (demand->total_chunks / chunks) + i / chunks;

            for (int to = 0; ok && to < topology->ranks; ++to) {
                double min_rounds = 1e30;
                int best = -1;

                if ((needed[chunk] >> to & 1) == 0 || distance[demand->source[chunk]][to] != step + 1) {
                    continue;
                }
                for (int from = 0; from < topology->ranks; ++from) {
                    if (distance[demand->source[chunk]][from] == step && from != to &&
                        topology->link_between[from][to] >= 0) {
                        double rounds = rounds_with_one_more(&loads, topology->link_between[from][to]);

                        if (rounds < min_rounds) {
                            min_rounds = rounds;
                            best = from;
                        }
                    }
                }
                add_load(&loads, topology->link_between[best][to]);
                needed[chunk] |= UINT64_C(1) << best;
                ok = synth_schedule_add(schedule, chunk, best, to, step, false);
            }
        }
    }
    if (schedule != NULL) {
        schedule = prune_and_finish(topology, schedule, steps, ok);
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
    uint64_t *has, *arriving;         /* [chunk]: the sets of ranks that have it, and that receive it in this step */
    int (*distance)[SYNTH_MAX_RANKS]; /* [from][to], in links */
} greedy_t;

/*
 * Returns true if it helps to send a chunk over a link. It helps if `to` wants the chunk. It also helps if only one
 * rank still wants it, and `to` is nearer to that rank than `from`.
 */
static bool is_useful(const greedy_t *greedy, int chunk, int from, int to)
{
    uint64_t wanted = greedy->demand->wanted[chunk];
    int only_target;

    if ((wanted >> to & 1) != 0) {
        return true;
    }
    if ((wanted & (wanted - 1)) != 0 || wanted == 0) {
        return false;
    }
    only_target = __builtin_ctzll(wanted);
    return (greedy->has[chunk] >> only_target & 1) == 0 &&
           greedy->distance[to][only_target] < greedy->distance[from][only_target];
}

/*
 * Returns the chunk that the fewest ranks have, among those that it helps to send over a link, or -1 if there is none.
 * A rank that receives a chunk in this step counts as having it, but can send it only in the next step.
 */
static int rarest_chunk(const greedy_t *greedy, int link)
{
    const synth_link_t *ends = &greedy->topology->links[link];
    int best = -1, min_holders = SYNTH_MAX_RANKS + 1;

    for (int chunk = 0; chunk < greedy->demand->total_chunks; ++chunk) {
        int holders = __builtin_popcountll(greedy->has[chunk] | greedy->arriving[chunk]);

        if ((greedy->has[chunk] >> ends->from & 1) != 0 &&
            ((greedy->has[chunk] | greedy->arriving[chunk]) >> ends->to & 1) == 0 && holders < min_holders &&
            is_useful(greedy, chunk, ends->from, ends->to)) {
            min_holders = holders;
            best = chunk;
        }
    }
    return best;
}

/* Gives up if the schedule would have more than SYNTH_MAX_STEPS steps, which also happens if no send helps any more. */
synth_schedule_t *synth_greedy(const synth_topology_t *topology, synth_collective_t collective, int root, int chunks,
                               int rounds)
{
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS];
    synth_demand_t *demand = synth_demand_new(collective, topology->ranks, root, chunks);
    synth_schedule_t *schedule = synth_schedule_new(collective, topology->ranks, root, chunks);
    uint64_t *sets = demand != NULL ? calloc((size_t)demand->total_chunks * 2, sizeof(*sets)) : NULL;
    loads_t loads = {NULL, NULL, NULL, NULL, NULL};
    greedy_t greedy = {topology, demand, sets, sets != NULL ? sets + demand->total_chunks : NULL, distance};
    bool ok = demand != NULL && schedule != NULL && sets != NULL && make_loads(&loads, topology), is_done = false;
    int step = 0;

    synth_topology_distances(topology, distance);
    for (int chunk = 0; ok && chunk < demand->total_chunks; ++chunk) {
        greedy.has[chunk] = UINT64_C(1) << demand->source[chunk];
    }
    for (; ok && !is_done; ++step) {
        bool has_sent = true;

        if (step == SYNTH_MAX_STEPS) { /* too many, or nothing helps any more */
            ok = false;
            break;
        }
        clear_loads(&loads);
        while (ok && has_sent) { /* links take turns, one chunk each, until all are full or have nothing to send */
            has_sent = false;
            for (int i = 0; ok && i < topology->link_count; ++i) {
                int link = (i + step) % topology->link_count; /* another link begins in each step */
                int chunk = rounds_with_one_more(&loads, link) <= rounds ? rarest_chunk(&greedy, link) : -1;

                if (chunk >= 0) {
                    has_sent = true;
                    add_load(&loads, link);
                    greedy.arriving[chunk] |= UINT64_C(1) << topology->links[link].to;
                    ok = synth_schedule_add(schedule, chunk, topology->links[link].from, topology->links[link].to, step,
                                            false);
                }
            }
        }
        is_done = true;
        for (int chunk = 0; chunk < demand->total_chunks; ++chunk) {
            greedy.has[chunk] |= greedy.arriving[chunk];
            greedy.arriving[chunk] = 0;
            is_done = is_done && (demand->wanted[chunk] & ~greedy.has[chunk]) == 0;
        }
    }
    if (schedule != NULL) {
        schedule = prune_and_finish(topology, schedule, step, ok);
    }
    free_loads(&loads);
    free(sets);
    synth_demand_free(demand);
    return schedule;
}

/*
 * Pairs ranks i, i + 1, ... of one half with ranks of the other half, by backtracking. The two ranks of a pair must
 * have links in both directions. partner[i] becomes the position of the partner in the other half. `used` is the set of
 * positions that are already taken. Returns false if there are no such pairs.
 */
static bool pair_up(const synth_topology_t *topology, const int *half, const int *other, int count, int i, int *partner,
                    uint64_t used)
{
    if (i == count) {
        return true;
    }
    for (int j = 0; j < count; ++j) {
        if ((used >> j & 1) == 0 && topology->link_between[half[i]][other[j]] >= 0 &&
            topology->link_between[other[j]][half[i]] >= 0) {
            partner[i] = j;
            if (pair_up(topology, half, other, count, i + 1, partner, used | UINT64_C(1) << j)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if all ranks of the set have links with each other. */
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

/*
 * Makes the all-reduce of synth_two_level from the halves and pairs that were found. In step 0, half[i] and its partner
 * each add up chunk i of their own half. In step 1 they exchange these sums, and each adds the other's sum to its own.
 * In step 2 they send the result to their halves. Returns NULL if memory runs out.
 */
static synth_schedule_t *build_two_level(const synth_topology_t *topology, const int *half, const int *other,
                                         const int *partner, int count)
{
    synth_schedule_t *schedule = synth_schedule_new(SYNTH_ALLREDUCE, topology->ranks, 0, count);
    bool ok = schedule != NULL;

    for (int i = 0; ok && i < count; ++i) {
        int pair[2] = {half[i], other[partner[i]]};

        for (int j = 0; ok && j < count; ++j) {
            if (j != i) {
                ok = synth_schedule_add(schedule, i, half[j], pair[0], 0, true) &&
                     synth_schedule_add(schedule, i, pair[0], half[j], 2, false);
            }
            if (j != partner[i]) {
                ok = ok && synth_schedule_add(schedule, i, other[j], pair[1], 0, true) &&
                     synth_schedule_add(schedule, i, pair[1], other[j], 2, false);
            }
        }
        ok = ok && synth_schedule_add(schedule, i, pair[0], pair[1], 1, true) &&
             synth_schedule_add(schedule, i, pair[1], pair[0], 1, true);
    }
    if (!ok) {
        synth_schedule_free(schedule);
        return NULL;
    }
    schedule->steps = 3;
    synth_schedule_sort(schedule);
    synth_schedule_set_rounds(topology, schedule);
    return schedule;
}

/*
 * Looks for two halves of the ranks that are cliques, and whose ranks form pairs with links between the halves. Tries
 * all ways to divide the ranks, so it returns NULL for machines with more than 16 ranks.
 */
synth_schedule_t *synth_two_level(const synth_topology_t *topology)
{
    enum { MAX_RANKS = 16 };
    int ranks = topology->ranks, half_size = ranks / 2;

    if (ranks % 2 != 0 || ranks < 4 || ranks > MAX_RANKS) {
        return NULL;
    }
    /* Rank 0 is in each set `half_mask`, so that each division is tried only once. */
    for (uint64_t half_mask = 1; half_mask < UINT64_C(1) << ranks; half_mask += 2) {
        int half[MAX_RANKS], other_half[MAX_RANKS], partner[MAX_RANKS], count = 0, other_count = 0;

        if (__builtin_popcountll(half_mask) != half_size) {
            continue;
        }
        for (int i = 0; i < ranks; ++i) {
            if ((half_mask >> i & 1) != 0) {
                half[count++] = i;
            } else {
                other_half[other_count++] = i;
            }
        }
        if (is_clique(topology, half, half_size) && is_clique(topology, other_half, half_size) &&
            pair_up(topology, half, other_half, half_size, 0, partner, 0)) {
            return build_two_level(topology, half, other_half, partner, half_size);
        }
    }
    return NULL;
}
