/* Canonical numberings by refinement, individual ranks and backtracking. */
#include "tools/synth/lib/canon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LEAVES = 2000, MOST_FOUND = 256 };

/* What a rank sees of the others, as a hash, to tell ranks of one cell apart. */
typedef struct {
    uint64_t hash;
    int rank, cell;
} signature_t;

typedef struct {
    const synth_topology_t *topology;
    synth_canon_t *canon;
    int path[SYNTH_MAX_RANKS], best_path[SYNTH_MAX_RANKS]; /* the rank singled out at each level */
    int best_place[SYNTH_MAX_RANKS];
    char *best; /* the least text so far */
    int leaves;
    bool failed, full; /* failed: no memory; full: cut short */
    unsigned char automorphism[MOST_FOUND][SYNTH_MAX_RANKS];
    int automorphisms;
} search_t;

/* A hash of two numbers. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2))) * UINT64_C(0xff51afd7ed558ccd);

    return x ^ x >> 32;
}

/* For qsort: signatures by cell, then by hash. */
static int by_hash(const void *left, const void *right)
{
    const signature_t *a = left, *b = right;

    return a->cell != b->cell ? a->cell - b->cell : (a->hash > b->hash) - (a->hash < b->hash);
}

/* A hash of what joins two ranks: the capacities in both directions, and whether they share a node. */
static uint64_t between(const synth_topology_t *topology, int a, int b)
{
    int there = topology->link_between[a][b], back = topology->link_between[b][a];

    return mix(mix(there < 0 ? 0 : (uint64_t)topology->links[there].capacity,
                   back < 0 ? 0 : (uint64_t)topology->links[back].capacity),
               topology->node_of[a] == topology->node_of[b]);
}

/* Splits cells until ranks of one cell see the same of every cell. A cell's number is how many ranks lie in cells
 * before it. Returns how many cells there are. */
static int refine(const synth_topology_t *topology, int *cell)
{
    signature_t signature[SYNTH_MAX_RANKS];
    int n = topology->ranks, cells = 0, before = -1;

    while (cells != before) {
        before = cells;
        for (int v = 0; v < n; ++v) {
            uint64_t sum = 0;

            for (int u = 0; u < n; ++u) {
                sum += u != v ? mix(between(topology, v, u), (uint64_t)cell[u]) : 0;
            }
            signature[v] = (signature_t){sum, v, cell[v]};
        }
        for (int i = 0; i < topology->group_count; ++i) {
            const synth_group_t *group = &topology->groups[i];
            uint64_t all = 0;

            for (int k = 0; k < group->count; ++k) {
                const synth_link_t *link = &topology->links[group->links[k]];

                all += mix((uint64_t)cell[link->from] + 1, (uint64_t)cell[link->to] + 1);
            }
            all = mix(all, (uint64_t)group->capacity);
            for (int k = 0; k < group->count; ++k) {
                const synth_link_t *link = &topology->links[group->links[k]];

                signature[link->from].hash += mix(mix(all, 1), (uint64_t)cell[link->to]);
                signature[link->to].hash += mix(mix(all, 2), (uint64_t)cell[link->from]);
            }
        }
        qsort(signature, (size_t)n, sizeof(signature[0]), by_hash);
        cells = 0;
        for (int i = 0, start = 0; i < n; ++i) {
            if (i == 0 || by_hash(&signature[i - 1], &signature[i]) != 0) {
                start = i;
                ++cells;
            }
            cell[signature[i].rank] = start;
        }
    }
    return cells;
}

/* For qsort: whole numbers. */
static int by_number(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* For qsort: texts. */
static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* A group in the numbering `place`: its capacity and its links. NULL without memory. */
static char *group_text(const synth_topology_t *topology, const synth_group_t *group, const int *place)
{
    int *ends = malloc(sizeof(int) * (size_t)group->count);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    for (int k = 0; ends != NULL && k < group->count; ++k) {
        const synth_link_t *link = &topology->links[group->links[k]];

        ends[k] = place[link->from] * SYNTH_MAX_RANKS + place[link->to];
    }
    if (ends != NULL && out != NULL) {
        qsort(ends, (size_t)group->count, sizeof(int), by_number);
        fprintf(out, " group %d:", group->capacity);
        for (int k = 0; k < group->count; ++k) {
            fprintf(out, " %d-%d", ends[k] / SYNTH_MAX_RANKS, ends[k] % SYNTH_MAX_RANKS);
        }
    }
    if (out == NULL || fclose(out) != 0 || ends == NULL) {
        free(text);
        text = NULL;
    }
    free(ends);
    return text;
}

/* The whole topology in the numbering `place`, as text. NULL without memory. */
static char *text_of(const synth_topology_t *topology, const int *place, bool rooted)
{
    int rank_at[SYNTH_MAX_RANKS], count = topology->group_count;
    char **groups = calloc((size_t)count + 1, sizeof(*groups)), *text = NULL;
    bool fine = groups != NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    for (int v = 0; v < topology->ranks; ++v) {
        rank_at[place[v]] = v;
    }
    for (int i = 0; fine && i < count; ++i) {
        groups[i] = group_text(topology, &topology->groups[i], place);
        fine = groups[i] != NULL;
    }
    if (fine && out != NULL) {
        qsort(groups, (size_t)count, sizeof(*groups), by_text);
        fprintf(out, "%d ranks%s, nodes", topology->ranks, rooted ? " and a root" : "");
        for (int a = 0; a < topology->ranks; ++a) { /* the first rank of each node stands for it */
            int first = 0;

            while (topology->node_of[rank_at[first]] != topology->node_of[rank_at[a]]) {
                ++first;
            }
            fprintf(out, " %d", first);
        }
        for (int a = 0; a < topology->ranks; ++a) {
            for (int b = 0; b < topology->ranks; ++b) {
                int at = topology->link_between[rank_at[a]][rank_at[b]];

                if (at >= 0) {
                    fprintf(out, " %d-%d:%d", a, b, topology->links[at].capacity);
                }
            }
        }
        for (int i = 0; i < count; ++i) {
            fputs(groups[i], out);
        }
    }
    for (int i = 0; groups != NULL && i < count; ++i) {
        free(groups[i]);
    }
    free(groups);
    if (out == NULL || fclose(out) != 0 || !fine) {
        free(text);
        return NULL;
    }
    return text;
}

/* Compares the text of a complete numbering with the least so far. An equal text gives an automorphism. Returns the
 * level at which the search goes on: for an equal text, where its path leaves the path of the least text. */
static int take_leaf(search_t *search, const int *place, int level, bool rooted)
{
    char *text = text_of(search->topology, place, rooted);
    int order = text == NULL ? 1 : search->best == NULL ? -1 : strcmp(text, search->best);

    search->failed = search->failed || text == NULL;
    search->full = search->full || ++search->leaves >= MOST_LEAVES;
    if (order < 0) {
        free(search->best);
        search->best = text;
        memcpy(search->best_place, place, sizeof(search->best_place));
        memcpy(search->best_path, search->path, sizeof(search->best_path));
        return level;
    }
    free(text);
    if (order == 0 && !search->failed) {
        int back = 0;

        if (search->automorphisms < MOST_FOUND) {
            for (int v = 0; v < search->topology->ranks; ++v) {
                for (int u = 0; u < search->topology->ranks; ++u) {
                    if (place[v] == search->best_place[u]) {
                        search->automorphism[search->automorphisms][v] = (unsigned char)u;
                    }
                }
            }
            ++search->automorphisms;
        }
        while (back < level && search->path[back] == search->best_path[back]) {
            ++back;
        }
        return back;
    }
    return level;
}

/* The representative of v in a union-find forest. */
static int root_of(const int *parent, int v)
{
    while (parent[v] != v) {
        v = parent[v];
    }
    return v;
}

/* Whether an automorphism that keeps the path maps a rank that was tried already onto this one. */
static bool is_tried(const search_t *search, int level, const bool *tried, int rank)
{
    int parent[SYNTH_MAX_RANKS], n = search->topology->ranks;

    for (int v = 0; v < n; ++v) {
        parent[v] = v;
    }
    for (int i = 0; i < search->automorphisms; ++i) {
        const unsigned char *map = search->automorphism[i];
        bool keeps = true;

        for (int k = 0; k < level; ++k) {
            keeps = keeps && map[search->path[k]] == search->path[k];
        }
        for (int v = 0; keeps && v < n; ++v) {
            parent[root_of(parent, v)] = root_of(parent, map[v]);
        }
    }
    for (int v = 0; v < n; ++v) {
        if (tried[v] && root_of(parent, v) == root_of(parent, rank)) {
            return true;
        }
    }
    return false;
}

/* Searches the tree of numberings below a partition into cells. Returns the level at which the search goes on. */
static int descend(search_t *search, const int *coarse, int level, bool rooted)
{
    int cell[SYNTH_MAX_RANKS], n = search->topology->ranks, size[SYNTH_MAX_RANKS] = {0}, target = -1;
    bool tried[SYNTH_MAX_RANKS] = {false};

    memcpy(cell, coarse, sizeof(cell));
    if (refine(search->topology, cell) == n) {
        return take_leaf(search, cell, level, rooted);
    }
    for (int v = 0; v < n; ++v) {
        ++size[cell[v]];
    }
    for (int i = n - 1; i >= 0; --i) {
        target = size[i] > 1 ? i : target;
    }
    for (int v = 0; v < n && !search->failed && !search->full; ++v) {
        int finer[SYNTH_MAX_RANKS], back;

        if (cell[v] != target || is_tried(search, level, tried, v)) {
            continue;
        }
        tried[v] = true;
        memcpy(finer, cell, sizeof(finer));
        for (int u = 0; u < n; ++u) {
            finer[u] += u != v && cell[u] == target;
        }
        search->path[level] = v;
        back = descend(search, finer, level + 1, rooted);
        if (back < level) {
            return back;
        }
    }
    return level;
}

bool synth_canon_find(const synth_topology_t *topology, int root, synth_canon_t *canon)
{
    search_t *search = calloc(1, sizeof(*search));
    int cell[SYNTH_MAX_RANKS] = {0};
    bool fine;

    if (search == NULL) {
        return false;
    }
    search->topology = topology;
    for (int v = 0; root >= 0 && v < topology->ranks; ++v) {
        cell[v] = v != root;
    }
    descend(search, cell, 0, root >= 0);
    fine = search->best != NULL && !search->failed;
    memcpy(canon->place, search->best_place, sizeof(canon->place));
    canon->sure = !search->full;
    canon->text = fine ? search->best : NULL;
    if (!fine) {
        free(search->best);
    }
    free(search);
    return fine;
}

void synth_canon_digest(const synth_canon_t *canon, char digest[SYNTH_DIGEST])
{
    uint64_t a = UINT64_C(0xcbf29ce484222325), b = UINT64_C(0x84222325cbf29ce4);

    for (const char *c = canon->text; *c != '\0'; ++c) {
        a = (a ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
        b = mix(b, (unsigned char)*c);
    }
    snprintf(digest, SYNTH_DIGEST, "%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

void synth_canon_free(synth_canon_t *canon)
{
    free(canon->text);
    canon->text = NULL;
}
