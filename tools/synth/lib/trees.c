/* Packing of trees, arc by arc, such that the trees that are left still fit. */
#include "tools/synth/lib/trees.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/free_roots.h"
#include "tools/synth/lib/slp.h"

enum { MOST_TREES = 512, MOST_PARTS = 48, MOST_PACKED = 24 };

typedef struct {
    int root, height;
    signed char parent[SYNTH_MAX_RANKS], depth[SYNTH_MAX_RANKS]; /* depth -1: the rank is not in the tree yet */
} tree_t;

typedef struct {
    tree_t tree[MOST_TREES];
    int count;
} forest_t;

/* A packing in progress: the free capacity of each link, and the trees still to be made. */
typedef struct {
    const synth_topology_t *topology;
    bool backwards;                  /* trees lead to their root, not away from it */
    int *capacity;                   /* of each link: what no tree uses yet */
    int trees_left[SYNTH_MAX_RANKS]; /* of each root: trees still to be made */
} packing_t;

/* The rank of a link that is nearer to the root. */
static int tail(const packing_t *packing, int link)
{
    const synth_link_t *at = &packing->topology->links[link];

    return packing->backwards ? at->to : at->from;
}

/* The rank of a link that is farther from the root. */
static int head(const packing_t *packing, int link)
{
    const synth_link_t *at = &packing->topology->links[link];

    return packing->backwards ? at->from : at->to;
}

/* Whether all trees still to be made can reach a rank on disjoint paths (Edmonds' condition), so that the packing
 * can be completed. */
static bool reaches(const packing_t *packing, int rank)
{
    const synth_topology_t *topology = packing->topology;
    int n = topology->ranks, all = 0;
    synth_flow_t *flow = synth_flow_new(n + 1, topology->link_count + n);
    bool fine;

    if (flow == NULL) {
        return false;
    }
    for (int i = 0; i < topology->link_count; ++i) {
        synth_flow_arc(flow, tail(packing, i), head(packing, i), packing->capacity[i]);
    }
    for (int r = 0; r < n; ++r) {
        synth_flow_arc(flow, n, r, packing->trees_left[r]);
        all += packing->trees_left[r];
    }
    fine = synth_flow_run(flow, n, rank, all) == all;
    synth_flow_free(flow);
    return fine;
}

/* The link by which a tree grows next: as near to its root as possible, then the one with the most capacity. -1:
 * there is none. */
static int next_link(packing_t *packing, const tree_t *tree, const bool *refused)
{
    int best = -1;

    for (int i = 0; i < packing->topology->link_count; ++i) {
        int from = tail(packing, i);

        if (packing->capacity[i] > 0 && !refused[i] && tree->depth[from] >= 0 && tree->depth[head(packing, i)] < 0 &&
            (best < 0 || tree->depth[from] < tree->depth[tail(packing, best)] ||
             (tree->depth[from] == tree->depth[tail(packing, best)] &&
              packing->capacity[i] > packing->capacity[best]))) {
            best = i;
        }
    }
    return best;
}

/* Grows one tree to all ranks, by links that the remaining trees can do without. False if it cannot be completed. */
static bool grow(packing_t *packing, tree_t *tree)
{
    bool refused[SYNTH_MAX_LINKS] = {false};
    int ranks = 1;

    memset(tree->depth, -1, sizeof(tree->depth));
    tree->depth[tree->root] = 0;
    tree->height = 0;
    --packing->trees_left[tree->root];
    while (ranks < packing->topology->ranks) {
        int link = next_link(packing, tree, refused), to;

        if (link < 0) {
            return false;
        }
        to = head(packing, link);
        --packing->capacity[link];
        if (!reaches(packing, to)) {
            ++packing->capacity[link];
            refused[link] = true; /* what is needed now stays needed */
            continue;
        }
        tree->parent[to] = (signed char)tail(packing, link);
        tree->depth[to] = (signed char)(tree->depth[tail(packing, link)] + 1);
        tree->height = tree->depth[to] > tree->height ? tree->depth[to] : tree->height;
        ++ranks;
    }
    return true;
}

/* Packs all trees. False if there is no such packing, or too many trees. */
static bool pack(packing_t *packing, forest_t *forest)
{
    for (int r = 0; r < packing->topology->ranks; ++r) {
        if (packing->topology->ranks > 1 && !reaches(packing, r)) {
            return false;
        }
    }
    for (bool any = true; any;) { /* the roots in turn, so that none gets what the others leave */
        any = false;
        for (int r = 0; r < packing->topology->ranks; ++r) {
            if (packing->trees_left[r] == 0) {
                continue;
            }
            any = true;
            if (forest->count == MOST_TREES) {
                return false;
            }
            forest->tree[forest->count].root = r;
            if (!grow(packing, &forest->tree[forest->count++])) {
                return false;
            }
        }
    }
    return true;
}

/* The height of the highest tree. */
static int highest(const forest_t *forest)
{
    int most = 0;

    for (int i = 0; i < forest->count; ++i) {
        most = forest->tree[i].height > most ? forest->tree[i].height : most;
    }
    return most;
}

/* Adds the sends of one chunk along one tree: away from the root from step `first` on, or, with `adds`, to the root,
 * where all have arrived after `height` steps. False without memory. */
static bool send_along(synth_schedule_t *schedule, const tree_t *tree, int chunk, int first, int height, bool adds)
{
    for (int r = 0; r < schedule->ranks; ++r) {
        int step = first + (adds ? height - tree->depth[r] : tree->depth[r] - 1);

        if (r != tree->root &&
            !synth_schedule_add(schedule, chunk, adds ? r : tree->parent[r], adds ? tree->parent[r] : r, step, adds)) {
            return false;
        }
    }
    return true;
}

/* Completes a schedule, or frees it and returns NULL if it failed or has too many steps. */
static synth_schedule_t *finish(const synth_topology_t *topology, synth_schedule_t *schedule, int steps, bool fine)
{
    if (!fine || steps > SYNTH_MAX_STEPS) {
        synth_schedule_free(schedule);
        return NULL;
    }
    schedule->steps = steps;
    synth_schedule_sort(schedule);
    synth_schedule_fit(topology, schedule);
    return schedule;
}

struct synth_trees {
    synth_collective_t collective;
    int root, chunks; /* chunks: trees of each rank that has chunks */
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

/* Whether a rank is the root of trees. */
static bool has_chunks(const synth_trees_t *trees, int rank)
{
    return trees->collective == SYNTH_ALLGATHER || rank == trees->root;
}

/* Packs the trees of all ranks together, into so many rounds of all links. */
static bool pack_links(const synth_topology_t *topology, int rounds, int *capacity, synth_trees_t *trees)
{
    packing_t packing = {.topology = topology, .capacity = capacity};

    for (int i = 0; i < topology->link_count; ++i) {
        capacity[i] = topology->links[i].capacity * rounds;
    }
    for (int r = 0; r < topology->ranks; ++r) {
        packing.trees_left[r] = has_chunks(trees, r) ? trees->chunks : 0;
    }
    trees->forest.count = 0;
    return pack(&packing, &trees->forest);
}

/* Packs the trees of one rank after the other, each into its share of the links. Rounding down may lose trees. */
static bool pack_loads(const synth_topology_t *topology, const double *load, int *capacity, synth_trees_t *trees)
{
    bool fine = true;

    trees->forest.count = 0;
    for (int r = 0; fine && r < topology->ranks; ++r) {
        packing_t packing = {.topology = topology, .capacity = capacity};

        for (int i = 0; i < topology->link_count; ++i) {
            capacity[i] = (int)floor(load[r * topology->link_count + i] * trees->chunks + 1e-4);
        }
        packing.trees_left[r] = trees->chunks;
        fine = !has_chunks(trees, r) || pack(&packing, &trees->forest);
    }
    return fine;
}

synth_trees_t *synth_trees_new(const synth_topology_t *topology, synth_collective_t collective, int root, int rounds,
                               int chunks, double seconds)
{
    int roots = collective == SYNTH_ALLGATHER ? topology->ranks : 1;
    int *capacity = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    double *load = calloc((size_t)(topology->ranks * topology->link_count + 1), sizeof(*load));
    synth_trees_t *trees = calloc(1, sizeof(*trees));
    bool fine = capacity != NULL && load != NULL && trees != NULL && topology->ranks <= MOST_PACKED &&
                (long)chunks * roots <= MOST_TREES && (collective == SYNTH_ALLGATHER || collective == SYNTH_BROADCAST);
    bool packed = false;

    if (fine) {
        trees->collective = collective;
        trees->root = root;
        trees->chunks = chunks;
        if (topology->group_count == 0) {
            packed = pack_links(topology, rounds, capacity, trees);
        } else if (synth_slp_loads(topology, collective, root, seconds, load)) {
            packed = pack_loads(topology, load, capacity, trees);
            while (!packed && trees->chunks + chunks <= MOST_PARTS && (trees->chunks + chunks) * roots <= MOST_TREES) {
                trees->chunks += chunks;
                packed = pack_loads(topology, load, capacity, trees);
            }
        }
    }
    free(capacity);
    free(load);
    if (!packed) {
        free(trees);
        return NULL;
    }
    return trees;
}

synth_schedule_t *synth_trees_schedule(const synth_topology_t *topology, const synth_trees_t *trees, int units)
{
    int chunks = trees->chunks, seen[SYNTH_MAX_RANKS] = {0}, height = highest(&trees->forest);
    synth_schedule_t *schedule = synth_schedule_new(trees->collective, topology->ranks, trees->root, chunks * units);
    bool fine = schedule != NULL;

    for (int i = 0; fine && i < trees->forest.count; ++i) {
        const tree_t *tree = &trees->forest.tree[i];
        int first = seen[tree->root]++ + (trees->collective == SYNTH_ALLGATHER ? tree->root * chunks * units : 0);

        for (int u = 0; fine && u < units; ++u) {
            fine = send_along(schedule, tree, first + u * chunks, u, height, false);
        }
    }
    return schedule != NULL ? finish(topology, schedule, units - 1 + height, fine) : NULL;
}

struct synth_shares {
    forest_t in, out; /* trees to the roots and away from them; tree i of both has the same root */
};

int synth_shares_chunks(const synth_shares_t *shares)
{
    return shares->in.count;
}

void synth_shares_free(synth_shares_t *shares)
{
    free(shares);
}

/* Packs the trees for a vector of so many parts, as the linear program shares links and roots. False if the shares
 * are no whole numbers of parts, or the trees do not fit. */
static bool pack_shares(const synth_topology_t *topology, const synth_free_roots_t *program, int parts,
                        synth_shares_t *shares)
{
    int e = topology->link_count, *capacity = malloc(sizeof(int) * (size_t)(e + 1)), sum = 0;
    bool fine = capacity != NULL;

    shares->in.count = shares->out.count = 0;
    for (int r = 0; fine && r < topology->ranks; ++r) {
        double share = program->share[r] * parts;
        int trees = (int)lround(share);

        fine = fabs(share - trees) < 1e-4;
        sum += trees;
        for (int way = 0; fine && trees > 0 && way < 2; ++way) {
            packing_t packing = {.topology = topology, .backwards = way == 1, .capacity = capacity};

            for (int i = 0; i < e; ++i) {
                capacity[i] = (int)floor(program->load[(way * topology->ranks + r) * e + i] * parts + 1e-4);
            }
            packing.trees_left[r] = trees;
            fine = pack(&packing, way == 1 ? &shares->in : &shares->out);
        }
    }
    free(capacity);
    return fine && sum == parts && shares->in.count == parts && shares->out.count == parts;
}

synth_shares_t *synth_shares_new(const synth_topology_t *topology, double seconds)
{
    size_t loads = (size_t)(2 * topology->ranks * topology->link_count);
    synth_free_roots_t program = {.load = calloc(loads + 1, sizeof(double))};
    synth_shares_t *shares = calloc(1, sizeof(*shares));
    bool fine = program.load != NULL && shares != NULL && synth_free_roots(topology, seconds, &program) == MSCCLPP_OK,
         packed = false;

    for (int parts = 1; fine && !packed && parts <= MOST_PARTS; ++parts) {
        packed = pack_shares(topology, &program, parts, shares);
    }
    free(program.load);
    if (!packed) {
        free(shares);
        return NULL;
    }
    return shares;
}

synth_schedule_t *synth_tree_allreduce(const synth_topology_t *topology, const synth_shares_t *shares, int units)
{
    int parts = shares->in.count, in = highest(&shares->in), out = highest(&shares->out);
    synth_schedule_t *schedule = synth_schedule_new(SYNTH_ALLREDUCE, topology->ranks, 0, parts * units);
    bool fine = schedule != NULL;

    for (int u = 0; fine && u < units; ++u) {
        for (int i = 0; fine && i < parts; ++i) {
            fine = send_along(schedule, &shares->in.tree[i], u * parts + i, u, in, true) &&
                   send_along(schedule, &shares->out.tree[i], u * parts + i, u + in, out, false);
        }
    }
    return schedule != NULL ? finish(topology, schedule, units - 1 + in + out, fine) : NULL;
}
