/*
 * All-reduce over several nodes whose ranks are processes: a rank is killed in the middle of its calls, and all others
 * have to end with an error within the deadline. Ranks exchange set-up data through shared memory of the test's own.
 *
 * Usage: test_nodes_faults [TRANSPORT [SLOWNESS [PLANS]]], by default ucx and then shm, 1 (how much slower than usual
 * this machine is), and all plans.
 * Parameters come from the environment (MSCCLPP_<NAME>).
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "mca/common/base/clock.h"
#include "mca/common/setup/setup.h"

#include "mca/common/fabric/fabric.h"
#include "mca/common/task/task.h"
#include "mca/common/team/team.h"
#include "mca/common/transport/transport.h"
#include "test/host/jitter.h"
#include "test/host/process_state.h"
#include "test/unit/unit.h"

#define RANKS_MAX 6
#define UCX_ABORTED 71
#define BYTES_MAX ((size_t)256 << 10)
#define COUNT 40000
#define GRACE 5.0      /* seconds behind the deadline */
#define PATIENCE 120.0 /* seconds for everything */

/* The memory that the processes share. */
typedef struct {
    unsigned arrived;
    unsigned generation;
    unsigned served[RANKS_MAX]; /* calls that have succeeded */
    int status[RANKS_MAX];      /* of the call that has failed */
    double seconds[RANKS_MAX];  /* how long the failed call took */
    char contribution[RANKS_MAX][BYTES_MAX];
} world_t;

typedef struct {
    int size;
    int ranks_per_node;
    int victim;
    const char *proxy;
    unsigned kill_after; /* microseconds of calls */
} plan_t;

static world_t *world;
static const char *transport = "ucx";
static double slowness = 1;
static double deadline = 8; /* seconds; parameter timeout */
static int world_size, world_rank;
static unsigned survivors; /* ranks that have reported an error */

static void barrier(void)
{
    const unsigned generation = __atomic_load_n(&world->generation, __ATOMIC_ACQUIRE);

    if (__atomic_add_fetch(&world->arrived, 1, __ATOMIC_ACQ_REL) == (unsigned)world_size) {
        __atomic_store_n(&world->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&world->generation, generation + 1, __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&world->generation, __ATOMIC_ACQUIRE) == generation) {
        sched_yield();
    }
}

static mscclpp_status_t allgather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    size_t at, size;
    int rank;

    (void)context;
    for (at = 0; at < length; at += size) {
        size = length - at < BYTES_MAX ? length - at : BYTES_MAX;
        memcpy(world->contribution[world_rank], (const char *)sendbuf + at, size);
        barrier();
        for (rank = 0; rank < world_size; ++rank) {
            memcpy((char *)recvbuf + (size_t)rank * length + at, world->contribution[rank], size);
        }
        barrier();
    }
    return MSCCLPP_OK;
}

static void progress(void *context)
{
    (void)context;
    mscclpp_fabric_progress_all();
    sched_yield();
}

static mscclpp_status_t check(void *context)
{
    (void)context;
    return MSCCLPP_OK;
}

static void die(int number)
{
    (void)number;
    (void)kill(getpid(), SIGKILL);
}

/* Errors are expected in this test. MSCCLPP_TEST_VERBOSE shows them. */
static void take_line(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    (void)level;
    if (getenv("MSCCLPP_TEST_VERBOSE") != NULL) {
        fprintf(stderr, "rank %d: %s\n", world_rank, line);
    }
}

/* Makes the process kill itself after some time. */
static void set_timer(double microseconds)
{
    const struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)(microseconds / 1e6), .tv_usec = (suseconds_t)fmod(microseconds, 1e6)}};

    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* The life of a rank. Its exit status says whether it came as far as it had to. */
static int run_rank(const plan_t *plan)
{
    const mscclpp_oob_t oob = {.rank = world_rank,
                               .size = world_size,
                               .label = "test",
                               .allgather = allgather,
                               .progress = progress,
                               .check = check};
    mscclpp_config_t config;
    mscclpp_team_params_t params;
    mscclpp_team_t *team;
    mscclpp_status_t status;
    int32_t *in = calloc(COUNT, sizeof(*in)), *out = calloc(COUNT, sizeof(*out));
    double started = mscclpp_now();
    unsigned call = 0;

    mscclpp_log_set(take_line, NULL, MSCCLPP_LOG_INFO);
    mscclpp_config_init(&config);
    if (mscclpp_config_from_environment(&config) != MSCCLPP_OK) {
        return 5;
    }
    config.timeout = deadline * slowness;
    config.ranks_per_node = plan->ranks_per_node;
    config.transport = transport;
    config.proxy = plan->proxy;
    memset(&params, 0, sizeof(params));
    params.config = &config;
    params.gpu = &mscclpp_gpu_twin_ops;
    params.oob = oob;
    if (in == NULL || out == NULL || mscclpp_team_create(&params, &team) != MSCCLPP_OK) {
        return 2;
    }
    if (!mscclpp_team_spans_nodes(team)) {
        return 3;
    }
    jitter_rest(strcmp(transport, "shm") == 0); /* the survivors wait for the deadline */
    do {
        mscclpp_allreduce_args_t args = {.sendbuf = in,
                                         .recvbuf = out,
                                         .count = call % 3 == 0 ? 1 : COUNT,
                                         .dtype = MSCCLPP_DTYPE_INT32,
                                         .op = MSCCLPP_OP_SUM,
                                         .call = call + 1};

        /* Not while the memory grows, in the second call: the exchanges of this test wait for ever. */
        if (call == 2 && world_rank == plan->victim) {
            set_timer(plan->kill_after * slowness);
        }
        ++call;
        in[0] = world_rank + (int)call;
        started = mscclpp_now();
        status = mscclpp_allreduce(team, &args);
        if (status == MSCCLPP_OK && out[0] != world_size * (world_size - 1) / 2 + world_size * (int)call) {
            return 4;
        }
        world->served[world_rank] = call;
    } while (status == MSCCLPP_OK);
    world->status[world_rank] = (int)status;
    world->seconds[world_rank] = mscclpp_now() - started;
    mscclpp_team_destroy(team);
    mscclpp_team_finalize(0.1);
    free(in);
    free(out);
    return 0;
}

/*
 * An assertion of UCX 1.13 fails if a peer dies while a wire-up message waits for it. This may be a control message, so
 * an abort by UCX is tolerated. Nothing else may abort. The first caller outside the C library is what aborted.
 */
static void on_abort(int number)
{
    void *frames[64];
    const int count = backtrace(frames, 64);
    int i;

    for (i = 1; i < count; ++i) {
        Dl_info info;

        if (dladdr(frames[i], &info) == 0 || info.dli_fname == NULL || strstr(info.dli_fname, "/libc.") != NULL) {
            continue;
        }
        if (strstr(info.dli_fname, "/libuc") != NULL) {
            _exit(UCX_ABORTED);
        }
        break;
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void run(const plan_t *plan)
{
    pid_t pids[RANKS_MAX];
    int rank, status;

    memset(world, 0, sizeof(*world));
    world_size = plan->size;
    fflush(NULL);
    for (rank = 0; rank < plan->size; ++rank) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            world_rank = rank;
            signal(SIGABRT, on_abort);
            alarm((unsigned)(PATIENCE * slowness)); /* the victim's own timer ends it earlier */
            _exit(run_rank(plan));
        }
    }
    for (rank = 0; rank < plan->size; ++rank) {
        CHECK_EQ(waitpid(pids[rank], &status, 0), pids[rank]);
        if (rank == plan->victim) {
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
            continue;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == UCX_ABORTED) {
            printf("skipped: rank %d of %d: UCX aborted the process when its peer was killed\n", rank, plan->size);
            continue;
        }
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(world->status[rank] != MSCCLPP_OK && world->status[rank] != MSCCLPP_ERR_NOT_SUPPORTED);
        CHECK(world->seconds[rank] < (deadline + GRACE) * slowness);
        CHECK(world->served[rank] > 0);
        ++survivors;
    }
    printf("%d ranks, %d a node, rank %d killed, %s, %s: %u calls, then errors within %.1f s\n", plan->size,
           plan->ranks_per_node, plan->victim, transport, plan->proxy, world->served[plan->victim == 0 ? 1 : 0],
           world->seconds[plan->victim == 0 ? 1 : 0]);
}

int main(int argc, char **argv)
{
    static const plan_t plans[] = {
        {2, 1, 1, "progress", 300000}, {3, 1, 0, "progress", 201000}, {3, 2, 1, "progress", 302000},
        {4, 2, 2, "thread", 403000},   {5, 2, 4, "progress", 500000},
    };
    const bool all = argc == 1;
    size_t i, count = sizeof(plans) / sizeof(plans[0]);

    unit_begin();
    transport = argc > 1 ? argv[1] : transport;
    slowness = argc > 2 ? strtod(argv[2], NULL) : slowness;
    count = argc > 3 && strtoul(argv[3], NULL, 10) < count ? strtoul(argv[3], NULL, 10) : count;
    if (argc > 4 || slowness < 1 || count == 0) {
        fprintf(stderr, "usage: test_nodes_faults [TRANSPORT [SLOWNESS [PLANS]]], the last two 1 or more\n");
        return 2;
    }
    if (mscclpp_transport_find(transport) == NULL) {
        printf("skipped: built without the transport %s\n", transport);
        return 77;
    }
    if (process_state_tsan()) {
        printf("skipped: UCX does not run under ThreadSanitizer\n");
        return 77;
    }
    world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (world == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    for (i = 0; i < count; ++i) {
        run(&plans[i]);
    }
    CHECK(survivors >= count / 2);
    /* With this transport only the deadline reveals that a peer has ended. */
    survivors = 0;
    transport = "shm";
    deadline = 3;
    for (i = 0; i < count && all; i += 2) {
        run(&plans[i]);
    }
    CHECK(!all || survivors >= count / 2);
    return unit_end();
}
