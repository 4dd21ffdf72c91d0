/* The command line of mscclpp_tune. */
#include "tools/tune/tune.h"

#include <getopt.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -n RANKS mscclpp_tune [OPTION]...\n"
    "Measures every algorithm of MPI's collectives with these ranks, on one node or several, and writes rules for the\n"
    "parameter coll_mscclpp_rules. Runs with other numbers of ranks or nodes add to the same file.\n"
    "\n"
    "  -c, --coll LIST        allreduce (default), allgather, allgatherv, reduce_scatter_block, reduce_scatter,\n"
    "                         bcast, reduce, alltoall, alltoallv, alltoallw, gather, gatherv, scatter, scatterv, "
    "scan,\n"
    "                         exscan or all; of several, each has times of its own, in "
    "FILE.NAME.RANKS-DEVICE.measured\n"
    "  -o, --output FILE      the rules (default mscclpp.rules); times go to FILE.RANKS-DEVICE.measured beside it\n"
    "      --between          measure between the nodes of these ranks instead, and write the figures of the "
    "transport\n"
    "                         for the cost model that chooses there; sizes are 16k to 4m\n"
    "      --fresh            forget the times of earlier runs, which else are gone on from\n"
    "  -b, --min SIZE         smallest message in bytes, suffixes k, m, g (default 64): the whole buffer, with all\n"
    "                         blocks of it\n"
    "  -e, --max SIZE         largest message (default 256m on GPUs, 1m on the twin)\n"
    "  -f, --factor N         each size is N times the one before, N > 1 (default 2)\n"
    "  -d, --type NAME        char, int8, uint8, int32, int64, half, bfloat16, float or double (default float)\n"
    "  -w, --warmup N         calls before each size (default 10)\n"
    "      --rounds N         rounds, of which the median counts (default 5)\n"
    "      --plans LIST       measures these execution plans, too: files and folders, separated by commas\n"
    "      --device WHAT      auto (default), cuda or host (the twin)\n"
    "      --progress HOW     bar, lines, none, or auto: a bar on a terminal, else lines (default)\n"
    "  -h, --help             this text\n"
    "      --version\n"
    "\n"
    "Interrupted (SIGINT, SIGTERM), it writes the rules for the sizes measured so far; the same command goes on "
    "later.\n"
    "Exit status: 0 for success, 1 for a wrong result or a failure, 2 for a bad option, 130 or 143 if a rank got\n"
    "SIGINT or SIGTERM. If mpirun got it, its status is of its own choice: 1 with Open MPI 4.1.\n"
    "\n"
    "Examples:\n"
    "  mpirun -n 4 mscclpp_tune -o tuned.rules\n"
    "  mpirun -n 4 mscclpp_tune -o tuned.rules --coll all\n"
    "  mpirun -n 4 mscclpp_tune -o tuned.rules --plans ring.json,/opt/plans\n"
    "  mpirun -n 4 --mca coll mscclpp --mca coll_mscclpp_rules $PWD/tuned.rules ./program\n";

/* The options without a letter. Their values are above those of all characters. */
enum { FRESH = 256, ROUNDS, DEVICE, PLANS, PROGRESS, VERSION };

static const struct option long_options[] = {{"coll", required_argument, NULL, 'c'},
                                             {"output", required_argument, NULL, 'o'},
                                             {"fresh", no_argument, NULL, FRESH},
                                             {"min", required_argument, NULL, 'b'},
                                             {"max", required_argument, NULL, 'e'},
                                             {"factor", required_argument, NULL, 'f'},
                                             {"type", required_argument, NULL, 'd'},
                                             {"warmup", required_argument, NULL, 'w'},
                                             {"rounds", required_argument, NULL, ROUNDS},
                                             {"device", required_argument, NULL, DEVICE},
                                             {"plans", required_argument, NULL, PLANS},
                                             {"progress", required_argument, NULL, PROGRESS},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, VERSION},
                                             {NULL, 0, NULL, 0}};

/* Reads the value of --type. Prints a line and returns false if there is no such type. */
static bool parse_type(const char *name, tune_options_t *options)
{
    for (int i = 0; i < bench_type_count; ++i) {
        if (0 == strcmp(name, bench_types[i].name)) {
            options->type = &bench_types[i];
            return true;
        }
    }
    return bench_refuse("--type", name, "char, int8, uint8, int32, int64, half, bfloat16, float or double");
}

/* Adds one collective of the list of --coll, for bench_parse_list. Prints a line and returns false if it is refused. */
static bool add_coll(const char *name, void *context)
{
    tune_options_t *options = context;

    if (0 == strncmp(name, "neighbor", strlen("neighbor"))) {
        return bench_refuse("--coll", name, "a collective of all ranks, as neighbours have no rules of their own");
    }
    return bench_coll_add(name, options->colls, &options->coll_count);
}

/*
 * Stores the value of one option that getopt_long has returned. Texts are stored as pointers into the command line. The
 * choices of --progress are listed in the order of tune_progress_mode_t. If the value is refused, prints a line and
 * returns false; the caller then discards *options.
 */
static bool store_option(int option, const char *value, tune_options_t *options)
{
    static const char *devices[] = {"auto", "cuda", "host"};
    int choice = 0;
    bool ok = true;

    switch (option) {
    case 'c':
        return bench_parse_list(value, options, add_coll);
    case 'o':
        options->output = value;
        return '\0' != *value || bench_refuse("--output", value, "the name of a file");
    case FRESH:
        options->is_fresh = true;
        break;
    case 'b':
        return bench_parse_size("--min", value, &options->min_bytes);
    case 'e':
        return bench_parse_size("--max", value, &options->max_bytes);
    case 'f':
        return bench_parse_factor(value, &options->factor);
    case 'd':
        return parse_type(value, options);
    case 'w':
        return bench_parse_int("--warmup", value, 0, 1000000, &options->warmup);
    case ROUNDS:
        return bench_parse_int("--rounds", value, 1, BENCH_MAX_ROUNDS, &options->rounds);
    case PLANS:
        options->plans = value;
        break;
    case DEVICE:
        ok = bench_parse_choice("--device", value, "auto|cuda|host", &choice);
        options->device = devices[choice];
        break;
    default:
        ok = bench_parse_choice("--progress", value, "auto|bar|lines|none", &choice);
        options->progress = (tune_progress_mode_t)choice;
        break;
    }
    return ok;
}

/*
 * Removes --between from the arguments, wherever it is, and returns whether it was given. It is not left to
 * getopt_long, which would also accept abbreviations of it.
 */
static bool remove_between(int *argc_p, char **argv)
{
    bool is_given = false;
    int count = 1;

    for (int i = 1; i < *argc_p; ++i) {
        if (0 == strcmp(argv[i], "--between")) {
            is_given = true;
        } else {
            argv[count++] = argv[i];
        }
    }
    *argc_p = count;
    return is_given;
}

/*
 * Parses the command line. If an option is given twice, its last value counts, but the names of --coll add up.
 * *options_p is set on success only. Without --max, options->max_bytes remains 0: main() sets it after it has chosen
 * the device.
 */
bool tune_options_parse(int argc, char **argv, tune_options_t *options_p, int *status_p)
{
    tune_options_t options = {
        .min_bytes = 64, .factor = 2, .rounds = 5, .warmup = 10, .output = "mscclpp.rules", .device = "auto"};
    int option;

    *status_p = BENCH_EXIT_USAGE;
    (void)parse_type("float", &options);
    options.is_between = remove_between(&argc, argv);
    opterr = 0;
    while (-1 != (option = getopt_long(argc, argv, ":c:o:b:e:f:d:w:h", long_options, NULL))) {
        if ('h' == option || VERSION == option) {
            if (bench_prints()) {
                fputs('h' == option ? help : "mscclpp_tune " MSCCLPP_VERSION "\n", stdout);
            }
            *status_p = 0;
            return false;
        }
        if ('?' == option || ':' == option) {
            return bench_refuse_option(option, argv, long_options);
        }
        if (!store_option(option, optarg, &options)) {
            return false;
        }
    }
    if (optind < argc) {
        if (bench_prints()) {
            fprintf(stderr, "mscclpp_tune: '%s' is no option; see --help\n", argv[optind]);
        }
        return false;
    }
    if (0 != options.max_bytes && options.min_bytes > options.max_bytes) {
        char max[32];
        snprintf(max, sizeof(max), "%zu", options.max_bytes);
        return bench_refuse("--max", max, "a size that is not below --min");
    }
    if (options.is_between && options.coll_count > 0) {
        return bench_refuse("--coll", options.colls[0]->name, "it without --between, which measures all-reduces");
    }
    if (0 == options.coll_count) {
        add_coll("allreduce", &options);
    }
    *options_p = options;
    return true;
}

const char **tune_setting_of(mscclpp_config_t *config, mscclpp_coll_t coll)
{
    switch (coll) {
#define TUNE_SETTING(id_, name_, pattern_)                                                                             \
    case MSCCLPP_COLL_##id_:                                                                                           \
        return &config->name_##_algorithm;
        MSCCLPP_COLLS(TUNE_SETTING)
#undef TUNE_SETTING
    default:
        return &config->algorithm;
    }
}
