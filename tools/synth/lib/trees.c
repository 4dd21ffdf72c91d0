/*
 * Packs trees into the links, link by link: a tree takes a link only if the remaining trees still fit into the
 * remaining capacity. Schedules send along these trees.
 */
#include "tools/synth/lib/trees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/free_roots.h"
#include "tools/synth/lib/slp.h"

enum {
    MAX_TREES = 512, /* most trees of one packing */
    MAX_PARTS = 48,  /* chunks of a rank, or parts of a vector, up to which packings of shares are tried */
    MAX_PACKED = 24  /* most ranks; with more ranks, packing takes too long */
};

#define ROUNDING 1e-4 /* by how much results of linear programs may be off */

/* A tree that spans all ranks. */
typedef struct {
    int root, height;                    /* height: the largest depth */
    signed char parent[SYNTH_MAX_RANKS]; /* [rank]: its parent, for all ranks but the root */
    signed char depth[SYNTH_MAX_RANKS];  /* 0: the root; -1: the rank is not in the tree yet */
} tree_t;

/* The trees of a packing. */
typedef struct {
    tree_t tree[MAX_TREES];
    int count;
} forest_t;

/* A packing in progress: the free capacity of each link, and the trees that are not made yet. */
typedef struct {
    const synth_topology_t *topology;
    bool backwards;                  /* trees lead to their root, not away from it */
    int *capacity;                   /* [link]: the capacity that no tree uses yet */
    int trees_left[SYNTH_MAX_RANKS]; /* [root]: the number of its trees that are not made yet */
} packing_t;

/* Returns the end of a link that is nearer to the root. */
static int near_end(const packing_t *packing, int link)
{
    const synth_link_t *ends = &packing->topology->links[link];

    return packing->backwards ? ends->to : ends->from;
}

/* Returns the end of a link that is farther from the root. */
static int far_end(const packing_t *packing, int link)
{
    const synth_link_t *ends = &packing->topology->links[link];

    return packing->backwards ? ends->from : ends->to;
}

/*
 * Returns true if all trees that are not made yet can reach a rank together, each by its own path (Edmonds' condition).
 * If this holds for every rank, the packing can be completed. The flow begins at an additional vertex, `ranks`, which
 * has an arc to each root with the root's number of trees as its capacity. Also returns false if memory runs out.
 */
static bool can_reach(const packing_t *packing, int rank)
{
    const synth_topology_t *topology = packing->topology;
    int ranks = topology->ranks, trees = 0;
    synth_flow_t *flow = synth_flow_new(ranks + 1, topology->link_count + ranks);
    bool fits;

    if (flow == NULL) {
        return false;
    }
    for (int link = 0; link < topology->link_count; ++link) {
        synth_flow_arc(flow, near_end(packing, link), far_end(packing, link), packing->capacity[link]);
    }
    for (int root = 0; root < ranks; ++root) {
        synth_flow_arc(flow, ranks, root, packing->trees_left[root]);
        trees += packing->trees_left[root];
    }
    fits = synth_flow_run(flow, ranks, rank, trees) == trees;
    synth_flow_free(flow);
    return fits;
}

/*
 * Returns the link by which a tree grows next, or -1 if there is none. Takes the link that starts nearest to the root
 * and, if there are several, the one with the largest free capacity.
 */
static int next_link(packing_t *packing, const tree_t *tree, const bool *refused)
{
    int best = -1;

    for (int link = 0; link < packing->topology->link_count; ++link) {
        int near = near_end(packing, link);

        if (packing->capacity[link] > 0 && !refused[link] && tree->depth[near] >= 0 &&
            tree->depth[far_end(packing, link)] < 0 &&
            (best < 0 || tree->depth[near] < tree->depth[near_end(packing, best)] ||
             (tree->depth[near] == tree->depth[near_end(packing, best)] &&
              packing->capacity[link] > packing->capacity[best]))) {
            best = link;
        }
    }
    return best;
}

/*
 * Extends one tree, whose root is set, to all ranks. It uses only links that the trees that are not made yet do not
 * need. Returns false if the tree cannot be completed, or if memory runs out; the whole packing has then failed.
 */
static bool grow_tree(packing_t *packing, tree_t *tree)
{
    bool refused[SYNTH_MAX_LINKS] = {false};
    int ranks = 1;

    memset(tree->depth, -1, sizeof(tree->depth));
    tree->depth[tree->root] = 0;
    tree->height = 0;
    --packing->trees_left[tree->root];
    while (ranks < packing->topology->ranks) {
        int link = next_link(packing, tree, refused), rank;

        if (link < 0) {
            return false;
        }
        rank = far_end(packing, link);
        --packing->capacity[link];
        if (!can_reach(packing, rank)) {
            ++packing->capacity[link];
            refused[link] = true; /* other trees need this link, and will still need it when this tree is larger */
            continue;
        }
        tree->parent[rank] = (signed char)near_end(packing, link);
        tree->depth[rank] = (signed char)(tree->depth[near_end(packing, link)] + 1);
        tree->height = tree->depth[rank] > tree->height ? tree->depth[rank] : tree->height;
        ++ranks;
    }
    return true;
}

/*
 * Packs all trees and adds them to the forest. Returns false if they do not fit, if there are more than MAX_TREES, or
 * if memory runs out; the forest must not then be used.
 */
static bool pack_trees(packing_t *packing, forest_t *forest)
{
    for (int rank = 0; rank < packing->topology->ranks; ++rank) {
        if (packing->topology->ranks > 1 && !can_reach(packing, rank)) {
            return false;
        }
    }
    for (bool has_more = true; has_more;) { /* the roots take turns, so that each of them gets good links */
        has_more = false;
        for (int rank = 0; rank < packing->topology->ranks; ++rank) {
            if (packing->trees_left[rank] == 0) {
                continue;
            }
            has_more = true;
            if (forest->count == MAX_TREES) {
                return false;
            }
            forest->tree[forest->count].root = rank;
            if (!grow_tree(packing, &forest->tree[forest->count++])) {
                return false;
            }
        }
    }
    return true;
}

/* Returns the height of the highest tree, in steps; 0 without trees. */
static int greatest_height(const forest_t *forest)
{
    int height = 0;

    for (int i = 0; i < forest->count; ++i) {
        height = forest->tree[i].height > height ? forest->tree[i].height : height;
    }
    return height;
}

/*
 * Adds the sends of one chunk along one tree, from `first_step` on. The sends lead away from the root or, if `adds` is
 * true, towards the root, where all of them have arrived after `height` steps. Returns false if memory runs out.
 */
static bool send_along(synth_schedule_t *schedule, const tree_t *tree, int chunk, int first_step, int height, bool adds)
{
    for (int rank = 0; rank < schedule->ranks; ++rank) {
        int step = first_step + (adds ? height - tree->depth[rank] : tree->depth[rank] - 1);

        if (rank != tree->root && !synth_schedule_add(schedule, chunk, adds ? rank : tree->parent[rank],
                                                      adds ? tree->parent[rank] : rank, step, adds)) {
            return false;
        }
    }
    return true;
}

struct synth_trees {
    synth_collective_t collective;
    int root, chunks; /* chunks: the number of trees, of one chunk each, of each rank that has chunks */
    forest_t forest;
};

int synth_trees_chunks(const synth_trees_t *trees)
{
    return trees->chunks;
}

void synth_trees_free(synth_trees_t *trees)
{
    free(trees);
}

/* Returns true if a rank has chunks, and so is the root of trees. */
static bool has_chunks(const synth_trees_t *trees, int rank)
{
    return trees->collective == SYNTH_ALLGATHER || rank == trees->root;
}

/*
 * Packs the trees of all ranks together into `rounds` times the capacity of all links. `capacity` has room for all
 * links. Returns false if they do not fit or memory runs out.
 */
static bool pack_links(const synth_topology_t *topology, int rounds, int *capacity, synth_trees_t *trees)
{
    packing_t packing = {.topology = topology, .capacity = capacity};

    for (int link = 0; link < topology->link_count; ++link) {
        capacity[link] = topology->links[link].capacity * rounds;
    }
    for (int rank = 0; rank < topology->ranks; ++rank) {
        packing.trees_left[rank] = has_chunks(trees, rank) ? trees->chunks : 0;
    }
    trees->forest.count = 0;
    return pack_trees(&packing, &trees->forest);
}

/*
 * Packs the trees of one rank after another, each into its own share of the links (see synth_slp_loads). Shares are
 * rounded down to whole trees, so this may fail for some numbers of chunks and succeed for others. `capacity` has room
 * for all links. Returns false if the trees do not fit or memory runs out.
 */
static bool pack_loads(const synth_topology_t *topology, const double *load, int *capacity, synth_trees_t *trees)
{
    bool ok = true;

    trees->forest.count = 0;
    for (int rank = 0; ok && rank < topology->ranks; ++rank) {
        packing_t packing = {.topology = topology, .capacity = capacity};

        for (int link = 0; link < topology->link_count; ++link) {
            capacity[link] = (int)floor(load[rank * topology->link_count + link] * trees->chunks + ROUNDING);
        }
        packing.trees_left[rank] = trees->chunks;
        ok = !has_chunks(trees, rank) || pack_trees(&packing, &trees->forest);
    }
    return ok;
}

/*
 * Lets all trees share the links if there are no groups. With groups, the linear program first divides the links among
 * the ranks.
 */
synth_trees_t *synth_trees_new(const synth_topology_t *topology, synth_collective_t collective, int root, int rounds,
                               int chunks, double seconds)
{
    int roots = collective == SYNTH_ALLGATHER ? topology->ranks : 1;
    int *capacity = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    double *load = calloc((size_t)(topology->ranks * topology->link_count + 1), sizeof(*load));
    synth_trees_t *trees = calloc(1, sizeof(*trees));
    bool ok = capacity != NULL && load != NULL && trees != NULL && topology->ranks <= MAX_PACKED &&
              (long)chunks * roots <= MAX_TREES && (collective == SYNTH_ALLGATHER || collective == SYNTH_BROADCAST);
    bool is_packed = false;

    if (ok) {
        trees->collective = collective;
        trees->root = root;
        trees->chunks = chunks;
        if (topology->group_count == 0) {
            is_packed = pack_links(topology, rounds, capacity, trees);
        } else if (synth_slp_loads(topology, collective, root, seconds, load)) {
            is_packed = pack_loads(topology, load, capacity, trees);
            /* With more chunks, less is lost when shares are rounded down. */
            while (!is_packed && trees->chunks + chunks <= MAX_PARTS && (trees->chunks + chunks) * roots <= MAX_TREES) {
                trees->chunks += chunks;
                is_packed = pack_loads(topology, load, capacity, trees);
            }
        }
    }
    free(capacity);
    free(load);
    if (!is_packed) {
        free(trees);
        return NULL;
    }
    return trees;
}

synth_schedule_t *synth_trees_schedule(const synth_topology_t *topology, const synth_trees_t *trees, int units)
{
    int chunks = trees->chunks, trees_before[SYNTH_MAX_RANKS] = {0}, height = greatest_height(&trees->forest);
    synth_schedule_t *schedule = synth_schedule_new(trees->collective, topology->ranks, trees->root, chunks * units);
    bool ok = schedule != NULL;

    for (int i = 0; ok && i < trees->forest.count; ++i) {
        const tree_t *tree = &trees->forest.tree[i];
        /* Tree k of a rank carries chunk k of each of the rank's units. */
        int first_chunk =
            trees_before[tree->root]++ + (trees->collective == SYNTH_ALLGATHER ? tree->root * chunks * units : 0);

        for (int unit = 0; ok && unit < units; ++unit) { /* each unit begins one step after the previous unit */
            ok = send_along(schedule, tree, first_chunk + unit * chunks, unit, height, false);
        }
    }
    return schedule != NULL ? synth_schedule_finish(topology, schedule, units - 1 + height, ok) : NULL;
}

struct synth_shares {
    forest_t in, out; /* trees to the roots and away from the roots; tree i of both forests has the same root */
};

int synth_shares_chunks(const synth_shares_t *shares)
{
    return shares->in.count;
}

void synth_shares_free(synth_shares_t *shares)
{
    free(shares);
}

/*
 * Packs the trees of an all-reduce of `parts` parts, with the shares of roots and links from the linear program. Both
 * forests get their trees root by root, so that tree i has the same root in both. Returns false if a root's share is
 * not a whole number of parts, if the trees do not fit, or if memory runs out.
 */
static bool pack_shares(const synth_topology_t *topology, const synth_free_roots_t *solution, int parts,
                        synth_shares_t *shares)
{
    int links = topology->link_count, *capacity = malloc(sizeof(int) * (size_t)(links + 1)), all_trees = 0;
    bool ok = capacity != NULL;

    shares->in.count = shares->out.count = 0;
    for (int root = 0; ok && root < topology->ranks; ++root) {
        double share = solution->share[root] * parts;
        int trees = (int)lround(share);

        ok = fabs(share - trees) < ROUNDING;
        all_trees += trees;
        for (int direction = 0; ok && trees > 0 && direction < 2; ++direction) {
            packing_t packing = {.topology = topology, .backwards = direction == 1, .capacity = capacity};

            for (int link = 0; link < links; ++link) {
                capacity[link] =
                    (int)floor(solution->load[(direction * topology->ranks + root) * links + link] * parts + ROUNDING);
            }
            packing.trees_left[root] = trees;
            ok = pack_trees(&packing, direction == 1 ? &shares->in : &shares->out);
        }
    }
    free(capacity);
    return ok && all_trees == parts && shares->in.count == parts && shares->out.count == parts;
}

/* Tries more and more parts, until the share of each root is a whole number of parts and the trees fit. */
synth_shares_t *synth_shares_new(const synth_topology_t *topology, double seconds)
{
    size_t loads = (size_t)(2 * topology->ranks * topology->link_count);
    synth_free_roots_t solution = {.load = calloc(loads + 1, sizeof(double))};
    synth_shares_t *shares = calloc(1, sizeof(*shares));
    bool ok = solution.load != NULL && shares != NULL && synth_free_roots(topology, seconds, &solution) == MSCCLPP_OK;
    bool is_packed = false;

    for (int parts = 1; ok && !is_packed && parts <= MAX_PARTS; ++parts) {
        is_packed = pack_shares(topology, &solution, parts, shares);
    }
    free(solution.load);
    if (!is_packed) {
        free(shares);
        return NULL;
    }
    return shares;
}

synth_schedule_t *synth_tree_allreduce(const synth_topology_t *topology, const synth_shares_t *shares, int units)
{
    int parts = shares->in.count, height_in = greatest_height(&shares->in), height_out = greatest_height(&shares->out);
    synth_schedule_t *schedule = synth_schedule_new(SYNTH_ALLREDUCE, topology->ranks, 0, parts * units);
    bool ok = schedule != NULL;

    /*
     * Each unit begins one step after the previous one. Chunk i of a unit is sent along trees i, first towards their
     * root. When all chunks of the unit have arrived at their roots, it is sent away from the root.
     */
    for (int unit = 0; ok && unit < units; ++unit) {
        for (int i = 0; ok && i < parts; ++i) {
            ok = send_along(schedule, &shares->in.tree[i], unit * parts + i, unit, height_in, true) &&
                 send_along(schedule, &shares->out.tree[i], unit * parts + i, unit + height_in, height_out, false);
        }
    }
    return schedule != NULL ? synth_schedule_finish(topology, schedule, units - 1 + height_in + height_out, ok) : NULL;
}
