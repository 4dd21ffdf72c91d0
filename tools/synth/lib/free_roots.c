/*
 * The linear program of free roots, solved by its dual.
 *
 * The program says how much of the vector each rank is the root of, and how much of each link the trees of each root
 * may use, in both directions: away from the root and towards it. It asks for the fewest rounds. Its dual is simpler to
 * build step by step: each column is a cut that the trees of one root have to cross, and cuts are added as long as
 * the solution at hand violates some.
 *
 * Symmetries of the topology make the program smaller: roots that a renumbering maps onto one another form a class and
 * share one row, and so do pairs of a root and a link. Rows are, in this order: one for each class of roots, one for
 * each direction and class of pairs, and one that bounds what all prices cost.
 */
#include "tools/synth/lib/free_roots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/simplex.h"
#include "tools/synth/lib/symmetry.h"

enum { MOST_ROWS = 2600, MOST_CUTS = 20000, SCALE = 1 << 30, WAYS = 2, MOST_RANKS = 24 };

/* A cut that the trees of one root have to cross: the links across it carry at least the root's share. */
typedef struct {
    int root, way; /* 0: away from the root, 1: towards it */
    int column;
    int count, *links; /* those that cross it */
} cut_t;

typedef struct {
    const synth_topology_t *topology;
    synth_simplex_t *simplex;
    synth_flow_t *flow; /* an arc a link; turned round for the way to the root */
    cut_t *cut;
    int cut_count;
    int *price; /* the column in which each link is paid for, then that of each group */
    synth_symmetry_t symmetry;
    int root_class[SYNTH_MAX_RANKS], root_size[SYNTH_MAX_RANKS], root_classes;
    int *pair_class, *pair_size, pair_classes; /* [root][link] */
    int *link_first, *link_size; /* of each link: the first one of its class; of a first one: how large the class is */
} program_t;

/* The link that symmetry g maps a link onto. */
static int link_image(const program_t *program, int g, int link)
{
    const unsigned char *map = program->symmetry.map[g];

    return program->topology->at[map[program->topology->links[link].from]][map[program->topology->links[link].to]];
}

/* Numbers the classes of roots, of pairs of root and link, and of links. False without memory. */
static bool classify(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int n = topology->ranks, e = topology->link_count;

    synth_symmetry_find(topology, -1, &program->symmetry);
    program->symmetry.count =
        topology->group_count > 0 ? 1 : program->symmetry.count; /* prices of groups have no classes */
    program->pair_class = malloc(sizeof(int) * (size_t)(n * e));
    program->pair_size = calloc((size_t)(n * e), sizeof(int));
    program->link_first = malloc(sizeof(int) * (size_t)e);
    program->link_size = calloc((size_t)e, sizeof(int));
    if (program->pair_class == NULL || program->pair_size == NULL || program->link_first == NULL ||
        program->link_size == NULL) {
        return false;
    }
    memset(program->pair_class, -1, sizeof(int) * (size_t)(n * e));
    memset(program->root_class, -1, sizeof(program->root_class));
    for (int link = 0; link < e; ++link) {
        program->link_first[link] = link;
        for (int g = 0; g < program->symmetry.count; ++g) {
            int image = link_image(program, g, link);

            program->link_first[link] = image < program->link_first[link] ? image : program->link_first[link];
        }
        ++program->link_size[program->link_first[link]];
    }
    for (int root = 0; root < n; ++root) {
        bool fresh = program->root_class[root] < 0;

        for (int g = 0; fresh && g < program->symmetry.count; ++g) {
            int *at = &program->root_class[program->symmetry.map[g][root]];

            program->root_size[program->root_classes] += *at < 0;
            *at = program->root_classes;
        }
        program->root_classes += fresh;
        for (int link = 0; link < e; ++link) {
            fresh = program->pair_class[root * e + link] < 0;
            for (int g = 0; fresh && g < program->symmetry.count; ++g) {
                int *at = &program->pair_class[program->symmetry.map[g][root] * e + link_image(program, g, link)];

                program->pair_size[program->pair_classes] += *at < 0;
                *at = program->pair_classes;
            }
            program->pair_classes += fresh;
        }
    }
    return true;
}

/* The row of a root and a link in one direction. */
static int row_of(const program_t *program, int way, int root, int link)
{
    return program->root_classes + way * program->pair_classes +
           program->pair_class[root * program->topology->link_count + link];
}

/* The row that bounds the cost of all prices. */
static int budget_row(const program_t *program)
{
    return program->root_classes + WAYS * program->pair_classes;
}

/*
 * What the solution at hand gives to one member of the class of a row, in whole numbers of 1/SCALE: a root's share of
 * the vector, or how much of a link its trees may use. The row has the sum for all members.
 */
static int64_t amount(const program_t *program, int row, int members)
{
    double value = synth_simplex_price(program->simplex, row) / members;

    return value > 0 ? (int64_t)(value * SCALE + 0.5) : 0;
}

/* Adds a column for each class of links and each group: it limits the sum over all roots and both directions. False
 * without memory. */
static bool add_prices(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int rows = topology->link_count + topology->group_count, most = WAYS * topology->ranks * topology->link_count + 1;
    int *row = malloc(sizeof(int) * (size_t)most);
    double *value = malloc(sizeof(double) * (size_t)most);
    bool fine = row != NULL && value != NULL;

    program->price = calloc((size_t)rows, sizeof(int));
    fine = fine && program->price != NULL;
    for (int i = 0; fine && i < rows; ++i) {
        const synth_group_t *group = i < topology->link_count ? NULL : &topology->groups[i - topology->link_count];
        int count = 0, members = group != NULL ? 1 : program->link_size[i];

        if (members == 0) {
            program->price[i] = program->price[program->link_first[i]];
            continue;
        }
        for (int k = 0; k < (group != NULL ? group->count : 1); ++k) {
            int link = group != NULL ? group->links[k] : i;

            for (int root = 0; root < topology->ranks; ++root) {
                bool fresh = true; /* one entry a class */

                for (int other = 0; other < root; ++other) {
                    fresh = fresh && row_of(program, 0, other, link) != row_of(program, 0, root, link);
                }
                for (int way = 0; fresh && way < WAYS; ++way) {
                    row[count] = row_of(program, way, root, link);
                    value[count++] = -1;
                }
            }
        }
        row[count] = budget_row(program);
        value[count++] = group != NULL ? group->capacity : (double)topology->links[i].capacity * members;
        program->price[i] = synth_simplex_column(program->simplex, 0, count, row, value);
        fine = program->price[i] >= 0;
    }
    free(row);
    free(value);
    return fine;
}

/* Adds the minimum cut of the last flow as a column. False without memory. */
static bool add_cut(program_t *program, int root, int way)
{
    const synth_topology_t *topology = program->topology;
    cut_t *cut = &program->cut[program->cut_count];
    int *row = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    double *value = malloc(sizeof(double) * (size_t)(topology->link_count + 1));

    cut->links = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    if (row == NULL || value == NULL || cut->links == NULL) {
        free(row);
        free(value);
        return false;
    }
    cut->root = root;
    cut->way = way;
    for (int link = 0; link < topology->link_count; ++link) {
        int from = way == 0 ? topology->links[link].from : topology->links[link].to;
        int to = way == 0 ? topology->links[link].to : topology->links[link].from;

        if (synth_flow_near(program->flow, from) && !synth_flow_near(program->flow, to)) {
            row[cut->count] = row_of(program, way, root, link);
            value[cut->count] = 1.0 / program->pair_size[program->pair_class[root * topology->link_count + link]];
            cut->links[cut->count++] = link;
        }
    }
    row[cut->count] = program->root_class[root];
    value[cut->count] = -1.0 / program->root_size[program->root_class[root]];
    cut->column = synth_simplex_column(program->simplex, 0, cut->count + 1, row, value);
    ++program->cut_count;
    free(row);
    free(value);
    return cut->column >= 0;
}

/*
 * Looks, for one root of each class, for ranks that its trees cannot supply in the solution at hand. Returns how many
 * cuts were added, -1 without memory.
 */
static int separate(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int added = 0;

    for (int way = 0; way < WAYS; ++way) {
        synth_flow_free(program->flow);
        program->flow = synth_flow_new(topology->ranks, topology->link_count);
        if (program->flow == NULL) {
            return -1;
        }
        for (int link = 0; link < topology->link_count; ++link) {
            const synth_link_t *at = &topology->links[link];

            synth_flow_arc(program->flow, way == 0 ? at->from : at->to, way == 0 ? at->to : at->from, 0);
        }
        for (int root = 0; root < topology->ranks; ++root) {
            int64_t want = amount(program, program->root_class[root], program->root_size[program->root_class[root]]);
            bool first = true;

            for (int other = 0; other < root; ++other) {
                first = first && program->root_class[other] != program->root_class[root];
            }
            for (int sink = 0; first && sink < topology->ranks; ++sink) {
                for (int link = 0; link < topology->link_count; ++link) {
                    int members = program->pair_size[program->pair_class[root * topology->link_count + link]];

                    synth_flow_set(program->flow, link, amount(program, row_of(program, way, root, link), members));
                }
                if (sink != root && want > SCALE / 1000000 &&
                    synth_flow_run(program->flow, root, sink, want) < want - SCALE / 1000000) {
                    if (program->cut_count == MOST_CUTS || !add_cut(program, root, way)) {
                        return -1;
                    }
                    ++added;
                }
            }
        }
    }
    return added;
}

/*
 * A bound from the dual solution, in whole numbers: cuts count in multiples of 1/parts, and the prices of links become
 * as high as these cuts need. Whatever rounding loses, what comes out is a bound. Everything is multiplied by the
 * number of symmetries, which the size of each class divides.
 */
static synth_rational_t evaluate(const program_t *program, int64_t parts)
{
    const synth_topology_t *topology = program->topology;
    int e = topology->link_count, n = topology->ranks, sizes = program->symmetry.count;
    int64_t *load = calloc((size_t)(WAYS * program->pair_classes), sizeof(*load)), share[SYNTH_MAX_RANKS] = {0};
    int64_t least, cost = 0;

    if (load == NULL) {
        return synth_fraction(0, 1);
    }
    for (int k = 0; k < program->cut_count; ++k) {
        const cut_t *cut = &program->cut[k];
        double weight = synth_simplex_variable(program->simplex, cut->column);
        int64_t times = weight > 1e-9 ? (int64_t)llround(weight * (double)parts) : 0;
        int class = program->root_class[cut->root];

        share[class] += times * (sizes / program->root_size[class]);
        for (int i = 0; i < cut->count; ++i) {
            int pair = program->pair_class[cut->root * e + cut->links[i]];

            load[cut->way * program->pair_classes + pair] += times * (sizes / program->pair_size[pair]);
        }
    }
    least = share[0];
    for (int i = 1; i < program->root_classes; ++i) {
        least = share[i] < least ? share[i] : least;
    }
    for (int link = 0; link < e; ++link) {
        int64_t need = 0;

        for (int i = 0; i < WAYS * n; ++i) {
            int64_t here = load[i / n * program->pair_classes + program->pair_class[i % n * e + link]];

            need = here > need ? here : need;
        }
        for (int j = 0; j < topology->group_count; ++j) { /* with groups there is one symmetry, the identity */
            double price = synth_simplex_variable(program->simplex, program->price[e + j]);

            for (int k = 0; k < topology->groups[j].count; ++k) {
                need -= topology->groups[j].links[k] == link && price > 0 ? (int64_t)llround(price * (double)parts) : 0;
            }
        }
        cost += (need > 0 ? need : 0) * topology->links[link].capacity;
    }
    for (int j = 0; j < topology->group_count; ++j) {
        double price = synth_simplex_variable(program->simplex, program->price[e + j]);

        cost += price > 0 ? (int64_t)llround(price * (double)parts) * topology->groups[j].capacity : 0;
    }
    free(load);
    return cost > 0 ? synth_fraction(least, cost) : synth_fraction(0, 1);
}

/* Writes the shares and loads of the solution. Members of one class have equal parts of their class's sum. */
static void write_result(const program_t *program, synth_free_roots_t *result)
{
    int n = program->topology->ranks, e = program->topology->link_count;

    for (int root = 0; root < n; ++root) {
        int class = program->root_class[root];

        result->share[root] = synth_simplex_price(program->simplex, class) / program->root_size[class];
        for (int i = 0; result->load != NULL && i < WAYS * e; ++i) {
            int way = i / e, link = i % e, members = program->pair_size[program->pair_class[root * e + link]];

            result->load[(way * n + root) * e + link] =
                synth_simplex_price(program->simplex, row_of(program, way, root, link)) / members;
        }
    }
}

/* Solves the program: alternates between the simplex method and the search for violated cuts. */
static mscclpp_status_t solve(program_t *program, double deadline, synth_free_roots_t *result)
{
    int rows, added = 1;
    int all[SYNTH_MAX_RANKS];
    double *most, ones[SYNTH_MAX_RANKS];

    if (!classify(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    rows = budget_row(program) + 1;
    if (rows > MOST_ROWS) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    most = calloc((size_t)rows, sizeof(*most));
    if (most != NULL) {
        most[rows - 1] = 1;
        program->simplex = synth_simplex_new(rows, most);
    }
    free(most);
    program->cut = calloc(MOST_CUTS, sizeof(*program->cut));
    if (program->simplex == NULL || program->cut == NULL || !add_prices(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    for (int i = 0; i < program->root_classes; ++i) {
        all[i] = i;
        ones[i] = 1;
    }
    if (synth_simplex_column(program->simplex, 1, program->root_classes, all, ones) < 0) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    while (added > 0) {
        do {
            if (mscclpp_now() > deadline) {
                return MSCCLPP_ERR_TIMEOUT;
            }
        } while (!synth_simplex_run(program->simplex, 100));
        added = separate(program);
    }
    if (added < 0) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    result->value = synth_simplex_objective(program->simplex);
    result->bound = synth_fraction(0, 1);
    for (int parts = 1; parts < 1000 && synth_value(result->bound) < result->value - 1e-7; ++parts) {
        result->bound = synth_larger(result->bound, evaluate(program, parts));
    }
    if (synth_value(result->bound) < result->value - 1e-7) {
        result->bound = synth_larger(result->bound, evaluate(program, 720720));
    }
    write_result(program, result);
    return MSCCLPP_OK;
}

mscclpp_status_t synth_free_roots(const synth_topology_t *topology, double seconds, synth_free_roots_t *result)
{
    program_t program = {.topology = topology};
    mscclpp_status_t status =
        topology->ranks > MOST_RANKS ? MSCCLPP_ERR_NOT_SUPPORTED : solve(&program, mscclpp_now() + seconds, result);

    for (int i = 0; i < program.cut_count; ++i) {
        free(program.cut[i].links);
    }
    free(program.cut);
    free(program.price);
    free(program.pair_class);
    free(program.pair_size);
    free(program.link_first);
    free(program.link_size);
    synth_flow_free(program.flow);
    synth_simplex_free(program.simplex);
    return status;
}
