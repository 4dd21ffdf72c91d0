/* The command line of mscclpp_bench. */
#include "tools/bench/bench.h"
#include "mca/common/transport/transport.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array_) ((int)(sizeof(array_) / sizeof((array_)[0])))

/* The names of the values of --mode, --compare and --host-buffers. */
static const char *const mode_names[] = {
    [BENCH_MODE_BLOCKING] = "blocking",       [BENCH_MODE_LIBRARY] = "library",
    [BENCH_MODE_STREAM] = "stream",           [BENCH_MODE_PORT] = "port",
    [BENCH_MODE_NONBLOCKING] = "nonblocking", [BENCH_MODE_PERSISTENT] = "persistent",
    [BENCH_MODE_QUEUED] = "queued",           [BENCH_MODE_GRAPH] = "graph",
    [BENCH_MODE_CHANNEL] = "channel",         [BENCH_MODE_TRANSPOSE] = "transpose",
};
static const char *const compare_names[] = {
    [BENCH_COMPARE_NONE] = "none",         [BENCH_COMPARE_NCCL] = "nccl",     [BENCH_COMPARE_STAGED] = "staged",
    [BENCH_COMPARE_LAUNCHED] = "launched", [BENCH_COMPARE_COPIES] = "copies", [BENCH_COMPARE_KERNEL] = "kernel",
    [BENCH_COMPARE_BLOCKING] = "blocking", [BENCH_COMPARE_NATIVE] = "native",
};
static const char *const memory_names[] = {
    [BENCH_MEMORY_DEVICE] = "device",
    [BENCH_MEMORY_HEAP] = "heap",
    [BENCH_MEMORY_STACK] = "stack",
    [BENCH_MEMORY_LARGE] = "large",
};

const char *bench_mode_name(bench_mode_t mode)
{
    return mode_names[mode];
}

bool bench_mode_is_mpi(bench_mode_t mode)
{
    return BENCH_MODE_LIBRARY != mode && BENCH_MODE_STREAM != mode && BENCH_MODE_PORT != mode &&
           BENCH_MODE_CHANNEL != mode;
}

bool bench_mode_queues(bench_mode_t mode)
{
    return BENCH_MODE_STREAM == mode || BENCH_MODE_QUEUED == mode || BENCH_MODE_GRAPH == mode;
}

const char *bench_compare_name(bench_compare_t compare)
{
    return compare_names[compare];
}

const char *bench_memory_name(bench_memory_t memory)
{
    return memory_names[memory];
}

static const char help[] =
    "Usage: mpirun -n RANKS mscclpp_bench [OPTION]...\n"
    "Measures and verifies MPI's collectives on device buffers, one rank a GPU (local rank modulo the number of\n"
    "GPUs), or on the host twin where there is no GPU.\n"
    "\n"
    "  -c, --coll LIST        allreduce (default), allgather, allgatherv, reduce_scatter_block, reduce_scatter,\n"
    "                         bcast, reduce, alltoall, alltoallv, alltoallw, gather, gatherv, scatter, scatterv,\n"
    "                         scan, exscan, several separated by commas, or all;\n"
    "                         neighbor_allgather, neighbor_allgatherv, neighbor_alltoall, neighbor_alltoallv,\n"
    "                         neighbor_alltoallw in a ring of the ranks, or neighbors for these\n"
    "      --root RANK        of those that have one (default 0)\n"
    "  -m, --mode MODE        blocking: MPI's function, one call at a time (default)\n"
    "                         library: the host library's blocking call, one at a time\n"
    "                         stream: calls queued back to back in a stream, one wait at the end (all-reduce)\n"
    "                         nonblocking: MPI's nonblocking function and MPI_Wait, one at a time\n"
    "                         persistent: MPI_Start and MPI_Wait of a persistent request, one at a time\n"
    "                         queued: MPIX_Mscclpp_..._enqueue back to back in a stream, one wait at the end\n"
    "                         graph: 100 of these in a graph, which is launched again and again\n"
    "                         port: no collective, but kernels that put over port channels, ranks in pairs\n"
    "                         channel: a message from kernel to kernel over the channels of applications, in pairs;\n"
    "                         with --coll allreduce, allgather, reduce_scatter_block and alltoall by such kernels\n"
    "                         transpose: an array spread along one axis, then along another, by MPI_Alltoallw of\n"
    "                         subarrays, beside MPI_Alltoall of as many bytes\n"
    "  -b, --min SIZE         smallest message in bytes, suffixes k, m, g (default 8): of the whole buffer, which is\n"
    "                         what the rank with the most has, n blocks where each rank has a block\n"
    "  -e, --max SIZE         largest message (default 256m on GPUs, 1m on the twin or the host)\n"
    "  -f, --factor N         each size is N times the one before, N > 1 (default 2)\n"
    "  -d, --type LIST        char, int8, uint8, int32, int64, half, bfloat16, float, double, or several\n"
    "                         separated by commas (default float)\n"
    "  -o, --op LIST          sum, prod, max, min (default sum), of those that reduce\n"
    "      --in-place         only in place\n"
    "      --out-of-place     only out of place (default: both)\n"
    "  -n, --iterations N     calls a round (default: by the time that a call takes)\n"
    "  -w, --warmup N         calls before each size (default 10)\n"
    "      --rounds N         rounds, of which the median is shown (default 5)\n"
    "      --check N          verified calls for each size, 0 for none (default 1)\n"
    "      --compare WHAT     nccl: the same buffers and sizes through NCCL, in alternating rounds\n"
    "                         staged: copy to pinned host memory, MPI's function there, copy back\n"
    "                         launched: the host library without lingering kernels (implies --mode library)\n"
    "                         copies: of what moves only, plain copies of the same bytes by the same ranks\n"
    "                         kernel: one kernel for each GPU that reads and writes what its ranks must\n"
    "                         blocking: MPI's blocking function\n"
    "                         native: with --plan, the library's own algorithm\n"
    "      --plan FILE        this execution plan serves all calls (implies --mode library); its collective is\n"
    "                         measured, whatever its own range of sizes is\n"
    "      --between KIND:US[:CALLS]\n"
    "                         a kernel of an application after each call, or after CALLS calls, that takes US\n"
    "                         microseconds: waves (fills the GPU once), full (a block a multiprocessor, with most\n"
    "                         of its shared memory), coop (the same, cooperative), gemm (cuBLAS) or none; shows\n"
    "                         what a call adds to the loop of kernels. barrier: a barrier before each call\n"
    "      --between-ahead N  queues N such kernels before the calls in place of one after them (default 0)\n"
    "      --host-buffers [WHERE]\n"
    "                         MPI's function on ordinary memory of the host, for which see a run with --mca coll\n"
    "                         ^mscclpp beside it: heap (malloc, default), stack (up to 64k) or large (in a mapping\n"
    "                         of 256 MiB or more)\n"
    "      --nccl-wait HOW    how a blocking NCCL call is waited for: sync (default) or spin\n"
    "      --nccl-library F   file to load (default libnccl.so.2)\n"
    "      --transport NAME   with --mode port: one transport (default all)\n"
    "      --length N         with --mode transpose: complex doubles along each axis (default 512, 48 on the twin)\n"
    "      --window N         with --mode port: most puts before each flush (default 64)\n"
    "      --device WHAT      auto (default), cuda or host (the twin)\n"
    "      --json FILE        all numbers and the environment as JSON\n"
    "  -h, --help             this text\n"
    "      --version\n"
    "\n"
    "Times are microseconds: of each round the largest average of any rank, and of the rounds the median.\n"
    "algbw is bytes / time; busbw is algbw * 2(n-1)/n for all-reduce, see the manual for others.\n"
    "ratio is our time / the other's: below 1 ours is faster.\n"
    "Exit status: 0 for success, 1 for a wrong result or a failure, 2 for a bad option.\n"
    "\n"
    "Examples:\n"
    "  mpirun -n 4 mscclpp_bench -b 8 -e 1g -f 4 -d half --compare nccl --json h200.json\n"
    "  mpirun -n 4 mscclpp_bench --mode stream -b 1m -e 1m -d float --rounds 11\n"
    "  mpirun -n 4 mscclpp_bench --device host -e 64k -d int8,double -o sum,max --check 3\n"
    "  mpirun -n 4 mscclpp_bench --coll all -b 16 -e 64m -f 4 -d float --compare nccl --json colls.json\n"
    "  mpirun -n 2 mscclpp_bench --between waves:20 -b 8 -e 8 --compare launched\n"
    "  mpirun -n 2 mscclpp_bench --host-buffers stack --json with.json\n"
    "  mpirun -n 4 mscclpp_bench --plan ring.json -b 1k -e 64m -f 4 --compare native\n"
    "  mpirun -n 2 mscclpp_bench --mode port --transport cuda_ipc -e 1g -f 8\n"
    "  mpirun -n 4 mscclpp_bench --mode transpose --json transpose.json\n";

/* The largest value of counts that need no bound but an int. */
#define MAX_COUNT 1000000

#define DEFAULT_WINDOW 64 /* puts before a flush */

/* Adds an element type, for bench_parse_list. If there is none of this name, prints a line and returns false. */
static bool add_type(const char *name, void *context)
{
    bench_options_t *options = context;

    for (int i = 0; i < bench_type_count; ++i) {
        if (0 == strcmp(name, bench_types[i].name) && options->type_count < BENCH_MAX_TYPES) {
            options->types[options->type_count++] = &bench_types[i];
            return true;
        }
    }
    return bench_refuse("--type", name, "char, int8, uint8, int32, int64, half, bfloat16, float or double, at most 16");
}

/* Adds an operation, for bench_parse_list. If there is none of this name, prints a line and returns false. */
static bool add_op(const char *name, void *context)
{
    bench_options_t *options = context;

    for (int i = 0; i < bench_op_count; ++i) {
        if (0 == strcmp(name, bench_ops[i].name) && options->op_count < BENCH_MAX_OPS) {
            options->ops[options->op_count++] = &bench_ops[i];
            return true;
        }
    }
    return bench_refuse("--op", name, "sum, prod, max or min, at most 8");
}

/*
 * Adds the collective, or the group of collectives, that bench_coll_add finds, for bench_parse_list. If there is none
 * of this name, prints a line and returns false.
 */
static bool add_coll(const char *name, void *context)
{
    bench_options_t *options = context;

    return bench_coll_add(name, options->colls, &options->coll_count);
}

/*
 * Reads --transport: a transport of this build, or "all". Prints a line and returns false if it is neither. "all" is
 * stored, too, because NULL means that the option was not given.
 */
static bool parse_transport(const char *name, bench_options_t *options)
{
    char allowed[256] = "all";

    if (0 == strcmp(name, "all")) {
        options->transport = "all";
        return true;
    }
    for (int i = 0; i < mscclpp_transport_count; ++i) {
        size_t length = strlen(allowed);
        snprintf(allowed + length, sizeof(allowed) - length, "|%s", mscclpp_transports[i]->name);
    }
    if (mscclpp_transport_find(name) == NULL) {
        return bench_refuse("--transport", name, allowed);
    }
    options->transport = name;
    return true;
}

/*
 * Reads --between: KIND:MICROSECONDS or KIND:MICROSECONDS:CALLS. For the kinds none and barrier, the rest may be
 * missing and has no effect, but must be valid if it is given. Prints a line and returns false if the text has another
 * form, or if a number is out of range. `next` moves past each valid part, so the text is valid only if `next` reaches
 * its end.
 */
static bool parse_between(const char *text, bench_between_t *between)
{
    static const char allowed[] =
        "KIND:MICROSECONDS or KIND:MICROSECONDS:CALLS, with none, barrier, waves, full, half, coop or gemm, "
        "0 to 1000000 microseconds and 1 to 1000 calls";
    size_t length = strcspn(text, ":");
    const char *next = text + length;
    char *end = NULL;
    int kind = BENCH_KERNEL_NONE;
    long calls = 1;

    while (kind <= BENCH_KERNEL_GEMM && (strlen(bench_between_name((bench_kernel_kind_t)kind)) != length ||
                                         0 != strncmp(bench_between_name((bench_kernel_kind_t)kind), text, length))) {
        ++kind;
    }
    if (kind > BENCH_KERNEL_GEMM || ('\0' == *next && kind > BENCH_KERNEL_BARRIER)) {
        return bench_refuse("--between", text, allowed);
    }
    if (':' == *next) {
        between->microseconds = strtod(next + 1, &end);
        if (!isdigit((unsigned char)next[1]) || !(between->microseconds <= 1e6)) {
            return bench_refuse("--between", text, allowed);
        }
        next = end;
    }
    if (':' == *next) {
        calls = isdigit((unsigned char)next[1]) ? strtol(next + 1, &end, 10) : 0;
        next = calls >= 1 && calls <= 1000 ? end : next;
    }
    if ('\0' != *next) {
        return bench_refuse("--between", text, allowed);
    }
    if (kind <= BENCH_KERNEL_BARRIER) {
        between->microseconds = 0;
        calls = 1;
    }
    between->is_given = true;
    between->kind = (bench_kernel_kind_t)kind;
    between->calls_in_turn = (int)calls;
    return true;
}

/* The options without a letter. Their values are above those of all characters. */
enum {
    IN_PLACE = 256,
    OUT_OF_PLACE,
    ROUNDS,
    CHECK,
    COMPARE,
    NCCL_WAIT,
    NCCL_LIBRARY,
    DEVICE,
    JSON,
    TRANSPORT,
    WINDOW,
    LENGTH,
    BETWEEN,
    BETWEEN_AHEAD,
    HOST_BUFFERS,
    ROOT,
    PLAN,
    VERSION
};

static const struct option long_options[] = {{"coll", required_argument, NULL, 'c'},
                                             {"root", required_argument, NULL, ROOT},
                                             {"mode", required_argument, NULL, 'm'},
                                             {"min", required_argument, NULL, 'b'},
                                             {"max", required_argument, NULL, 'e'},
                                             {"factor", required_argument, NULL, 'f'},
                                             {"type", required_argument, NULL, 'd'},
                                             {"op", required_argument, NULL, 'o'},
                                             {"in-place", no_argument, NULL, IN_PLACE},
                                             {"out-of-place", no_argument, NULL, OUT_OF_PLACE},
                                             {"iterations", required_argument, NULL, 'n'},
                                             {"warmup", required_argument, NULL, 'w'},
                                             {"rounds", required_argument, NULL, ROUNDS},
                                             {"check", required_argument, NULL, CHECK},
                                             {"compare", required_argument, NULL, COMPARE},
                                             {"nccl-wait", required_argument, NULL, NCCL_WAIT},
                                             {"nccl-library", required_argument, NULL, NCCL_LIBRARY},
                                             {"transport", required_argument, NULL, TRANSPORT},
                                             {"window", required_argument, NULL, WINDOW},
                                             {"length", required_argument, NULL, LENGTH},
                                             {"between", required_argument, NULL, BETWEEN},
                                             {"between-ahead", required_argument, NULL, BETWEEN_AHEAD},
                                             {"host-buffers", optional_argument, NULL, HOST_BUFFERS},
                                             {"device", required_argument, NULL, DEVICE},
                                             {"plan", required_argument, NULL, PLAN},
                                             {"json", required_argument, NULL, JSON},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, VERSION},
                                             {NULL, 0, NULL, 0}};

/* Stores the index of the name that the text is. If there is none, prints a line with all names and returns false. */
static bool parse_name(const char *option, const char *text, const char *const *names, int count, int *index_p)
{
    char choices[256] = "";
    size_t length = 0;

    for (int i = 0; i < count; ++i) {
        length += (size_t)snprintf(choices + length, sizeof(choices) - length, "%s%s", 0 == i ? "" : "|", names[i]);
    }
    return bench_parse_choice(option, text, choices, index_p);
}

/*
 * Stores the value of one option that getopt_long has found in long_options, except --help and --version. If the value
 * is refused, prints a line and returns false; the caller then discards *options. Texts are stored as pointers into the
 * command line.
 */
static bool store_option(int option, const char *value, bench_options_t *options)
{
    static const char *const devices[] = {"auto", "cuda", "host"};
    int choice = 0;
    bool ok = true;

    switch (option) {
    case 'c':
        ok = bench_parse_list(value, options, add_coll);
        break;
    case ROOT:
        ok = bench_parse_int("--root", value, 0, MAX_COUNT, &options->root);
        break;
    case 'm':
        ok = parse_name("--mode", value, mode_names, COUNT(mode_names), &choice);
        options->mode = (bench_mode_t)choice;
        options->is_mode_given = true;
        break;
    case 'b':
        ok = bench_parse_size("--min", value, &options->min_bytes);
        break;
    case 'e':
        ok = bench_parse_size("--max", value, &options->max_bytes);
        break;
    case 'f':
        ok = bench_parse_factor(value, &options->factor);
        break;
    case 'd':
        ok = bench_parse_list(value, options, add_type);
        break;
    case 'o':
        ok = bench_parse_list(value, options, add_op);
        break;
    case IN_PLACE:
        options->in_place = true;
        break;
    case OUT_OF_PLACE:
        options->out_of_place = true;
        break;
    case 'n':
        ok = bench_parse_int("--iterations", value, 1, MAX_COUNT, &options->iterations);
        break;
    case 'w':
        ok = bench_parse_int("--warmup", value, 0, MAX_COUNT, &options->warmup);
        break;
    case ROUNDS:
        ok = bench_parse_int("--rounds", value, 1, BENCH_MAX_ROUNDS, &options->rounds);
        break;
    case CHECK:
        ok = bench_parse_int("--check", value, 0, MAX_COUNT, &options->checks);
        break;
    case COMPARE:
        ok = parse_name("--compare", value, compare_names, COUNT(compare_names), &choice);
        options->compare = (bench_compare_t)choice;
        break;
    case NCCL_WAIT:
        ok = bench_parse_choice("--nccl-wait", value, "sync|spin", &choice);
        options->nccl_spin = 1 == choice;
        break;
    case NCCL_LIBRARY:
        options->nccl_library = value;
        break;
    case TRANSPORT:
        ok = parse_transport(value, options);
        break;
    case WINDOW:
        ok = bench_parse_int("--window", value, 1, 65536, &options->window);
        break;
    case LENGTH:
        ok = bench_parse_int("--length", value, 1, 2048, &options->length);
        break;
    case BETWEEN:
        ok = parse_between(value, &options->between);
        break;
    case BETWEEN_AHEAD:
        ok = bench_parse_int("--between-ahead", value, 0, 1000, &options->between.kernels_ahead);
        break;
    case PLAN:
        options->plan = value;
        break;
    case HOST_BUFFERS:
        /* Device memory, the first name, is no value of this option. */
        ok = parse_name("--host-buffers", value == NULL ? "heap" : value, memory_names + BENCH_MEMORY_HEAP,
                        COUNT(memory_names) - BENCH_MEMORY_HEAP, &choice);
        options->memory = (bench_memory_t)(BENCH_MEMORY_HEAP + choice);
        break;
    case DEVICE:
        ok = parse_name("--device", value, devices, COUNT(devices), &choice);
        options->device = devices[choice];
        break;
    case JSON:
        options->json = value;
        break;
    default:
        ok = false; /* bench_options_parse serves the rest */
        break;
    }
    return ok;
}

/*
 * Fills in default values for options that were not given, except the sizes and the length that depend on the device.
 * Called after all checks, because some of these check whether an option was given. Adding a default cannot fail,
 * because the names are known and the lists are empty.
 */
static void add_defaults(bench_options_t *options)
{
    if (0 == options->type_count) {
        add_type("float", options);
    }
    if (0 == options->coll_count && BENCH_MODE_CHANNEL != options->mode) {
        add_coll("allreduce", options);
    }
    if (0 == options->op_count) {
        add_op("sum", options);
    }
    if (!options->in_place && !options->out_of_place) {
        options->in_place = true;
        options->out_of_place = true;
    }
    if (0 == options->window) {
        options->window = DEFAULT_WINDOW;
    }
    if (options->transport == NULL) {
        options->transport = "all";
    }
}

/*
 * Parses the command line. If an option is given twice, the last value is used, but names in lists are added. Each
 * option is checked when it is read, and all together at the end, after the mode that other options imply is known.
 * *options_p is set on success only. --help and --version end the parsing at once, with status 0.
 */
bool bench_options_parse(int argc, char **argv, bench_options_t *options_p, int *status_p)
{
    bench_options_t options = {.min_bytes = 8,
                               .factor = 2,
                               .warmup = 10,
                               .checks = 1,
                               .rounds = 5,
                               .nccl_library = "libnccl.so.2",
                               .device = "auto"};
    int option;

    *status_p = BENCH_EXIT_USAGE;
    opterr = 0;
    while (-1 != (option = getopt_long(argc, argv, ":c:m:b:e:f:d:o:n:w:h", long_options, NULL))) {
        if ('h' == option || VERSION == option) {
            if (bench_prints()) {
                fputs('h' == option ? help : "mscclpp_bench " MSCCLPP_VERSION "\n", stdout);
            }
            *status_p = 0;
            return false;
        }
        if ('?' == option || ':' == option) {
            return bench_refuse_option(option, argv, long_options);
        }
        /* getopt_long accepts an optional value only behind an equals sign. */
        if (HOST_BUFFERS == option && optarg == NULL && optind < argc && '-' != argv[optind][0]) {
            optarg = argv[optind++];
        }
        if (!store_option(option, optarg, &options)) {
            return false;
        }
    }
    if (optind < argc) {
        if (bench_prints()) {
            fprintf(stderr, "mscclpp_bench: '%s' is no option; see --help\n", argv[optind]);
        }
        return false;
    }
    if ((BENCH_COMPARE_LAUNCHED == options.compare || options.plan != NULL) && !options.is_mode_given) {
        options.mode = BENCH_MODE_LIBRARY;
    }
    if (!bench_options_fit_together(&options)) {
        return false;
    }
    add_defaults(&options);
    *options_p = options;
    return true;
}
