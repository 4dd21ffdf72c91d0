/*
 * Lists of blocks of different sizes, with lingering kernels that are rung for by hand: lists that come with the bell,
 * for one block of the kernel or for all, or by the mailbox.
 */
#include "device/kern/linger.h"
#include "test/unit/linger_ranks.h"

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
    uint32_t blocks; /* the first blocks of the kernel that serve it; 0: one */
} varied_t;

/* How the lists come to a rank's kernel: by the mailbox if they come with a launch, else with the bell. */
typedef enum {
    BEFORE,      /* before the bell's other words */
    AFTER,       /* after a while, the last word first */
    LONG_BEFORE, /* the same with offsets that have no room in short lists */
    LONG_AFTER,
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

/* True if the operation is for all blocks of the kernel. */
static bool is_wide(const varied_t *call)
{
    return call->blocks > 1;
}

/* The way of a rank's lists: those for several blocks are long, whatever their offsets are. */
static way_t way_of(const varied_t *call, uint32_t rank)
{
    return (way_t)((call->number + rank) % WAYS);
}

static bool comes_after(way_t way)
{
    return way == AFTER || way == LONG_AFTER;
}

/* The lists of a rank, as offset and size of one block after the other. Offsets are from `skip` bytes before buffers.
 */
static void list(const varied_t *call, uint32_t rank, uint64_t skip, uint64_t *words)
{
    for (uint32_t i = 0; i < 2 * call->count; ++i) {
        const bool recvs = i >= call->count;
        const uint32_t peer = recvs ? i - call->count : i;

        words[2 * i] = skip + (recvs ? place_of(call, peer, true) : source_of(call, rank, peer));
        words[2 * i + 1] = recvs ? size_of(call, peer, rank) : size_of(call, rank, peer);
    }
}

/* Makes the lists short. */
static void shorten(const varied_t *call, uint64_t *words)
{
    for (uint32_t i = 0; i < 2 * call->count; ++i) {
        const uint64_t offset = words[2 * i], bytes = words[2 * i + 1];

        words[i] = bytes == 0 ? 0 : MSCCLPP_DEV_BELL_ENCODE_BLOCK(offset, bytes);
    }
}

static uint32_t encode_varied(const varied_t *call)
{
    const uint32_t kernel = combines(call) ? MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS : MSCCLPP_KERNEL_COLL_MOVE_BLOCKS;

    return MSCCLPP_DEV_BELL_ENCODE(kernel, MSCCLPP_DTYPE_UINT8, call->op, is_wide(call) ? BLOCKS : 1,
                                   MSCCLPP_DEV_RELEASE_DEVICE, 0);
}

/* Rings for the operation on one rank. If its lists come after the bell, leaves their words to the caller. */
static void ring_varied(rank_t *own, const varied_t *call, uint32_t rank, uint64_t *words, uint32_t *count)
{
    const way_t way = way_of(call, rank);
    const bool is_far = way == LONG_BEFORE || way == LONG_AFTER, is_long = is_far || is_wide(call);
    const uint64_t skip = is_far ? NO_ROOM : 0;
    const uintptr_t out = (uintptr_t)own->out + own->misalign,
                    in = (call->in_place ? out : (uintptr_t)own->in + own->misalign) - skip,
                    start = combines(call) ? out : out - skip; /* a result begins where the output does */
    const uint64_t payloads[MSCCLPP_DEV_BELL_WORDS] = {
        (uint32_t)in,
        in >> 32,
        (uint32_t)start,
        start >> 32,
        call->most,
        encode_varied(call) | (is_long ? MSCCLPP_DEV_BELL_LONG_LISTS : MSCCLPP_DEV_BELL_LISTS),
        MSCCLPP_DEV_BELL_ENCODE_COLL(call->pattern, call->root, call->in_place, 0)};

    list(call, rank, skip, words);
    if (!is_long) {
        shorten(call, words);
    }
    *count = (is_long ? 4 : 2) * call->count;
    if (!comes_after(way)) {
        ring_words(own, call->number, words, MSCCLPP_DEV_BELL_LIST, *count);
    }
    ring_words(own, call->number, payloads, 0, MSCCLPP_DEV_BELL_WORDS);
}

/* Launches a kernel on each rank that begins with the operation, whose lists are in the mailbox. */
static void start_varied(rank_t *ranks, const varied_t *call, uint32_t threads, bool cluster)
{
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        rank_t *own = &ranks[rank];
        mscclpp_dev_linger_args_t *args = &own->args;

        fill_args(ranks, (int)call->count, (int)rank, call->number);
        args->common.in = call->in_place ? args->common.out : args->common.in;
        args->common.bytes = call->most;
        args->common.dtype = MSCCLPP_DTYPE_UINT8;
        args->common.op = (uint32_t)call->op;
        args->code = encode_varied(call);
        args->coll = MSCCLPP_DEV_BELL_ENCODE_COLL(call->pattern, call->root, call->in_place, 0);
        args->cluster = cluster;
        list(call, rank, 0, own->mailbox.lists);
        launch(own, threads);
    }
}

/* Writes a rank's input, and what its output holds before the operation. */
static void fill_varied(rank_t *own, const varied_t *call, uint32_t rank)
{
    for (uint32_t i = 0; i < BUFFER_BYTES; ++i) {
        own->in[own->misalign + i] = (char)operand(call->number, (int)rank, i);
    }
    memset(own->out, GUARD, sizeof(own->out));
    if (call->in_place) {
        memcpy(own->out + own->misalign, own->in + own->misalign, BUFFER_BYTES);
    }
}

/* Waits until the blocks that the operation is for have ended it on all ranks, and checks all outputs. */
static void check_varied(const rank_t *ranks, const varied_t *call)
{
    uint32_t wrong = 0;

    for (uint32_t rank = 0; rank < call->count; ++rank) {
        CHECK(reaches(&ranks[rank].mailbox.ended[0], call->number));
        CHECK(!is_wide(call) || reaches(&ranks[rank].mailbox.ended[1], call->number));
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
 * Executes an operation on all ranks. The lists come to each rank in another way, and no rank ends the operation while
 * it has no lists.
 */
static void execute(rank_t *ranks, const varied_t *call)
{
    uint64_t words[RANKS_MAX][4 * RANKS_MAX];
    uint32_t counts[RANKS_MAX];

    for (uint32_t rank = 0; rank < call->count; ++rank) {
        fill_varied(&ranks[rank], call, rank);
    }
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        ring_varied(&ranks[rank], call, rank, words[rank], &counts[rank]);
    }
    nanosleep(&(const struct timespec){0, 200000}, NULL);
    for (uint32_t rank = 0; rank < call->count; ++rank) {
        if (comes_after(way_of(call, rank))) {
            CHECK(__atomic_load_n(&ranks[rank].mailbox.ended[0], __ATOMIC_ACQUIRE) < call->number);
            ring_words(&ranks[rank], call->number, words[rank], MSCCLPP_DEV_BELL_LIST, counts[rank]);
        }
    }
    check_varied(ranks, call);
}

/*
 * Operations with blocks of different sizes, brief and not, after one another and after others. With these threads,
 * blocks of up to 64 bytes are brief if the lists come with the bell. Beyond 32 bytes with 2 ranks, and beyond 16 with
 * more, a thread has several units. The last threads of 3 ranks send nothing.
 */
static void test_blocks(int count, uint64_t first, uint32_t misalign)
{
    static const varied_t calls[] = {
        {MSCCLPP_DEV_ALLTOALL, 16, false, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_ALLGATHER, 32, false, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_REDUCE_SCATTER, 16, false, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_ALLTOALL, 16, true, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_GATHER, 15, false, MSCCLPP_OP_SUM, 0, 0, 1, 1},
        {MSCCLPP_DEV_SCATTER, 16, false, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_REDUCE_SCATTER, 32, true, MSCCLPP_OP_MAX, 0, 0, 0, 1},
        {MSCCLPP_DEV_ALLGATHER, 9, true, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_ALLTOALL, 50, false, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_REDUCE_SCATTER, 16, true, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_SCATTER, 32, false, MSCCLPP_OP_SUM, 0, 0, 1, 1},
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

/*
 * Operations with lists for all blocks of the kernel, after one another and between others, whose words then lie in the
 * relay. The second kernels have the numbers of the first ones, 2^32 later. Kernels begin with such an operation.
 */
static void test_wide_blocks(int count, uint32_t misalign, bool cluster)
{
    static const varied_t calls[] = {
        {MSCCLPP_DEV_ALLTOALL, PITCH - 4, false, MSCCLPP_OP_SUM, 0, 0, 0, BLOCKS},
        {MSCCLPP_DEV_ALLGATHER, 16, true, MSCCLPP_OP_SUM, 0, 0, 0, 1},
        {MSCCLPP_DEV_REDUCE_SCATTER, PITCH - 4, false, MSCCLPP_OP_SUM, 0, 0, 0, BLOCKS},
        {MSCCLPP_DEV_ALLTOALL, 50, true, MSCCLPP_OP_SUM, 0, 0, 0, BLOCKS},
        {MSCCLPP_DEV_SCATTER, PITCH - 4, false, MSCCLPP_OP_SUM, 0, 0, 1, BLOCKS},
        {MSCCLPP_DEV_REDUCE_SCATTER, PITCH - 4, true, MSCCLPP_OP_MAX, 0, 0, 0, BLOCKS},
        {MSCCLPP_DEV_GATHER, 33, false, MSCCLPP_OP_SUM, 0, 0, 1, BLOCKS},
        {MSCCLPP_DEV_ALLGATHER, PITCH - 4, false, MSCCLPP_OP_SUM, 0, 0, 0, BLOCKS},
    };
    static const operation_t wide = {BRIEF_BYTES, BLOCKS, MSCCLPP_DTYPE_UINT8, MSCCLPP_OP_MAX};
    const uint32_t kinds = sizeof(calls) / sizeof(calls[0]), rings = 4 * kinds;
    const uint64_t firsts[] = {1, UINT64_C(0x100000001)};
    rank_t *ranks = open_ranks(count, firsts[0], misalign);
    uint32_t epochs = 0;

    for (uint32_t kernel = 0; kernel < 2; ++kernel) {
        uint64_t number = firsts[kernel];

        for (int rank = 0; rank < count; ++rank) {
            begin_at(&ranks[rank], number);
        }
        for (uint32_t i = 0; i <= rings; ++i, ++number) {
            varied_t call = calls[(i + 3 * kernel + i / kinds) % kinds];

            call.number = number;
            call.count = (uint32_t)count;
            if (i == 0) {
                call.blocks = BLOCKS;
                for (int rank = 0; rank < count; ++rank) {
                    fill_varied(&ranks[rank], &call, (uint32_t)rank);
                }
                start_varied(ranks, &call, count > THREADS ? RANKS_MAX : THREADS, cluster);
                check_varied(ranks, &call);
            } else if (i % 7 == 5) {
                fill(ranks, count, number);
                ring(ranks, count, number, &wide);
                check_results(ranks, count, number, &wide);
            } else {
                execute(ranks, &call);
            }
        }
        dismiss(ranks, count, firsts[kernel], number - 1, epochs);
        epochs += rings + 1;
    }
    free_ranks(ranks, count);
}

/* Two blocks of a kernel, and the words that the first one has for an operation. */
typedef struct {
    mscclpp_dev_linger_block_t blocks[2];
    mscclpp_dev_state_t state;
    uint32_t cluster;
    uint32_t relays; /* how often the first block has relayed its lists */
} pair_t;

/* Lets the first block relay its lists. Called when the other block waits. */
static void relay_lists(void *context)
{
    pair_t *pair = context;
    mscclpp_dev_ctx_t ctx = {
        .nthreads = 1, .nblocks = 2, .cluster = pair->cluster, .block_size = sizeof(pair->blocks[0])};

    mscclpp_dev_linger_relay_lists(&ctx, &pair->blocks[0]);
    ++pair->relays;
}

/*
 * The other block takes the lists of two operations, the first of which is number `first`. The relay is cleared at
 * first. At the second operation, it still has the words of the first one.
 */
static void test_old_words(uint32_t cluster, uint64_t first)
{
    enum { RANKS = 3 };
    pair_t *pair = calloc(1, sizeof(*pair));
    mscclpp_dev_ctx_t ctx = {.nthreads = 1, .block = 1, .nblocks = 2, .cluster = cluster, .patience = 1};

    REQUIRE(pair != NULL);
    pair->cluster = cluster;
    ctx.progress = relay_lists;
    ctx.progress_context = pair;
    for (uint32_t operation = 1; operation <= 2; ++operation) {
        for (int block = 0; block < 2; ++block) {
            pair->blocks[block].args.launches = first - 1 + UINT64_C(5) * (operation - 1);
            pair->blocks[block].args.nranks = RANKS;
            pair->blocks[block].args.state = &pair->state;
            pair->blocks[block].words[MSCCLPP_DEV_BELL_CODE] = MSCCLPP_DEV_BELL_LONG_LISTS;
        }
        for (uint32_t i = 0; i < 4 * RANKS; ++i) {
            pair->blocks[0].words[MSCCLPP_DEV_BELL_LIST + i] = 1000 * operation + i;
        }
        mscclpp_dev_linger_take_lists(ctx, &pair->blocks[1]);
        CHECK_EQ(pair->relays, operation);
        for (uint32_t i = 0; i < 2 * RANKS; ++i) {
            const mscclpp_dev_blocks_args_t *taken = &pair->blocks[1].blocks;
            const mscclpp_dev_block_t block = i < RANKS ? taken->send[i] : taken->recv[i - RANKS];

            CHECK_EQ(block.offset, 1000 * operation + 2 * i);
            CHECK_EQ(block.bytes, 1000 * operation + 2 * i + 1);
        }
    }
    free(pair);
}

int main(void)
{
    unit_begin();
    test_blocks(2, 1, 0);
    test_blocks(2, UINT64_C(0xffffffff05), 1);
    test_blocks(3, 0x80000005u, 0);
    test_blocks(4, 1, 4);
    test_blocks(5, 1, 2); /* their lists need a second line of the bell */
    test_blocks(RANKS_MAX, UINT64_C(0x1ffffff81), 3);
    for (int count = 2; count <= RANKS_MAX; ++count) {
        test_wide_blocks(count, (uint32_t)count % 5, false);
        test_wide_blocks(count, (uint32_t)count % 3, true);
    }
    for (uint32_t cluster = 1; cluster <= 2; ++cluster) {
        test_old_words(cluster, 6);
        test_old_words(cluster, UINT64_C(1) << 32); /* its low half is that of a cleared word */
    }
    return unit_end();
}
