/*
 * mscclpp_sim: simulates the messages that the component would send between many nodes, and prints what collective
 * calls cost.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/shape/tiles.h"
#include "tools/sim/sim.h"
#include "tools/sim/sim_options.h"

static const char help[] =
    "Usage: mscclpp_sim [OPTION]...\n"
    "Simulates what nodes send one another in a collective call of coll/mscclpp, and prints how long it takes.\n"
    "\n"
    "  -c, --coll NAME           allreduce (default), allgather, alltoall, bcast, gather, scatter, reduce,\n"
    "                            reduce_scatter, scan or exscan\n"
    "  -n, --nodes LIST          numbers of nodes, 1 to 4096 (default 8), such as 8,64 or 8:512 or 8:4096:8\n"
    "  -p, --ranks-per-node N    1 to 64 (default 8)\n"
    "  -b, --bytes LIST          bytes of the message, or of one rank's block (default 8), such as 8,64k or 8:1g\n"
    "  -a, --algorithm LIST      direct, split, ring, doubling, halving, tree, bruck, trees; auto (default): the one\n"
    "                            that the cost model prefers; all: each that there is\n"
    "      --root N              node of the root (default 0)\n"
    "      --radix N             of tree and bruck, 2 to 64 (default 2)\n"
    "      --fanout N            messages that a node sends ahead of those it has received (direct, split); 0: any\n"
    "                            number (default)\n"
    "      --tile SIZE           bytes of a block that travel at once (default 4m; trees at most the kernel's)\n"
    "      --lanes N             tiles that a rank has under way, 1 to 16 (default 4)\n"
    "\n"
    "  -w, --network NAME        full (default), fat-tree or dragonfly\n"
    "      --group N             nodes of a leaf switch or of a group (default 32)\n"
    "      --taper X             a group's bandwidth to that of its way out (default 1; of a fat tree 2)\n"
    "      --rails N             of a node (default: one for each rank)\n"
    "      --transport NAME      whose built-in figures to take: verbs (default), ucx, shm or cuda_ipc\n"
    "      --figures FILE        take the transport's figures from a rules file\n"
    "      --latency US, --overhead US, --gap US, --bandwidth GB/S\n"
    "                            of a message, and of a rail; microseconds, and 10^9 bytes a second\n"
    "      --node-latency US, --node-bandwidth GB/S\n"
    "                            of an exchange within a node, and of one rank's links to it\n"
    "\n"
    "      --jitter US           mean of what messages are late by\n"
    "      --stragglers N        nodes that begin late, by --late US (default 100)\n"
    "      --dead NODE           dies, after --dead-step N steps (default 0)\n"
    "      --seed N              of everything that is left to chance (default 1)\n"
    "      --whole               simulate all nodes even where one stands for all\n"
    "\n"
    "      --traffic             print what links carry, too\n"
    "      --json                JSON in place of the table\n"
    "      --svg FILE            draw time by bytes, time by nodes, and the links' traffic\n"
    "  -h, --help                this text\n"
    "      --version\n"
    "\n"
    "Exit status: 0; 1 if a file cannot be read or written or memory is lacking; 2 for wrong usage.\n";

static const struct option option_table[] = {{"coll", required_argument, NULL, 'c'},
                                             {"nodes", required_argument, NULL, 'n'},
                                             {"ranks-per-node", required_argument, NULL, 'p'},
                                             {"bytes", required_argument, NULL, 'b'},
                                             {"algorithm", required_argument, NULL, 'a'},
                                             {"network", required_argument, NULL, 'w'},
#define OPTION(name_, id_) {name_, required_argument, NULL, SIM_OPTION_##id_},
                                             SIM_OPTIONS(OPTION)
#undef OPTION
                                                 {"whole", no_argument, NULL, SIM_WHOLE},
                                             {"traffic", no_argument, NULL, SIM_TRAFFIC},
                                             {"json", no_argument, NULL, SIM_JSON},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, SIM_VERSION},
                                             {NULL, 0, NULL, 0}};

/*
 * Reads and checks the command line. Returns false if the program has to end with *status_p:
 * - 0 after --help or --version, or 1 if the text could not be written,
 * - 2 after a wrong option, once a line about it was printed on standard error.
 */
static bool read_arguments(int argc, char **argv, sim_arguments_t *arguments, int *status_p)
{
    bool ok = true;
    int option;

    *status_p = 2; /* wrong usage */
    while (ok && (option = getopt_long(argc, argv, "c:n:p:b:a:w:h", option_table, NULL)) != -1) {
        if (option == 'h') {
            *status_p = fputs(help, stdout) < 0 || fflush(stdout) != 0;
            return false;
        }
        if (option == SIM_VERSION) {
            *status_p = printf("mscclpp_sim %s\n", MSCCLPP_VERSION) < 0 || fflush(stdout) != 0;
            return false;
        }
        ok = option != '?' && sim_take_option(arguments, option, optarg);
    }
    if (ok && optind < argc) {
        fprintf(stderr, "mscclpp_sim: \"%s\" is no option; --help names them\n", argv[optind]);
        ok = false;
    }
    return ok && sim_check_arguments(arguments);
}

/* Over trees, sets the bytes of a tile to at most those of the kernel, and the tiles under way to at least as many. */
static void take_tiles(const sim_arguments_t *arguments, mscclpp_schedule_kind_t kind, uint32_t nodes, uint64_t bytes,
                       sim_run_t *run)
{
    if (kind == MSCCLPP_SCHEDULE_TREES && nodes > 1) {
        const mscclpp_tiles_t tiles = mscclpp_tiles_over_trees(arguments->pattern, nodes, run->ranks, bytes);

        run->tile = tiles.bytes < run->tile ? tiles.bytes : run->tile;
        run->lanes = tiles.under_way > run->lanes ? tiles.under_way : run->lanes;
        run->figures.tile = (double)run->tile;
        run->figures.lanes = run->lanes;
    }
}

/* Returns the seconds that the cost model estimates for a schedule. */
static double estimate(const sim_arguments_t *arguments, const mscclpp_schedule_t *schedule, uint64_t bytes)
{
    sim_run_t run = arguments->run;

    take_tiles(arguments, schedule->kind, schedule->nodes, bytes, &run);
    return mscclpp_cost_estimate(&run.figures, schedule, run.ranks, bytes);
}

/*
 * Returns the kind of schedule for which the cost model estimates the shortest time, among the kinds that serve the
 * collective. Returns the direct schedule if no kind serves it.
 */
static mscclpp_schedule_kind_t preferred_kind(const sim_arguments_t *arguments, uint32_t nodes, uint64_t bytes)
{
    mscclpp_schedule_kind_t best = MSCCLPP_SCHEDULE_DIRECT;
    double least_cost = 0;
    int kind;

    for (kind = 0; kind < MSCCLPP_SCHEDULE_LAST; ++kind) {
        mscclpp_schedule_t schedule;

        if (mscclpp_schedule_init(&schedule, (mscclpp_schedule_kind_t)kind, arguments->pattern, nodes,
                                  arguments->root < nodes ? arguments->root : 0, arguments->fanout, arguments->radix)) {
            const double cost = estimate(arguments, &schedule, bytes);

            if (least_cost <= 0 || cost < least_cost) {
                least_cost = cost;
                best = (mscclpp_schedule_kind_t)kind;
            }
        }
    }
    return best;
}

/*
 * Simulates one kind of schedule and appends a row. The caller has allocated room for the row. If this kind does not
 * serve the collective, appends no row and returns 0. Returns 0 for success. Returns, after a message on standard
 * error, 1 if memory runs out, and 2 if --tile is so small that the tiles of a block exceed a 16-bit counter.
 */
static int add_row(const sim_arguments_t *arguments, mscclpp_schedule_kind_t kind, uint32_t nodes, uint64_t bytes,
                   sim_row_t *rows, size_t *count_p)
{
    sim_row_t *row = &rows[*count_p];
    const double block = mscclpp_cost_load(arguments->pattern, nodes, arguments->run.ranks, bytes, true).block;

    memset(row, 0, sizeof(*row));
    row->run = arguments->run;
    row->run.bytes = bytes;
    if (!mscclpp_schedule_init(&row->run.schedule, kind, arguments->pattern, nodes, arguments->root, arguments->fanout,
                               arguments->radix)) {
        return 0;
    }
    take_tiles(arguments, kind, nodes, bytes, &row->run);
    /* The kernel's tiles may be too many to count. */
    if (block / (double)row->run.tile >= UINT16_MAX) {
        row->run.tile = arguments->run.tile;
    }
    /* The simulation counts the messages of a slot, one for each tile, in 16 bits. */
    if (block / (double)row->run.tile >= UINT16_MAX + 1) {
        fprintf(stderr, "mscclpp_sim: --tile is %llu; allowed for %llu bytes are at least %.0f\n",
                (unsigned long long)row->run.tile, (unsigned long long)bytes, block / UINT16_MAX + 1);
        return 2;
    }
    row->bound = mscclpp_cost_bound(&row->run.figures, arguments->pattern, nodes, row->run.ranks, bytes);
    row->least_latency = sim_least_latency(&row->run.figures, arguments->pattern, nodes);
    row->modelled = estimate(arguments, &row->run.schedule, bytes);
    row->is_preferred = kind == preferred_kind(arguments, nodes, bytes);
    if (!sim_simulate(&row->run, &row->result)) {
        fprintf(stderr, "mscclpp_sim: no memory for %u nodes\n", nodes);
        return 1;
    }
    ++*count_p;
    return 0;
}

/*
 * Simulates all numbers of nodes, sizes and kinds that the arguments name, and appends their rows. Each row is printed
 * as soon as it is known, unless JSON is wanted, which main() prints at the end. Stops at the first failure and keeps
 * the rows so far. Returns 0, or the exit status of add_row, which has printed a message.
 */
static int simulate_all(const sim_arguments_t *arguments, sim_row_t *rows, size_t *count_p)
{
    size_t i, j;
    int kind, status = 0;

    for (i = 0; i < arguments->nodes.count && status == 0; ++i) {
        for (j = 0; j < arguments->bytes.count && status == 0; ++j) {
            const uint32_t nodes = (uint32_t)arguments->nodes.value[i];
            const uint64_t bytes = arguments->bytes.value[j];
            const mscclpp_schedule_kind_t preferred = preferred_kind(arguments, nodes, bytes);

            for (kind = 0; kind < MSCCLPP_SCHEDULE_LAST && status == 0; ++kind) {
                const size_t old_count = *count_p;

                if (!arguments->kinds[kind] && !(arguments->wants_auto && kind == (int)preferred)) {
                    continue;
                }
                status = add_row(arguments, (mscclpp_schedule_kind_t)kind, nodes, bytes, rows, count_p);
                if (*count_p > old_count && !arguments->prints_json) {
                    if (old_count == 0) {
                        sim_print_head(stdout);
                    }
                    sim_print_row(stdout, &rows[old_count]);
                    if (arguments->prints_traffic) {
                        sim_print_traffic(stdout, &rows[old_count]);
                    }
                    fflush(stdout);
                }
            }
        }
    }
    return status;
}

/* Draws the rows into an SVG file. Returns 0, or 1 after a message if the file cannot be opened or written. */
static int write_picture(const char *path, const sim_row_t *rows, size_t count)
{
    FILE *file = fopen(path, "w");
    bool ok = file != NULL;

    if (ok) {
        sim_draw(file, rows, count);
        ok = ferror(file) == 0;
        ok = fclose(file) == 0 && ok;
    }
    if (!ok) {
        fprintf(stderr, "mscclpp_sim: cannot write %s: %s\n", path, strerror(errno));
    }
    return ok ? 0 : 1;
}

/*
 * Reads the arguments, simulates all rows, and prints them. JSON and the picture are written only if no simulation
 * failed.
 */
int main(int argc, char **argv)
{
    static sim_arguments_t arguments;
    sim_row_t *rows;
    size_t count = 0;
    int status;

    sim_default_arguments(&arguments);
    if (!read_arguments(argc, argv, &arguments, &status)) {
        return status;
    }
    rows = calloc(arguments.nodes.count * arguments.bytes.count * MSCCLPP_SCHEDULE_LAST, sizeof(*rows));
    if (rows == NULL) {
        fprintf(stderr, "mscclpp_sim: no memory for the results\n");
        return 1;
    }
    status = simulate_all(&arguments, rows, &count);
    if (status == 0 && count == 0) {
        fprintf(stderr, "mscclpp_sim: none of these algorithms serves %s\n", sim_pattern_name(arguments.pattern));
        status = 2;
    }
    if (status == 0 && arguments.prints_json) {
        sim_print_json(stdout, rows, count);
    }
    if (status == 0 && arguments.picture != NULL) {
        status = write_picture(arguments.picture, rows, count);
    }
    free(rows);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "mscclpp_sim: cannot write to standard output\n");
        return 1;
    }
    return status;
}
