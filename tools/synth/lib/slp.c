/* Bounds by flows over steps: cuts are added until no flow is violated. */
#include "tools/synth/lib/slp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/simplex.h"
#include "tools/synth/lib/symmetry.h"

enum { MOST_ROWS = 2600, MOST_CUTS = 20000, SCALE = 1 << 30 };

/* A constraint of the linear program: the arcs across a cut carry at least `right` units of a source. */
typedef struct {
    int source;
    int right;       /* units of the source that have to cross it */
    int column;      /* of the program */
    int count, *arc; /* of the graph over steps: step * links + link */
} cut_t;

typedef struct {
    const synth_topology_t *topology;
    int steps, layers; /* layers: of rows; 1 if the number of steps is free */
    uint64_t wanted[SYNTH_MAX_RANKS];
    bool splits; /* scatter, all-to-all: each receiver wants data of its own, so that one copy does not serve all */
    synth_symmetry_t symmetry;
    int *orbit; /* [source][link]: pairs that a symmetry maps onto each other share one; -1: not used */
    int *orbit_size, *orbit_link, orbits;
    int *row_class, *row_size, row_classes; /* of links and then groups: those that share a price */
    int *price_column;                      /* [layer][class] */
    bool first[SYNTH_MAX_RANKS];            /* the least rank of its class */
    synth_simplex_t *simplex;
    cut_t *cut;
    int cut_count;
    synth_flow_t *flow;
    int sink;
    double deadline;
} program_t;

/* Sets who wants the chunks of each rank. */
static void set_wanted(program_t *program, synth_collective_t collective, int root)
{
    int n = program->topology->ranks;
    uint64_t all = UINT64_MAX >> (64 - n);

    for (int v = 0; v < n; ++v) {
        uint64_t others = all & ~(UINT64_C(1) << v);

        program->wanted[v] = collective == SYNTH_ALLGATHER || collective == SYNTH_ALLTOALL || v == root ? others : 0;
        if (collective == SYNTH_GATHER) {
            program->wanted[v] = v == root ? 0 : UINT64_C(1) << root;
        }
    }
    program->splits = collective == SYNTH_SCATTER || collective == SYNTH_ALLTOALL;
}

/* The link that symmetry g maps a link onto. */
static int link_image(const program_t *program, int g, int link)
{
    const synth_link_t *from = &program->topology->links[link];
    const unsigned char *map = program->symmetry.map[g];

    return program->topology->at[map[from->from]][map[from->to]];
}

/* Whether symmetry g maps one group onto another. Symmetry 0 is the identity. */
static bool is_image(const program_t *program, int g, int group, int other)
{
    const synth_group_t *from = &program->topology->groups[group], *to = &program->topology->groups[other];
    int same = 0;

    if (to->count != from->count || to->capacity != from->capacity) {
        return false;
    }
    for (int a = 0; a < from->count; ++a) {
        int image = link_image(program, g, from->links[a]);

        for (int b = 0; b < to->count; ++b) {
            same += to->links[b] == image;
        }
    }
    return same == from->count;
}

/* The group that symmetry g maps a group onto. If several groups have the same links, the k-th of them is mapped
 * onto the k-th of the images. */
static int group_image(const program_t *program, int g, int group)
{
    int before = 0;

    for (int j = 0; j < group; ++j) {
        before += is_image(program, 0, group, j);
    }
    for (int j = 0; j < program->topology->group_count; ++j) {
        if (is_image(program, g, group, j) && before-- == 0) {
            return j;
        }
    }
    return group; /* not reached: symmetries keep groups */
}

/* Numbers the orbits: pairs of source and link, and links and groups, that symmetries map onto each other share one
 * number. False without memory. */
static bool classify(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int n = topology->ranks, e = topology->link_count, rows = e + topology->group_count;

    program->orbit = malloc(sizeof(int) * (size_t)(n * e));
    program->orbit_size = calloc((size_t)(n * e), sizeof(int));
    program->orbit_link = calloc((size_t)(n * e), sizeof(int));
    program->row_class = malloc(sizeof(int) * (size_t)rows);
    program->row_size = calloc((size_t)rows, sizeof(int));
    if (program->orbit == NULL || program->orbit_size == NULL || program->orbit_link == NULL ||
        program->row_class == NULL || program->row_size == NULL) {
        return false;
    }
    memset(program->orbit, -1, sizeof(int) * (size_t)(n * e));
    memset(program->row_class, -1, sizeof(int) * (size_t)rows);
    for (int v = 0; v < n; ++v) {
        program->first[v] = program->wanted[v] != 0;
        for (int g = 0; g < program->symmetry.count; ++g) {
            program->first[v] = program->first[v] && program->symmetry.map[g][v] >= v;
        }
        for (int link = 0; program->wanted[v] != 0 && link < e; ++link) {
            int id = program->orbits;

            if (program->orbit[v * e + link] >= 0) {
                continue;
            }
            program->orbit_link[id] = link;
            ++program->orbits;
            for (int g = 0; g < program->symmetry.count; ++g) {
                int *at = &program->orbit[program->symmetry.map[g][v] * e + link_image(program, g, link)];

                program->orbit_size[id] += *at < 0;
                *at = id;
            }
        }
    }
    for (int row = 0; row < rows; ++row) {
        int id = program->row_classes;

        if (program->row_class[row] >= 0) {
            continue;
        }
        ++program->row_classes;
        for (int g = 0; g < program->symmetry.count; ++g) {
            int *at = &program->row_class[row < e ? link_image(program, g, row) : e + group_image(program, g, row - e)];

            program->row_size[id] += *at < 0;
            *at = id;
        }
    }
    return true;
}

/* The row of the program for an orbit in a layer. */
static int row_of(const program_t *program, int layer, int orbit)
{
    return layer * program->orbits + orbit;
}

/* Adds a column for the price of each class of links and groups: it relieves the rows of the pairs that it limits,
 * and costs its capacity. False without memory. */
static bool add_prices(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int e = topology->link_count, count;
    int *rows = malloc(sizeof(int) * (size_t)(program->orbits + 1));
    double *values = malloc(sizeof(double) * (size_t)(program->orbits + 1));
    bool fine = rows != NULL && values != NULL;

    program->price_column = calloc((size_t)(program->layers * program->row_classes), sizeof(int));
    fine = fine && program->price_column != NULL;
    for (int layer = 0; fine && layer < program->layers; ++layer) {
        for (int id = 0; fine && id < program->row_classes; ++id) {
            int capacity = 0;

            for (int row = 0; row < e + topology->group_count; ++row) {
                if (program->row_class[row] == id) {
                    capacity = row < e ? topology->links[row].capacity : topology->groups[row - e].capacity;
                }
            }
            count = 0;
            for (int orbit = 0; orbit < program->orbits; ++orbit) {
                int link = program->orbit_link[orbit], covers = program->row_class[link] == id;

                for (int j = 0; j < topology->group_count; ++j) {
                    for (int k = 0; program->row_class[e + j] == id && k < topology->groups[j].count; ++k) {
                        covers += topology->groups[j].links[k] == link;
                    }
                }
                if (covers > 0) {
                    rows[count] = row_of(program, layer, orbit);
                    values[count++] = -covers;
                }
            }
            rows[count] = program->layers * program->orbits + layer;
            values[count++] = (double)capacity * program->row_size[id];
            program->price_column[layer * program->row_classes + id] =
                synth_simplex_column(program->simplex, 0, count, rows, values);
            fine = program->price_column[layer * program->row_classes + id] >= 0;
        }
    }
    free(rows);
    free(values);
    return fine;
}

/* The vertex of a rank in a layer of the graph. */
static int node(const program_t *program, int rank, int layer)
{
    return program->steps == 0 ? rank : layer * program->topology->ranks + rank;
}

/* Makes the graph over steps. The arcs of links come first, so that their positions are known. False without memory. */
static bool build_graph(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int n = topology->ranks;

    program->sink = n * (program->steps + 1);
    program->flow = synth_flow_new(program->sink + 1, program->layers * (topology->link_count + n) + n);
    if (program->flow == NULL) {
        return false;
    }
    for (int s = 0; s < program->layers; ++s) {
        for (int i = 0; i < topology->link_count; ++i) {
            synth_flow_arc(program->flow, node(program, topology->links[i].from, s),
                           node(program, topology->links[i].to, s + 1), 0);
        }
    }
    for (int rank = 0; rank < n; ++rank) {
        synth_flow_arc(program->flow, node(program, rank, program->steps), program->sink, 0);
    }
    for (int s = 0; s < program->steps; ++s) {
        for (int rank = 0; rank < n; ++rank) {
            synth_flow_arc(program->flow, node(program, rank, s), node(program, rank, s + 1), SYNTH_FLOW_FULL);
        }
    }
    return true;
}

/* Sets the capacities of the graph to what the program's solution allows the chunks of a source, with these sinks.
 * Returns the flow that has to reach them. */
static int64_t fill(program_t *program, int source, uint64_t sinks)
{
    const synth_topology_t *topology = program->topology;
    int e = topology->link_count, arcs = program->layers * e, n = topology->ranks;

    for (int s = 0; s < program->layers; ++s) {
        for (int link = 0; link < e; ++link) {
            int orbit = program->orbit[source * e + link];
            double x = synth_simplex_price(program->simplex, row_of(program, s, orbit)) / program->orbit_size[orbit];

            synth_flow_set(program->flow, s * e + link, x > 0 ? (int64_t)(x * SCALE + 0.5) : 0);
        }
    }
    for (int rank = 0; rank < n; ++rank) {
        synth_flow_set(program->flow, arcs + rank, (sinks >> rank & 1) != 0 ? SCALE : 0);
    }
    for (int i = arcs + n; i < arcs + n + program->steps * n; ++i) {
        synth_flow_set(program->flow, i, SYNTH_FLOW_FULL);
    }
    return (int64_t)__builtin_popcountll(sinks) * SCALE;
}

/* Adds the minimum cut that the last flow found as a column. False without memory. */
static bool add_cut(program_t *program, int source, uint64_t sinks)
{
    const synth_topology_t *topology = program->topology;
    int e = topology->link_count, count = 0;
    cut_t *cut = &program->cut[program->cut_count];
    int *rows;
    double *values;

    cut->source = source;
    cut->right = 0;
    for (int rank = 0; rank < topology->ranks; ++rank) {
        cut->right += (sinks >> rank & 1) != 0 && !synth_flow_near(program->flow, node(program, rank, program->steps));
    }
    cut->arc = malloc(sizeof(int) * (size_t)(program->layers * e));
    rows = malloc(sizeof(int) * (size_t)(program->layers * e));
    values = malloc(sizeof(double) * (size_t)(program->layers * e));
    if (cut->arc == NULL || rows == NULL || values == NULL) {
        free(rows);
        free(values);
        return false;
    }
    for (int s = 0; s < program->layers; ++s) {
        for (int link = 0; link < e; ++link) {
            if (synth_flow_near(program->flow, node(program, topology->links[link].from, s)) &&
                !synth_flow_near(program->flow, node(program, topology->links[link].to, s + 1))) {
                int orbit = program->orbit[source * e + link];

                rows[count] = row_of(program, s, orbit);
                values[count] = 1.0 / program->orbit_size[orbit];
                cut->arc[count++] = s * e + link;
            }
        }
    }
    cut->count = count;
    cut->column = synth_simplex_column(program->simplex, cut->right, count, rows, values);
    ++program->cut_count;
    free(rows);
    free(values);
    return cut->column >= 0;
}

/* Looks for violated cuts and adds them. Returns how many were added, -1 without memory. */
static int separate(program_t *program)
{
    int added = 0;

    for (int v = 0; v < program->topology->ranks; ++v) {
        uint64_t rest = program->first[v] ? program->wanted[v] : 0;

        while (rest != 0) {
            uint64_t sinks = program->splits ? rest : rest & -rest;
            int64_t want = fill(program, v, sinks);

            rest &= ~sinks;
            if (synth_flow_run(program->flow, node(program, v, 0), program->sink, want) < want - SCALE / 1000000) {
                if (program->cut_count == MOST_CUTS || !add_cut(program, v, sinks)) {
                    return -1;
                }
                ++added;
            }
        }
    }
    return added;
}

/* The exact value of the dual solution, with the weights of cuts rounded to multiples of 1/parts and the prices
 * raised until they fit. */
static synth_rational_t evaluate(const program_t *program, const double *weight, int64_t parts)
{
    const synth_topology_t *topology = program->topology;
    int e = topology->link_count, rows = e + topology->group_count, sizes = program->symmetry.count;
    int64_t *load = calloc((size_t)(program->layers * program->orbits), sizeof(*load)), gain = 0, most = 0;
    int64_t *price = calloc((size_t)rows, sizeof(*price));

    if (load == NULL || price == NULL) {
        free(load);
        free(price);
        return synth_fraction(0, 1);
    }
    /* Everything is multiplied by the number of symmetries, which the size of each orbit divides. */
    for (int k = 0; k < program->cut_count; ++k) {
        const cut_t *cut = &program->cut[k];
        int64_t times = (int64_t)llround(weight[k] * (double)parts);

        gain += times * cut->right * sizes;
        for (int i = 0; times > 0 && i < cut->count; ++i) {
            int orbit = program->orbit[cut->source * e + cut->arc[i] % e];

            load[row_of(program, cut->arc[i] / e, orbit)] += times * (sizes / program->orbit_size[orbit]);
        }
    }
    for (int s = 0; s < program->layers; ++s) {
        int64_t cost = 0;

        for (int j = 0; j < topology->group_count; ++j) {
            int column = program->price_column[s * program->row_classes + program->row_class[e + j]];
            double value = synth_simplex_variable(program->simplex, column);

            price[e + j] = value > 0 ? (int64_t)llround(value * (double)(parts * sizes)) : 0;
            cost += price[e + j] * topology->groups[j].capacity;
        }
        for (int link = 0; link < e; ++link) {
            int64_t need = 0;

            for (int v = 0; v < topology->ranks; ++v) {
                if (program->wanted[v] != 0) {
                    int64_t here = load[row_of(program, s, program->orbit[v * e + link])];

                    need = here > need ? here : need;
                }
            }
            for (int j = 0; j < topology->group_count; ++j) {
                for (int k = 0; k < topology->groups[j].count; ++k) {
                    need -= topology->groups[j].links[k] == link ? price[e + j] : 0;
                }
            }
            cost += (need > 0 ? need : 0) * topology->links[link].capacity;
        }
        most = cost > most ? cost : most;
    }
    free(load);
    free(price);
    return most > 0 ? synth_fraction(gain, most) : synth_fraction(0, 1);
}

/* Computes the exact bound: tries denominators until rounding loses nothing. For a solution that is not optimal,
 * only large denominators are tried. */
static void prove(const program_t *program, bool best, synth_slp_t *slp)
{
    static const int64_t large[] = {5040, 55440, 720720, 1 << 20};
    double *weight = malloc(sizeof(*weight) * (size_t)(program->cut_count + 1));

    slp->bound = synth_fraction(0, 1);
    if (weight == NULL) {
        return;
    }
    for (int k = 0; k < program->cut_count; ++k) {
        double value = synth_simplex_variable(program->simplex, program->cut[k].column);

        weight[k] = value > 1e-9 ? value : 0;
    }
    for (int i = 1; best && i < 1000 && synth_value(slp->bound) < slp->value - 1e-7; ++i) {
        slp->bound = synth_larger(slp->bound, evaluate(program, weight, i));
    }
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]) && synth_value(slp->bound) < slp->value - 1e-7; ++i) {
        slp->bound = synth_larger(slp->bound, evaluate(program, weight, large[i]));
    }
    free(weight);
}

/* Writes how much of each link the solved program gives the chunks of each rank. */
static void tell_loads(const program_t *program, double *load)
{
    int e = program->topology->link_count;

    for (int v = 0; v < program->topology->ranks; ++v) {
        for (int link = 0; link < e; ++link) {
            int orbit = program->orbit[v * e + link];

            load[v * e + link] = orbit < 0 ? 0
                                           : synth_simplex_price(program->simplex, row_of(program, 0, orbit)) /
                                                 program->orbit_size[orbit];
        }
    }
}

/* Solves the program: alternates between the simplex method and the search for violated cuts. */
static mscclpp_status_t solve(program_t *program, double *load, synth_slp_t *slp)
{
    int rows, added = 1;
    bool late = false;
    double *most;

    if (!classify(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    rows = program->layers * (program->orbits + 1);
    if (rows > MOST_ROWS) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    most = calloc((size_t)rows, sizeof(*most));
    for (int s = 0; most != NULL && s < program->layers; ++s) {
        most[program->layers * program->orbits + s] = 1;
    }
    program->simplex = most != NULL ? synth_simplex_new(rows, most) : NULL;
    program->cut = calloc(MOST_CUTS, sizeof(*program->cut));
    free(most);
    if (program->simplex == NULL || program->cut == NULL || !build_graph(program) || !add_prices(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    while (added > 0 && !late) {
        added = separate(program);
        if (added < 0) {
            return MSCCLPP_ERR_NO_MEMORY;
        }
        if (added > 0) {
            do {
                late = mscclpp_now() > program->deadline;
            } while (!late && !synth_simplex_run(program->simplex, 100) &&
                     synth_simplex_pivots(program->simplex) < 200000);
        }
    }
    /* Whatever cuts are known by now, the dual solution that they make is a bound. */
    slp->value = synth_simplex_objective(program->simplex);
    slp->cuts = program->cut_count;
    slp->pivots = synth_simplex_pivots(program->simplex);
    if (load != NULL) {
        tell_loads(program, load);
        return late ? MSCCLPP_ERR_TIMEOUT : MSCCLPP_OK;
    }
    prove(program, !late, slp);
    return MSCCLPP_OK;
}

/* Sets up, solves and frees the program. With `load`, it writes what synth_slp_loads returns, and computes no bound. */
static mscclpp_status_t run(const synth_topology_t *topology, synth_collective_t collective, int root, int steps,
                            double seconds, double *load, synth_slp_t *slp)
{
    program_t *program = topology->ranks <= SYNTH_SLP_RANKS ? calloc(1, sizeof(*program)) : NULL;
    bool rooted = collective != SYNTH_ALLGATHER && collective != SYNTH_ALLTOALL;
    mscclpp_status_t status;

    if (collective == SYNTH_GATHER) { /* backwards it is a scatter, whose one source makes the program small */
        synth_topology_t *turned = synth_topology_transposed(topology);

        free(program);
        status = turned != NULL ? run(turned, SYNTH_SCATTER, root, steps, seconds, load, slp) : MSCCLPP_ERR_NO_MEMORY;
        synth_topology_free(turned);
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
    synth_symmetry_find(topology, rooted ? root : -1, &program->symmetry);
    status = solve(program, load, slp);
    if (status == MSCCLPP_OK && collective == SYNTH_ALLTOALL) {
        slp->bound = synth_fraction(slp->bound.num, slp->bound.den * topology->ranks);
        slp->value /= topology->ranks;
    }
    for (int i = 0; program->cut != NULL && i < program->cut_count; ++i) {
        free(program->cut[i].arc);
    }
    free(program->cut);
    synth_flow_free(program->flow);
    synth_simplex_free(program->simplex);
    free(program->orbit);
    free(program->orbit_size);
    free(program->orbit_link);
    free(program->row_class);
    free(program->row_size);
    free(program->price_column);
    free(program);
    return status;
}

mscclpp_status_t synth_slp_solve(const synth_topology_t *topology, synth_collective_t collective, int root, int steps,
                                 double seconds, synth_slp_t *slp)
{
    return run(topology, collective, root, steps, seconds, NULL, slp);
}

bool synth_slp_loads(const synth_topology_t *topology, synth_collective_t collective, int root, double seconds,
                     double *load)
{
    synth_slp_t slp;

    return run(topology, collective, root, 0, seconds, load, &slp) == MSCCLPP_OK;
}
