/*
 * Conformance of transports: each one of the build, and the tests' own "late", goes through the same cases, first with
 * two threads of one process as its two ends, then with two processes.
 *
 * Usage: test_transport [--transport NAME] [--ends threads|processes] [--device host|cuda] [--case NAME,...]
 *                       [--large | --small] [--timeout SECONDS]
 * Without a GPU, cuda_ipc and bounces are tested with streams of the CPU. Parameters come from the environment
 * (MSCCLPP_<NAME>).
 * --large adds messages of 1 GiB, --small leaves those of more than 4 MiB out.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mca/common/gpu/mapping.h"
#include "test/host/copying_gpu.h"
#include "test/host/late_transport.h"
#include "test/host/process_state.h"
#include "test/host/transport_cases.h"

#define SKIPPED 77

typedef struct {
    const char *transport; /* NULL: all */
    const char *ends;      /* NULL: both */
    const char *device;
    const char *cases; /* NULL: all */
    size_t largest;    /* bytes; main has the default */
    double timeout;
} options_t;

static options_t options = {NULL, NULL, "host", NULL, 0, 60};
static const struct {
    const char *name;
    void (*run)(end_t *end);
    bool needs_processes;
    bool frees_first; /* frees memory that the peer still writes to */
} cases[] = {
    {"refusals", case_refusals, false, false},
    {"no tokens", case_no_tokens, false, false},
    {"sizes", case_sizes, false, false},
    {"outstanding", case_outstanding, false, false},
    {"stream", case_stream, false, false},
    {"tokens", case_tokens, false, false},
    {"flush", case_flush, false, false},
    {"leaving", case_leaving, false, false},
    {"two_connections", case_two_connections, false, false},
    {"add", case_add, false, false},
    {"mapped", case_mapped, false, false},
    {"ranges", case_ranges, false, false},
    {"cycles", case_cycles, false, false},
    {"closed_peer", case_closed_peer, false, true},
    {"dead_peer", case_dead_peer, true, true},
};
#define CASES ((int)(sizeof(cases) / sizeof(cases[0])))

static bool is_chosen(const char *name)
{
    const char *list = options.cases;
    size_t length;

    for (; list != NULL && *list != '\0'; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (length == strlen(name) && strncmp(list, name, length) == 0) {
            return true;
        }
    }
    return list == NULL;
}

/* True if all names in the list are names of cases. */
static bool are_cases(const char *list)
{
    int names = 1, found = 0, i;

    for (i = 0; list[i] != '\0'; ++i) {
        names += list[i] == ',';
    }
    options.cases = list;
    for (i = 0; i < CASES; ++i) {
        found += is_chosen(cases[i].name);
    }
    return found == names;
}

/* One run. */
typedef struct {
    const mscclpp_transport_ops_t *ops;
    int sockets[2];
    bool processes;
    bool skipped;
    bool held; /* some case was */
} run_t;

typedef struct {
    run_t *run;
    int rank;
} side_t;

/* Why a case cannot run with these ends; NULL if it can. */
static const char *why_not(const end_t *end, int i)
{
    if (!end->alone && cases[i].needs_processes) {
        return "it ends a process";
    }
    if (!end->alone && cases[i].frees_first && (end->flags & MSCCLPP_LENT_REGIONS) != 0) {
        return "within one process this transport writes where the peer's memory lies";
    }
    if (cases[i].frees_first && !cases[i].needs_processes && strcmp(end->ops->name, "ucx") == 0 &&
        (end->flags & MSCCLPP_WHOLE_WORDS) == 0 && access("/sys/class/infiniband", F_OK) != 0) {
        return "UCX puts by itself, and without an RDMA device where a region once was";
    }
    return NULL;
}

static void *run_end(void *argument)
{
    const side_t *side = argument;
    mscclpp_config_t config;
    int i, devices = 0;
    end_t end;

    mscclpp_config_init(&config);
    memset(&end, 0, sizeof(end));
    end.ops = side->run->ops;
    end.rank = side->rank;
    end.socket = side->run->sockets[side->rank];
    end.alone = side->run->processes;
    end.largest = end.ops == &late_transport ? MIB : options.largest;
    end.timeout = options.timeout;
    end.config = &config;
    if (mscclpp_config_from_environment(&config) != MSCCLPP_OK ||
        mscclpp_gpu_open(options.device, &end.gpu) != MSCCLPP_OK || end.gpu->probe(&devices) != MSCCLPP_OK) {
        end_die(&end, "wrong parameter, or no device");
    }
    end.device = end.rank % devices;
    if ((strcmp(end.ops->name, "cuda_ipc") == 0 || strcmp(config.verbs_registration, "bounce") == 0) &&
        end.gpu == &mscclpp_gpu_twin_ops) {
        end.gpu = copying_gpu();
    }
    if (end_open(&end) != MSCCLPP_OK) {
        if (end.rank == 0) {
            printf("  skipped: %s cannot be used here\n", end.ops->name);
        }
        __atomic_store_n(&side->run->skipped, true, __ATOMIC_RELAXED);
        return NULL;
    }
    for (i = 0; i < CASES; ++i) {
        const char *reason = why_not(&end, i);

        if (!is_chosen(cases[i].name)) {
            continue;
        }
        if (reason != NULL && end.rank == 0) {
            printf("  %-16s left out: %s\n", cases[i].name, reason);
        }
        if (reason == NULL) {
            const double started = end_now();

            __atomic_store_n(&side->run->held, true, __ATOMIC_RELAXED);
            cases[i].run(&end);
            if (end.rank == 0) {
                printf("  %-16s %6.2f s\n", cases[i].name, end_now() - started);
            }
        }
    }
    end_close(&end);
    return NULL;
}

/* Runs in a child process, so that no transport is set up when the next one forks. */
static int run_ends(run_t *run, int rank)
{
    side_t sides[2] = {{run, 0}, {run, 1}};
    pthread_t threads[2];
    int i, left;

    setvbuf(stdout, NULL, _IOLBF, 0);
    end_watch_log();
    if (run->processes) {
        close(run->sockets[1 - rank]);
        run_end(&sides[rank]);
    } else {
        for (i = 0; i < 2; ++i) {
            if (pthread_create(&threads[i], NULL, run_end, &sides[i]) != 0) {
                perror("pthread_create");
                return 1;
            }
        }
        for (i = 0; i < 2; ++i) {
            pthread_join(threads[i], NULL);
        }
    }
    if (run->skipped) {
        return SKIPPED;
    }
    left = mscclpp_mapping_drain();
    if (left != 0) {
        fprintf(stderr, "FAIL %s: %d mappings are left\n", run->ops->name, left);
    }
    if (end_result(run->processes ? rank == 0 ? "rank 0" : "rank 1" : "both ranks") != 0 || left != 0) {
        return 1;
    }
    return run->held ? 0 : SKIPPED;
}

static int join(pid_t pid)
{
    int status = 0;

    if (waitpid(pid, &status, 0) != pid) {
        perror("waitpid");
        return 1;
    }
    if (WIFSIGNALED(status)) {
        printf("  a process died of signal %d\n", WTERMSIG(status));
        return 1;
    }
    return WEXITSTATUS(status);
}

/* 0, 1 or SKIPPED. */
static int run_transport(const mscclpp_transport_ops_t *ops, bool processes)
{
    run_t run = {ops, {-1, -1}, processes, false, false};
    int rank, results[2] = {0, 0};
    pid_t pids[2];

    printf("%s, ends are %s\n", ops->name, processes ? "processes" : "threads");
    fflush(NULL);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, run.sockets) != 0) {
        perror("socketpair");
        return 1;
    }
    for (rank = 0; rank < (processes ? 2 : 1); ++rank) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            int result = run_ends(&run, rank);

            fflush(NULL);
            exit(result);
        }
    }
    close(run.sockets[0]);
    close(run.sockets[1]);
    for (rank = 0; rank < (processes ? 2 : 1); ++rank) {
        results[rank] = join(pids[rank]);
    }
    if (results[0] == SKIPPED || results[1] == SKIPPED) {
        return SKIPPED;
    }
    return results[0] != 0 || results[1] != 0;
}

/* Runs two processes with some environment variables, a list that ends with NULL. Returns 0, 1 or SKIPPED. */
static int run_with(const mscclpp_transport_ops_t *ops, const char *what, const char *const (*variables)[2],
                    const char *chosen)
{
    const char *const before = options.cases;
    int i, result;

    for (i = 0; variables[i][0] != NULL; ++i) {
        setenv(variables[i][0], variables[i][1], 1);
    }
    options.cases = chosen;
    printf("%s: ", what);
    result = run_transport(ops, true);
    options.cases = before;
    for (i = 0; variables[i][0] != NULL; ++i) {
        unsetenv(variables[i][0]);
    }
    return result;
}

/* Sockets that take little at once, so that sometimes only the end of a message has still to leave. */
static const char *const small_sockets[][2] = {
    {"UCX_TLS", "tcp"}, {"UCX_TCP_SNDBUF", "4k"}, {"UCX_TCP_RCVBUF", "4k"}, {NULL, NULL}};

/* UCX puts by itself, as it does with RDMA devices. */
static const char *const direct[][2] = {{"MSCCLPP_UCX_BOUNCE", "device"}, {NULL, NULL}};

static void count(int result, int *ran, int *failed, int *skipped)
{
    *ran += result == 0;
    *skipped += result == SKIPPED;
    *failed += result != 0 && result != SKIPPED;
}

/* Transport number `i` of those to test; NULL behind the last one. */
static const mscclpp_transport_ops_t *candidate(int i)
{
    return i < mscclpp_transport_count ? mscclpp_transports[i] : i == mscclpp_transport_count ? &late_transport : NULL;
}

static bool is_known(const char *name)
{
    int i;

    for (i = 0; candidate(i) != NULL && strcmp(candidate(i)->name, name) != 0; ++i) {
    }
    return candidate(i) != NULL;
}

static bool read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"transport", required_argument, NULL, 't'}, {"ends", required_argument, NULL, 'e'},
        {"device", required_argument, NULL, 'd'},    {"case", required_argument, NULL, 'c'},
        {"large", no_argument, NULL, 'l'},           {"small", no_argument, NULL, 'm'},
        {"timeout", required_argument, NULL, 's'},   {NULL, 0, NULL, 0}};
    bool right = true;
    int option;

    while (right && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 't':
            options.transport = optarg;
            right = is_known(optarg);
            break;
        case 'e':
            options.ends = optarg;
            right = strcmp(optarg, "threads") == 0 || strcmp(optarg, "processes") == 0;
            break;
        case 'd':
            options.device = optarg;
            break;
        case 'c':
            right = are_cases(optarg);
            break;
        case 'l':
            options.largest = 1024 * MIB;
            break;
        case 'm':
            options.largest = 4 * MIB;
            break;
        case 's':
            options.timeout = strtod(optarg, NULL);
            right = options.timeout > 0;
            break;
        default:
            right = false;
        }
        if (!right && option != '?') {
            fprintf(stderr, "test_transport: \"%s\" is not allowed for this option of this build\n", optarg);
        }
    }
    return right && optind == argc;
}

int main(int argc, char **argv)
{
    int i, processes, ran = 0, failed = 0, skipped = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    options.largest = (process_state_slow() ? 4 : 64) * MIB;
    if (!read_options(argc, argv)) {
        return 2;
    }
    for (i = 0; candidate(i) != NULL; ++i) {
        if (options.transport != NULL && strcmp(options.transport, candidate(i)->name) != 0) {
            continue;
        }
        for (processes = 0; processes < 2; ++processes) {
            if (options.ends != NULL && (strcmp(options.ends, "processes") == 0) != processes) {
                continue;
            }
            if (processes && options.ends == NULL && process_state_tsan()) {
                printf("%s, ends are processes: skipped: ThreadSanitizer finds nothing between processes\n",
                       candidate(i)->name);
                ++skipped;
                continue;
            }
            count(run_transport(candidate(i), processes), &ran, &failed, &skipped);
        }
        if (strcmp(candidate(i)->name, "ucx") != 0 || options.ends != NULL || options.cases != NULL) {
            continue;
        }
        if (getenv("UCX_TLS") == NULL) {
            count(run_with(candidate(i), "small sockets", small_sockets, "leaving"), &ran, &failed, &skipped);
        }
        if (getenv("MSCCLPP_UCX_BOUNCE") == NULL) {
            count(run_with(candidate(i), "puts by UCX itself", direct, NULL), &ran, &failed, &skipped);
        }
    }
    printf("%d passed, %d failed, %d skipped\n", ran, failed, skipped);
    return failed > 0 ? 1 : ran > 0 ? 0 : SKIPPED;
}
