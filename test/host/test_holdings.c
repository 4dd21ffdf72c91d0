/*
 * Counts what a rank of a communicator over several nodes holds: endpoints, device memory, pinned memory, and the
 * heap's bytes, for which the linker replaces the functions of the C library, and that of the pool of device memory, by
 * those below. Also counts the all-gathers of its set-up, each of which takes as long as all ranks take to answer one
 * another.
 *
 * Usage: test_holdings [--long] [PART]...; MSCCLPP_TEST_LONG=1 and --long add larger shapes.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/gpu/pool.h"
#include "mca/common/port/internal.h"
#include "mca/common/team/parts.h"
#include "test/host/parts.h"
#include "test/host/rank_threads.h"
#include "test/host/user_buffer.h"
#include "test/unit/unit.h"

#define SCRATCH_SIZE ((size_t)512 << 10)
#define EXCHANGE_SIZE ((size_t)16 << 20)

typedef struct {
    int ranks;
    int per; /* ranks of a node */
} shape_t;

/* The most of any rank. Endpoints: after the set-up, and after a call that all nodes take part in directly. */
typedef struct {
    uint64_t endpoints;
    uint64_t all_endpoints;
    uint64_t device;
    uint64_t pinned;
    uint64_t heap;
    uint64_t gathers; /* all-gathers of the set-up */
} cost_t;

static parts_options_t options;
static mscclpp_gpu_ops_t counting;

/* Bytes that this rank has allocated; of the heap, less those that it has freed. */
static _Thread_local uint64_t device_bytes, pinned_bytes;
static _Thread_local int64_t heap_bytes;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
int __real_posix_memalign(void **memory_p, size_t alignment, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
int __wrap_posix_memalign(void **memory_p, size_t alignment, size_t size);
void __wrap_free(void *memory);
mscclpp_status_t __real_mscclpp_pool_alloc(const mscclpp_gpu_ops_t *ops, int device, mscclpp_gpu_stream_t *stream,
                                           uint64_t size, void **address_p);
mscclpp_status_t __wrap_mscclpp_pool_alloc(const mscclpp_gpu_ops_t *ops, int device, mscclpp_gpu_stream_t *stream,
                                           uint64_t size, void **address_p);

static void *count(void *memory)
{
    heap_bytes += memory != NULL ? (int64_t)malloc_usable_size(memory) : 0;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return count(__real_malloc(size));
}

void *__wrap_calloc(size_t elements, size_t size)
{
    return count(__real_calloc(elements, size));
}

void *__wrap_realloc(void *memory, size_t size)
{
    heap_bytes -= memory != NULL ? (int64_t)malloc_usable_size(memory) : 0;
    return count(__real_realloc(memory, size));
}

int __wrap_posix_memalign(void **memory_p, size_t alignment, size_t size)
{
    const int error = __real_posix_memalign(memory_p, alignment, size);

    if (error == 0) {
        (void)count(*memory_p);
    }
    return error;
}

void __wrap_free(void *memory)
{
    heap_bytes -= memory != NULL ? (int64_t)malloc_usable_size(memory) : 0;
    __real_free(memory);
}

/* The twin's device memory and pinned memory may lie in the heap, and do not count there. */
static mscclpp_status_t device_alloc(int device, size_t size, void **memory_p)
{
    const int64_t before = heap_bytes;
    const mscclpp_status_t status = mscclpp_gpu_twin_ops.device_alloc(device, size, memory_p);

    device_bytes += size;
    heap_bytes = before;
    return status;
}

/* Of the pool's allocations, which one rank makes for several, each rank counts its piece. */
mscclpp_status_t __wrap_mscclpp_pool_alloc(const mscclpp_gpu_ops_t *ops, int device, mscclpp_gpu_stream_t *stream,
                                           uint64_t size, void **address_p)
{
    const uint64_t before = device_bytes;
    const mscclpp_status_t status = __real_mscclpp_pool_alloc(ops, device, stream, size, address_p);

    device_bytes = before + size;
    return status;
}

static mscclpp_status_t host_alloc(size_t size, void **host_p, void **device_p)
{
    const int64_t before = heap_bytes;
    const mscclpp_status_t status = mscclpp_gpu_twin_ops.host_alloc(size, host_p, device_p);

    pinned_bytes += size;
    heap_bytes = before;
    return status;
}

static mscclpp_status_t host_register(void *host, size_t size, void **device_p)
{
    pinned_bytes += size;
    return mscclpp_gpu_twin_ops.host_register(host, size, device_p);
}

static void raise_to(uint64_t *most, uint64_t value)
{
    uint64_t before = __atomic_load_n(most, __ATOMIC_RELAXED);

    while (before < value &&
           !__atomic_compare_exchange_n(most, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static uint64_t count_endpoints(const mscclpp_team_t *team)
{
    uint64_t endpoints = 0;
    int node;

    for (node = 0; node < team->fabric->nodes.count; ++node) {
        endpoints += team->fabric->node[node].conn != NULL;
    }
    return endpoints;
}

/* The embedding runtime's all-gather, with a counter for this rank. */
static mscclpp_status_t (*allgather)(void *context, const void *sendbuf, void *recvbuf, size_t length);
static _Thread_local uint64_t gathers;

static mscclpp_status_t count_gather(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    ++gathers;
    return allgather(context, sendbuf, recvbuf, length);
}

/* Rounds of proxies, counted by a transport's progress. */
static mscclpp_transport_ops_t counting_transport;
static uint64_t rounds;

static mscclpp_status_t count_round(mscclpp_transport_t *transport)
{
    (void)transport;
    __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    return MSCCLPP_OK;
}

/* Between calls, the progress of a communicator over shm runs no rounds, once what calls have left is done. */
static void rest(rank_t *rank, mscclpp_team_t *team)
{
    int i;

    meet(rank);
    if (team->fabric->proxy != NULL && team->fabric->proxy->transport_count == 1) {
        team->fabric->proxy->transports[0].ops = &counting_transport;
    }
    meet(rank);
    if (rank->rank == 0) {
        mscclpp_fabric_progress_all();
        __atomic_store_n(&rounds, 0, __ATOMIC_RELAXED);
        for (i = 0; i < 10; ++i) {
            mscclpp_fabric_progress_all();
        }
        CHECK_EQ(__atomic_load_n(&rounds, __ATOMIC_RELAXED), 0);
    }
    meet(rank);
}

static void weigh_on(rank_t *rank)
{
    cost_t *cost = rank->argument;
    mscclpp_team_t *team;

    rank->gpu = &counting;
    if (rank->rank == 0) {
        allgather = rank->oob.allgather;
    }
    rank->oob.allgather = count_gather;
    meet(rank);
    gathers = 0;
    device_bytes = pinned_bytes = 0;
    heap_bytes = 0;
    team = create_team(rank);
    if (meet_any(rank, team == NULL)) {
        mscclpp_team_destroy(team);
        return;
    }
    CHECK_EQ(team->runner.layout.put_size, 0); /* no algorithm over several nodes uses the put area */
    raise_to(&cost->endpoints, count_endpoints(team));
    raise_to(&cost->gathers, gathers);
    raise_to(&cost->device, device_bytes);
    raise_to(&cost->pinned, pinned_bytes);
    raise_to(&cost->heap, (uint64_t)heap_bytes);
    if (options.scale > 1 || rank->size <= 64) {
        CHECK_EQ(mscclpp_fabric_link_all(team->fabric), MSCCLPP_OK);
        raise_to(&cost->all_endpoints, count_endpoints(team));
        mscclpp_runner_give_stream(&team->runner);
    }
    rest(rank, team);
    mscclpp_team_destroy(team);
}

static void weigh(const shape_t *shape)
{
    const uint64_t nodes = (uint64_t)((shape->ranks + shape->per - 1) / shape->per);
    mscclpp_config_t config;
    cost_t cost = {0};
    uint64_t log2 = 0;

    mscclpp_config_init(&config);
    config.scratch_size = SCRATCH_SIZE;
    config.exchange_size = EXCHANGE_SIZE;
    config.twin_blocks = 1;
    config.twin_threads = 1;
    config.timeout = options.timeout;
    config.warn_after = 0; /* on a busy machine, so many threads may be late */
    config.ucx = false;
    config.ranks_per_node = shape->per;
    config.transport = "shm";
    CHECK_EQ(run_ranks(shape->ranks, &config, weigh_on, &cost), 0);
    mscclpp_team_finalize(1.0);
    printf("%d ranks on %d nodes: %llu endpoints a rank, %llu with all nodes, %llu KiB of device memory, %llu KiB "
           "pinned, %llu bytes of the heap\n",
           shape->ranks, (int)nodes, (unsigned long long)cost.endpoints, (unsigned long long)cost.all_endpoints,
           (unsigned long long)cost.device >> 10, (unsigned long long)cost.pinned >> 10, (unsigned long long)cost.heap);
    while ((uint64_t)1 << (log2 + 1) <= nodes) {
        ++log2;
    }
    /* Of many nodes, the set-up connects the partners of recursive doubling alone. */
    CHECK(nodes <= MSCCLPP_DEV_NODES_MAPPED ? cost.endpoints == nodes - 1 : cost.endpoints <= log2 + 1);
    CHECK(cost.all_endpoints == 0 || cost.all_endpoints == nodes - 1);
    /* Five of all ranks; three of those of a node and one for its end, which are of all ranks here, too. */
    CHECK_EQ(cost.gathers, 9);
    CHECK(cost.device > 0 && cost.pinned >= config.exchange_size / 2);
    /* Lists by rank, and channels by node up to as many as there may be. */
    CHECK(cost.device <= ((uint64_t)1 << 20) + 64 * (uint64_t)shape->ranks + 2048 * nodes);
    CHECK(cost.heap <= ((uint64_t)192 << 10) + 64 * (uint64_t)shape->ranks + 24 * nodes);
}

/* The sanitizers' threads are slow, so they run the smallest shape alone. */
static void test_holdings(int scale)
{
    static const shape_t shapes[] = {{8, 4}, {32, 1}, {64, 8}};
    static const shape_t more[] = {{64, 1}, {256, 8}, {256, 1}};
    const size_t number = UNIT_SANITIZED ? 1 : sizeof(shapes) / sizeof(shapes[0]);
    size_t i;

    for (i = 0; i < number; ++i) {
        weigh(&shapes[i]);
    }
    for (i = 0; scale > 1 && i < sizeof(more) / sizeof(more[0]); ++i) {
        weigh(&more[i]);
    }
    if (scale <= 1) {
        printf("SKIP 256 ranks: set MSCCLPP_TEST_LONG=1\n");
    }
}

/* By itself, since so many threads take many descriptors and much memory. */
static void test_thousand(int scale)
{
    static const shape_t shapes[] = {{1024, 32}, {1024, 8}};
    size_t i;

    for (i = 0; scale > 1 && i < sizeof(shapes) / sizeof(shapes[0]); ++i) {
        weigh(&shapes[i]);
    }
    if (scale <= 1) {
        printf("SKIP 1,024 ranks: set MSCCLPP_TEST_LONG=1\n");
    }
}

static const part_t parts[] = {
    {"holdings", test_holdings},
    {"thousand", test_thousand},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    unit_begin();
    mscclpp_gpu_twin_set_filter(user_is_host);
    counting_transport = *mscclpp_transport_find("shm");
    counting_transport.progress = count_round;
    counting = mscclpp_gpu_twin_ops;
    counting.device_alloc = device_alloc;
    counting.host_alloc = host_alloc;
    counting.host_register = host_register;
    return parts_run(parts, argc, argv, &options) != 0 ? 2 : unit_end();
}
