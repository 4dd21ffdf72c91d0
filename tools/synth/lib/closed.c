/*
 * Schedules and bounds by formulas. All schedules are pipelines, and the length of their stages follows from the speeds
 * of links and ports. The bounds come from cuts of the graph that has each rank once for each step
 * (docs/synthesis-theory.md).
 */
#include "tools/synth/lib/closed.h"

#include <stdlib.h>

/* Above this, the bound hardly differs from the bound for any number of steps. */
#define MAX_GROWTH INT64_C(1000000000)

enum { FEW_CHUNKS = 64 }; /* the second choice of choose_parts is taken up to this number of chunks */

/*
 * Returns true if a schedule of this many chunks and sends is allowed. Callers ask before they make a schedule, so that
 * no schedule is made in vain.
 */
static bool fits(int64_t chunks, int max_chunks, int64_t sends)
{
    return chunks <= max_chunks && chunks <= SYNTH_MAX_CHUNKS && sends <= SYNTH_MAX_SENDS;
}

/*
 * Makes a broadcast on a mesh or a switch. In each step but the last, the root sends different chunks to each rank; in
 * the following step, each rank sends its chunks to all other ranks. Chunks that are sent in the last step cannot be
 * forwarded any more, so the root sends them to all ranks directly. Each rank gets as many chunks as are needed to fill
 * whole rounds of the root's port. Returns NULL if there would be too many chunks or sends, or if memory runs out.
 */
static synth_schedule_t *complete_broadcast(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                            int steps, int max_chunks)
{
    int ranks = topology->ranks, per_rank = shape->port / (int)synth_gcd(shape->port, ranks - 1), waves = steps - 1;
    int64_t chunks = (int64_t)per_rank * (waves * (ranks - 1) + 1);
    synth_schedule_t *schedule = NULL;
    int chunk = 0;
    bool ok = fits(chunks, max_chunks, chunks * (ranks - 1));

    schedule = ok ? synth_schedule_new(SYNTH_BROADCAST, ranks, root, (int)chunks) : NULL;
    ok = schedule != NULL;
    for (int wave = 0; wave < waves; ++wave) {
        for (int i = 0; i < (ranks - 1) * per_rank; ++i, ++chunk) {
            int receiver = (root + 1 + i / per_rank) % ranks;

            ok = ok && synth_schedule_add(schedule, chunk, root, receiver, wave, false);
            for (int to = 0; ok && to < ranks; ++to) {
                ok = to == root || to == receiver || synth_schedule_add(schedule, chunk, receiver, to, wave + 1, false);
            }
        }
    }
    for (int i = 0; i < per_rank; ++i, ++chunk) {
        for (int to = 0; ok && to < ranks; ++to) {
            ok = to == root || synth_schedule_add(schedule, chunk, root, to, steps - 1, false);
        }
    }
    return synth_schedule_finish(topology, schedule, steps, ok);
}

/*
 * Returns the rank at a position of a node. Numbers of nodes wrap round, so `node` may be a node's number plus a
 * distance.
 */
static int rank_at(const synth_shape_t *shape, int node, int position)
{
    return shape->rank_of[(node % shape->nodes) * shape->gpus + position];
}

/* Returns the index of a rank in shape->rank_of: node * gpus + position. Every rank has one, so the loop ends. */
static int find_index_of_rank(const synth_shape_t *shape, int rank)
{
    int index = 0;

    while (shape->rank_of[index] != rank) {
        ++index;
    }
    return index;
}

/* Adds the sends of a chunk from one rank to all others of its node. Returns false if memory runs out. */
static bool spread_in_node(synth_schedule_t *schedule, const synth_shape_t *shape, int chunk, int node, int position,
                           int step)
{
    bool ok = true;

    for (int to = 0; ok && to < shape->gpus; ++to) {
        ok = to == position ||
             synth_schedule_add(schedule, chunk, rank_at(shape, node, position), rank_at(shape, node, to), step, false);
    }
    return ok;
}

/*
 * Adds the sends of a chunk from one rank to the ranks of the same position on all other nodes. Returns false if memory
 * runs out.
 */
static bool cross_to_nodes(synth_schedule_t *schedule, const synth_shape_t *shape, int chunk, int node, int position,
                           int step)
{
    bool ok = true;

    for (int distance = 1; ok && distance < shape->nodes; ++distance) {
        ok = synth_schedule_add(schedule, chunk, rank_at(shape, node, position),
                                rank_at(shape, node + distance, position), step, false);
    }
    return ok;
}

/* How the chunks of a rank are divided among steps. */
typedef struct {
    int in_step[SYNTH_MAX_STEPS]; /* chunks that leave the rank's node in each step */
    int64_t chunks;               /* their sum; more than SYNTH_MAX_CHUNKS if there are too many */
} parts_t;

/*
 * Divides chunks among steps. Chunks that cross to other nodes in one step are spread within these nodes in the next
 * step. Links within nodes are q = inside / port times as fast as a port, so each step has 1/q of the chunks of the
 * step before. `before_last` chunks cross in the step before the last, and `last` chunks in the last step. `steps` is
 * at least 2.
 *
 * Chunks of the last step cannot be spread within the other nodes any more. Therefore all ranks of the sending node get
 * them in the first step, and each of these ranks sends them to the rank of its position on every other node. If there
 * are too many chunks, parts->chunks becomes larger than any limit allows, and in_step[] is not complete.
 */
static void divide_chunks(const synth_shape_t *shape, int steps, int64_t before_last, int last, parts_t *parts)
{
    int64_t chunks = before_last;

    parts->chunks = parts->in_step[steps - 1] = last;
    for (int step = steps - 2; step >= 0; --step, chunks *= shape->inside / shape->port) {
        if (chunks > SYNTH_MAX_CHUNKS) {
            parts->chunks = SYNTH_MAX_CHUNKS + 1;
            return;
        }
        parts->in_step[step] = (int)chunks;
        parts->chunks += chunks;
    }
}

/*
 * Chooses how many chunks cross in each step. The first choice meets the bound. If it has too many chunks, the function
 * tries two choices without chunks in the last step. The first of them fills whole rounds within nodes, and the second
 * has as few chunks as possible. Returns false if even this one has too many.
 */
static bool choose_parts(const synth_shape_t *shape, int steps, int max_chunks, parts_t *parts)
{
    int64_t speed_ratio = shape->inside / shape->port, ranks = (int64_t)shape->nodes * shape->gpus;
    int64_t sends_per_chunk = ranks * (ranks - 1);

    divide_chunks(shape, steps, shape->port * shape->gpus * speed_ratio, shape->port, parts);
    if (fits(parts->chunks, max_chunks, parts->chunks * sends_per_chunk)) {
        return true;
    }
    divide_chunks(shape, steps, speed_ratio, 0, parts);
    if (parts->chunks <= FEW_CHUNKS && fits(parts->chunks, max_chunks, parts->chunks * sends_per_chunk)) {
        return true;
    }
    divide_chunks(shape, steps, 1, 0, parts);
    return fits(parts->chunks, max_chunks, parts->chunks * sends_per_chunk);
}

/*
 * Adds the sends of an all-gather that bring the chunks of one rank to all others. Every chunk is spread in the rank's
 * own node in step 0, crosses to the other nodes in its step, and is spread there in the next one. Returns false if
 * memory runs out.
 */
static bool add_allgather_of(synth_schedule_t *schedule, const synth_shape_t *shape, const parts_t *parts, int steps,
                             int node, int position)
{
    int chunk = rank_at(shape, node, position) * (int)parts->chunks;
    bool ok = true;

    for (int step = 0; step < steps; ++step) {
        for (int i = 0; ok && i < parts->in_step[step]; ++i, ++chunk) {
            ok = spread_in_node(schedule, shape, chunk, node, position, 0);
            if (step < steps - 1) {
                ok = ok && cross_to_nodes(schedule, shape, chunk, node, position, step);
                for (int distance = 1; ok && distance < shape->nodes; ++distance) {
                    ok = spread_in_node(schedule, shape, chunk, node + distance, position, step + 1);
                }
                continue;
            }
            /* All ranks of the node have had the chunk since step 0. */
            for (int other = 0; ok && other < shape->gpus; ++other) {
                ok = cross_to_nodes(schedule, shape, chunk, node, other, step);
            }
        }
    }
    return ok;
}

/* Makes an all-gather on nodes. Returns NULL if steps or chunks do not allow it, or if memory runs out. */
static synth_schedule_t *nodes_allgather(const synth_topology_t *topology, const synth_shape_t *shape, int steps,
                                         int max_chunks)
{
    int ranks = topology->ranks;
    synth_schedule_t *schedule;
    parts_t parts;
    bool ok;

    if (steps < 2 || !choose_parts(shape, steps, max_chunks, &parts)) {
        return NULL;
    }
    schedule = synth_schedule_new(SYNTH_ALLGATHER, ranks, 0, (int)parts.chunks);
    ok = schedule != NULL;
    for (int i = 0; ok && i < ranks; ++i) {
        ok = add_allgather_of(schedule, shape, &parts, steps, i / shape->gpus, i % shape->gpus);
    }
    return synth_schedule_finish(topology, schedule, steps, ok);
}

/*
 * Makes a gather or scatter on nodes. The sends of an all-gather that bring chunks to the root form a gather that takes
 * no more rounds. Reversed, this gather is a scatter, since these machines have equal links in both directions. Returns
 * NULL if there are too few steps or too many chunks, or if memory runs out.
 */
static synth_schedule_t *nodes_gather_or_scatter(const synth_topology_t *topology, const synth_shape_t *shape,
                                                 synth_collective_t collective, int root, int steps, int max_chunks)
{
    synth_schedule_t *gather = nodes_allgather(topology, shape, steps, max_chunks), *scatter;
    bool ok = gather != NULL;

    if (ok) {
        gather->collective = SYNTH_GATHER;
        gather->root = root;
        ok = synth_schedule_prune(gather);
    }
    if (collective == SYNTH_GATHER || !ok) {
        return synth_schedule_finish(topology, gather, steps, ok);
    }
    scatter = synth_schedule_new(SYNTH_SCATTER, topology->ranks, root, gather->chunks);
    ok = scatter != NULL;
    for (int i = 0; ok && i < gather->send_count; ++i) {
        const synth_send_t *send = &gather->sends[i];

        ok = synth_schedule_add(scatter, send->chunk, send->to, send->from, steps - 1 - send->step, false);
    }
    synth_schedule_free(gather);
    return synth_schedule_finish(topology, scatter, steps, ok);
}

/*
 * Makes an all-to-all on nodes in two steps. Consider the chunks to ranks of another node and another position. Half of
 * them first cross to the other node and are then sent within it. The other half is first sent within the sender's node
 * and then crosses. So the NICs are busy in both steps. With two nodes, each pair of ranks has two chunks, so that they
 * can be halved. Returns NULL if `steps` is not 2, if there are too many chunks or sends, or if memory runs out.
 */
static synth_schedule_t *nodes_alltoall(const synth_topology_t *topology, const synth_shape_t *shape, int steps,
                                        int max_chunks)
{
    int ranks = topology->ranks, per_pair = shape->nodes == 2 ? 2 : 1;
    /* This is half of the chunks from a rank to one position of the other nodes, rounded down. */
    int half = (shape->nodes - 1) * per_pair / 2;
    synth_schedule_t *schedule;
    bool ok = fits((int64_t)ranks * per_pair, max_chunks, (int64_t)2 * ranks * ranks * per_pair) && steps == 2;

    schedule = ok ? synth_schedule_new(SYNTH_ALLTOALL, ranks, 0, ranks * per_pair) : NULL;
    ok = schedule != NULL;
    for (int i = 0; ok && i < ranks * ranks * per_pair; ++i) {
        int from = i / per_pair / ranks, to = i / per_pair % ranks; /* indices in rank_of, not ranks */
        int node = from / shape->gpus, far_node = to / shape->gpus;
        int from_position = from % shape->gpus, to_position = to % shape->gpus;
        int distance = (far_node + shape->nodes - node) % shape->nodes;
        int sender = shape->rank_of[from], receiver = shape->rank_of[to];
        int chunk = (sender * ranks + receiver) * per_pair + i % per_pair;
        /*
         * The chunks to this position on other nodes are ordered by the distance of the nodes. The first half of them
         * crosses first.
         */
        bool crosses_first = (distance - 1) * per_pair + i % per_pair < half;
        int via = crosses_first ? rank_at(shape, far_node, from_position) : rank_at(shape, node, to_position);

        if (from == to) {
            continue;
        }
        if (distance == 0 || from_position == to_position) {
            ok = synth_schedule_add(schedule, chunk, sender, receiver, 0, false);
        } else {
            ok = synth_schedule_add(schedule, chunk, sender, via, 0, false) &&
                 synth_schedule_add(schedule, chunk, via, receiver, 1, false);
        }
    }
    return synth_schedule_finish(topology, schedule, 2, ok);
}

/*
 * Adds the sends of one chunk that crosses between nodes at the position `via`. In `step` the root sends the chunk to
 * that position of its own node. From there it is sent to the other nodes, and within each node as soon as it has
 * arrived there.
 * - If `distance` is 0, the chunk crosses to all nodes at once. All ranks have it after step + 2.
 * - Otherwise it crosses to the node that is `distance` nodes further, which sends it to the other nodes. All ranks
 * have it after step + 3.
 *
 * Returns false if memory runs out.
 */
static bool add_broadcast_via(synth_schedule_t *schedule, const synth_shape_t *shape, int chunk, int root_index,
                              int via, int distance, int step)
{
    int node = root_index / shape->gpus, position = root_index % shape->gpus;
    bool ok = via == position ||
              synth_schedule_add(schedule, chunk, shape->rank_of[root_index], rank_at(shape, node, via), step, false);

    for (int to = 0; ok && to < shape->gpus; ++to) {
        ok = to == via || to == position ||
             synth_schedule_add(schedule, chunk, rank_at(shape, node, via), rank_at(shape, node, to), step + 1, false);
    }
    if (distance == 0) {
        ok = ok && cross_to_nodes(schedule, shape, chunk, node, via, step + 1);
        for (int other = 1; ok && other < shape->nodes; ++other) {
            ok = spread_in_node(schedule, shape, chunk, node + other, via, step + 2);
        }
        return ok;
    }
    ok = ok &&
         synth_schedule_add(schedule, chunk, rank_at(shape, node, via), rank_at(shape, node + distance, via), step + 1,
                            false) &&
         spread_in_node(schedule, shape, chunk, node + distance, via, step + 2);
    for (int other = 1; ok && other < shape->nodes; ++other) {
        if (other != distance) {
            ok = synth_schedule_add(schedule, chunk, rank_at(shape, node + distance, via),
                                    rank_at(shape, node + other, via), step + 2, false) &&
                 spread_in_node(schedule, shape, chunk, node + other, via, step + 3);
        }
    }
    return ok;
}

/*
 * Makes a broadcast on nodes in two steps, with two chunks. In step 0 the root sends both chunks to the other ranks of
 * its node, and chunk 0 to the rank of its position on each other node. In step 1 those ranks spread chunk 0 within
 * their nodes. At the same time every rank of the root's node, including the root, sends chunk 1 to the rank of its
 * position on each other node. Returns NULL if there are too many sends or memory runs out.
 */
static synth_schedule_t *nodes_broadcast_two_steps(const synth_topology_t *topology, const synth_shape_t *shape,
                                                   int root, int max_chunks)
{
    int root_index = find_index_of_rank(shape, root), node = root_index / shape->gpus,
        position = root_index % shape->gpus;
    synth_schedule_t *schedule = fits(2, max_chunks, 2 * (topology->ranks - 1))
                                     ? synth_schedule_new(SYNTH_BROADCAST, topology->ranks, root, 2)
                                     : NULL;
    bool ok = schedule != NULL && cross_to_nodes(schedule, shape, 0, node, position, 0) &&
              cross_to_nodes(schedule, shape, 1, node, position, 1);

    for (int chunk = 0; ok && chunk < 2; ++chunk) {
        ok = spread_in_node(schedule, shape, chunk, node, position, 0);
    }
    for (int distance = 1; ok && distance < shape->nodes; ++distance) {
        ok = spread_in_node(schedule, shape, 0, node + distance, position, 1);
    }
    for (int other = 0; ok && other < shape->gpus; ++other) {
        ok = other == position || cross_to_nodes(schedule, shape, 1, node, other, 1);
    }
    return synth_schedule_finish(topology, schedule, 2, ok);
}

/*
 * Makes a broadcast on nodes. The ranks of each position do what complete_broadcast does, with nodes in place of ranks.
 * One step within nodes comes before, and one after it, so there are at least three steps. The last wave crosses to all
 * nodes at once, since other nodes can no longer forward it. `per_node` is the number of chunks that each node gets
 * from the root's node in one step through each position. Returns NULL if there are too few steps or too many chunks,
 * or if memory runs out.
 */
static synth_schedule_t *nodes_broadcast(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                         int steps, int per_node, int max_chunks)
{
    int ranks = topology->ranks, waves = steps - 3, other_nodes = shape->nodes - 1, chunk = 0;
    int root_index = find_index_of_rank(shape, root);
    int64_t chunks = (int64_t)per_node * shape->gpus * (waves * other_nodes + 1);
    bool ok = steps >= 3 && fits(chunks, max_chunks, chunks * (ranks - 1));
    synth_schedule_t *schedule = ok ? synth_schedule_new(SYNTH_BROADCAST, ranks, root, (int)chunks) : NULL;

    ok = schedule != NULL;
    for (int via = 0; via < shape->gpus; ++via) {
        for (int wave = 0; wave <= waves; ++wave) {
            for (int i = 0; ok && i < (wave < waves ? other_nodes : 1) * per_node; ++i, ++chunk) {
                ok = add_broadcast_via(schedule, shape, chunk, root_index, via, wave < waves ? i / per_node + 1 : 0,
                                       wave);
            }
        }
    }
    return synth_schedule_finish(topology, schedule, steps, ok);
}

/*
 * Makes a broadcast for each value of `per_node`, because some values fill rounds better than others. Returns the
 * broadcast with the fewest rounds for each chunk, or NULL if there is none.
 */
static synth_schedule_t *best_broadcast(const synth_topology_t *topology, const synth_shape_t *shape, int root,
                                        int steps, int max_chunks)
{
    synth_schedule_t *best = NULL;

    for (int per_node = 1; per_node <= shape->inside; ++per_node) {
        synth_schedule_t *schedule = nodes_broadcast(topology, shape, root, steps, per_node, max_chunks);
        synth_schedule_t *worse = schedule;

        if (schedule != NULL &&
            (best == NULL || synth_compare(synth_schedule_ratio(schedule), synth_schedule_ratio(best)) < 0)) {
            worse = best;
            best = schedule;
        }
        synth_schedule_free(worse);
    }
    return best;
}

/* Chooses the formula by the kind of the topology and by the collective. Each formula itself checks the limits. */
synth_schedule_t *synth_closed_schedule(const synth_topology_t *topology, const synth_shape_t *shape,
                                        synth_collective_t collective, int root, int steps, int max_chunks)
{
    if (shape->kind == SYNTH_COMPLETE && collective == SYNTH_BROADCAST) {
        return complete_broadcast(topology, shape, root, steps, max_chunks);
    }
    if (shape->kind != SYNTH_NODES) {
        return NULL;
    }
    switch (collective) {
    case SYNTH_ALLGATHER:
        return nodes_allgather(topology, shape, steps, max_chunks);
    case SYNTH_GATHER:
    case SYNTH_SCATTER:
        return nodes_gather_or_scatter(topology, shape, collective, root, steps, max_chunks);
    case SYNTH_ALLTOALL:
        return nodes_alltoall(topology, shape, steps, max_chunks);
    case SYNTH_BROADCAST:
        return steps == 2 ? nodes_broadcast_two_steps(topology, shape, root, max_chunks)
                          : best_broadcast(topology, shape, root, steps, max_chunks);
    default:
        return NULL;
    }
}

synth_rational_t synth_closed_bound(const synth_shape_t *shape, synth_collective_t collective, int steps)
{
    int64_t far_ranks = (int64_t)(shape->nodes - 1) * shape->gpus, growth = 0, power = 1;
    bool gathers = collective == SYNTH_ALLGATHER || collective == SYNTH_GATHER || collective == SYNTH_SCATTER;

    if (shape->kind == SYNTH_COMPLETE && collective == SYNTH_BROADCAST) {
        int64_t others = shape->gpus - 1;

        /* This is the ratio of the schedule of complete_broadcast. */
        return synth_fraction(steps * others, ((steps - 1) * others + 1) * shape->port);
    }
    if (shape->kind == SYNTH_NODES && collective == SYNTH_BROADCAST && steps == 2) {
        /* One NIC is the bottleneck of the first step, and one of the last. */
        return synth_fraction(shape->nodes - 1, shape->port);
    }
    if (shape->kind != SYNTH_NODES || !gathers) {
        return synth_fraction(0, 1);
    }
    /* growth = 1 + q + q^2 + ..., with one term for each step. Links within nodes are q times as fast as a port. */
    for (int step = 0; step < steps; ++step, power *= shape->inside / shape->port) {
        growth += power;
        if (growth > MAX_GROWTH) {
            return synth_fraction(0, 1);
        }
    }
    return synth_fraction(far_ranks * growth, (shape->gpus * growth - (shape->gpus - 1)) * shape->port);
}
