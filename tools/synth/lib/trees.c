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

#define ROUNDING 1e-4 /* largest rounding error of a linear program's results */

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
    bool leads_to_root;              /* trees lead to their root, not away from it */
    int *capacity;                   /* [link]: the capacity that no tree uses yet */
    int trees_left[SYNTH_MAX_RANKS]; /* [root]: the number of its trees that are not made yet */
} packing_t;

/* Returns the end of a link that is nearer to the root. */
static int near_end(const packing_t *packing, int link)
{
    const synth_link_t *ends = &packing->topology->links[link];

    return packing->leads_to_root ? ends->to : ends->from;
}

/* Returns the end of a link that is farther from the root. */
static int far_end(const packing_t *packing, int link)
{
    const synth_link_t *ends = &packing->topology->links[link];

    return packing->leads_to_root ? ends->from : ends->to;
}

/*
 * Returns true if all trees that are not made yet can reach a rank at the same time. Each of them needs a path of its
 * own from its root. If trees lead to their roots, the paths are taken backwards (near_end, far_end). If all trees can
 * reach every rank, the packing can be completed (Edmonds' condition). A maximum flow counts the paths: it begins at an
 * additional vertex, which has an arc to each root. The capacity of the arc is the number of trees of the root. Also
 * returns false if memory runs out.
 */
static bool all_trees_reach(const packing_t *packing, int rank)
{
    const synth_topology_t *topology = packing->topology;
    const int ranks = topology->ranks, source = ranks; /* source: the additional vertex */
    synth_flow_t *flow = synth_flow_new(ranks + 1, topology->link_count + ranks);
    int trees = 0;
    bool fits;

    if (flow == NULL) {
        return false;
    }
    for (int link = 0; link < topology->link_count; ++link) {
        synth_flow_add_arc(flow, near_end(packing, link), far_end(packing, link), packing->capacity[link]);
    }
    for (int root = 0; root < ranks; ++root) {
        synth_flow_add_arc(flow, source, root, packing->trees_left[root]);
        trees += packing->trees_left[root];
    }
    fits = synth_flow_run(flow, source, rank, trees) == trees;
    synth_flow_free(flow);
    return fits;
}

/*
 * Returns the link by which a tree grows next, or -1 if there is none. Of the links that are not `refused`, takes the
 * one whose near end has the smallest depth and, if there are several, the one with the largest free capacity.
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
 * Extends one tree, whose root is set, to all ranks. Leaves out each link that other trees, not made yet, need.
 * Returns false if the tree cannot be completed, or if memory runs out; the whole packing has then failed.
 */
static bool grow_tree(packing_t *packing, tree_t *tree)
{
    bool refused[SYNTH_MAX_LINKS] = {false};
    int ranks_in_tree = 1;

    memset(tree->depth, -1, sizeof(tree->depth));
    tree->depth[tree->root] = 0;
    tree->height = 0;
    --packing->trees_left[tree->root];
    while (ranks_in_tree < packing->topology->ranks) {
        int link = next_link(packing, tree, refused), rank;

        if (link < 0) {
            return false;
        }
        rank = far_end(packing, link);
        --packing->capacity[link];
        if (!all_trees_reach(packing, rank)) {
            ++packing->capacity[link];
            refused[link] = true; /* other trees need this link, and will still need it when this tree is larger */
            continue;
        }
        tree->parent[rank] = (signed char)near_end(packing, link);
        tree->depth[rank] = (signed char)(tree->depth[near_end(packing, link)] + 1);
        tree->height = tree->depth[rank] > tree->height ? tree->depth[rank] : tree->height;
        ++ranks_in_tree;
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
        if (packing->topology->ranks > 1 && !all_trees_reach(packing, rank)) {
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
 * Adds the sends of one chunk along one tree, from `first_step` on. If `adds` is true, they lead towards the root,
 * where all have arrived after `height` steps. Otherwise they lead away from it, and `height` is not used. Returns
 * false if memory runs out.
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
 * Packs the trees of all ranks together. All links have `rounds` times their capacity. `capacity` is working memory
 * with room for all links. Returns false if the trees do not fit or memory runs out.
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
 * rounded down to whole trees, so this may fail for some numbers of chunks and succeed for others. `capacity` is
 * working memory with room for all links. Returns false if the trees do not fit or memory runs out.
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

struct synth_allreduce_trees {
    forest_t to_roots,
        from_roots; /* trees to the roots and away from the roots; tree i of both forests has the same root */
};

int synth_allreduce_trees_chunks(const synth_allreduce_trees_t *trees)
{
    return trees->to_roots.count;
}

void synth_allreduce_trees_free(synth_allreduce_trees_t *trees)
{
    free(trees);
}

/*
 * Packs the trees of an all-reduce whose vector is divided into `parts` parts. Each part has one tree in either forest.
 * `solution` says how many parts each root has, and how much of each link its trees may use. Both forests get their
 * trees root by root, so that tree i has the same root in both. Returns false if a root's share is not a whole number
 * of parts, if the trees do not fit, or if memory runs out.
 */
static bool pack_allreduce(const synth_topology_t *topology, const synth_free_roots_t *solution, int parts,
                           synth_allreduce_trees_t *trees)
{
    int links = topology->link_count, *capacity = malloc(sizeof(int) * (size_t)(links + 1)), all_trees = 0;
    bool ok = capacity != NULL;

    trees->to_roots.count = trees->from_roots.count = 0;
    for (int root = 0; ok && root < topology->ranks; ++root) {
        double share = solution->share[root] * parts;
        int root_trees = (int)lround(share);

        ok = fabs(share - root_trees) < ROUNDING;
        all_trees += root_trees;
        for (int direction = 0; ok && root_trees > 0 && direction < 2; ++direction) {
            packing_t packing = {.topology = topology, .leads_to_root = direction == 1, .capacity = capacity};

            for (int link = 0; link < links; ++link) {
                capacity[link] =
                    (int)floor(solution->load[(direction * topology->ranks + root) * links + link] * parts + ROUNDING);
            }
            packing.trees_left[root] = root_trees;
            ok = pack_trees(&packing, direction == 1 ? &trees->to_roots : &trees->from_roots);
        }
    }
    free(capacity);
    return ok && all_trees == parts && trees->to_roots.count == parts && trees->from_roots.count == parts;
}

/* Tries more and more parts, until the share of each root is a whole number of parts and the trees fit. */
synth_allreduce_trees_t *synth_allreduce_trees_new(const synth_topology_t *topology, double seconds)
{
    size_t loads = (size_t)(2 * topology->ranks * topology->link_count);
    synth_free_roots_t solution = {.load = calloc(loads + 1, sizeof(double))};
    synth_allreduce_trees_t *trees = calloc(1, sizeof(*trees));
    bool ok = solution.load != NULL && trees != NULL && synth_free_roots(topology, seconds, &solution) == MSCCLPP_OK;
    bool is_packed = false;

    for (int parts = 1; ok && !is_packed && parts <= MAX_PARTS; ++parts) {
        is_packed = pack_allreduce(topology, &solution, parts, trees);
    }
    free(solution.load);
    if (!is_packed) {
        free(trees);
        return NULL;
    }
    return trees;
}

synth_schedule_t *synth_allreduce_trees_schedule(const synth_topology_t *topology, const synth_allreduce_trees_t *trees,
                                                 int units)
{
    int parts = trees->to_roots.count, height_to = greatest_height(&trees->to_roots),
        height_from = greatest_height(&trees->from_roots);
    synth_schedule_t *schedule = synth_schedule_new(SYNTH_ALLREDUCE, topology->ranks, 0, parts * units);
    bool ok = schedule != NULL;

    /*
     * Each unit begins one step after the previous unit. Tree i of both forests carries chunk i of a unit. First all
     * chunks of the unit are reduced to their roots. Then the roots send the results away.
     */
    for (int unit = 0; ok && unit < units; ++unit) {
        for (int i = 0; ok && i < parts; ++i) {
            ok = send_along(schedule, &trees->to_roots.tree[i], unit * parts + i, unit, height_to, true) &&
                 send_along(schedule, &trees->from_roots.tree[i], unit * parts + i, unit + height_to, height_from,
                            false);
        }
    }
    return schedule != NULL ? synth_schedule_finish(topology, schedule, units - 1 + height_to + height_from, ok) : NULL;
}
