/* Finds automorphisms by backtracking: chooses an image for one rank after another. */
#include "tools/synth/lib/symmetry.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TRIES = 500000 }; /* most images that are tried before the search is cut short */

typedef struct {
    const synth_topology_t *topology;
    synth_symmetry_t *symmetry;
    int fixed;                  /* the rank that has to be mapped onto itself; negative: none */
    int image[SYNTH_MAX_RANKS]; /* [rank]: its image, for the ranks whose images are already chosen */
    uint64_t used;              /* the set of ranks that are already images */
    long tries;
    bool is_cut_short;      /* too many symmetries or too many tries */
    signed char *is_member; /* [group * links + link]: whether the link belongs to the group */
} search_t;

/* Returns the capacity of the link from one rank to another; 0 if there is none. */
static int link_capacity(const synth_topology_t *topology, int from, int to)
{
    int link = from == to ? -1 : topology->link_between[from][to];

    return link < 0 ? 0 : topology->links[link].capacity;
}

/* Returns the link that the chosen images map a link onto; -1 if there is none. */
static int link_image(const search_t *search, int link)
{
    const synth_link_t *ends = &search->topology->links[link];

    return search->topology->link_between[search->image[ends->from]][search->image[ends->to]];
}

/*
 * Returns true if the chosen images map each group onto a group of the same capacity. All ranks must have images, and
 * all links must be mapped onto links, because the images of links are used as indices.
 */
static bool keeps_groups(const search_t *search)
{
    const synth_topology_t *topology = search->topology;

    for (int i = 0; i < topology->group_count; ++i) {
        const synth_group_t *group = &topology->groups[i];
        bool is_kept = false;

        for (int j = 0; j < topology->group_count && !is_kept; ++j) {
            const synth_group_t *other = &topology->groups[j];

            is_kept = other->count == group->count && other->capacity == group->capacity;
            for (int k = 0; is_kept && k < group->count; ++k) {
                is_kept = search->is_member[(size_t)j * topology->link_count + link_image(search, group->links[k])];
            }
        }
        if (!is_kept) {
            return false;
        }
    }
    return true;
}

/*
 * Tries all images of `rank`, and for each of them all images of the ranks after it. Links between ranks that already
 * have images are checked at once; groups are checked when all ranks have images. Stores each renumbering that does not
 * change the topology. The identity comes first, since images are tried in ascending order. Stops and sets
 * `is_cut_short` if there are too many symmetries, or if too many images were tried.
 */
static void extend(search_t *search, int rank)
{
    const synth_topology_t *topology = search->topology;

    if (rank == topology->ranks) {
        if (!keeps_groups(search)) {
            return;
        }
        if (search->symmetry->count == SYNTH_MAX_SYMMETRIES) {
            search->is_cut_short = true;
            return;
        }
        for (int i = 0; i < rank; ++i) {
            search->symmetry->map[search->symmetry->count][i] = (unsigned char)search->image[i];
        }
        ++search->symmetry->count;
        return;
    }
    for (int image = 0; image < topology->ranks && !search->is_cut_short; ++image) {
        bool is_possible = (search->used >> image & 1) == 0 && ((rank == search->fixed) == (image == search->fixed));

        for (int i = 0; is_possible && i < rank; ++i) {
            is_possible = link_capacity(topology, i, rank) == link_capacity(topology, search->image[i], image) &&
                          link_capacity(topology, rank, i) == link_capacity(topology, image, search->image[i]);
        }
        if (++search->tries > MAX_TRIES) {
            search->is_cut_short = true;
        }
        if (is_possible && !search->is_cut_short) {
            search->image[rank] = image;
            search->used |= UINT64_C(1) << image;
            extend(search, rank + 1);
            search->used &= ~(UINT64_C(1) << image);
        }
    }
}

/* Stores at least the identity, even if memory runs out. */
void synth_symmetry_find(const synth_topology_t *topology, int fixed, synth_symmetry_t *symmetry)
{
    search_t search = {.topology = topology, .symmetry = symmetry, .fixed = fixed, .image = {0}};

    symmetry->count = 0;
    search.is_member = calloc((size_t)topology->group_count * topology->link_count + 1, 1);
    for (int i = 0; search.is_member != NULL && i < topology->group_count; ++i) {
        for (int j = 0; j < topology->groups[i].count; ++j) {
            search.is_member[(size_t)i * topology->link_count + topology->groups[i].links[j]] = 1;
        }
    }
    if (search.is_member != NULL) {
        extend(&search, 0);
    }
    /*
     * If the search was cut short, only rotations are tried, which add the same number to all ranks. The first rotation
     * is the identity. In two cases it is the only one that is tried: with a fixed rank, which the others would move,
     * and after memory ran out, because groups cannot then be checked.
     */
    if (search.is_cut_short || symmetry->count == 0) {
        symmetry->count = 0;
        for (int turn = 0; turn < (fixed < 0 && search.is_member != NULL ? topology->ranks : 1); ++turn) {
            bool keeps_links = true;

            for (int i = 0; i < topology->ranks; ++i) {
                search.image[i] = (i + turn) % topology->ranks;
            }
            for (int i = 0; i < topology->link_count; ++i) {
                int image = link_image(&search, i);

                keeps_links =
                    keeps_links && image >= 0 && topology->links[image].capacity == topology->links[i].capacity;
            }
            for (int i = 0; keeps_links && (turn == 0 || keeps_groups(&search)) && i < topology->ranks; ++i) {
                symmetry->map[symmetry->count][i] = (unsigned char)search.image[i];
                symmetry->count += i == topology->ranks - 1;
            }
        }
    }
    free(search.is_member);
}
