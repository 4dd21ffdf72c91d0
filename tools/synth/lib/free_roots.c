/*
 * The linear program of free roots, solved by its dual. In an all-reduce with free roots, every rank may be the root of
 * a part of the vector.
 *
 * The program determines for which part of the vector each rank is the root. It also determines how much of each link
 * the trees of each root may use, away from the root and towards it. It minimises the number of rounds. Its dual is
 * simpler to build: the columns of the dual are cuts that the trees of one root have to cross, and prices of links and
 * groups. Cuts are added until the solution violates none.
 *
 * Symmetries of the topology make the program smaller. Roots that a renumbering maps onto one another form a class and
 * share one row, and so do pairs of a root and a link. The rows are, in this order: one for each class of roots, one
 * for each direction and class of pairs, and one that limits the cost of all prices.
 */
#include "tools/synth/lib/free_roots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/flow.h"
#include "tools/synth/lib/simplex.h"
#include "tools/synth/lib/symmetry.h"

enum { MAX_RANKS = 24, MAX_ROWS = 2600, MAX_CUTS = 20000 }; /* larger programs take too long */
enum { SCALE = 1 << 30, TOLERANCE = SCALE / 1000000 };      /* flows count in units of 1/SCALE */
enum { PIVOTS_AT_ONCE = 100 };                              /* pivots between two checks of the time */
enum { FROM_ROOT, TO_ROOT, DIRECTIONS };                    /* the directions in which trees of a root send */

/*
 * The bound is computed with weights in multiples of 1/1, 1/2, ..., and at last of 1/FINE_PARTS, which is the least
 * common multiple of 1 to 16.
 */
enum { MAX_PARTS = 1000, FINE_PARTS = 720720 };

#define PRECISION 1e-7  /* a bound that is this close to the floating-point value needs no finer parts */
#define NEGLIGIBLE 1e-9 /* smaller weights count as 0 */

/* A cut that the trees of one root have to cross: the links across it carry at least the share of the root. */
typedef struct {
    int root, direction; /* direction: FROM_ROOT or TO_ROOT */
    int column;          /* column of the simplex: the variable that says how often the cut counts */
    int count, *links;   /* the links across it */
} cut_t;

typedef struct {
    const synth_topology_t *topology;
    synth_simplex_t *simplex;
    synth_flow_t *flow; /* arc i is link i, reversed for TO_ROOT */
    cut_t *cuts;        /* room for MAX_CUTS */
    int cut_count;
    int *price_column; /* columns of the simplex: of the price of each link, then of each group */
    synth_symmetry_t symmetry;
    int root_class[SYNTH_MAX_RANKS];      /* [root]: the number of its class */
    int root_class_size[SYNTH_MAX_RANKS]; /* [class of roots]: how many roots are in it */
    int root_classes;                     /* how many classes there are */
    int *pair_class;                      /* [root * links + link]: the number of the pair's class */
    int *pair_class_size;                 /* [class of pairs]: how many pairs are in it */
    int pair_classes;                     /* how many classes of pairs there are */
    int *link_representative;             /* [link]: the first link of its class */
    int *link_class_size; /* [link]: how many links are in its class if it is the first of them; otherwise 0 */
} program_t;

/* Returns the link that a symmetry maps the given link onto. */
static int link_image(const program_t *program, int symmetry, int link)
{
    const unsigned char *map = program->symmetry.map[symmetry];

    return program->topology
        ->link_between[map[program->topology->links[link].from]][map[program->topology->links[link].to]];
}

/*
 * Finds the symmetries, and numbers three kinds of classes: of roots, of pairs of a root and a link, and of links. The
 * symmetries form a group, so one pass over them finds a whole class. Returns false if memory runs out; the caller
 * frees the arrays in either case.
 */
static bool classify(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int ranks = topology->ranks, links = topology->link_count;

    synth_symmetry_find(topology, -1, &program->symmetry);
    /* Prices of groups have no classes: with groups, the identity alone is used. */
    program->symmetry.count = topology->group_count > 0 ? 1 : program->symmetry.count;
    program->pair_class = malloc(sizeof(int) * (size_t)(ranks * links));
    program->pair_class_size = calloc((size_t)(ranks * links), sizeof(int));
    program->link_representative = malloc(sizeof(int) * (size_t)links);
    program->link_class_size = calloc((size_t)links, sizeof(int));
    if (program->pair_class == NULL || program->pair_class_size == NULL || program->link_representative == NULL ||
        program->link_class_size == NULL) {
        return false;
    }
    memset(program->pair_class, -1, sizeof(int) * (size_t)(ranks * links));
    memset(program->root_class, -1, sizeof(program->root_class));
    for (int link = 0; link < links; ++link) {
        program->link_representative[link] = link;
        for (int symmetry = 0; symmetry < program->symmetry.count; ++symmetry) {
            int image = link_image(program, symmetry, link);

            program->link_representative[link] =
                image < program->link_representative[link] ? image : program->link_representative[link];
        }
        ++program->link_class_size[program->link_representative[link]];
    }
    for (int root = 0; root < ranks; ++root) {
        bool is_first = program->root_class[root] < 0;

        for (int symmetry = 0; is_first && symmetry < program->symmetry.count; ++symmetry) {
            int *class_p = &program->root_class[program->symmetry.map[symmetry][root]];

            program->root_class_size[program->root_classes] += *class_p < 0;
            *class_p = program->root_classes;
        }
        program->root_classes += is_first;
        for (int link = 0; link < links; ++link) {
            is_first = program->pair_class[root * links + link] < 0;
            for (int symmetry = 0; is_first && symmetry < program->symmetry.count; ++symmetry) {
                int *class_p = &program->pair_class[program->symmetry.map[symmetry][root] * links +
                                                    link_image(program, symmetry, link)];

                program->pair_class_size[program->pair_classes] += *class_p < 0;
                *class_p = program->pair_classes;
            }
            program->pair_classes += is_first;
        }
    }
    return true;
}

/*
 * Returns the row of a root and a link for one direction. Its price in the solution is how much of the link the trees
 * of the root use.
 */
static int pair_row(const program_t *program, int direction, int root, int link)
{
    return program->root_classes + direction * program->pair_classes +
           program->pair_class[root * program->topology->link_count + link];
}

/* Returns the row that bounds the cost of all prices. It is the last one. */
static int budget_row(const program_t *program)
{
    return program->root_classes + DIRECTIONS * program->pair_classes;
}

/*
 * Returns the amount that the current solution gives to one member of the class of a row: a root's share of the vector,
 * or how much of a link the trees of a root use. It is a whole number in units of 1/SCALE. The row has the sum over all
 * members.
 */
static int64_t amount_of(const program_t *program, int row, int class_size)
{
    double value = synth_simplex_price(program->simplex, row) / class_size;

    return value > 0 ? (int64_t)(value * SCALE + 0.5) : 0;
}

/*
 * Adds a column for the price of each class of links, and one for the price of each group. By its price, a link or
 * group limits how much of it all roots use together, in both directions. Returns false if memory runs out; the caller
 * frees `price_column`.
 */
static bool add_prices(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int price_count = topology->link_count + topology->group_count;
    int max_entries = DIRECTIONS * topology->ranks * topology->link_count + 1;
    int *entry_row = malloc(sizeof(int) * (size_t)max_entries);
    double *entry_value = malloc(sizeof(double) * (size_t)max_entries);
    bool ok = entry_row != NULL && entry_value != NULL;

    program->price_column = calloc((size_t)price_count, sizeof(int));
    ok = ok && program->price_column != NULL;
    for (int i = 0; ok && i < price_count; ++i) {
        const synth_group_t *group = i < topology->link_count ? NULL : &topology->groups[i - topology->link_count];
        int count = 0, class_size = group != NULL ? 1 : program->link_class_size[i];

        /* A link that does not represent its class has the price of the one that does, which is already set. */
        if (class_size == 0) {
            program->price_column[i] = program->price_column[program->link_representative[i]];
            continue;
        }
        for (int j = 0; j < (group != NULL ? group->count : 1); ++j) {
            int link = group != NULL ? group->links[j] : i;

            for (int root = 0; root < topology->ranks; ++root) {
                bool is_first_of_class = true; /* each class of pairs gets one entry */

                for (int other = 0; other < root; ++other) {
                    is_first_of_class = is_first_of_class && pair_row(program, FROM_ROOT, other, link) !=
                                                                 pair_row(program, FROM_ROOT, root, link);
                }
                for (int direction = 0; is_first_of_class && direction < DIRECTIONS; ++direction) {
                    entry_row[count] = pair_row(program, direction, root, link);
                    entry_value[count++] = -1;
                }
            }
        }
        entry_row[count] = budget_row(program);
        entry_value[count++] = group != NULL ? group->capacity : (double)topology->links[i].capacity * class_size;
        program->price_column[i] = synth_simplex_add_column(program->simplex, 0, count, entry_row, entry_value);
        ok = program->price_column[i] >= 0;
    }
    free(entry_row);
    free(entry_value);
    return ok;
}

/*
 * Adds the minimum cut that the last flow found: the links across it have to carry at least the share of the root.
 * Returns false if memory runs out; the program cannot then be solved further.
 */
static bool add_cut(program_t *program, int root, int direction)
{
    const synth_topology_t *topology = program->topology;
    cut_t *cut = &program->cuts[program->cut_count];
    int *entry_row = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    double *entry_value = malloc(sizeof(double) * (size_t)(topology->link_count + 1));

    cut->links = malloc(sizeof(int) * (size_t)(topology->link_count + 1));
    if (entry_row == NULL || entry_value == NULL || cut->links == NULL) {
        free(cut->links);
        free(entry_row);
        free(entry_value);
        return false;
    }
    cut->root = root;
    cut->direction = direction;
    for (int link = 0; link < topology->link_count; ++link) {
        int from = direction == FROM_ROOT ? topology->links[link].from : topology->links[link].to;
        int to = direction == FROM_ROOT ? topology->links[link].to : topology->links[link].from;

        if (synth_flow_is_near(program->flow, from) && !synth_flow_is_near(program->flow, to)) {
            entry_row[cut->count] = pair_row(program, direction, root, link);
            entry_value[cut->count] =
                1.0 / program->pair_class_size[program->pair_class[root * topology->link_count + link]];
            cut->links[cut->count++] = link;
        }
    }
    entry_row[cut->count] = program->root_class[root];
    entry_value[cut->count] = -1.0 / program->root_class_size[program->root_class[root]];
    cut->column = synth_simplex_add_column(program->simplex, 0, cut->count + 1, entry_row, entry_value);
    ++program->cut_count;
    free(entry_row);
    free(entry_value);
    return cut->column >= 0;
}

/*
 * Searches for violated cuts and adds them. For one root of each class, computes the flow from the root to each other
 * rank, and from each other rank to the root. The capacities are those that the current solution gives the root's
 * trees. A flow to the root is computed as a flow from the root with all links reversed. A flow that is smaller than
 * the root's share yields a cut. Returns the number of cuts that were added, or -1 if memory runs out or there are too
 * many cuts.
 */
static int add_violated_cuts(program_t *program)
{
    const synth_topology_t *topology = program->topology;
    int added = 0;

    for (int direction = 0; direction < DIRECTIONS; ++direction) {
        synth_flow_free(program->flow);
        program->flow = synth_flow_new(topology->ranks, topology->link_count);
        if (program->flow == NULL) {
            return -1;
        }
        for (int link = 0; link < topology->link_count; ++link) {
            const synth_link_t *ends = &topology->links[link];

            synth_flow_add_arc(program->flow, direction == FROM_ROOT ? ends->from : ends->to,
                               direction == FROM_ROOT ? ends->to : ends->from, 0);
        }
        for (int root = 0; root < topology->ranks; ++root) {
            int64_t share =
                amount_of(program, program->root_class[root], program->root_class_size[program->root_class[root]]);
            bool is_first_of_class = true;

            for (int other = 0; other < root; ++other) {
                is_first_of_class = is_first_of_class && program->root_class[other] != program->root_class[root];
            }
            for (int other_rank = 0; is_first_of_class && other_rank < topology->ranks; ++other_rank) {
                for (int link = 0; link < topology->link_count; ++link) {
                    int class_size = program->pair_class_size[program->pair_class[root * topology->link_count + link]];

                    synth_flow_set_capacity(program->flow, link,
                                            amount_of(program, pair_row(program, direction, root, link), class_size));
                }
                if (other_rank != root && share > TOLERANCE &&
                    synth_flow_run(program->flow, root, other_rank, share) < share - TOLERANCE) {
                    if (program->cut_count == MAX_CUTS || !add_cut(program, root, direction)) {
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
 * Returns a bound that is computed in whole numbers from the solution of the simplex. The weights of cuts and the
 * prices of groups are rounded to multiples of 1/parts. The price of each link is then set as high as these cuts
 * require. So the bound is valid, however much rounding has changed. Returns 0/1 if memory runs out or all prices are
 * 0. All values are multiplied by the number of symmetries, so that they can be divided by the size of each class.
 */
static synth_rational_t exact_bound(const program_t *program, int64_t parts)
{
    const synth_topology_t *topology = program->topology;
    int links = topology->link_count, ranks = topology->ranks, symmetries = program->symmetry.count;
    int64_t *load = calloc((size_t)(DIRECTIONS * program->pair_classes), sizeof(*load)), share[SYNTH_MAX_RANKS] = {0};
    int64_t min_share, cost = 0;

    if (load == NULL) {
        return synth_fraction(0, 1);
    }
    for (int i = 0; i < program->cut_count; ++i) {
        const cut_t *cut = &program->cuts[i];
        double weight = synth_simplex_variable(program->simplex, cut->column);
        int64_t scaled_weight = weight > NEGLIGIBLE ? (int64_t)llround(weight * (double)parts) : 0;
        int class = program->root_class[cut->root];

        share[class] += scaled_weight * (symmetries / program->root_class_size[class]);
        for (int j = 0; j < cut->count; ++j) {
            int pair = program->pair_class[cut->root * links + cut->links[j]];

            load[cut->direction * program->pair_classes + pair] +=
                scaled_weight * (symmetries / program->pair_class_size[pair]);
        }
    }
    /* The numerator is the least total weight of the cuts of one root. */
    min_share = share[0];
    for (int i = 1; i < program->root_classes; ++i) {
        min_share = share[i] < min_share ? share[i] : min_share;
    }
    /* The price of a link is the largest load that any root puts on it, less the prices of its groups. */
    for (int link = 0; link < links; ++link) {
        int64_t link_price = 0;

        for (int i = 0; i < DIRECTIONS * ranks; ++i) {
            int64_t pair_load = load[i / ranks * program->pair_classes + program->pair_class[i % ranks * links + link]];

            link_price = pair_load > link_price ? pair_load : link_price;
        }
        for (int j = 0; j < topology->group_count; ++j) { /* with groups there is one symmetry, the identity */
            double group_price = synth_simplex_variable(program->simplex, program->price_column[links + j]);

            for (int i = 0; i < topology->groups[j].count; ++i) {
                link_price -= topology->groups[j].links[i] == link && group_price > 0
                                  ? (int64_t)llround(group_price * (double)parts)
                                  : 0;
            }
        }
        cost += (link_price > 0 ? link_price : 0) * topology->links[link].capacity;
    }
    for (int j = 0; j < topology->group_count; ++j) {
        double price = synth_simplex_variable(program->simplex, program->price_column[links + j]);

        cost += price > 0 ? (int64_t)llround(price * (double)parts) * topology->groups[j].capacity : 0;
    }
    free(load);
    return cost > 0 ? synth_fraction(min_share, cost) : synth_fraction(0, 1);
}

/* Writes the shares and loads of the solution. Members of one class have equal parts of their class's sum. */
static void write_result(const program_t *program, synth_free_roots_t *result)
{
    int ranks = program->topology->ranks, links = program->topology->link_count;

    for (int root = 0; root < ranks; ++root) {
        int class = program->root_class[root];

        result->share[root] = synth_simplex_price(program->simplex, class) / program->root_class_size[class];
        for (int i = 0; result->load != NULL && i < DIRECTIONS * links; ++i) {
            int direction = i / links, link = i % links,
                class_size = program->pair_class_size[program->pair_class[root * links + link]];

            result->load[(direction * ranks + root) * links + link] =
                synth_simplex_price(program->simplex, pair_row(program, direction, root, link)) / class_size;
        }
    }
}

/*
 * Solves the program and writes the result. The function alternates between the simplex method and the search for
 * violated cuts until no cut is violated. Returns MSCCLPP_ERR_NOT_SUPPORTED if there are too many rows,
 * MSCCLPP_ERR_TIMEOUT after the deadline, and MSCCLPP_ERR_NO_MEMORY if memory runs out or there are too many cuts. On
 * any error the result is not complete. The caller frees the arrays of the program in either case.
 */
static mscclpp_status_t solve(program_t *program, double deadline, synth_free_roots_t *result)
{
    int rows, added = 1;
    int root_rows[SYNTH_MAX_RANKS];
    double *right_sides, ones[SYNTH_MAX_RANKS];

    if (!classify(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    rows = budget_row(program) + 1;
    if (rows > MAX_ROWS) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    right_sides = calloc((size_t)rows, sizeof(*right_sides));
    if (right_sides != NULL) {
        right_sides[rows - 1] = 1;
        program->simplex = synth_simplex_new(rows, right_sides);
    }
    free(right_sides);
    program->cuts = calloc(MAX_CUTS, sizeof(*program->cuts));
    if (program->simplex == NULL || program->cuts == NULL || !add_prices(program)) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    /* The objective is the least total weight that the cuts of a root have. */
    for (int i = 0; i < program->root_classes; ++i) {
        root_rows[i] = i;
        ones[i] = 1;
    }
    if (synth_simplex_add_column(program->simplex, 1, program->root_classes, root_rows, ones) < 0) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    while (added > 0) {
        do {
            if (mscclpp_now() > deadline) {
                return MSCCLPP_ERR_TIMEOUT;
            }
        } while (!synth_simplex_run(program->simplex, PIVOTS_AT_ONCE));
        added = add_violated_cuts(program);
    }
    if (added < 0) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    result->value = synth_simplex_objective(program->simplex);
    result->bound = synth_fraction(0, 1);
    for (int parts = 1; parts < MAX_PARTS && synth_value(result->bound) < result->value - PRECISION; ++parts) {
        result->bound = synth_larger(result->bound, exact_bound(program, parts));
    }
    if (synth_value(result->bound) < result->value - PRECISION) {
        result->bound = synth_larger(result->bound, exact_bound(program, FINE_PARTS));
    }
    write_result(program, result);
    return MSCCLPP_OK;
}

/* Sets up the program, solves it, and frees it. */
mscclpp_status_t synth_free_roots(const synth_topology_t *topology, double seconds, synth_free_roots_t *result)
{
    program_t program = {.topology = topology};
    mscclpp_status_t status =
        topology->ranks > MAX_RANKS ? MSCCLPP_ERR_NOT_SUPPORTED : solve(&program, mscclpp_now() + seconds, result);

    for (int i = 0; i < program.cut_count; ++i) {
        free(program.cuts[i].links);
    }
    free(program.cuts);
    free(program.price_column);
    free(program.pair_class);
    free(program.pair_class_size);
    free(program.link_representative);
    free(program.link_class_size);
    synth_flow_free(program.flow);
    synth_simplex_free(program.simplex);
    return status;
}
