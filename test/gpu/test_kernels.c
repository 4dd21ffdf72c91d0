/*
 * The CUDA kernels without MPI: threads of one process as ranks, on as many GPUs as there are, random cases of every
 * algorithm, type and operation in every kind of memory. Small enough for compute-sanitizer. Usage: test_kernels
 * [CASES [MAX_RANKS [SEED]]]. A line for each algorithm and number of ranks; where nothing moves for STANDSTILL
 * seconds, what every rank was doing, and exit status 3.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "mca/common/task/links.h"
#include "test/host/elements.h"
#include "test/host/rank_threads.h"
#include "test/host/reference.h"

#define GUARD 64u
#define MAX_BYTES ((size_t)3 << 20)
#define PATTERN 0xa5

/* Seconds for a call, after which its own message says more, and for any step, even where a tool slows all down. */
#define TIMEOUT 60
#define STANDSTILL 150

typedef enum { MEMORY_DEVICE, MEMORY_POOL, MEMORY_PINNED, MEMORY_HOST, MEMORY_KINDS } memory_t;

typedef struct {
    int cases;
    uint64_t seed;
    int devices;
    const void *operands[RANKS_MAX]; /* on the host, of the case in hand */
} plan_t;

/* One kind of memory of a rank, large enough for a buffer with its guards. */
typedef struct {
    char *base[MEMORY_KINDS];
    mscclpp_gpu_stream_t *stream;
    int device;
} memories_t;

static const mscclpp_gpu_ops_t *gpu;
static int passed;

/* Where the ranks are; atomic. The watch thread looks at it. */
static const char *running; /* the algorithm */
static int running_ranks;
static unsigned steps; /* of all ranks */
static struct {
    const char *step;
    int index; /* of the case; -1: of none */
} positions[RANKS_MAX];

static void enter(const rank_t *rank, const char *step, int index)
{
    __atomic_store_n(&positions[rank->rank].step, step, __ATOMIC_RELAXED);
    __atomic_store_n(&positions[rank->rank].index, index, __ATOMIC_RELAXED);
    __atomic_add_fetch(&steps, 1, __ATOMIC_RELAXED);
}

/* Ends the program if no rank goes on: waits inside the driver have no deadline of their own. */
static void *watch(void *argument)
{
    unsigned seen = 0;
    int still, rank;

    (void)argument;
    for (still = 0; still < STANDSTILL; ++still) {
        const unsigned now = __atomic_load_n(&steps, __ATOMIC_RELAXED);

        if (now != seen) {
            seen = now;
            still = 0;
        }
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    fprintf(stderr, "FAIL %s, %d ranks: nothing has moved for %d s\n", __atomic_load_n(&running, __ATOMIC_RELAXED),
            __atomic_load_n(&running_ranks, __ATOMIC_RELAXED), STANDSTILL);
    for (rank = 0; rank < __atomic_load_n(&running_ranks, __ATOMIC_RELAXED); ++rank) {
        fprintf(stderr, "rank %d: %s, case %d\n", rank, __atomic_load_n(&positions[rank].step, __ATOMIC_RELAXED),
                __atomic_load_n(&positions[rank].index, __ATOMIC_RELAXED));
    }
    _exit(3);
}

static size_t room(void)
{
    return MAX_BYTES + 2 * GUARD + 16;
}

static void must(mscclpp_status_t status, const char *what)
{
    if (status != MSCCLPP_OK) {
        fprintf(stderr, "%s: %s\n", what, mscclpp_status_string(status));
        exit(1);
    }
}

static void memories_create(memories_t *memories, int device)
{
    void *address, *mapped;

    memories->device = device;
    must(gpu->stream_create(device, &memories->stream), "stream");
    must(gpu->device_alloc(device, room(), &address), "device memory");
    memories->base[MEMORY_DEVICE] = address;
    must(gpu->temp_alloc(memories->stream, room(), &address), "pool memory");
    memories->base[MEMORY_POOL] = address;
    must(gpu->host_alloc(room(), &address, &mapped), "pinned memory");
    memories->base[MEMORY_PINNED] = address;
    memories->base[MEMORY_HOST] = malloc(room());
    must(gpu->stream_sync(memories->stream), "stream");
}

static void memories_destroy(memories_t *memories)
{
    gpu->device_free(memories->device, memories->base[MEMORY_DEVICE]);
    gpu->temp_free(memories->stream, memories->base[MEMORY_POOL]);
    gpu->host_free(memories->base[MEMORY_PINNED]);
    free(memories->base[MEMORY_HOST]);
    gpu->stream_destroy(memories->stream);
}

static void copy(memories_t *memories, void *to, const void *from, size_t size)
{
    must(gpu->copy(memories->stream, to, from, size), "copy");
    must(gpu->stream_sync(memories->stream), "copy");
}

/* What is wrong with a result that was copied to the host with its guards; NULL: nothing. */
static const char *judge(mscclpp_dtype_t dtype, mscclpp_op_t op, int nranks, const unsigned char *area,
                         const unsigned char *expected, uint64_t count, size_t bytes)
{
    const size_t extent = element_of(dtype)->extent;
    size_t i;

    for (i = 0; i < GUARD; ++i) {
        if (area[i] != PATTERN || area[GUARD + bytes + i] != PATTERN) {
            return "guard";
        }
    }
    for (i = 0; i < bytes; ++i) {
        if (!element_has_byte(dtype, i % extent) && area[GUARD + i] != PATTERN) {
            return "padding";
        }
    }
    for (i = 0; i < count; ++i) {
        unsigned char got[16], want[16];
        const size_t size = element_span(dtype, 1);

        memset(got, 0, sizeof(got));
        memset(want, 0, sizeof(want));
        memcpy(got, area + GUARD + i * extent, size);
        memcpy(want, expected + i * extent, size);
        if (!reference_agrees(dtype, op, nranks, got, want)) {
            return "value";
        }
    }
    return NULL;
}

static void run_case(rank_t *rank, mscclpp_team_t *team, memories_t *memories, int index)
{
    plan_t *plan = rank->argument;
    uint64_t all = random_mix(plan->seed, (uint64_t)index), mine = random_mix(all, (uint64_t)rank->rank + 1), count;
    const bool in_place = random_below(&all, 3) == 0, plain = random_below(&all, 2) == 0;
    memory_t in_kind = MEMORY_DEVICE, out_kind = MEMORY_DEVICE;
    unsigned in_offset = 0, out_offset = 0;
    mscclpp_allreduce_args_t args = {.early = false};
    unsigned char *host = malloc(room()), *area = malloc(room()), *expected = malloc(room());
    mscclpp_status_t status;
    const char *wrong;
    char *in, *out;
    size_t bytes;
    int dtype, op;

    do {
        dtype = (int)random_below(&all, MSCCLPP_DTYPE_LAST);
        op = (int)random_below(&all, MSCCLPP_OP_LAST);
    } while (!mscclpp_dev_supports((mscclpp_dtype_t)dtype, (mscclpp_op_t)op, false));
    count = random_below(&all, 4) == 0 ? random_below(&all, MAX_BYTES / 16) : random_below(&all, 2000);
    count += 1;
    bytes = element_span((mscclpp_dtype_t)dtype, count);
    if (!plain) {
        in_kind = (memory_t)random_below(&mine, MEMORY_KINDS);
        out_kind = (memory_t)random_below(&mine, MEMORY_KINDS);
        in_offset = (unsigned)random_below(&mine, 16);
        out_offset = (unsigned)random_below(&mine, 16);
    }
    enter(rank, "copies of operands", index);
    memset(host, PATTERN, room());
    elements_fill((mscclpp_dtype_t)dtype, (mscclpp_op_t)op, rank->size, mine, host, count);
    plan->operands[rank->rank] = host;
    memset(area, PATTERN, room());
    out = memories->base[out_kind] + GUARD + out_offset;
    copy(memories, out - GUARD, area, bytes + 2 * GUARD);
    in = in_place ? out : memories->base[in_kind] + GUARD + in_offset;
    if (!in_place && in_kind == out_kind) {
        in_kind = (memory_t)((out_kind + 1) % MEMORY_KINDS);
        in = memories->base[in_kind] + GUARD + in_offset;
    }
    copy(memories, in, host, bytes);
    args.sendbuf = in;
    args.recvbuf = out;
    args.count = count;
    args.dtype = (mscclpp_dtype_t)dtype;
    args.op = (mscclpp_op_t)op;
    args.call = (uint64_t)index + 1;
    enter(rank, "all-reduce", index);
    status = mscclpp_allreduce(team, &args);
    enter(rank, "meeting after the all-reduce", index);
    meet(rank); /* all operands are there */
    enter(rank, "check of the result", index);
    memset(expected, 0, bytes);
    reference_reduce(args.dtype, args.op, plan->operands, rank->size, 0, count, expected);
    copy(memories, area, out - GUARD, bytes + 2 * GUARD);
    wrong = status != MSCCLPP_OK ? mscclpp_status_string(status)
                                 : judge(args.dtype, args.op, rank->size, area, expected, count, bytes);
    if (wrong == NULL) {
        __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
    } else {
        ++rank->failures;
        fprintf(stderr,
                "FAIL rank %d of %d, case %d, seed %llu, %s %s: %s x %llu, op %s, in place %d, kinds %d %d, offsets %u "
                "%u\n",
                rank->rank, rank->size, index, (unsigned long long)plan->seed, mscclpp_team_last_algorithm(team), wrong,
                element_of(args.dtype)->name, (unsigned long long)count, element_op_name(args.op), in_place, in_kind,
                out_kind, in_offset, out_offset);
    }
    enter(rank, "meeting after the case", index);
    meet(rank);
    free(host);
    free(area);
    free(expected);
}

/* Puts and gets over memory channels, from and to device memory. */
static void run_ring(rank_t *rank, mscclpp_team_t *team, memories_t *memories)
{
    const size_t bytes = 100003;
    unsigned char *host = malloc(room());
    double seconds;
    int get;

    for (get = 0; get < 2; ++get) {
        const int source = (rank->rank + (get ? 1 : rank->size - 1)) % rank->size;
        mscclpp_status_t status;

        enter(rank, get ? "ring of gets" : "ring of puts", -1);
        memset(host, rank->rank + 1, bytes);
        copy(memories, memories->base[MEMORY_DEVICE], host, bytes);
        status = mscclpp_links_try(team, memories->base[MEMORY_DEVICE], memories->base[MEMORY_POOL], bytes, 10, get,
                                   &seconds);
        copy(memories, host, memories->base[MEMORY_POOL], bytes);
        if (status == MSCCLPP_OK && host[0] == source + 1 && memcmp(host, host + 1, bytes - 1) == 0) {
            __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
        } else {
            ++rank->failures;
            fprintf(stderr, "FAIL rank %d of %d: ring, get %d: %s, got %d\n", rank->rank, rank->size, get,
                    mscclpp_status_string(status), host[0]);
        }
    }
    free(host);
}

static void body(rank_t *rank)
{
    plan_t *plan = rank->argument;
    memories_t memories;
    mscclpp_team_t *team;
    int index;

    rank->gpu = gpu;
    rank->device = rank->rank % plan->devices;
    enter(rank, "creation of the team", -1);
    team = create_team(rank);
    if (team == NULL) {
        return;
    }
    if (strcmp(rank->config->packet, "ll128") == 0 && rank->size > 1 && !mscclpp_team_keeps_lines(team)) {
        ++rank->failures;
        fprintf(stderr, "FAIL rank %d of %d: no LL128 on these links\n", rank->rank, rank->size);
    }
    enter(rank, "allocation of memory", -1);
    memories_create(&memories, rank->device);
    for (index = 0; index < plan->cases && !mscclpp_team_broken(team); ++index) {
        run_case(rank, team, &memories, index);
    }
    run_ring(rank, team, &memories);
    enter(rank, "end of the team", -1);
    mscclpp_team_destroy(team);
    meet(rank);
    enter(rank, "release of memory", -1);
    memories_destroy(&memories);
}

/* All cases of one algorithm with that many ranks. */
static int run_group(int size, const mscclpp_config_t *config, plan_t *plan)
{
    struct timespec begin, end;
    int failures, rank;

    for (rank = 0; rank < size; ++rank) {
        __atomic_store_n(&positions[rank].step, "start", __ATOMIC_RELAXED);
        __atomic_store_n(&positions[rank].index, -1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&running, config->algorithm, __ATOMIC_RELAXED);
    __atomic_store_n(&running_ranks, size, __ATOMIC_RELAXED);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    failures = run_ranks(size, config, body, plan);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%s, packets %s, %d ranks: %d failed (%.1f s)\n", config->algorithm, config->packet, size, failures,
           (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    return failures;
}

static int number(int argc, char **argv, int index, int otherwise)
{
    return argc > index ? atoi(argv[index]) : otherwise;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *algorithm;
        const char *packet;
        size_t scratch_size;
    } groups[] = {
        {"auto", "ll8", (size_t)16 << 20},        {"oneshot", "auto", (size_t)16 << 20},
        {"twophase", "ll16", (size_t)16 << 20},   {"twophase", "ll128", (size_t)16 << 20},
        {"twophase", "ll128", (size_t)1 << 20},   {"oneshot_put", "auto", (size_t)16 << 20},
        {"oneshot_put", "auto", (size_t)1 << 20}, {"zerocopy", "auto", (size_t)16 << 20},
        {"scratch", "auto", (size_t)1 << 20},     {"engines", "auto", (size_t)16 << 20},
    };
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    const int max_ranks = number(argc, argv, 2, 8);
    mscclpp_config_t config;
    pthread_t watcher;
    plan_t plan;
    int failures = 0, group, size;

    /* Ranks of one process must not share a hardware queue, or their kernels run in turn. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    if (mscclpp_gpu_open("auto", &gpu) != MSCCLPP_OK || gpu->probe(&plan.devices) != MSCCLPP_OK) {
        printf("skipped: no GPU here\n");
        return 77;
    }
    plan.cases = number(argc, argv, 1, 60);
    plan.seed = (uint64_t)number(argc, argv, 3, 1);
    mscclpp_config_init(&config);
    config.timeout = TIMEOUT;
    config.shared_gpu = "kernels";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pthread_create(&watcher, NULL, watch, NULL) != 0) {
        perror("pthread_create");
        return 1;
    }
    pthread_detach(watcher);
    for (group = 0; group < (int)(sizeof(groups) / sizeof(groups[0])); ++group) {
        config.algorithm = groups[group].algorithm;
        config.engine_chunk = 128 << 10;
        config.packet = groups[group].packet;
        config.scratch_size = groups[group].scratch_size;
        for (size = 0; size < 6 && sizes[size] <= max_ranks; ++size) {
            failures += run_group(sizes[size], &config, &plan);
        }
    }
    mscclpp_team_finalize(1.0);
    printf("%d passed, %d failed (%s, %d devices)\n", passed, failures, gpu->name, plan.devices);
    return failures != 0;
}
