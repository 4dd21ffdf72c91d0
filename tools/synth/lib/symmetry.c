/* Automorphisms by backtracking. */
#include "tools/synth/lib/symmetry.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TRIES = 500000 };

typedef struct {
    const synth_topology_t *topology;
    synth_symmetry_t *symmetry;
    int fixed; /* the rank that stays where it is; negative: none */
    int image[SYNTH_MAX_RANKS];
    uint64_t used; /* images that are taken */
    long tries;
    bool full;       /* cut short: too many symmetries or too many tries */
    signed char *in; /* [group][link]: whether the link belongs to the group */
} search_t;

/* The capacity of the link between two ranks; 0: none. */
static int capacity(const synth_topology_t *topology, int a, int b)
{
    int at = a == b ? -1 : topology->link_between[a][b];

    return at < 0 ? 0 : topology->links[at].capacity;
}

/* The link that the numbering at hand maps a link onto; -1: none. */
static int link_image(const search_t *search, int link)
{
    const synth_link_t *from = &search->topology->links[link];

    return search->topology->link_between[search->image[from->from]][search->image[from->to]];
}

/* Whether the numbering maps each group onto a group of the same capacity. */
static bool keeps_groups(const search_t *search)
{
    const synth_topology_t *topology = search->topology;

    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        bool any = false;

        for (int j = 0; j < topology->group_count && !any; ++j) {
            const synth_group_t *other = &topology->groups[j];

            any = other->count == group->count && other->capacity == group->capacity;
            for (int k = 0; any && k < group->count; ++k) {
                any = search->in[(size_t)j * topology->link_count + link_image(search, group->links[k])];
            }
        }
        if (!any) {
            return false;
        }
    }
    return true;
}

/* Tries all images of `rank`, then of those after it. Stores each numbering that leaves the topology as it is. */
static void extend(search_t *search, int rank)
{
    const synth_topology_t *topology = search->topology;

    if (rank == topology->ranks) {
        if (!keeps_groups(search)) {
            return;
        }
        if (search->symmetry->count == SYNTH_MAX_SYMMETRIES) {
            search->full = true;
            return;
        }
        for (int i = 0; i < rank; ++i) {
            search->symmetry->map[search->symmetry->count][i] = (unsigned char)search->image[i];
        }
        ++search->symmetry->count;
        return;
    }
    for (int to = 0; to < topology->ranks && !search->full; ++to) {
        bool fits = (search->used >> to & 1) == 0 && ((rank == search->fixed) == (to == search->fixed));

        for (int i = 0; fits && i < rank; ++i) {
            fits = capacity(topology, i, rank) == capacity(topology, search->image[i], to) &&
                   capacity(topology, rank, i) == capacity(topology, to, search->image[i]);
        }
        if (++search->tries > MOST_TRIES) {
            search->full = true;
        }
        if (fits && !search->full) {
            search->image[rank] = to;
            search->used |= UINT64_C(1) << to;
            extend(search, rank + 1);
            search->used &= ~(UINT64_C(1) << to);
        }
    }
}

void synth_symmetry_find(const synth_topology_t *topology, int fixed, synth_symmetry_t *symmetry)
{
    search_t search = {topology, symmetry, fixed, {0}, 0, 0, false, NULL};

    symmetry->count = 0;
    search.in = calloc((size_t)topology->group_count * topology->link_count + 1, 1);
    for (int i = 0; search.in != NULL && i < topology->group_count; ++i) {
        for (int k = 0; k < topology->groups[i].count; ++k) {
            search.in[(size_t)i * topology->link_count + topology->groups[i].links[k]] = 1;
        }
    }
    if (search.in != NULL) {
        extend(&search, 0);
    }
    if (search.full || symmetry->count == 0) {
        symmetry->count = 0;
        for (int turn = 0; turn < (fixed < 0 && search.in != NULL ? topology->ranks : 1); ++turn) {
            bool fine = true;

            for (int i = 0; i < topology->ranks; ++i) {
                search.image[i] = (i + turn) % topology->ranks;
            }
            for (int i = 0; i < topology->link_count; ++i) {
                int image = link_image(&search, i);

                fine = fine && image >= 0 && topology->links[image].capacity == topology->links[i].capacity;
            }
            for (int i = 0; fine && (turn == 0 || keeps_groups(&search)) && i < topology->ranks; ++i) {
                symmetry->map[symmetry->count][i] = (unsigned char)search.image[i];
                symmetry->count += i == topology->ranks - 1;
            }
        }
    }
    free(search.in);
}
