/* The matrix of the all-reduce on the twin: algorithms, ranks, grids, and random cases of each. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/clock.h"
#include "test/host/elements.h"
#include "test/host/matrix.h"
#include "test/host/process_state.h"
#include "test/unit/unit.h"

static const int all_ranks[] = {1, 2, 3, 4, 5, 8};
static const struct {
    int blocks;
    int threads;
} all_grids[] = {{1, 1}, {1, 3}, {2, 2}, {3, 4}, {4, 8}};

#define COUNT(array_) ((int)(sizeof(array_) / sizeof((array_)[0])))

static struct {
    matrix_group_t group; /* what was given; 0, NULL or -1: all */
    uint64_t group_seed;
    bool given_seed;
    bool quick;
    bool slow; /* all grids, more cases */
} options;

/* Prints the options. */
static void usage(void)
{
    int i;

    printf("Usage: test_allreduce [OPTION]...\n"
           "  --quick           few cases\n"
           "  --long            every grid, many cases\n"
           "  --seed N          of the random cases; 0 takes the clock (default 1)\n"
           "  --group-seed N    of one group, as a failure prints it\n"
           "  --algo NAME       only this one:");
    for (i = 0; i < matrix_algo_count; ++i) {
        printf(" %s", matrix_algos[i].name);
    }
    printf("\n"
           "  --ranks N         1 to 64\n"
           "  --grid BxT        blocks and threads a block\n"
           "  --scratch BYTES   scratch of each rank\n"
           "  --cases N         cases a group\n"
           "  --case N          only this case\n"
           "  --dtype NAME      only this type\n"
           "  --op NAME         only this operation\n"
           "  --timeout S       seconds for one call (default 60)\n"
           "  --verbose         prints every case\n");
}

/* Reads a number of an option, or exits. */
static long number(const char *name, const char *text, long min, long max)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < min || value > max) {
        fprintf(stderr, "--%s: '%s' is not allowed; use %ld to %ld\n", name, text, min, max);
        exit(2);
    }
    return value;
}

/* Reads a grid such as 2x4, or exits. */
static void parse_grid(const char *text)
{
    char rest;

    if (sscanf(text, "%dx%d%c", &options.group.blocks, &options.group.threads, &rest) != 2 ||
        options.group.blocks < 1 || options.group.threads < 1) {
        fprintf(stderr, "--grid: '%s' is not allowed; use BLOCKSxTHREADS, such as 2x4\n", text);
        exit(2);
    }
}

/* Exits if an option names what does not exist. */
static int find_name(const char *option, const char *text, int index)
{
    if (index < 0) {
        fprintf(stderr, "--%s: there is no '%s'\n", option, text);
        exit(2);
    }
    return index;
}

/* Reads the command line, or exits. */
static void parse(int argc, char **argv)
{
    static const struct option table[] = {
        {"quick", 0, NULL, 'q'},   {"long", 0, NULL, 'l'},  {"seed", 1, NULL, 's'},    {"group-seed", 1, NULL, 'g'},
        {"algo", 1, NULL, 'a'},    {"ranks", 1, NULL, 'r'}, {"grid", 1, NULL, 'b'},    {"scratch", 1, NULL, 'm'},
        {"cases", 1, NULL, 'n'},   {"case", 1, NULL, 'c'},  {"dtype", 1, NULL, 'd'},   {"op", 1, NULL, 'o'},
        {"timeout", 1, NULL, 't'}, {"help", 0, NULL, 'h'},  {"verbose", 0, NULL, 'v'}, {NULL, 0, NULL, 0},
    };
    int option, i, found = -1;

    options.group.only_case = options.group.dtype = options.group.op = -1;
    options.group.seed = 1;
    options.group.timeout = 60;
    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (option) {
        case 'q':
            options.quick = true;
            break;
        case 'l':
            options.slow = true;
            break;
        case 's':
            options.group.seed = strtoull(optarg, NULL, 10);
            break;
        case 'g':
            options.given_seed = true;
            options.group_seed = strtoull(optarg, NULL, 10);
            break;
        case 'a':
            for (i = 0; i < matrix_algo_count; ++i) {
                found = strcmp(matrix_algos[i].name, optarg) == 0 ? i : found;
            }
            options.group.algo = &matrix_algos[find_name("algo", optarg, found)];
            break;
        case 'r':
            options.group.ranks = (int)number("ranks", optarg, 1, 64);
            break;
        case 'b':
            parse_grid(optarg);
            break;
        case 'm':
            options.group.scratch_size = (size_t)number("scratch", optarg, 1 << 20, 1 << 30);
            break;
        case 'n':
            options.group.cases = (int)number("cases", optarg, 1, 1000000);
            break;
        case 'c':
            options.group.only_case = (int)number("case", optarg, 0, 1000000);
            break;
        case 'd':
            options.group.dtype = find_name("dtype", optarg, element_find(optarg));
            break;
        case 'o':
            options.group.op = find_name("op", optarg, element_find_op(optarg));
            break;
        case 't':
            options.group.timeout = (double)number("timeout", optarg, 1, 100000);
            break;
        case 'v':
            options.group.verbose = true;
            break;
        case 'h':
            usage();
            exit(0);
        default:
            usage();
            exit(2);
        }
    }
}

/* Names the group that hangs, because a call's deadline has failed or a wait has no deadline. */
static const matrix_group_t *current;

/* At the alarm: prints what runs, so that it can be repeated. */
static void hung(int signal_number)
{
    char text[256];
    int length =
        snprintf(text, sizeof(text), "FAIL hung: %s, %d ranks, grid %dx%d, group seed %llu\n", current->algo->name,
                 current->ranks, current->blocks, current->threads, (unsigned long long)current->seed);

    (void)signal_number;
    if (write(STDERR_FILENO, text, (size_t)length) < 0) {
        _exit(3);
    }
    _exit(1);
}

static int run_of(const matrix_algo_t *algo, int ranks, int blocks, int threads, size_t scratch_size, int cases,
                  int dtype, int op)
{
    matrix_group_t group = options.group;
    uint64_t place =
        (uint64_t)((algo - matrix_algos) * 64 + ranks) << 32 | (uint64_t)(blocks << 16) | (uint64_t)threads;

    group.dtype = dtype;
    group.op = op;
    group.algo = algo;
    group.ranks = ranks;
    group.blocks = blocks;
    group.threads = threads;
    group.scratch_size = options.group.scratch_size != 0 ? options.group.scratch_size : scratch_size;
    group.cases = options.group.cases != 0 ? options.group.cases : cases;
    /* A group's cases depend on the seed and the group only. The seed has 32 bits, so that a user can type it again. */
    group.seed = options.given_seed ? options.group_seed : random_mix(options.group.seed, place) & 0xffffffffu;
    current = &group;
    alarm((unsigned)group.timeout * 4 + 600);
    return matrix_run(&group);
}

static int run(const matrix_algo_t *algo, int ranks, int blocks, int threads, size_t scratch_size, int cases)
{
    return run_of(algo, ranks, blocks, threads, scratch_size, cases, options.group.dtype, options.group.op);
}

/* Runs a group for each pair of type and operation that no random case has had. */
static int run_missing(const matrix_algo_t *algo, int *groups)
{
    int dtype, op, failed = 0;

    while (failed == 0 && matrix_find_missing(algo, &dtype, &op)) {
        failed += run_of(algo, 3, 1, 3, (size_t)1 << 20, 4, dtype, op);
        ++*groups;
    }
    return failed;
}

/*
 * True if an algorithm and a number of ranks run on a grid. They run on all grids, or on the smallest and one other. If
 * tests are slow, they run on one of these two, by turns.
 */
static bool takes_grid(int algo, int ranks_index, int grid)
{
    const int other = 1 + (algo + ranks_index) % (COUNT(all_grids) - 1);
    const bool turn = (algo + ranks_index / 2) % 2 != 0;

    if (options.group.blocks != 0) {
        return grid == 0;
    }
    if (process_state_slow() && !options.slow) {
        return grid == (turn ? other : 0);
    }
    return options.slow || grid == 0 || grid == other;
}

int main(int argc, char **argv)
{
    const size_t mib = (size_t)1 << 20;
    int algo, i, grid, cases, groups = 0, failed = 0;
    double started = mscclpp_now();

    parse(argc, argv);
    if (options.group.seed == 0) {
        options.group.seed = (uint64_t)time(NULL);
    }
    unit_begin();
    unit_allowed = "which cannot serve all-reduce call"; /* cases force algorithms that cannot serve them */
    signal(SIGALRM, hung);
    matrix_init();
    printf("seed %llu\n", (unsigned long long)options.group.seed);
    cases = options.slow           ? 400
            : options.quick        ? 12
            : process_state_slow() ? 4 + process_state_calls(6)
            : process_state_long() ? 60
                                   : 20;
    for (algo = 0; algo < matrix_algo_count; ++algo) {
        const matrix_algo_t *a = &matrix_algos[algo];

        if (options.group.algo != NULL && options.group.algo != a) {
            continue;
        }
        if (options.group.ranks != 0 && options.group.blocks != 0) {
            failed += run(a, options.group.ranks, options.group.blocks, options.group.threads, mib, cases);
            ++groups;
            continue;
        }
        for (i = 0; i < COUNT(all_ranks); ++i) {
            for (grid = 0; grid < COUNT(all_grids); ++grid) {
                int blocks = options.group.blocks != 0 ? options.group.blocks : all_grids[grid].blocks;
                int threads = options.group.blocks != 0 ? options.group.threads : all_grids[grid].threads;

                if (!takes_grid(algo, i, grid) || (options.group.ranks != 0 && options.group.ranks != all_ranks[i])) {
                    continue;
                }
                failed += run(a, all_ranks[i], blocks, threads, i % 2 != 0 ? mib : 2 * mib + 4096, cases);
                ++groups;
            }
        }
        if (!options.quick && (options.group.ranks == 0 || options.group.ranks == 16)) {
            failed += run(a, 16, 1, 2, mib, cases / 6);
            ++groups;
        }
        /* If tests are slow, most of the time is set-up, which differs little between algorithms. */
        if (!options.quick &&
            (options.group.ranks == 64 || (options.group.ranks == 0 && (!process_state_slow() || algo % 4 == 0)))) {
            failed += run(a, 64, 1, 1, mib, cases < 12 ? 1 : cases / 12);
            ++groups;
        }
        if (!options.quick && !process_state_slow() && options.group.ranks == 0 && options.group.dtype < 0 &&
            options.group.op < 0 && options.group.only_case < 0 && options.group.cases == 0) {
            failed += run_missing(a, &groups);
        }
    }
    __atomic_add_fetch(&unit_passed, groups - failed, __ATOMIC_RELAXED);
    __atomic_add_fetch(&unit_failed, failed, __ATOMIC_RELAXED);
    printf("%d cases in %d groups, %.1f s\n", matrix_case_count(), groups, mscclpp_now() - started);
    return unit_end();
}
