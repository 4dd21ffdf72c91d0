/*
 * mscclpp_sim: simulates the messages that the component would send between many nodes, and prints what collective
 * calls cost.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/shape/tiles.h"
#include "tools/sim/sim.h"
#include "tools/sim/sim_options.h"

/* The tiles and lanes of schedules that kernels carry out with packets alone. */
#define TILE ((uint64_t)4 << 20)
#define LANES 4u

/* The most bytes that an owner of a shard sends to another node as packets (mca/common/algo). */
#define PACKETS_MAX (8 << 10)

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
    "      --tile SIZE           bytes of a block that travel at once (default: as the kernel has them)\n"
    "      --lanes N             tiles that a rank has under way, 1 to 16 (default: as many as the kernel has)\n"
    "      --scratch SIZE, --exchange SIZE\n"
    "                            coll_mscclpp_scratch_size and coll_mscclpp_exchange_size, which bound the kernel's\n"
    "                            tiles (default 16m)\n"
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
        ok = option != '?' && sim_store_option(arguments, option, optarg);
    }
    if (ok && optind < argc) {
        fprintf(stderr, "mscclpp_sim: \"%s\" is no option; --help names them\n", argv[optind]);
        ok = false;
    }
    return ok && sim_check_arguments(arguments);
}

/* How the kernels exchange tiles in a kind of schedule; -1: they do not. */
static const int exchanges[MSCCLPP_SCHEDULE_LAST] = {[MSCCLPP_SCHEDULE_DIRECT] = MSCCLPP_DEV_NODES_DIRECT,
                                                     [MSCCLPP_SCHEDULE_SPLIT] = MSCCLPP_DEV_NODES_SPLIT,
                                                     [MSCCLPP_SCHEDULE_RING] = MSCCLPP_DEV_NODES_RING,
                                                     [MSCCLPP_SCHEDULE_DOUBLING] = -1,
                                                     [MSCCLPP_SCHEDULE_HALVING] = MSCCLPP_DEV_NODES_HALVING,
                                                     [MSCCLPP_SCHEDULE_TREE] = -1,
                                                     [MSCCLPP_SCHEDULE_BRUCK] = -1,
                                                     [MSCCLPP_SCHEDULE_TREES] = MSCCLPP_DEV_NODES_TREES};

/* Returns true if what an owner of a shard sends to another node is so little that packets carry it. */
static bool fits_packets(const sim_arguments_t *arguments, uint32_t nodes, uint64_t bytes)
{
    return mscclpp_cost_find_load(arguments->pattern, nodes, arguments->run.ranks, bytes, true).block <= PACKETS_MAX;
}

/*
 * Sets the tiles of a run: those of the kernel, unless --tile and --lanes replace them. For packets, they are TILE and
 * LANES. Returns false if the areas have no room for tiles, so that kernels cannot serve the call in this way. With
 * --tile, there always is room.
 */
static bool set_tiles(const sim_arguments_t *arguments, const mscclpp_schedule_t *schedule, uint64_t bytes,
                      sim_run_t *run)
{
    const bool by_packets = exchanges[schedule->kind] < 0 || (schedule->kind == MSCCLPP_SCHEDULE_DIRECT &&
                                                              fits_packets(arguments, schedule->nodes, bytes));
    const mscclpp_tiles_place_t place = {.nodes = schedule->nodes,
                                         .ranks = run->ranks,
                                         .scratch_size = arguments->scratch_size,
                                         .exchange_size = arguments->exchange_size};
    const mscclpp_tiles_way_t way = {.pattern = arguments->pattern,
                                     .exchange = (mscclpp_dev_nodes_pattern_t)exchanges[schedule->kind],
                                     .parts = schedule->blocks,
                                     .places = schedule->places};
    mscclpp_tiles_t tiles = {.bytes = TILE, .in_flight = LANES};

    if (!by_packets && schedule->nodes > 1 && !mscclpp_tiles_find_between(&place, &way, bytes, &tiles) &&
        arguments->tile_bytes == 0) {
        return false;
    }
    if (!by_packets && run->schedule.fanout == 0) {
        run->schedule.fanout = tiles.fanout;
    }
    run->tile_bytes = arguments->tile_bytes != 0 ? arguments->tile_bytes : tiles.bytes;
    run->lanes = arguments->lanes != 0 ? arguments->lanes : tiles.in_flight;
    run->figures.tile = (double)run->tile_bytes;
    run->figures.lanes = run->lanes;
    return true;
}

/* Returns the seconds that the cost model estimates for a schedule, or HUGE_VAL if there is no room for its tiles. */
static double estimate_seconds(const sim_arguments_t *arguments, const mscclpp_schedule_t *schedule, uint64_t bytes)
{
    sim_run_t run = arguments->run;

    return set_tiles(arguments, schedule, bytes, &run) ? mscclpp_cost_estimate(&run.figures, schedule, run.ranks, bytes)
                                                       : HUGE_VAL;
}

/*
 * Returns the kind of schedule for which the cost model estimates the shortest time, among the kinds in which kernels
 * can serve the call. Returns the direct schedule if there is none.
 */
static mscclpp_schedule_kind_t preferred_kind(const sim_arguments_t *arguments, uint32_t nodes, uint64_t bytes)
{
    mscclpp_schedule_kind_t best = MSCCLPP_SCHEDULE_DIRECT;
    double min_cost = 0;
    int kind;

    for (kind = 0; kind < MSCCLPP_SCHEDULE_LAST; ++kind) {
        mscclpp_schedule_t schedule;

        if ((exchanges[kind] >= 0 || fits_packets(arguments, nodes, bytes)) &&
            mscclpp_schedule_init(&schedule, (mscclpp_schedule_kind_t)kind, arguments->pattern, nodes,
                                  arguments->root < nodes ? arguments->root : 0, arguments->fanout, arguments->radix)) {
            const double cost = estimate_seconds(arguments, &schedule, bytes);

            if (min_cost <= 0 || cost < min_cost) {
                min_cost = cost;
                best = (mscclpp_schedule_kind_t)kind;
            }
        }
    }
    return best;
}

/*
 * Simulates one kind of schedule and appends a row. The caller has allocated room for the row. If this kind does not
 * serve the collective, or has no room for its tiles, appends no row and returns 0. Returns 0 for success. Returns,
 * after a message on standard error, 1 if memory runs out, and 2 if --tile is so small that the tiles of a block exceed
 * a 16-bit counter.
 */
static int add_row(const sim_arguments_t *arguments, mscclpp_schedule_kind_t kind, uint32_t nodes, uint64_t bytes,
                   sim_row_t *rows, size_t *count_p)
{
    sim_row_t *row = &rows[*count_p];
    const double block = mscclpp_cost_find_load(arguments->pattern, nodes, arguments->run.ranks, bytes, true).block;

    memset(row, 0, sizeof(*row));
    row->run = arguments->run;
    row->run.bytes = bytes;
    if (!mscclpp_schedule_init(&row->run.schedule, kind, arguments->pattern, nodes, arguments->root, arguments->fanout,
                               arguments->radix)) {
        return 0;
    }
    if (!set_tiles(arguments, &row->run.schedule, bytes, &row->run)) {
        return 0;
    }
    /*
     * The simulation counts the messages of a slot, one for each tile, in 16 bits. If the kernel has more tiles, they
     * are taken to be longer.
     */
    if (arguments->tile_bytes == 0 && block / (double)row->run.tile_bytes >= UINT16_MAX) {
        row->run.tile_bytes =
            ((uint64_t)(block / (UINT16_MAX - 1)) + MSCCLPP_DEV_UNIT) / MSCCLPP_DEV_UNIT * MSCCLPP_DEV_UNIT;
    }
    if (block / (double)row->run.tile_bytes >= UINT16_MAX + 1) {
        fprintf(stderr, "mscclpp_sim: --tile is %llu; allowed for %llu bytes are at least %.0f\n",
                (unsigned long long)row->run.tile_bytes, (unsigned long long)bytes, block / UINT16_MAX + 1);
        return 2;
    }
    row->bound = mscclpp_cost_find_bound(&row->run.figures, arguments->pattern, nodes, row->run.ranks, bytes);
    row->min_latency = sim_min_latency(&row->run.figures, arguments->pattern, nodes);
    row->modelled = estimate_seconds(arguments, &row->run.schedule, bytes);
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
        fprintf(stderr, "mscclpp_sim: none of these algorithms serves %s with --scratch %llu and --exchange %llu\n",
                sim_pattern_name(arguments.pattern), (unsigned long long)arguments.scratch_size,
                (unsigned long long)arguments.exchange_size);
        status = 2;
    }
    if (status == 0 && arguments.prints_json) {
        sim_print_json(stdout, rows, count);
    }
    if (status == 0 && arguments.picture_path != NULL) {
        status = write_picture(arguments.picture_path, rows, count);
    }
    free(rows);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "mscclpp_sim: cannot write to standard output\n");
        return 1;
    }
    return status;
}
