#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "mca/common/engine/memory.h"
#include "mca/common/gpu/pool.h"
#include "test/unit/unit.h"

#define KIB ((uint64_t)1024)
#define PIECE (160 * KIB + 512)
#define PIECES 1000
#define THREADS 4

/* The twin's runtime, which also counts the bytes that are allocated. */
static mscclpp_gpu_ops_t ops;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t held, most;
static int allocations;
static bool fails;

static struct {
    void *address;
    uint64_t size;
} known[PIECES];

static mscclpp_status_t count_alloc(int device, size_t size, void **address_p)
{
    mscclpp_status_t status =
        fails ? MSCCLPP_ERR_NO_MEMORY : mscclpp_gpu_twin_ops.device_alloc(device, size, address_p);
    int i = 0;

    if (status != MSCCLPP_OK) {
        return status;
    }
    pthread_mutex_lock(&lock);
    while (known[i].address != NULL) {
        ++i;
    }
    known[i].address = *address_p;
    known[i].size = size;
    held += size;
    most = held > most ? held : most;
    ++allocations;
    pthread_mutex_unlock(&lock);
    return MSCCLPP_OK;
}

static void count_free(int device, void *address)
{
    int i = 0;

    pthread_mutex_lock(&lock);
    while (i < PIECES - 1 && known[i].address != address) {
        ++i;
    }
    CHECK(known[i].address == address);
    held -= known[i].size;
    known[i].address = NULL;
    --allocations;
    pthread_mutex_unlock(&lock);
    mscclpp_gpu_twin_ops.device_free(device, address);
}

static void reset(void)
{
    ops = mscclpp_gpu_twin_ops;
    ops.device_alloc = count_alloc;
    ops.device_free = count_free;
    most = held;
    fails = false;
}

static bool is_zero(const char *piece, uint64_t size)
{
    for (uint64_t i = 0; i < size; ++i) {
        if (piece[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The scratch of a thousand communicators takes little more than its bytes, in few allocations, and all goes back. */
static void many_pieces_take_few_allocations(void)
{
    static char *piece[PIECES];

    reset();
    for (int i = 0; i < PIECES; ++i) {
        REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, PIECE, (void **)&piece[i]) == MSCCLPP_OK);
        CHECK_EQ((uintptr_t)piece[i] % 512, 0);
        piece[i][0] = piece[i][PIECE - 1] = (char)(1 + i % 100);
    }
    CHECK(held <= PIECES * PIECE + 5120 * KIB);
    CHECK(allocations <= PIECES / 10);
    for (int i = 0; i < PIECES; ++i) {
        CHECK_EQ(piece[i][0], 1 + i % 100); /* no two overlap */
        CHECK_EQ(piece[i][PIECE - 1], 1 + i % 100);
    }
    for (int i = 0; i < PIECES; ++i) {
        mscclpp_pool_free(&ops, 0, piece[(i * 7 + 3) % PIECES]);
    }
    CHECK_EQ(held, 0);
}

/* Kernels read words and units from pieces of any size, so each piece is as aligned as an allocation of its own. */
static void pieces_of_odd_sizes_are_aligned(void)
{
    static const uint64_t sizes[] = {1, 132, 513, 1000};
    char *piece[2];

    reset();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        for (int k = 0; k < 2; ++k) {
            REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, sizes[i], (void **)&piece[k]) == MSCCLPP_OK);
        }
        CHECK_EQ((piece[1] - piece[0]) % 512, 0);
        for (int k = 0; k < 2; ++k) {
            mscclpp_pool_free(&ops, 0, piece[k]);
        }
    }
    CHECK_EQ(held, 0);
}

/* One communicator takes less than 1 MiB. */
static void a_single_piece_is_cheap(void)
{
    void *piece;

    reset();
    REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, PIECE, &piece) == MSCCLPP_OK);
    CHECK(held <= 1024 * KIB);
    mscclpp_pool_free(&ops, 0, piece);
    mscclpp_pool_free(&ops, 0, NULL);
    CHECK_EQ(held, 0);
}

static void a_piece_that_is_used_again_is_zero(void)
{
    mscclpp_gpu_stream_t *stream;
    char *first, *second, *again;

    reset();
    REQUIRE(ops.stream_create(0, &stream) == MSCCLPP_OK);
    REQUIRE(mscclpp_pool_alloc(&ops, 0, stream, PIECE, (void **)&first) == MSCCLPP_OK);
    REQUIRE(mscclpp_pool_alloc(&ops, 0, stream, PIECE, (void **)&second) == MSCCLPP_OK);
    CHECK(is_zero(first, PIECE) && is_zero(second, PIECE));
    memset(first, 1, PIECE);
    memset(second, 2, PIECE);
    mscclpp_pool_free(&ops, 0, first);
    REQUIRE(mscclpp_pool_alloc(&ops, 0, stream, PIECE, (void **)&again) == MSCCLPP_OK);
    CHECK(again == first);
    CHECK(is_zero(again, PIECE));
    CHECK_EQ(second[0], 2);
    CHECK_EQ(second[PIECE - 1], 2);
    mscclpp_pool_free(&ops, 0, again);
    mscclpp_pool_free(&ops, 0, second);
    ops.stream_destroy(stream);
    CHECK_EQ(held, 0);
}

/* Sizes and runtimes do not share allocations; what is large has one of its own. */
static void allocations_hold_pieces_of_one_kind(void)
{
    mscclpp_gpu_ops_t others;
    void *small, *other, *large, *theirs;

    reset();
    others = ops;
    REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, 4 * KIB, &small) == MSCCLPP_OK);
    REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, PIECE, &other) == MSCCLPP_OK);
    REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, 3000 * KIB, &large) == MSCCLPP_OK);
    REQUIRE(mscclpp_pool_alloc(&others, 0, NULL, PIECE, &theirs) == MSCCLPP_OK);
    CHECK_EQ(allocations, 4);
    mscclpp_pool_free(&ops, 0, large);
    CHECK_EQ(allocations, 3);
    mscclpp_pool_free(&others, 0, theirs);
    mscclpp_pool_free(&ops, 0, small);
    mscclpp_pool_free(&ops, 0, other);
    CHECK_EQ(held, 0);
}

static void a_shortage_is_reported_and_passes(void)
{
    void *piece;

    reset();
    fails = true;
    CHECK_EQ(mscclpp_pool_alloc(&ops, 0, NULL, PIECE, &piece), MSCCLPP_ERR_NO_MEMORY);
    fails = false;
    REQUIRE(mscclpp_pool_alloc(&ops, 0, NULL, PIECE, &piece) == MSCCLPP_OK);
    mscclpp_pool_free(&ops, 0, piece);
    CHECK_EQ(held, 0);
}

static void *use(void *context)
{
    mscclpp_gpu_stream_t *stream;
    char *piece[8];

    CHECK_EQ(ops.stream_create(0, &stream), MSCCLPP_OK);
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < 8; ++i) {
            CHECK_EQ(mscclpp_pool_alloc(&ops, 0, stream, PIECE, (void **)&piece[i]), MSCCLPP_OK);
            CHECK(is_zero(piece[i], PIECE));
            memset(piece[i], 1 + (int)(intptr_t)context, PIECE);
        }
        for (int i = 0; i < 8; ++i) {
            CHECK_EQ(piece[i][PIECE / 2], 1 + (intptr_t)context);
            mscclpp_pool_free(&ops, 0, piece[i]);
        }
    }
    ops.stream_destroy(stream);
    return NULL;
}

static void threads_use_it_at_once(void)
{
    pthread_t threads[THREADS];

    reset();
    for (int i = 0; i < THREADS; ++i) {
        REQUIRE(pthread_create(&threads[i], NULL, use, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(held, 0);
}

/* The memory of copy engines: one for all teams of a process, until a call with it fails. */
static void engines_share_memory(void)
{
    int process, other_process;
    void *first, *second, *own, *other, *smaller, *next;

    reset();
    CHECK_EQ(mscclpp_engine_memory_take(&ops, 0, &process, 4096, &first), MSCCLPP_OK);
    CHECK_EQ(mscclpp_engine_memory_take(&ops, 0, &process, 4096, &second), MSCCLPP_OK);
    CHECK(first == second && allocations == 1);
    CHECK_EQ(mscclpp_engine_memory_take(&ops, 0, NULL, 4096, &own), MSCCLPP_OK);
    CHECK_EQ(mscclpp_engine_memory_take(&ops, 0, &other_process, 4096, &other), MSCCLPP_OK);
    CHECK_EQ(mscclpp_engine_memory_take(&ops, 0, &process, 2048, &smaller), MSCCLPP_OK);
    CHECK(own != first && other != first && other != own && smaller != first && allocations == 4);
    CHECK(!mscclpp_engine_memory_is_spoiled(first) && !mscclpp_engine_memory_is_spoiled(NULL));
    mscclpp_engine_memory_spoil(first);
    CHECK(mscclpp_engine_memory_is_spoiled(first) && !mscclpp_engine_memory_is_spoiled(own));
    CHECK_EQ(mscclpp_engine_memory_take(&ops, 0, &process, 4096, &next), MSCCLPP_OK);
    CHECK(next != first && allocations == 5);
    mscclpp_engine_memory_give(&ops, 0, first);
    CHECK_EQ(allocations, 5); /* the other team still uses it */
    mscclpp_engine_memory_give(&ops, 0, second);
    mscclpp_engine_memory_give(&ops, 0, own);
    mscclpp_engine_memory_give(&ops, 0, other);
    mscclpp_engine_memory_give(&ops, 0, smaller);
    mscclpp_engine_memory_give(&ops, 0, next);
    mscclpp_engine_memory_give(&ops, 0, NULL);
    CHECK_EQ(allocations, 0);
}

int main(void)
{
    unit_begin();
    many_pieces_take_few_allocations();
    pieces_of_odd_sizes_are_aligned();
    a_single_piece_is_cheap();
    a_piece_that_is_used_again_is_zero();
    allocations_hold_pieces_of_one_kind();
    a_shortage_is_reported_and_passes();
    threads_use_it_at_once();
    engines_share_memory();
    return unit_end();
}
