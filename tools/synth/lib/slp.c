/* The linear program of slp.h, solved by its dual. Each row stands for a source and a link in one step. Each column is
 * a cut, or the price of a link or group. Cuts are added until the solution lets every source reach its receivers. */
#include "tools/synth/lib/slp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/simplex.h"
#include "tools/synth/lib/symmetry.h"

enum { MAX_ROWS = 2600, MAX_CUTS = 20000 };            /* larger programs take too long */
enum { SCALE = 1 << 30, TOLERANCE = SCALE / 1000000 }; /* flows count in units of 1/SCALE */
enum { PIVOTS_AT_ONCE = 100, MAX_PIVOTS = 200000 };    /* at once: between two checks of the time */
#define PRECISION 1e-7     /* a bound that is this close to the floating-point value is not improved any more */
enum { MAX_PARTS = 1000 }; /* weights of an optimal solution are tried in multiples of 1/1, 1/2, ... */

/* A cut of the graph over steps: the arcs across it carry at least `needed` chunks of a source. */
typedef struct {
    int source;
    int needed;      /* chunks of the source that have to cross it */
    int column;      /* column of the simplex: the variable that says how often the cut counts */
    int count, *arc; /* the arcs across it: layer * links + link */
} cut_t;

typedef struct {
    const synth_topology_t *topology;
    int steps;                        /* 0: any number */
    int layers;                       /* of rows: one for each step, or 1 if the number of steps is free */
    uint64_t wanted[SYNTH_MAX_RANKS]; /* of each rank: the set of ranks that want its chunks */
    bool splits; /* scatter, all-to-all: each receiver wants different data, so one copy does not serve all */
    synth_symmetry_t symmetry;
    int *orbit;                   /* [source * links + link]: the number of the pair's orbit; -1: no chunks */
    int *orbit_size, *orbit_link; /* of each orbit: how many pairs are in it, and the link of one of them */
    int orbits;                   /* how many there are */
    int *price_class;             /* of each link, then of each group: the class whose members share a price */
    int *class_size;              /* of each class: how many links or groups are in it */
    int price_classes;            /* how many there are */
    int *price_column;            /* [layer * classes + class]: the column of the simplex */
    bool is_representative[SYNTH_MAX_RANKS]; /* [rank]: it is the first of the sources that symmetries join with it */
    synth_simplex_t *simplex;
    cut_t *cuts; /* room for MAX_CUTS */
    int cut_count;
    synth_flow_t *flow; /* the graph over steps: has every rank once for each step, and a sink */
    int sink;
    double deadline; /* by mscclpp_now */
} program_t;

/* Sets `wanted`, the ranks that want the chunks of each rank, and `splits`. */
static void set_wanted(program_t *program, synth_collective_t collective, int root)
{
    int ranks = program->topology->ranks;
    uint64_t all_ranks = UINT64_MAX >> (64 - ranks);

    for (int rank = 0; rank < ranks; ++rank) {
        uint64_t others = all_ranks & ~(UINT64_C(1) << rank);

        program->wanted[rank] =
            collective == SYNTH_ALLGATHER || collective == SYNTH_ALLTOALL || rank == root ? others : 0;
        if (collective == SYNTH_GATHER) {
            program->wanted[rank] = rank == root ? 0 : UINT64_C(1) << root;
        }
    }
    program->splits = collective == SYNTH_SCATTER || collective == SYNTH_ALLTOALL;
}

/* Returns the link that a symmetry maps the given link onto. */
static int link_image(const program_t *program, int symmetry, int link)
{
    const synth_link_t *ends = &program->topology->links[link];
    const unsigned char *map = program->symmetry.map[symmetry];

    return program->topology->link_between[map[ends->from]][map[ends->to]];
}

/* Returns true if a symmetry maps one group onto another: their capacities are equal, and the symmetry maps the links
 * of one onto those of the other. With symmetry 0, the identity, this tells whether both have the same links. */
static bool is_image(const program_t *program, int symmetry, int group, int other)
{
    const synth_group_t *mapped = &program->topology->groups[group], *candidate = &program->topology->groups[other];
    int common_links = 0;

    if (candidate->count != mapped->count || candidate->capacity != mapped->capacity) {
        return false;
    }
    for (int i = 0; i < mapped->count; ++i) {
        int image = link_image(program, symmetry, mapped->links[i]);

        for (int j = 0; j < candidate->count; ++j) {
            common_links += candidate->links[j] == image;
        }
    }
    return common_links == mapped->count;
}

/* Returns the image of a group under a symmetry. If several groups have the same links, the first of them is mapped
 * onto the first of the images, the second onto the second, and so on. */
static int group_image(const program_t *program, int symmetry, int group)
{
    int twins_before = 0;

    for (int other = 0; other < group; ++other) {
        twins_before += is_image(program, 0, group, other);
    }
    for (int other = 0; other < program->topology->group_count; ++other) {
        if (is_image(program, symmetry, group, other) && twins_before-- == 0) {
            return other;
        }
    }
    return group; /* not reached: symmetries keep groups */
}

/* Numbers the classes of items that the symmetries map onto one another: pairs of a source and a link (`orbit`), and
 * links and groups (`price_class`). Also sets `is_representative`. Pairs whose source has no chunks get no number. The
 * symmetries form a group, so one pass finds a whole class. Returns false if memory runs out. */
static bool classify(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int ranks = topology->ranks, links = topology->link_count, price_count = links + topology->group_count;

    program->orbit = malloc(sizeof(int) * (size_t)(ranks * links));
    program->orbit_size = calloc((size_t)(ranks * links), sizeof(int));
    program->orbit_link = calloc((size_t)(ranks * links), sizeof(int));
    program->price_class = malloc(sizeof(int) * (size_t)price_count);
    program->class_size = calloc((size_t)price_count, sizeof(int));
    if (program->orbit == NULL || program->orbit_size == NULL || program->orbit_link == NULL ||
        program->price_class == NULL || program->class_size == NULL) {
        return false;
    }
    memset(program->orbit, -1, sizeof(int) * (size_t)(ranks * links));
    memset(program->price_class, -1, sizeof(int) * (size_t)price_count);
    for (int source = 0; source < ranks; ++source) {
        program->is_representative[source] = program->wanted[source] != 0;
        for (int symmetry = 0; symmetry < program->symmetry.count; ++symmetry) {
            program->is_representative[source] &= program->symmetry.map[symmetry][source] >= source;
        }
        for (int link = 0; program->wanted[source] != 0 && link < links; ++link) {
            int orbit = program->orbits;

            if (program->orbit[source * links + link] >= 0) {
                continue;
            }
            program->orbit_link[orbit] = link;
            ++program->orbits;
            for (int symmetry = 0; symmetry < program->symmetry.count; ++symmetry) {
                int *image_orbit_p =
                    &program
                         ->orbit[program->symmetry.map[symmetry][source] * links + link_image(program, symmetry, link)];

                program->orbit_size[orbit] += *image_orbit_p < 0;
                *image_orbit_p = orbit;
            }
        }
    }
    for (int item = 0; item < price_count; ++item) { /* a link or a group */
        int class = program->price_classes;

        if (program->price_class[item] >= 0) {
            continue;
        }
        ++program->price_classes;
        for (int symmetry = 0; symmetry < program->symmetry.count; ++symmetry) {
            int *image_class_p =
                &program->price_class[item < links ? link_image(program, symmetry, item)
                                                   : links + group_image(program, symmetry, item - links)];

            program->class_size[class] += *image_class_p < 0;
            *image_class_p = class;
        }
    }
    return true;
}

/* Returns the row of the simplex for an orbit in a layer. Behind these rows there is one more for each layer, which
 * bounds the cost of the layer's prices. */
static int orbit_row(const program_t *program, int layer, int orbit)
{
    return layer * program->orbits + orbit;
}

/* Adds a column for the price of each class of links or groups in each layer. By its price, a link or group limits how
 * much of it all chunks use together. The cost of a price is the capacity. Returns false if memory runs out. */
static bool add_prices(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int links = topology->link_count, count;
    int *entry_row = malloc(sizeof(int) * (size_t)(program->orbits + 1));
    double *entry_value = malloc(sizeof(double) * (size_t)(program->orbits + 1));
    bool ok = entry_row != NULL && entry_value != NULL;

    program->price_column = calloc((size_t)(program->layers * program->price_classes), sizeof(int));
    ok = ok && program->price_column != NULL;
    for (int layer = 0; ok && layer < program->layers; ++layer) {
        for (int class = 0; ok && class < program->price_classes; ++class) {
            int capacity = 0; /* of each member of the class */

            for (int item = 0; item < links + topology->group_count; ++item) {
                if (program->price_class[item] == class) {
                    capacity = item < links ? topology->links[item].capacity : topology->groups[item - links].capacity;
                }
            }
            count = 0;
            for (int orbit = 0; orbit < program->orbits; ++orbit) {
                int link = program->orbit_link[orbit];
                int uses = program->price_class[link] == class; /* how many prices of the class the link pays */

                for (int j = 0; j < topology->group_count; ++j) {
                    for (int i = 0; program->price_class[links + j] == class && i < topology->groups[j].count; ++i) {
                        uses += topology->groups[j].links[i] == link;
                    }
                }
                if (uses > 0) {
                    entry_row[count] = orbit_row(program, layer, orbit);
                    entry_value[count++] = -uses;
                }
            }
            entry_row[count] = program->layers * program->orbits + layer;
            entry_value[count++] = (double)capacity * program->class_size[class];
            program->price_column[layer * program->price_classes + class] =
                synth_simplex_add_column(program->simplex, 0, count, entry_row, entry_value);
            ok = program->price_column[layer * program->price_classes + class] >= 0;
        }
    }
    free(entry_row);
    free(entry_value);
    return ok;
}

/* Returns the vertex of a rank after `step` steps. If the number of steps is free, each rank has only one vertex. */
static int vertex_of(const program_t *program, int rank, int step)
{
    return program->steps == 0 ? rank : step * program->topology->ranks + rank;
}

/* Makes the graph over steps. Its arcs come in this order: the links (layer * links + link); one from each rank to the
 * sink; one for each rank and step, by which chunks stay where they are. Returns false if memory runs out. */
static bool build_graph(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int ranks = topology->ranks;

    program->sink = ranks * (program->steps + 1);
    program->flow = synth_flow_new(program->sink + 1, program->layers * (topology->link_count + ranks) + ranks);
    if (program->flow == NULL) {
        return false;
    }
    for (int step = 0; step < program->layers; ++step) {
        for (int link = 0; link < topology->link_count; ++link) {
            synth_flow_add_arc(program->flow, vertex_of(program, topology->links[link].from, step),
                               vertex_of(program, topology->links[link].to, step + 1), 0);
        }
    }
    for (int rank = 0; rank < ranks; ++rank) {
        synth_flow_add_arc(program->flow, vertex_of(program, rank, program->steps), program->sink, 0);
    }
    for (int step = 0; step < program->steps; ++step) {
        for (int rank = 0; rank < ranks; ++rank) {
            synth_flow_add_arc(program->flow, vertex_of(program, rank, step), vertex_of(program, rank, step + 1),
                               SYNTH_FLOW_FULL);
        }
    }
    return true;
}

/*
 * Sets the capacities of the graph for a source, which must have chunks, and some of its receivers. Each link gets the
 * capacity that the current solution allows for the chunks of this source. Returns the total flow that has to reach the
 * receivers, in units of 1/SCALE.
 */
static int64_t set_capacities(program_t *program, int source, uint64_t receivers)
{
    const synth_topology_t *topology = program->topology;
    int links = topology->link_count, link_arcs = program->layers * links, ranks = topology->ranks;

    for (int layer = 0; layer < program->layers; ++layer) {
        for (int link = 0; link < links; ++link) {
            int orbit = program->orbit[source * links + link];
            double amount =
                synth_simplex_price(program->simplex, orbit_row(program, layer, orbit)) / program->orbit_size[orbit];
            int64_t capacity = amount > 0 ? (int64_t)(amount * SCALE + 0.5) : 0;

            synth_flow_set_capacity(program->flow, layer * links + link, capacity);
        }
    }
    for (int rank = 0; rank < ranks; ++rank) {
        synth_flow_set_capacity(program->flow, link_arcs + rank, (receivers >> rank & 1) != 0 ? SCALE : 0);
    }
    for (int arc = link_arcs + ranks; arc < link_arcs + ranks + program->steps * ranks; ++arc) {
        synth_flow_set_capacity(program->flow, arc, SYNTH_FLOW_FULL);
    }
    return (int64_t)__builtin_popcountll(receivers) * SCALE;
}

/*
 * Adds the minimum cut that the last flow found. For each of the receivers on its far side, one chunk of the source has
 * to cross the cut. Returns false if memory runs out; the program cannot then be solved further.
 */
static bool add_cut(program_t *program, int source, uint64_t receivers)
{
    const synth_topology_t *topology = program->topology;
    int links = topology->link_count, count = 0;
    cut_t *cut = &program->cuts[program->cut_count];
    int *entry_row = malloc(sizeof(int) * (size_t)(program->layers * links));
    double *entry_value = malloc(sizeof(double) * (size_t)(program->layers * links));

    cut->source = source;
    cut->needed = 0;
    for (int rank = 0; rank < topology->ranks; ++rank) {
        cut->needed += (receivers >> rank & 1) != 0 &&
                       !synth_flow_is_near(program->flow, vertex_of(program, rank, program->steps));
    }
    cut->arc = malloc(sizeof(int) * (size_t)(program->layers * links));
    if (cut->arc == NULL || entry_row == NULL || entry_value == NULL) {
        free(cut->arc);
        free(entry_row);
        free(entry_value);
        return false;
    }
    for (int layer = 0; layer < program->layers; ++layer) {
        for (int link = 0; link < links; ++link) {
            if (synth_flow_is_near(program->flow, vertex_of(program, topology->links[link].from, layer)) &&
                !synth_flow_is_near(program->flow, vertex_of(program, topology->links[link].to, layer + 1))) {
                int orbit = program->orbit[source * links + link];

                entry_row[count] = orbit_row(program, layer, orbit);
                entry_value[count] = 1.0 / program->orbit_size[orbit];
                cut->arc[count++] = layer * links + link;
            }
        }
    }
    cut->count = count;
    cut->column = synth_simplex_add_column(program->simplex, cut->needed, count, entry_row, entry_value);
    ++program->cut_count;
    free(entry_row);
    free(entry_value);
    return cut->column >= 0;
}

/*
 * Searches for violated cuts and adds them. One source of each class is checked. If each receiver wants different data,
 * all its receivers are checked at once; otherwise they are checked one after another. Returns the number of cuts that
 * were added, or -1 if memory runs out or there are too many cuts.
 */
static int add_violated_cuts(program_t *program)
{
    int added = 0;

    for (int source = 0; source < program->topology->ranks; ++source) {
        uint64_t unchecked = program->is_representative[source] ? program->wanted[source] : 0;

        while (unchecked != 0) {
            uint64_t receivers = program->splits ? unchecked : unchecked & -unchecked;
            int64_t needed = set_capacities(program, source, receivers);

            unchecked &= ~receivers;
            if (synth_flow_run(program->flow, vertex_of(program, source, 0), program->sink, needed) <
                needed - TOLERANCE) {
                if (program->cut_count == MAX_CUTS || !add_cut(program, source, receivers)) {
                    return -1;
                }
                ++added;
            }
        }
    }
    return added;
}

/*
 * Returns the bound that follows from the solution, in whole numbers: the gain of the cuts, divided by the cost of the
 * prices in the most expensive layer. The weights of cuts are rounded to multiples of 1/parts. The price of each link
 * is then set as high as these cuts require. So the bound is valid, however much rounding has changed. Returns 0/1 if
 * memory runs out or all prices are 0. All values are multiplied by the number of symmetries, so that they can be
 * divided by the size of each orbit.
 */
static synth_rational_t exact_bound(const program_t *program, const double *weight, int64_t parts)
{
    const synth_topology_t *topology = program->topology;
    int links = topology->link_count, price_count = links + topology->group_count, symmetries = program->symmetry.count;
    int64_t *load = calloc((size_t)(program->layers * program->orbits), sizeof(*load)), gain = 0, max_cost = 0;
    int64_t *group_price = calloc((size_t)price_count, sizeof(*group_price));

    if (load == NULL || group_price == NULL) {
        free(load);
        free(group_price);
        return synth_fraction(0, 1);
    }
    for (int j = 0; j < program->cut_count; ++j) {
        const cut_t *cut = &program->cuts[j];
        int64_t scaled_weight = (int64_t)llround(weight[j] * (double)parts);

        gain += scaled_weight * cut->needed * symmetries;
        for (int i = 0; scaled_weight > 0 && i < cut->count; ++i) {
            int orbit = program->orbit[cut->source * links + cut->arc[i] % links];

            load[orbit_row(program, cut->arc[i] / links, orbit)] +=
                scaled_weight * (symmetries / program->orbit_size[orbit]);
        }
    }
    for (int layer = 0; layer < program->layers; ++layer) {
        int64_t cost = 0;

        for (int j = 0; j < topology->group_count; ++j) {
            int column = program->price_column[layer * program->price_classes + program->price_class[links + j]];
            double value = synth_simplex_variable(program->simplex, column);

            group_price[links + j] = value > 0 ? (int64_t)llround(value * (double)(parts * symmetries)) : 0;
            cost += group_price[links + j] * topology->groups[j].capacity;
        }
        /* The price of a link is the largest load that any source puts on it, less the prices of its groups. */
        for (int link = 0; link < links; ++link) {
            int64_t link_price = 0;

            for (int source = 0; source < topology->ranks; ++source) {
                if (program->wanted[source] != 0) {
                    int64_t orbit_load = load[orbit_row(program, layer, program->orbit[source * links + link])];

                    link_price = orbit_load > link_price ? orbit_load : link_price;
                }
            }
            for (int j = 0; j < topology->group_count; ++j) {
                for (int i = 0; i < topology->groups[j].count; ++i) {
                    link_price -= topology->groups[j].links[i] == link ? group_price[links + j] : 0;
                }
            }
            cost += (link_price > 0 ? link_price : 0) * topology->links[link].capacity;
        }
        max_cost = cost > max_cost ? cost : max_cost;
    }
    free(load);
    free(group_price);
    return max_cost > 0 ? synth_fraction(gain, max_cost) : synth_fraction(0, 1);
}

/*
 * Sets the exact bound. Rounds the weights of cuts to multiples of 1, 1/2, 1/3 and so on, then of the reciprocals of
 * `fine_parts`, until the bound meets the floating-point value. If the solution is not optimal, only the fine parts are
 * tried. If memory runs out, the bound is 0/1.
 */
static void set_exact_bound(const program_t *program, bool is_optimal, synth_slp_t *slp)
{
    static const int64_t fine_parts[] = {5040, 55440, 720720, 1 << 20}; /* all but one have many divisors */
    double *weight = malloc(sizeof(*weight) * (size_t)(program->cut_count + 1));

    slp->bound = synth_fraction(0, 1);
    if (weight == NULL) {
        return;
    }
    for (int i = 0; i < program->cut_count; ++i) {
        double value = synth_simplex_variable(program->simplex, program->cuts[i].column);

        weight[i] = value > 1e-9 ? value : 0;
    }
    for (int i = 1; is_optimal && i < MAX_PARTS && synth_value(slp->bound) < slp->value - PRECISION; ++i) {
        slp->bound = synth_larger(slp->bound, exact_bound(program, weight, i));
    }
    for (size_t i = 0;
         i < sizeof(fine_parts) / sizeof(fine_parts[0]) && synth_value(slp->bound) < slp->value - PRECISION; ++i) {
        slp->bound = synth_larger(slp->bound, exact_bound(program, weight, fine_parts[i]));
    }
    free(weight);
}

/* Writes the loads that synth_slp_loads returns: the members of an orbit share its sum equally. */
static void write_loads(const program_t *program, double *load)
{
    int links = program->topology->link_count;

    for (int source = 0; source < program->topology->ranks; ++source) {
        for (int link = 0; link < links; ++link) {
            int orbit = program->orbit[source * links + link];

            load[source * links + link] =
                orbit < 0
                    ? 0
                    : synth_simplex_price(program->simplex, orbit_row(program, 0, orbit)) / program->orbit_size[orbit];
        }
    }
}

/*
 * Solves the program: alternates between the simplex method and the search for violated cuts. Sets the bound, which is
 * valid even if the deadline ends the search for cuts. If `load` is not NULL, writes the loads instead of a bound, and
 * returns MSCCLPP_ERR_TIMEOUT after the deadline. Returns MSCCLPP_ERR_NOT_SUPPORTED if there are too many rows, and
 * MSCCLPP_ERR_NO_MEMORY if memory runs out or there are too many cuts. The caller frees the arrays of the program in
 * either case.
 */
static mscclpp_status_t solve(program_t *program, double *load, synth_slp_t *slp)
{
    int rows, added = 1;
    bool is_late = false;
    double *right_sides;

    if (!classify(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    rows = program->layers * (program->orbits + 1);
    if (rows > MAX_ROWS) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    right_sides = calloc((size_t)rows, sizeof(*right_sides));
    for (int layer = 0; right_sides != NULL && layer < program->layers; ++layer) {
        right_sides[program->layers * program->orbits + layer] = 1;
    }
    program->simplex = right_sides != NULL ? synth_simplex_new(rows, right_sides) : NULL;
    program->cuts = calloc(MAX_CUTS, sizeof(*program->cuts));
    free(right_sides);
    if (program->simplex == NULL || program->cuts == NULL || !build_graph(program) || !add_prices(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    while (added > 0 && !is_late) {
        added = add_violated_cuts(program);
        if (added < 0) {
            return MSCCLPP_ERR_NO_MEMORY;
        }
        if (added > 0) {
            do {
                is_late = mscclpp_now() > program->deadline;
            } while (!is_late && !synth_simplex_run(program->simplex, PIVOTS_AT_ONCE) &&
                     synth_simplex_pivots(program->simplex) < MAX_PIVOTS);
        }
    }
    slp->value = synth_simplex_objective(program->simplex);
    slp->cuts = program->cut_count;
    slp->pivots = synth_simplex_pivots(program->simplex);
    if (load != NULL) {
        write_loads(program, load);
        return is_late ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
    }
    set_exact_bound(program, !is_late, slp);
    return MSCCLPP_OK;
}

/*
 * Sets up, solves and frees the program. If `load` is not NULL, writes the result of synth_slp_loads, and computes no
 * bound. Returns MSCCLPP_ERR_NOT_SUPPORTED for too many ranks, and otherwise the status of solve.
 */
static mscclpp_status_t set_up_and_solve(const synth_topology_t *topology, synth_collective_t collective, int root,
                                         int steps, double seconds, double *load, synth_slp_t *slp)
{
    program_t *program = topology->ranks <= SYNTH_SLP_RANKS ? calloc(1, sizeof(*program)) : NULL;
    bool has_root = collective != SYNTH_ALLGATHER && collective != SYNTH_ALLTOALL;
    mscclpp_status_t status;

    if (collective == SYNTH_GATHER) { /* reversed, it is a scatter, whose single source makes the program small */
        synth_topology_t *reversed = synth_topology_transposed(topology);

        free(program);
        status = reversed != NULL ? set_up_and_solve(reversed, SYNTH_SCATTER, root, steps, seconds, load, slp)
                                  : MSCCLPP_ERR_NO_MEMORY;
        synth_topology_free(reversed);
        return status;
    }
    if (program == NULL) {
        return topology->ranks > SYNTH_SLP_RANKS ? MSCCLPP_ERR_NOT_SUPPORTED : MSCCLPP_ERR_NO_MEMORY;
    }
    program->topology = topology;
    program->steps = steps;
    program->layers = steps > 0 ? steps : 1;
    program->deadline = mscclpp_now() + seconds;
    set_wanted(program, collective, root);
    synth_symmetry_find(topology, has_root ? root : -1, &program->symmetry);
    status = solve(program, load, slp);
    if (status == MSCCLPP_OK && collective == SYNTH_ALLTOALL) {
        /*
         * The program has one chunk for each receiver; callers count all chunks that a rank sends, including its own.
         */
        slp->bound = synth_fraction(slp->bound.num, slp->bound.den * topology->ranks);
        slp->value /= topology->ranks;
    }
    for (int i = 0; program->cuts != NULL && i < program->cut_count; ++i) {
        free(program->cuts[i].arc);
    }
    free(program->cuts);
    synth_flow_free(program->flow);
    synth_simplex_free(program->simplex);
    free(program->orbit);
    free(program->orbit_size);
    free(program->orbit_link);
    free(program->price_class);
    free(program->class_size);
    free(program->price_column);
    free(program);
    return status;
}

mscclpp_status_t synth_slp_solve(const synth_topology_t *topology, synth_collective_t collective, int root, int steps,
                                 double seconds, synth_slp_t *slp)
{
    return set_up_and_solve(topology, collective, root, steps, seconds, NULL, slp);
}

bool synth_slp_loads(const synth_topology_t *topology, synth_collective_t collective, int root, double seconds,
                     double *load)
{
    synth_slp_t slp;

    return set_up_and_solve(topology, collective, root, 0, seconds, load, &slp) == MSCCLPP_OK;
}
