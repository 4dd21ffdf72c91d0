/*
 * Lingering kernels that are rung for by hand: what they leave behind for the next kernel of their team, brief
 * operations of several ranks among others, and lists of blocks that come with the bell or by the mailbox.
 */
#include "device/launch/launch.h"
#include "device/types/linger.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/unit/unit.h"

/* One rank's device, with a kernel driven by hand. */
typedef struct {
    mscclpp_dev_twin_queue_t *queue;
    mscclpp_dev_state_t state;
    mscclpp_dev_mailbox_t mailbox;
    mscclpp_dev_linger_args_t args;
    uint32_t epochs;
    int32_t in[64];
    int32_t out[64];
} bench_t;

static bool reaches(const uint64_t *word, uint64_t value)
{
    const struct timespec pause = {0, 100000};
    int i;

    for (i = 0; i < 50000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; ++i) {
        nanosleep(&pause, NULL);
    }
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

/* A kernel of two blocks serves operation `number`, is rung for the next one if `rung` is set, and leaves. */
static void serve(bench_t *bench, uint64_t number, bool rung)
{
    const mscclpp_dev_launch_t launch = {MSCCLPP_KERNEL_LINGER, 2, 1, &bench->args};
    const uint64_t payloads[MSCCLPP_DEV_BELL_WORDS] = {
        /* that of COLL is 0 */
        (uint32_t)(uintptr_t)bench->in, (uintptr_t)bench->in >> 32, (uint32_t)(uintptr_t)bench->out,
        (uintptr_t)bench->out >> 32,    sizeof(bench->in),          bench->args.code,
    };
    int i;

    bench->args.number = number;
    CHECK_EQ(mscclpp_dev_twin_launch(bench->queue, &launch), 0);
    CHECK(reaches(&bench->mailbox.ended[0], number) && reaches(&bench->mailbox.ended[1], number));
    for (i = 0; i < 64; ++i) {
        bench->in[i] = (int32_t)((uint32_t)number + (uint32_t)i);
    }
    for (i = 0; rung && i < MSCCLPP_DEV_BELL_WORDS; ++i) {
        __atomic_store_n(&bench->mailbox.bell[i], (number + 1) << 32 | payloads[i], __ATOMIC_RELEASE);
    }
    CHECK(reaches(&bench->mailbox.ended[0], number + rung));
    CHECK(reaches(&bench->mailbox.ended[1], number + rung));
    CHECK(!rung || memcmp(bench->in, bench->out, sizeof(bench->in)) == 0);
    __atomic_store_n(&bench->mailbox.bell[MSCCLPP_DEV_BELL_LEAVE], number, __ATOMIC_RELAXED);
    CHECK(reaches(&bench->mailbox.left, number));
    for (i = 0; i < MSCCLPP_DEV_MAX_BLOCKS; ++i) {
        CHECK_EQ(bench->state.progress[i].launches, number + rung);
        CHECK_EQ(bench->state.progress[i].epoch, bench->epochs + 1 + rung);
    }
    bench->epochs += 1 + (uint32_t)rung;
}

/* So many operations have ended. */
static void skip_to(bench_t *bench, uint64_t launches)
{
    int i;

    for (i = 0; i < MSCCLPP_DEV_MAX_BLOCKS; ++i) {
        bench->state.progress[i].launches = launches;
    }
    bench->mailbox.ended[0] = bench->mailbox.ended[1] = launches;
}

/* Two kernels of one team, whose first operations have these numbers, with others in between that did not linger. */
static void serve_both(uint64_t first, uint64_t next, bool rung, bool cluster)
{
    bench_t *bench = calloc(1, sizeof(*bench));

    CHECK_EQ(mscclpp_dev_twin_queue_create(&bench->queue), 0);
    bench->args.common.in = bench->in;
    bench->args.common.out = bench->out;
    bench->args.common.bytes = sizeof(bench->in);
    bench->args.common.dtype = MSCCLPP_DTYPE_INT32;
    bench->args.common.op = MSCCLPP_OP_SUM;
    bench->args.common.nranks = 1;
    bench->args.common.packet_half = 1 << 16;
    bench->args.common.oneshot_capacity = MSCCLPP_DEV_ONESHOT_CAPACITY(1 << 16, 1);
    bench->args.common.timeout_ns = UINT64_C(3000000000);
    bench->args.common.state = &bench->state;
    bench->args.common.mailbox = &bench->mailbox;
    bench->args.cluster = cluster;
    bench->args.window_ns = bench->args.idle_ns = UINT64_C(2000000000);
    bench->args.code = MSCCLPP_DEV_BELL_ENCODE(MSCCLPP_KERNEL_ALLREDUCE_ONESHOT, MSCCLPP_DTYPE_INT32, MSCCLPP_OP_SUM, 2,
                                               MSCCLPP_DEV_RELEASE_DEVICE, 0);
    skip_to(bench, first - 1);
    serve(bench, first, rung);
    /* What was launched in between did not linger. */
    if (next > first) {
        skip_to(bench, next + 1);
        serve(bench, next + 2, true);
    }
    mscclpp_dev_twin_queue_destroy(bench->queue);
    free(bench);
}

/* None of the numbers ends a period. Kernels of a team that has been at work for long meet old words in the relay, or
 * none, in any distance of numbers. */
static void test_wraps(void)
{
    static const uint64_t numbers[] = {1,           0x7ffffff0u,           0x80000005u,
                                       0xfffffff0u, UINT64_C(0x100000005), UINT64_C(0x17ffffff4)};
    size_t first, next;

    for (first = 0; first < sizeof(numbers) / sizeof(numbers[0]); ++first) {
        for (next = first; next < sizeof(numbers) / sizeof(numbers[0]); ++next) {
            serve_both(numbers[first], numbers[next], (next - first) % 2 == 0, false);
            serve_both(numbers[first], numbers[next], (next - first) % 2 == 0, true);
        }
    }
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

static void start(rank_t *ranks, int count, uint32_t threads, uint64_t number, const operation_t *operation)
{
    const mscclpp_dev_launch_t launch = {MSCCLPP_KERNEL_LINGER, BLOCKS, threads, NULL};

    for (int rank = 0; rank < count; ++rank) {
        rank_t *own = &ranks[rank];
        mscclpp_dev_args_t *args = &own->args.common;
        mscclpp_dev_launch_t its_launch = launch;

        args->in = own->in + own->misalign;
        args->out = own->out + own->misalign;
        args->bytes = operation->bytes;
        args->dtype = operation->dtype;
        args->op = operation->op;
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
        own->args.code = encode(operation);
        own->args.number = number;
        its_launch.args = &own->args;
        CHECK_EQ(mscclpp_dev_twin_launch(own->queue, &its_launch), 0);
    }
    for (int rank = 0; rank < count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.ended[0], number) && reaches(&ranks[rank].mailbox.ended[1], number));
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
        ranks[rank].mailbox.ended[0] = ranks[rank].mailbox.ended[1] = first - 1;
        for (int i = 0; i < MSCCLPP_DEV_MAX_BLOCKS; ++i) {
            ranks[rank].state.progress[i].launches = first - 1;
        }
    }
    return ranks;
}

/* Makes the kernels, which began with operation `first`, leave after operation `last`. Each operation took an epoch. */
static void close_ranks(rank_t *ranks, int count, uint64_t first, uint64_t last)
{
    for (int rank = 0; rank < count; ++rank) {
        __atomic_store_n(&ranks[rank].mailbox.bell[MSCCLPP_DEV_BELL_LEAVE], first, __ATOMIC_RELAXED);
    }
    for (int rank = 0; rank < count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.left, first));
        for (int i = 0; i < MSCCLPP_DEV_MAX_BLOCKS; ++i) {
            CHECK_EQ(ranks[rank].state.progress[i].launches, last);
            CHECK_EQ(ranks[rank].state.progress[i].epoch, (uint32_t)(last - first + 1));
        }
        mscclpp_dev_twin_queue_destroy(ranks[rank].queue);
        free(ranks[rank].scratch);
    }
    free(ranks);
}

/* Operations by one thread, by one block and by both, brief and not, follow one another in any order. */
static void test_brief(int count, uint64_t first, uint32_t misalign)
{
    static const operation_t operations[] = {
        {BRIEF_BYTES, BLOCKS, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
        {1, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
        {16, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_MAX},
        {17, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
        {BRIEF_BYTES + 1, BLOCKS, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
        {4, 1, MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM},
        {THREADS * 16 - 1, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_MAX},
        {THREADS * 16 + 1, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
        {THREADS * 16, 1, MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM},
        {BRIEF_BYTES - 3, BLOCKS, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_MAX},
        {BUFFER_BYTES, BLOCKS, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_MAX},
        {15, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
        {BRIEF_BYTES, BLOCKS, MSCCLPP_DTYPE_UINT32, MSCCLPP_OP_SUM},
    };
    const uint32_t kinds = sizeof(operations) / sizeof(operations[0]), rings = 3 * kinds;
    rank_t *ranks = open_ranks(count, first, misalign);
    uint64_t number = first;

    fill(ranks, count, number);
    start(ranks, count, THREADS, number, &operations[0]);
    check_results(ranks, count, number, &operations[0]);
    for (uint32_t i = 1; i <= rings; ++i) {
        const operation_t *operation = &operations[i * (i / kinds + 1) % kinds];

        ++number;
        fill(ranks, count, number);
        ring(ranks, count, number, operation);
        check_results(ranks, count, number, operation);
    }
    close_ranks(ranks, count, first, number);
}

/* An operation on blocks of different sizes. Those for each rank, or from each, lie PITCH bytes apart. */
enum { PITCH = BUFFER_BYTES / RANKS_MAX, NO_ROOM = MSCCLPP_DEV_BELL_MAX_OFFSET + 1 };
typedef struct {
    mscclpp_dev_pattern_t pattern;
    uint32_t most; /* bytes of the largest block */
    bool in_place;
    mscclpp_op_t op; /* of patterns that combine */
    uint64_t number;
    uint32_t count; /* of ranks */
    uint32_t root;
} varied_t;

/* How the lists come to a rank's kernel. */
typedef enum {
    BEFORE,     /* with the bell, before its other words */
    AFTER,      /* with the bell, after a while, the last word first */
    BY_MAILBOX, /* by the mailbox, with offsets that have no room in the bell */
    WAYS
} way_t;

static bool combines(const varied_t *call)
{
    return MSCCLPP_DEV_COMBINES(call->pattern);
}

/* The size of a block: none, all or anything in between. All contributions to one result have one size. */
static uint32_t size_of(const varied_t *call, uint32_t from, uint32_t to)
{
    const bool mirrors = call->pattern == MSCCLPP_DEV_ALLTOALL && call->in_place && from < to;
    const uint32_t sender = combines(call) ? 0 : mirrors ? to : from, receiver = mirrors ? from : to;
    const uint32_t drawn = (uint32_t)((call->number * 13 + sender * 17 +
                                       (MSCCLPP_DEV_COLL_SENDS_MANY(call->pattern) ? receiver * 29 : 0)) %
                                      (call->most + 9));

    return !MSCCLPP_DEV_COLL_SENDS(call->pattern, call->root, from, to) || drawn > call->most + 4 ? 0
           : drawn > call->most                                                                   ? call->most
                                                                                                  : drawn;
}

/* Where a block begins. In place, what goes to a rank lies where that rank's block will come to. */
static uint32_t place_of(const varied_t *call, uint32_t peer, bool in_output)
{
    const bool many = in_output || (call->in_place && !combines(call)) ? MSCCLPP_DEV_COLL_RECVS_MANY(call->pattern)
                                                                       : MSCCLPP_DEV_COLL_SENDS_MANY(call->pattern);

    return in_output && combines(call) ? 0 : (many ? peer * PITCH : 0) + (in_output || call->in_place ? 3 : 4);
}

/* The place in a rank's input of its block for another rank. An all-gather in place sends the rank's own block. */
static uint32_t source_of(const varied_t *call, uint32_t from, uint32_t to)
{
    return place_of(call, call->pattern == MSCCLPP_DEV_ALLGATHER && call->in_place ? from : to, false);
}

/* What byte `at` of a rank's output has to be. In place, the output held the input before. */
static uint8_t wanted(const varied_t *call, uint32_t rank, uint32_t at)
{
    uint8_t value = call->in_place ? operand(call->number, (int)rank, at) : GUARD;

    for (uint32_t from = 0; from < call->count; ++from) {
        const uint32_t begin = place_of(call, from, true);
        uint8_t sent;

        if (at < begin || at - begin >= size_of(call, from, rank)) {
            continue;
        }
        sent = operand(call->number, (int)from, source_of(call, from, rank) + at - begin);
        value = !combines(call) || from == 0 ? sent
                : call->op == MSCCLPP_OP_SUM ? (uint8_t)(value + sent)
                : sent > value               ? sent
                                             : value;
    }
    return value;
}

/* Writes words of a rank's bell, the last one first. */
static void ring_words(rank_t *own, uint64_t number, const uint64_t *payloads, uint32_t first, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        __atomic_store_n(&own->mailbox.bell[first + i], number << 32 | payloads[i], __ATOMIC_RELEASE);
    }
}

/* The lists of a rank, as blocks, and as words of the bell. Offsets are from `skip` bytes before the buffers. */
static void list(const varied_t *call, uint32_t rank, uint64_t skip, mscclpp_dev_block_t *blocks, uint64_t *words)
{
    for (uint32_t i = 0; i < 2 * call->count; ++i) {
        const bool recvs = i >= call->count;
        const uint32_t peer = recvs ? i - call->count : i;

        blocks[i].offset = skip + (recvs ? place_of(call, peer, true) : source_of(call, rank, peer));
        blocks[i].bytes = recvs ? size_of(call, peer, rank) : size_of(call, rank, peer);
        words[i] = blocks[i].bytes == 0 ? 0 : MSCCLPP_DEV_BELL_ENCODE_BLOCK(blocks[i].offset, blocks[i].bytes);
    }
}

/* Rings for the operation on one rank. If its lists come AFTER, leaves them to its caller, in `words`. */
static void ring_varied(rank_t *own, const varied_t *call, uint32_t rank, way_t way, uint64_t *words)
{
    const uint64_t skip = way == BY_MAILBOX ? NO_ROOM : 0;
    const uintptr_t out = (uintptr_t)own->out + own->misalign,
                    in = (call->in_place ? out : (uintptr_t)own->in + own->misalign) - skip,
                    start = combines(call) ? out : out - skip; /* a result begins where the output does */
    const uint32_t kernel = combines(call) ? MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS : MSCCLPP_KERNEL_COLL_MOVE_BLOCKS,
                   code = MSCCLPP_DEV_BELL_ENCODE(kernel, MSCCLPP_DTYPE_UINT8, call->op, 1, MSCCLPP_DEV_RELEASE_DEVICE,
                                                  0) |
                          (way == BY_MAILBOX ? 0 : MSCCLPP_DEV_BELL_LISTS);
    const uint64_t payloads[MSCCLPP_DEV_BELL_WORDS] = {
        (uint32_t)in,
        in >> 32,
        (uint32_t)start,
        start >> 32,
        call->most,
        code,
        MSCCLPP_DEV_BELL_ENCODE_COLL(call->pattern, call->root, call->in_place, 0)};
    mscclpp_dev_block_t blocks[2 * RANKS_MAX];

    list(call, rank, skip, blocks, words);
    for (uint32_t i = 0; i < 2 * call->count && way == BY_MAILBOX; ++i) {
        __atomic_store_n(&own->mailbox.lists[2 * i], blocks[i].offset, __ATOMIC_RELAXED);
        __atomic_store_n(&own->mailbox.lists[2 * i + 1], blocks[i].bytes, __ATOMIC_RELAXED);
    }
    if (way == BEFORE) {
        ring_words(own, call->number, words, MSCCLPP_DEV_BELL_LIST, 2 * call->count);
    }
    ring_words(own, call->number, payloads, 0, MSCCLPP_DEV_BELL_WORDS);
}

/*
 * Executes an operation on all ranks. The lists come to each rank in another way, and no rank ends the operation while
 * it has no lists.
 */
static void execute(rank_t *ranks, const varied_t *call)
{
    uint64_t words[RANKS_MAX][2 * RANKS_MAX];
    uint32_t wrong = 0;

    for (uint32_t rank = 0; rank < call->count; ++rank) {
        rank_t *own = &ranks[rank];

        for (uint32_t i = 0; i < BUFFER_BYTES; ++i) {
            own->in[own->misalign + i] = (char)operand(call->number, (int)rank, i);
        }
        memset(own->out, GUARD, sizeof(own->out));
        if (call->in_place) {
            memcpy(own->out + own->misalign, own->in + own->misalign, BUFFER_BYTES);
        }
    }
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        ring_varied(&ranks[rank], call, rank, (way_t)((call->number + rank) % WAYS), words[rank]);
    }
    nanosleep(&(const struct timespec){0, 200000}, NULL);
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        if ((call->number + rank) % WAYS == AFTER) {
            CHECK(__atomic_load_n(&ranks[rank].mailbox.ended[0], __ATOMIC_ACQUIRE) < call->number);
            ring_words(&ranks[rank], call->number, words[rank], MSCCLPP_DEV_BELL_LIST, 2 * call->count);
        }
    }
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.ended[0], call->number));
    }
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        for (uint32_t i = 0; i < sizeof(ranks[rank].out); ++i) {
            const uint32_t at = i - ranks[rank].misalign;

            wrong += (uint8_t)ranks[rank].out[i] != (at < BUFFER_BYTES ? wanted(call, rank, at) : GUARD);
        }
    }
    CHECK_EQ(wrong, 0);
}

/*
 * Operations with blocks of different sizes, brief and not, after one another and after others. With these threads,
 * blocks of up to 64 bytes are brief if the lists come with the bell. Beyond 32 bytes with 2 ranks, and beyond 16 with
 * more, a thread has several units. The last threads of 3 ranks send nothing.
 */
static void test_blocks(int count, uint64_t first, uint32_t misalign)
{
    static const varied_t calls[] = {
        {MSCCLPP_DEV_ALLTOALL, 16, false, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_ALLGATHER, 32, false, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_REDUCE_SCATTER, 16, false, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_ALLTOALL, 16, true, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_GATHER, 15, false, MSCCLPP_OP_SUM, 0, 0, 1},
        {MSCCLPP_DEV_SCATTER, 16, false, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_REDUCE_SCATTER, 32, true, MSCCLPP_OP_MAX, 0, 0, 0},
        {MSCCLPP_DEV_ALLGATHER, 9, true, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_ALLTOALL, 50, false, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_REDUCE_SCATTER, 16, true, MSCCLPP_OP_SUM, 0, 0, 0},
        {MSCCLPP_DEV_SCATTER, 32, false, MSCCLPP_OP_SUM, 0, 0, 1},
    };
    static const operation_t between = {THREADS * 16, 1, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_SUM},
                             wide = {BRIEF_BYTES, BLOCKS, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_MAX};
    const uint32_t kinds = sizeof(calls) / sizeof(calls[0]), rings = 6 * kinds;
    rank_t *ranks = open_ranks(count, first, misalign);
    uint64_t number = first;

    fill(ranks, count, number);
    start(ranks, count, count > THREADS ? RANKS_MAX : THREADS, number, &wide);
    for (uint32_t i = 1; i <= rings; ++i) {
        varied_t call = calls[i * (i / kinds + 1) % kinds];

        ++number;
        if (i % 5 == 0) {
            const operation_t *operation = i % 10 == 0 ? &between : &wide;

            fill(ranks, count, number);
            ring(ranks, count, number, operation);
            check_results(ranks, count, number, operation);
            continue;
        }
        call.number = number;
        call.count = (uint32_t)count;
        execute(ranks, &call);
    }
    close_ranks(ranks, count, first, number);
}

int main(void)
{
    unit_begin();
    test_wraps();
    test_brief(2, 1, 0);
    test_brief(2, UINT64_C(0x100000001), 1);
    test_brief(4, 0x80000005u, 4);
    test_brief(RANKS_MAX, UINT64_C(0x1ffffff81), 3);
    test_brief(3, 1, 0); /* a number of ranks without brief operations */
    test_blocks(2, 1, 0);
    test_blocks(2, UINT64_C(0xffffffff05), 1);
    test_blocks(3, 0x80000005u, 0);
    test_blocks(4, 1, 4);
    test_blocks(5, 1, 2); /* their lists need a second line of the bell */
    test_blocks(RANKS_MAX, UINT64_C(0x1ffffff81), 3);
    return unit_end();
}
