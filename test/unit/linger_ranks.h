/*
 * Ranks whose lingering kernels are driven by hand, and operations of all of them. A program includes this file once.
 */
#ifndef TEST_UNIT_LINGER_RANKS_H
#define TEST_UNIT_LINGER_RANKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/launch/launch.h"
#include "device/types/linger.h"
#include "test/unit/unit.h"

/* Waits until a word has reached `value`. Returns false after some seconds, or if the word is larger. */
static bool reaches(const uint64_t *word, uint64_t value)
{
    const struct timespec pause = {0, 100000};
    int i;

    for (i = 0; i < 50000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; ++i) {
        nanosleep(&pause, NULL);
    }
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

/* Of each rank: blocks, threads of a block, and so the most bytes of a brief operation of all of them. */
enum { BLOCKS = 2, THREADS = 4, BRIEF_BYTES = BLOCKS * THREADS * MSCCLPP_DEV_UNIT, BUFFER_BYTES = 4 * BRIEF_BYTES };
enum { RANKS_MAX = 8, PACKET_HALF = 1 << 14, GUARD = 0x5a };

/* One rank among others. Its buffers begin `misalign` bytes after an address that is a multiple of 16. */
typedef struct {
    mscclpp_dev_twin_queue_t *queue;
    mscclpp_dev_state_t state;
    mscclpp_dev_mailbox_t mailbox;
    mscclpp_dev_linger_args_t args;
    char *scratch;
    _Alignas(16) char in[BUFFER_BYTES + 16];
    _Alignas(16) char out[BUFFER_BYTES + 16];
    uint32_t misalign;
} rank_t;

/* An operation: the first blocks of the kernel sum up unsigned integers of 1 or 4 bytes, or take their maxima. */
typedef struct {
    uint32_t bytes;
    uint32_t blocks;
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
} operation_t;

static uint32_t encode(const operation_t *operation)
{
    return MSCCLPP_DEV_BELL_ENCODE(MSCCLPP_KERNEL_ALLREDUCE_ONESHOT, operation->dtype, operation->op, operation->blocks,
                                   MSCCLPP_DEV_RELEASE_DEVICE, 0);
}

/* Byte `i` of a rank's operand: small, so that sums need no carry from byte to byte. */
static uint8_t operand(uint64_t number, int rank, uint32_t i)
{
    return (uint8_t)((number * 7 + (uint64_t)rank * 5 + i * 3) % 31);
}

static void fill(rank_t *ranks, int count, uint64_t number)
{
    for (int rank = 0; rank < count; ++rank) {
        for (uint32_t i = 0; i < BUFFER_BYTES; ++i) {
            ranks[rank].in[ranks[rank].misalign + i] = (char)operand(number, rank, i);
        }
        memset(ranks[rank].out, GUARD, sizeof(ranks[rank].out));
    }
}

/* Each rank has the result, and nothing behind it or before it. Elements of 4 bytes have equal bytes' order here. */
static void check_results(const rank_t *ranks, int count, uint64_t number, const operation_t *operation)
{
    uint32_t wrong = 0;

    for (int rank = 0; rank < count; ++rank) {
        const rank_t *own = &ranks[rank];

        for (uint32_t i = 0; i < sizeof(own->out); ++i) {
            const uint32_t at = i - own->misalign;
            uint8_t wanted = GUARD;

            if (i >= own->misalign && at < operation->bytes) {
                wanted = operand(number, 0, at);
                for (int peer = 1; peer < count; ++peer) {
                    const uint8_t value = operand(number, peer, at);

                    wanted = operation->op == MSCCLPP_OP_SUM ? (uint8_t)(wanted + value)
                             : value > wanted                ? value
                                                             : wanted;
                }
            }
            wrong += (uint8_t)own->out[i] != wanted;
        }
    }
    CHECK_EQ(wrong, 0);
}

/* Rings for an operation on all ranks, the last rank first, and waits until the blocks that it is for have ended it. */
static void ring(rank_t *ranks, int count, uint64_t number, const operation_t *operation)
{
    for (int rank = count - 1; rank >= 0; --rank) {
        const uintptr_t in = (uintptr_t)ranks[rank].in + ranks[rank].misalign,
                        out = (uintptr_t)ranks[rank].out + ranks[rank].misalign;
        const uint64_t payloads[MSCCLPP_DEV_BELL_WORDS] = {(uint32_t)in, in >> 32,         (uint32_t)out,
                                                           out >> 32,    operation->bytes, encode(operation)};

        for (int i = MSCCLPP_DEV_BELL_WORDS - 1; i >= 0; --i) {
            __atomic_store_n(&ranks[rank].mailbox.bell[i], number << 32 | payloads[i], __ATOMIC_RELEASE);
        }
    }
    for (int rank = 0; rank < count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.ended[0], number));
        CHECK(operation->blocks == 1 || reaches(&ranks[rank].mailbox.ended[1], number));
    }
}

/* Fills in the arguments of a rank's kernel, except those that the first operation alone has. */
static void fill_args(rank_t *ranks, int count, int rank, uint64_t number)
{
    rank_t *own = &ranks[rank];
    mscclpp_dev_args_t *args = &own->args.common;

    args->in = own->in + own->misalign;
    args->out = own->out + own->misalign;
    args->rank = (uint32_t)rank;
    args->nranks = (uint32_t)count;
    args->packet_half = PACKET_HALF;
    args->oneshot_capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(PACKET_HALF, count);
    args->timeout_ns = UINT64_C(30000000000);
    args->state = &own->state;
    args->mailbox = &own->mailbox;
    for (int peer = 0; peer < count; ++peer) {
        args->scratch[peer] = ranks[peer].scratch;
    }
    own->args.window_ns = own->args.idle_ns = UINT64_C(20000000000);
    own->args.number = number;
}

static void launch(rank_t *own, uint32_t threads)
{
    const mscclpp_dev_launch_t kernel = {MSCCLPP_KERNEL_LINGER, BLOCKS, threads, &own->args};

    CHECK_EQ(mscclpp_dev_twin_launch(own->queue, &kernel), 0);
}

static void start(rank_t *ranks, int count, uint32_t threads, uint64_t number, const operation_t *operation)
{
    for (int rank = 0; rank < count; ++rank) {
        mscclpp_dev_linger_args_t *args = &ranks[rank].args;

        fill_args(ranks, count, rank, number);
        args->common.bytes = operation->bytes;
        args->common.dtype = operation->dtype;
        args->common.op = operation->op;
        args->code = encode(operation);
        launch(&ranks[rank], threads);
    }
    for (int rank = 0; rank < count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.ended[0], number) && reaches(&ranks[rank].mailbox.ended[1], number));
    }
}

/* Makes operation `first` the next one of a rank. */
static void begin_at(rank_t *own, uint64_t first)
{
    own->mailbox.ended[0] = own->mailbox.ended[1] = first - 1;
    for (int i = 0; i < MSCCLPP_DEV_MAX_BLOCKS; ++i) {
        own->state.progress[i].launches = first - 1;
    }
}

/* Ranks whose first operation will be number `first`. */
static rank_t *open_ranks(int count, uint64_t first, uint32_t misalign)
{
    rank_t *ranks = aligned_alloc(16, (size_t)count * sizeof(*ranks));

    REQUIRE(ranks != NULL);
    memset(ranks, 0, (size_t)count * sizeof(*ranks));
    for (int rank = 0; rank < count; ++rank) {
        CHECK_EQ(mscclpp_dev_twin_queue_create(&ranks[rank].queue), 0);
        ranks[rank].scratch = calloc(1, MSCCLPP_DEV_PACKET_OFFSET + 3 * PACKET_HALF);
        REQUIRE(ranks[rank].scratch != NULL);
        ranks[rank].misalign = misalign * (uint32_t)(rank % 3);
        begin_at(&ranks[rank], first);
    }
    return ranks;
}

/*
 * Makes the kernels, which began with operation `first`, leave after operation `last`. Each operation took an epoch,
 * and `epochs` had been taken before.
 */
static void dismiss(rank_t *ranks, int count, uint64_t first, uint64_t last, uint32_t epochs)
{
    for (int rank = 0; rank < count; ++rank) {
        __atomic_store_n(&ranks[rank].mailbox.bell[MSCCLPP_DEV_BELL_LEAVE], first, __ATOMIC_RELAXED);
    }
    for (int rank = 0; rank < count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.left, first));
        for (int i = 0; i < MSCCLPP_DEV_MAX_BLOCKS; ++i) {
            CHECK_EQ(ranks[rank].state.progress[i].launches, last);
            CHECK_EQ(ranks[rank].state.progress[i].epoch, epochs + (uint32_t)(last - first + 1));
        }
        for (int i = 0; i < MSCCLPP_DEV_BELL_SIZE; ++i) {
            CHECK_EQ(ranks[rank].state.relay[i], 0);
        }
    }
}

static void free_ranks(rank_t *ranks, int count)
{
    for (int rank = 0; rank < count; ++rank) {
        mscclpp_dev_twin_queue_destroy(ranks[rank].queue);
        free(ranks[rank].scratch);
    }
    free(ranks);
}

static void close_ranks(rank_t *ranks, int count, uint64_t first, uint64_t last)
{
    dismiss(ranks, count, first, last, 0);
    free_ranks(ranks, count);
}

#endif
