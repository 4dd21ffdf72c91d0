/*
 * Lingering kernels that are rung for by hand: what they leave behind for the next kernel of their team, and brief
 * operations of several ranks among others.
 */
#include "test/unit/linger_ranks.h"

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

int main(void)
{
    unit_begin();
    test_wraps();
    test_brief(2, 1, 0);
    test_brief(2, UINT64_C(0x100000001), 1);
    test_brief(4, 0x80000005u, 4);
    test_brief(RANKS_MAX, UINT64_C(0x1ffffff81), 3);
    test_brief(3, 1, 0); /* a number of ranks without brief operations */
    return unit_end();
}
