/*
 * Finds canonical numberings. The search refines a partition of the ranks into cells and singles out one rank of a
 * cell. It repeats this until each rank has its own cell. Backtracking tries the other ranks that can be singled out.
 * Known automorphisms tell which of them need not be tried.
 */
#include "tools/synth/lib/canon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LEAVES = 2000, /* complete numberings that are examined before the search is cut short */
    MAX_KEPT = 256     /* automorphisms that are stored; more of them would only make the search faster */
};

/* What tells the ranks of one cell apart: a hash of the links and groups of a rank. */
typedef struct {
    uint64_t hash;
    int rank, cell;
} signature_t;

typedef struct {
    const synth_topology_t *topology;
    synth_canon_t *canon;
    int path[SYNTH_MAX_RANKS];           /* the rank that is singled out at each level */
    int best_path[SYNTH_MAX_RANKS];      /* the path that led to the least text so far */
    int best_numbering[SYNTH_MAX_RANKS]; /* the numbering that has this text */
    char *best_text;                     /* the least text so far */
    int leaves;                          /* complete numberings so far */
    bool failed;                         /* memory ran out */
    bool is_cut_short;
    unsigned char automorphism[MAX_KEPT][SYNTH_MAX_RANKS]; /* [rank]: the rank that it is mapped onto */
    int automorphisms;                                     /* how many are known */
} search_t;

/* Combines two hashes into one, which depends on their order. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t mixed = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2))) * UINT64_C(0xff51afd7ed558ccd);

    return mixed ^ mixed >> 32;
}

/* Compares signatures by cell, then by hash, for qsort. */
static int by_hash(const void *left, const void *right)
{
    const signature_t *a = left, *b = right;

    return a->cell != b->cell ? a->cell - b->cell : (a->hash > b->hash) - (a->hash < b->hash);
}

/* Returns a hash of what joins two ranks: the capacities in both directions, and whether they share a node. */
static uint64_t pair_hash(const synth_topology_t *topology, int rank, int other)
{
    int link = topology->link_between[rank][other], back = topology->link_between[other][rank];

    return mix(mix(link < 0 ? 0 : (uint64_t)topology->links[link].capacity,
                   back < 0 ? 0 : (uint64_t)topology->links[back].capacity),
               topology->node_of[rank] == topology->node_of[other]);
}

/*
 * Splits cells until all ranks of a cell have equal links and groups to every cell. cell[rank] is the number of the
 * rank's cell, which is the number of ranks in the cells before it. Returns how many cells there are. A hash is a sum
 * over links and groups, so it does not depend on the numbering of the ranks. Topologies that differ only in their
 * numbering are therefore split in the same way. If two hashes are equal by chance, the cell is not split, and the
 * search tries its ranks one by one.
 */
static int refine(const synth_topology_t *topology, int *cell)
{
    signature_t signature[SYNTH_MAX_RANKS];
    int ranks = topology->ranks, cells = 0, cells_before = -1;

    while (cells != cells_before) {
        cells_before = cells;
        for (int rank = 0; rank < ranks; ++rank) {
            uint64_t sum = 0;

            for (int other = 0; other < ranks; ++other) {
                sum += other != rank ? mix(pair_hash(topology, rank, other), (uint64_t)cell[other]) : 0;
            }
            signature[rank] = (signature_t){.hash = sum, .rank = rank, .cell = cell[rank]};
        }
        for (int i = 0; i < topology->group_count; ++i) {
            const synth_group_t *group = &topology->groups[i];
            uint64_t group_hash = 0;

            for (int j = 0; j < group->count; ++j) {
                const synth_link_t *link = &topology->links[group->links[j]];

                group_hash += mix((uint64_t)cell[link->from] + 1, (uint64_t)cell[link->to] + 1);
            }
            group_hash = mix(group_hash, (uint64_t)group->capacity);
            for (int j = 0; j < group->count; ++j) {
                const synth_link_t *link = &topology->links[group->links[j]];

                signature[link->from].hash += mix(mix(group_hash, 1), (uint64_t)cell[link->to]);
                signature[link->to].hash += mix(mix(group_hash, 2), (uint64_t)cell[link->from]);
            }
        }
        qsort(signature, (size_t)ranks, sizeof(signature[0]), by_hash);
        cells = 0;
        for (int i = 0, start = 0; i < ranks; ++i) {
            if (i == 0 || by_hash(&signature[i - 1], &signature[i]) != 0) {
                start = i;
                ++cells;
            }
            cell[signature[i].rank] = start;
        }
    }
    return cells;
}

/* Compares numbers, for qsort. */
static int by_number(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* Compares texts, for qsort. */
static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/*
 * Returns a text that describes a group in the numbering `numbering`: its capacity and its sorted links. The caller
 * frees the text. Returns NULL if memory runs out.
 */
static char *group_text(const synth_topology_t *topology, const synth_group_t *group, const int *numbering)
{
    int *ends = malloc(sizeof(int) * (size_t)group->count);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    for (int i = 0; ends != NULL && i < group->count; ++i) {
        const synth_link_t *link = &topology->links[group->links[i]];

        ends[i] = numbering[link->from] * SYNTH_MAX_RANKS + numbering[link->to];
    }
    if (ends != NULL && out != NULL) {
        qsort(ends, (size_t)group->count, sizeof(int), by_number);
        fprintf(out, " group %d:", group->capacity);
        for (int i = 0; i < group->count; ++i) {
            fprintf(out, " %d-%d", ends[i] / SYNTH_MAX_RANKS, ends[i] % SYNTH_MAX_RANKS);
        }
    }
    if (out == NULL || fclose(out) != 0 || ends == NULL) {
        free(text);
        text = NULL;
    }
    free(ends);
    return text;
}

/*
 * Returns a text that describes the whole topology in the numbering `numbering`. The caller frees the text. Returns
 * NULL if memory runs out.
 */
static char *text_of(const synth_topology_t *topology, const int *numbering, bool has_root)
{
    int rank_at[SYNTH_MAX_RANKS], group_count = topology->group_count;
    char **groups = calloc((size_t)group_count + 1, sizeof(*groups)), *text = NULL;
    bool ok = groups != NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    for (int rank = 0; rank < topology->ranks; ++rank) {
        rank_at[numbering[rank]] = rank;
    }
    for (int i = 0; ok && i < group_count; ++i) {
        groups[i] = group_text(topology, &topology->groups[i], numbering);
        ok = groups[i] != NULL;
    }
    if (ok && out != NULL) {
        qsort(groups, (size_t)group_count, sizeof(*groups), by_text);
        fprintf(out, "%d ranks%s, nodes", topology->ranks, has_root ? " and a root" : "");
        for (int from = 0; from < topology->ranks; ++from) { /* a node is named by its first rank */
            int first = 0;

            while (topology->node_of[rank_at[first]] != topology->node_of[rank_at[from]]) {
                ++first;
            }
            fprintf(out, " %d", first);
        }
        for (int from = 0; from < topology->ranks; ++from) {
            for (int to = 0; to < topology->ranks; ++to) {
                int link = topology->link_between[rank_at[from]][rank_at[to]];

                if (link >= 0) {
                    fprintf(out, " %d-%d:%d", from, to, topology->links[link].capacity);
                }
            }
        }
        for (int i = 0; i < group_count; ++i) {
            fputs(groups[i], out);
        }
    }
    for (int i = 0; groups != NULL && i < group_count; ++i) {
        free(groups[i]);
    }
    free(groups);
    if (out == NULL || fclose(out) != 0 || !ok) {
        free(text);
        return NULL;
    }
    return text;
}

/*
 * Examines a complete numbering, which is a leaf of the search tree. Compares its text with the least text so far, and
 * keeps the smaller one. If the texts are equal, the two numberings yield an automorphism, which is stored.
 *
 * Returns the level at which the search continues. In general this is `level`. After an equal text it is the level at
 * which the current path leaves the path of the least text. Below that level, the current path only mirrors what was
 * already searched.
 */
static int compare_leaf(search_t *search, const int *numbering, int level, bool has_root)
{
    char *text = text_of(search->topology, numbering, has_root);
    int order = text == NULL ? 1 : search->best_text == NULL ? -1 : strcmp(text, search->best_text);

    search->failed = search->failed || text == NULL;
    search->is_cut_short = search->is_cut_short || ++search->leaves >= MAX_LEAVES;
    if (order < 0) {
        free(search->best_text);
        search->best_text = text;
        memcpy(search->best_numbering, numbering, sizeof(search->best_numbering));
        memcpy(search->best_path, search->path, sizeof(search->best_path));
        return level;
    }
    free(text);
    if (order == 0 && !search->failed) {
        int common_levels = 0;

        if (search->automorphisms < MAX_KEPT) {
            for (int rank = 0; rank < search->topology->ranks; ++rank) {
                for (int image = 0; image < search->topology->ranks; ++image) {
                    if (numbering[rank] == search->best_numbering[image]) {
                        search->automorphism[search->automorphisms][rank] = (unsigned char)image;
                    }
                }
            }
            ++search->automorphisms;
        }
        while (common_levels < level && search->path[common_levels] == search->best_path[common_levels]) {
            ++common_levels;
        }
        return common_levels;
    }
    return level;
}

/* Returns the representative of a rank in a union-find forest. */
static int representative(const int *parent, int rank)
{
    while (parent[rank] != rank) {
        rank = parent[rank];
    }
    return rank;
}

/*
 * Returns true if a rank need not be tried, because known automorphisms map a rank that was tried onto it. Both ranks
 * then lead to the same texts. Only automorphisms that keep all ranks of the path count. Several of them may be applied
 * one after another.
 */
static bool is_equivalent_to_tried(const search_t *search, int level, const bool *tried, int rank)
{
    int parent[SYNTH_MAX_RANKS], ranks = search->topology->ranks;

    for (int other = 0; other < ranks; ++other) {
        parent[other] = other;
    }
    for (int i = 0; i < search->automorphisms; ++i) {
        const unsigned char *map = search->automorphism[i];
        bool keeps_path = true;

        for (int j = 0; j < level; ++j) {
            keeps_path = keeps_path && map[search->path[j]] == search->path[j];
        }
        for (int other = 0; keeps_path && other < ranks; ++other) {
            parent[representative(parent, other)] = representative(parent, map[other]);
        }
    }
    for (int other = 0; other < ranks; ++other) {
        if (tried[other] && representative(parent, other) == representative(parent, rank)) {
            return true;
        }
    }
    return false;
}

/*
 * Searches the numberings that refine the partition `coarse`: refines it, and singles out each rank of the first cell
 * that has several ranks. The singled-out rank keeps the number of the cell. The other ranks of the cell get the next
 * number, since there is one more rank before them. Returns the level at which the search continues. A caller at a
 * deeper level returns at once, too. After a failure, or if the search was cut short, no further ranks are tried.
 */
static int descend(search_t *search, const int *coarse, int level, bool has_root)
{
    int cell[SYNTH_MAX_RANKS], ranks = search->topology->ranks, cell_size[SYNTH_MAX_RANKS] = {0}, split_cell = -1;
    bool tried[SYNTH_MAX_RANKS] = {false};

    memcpy(cell, coarse, sizeof(cell));
    if (refine(search->topology, cell) == ranks) {
        return compare_leaf(search, cell, level, has_root);
    }
    for (int rank = 0; rank < ranks; ++rank) {
        ++cell_size[cell[rank]];
    }
    for (int i = ranks - 1; i >= 0; --i) {
        split_cell = cell_size[i] > 1 ? i : split_cell;
    }
    for (int rank = 0; rank < ranks && !search->failed && !search->is_cut_short; ++rank) {
        int finer[SYNTH_MAX_RANKS], next_level;

        if (cell[rank] != split_cell || is_equivalent_to_tried(search, level, tried, rank)) {
            continue;
        }
        tried[rank] = true;
        memcpy(finer, cell, sizeof(finer));
        for (int other = 0; other < ranks; ++other) {
            finer[other] += other != rank && cell[other] == split_cell;
        }
        search->path[level] = rank;
        next_level = descend(search, finer, level + 1, has_root);
        if (next_level < level) {
            return next_level;
        }
    }
    return level;
}

/*
 * Lets `descend` search the numberings for the one with the best text. canon->is_exact tells whether it searched all.
 */
bool synth_canon_find(const synth_topology_t *topology, int root, synth_canon_t *canon)
{
    search_t *search = calloc(1, sizeof(*search));
    int cell[SYNTH_MAX_RANKS] = {0};
    bool ok;

    if (search == NULL) {
        return false;
    }
    search->topology = topology;
    for (int rank = 0; root >= 0 && rank < topology->ranks; ++rank) { /* the root gets its own cell, the first one */
        cell[rank] = rank != root;
    }
    descend(search, cell, 0, root >= 0);
    ok = search->best_text != NULL && !search->failed;
    memcpy(canon->numbering, search->best_numbering, sizeof(canon->numbering));
    canon->is_exact = !search->is_cut_short;
    canon->text = ok ? search->best_text : NULL;
    if (!ok) {
        free(search->best_text);
    }
    free(search);
    return ok;
}

void synth_canon_digest(const synth_canon_t *canon, char digest[SYNTH_DIGEST])
{
    uint64_t first_half = UINT64_C(0xcbf29ce484222325), second_half = UINT64_C(0x84222325cbf29ce4);

    for (const char *cursor = canon->text; *cursor != '\0'; ++cursor) {
        first_half = (first_half ^ (unsigned char)*cursor) * UINT64_C(0x100000001b3);
        second_half = mix(second_half, (unsigned char)*cursor);
    }
    snprintf(digest, SYNTH_DIGEST, "%016llx%016llx", (unsigned long long)first_half, (unsigned long long)second_half);
}

void synth_canon_free(synth_canon_t *canon)
{
    free(canon->text);
    canon->text = NULL;
}
