/* mscclpp_synth: finds algorithms for a topology. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/allreduce.h"
#include "tools/synth/lib/discover.h"
#include "tools/synth/lib/lower.h"
#include "tools/synth/synth_tool.h"

static const char help[] =
    "Usage: mscclpp_synth [show] --topology FILE|NAME | --discover [--collective NAME] [OPTION]...\n"
    "Finds the algorithms of a collective that no other beats in both steps and rounds for each chunk, and says of "
    "each\n"
    "whether that is proven. `show` tells each one step by step, and draws it, too: to FILE of --svg, or to\n"
    "synth_COLLECTIVE_RANKS.svg.\n"
    "\n"
    "  -t, --topology FILE|NAME  a file (docs/synthesis.md), or one of ring:N, line:N, mesh:N, switch:N, torus:AxB,\n"
    "                            nodes:NxG, dgx1, mi250x\n"
    "      --discover            in its place: the GPUs of this machine, as NVIDIA's driver or hwloc tells of them\n"
    "      --only RANK,...       these ranks of the topology only, in this order\n"
    "  -c, --collective NAME     allgather (default), broadcast, gather, scatter, alltoall, reducescatter, reduce or\n"
    "                            allreduce\n"
    "      --root RANK           of the collectives that have one (default 0)\n"
    "      --steps S             algorithms of so many steps only\n"
    "      --chunks K            with so many chunks only\n"
    "      --most-chunks K       with at most so many chunks (default 25, or the number of ranks if that is more)\n"
    "      --time-limit T        seconds that the search may take (default 60)\n"
    "      --no-search           polynomial methods only\n"
    "      --cache DIR           where to keep what is found (default $XDG_CACHE_HOME/mscclpp_synth, or\n"
    "                            ~/.cache/mscclpp_synth); a search that was interrupted goes on from there\n"
    "      --no-cache            neither read nor write it\n"
    "      --bounds              what no algorithm can do better, for every collective, and nothing else\n"
    "      --json                as JSON, with the schedules\n"
    "  -o, --output DIR          write the front and an execution plan of each algorithm, proven before, to this "
    "folder\n"
    "      --svg FILE            draw the topology and, step by step, the algorithms; with --bounds the topology "
    "alone\n"
    "      --instances N         blocks of each rank that share the work of a plan (default 4)\n"
    "      --in-place            plans for calls whose input and output are one buffer\n"
    "  -v, --verbose             say what is tried\n"
    "  -h, --help                this text\n"
    "      --version\n"
    "\n"
    "Interrupted, it prints what it has. Exit status: 0, 1 if nothing was found or a file cannot be read, 2 for wrong\n"
    "usage.\n";

/* Options without a letter: values above those of all letters. */
enum {
    ROOT = 256,
    STEPS,
    CHUNKS,
    MAX_CHUNKS,
    TIME_LIMIT,
    NO_SEARCH,
    BOUNDS,
    JSON,
    INSTANCES,
    SVG,
    IN_PLACE,
    CACHE,
    NO_CACHE,
    DISCOVER,
    ONLY,
    VERSION
};

static const struct option option_table[] = {{"topology", required_argument, NULL, 't'},
                                             {"collective", required_argument, NULL, 'c'},
                                             {"root", required_argument, NULL, ROOT},
                                             {"steps", required_argument, NULL, STEPS},
                                             {"chunks", required_argument, NULL, CHUNKS},
                                             {"most-chunks", required_argument, NULL, MAX_CHUNKS},
                                             {"time-limit", required_argument, NULL, TIME_LIMIT},
                                             {"no-search", no_argument, NULL, NO_SEARCH},
                                             {"discover", no_argument, NULL, DISCOVER},
                                             {"only", required_argument, NULL, ONLY},
                                             {"cache", required_argument, NULL, CACHE},
                                             {"no-cache", no_argument, NULL, NO_CACHE},
                                             {"bounds", no_argument, NULL, BOUNDS},
                                             {"json", no_argument, NULL, JSON},
                                             {"output", required_argument, NULL, 'o'},
                                             {"instances", required_argument, NULL, INSTANCES},
                                             {"in-place", no_argument, NULL, IN_PLACE},
                                             {"svg", required_argument, NULL, SVG},
                                             {"verbose", no_argument, NULL, 'v'},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, VERSION},
                                             {NULL, 0, NULL, 0}};

/* Most chunks of schedules of packed trees, without --most-chunks: more chunks make very long plans. */
enum { TREE_CHUNKS = 192 };
enum { DEFAULT_CHUNKS = 25 }; /* most chunks of all other schedules, without --most-chunks */

/* The values of the command line. Texts are NULL if their option is not given. */
typedef struct {
    const char *topology, *only;
    synth_collective_t collective;
    synth_options_t options;
    bool shows_steps; /* the command `show` */
    bool bounds_only, prints_json, is_verbose, uses_no_cache;
    bool has_cache_option;             /* --cache is given, so faults of the cache are reported */
    bool discovers;                    /* --discover in place of --topology */
    const char *folder, *picture_path; /* of --output and --svg */
    synth_plan_options_t plan_options;
} arguments_t;

/* Set by SIGINT and SIGTERM: the search stops, and the schedules found so far are printed. */
static volatile sig_atomic_t interrupted;

/* Asks the search to stop at SIGINT or SIGTERM. A second signal ends the process at once. */
static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

/*
 * Parses the value of an option, a whole number from `min` to `max`. If it is not, prints a message and returns
 * false.
 */
static bool parse_number(const char *option, const char *text, long min, long max, int *number_p)
{
    char *end = NULL;
    long number;

    errno = 0;
    number = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < min || number > max) {
        fprintf(stderr, "mscclpp_synth: %s is \"%s\"; allowed are whole numbers from %ld to %ld\n", option, text, min,
                max);
        return false;
    }
    *number_p = (int)number;
    return true;
}

/* Parses the value of --time-limit. If it is wrong, prints a message and returns false. */
static bool parse_seconds(const char *text, double *seconds_p)
{
    char *end = NULL;
    double seconds = strtod(text, &end);

    if (end == text || *end != '\0' || !(seconds > 0 && seconds <= 1e6)) {
        fprintf(stderr, "mscclpp_synth: --time-limit is \"%s\"; allowed are seconds above 0, at most 1000000\n", text);
        return false;
    }
    *seconds_p = seconds;
    return true;
}

/* Parses the value of --collective. If it is unknown, prints a message and returns false. */
static bool parse_collective(const char *text, synth_collective_t *collective_p)
{
    if (!synth_collective_find(text, collective_p)) {
        fprintf(stderr, "mscclpp_synth: --collective is \"%s\"; allowed are", text);
        for (int i = 0; i < SYNTH_COLLECTIVES; ++i) {
            fprintf(stderr, "%s %s", i > 0 ? "," : "", synth_collective_names[i]);
        }
        fputc('\n', stderr);
        return false;
    }
    return true;
}

/*
 * Parses the command line. Returns false if the program has to end with *status: SYNTH_TOOL_OK after the help or the
 * version was printed, or SYNTH_TOOL_USAGE after a message.
 */
static bool read_arguments(int argc, char **argv, arguments_t *arguments, int *status)
{
    synth_options_t *options = &arguments->options;
    bool ok = true;
    int option;

    *status = SYNTH_TOOL_USAGE;
    while (ok && (option = getopt_long(argc, argv, "t:c:o:vh", option_table, NULL)) != -1) {
        switch (option) {
        case 't':
            arguments->topology = optarg;
            break;
        case 'c':
            ok = parse_collective(optarg, &arguments->collective);
            break;
        case ROOT:
            ok = parse_number("--root", optarg, 0, SYNTH_MAX_RANKS - 1, &options->root);
            break;
        case STEPS:
            ok = parse_number("--steps", optarg, 1, SYNTH_MAX_STEPS, &options->steps);
            break;
        case CHUNKS:
            ok = parse_number("--chunks", optarg, 1, SYNTH_MAX_CHUNKS, &options->chunks);
            break;
        case MAX_CHUNKS:
            ok = parse_number("--most-chunks", optarg, 1, SYNTH_MAX_CHUNKS, &options->max_chunks);
            break;
        case TIME_LIMIT:
            ok = parse_seconds(optarg, &options->seconds);
            break;
        case NO_SEARCH:
            options->searches = false;
            break;
        case DISCOVER:
            arguments->discovers = true;
            break;
        case ONLY:
            arguments->only = optarg;
            break;
        case CACHE:
            options->cache = optarg;
            arguments->has_cache_option = true;
            break;
        case NO_CACHE:
            arguments->uses_no_cache = true;
            break;
        case BOUNDS:
            arguments->bounds_only = true;
            break;
        case JSON:
            arguments->prints_json = true;
            break;
        case 'o':
            arguments->folder = optarg;
            break;
        case INSTANCES:
            ok = parse_number("--instances", optarg, 1, SYNTH_MAX_INSTANCES, &arguments->plan_options.instances);
            break;
        case IN_PLACE:
            arguments->plan_options.in_place = true;
            break;
        case SVG:
            arguments->picture_path = optarg;
            break;
        case 'v':
            arguments->is_verbose = true;
            break;
        case 'h':
            fputs(help, stdout);
            *status = SYNTH_TOOL_OK;
            return false;
        case VERSION:
            printf("mscclpp_synth %s\n", MSCCLPP_VERSION);
            *status = SYNTH_TOOL_OK;
            return false;
        default:
            return false;
        }
    }
    if (ok && optind < argc) {
        fprintf(stderr, "mscclpp_synth: \"%s\" is no option\n", argv[optind]);
        return false;
    }
    if (ok && arguments->topology == NULL && !arguments->discovers) {
        fprintf(stderr, "mscclpp_synth: no --topology; it is a file, or one of %s; or --discover\n",
                synth_topology_names);
        return false;
    }
    if (ok && arguments->topology != NULL && arguments->discovers) {
        fprintf(stderr, "mscclpp_synth: --topology and --discover exclude each other\n");
        return false;
    }
    return ok;
}

/*
 * Returns the topology that --topology names: the machine with this name, or else the file. If neither works, prints a
 * message and returns NULL.
 */
static synth_topology_t *load_topology(const char *argument)
{
    char reason[SYNTH_REASON] = "no memory";
    synth_topology_t *topology = NULL;
    mscclpp_status_t status = synth_topology_named(argument, reason, sizeof(reason), &topology);

    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        status = synth_topology_read(argument, reason, sizeof(reason), &topology);
        if (status != MSCCLPP_OK) {
            fprintf(stderr, "mscclpp_synth: %s: %s\n", argument, reason);
        }
    } else if (status != MSCCLPP_OK) {
        fprintf(stderr, "mscclpp_synth: %s\n", reason);
    }
    return status == MSCCLPP_OK ? topology : NULL;
}

/* Returns the topology of this machine (--discover). NULL after a message. */
static synth_topology_t *discover_topology(void)
{
    char reason[SYNTH_REASON] = "no memory";
    synth_topology_t *topology = NULL;

    if (synth_discover(reason, sizeof(reason), &topology) != MSCCLPP_OK) {
        fprintf(stderr, "mscclpp_synth: --discover: %s\n", reason);
        return NULL;
    }
    return topology;
}

/*
 * Returns the topology of the ranks that --only names, and frees the whole topology in any case. Prints a message and
 * returns NULL if the list is wrong, if the ranks do not all reach one another, or if memory runs out.
 */
static synth_topology_t *keep_ranks(synth_topology_t *topology, const char *only)
{
    int ranks[SYNTH_MAX_RANKS], count = 0;
    synth_topology_t *kept = NULL;
    char reason[SYNTH_REASON] = "no memory";
    const char *cursor = only;
    bool is_complete = false;
    uint64_t seen = 0;

    for (;; ++cursor) {
        char *end = NULL;
        long rank = *cursor >= '0' && *cursor <= '9' ? strtol(cursor, &end, 10) : -1;

        if (rank < 0 || rank >= topology->ranks || (*end != ',' && *end != '\0') || (seen >> rank & 1) != 0) {
            break;
        }
        seen |= UINT64_C(1) << rank;
        ranks[count++] = (int)rank;
        cursor = end;
        if (*cursor == '\0') {
            is_complete = true;
            kept = count > 1 ? synth_topology_part(topology, ranks, count) : NULL;
            break;
        }
    }
    if (!is_complete || count < 2) {
        snprintf(reason, sizeof(reason), "it names two or more of the ranks 0 to %d, each once, with commas between",
                 topology->ranks - 1);
    } else if (kept != NULL && !synth_topology_connected(kept, reason, sizeof(reason))) {
        synth_topology_free(kept);
        kept = NULL;
    }
    if (kept == NULL) {
        fprintf(stderr, "mscclpp_synth: --only is \"%.100s\": %s\n", only, reason);
    }
    synth_topology_free(topology);
    return kept;
}

/*
 * Shows how far the search is: with --verbose each text on a separate line, otherwise all on one line of the terminal,
 * if there is one.
 */
static void show_progress(void *context, const char *text)
{
    const arguments_t *arguments = context;

    if (arguments->is_verbose) {
        fprintf(stderr, "mscclpp_synth: %s\n", text);
    } else if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r%-79.79s\r", text);
    }
}

/*
 * Stores the path of the cache that is used without --cache. Returns false if the environment variables name none, or
 * if the path is too long.
 */
static bool write_default_cache(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;

    if (cache != NULL && cache[0] == '/') {
        length = snprintf(path, size, "%s/mscclpp_synth", cache);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, size, "%s/.cache/mscclpp_synth", home);
    } else {
        return false;
    }
    return length < (int)size;
}

/*
 * Sets the suffix of the names of plans that are for these GPUs only: a digest (FNV-1a) of the GPUs' addresses. If the
 * addresses are not known, the suffix remains empty.
 */
static void set_gpus_suffix(const synth_topology_t *topology, synth_plan_options_t *plan_options)
{
    unsigned digest = 2166136261u; /* this and the factor below are the constants of FNV-1a */

    for (int rank = 0; rank < topology->ranks; ++rank) {
        for (const char *cursor = topology->gpu[rank]; *cursor != 0; ++cursor) {
            digest = (digest ^ (unsigned char)*cursor) * 16777619u;
        }
    }
    if (synth_topology_has_gpus(topology)) {
        snprintf(plan_options->gpus_suffix, sizeof(plan_options->gpus_suffix), "_gpus_%08x", digest);
    }
}

/*
 * Searches, prints the front, and writes plans and pictures as the options ask for. Returns the exit status:
 * SYNTH_TOOL_USAGE if the topology does not allow the steps or chunks that the options ask for (for an all-reduce,
 * nothing is found then); SYNTH_TOOL_FAILED if memory runs out, nothing was found or a file could not be written. If a
 * file cannot be written, the other files are still written.
 */
static int search_and_print(arguments_t *arguments, const synth_topology_t *topology)
{
    char reason[SYNTH_REASON] = "no memory";
    double start = mscclpp_now();
    synth_front_t front;
    mscclpp_status_t status;
    int points;
    bool all_saved;
    char picture[64];

    set_gpus_suffix(topology, &arguments->plan_options);
    if (arguments->collective == SYNTH_ALLREDUCE) {
        status = synth_allreduce_find(topology, &arguments->options, &front, reason, sizeof(reason));
    } else {
        status = synth_front_find(topology, arguments->collective, &arguments->options, &front, reason, sizeof(reason));
    }
    if (status != MSCCLPP_OK) {
        fprintf(stderr, "mscclpp_synth: %s\n", reason);
        return status == MSCCLPP_ERR_INVALID ? SYNTH_TOOL_USAGE : SYNTH_TOOL_FAILED;
    }
    if (arguments->has_cache_option && front.note[0] != '\0') {
        fprintf(stderr, "mscclpp_synth: %s\n", front.note);
    }
    synth_tool_front(stdout, topology, arguments->collective, &arguments->options, &front, mscclpp_now() - start,
                     arguments->prints_json);
    if (arguments->shows_steps) {
        synth_tool_steps(stdout, &front);
    }
    points = front.count;
    all_saved =
        arguments->folder == NULL ||
        synth_tool_save(arguments->folder, topology, arguments->collective, &arguments->options, &front,
                        mscclpp_now() - start, &arguments->plan_options, arguments->prints_json ? stderr : stdout);
    if (arguments->shows_steps && arguments->picture_path == NULL) {
        snprintf(picture, sizeof(picture), "synth_%s_%d.svg", synth_collective_names[arguments->collective],
                 topology->ranks);
        arguments->picture_path = picture;
        printf("%s: the picture\n", picture);
    }
    all_saved =
        (arguments->picture_path == NULL || synth_tool_svg(arguments->picture_path, topology, &front)) && all_saved;
    synth_front_free(&front);
    return all_saved && points > 0 ? SYNTH_TOOL_OK : SYNTH_TOOL_FAILED;
}

/* Reads the arguments and the topology, checks that they fit together, sets the defaults, and searches. */
int main(int argc, char **argv)
{
    arguments_t arguments = {
        .collective = SYNTH_ALLGATHER, .plan_options = {.instances = 4}, .options = {.seconds = 60, .searches = true}};
    synth_topology_t *topology;
    char default_cache[4096];
    int status;

    if (argc > 1 && strcmp(argv[1], "show") == 0) {
        arguments.shows_steps = true;
        --argc;
        ++argv;
    }
    if (!read_arguments(argc, argv, &arguments, &status)) {
        return status;
    }
    topology = arguments.discovers ? discover_topology() : load_topology(arguments.topology);
    if (topology != NULL && arguments.only != NULL) {
        topology = keep_ranks(topology, arguments.only);
    }
    if (topology == NULL) {
        return SYNTH_TOOL_FAILED;
    }
    if (arguments.options.root >= topology->ranks) {
        fprintf(stderr, "mscclpp_synth: --root is %d; the topology has ranks 0 to %d\n", arguments.options.root,
                topology->ranks - 1);
        synth_topology_free(topology);
        return SYNTH_TOOL_USAGE;
    }
    if (arguments.plan_options.in_place && arguments.collective != SYNTH_ALLGATHER &&
        arguments.collective != SYNTH_ALLREDUCE && arguments.collective != SYNTH_REDUCESCATTER) {
        fprintf(stderr,
                "mscclpp_synth: --in-place with --collective %s; there are plans in place of allgather, allreduce "
                "and reducescatter\n",
                synth_collective_names[arguments.collective]);
        synth_topology_free(topology);
        return SYNTH_TOOL_USAGE;
    }
    /* Without --most-chunks, each method has its own limit. */
    arguments.options.tree_chunks = arguments.options.max_chunks != 0 ? arguments.options.max_chunks : TREE_CHUNKS;
    arguments.options.closed_chunks =
        arguments.options.max_chunks != 0 ? arguments.options.max_chunks : SYNTH_MAX_CHUNKS;
    if (arguments.options.max_chunks == 0) {
        arguments.options.max_chunks = topology->ranks > DEFAULT_CHUNKS ? topology->ranks : DEFAULT_CHUNKS;
    }
    if (arguments.options.chunks > arguments.options.max_chunks) {
        arguments.options.max_chunks = arguments.options.chunks;
    }
    if (arguments.uses_no_cache) {
        arguments.options.cache = NULL;
    } else if (arguments.options.cache == NULL && write_default_cache(default_cache, sizeof(default_cache))) {
        arguments.options.cache = default_cache;
    }
    /* SIGINT and SIGTERM stop the search; the schedules found so far are still printed. */
    arguments.options.stop = &interrupted;
    arguments.options.progress = show_progress;
    arguments.options.context = &arguments;
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    if (arguments.bounds_only) {
        synth_tool_bounds(stdout, topology, arguments.options.root, arguments.options.seconds, arguments.prints_json);
        status = arguments.picture_path == NULL || synth_tool_svg(arguments.picture_path, topology, NULL)
                     ? SYNTH_TOOL_OK
                     : SYNTH_TOOL_FAILED;
    } else {
        status = search_and_print(&arguments, topology);
    }
    synth_topology_free(topology);
    if (fflush(stdout) != 0) {
        perror("mscclpp_synth");
        return SYNTH_TOOL_FAILED;
    }
    return status;
}
