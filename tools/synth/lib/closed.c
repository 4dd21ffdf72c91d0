/*
 * Schedules and bounds by formulas. All of them are pipelines whose stages are as long as links and ports need; the
 * bounds come from cuts of the graph that has each rank once for each step (docs/synthesis-theory.md).
 */
#include "tools/synth/lib/closed.h"

#include <stdlib.h>

#define MOST_GROWTH INT64_C(1000000000) /* above, the bound is that for any number of steps but for a trifle */

enum { FEW_CHUNKS = 64 }; /* of a schedule that does not meet its bound anyway */

/* Sends are counted before they are made: too many are refused without the memory for them. */
static bool fits(int64_t chunks, int most_chunks, int64_t sends)
{
    return chunks <= most_chunks && chunks <= SYNTH_MAX_CHUNKS && sends <= SYNTH_MAX_SENDS;
}

static synth_schedule_t *finish(const synth_topology_t *topology, synth_schedule_t *schedule, int steps, bool fine)
{
    if (schedule == NULL || !fine || steps > SYNTH_MAX_STEPS) {
        synth_schedule_free(schedule);
        return NULL;
    }
    schedule->steps = steps;
    synth_schedule_sort(schedule);
    synth_schedule_fit(topology, schedule);
    return schedule;
}

/*
 * The root gives each rank chunks of its own in each step but the last, and ranks pass on to all others what they got
 * in the step before. In the last step, in which the root has nothing more to spread, it sends one chunk to all.
 */
static synth_schedule_t *complete_broadcast(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                            int steps, int most_chunks)
{
    int n = topology->ranks, times = shape->port / (int)synth_gcd(shape->port, n - 1), waves = steps - 1;
    int64_t chunks = (int64_t)times * (waves * (n - 1) + 1);
    synth_schedule_t *schedule = NULL;
    int chunk = 0;
    bool fine = fits(chunks, most_chunks, chunks * (n - 1));

    schedule = fine ? synth_schedule_new(SYNTH_BROADCAST, n, root, (int)chunks) : NULL;
    fine = schedule != NULL;
    for (int wave = 0; wave < waves; ++wave) {
        for (int k = 0; k < (n - 1) * times; ++k, ++chunk) {
            int first = (root + 1 + k / times) % n;

            fine = fine && synth_schedule_add(schedule, chunk, root, first, wave, false);
            for (int to = 0; fine && to < n; ++to) {
                fine = to == root || to == first || synth_schedule_add(schedule, chunk, first, to, wave + 1, false);
            }
        }
    }
    for (int k = 0; k < times; ++k, ++chunk) {
        for (int to = 0; fine && to < n; ++to) {
            fine = to == root || synth_schedule_add(schedule, chunk, root, to, steps - 1, false);
        }
    }
    return finish(topology, schedule, steps, fine);
}

static int rank_at(const synth_shape_t *shape, int node, int position)
{
    return shape->at[node % shape->nodes * shape->gpus + position];
}

static int position_of(const synth_shape_t *shape, int rank)
{
    int at = 0;

    while (shape->at[at] != rank) {
        ++at;
    }
    return at;
}

/* To the ranks of a node: all that do not have a chunk yet get it from one of them. */
static bool spread(synth_schedule_t *schedule, const synth_shape_t *shape, int chunk, int node, int position, int step)
{
    bool fine = true;

    for (int to = 0; fine && to < shape->gpus; ++to) {
        fine = to == position || synth_schedule_add(schedule, chunk, rank_at(shape, node, position),
                                                    rank_at(shape, node, to), step, false);
    }
    return fine;
}

/* From one rank to those of its position on all other nodes. */
static bool cross(synth_schedule_t *schedule, const synth_shape_t *shape, int chunk, int node, int position, int step)
{
    bool fine = true;

    for (int far = 1; fine && far < shape->nodes; ++far) {
        fine = synth_schedule_add(schedule, chunk, rank_at(shape, node, position), rank_at(shape, node + far, position),
                                  step, false);
    }
    return fine;
}

/* How many chunks of a rank leave its node in each step. */
typedef struct {
    int part[SYNTH_MAX_STEPS];
    int64_t chunks;
} parts_t;

/*
 * What crosses in one step is spread within nodes in the next, which takes 1 / q of the time. So each step may be q
 * times shorter than the one before. `first` chunks cross in the last step but one. In the last one there is no time to
 * spread: the last part, which all ranks of the node have by then, crosses by all NICs at once and comes to all
 * directly.
 */
static void divide(const synth_shape_t *shape, int steps, int64_t first, int last, parts_t *parts)
{
    int64_t part = first;

    parts->chunks = parts->part[steps - 1] = last;
    for (int s = steps - 2; s >= 0; --s, part *= shape->inside / shape->port) {
        if (part > SYNTH_MAX_CHUNKS) {
            parts->chunks = SYNTH_MAX_CHUNKS + 1;
            return;
        }
        parts->part[s] = (int)part;
        parts->chunks += part;
    }
}

/* The parts that meet the bound; if those are too many, without the last one and so with fewer. False: too many, too.
 */
static bool choose_parts(const synth_shape_t *shape, int steps, int most_chunks, parts_t *parts)
{
    int64_t q = shape->inside / shape->port, n = (int64_t)shape->nodes * shape->gpus, sends = n * (n - 1);

    divide(shape, steps, shape->port * shape->gpus * q, shape->port, parts);
    if (fits(parts->chunks, most_chunks, parts->chunks * sends)) {
        return true;
    }
    divide(shape, steps, q, 0, parts); /* whole rounds within nodes */
    if (parts->chunks <= FEW_CHUNKS && fits(parts->chunks, most_chunks, parts->chunks * sends)) {
        return true;
    }
    divide(shape, steps, 1, 0, parts);
    return fits(parts->chunks, most_chunks, parts->chunks * sends);
}

/* One rank's chunks to all. */
static bool gather_from(synth_schedule_t *schedule, const synth_shape_t *shape, const parts_t *parts, int steps,
                        int node, int position)
{
    int chunk = rank_at(shape, node, position) * (int)parts->chunks;
    bool fine = true;

    for (int s = 0; s < steps; ++s) {
        for (int k = 0; fine && k < parts->part[s]; ++k, ++chunk) {
            fine = spread(schedule, shape, chunk, node, position, 0);
            if (s < steps - 1) {
                fine = fine && cross(schedule, shape, chunk, node, position, s);
                for (int far = 1; fine && far < shape->nodes; ++far) {
                    fine = spread(schedule, shape, chunk, node + far, position, s + 1);
                }
                continue;
            }
            for (int g = 0; fine && g < shape->gpus; ++g) {
                fine = cross(schedule, shape, chunk, node, g, s);
            }
        }
    }
    return fine;
}

static synth_schedule_t *nodes_allgather(const synth_topology_t *topology, const synth_shape_t *shape, int steps,
                                         int most_chunks)
{
    int n = topology->ranks;
    synth_schedule_t *schedule;
    parts_t parts;
    bool fine;

    if (steps < 2 || !choose_parts(shape, steps, most_chunks, &parts)) {
        return NULL;
    }
    schedule = synth_schedule_new(SYNTH_ALLGATHER, n, 0, (int)parts.chunks);
    fine = schedule != NULL;
    for (int i = 0; fine && i < n; ++i) {
        fine = gather_from(schedule, shape, &parts, steps, i / shape->gpus, i % shape->gpus);
    }
    return finish(topology, schedule, steps, fine);
}

/* What comes to one rank in an all-gather is a gather, in as little time; backwards, it is a scatter. */
static synth_schedule_t *nodes_rooted(const synth_topology_t *topology, const synth_shape_t *shape,
                                      synth_collective_t collective, int root, int steps, int most_chunks)
{
    synth_schedule_t *gather = nodes_allgather(topology, shape, steps, most_chunks), *scatter;
    bool fine = gather != NULL;

    if (fine) {
        gather->collective = SYNTH_GATHER;
        gather->root = root;
        fine = synth_schedule_prune(gather);
    }
    if (collective == SYNTH_GATHER || !fine) {
        return finish(topology, gather, steps, fine);
    }
    scatter = synth_schedule_new(SYNTH_SCATTER, topology->ranks, root, gather->chunks);
    fine = scatter != NULL;
    for (int i = 0; fine && i < gather->send_count; ++i) {
        const synth_send_t *send = &gather->sends[i];

        fine = synth_schedule_add(scatter, send->chunk, send->to, send->from, steps - 1 - send->step, false);
    }
    synth_schedule_free(gather);
    return finish(topology, scatter, steps, fine);
}

/*
 * Half of what goes to ranks of another node and another position crosses first and goes on within the node, the other
 * half the other way round, so that NICs are busy in both steps.
 */
static synth_schedule_t *nodes_alltoall(const synth_topology_t *topology, const synth_shape_t *shape, int steps,
                                        int most_chunks)
{
    int n = topology->ranks, each = shape->nodes == 2 ? 2 : 1, half = (shape->nodes - 1) * each / 2;
    synth_schedule_t *schedule;
    bool fine = fits((int64_t)n * each, most_chunks, (int64_t)2 * n * n * each) && steps == 2;

    schedule = fine ? synth_schedule_new(SYNTH_ALLTOALL, n, 0, n * each) : NULL;
    fine = schedule != NULL;
    for (int i = 0; fine && i < n * n * each; ++i) {
        int from = i / each / n, to = i / each % n, node = from / shape->gpus, far_node = to / shape->gpus;
        int g = from % shape->gpus, h = to % shape->gpus, far = (far_node + shape->nodes - node) % shape->nodes;
        int a = shape->at[from], b = shape->at[to], chunk = (a * n + b) * each + i % each;
        bool crosses_first = (far - 1) * each + i % each < half;
        int via = crosses_first ? rank_at(shape, far_node, g) : rank_at(shape, node, h);

        if (from == to) {
            continue;
        }
        if (far == 0 || g == h) {
            fine = synth_schedule_add(schedule, chunk, a, b, 0, false);
        } else {
            fine = synth_schedule_add(schedule, chunk, a, via, 0, false) &&
                   synth_schedule_add(schedule, chunk, via, b, 1, false);
        }
    }
    return finish(topology, schedule, 2, fine);
}

/* One chunk by one position: from the root to it, to one node or to all at once, from there on to all others, and
 * within each node as soon as it is there. */
static bool broadcast_by(synth_schedule_t *schedule, const synth_shape_t *shape, int chunk, int root_at, int g, int far,
                         int step)
{
    int node = root_at / shape->gpus, position = root_at % shape->gpus;
    bool fine =
        g == position || synth_schedule_add(schedule, chunk, shape->at[root_at], rank_at(shape, node, g), step, false);

    for (int to = 0; fine && to < shape->gpus; ++to) {
        fine = to == g || to == position ||
               synth_schedule_add(schedule, chunk, rank_at(shape, node, g), rank_at(shape, node, to), step + 1, false);
    }
    if (far == 0) {
        fine = fine && cross(schedule, shape, chunk, node, g, step + 1);
        for (int other = 1; fine && other < shape->nodes; ++other) {
            fine = spread(schedule, shape, chunk, node + other, g, step + 2);
        }
        return fine;
    }
    fine =
        fine &&
        synth_schedule_add(schedule, chunk, rank_at(shape, node, g), rank_at(shape, node + far, g), step + 1, false) &&
        spread(schedule, shape, chunk, node + far, g, step + 2);
    for (int other = 1; fine && other < shape->nodes; ++other) {
        if (other != far) {
            fine = synth_schedule_add(schedule, chunk, rank_at(shape, node + far, g), rank_at(shape, node + other, g),
                                      step + 2, false) &&
                   spread(schedule, shape, chunk, node + other, g, step + 3);
        }
    }
    return fine;
}

/*
 * Two steps: half of the vector goes to the ranks of the root's position and within its node, and then from them to all
 * others of their nodes; the other half crosses by all other positions.
 */
static synth_schedule_t *nodes_broadcast_at_once(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                                 int most_chunks)
{
    int root_at = position_of(shape, root), node = root_at / shape->gpus, position = root_at % shape->gpus;
    synth_schedule_t *schedule =
        fits(2, most_chunks, 0) ? synth_schedule_new(SYNTH_BROADCAST, topology->ranks, root, 2) : NULL;
    bool fine = schedule != NULL && cross(schedule, shape, 0, node, position, 0) &&
                cross(schedule, shape, 1, node, position, 1);

    for (int chunk = 0; fine && chunk < 2; ++chunk) {
        fine = spread(schedule, shape, chunk, node, position, 0);
    }
    for (int far = 1; fine && far < shape->nodes; ++far) {
        fine = spread(schedule, shape, 0, node + far, position, 1);
    }
    for (int g = 0; fine && g < shape->gpus; ++g) {
        fine = g == position || cross(schedule, shape, 1, node, g, 1);
    }
    return finish(topology, schedule, 2, fine);
}

/* On each position the broadcast of a switch between nodes, with a step before and one after within nodes. */
static synth_schedule_t *nodes_broadcast(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                         int steps, int times, int most_chunks)
{
    int n = topology->ranks, waves = steps - 3, far = shape->nodes - 1, chunk = 0;
    int root_at = position_of(shape, root);
    int64_t chunks = (int64_t)times * shape->gpus * (waves * far + 1);
    bool fine = steps >= 3 && fits(chunks, most_chunks, chunks * (n - 1));
    synth_schedule_t *schedule = fine ? synth_schedule_new(SYNTH_BROADCAST, n, root, (int)chunks) : NULL;

    fine = schedule != NULL;
    for (int g = 0; g < shape->gpus; ++g) {
        for (int wave = 0; wave <= waves; ++wave) {
            for (int k = 0; fine && k < (wave < waves ? far : 1) * times; ++k, ++chunk) {
                fine = broadcast_by(schedule, shape, chunk, root_at, g, wave < waves ? k / times + 1 : 0, wave);
            }
        }
    }
    return finish(topology, schedule, steps, fine);
}

/* Chunks of several parts may fill rounds better. */
static synth_schedule_t *best_broadcast(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                        int steps, int most_chunks)
{
    synth_schedule_t *best = NULL;

    for (int times = 1; times <= shape->inside; ++times) {
        synth_schedule_t *one = nodes_broadcast(topology, shape, root, steps, times, most_chunks), *worse = one;

        if (one != NULL && (best == NULL || synth_compare(synth_schedule_ratio(one), synth_schedule_ratio(best)) < 0)) {
            worse = best;
            best = one;
        }
        synth_schedule_free(worse);
    }
    return best;
}

synth_schedule_t *synth_closed(const synth_topology_t *topology, const synth_shape_t *shape,
                               synth_collective_t collective, int root, int steps, int most_chunks)
{
    if (shape->kind == SYNTH_COMPLETE && collective == SYNTH_BROADCAST) {
        return complete_broadcast(topology, shape, root, steps, most_chunks);
    }
    if (shape->kind != SYNTH_NODES) {
        return NULL;
    }
    switch (collective) {
    case SYNTH_ALLGATHER:
        return nodes_allgather(topology, shape, steps, most_chunks);
    case SYNTH_GATHER:
    case SYNTH_SCATTER:
        return nodes_rooted(topology, shape, collective, root, steps, most_chunks);
    case SYNTH_ALLTOALL:
        return nodes_alltoall(topology, shape, steps, most_chunks);
    case SYNTH_BROADCAST:
        return steps == 2 ? nodes_broadcast_at_once(topology, shape, root, most_chunks)
                          : best_broadcast(topology, shape, root, steps, most_chunks);
    default:
        return NULL;
    }
}

synth_rational_t synth_closed_bound(const synth_shape_t *shape, synth_collective_t collective, int steps)
{
    int64_t far = (int64_t)(shape->nodes - 1) * shape->gpus, growth = 0, power = 1;
    bool gathers = collective == SYNTH_ALLGATHER || collective == SYNTH_GATHER || collective == SYNTH_SCATTER;

    if (shape->kind == SYNTH_COMPLETE && collective == SYNTH_BROADCAST) {
        int64_t others = shape->gpus - 1;

        return synth_fraction(steps * others, ((steps - 1) * others + 1) * shape->port);
    }
    if (shape->kind == SYNTH_NODES && collective == SYNTH_BROADCAST && steps == 2) {
        return synth_fraction(shape->nodes - 1, shape->port); /* by one NIC in the first step, by one in the last */
    }
    if (shape->kind != SYNTH_NODES || !gathers) {
        return synth_fraction(0, 1);
    }
    for (int s = 0; s < steps; ++s, power *= shape->inside / shape->port) {
        growth += power;
        if (growth > MOST_GROWTH) {
            return synth_fraction(0, 1);
        }
    }
    return synth_fraction(far * growth, (shape->gpus * growth - (shape->gpus - 1)) * shape->port);
}
