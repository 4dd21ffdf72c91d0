/* Triggers and their FIFO: every field to its limit, laps, several pushers, a full ring, and waits that give up. */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "device/lib/port_channel.h"
#include "mca/common/port/fifo.h"
#include "test/unit/unit.h"

#define PUSHERS 4
#define PATIENCE 15 /* seconds in which none of the pushers gets anywhere */

static mscclpp_dev_mailbox_t mailbox;
static mscclpp_dev_args_t args;

static double now(void)
{
    return (double)mscclpp_dev_now_ns() * 1e-9;
}

static void reset(double timeout)
{
    memset(&mailbox, 0, sizeof(mailbox));
    memset(&args, 0, sizeof(args));
    args.mailbox = &mailbox;
    args.timeout_ns = (uint64_t)(timeout * 1e9);
}

static mscclpp_fifo_t *create(uint64_t slots)
{
    mscclpp_fifo_t *fifo = NULL;

    REQUIRE(mscclpp_fifo_create(&mscclpp_gpu_twin_ops, 0, slots, &fifo) == MSCCLPP_OK);
    return fifo;
}

static void test_one_trigger(const mscclpp_dev_request_t *request, uint64_t parity)
{
    mscclpp_dev_trigger_t trigger = mscclpp_dev_trigger_pack(request);
    mscclpp_dev_request_t found;

    CHECK_EQ(trigger.word[1] >> 63, 0);
    trigger.word[1] |= parity;
    found = mscclpp_dev_trigger_unpack(&trigger);
    CHECK_EQ(found.type, request->type);
    CHECK_EQ(found.channel, request->channel);
    CHECK_EQ(found.to, request->to);
    CHECK_EQ(found.from, request->from);
    CHECK_EQ(found.size, request->size);
    CHECK_EQ(found.value, request->value);
}

/* Each field alone, and all at once, at every power of two that it can hold: none spills into another. */
static void test_fields(void)
{
    const mscclpp_dev_request_t zero = {0, 0, 0, 0, MSCCLPP_TRIGGER_DATA, 0};
    const uint64_t offsets[] = {0, 1, UINT64_C(0x123456789a), UINT64_C(0x7fffffffff)};
    const uint32_t sizes[] = {0, 1, 0x12345678u, 0x20000000u, MSCCLPP_DEV_TRIGGER_SIZE_MAX};
    mscclpp_dev_request_t request;
    unsigned bit, i, k, type;

    for (bit = 0; bit < 39; ++bit) {
        request = zero;
        request.to = UINT64_C(1) << bit;
        test_one_trigger(&request, 0);
        request = zero;
        request.from = UINT64_C(1) << bit;
        test_one_trigger(&request, MSCCLPP_DEV_TRIGGER_PARITY);
    }
    for (bit = 0; bit < 30; ++bit) {
        request = zero;
        request.size = UINT32_C(1) << bit;
        test_one_trigger(&request, 0);
    }
    for (bit = 0; bit < 16; ++bit) {
        request = zero;
        request.channel = UINT32_C(1) << bit;
        test_one_trigger(&request, 0);
    }
    for (bit = 0; bit < 64; ++bit) {
        request = zero;
        request.type = MSCCLPP_TRIGGER_ADD;
        request.value = UINT64_C(1) << bit;
        test_one_trigger(&request, 0);
    }
    for (type = 1; type < 8; ++type) {
        for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); ++i) {
            for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); ++k) {
                request.type = type;
                request.channel = (MSCCLPP_DEV_PORT_CHANNELS - 1) >> (i * 3);
                request.to = offsets[i];
                request.from = offsets[3 - i];
                request.size = sizes[k];
                request.value = 0;
                test_one_trigger(&request, k % 2 ? MSCCLPP_DEV_TRIGGER_PARITY : 0);
            }
        }
    }
    CHECK_EQ(sizeof(mscclpp_dev_trigger_t), 16);
    CHECK_EQ(offsets[3] + 1, MSCCLPP_DEV_PORT_REGION_MAX);
}

static mscclpp_dev_trigger_t numbered(uint32_t pusher, uint64_t number)
{
    mscclpp_dev_request_t request = {.to = number, .from = ~number & 0x7fffffffffu, .channel = pusher, .type = 7};

    return mscclpp_dev_trigger_pack(&request);
}

/* More laps than one parity bit tells apart, filled to each level. */
static void test_laps(uint64_t slots, uint64_t size)
{
    mscclpp_fifo_t *fifo = create(slots);
    uint64_t pushed = 0, popped = 0, level;
    mscclpp_dev_trigger_t trigger;
    mscclpp_dev_ctx_t ctx;

    CHECK_EQ(mscclpp_fifo_device(fifo)->size, size);
    memset(&ctx, 0, sizeof(ctx));
    reset(10);
    CHECK(!mscclpp_fifo_poll(fifo, &trigger));
    while (popped < 20 * size) {
        for (level = 1; level <= size; ++level) {
            uint64_t k;

            for (k = 0; k < level; ++k) {
                const uint64_t position =
                    mscclpp_dev_fifo_push(&ctx, &args, mscclpp_fifo_device(fifo), numbered(1, pushed), 0);

                CHECK_EQ(position, pushed++);
            }
            for (k = 0; k < level; ++k) {
                CHECK_EQ(mscclpp_fifo_position(fifo), popped);
                CHECK(mscclpp_fifo_poll(fifo, &trigger));
                CHECK_EQ(mscclpp_dev_trigger_unpack(&trigger).to, popped);
                mscclpp_fifo_pop(fifo);
                ++popped;
            }
            CHECK(!mscclpp_fifo_poll(fifo, &trigger));
        }
    }
    CHECK(!ctx.failed);
    mscclpp_fifo_destroy(fifo);
}

typedef struct {
    mscclpp_fifo_t *fifo;
    uint32_t number;
    uint64_t count;
    uint64_t *written; /* one word a trigger: what the host must see when it takes it */
    bool failed;
} pusher_t;

static void *push_all(void *argument)
{
    pusher_t *pusher = argument;
    mscclpp_dev_ctx_t ctx;
    uint64_t i;

    memset(&ctx, 0, sizeof(ctx));
    for (i = 0; i < pusher->count; ++i) {
        if (pusher->written != NULL) {
            pusher->written[i] = i + 1;
        }
        (void)mscclpp_dev_fifo_push(&ctx, &args, mscclpp_fifo_device(pusher->fifo), numbered(pusher->number, i), 2);
    }
    pusher->failed = ctx.failed;
    return NULL;
}

/* Of several pushers and a slow host: none is lost, each one's are in order, and what was written before is there. */
static void test_pushers(uint64_t size, double pause)
{
    const uint64_t count = 5000;
    mscclpp_fifo_t *fifo = create(size);
    uint64_t next[PUSHERS] = {0}, taken = 0, wrong = 0;
    double deadline, resume;
    pusher_t pushers[PUSHERS];
    pthread_t threads[PUSHERS];
    unsigned i;

    if (unit_failed > 0) {
        mscclpp_fifo_destroy(fifo); /* what is lost already would be waited for again */
        return;
    }
    reset(50);
    for (i = 0; i < PUSHERS; ++i) {
        pushers[i] = (pusher_t){fifo, i, count, calloc(count, sizeof(uint64_t)), false};
        REQUIRE(pushers[i].written != NULL);
        REQUIRE(pthread_create(&threads[i], NULL, push_all, &pushers[i]) == 0);
    }
    for (resume = now() + pause; now() < resume;) {
        sched_yield();
    }
    deadline = now() + PATIENCE;
    while (taken < PUSHERS * count && now() < deadline) {
        mscclpp_dev_trigger_t trigger;

        if (mscclpp_fifo_poll(fifo, &trigger)) {
            const mscclpp_dev_request_t request = mscclpp_dev_trigger_unpack(&trigger);
            const uint64_t number = next[request.channel % PUSHERS]++;

            wrong += request.to != number || request.from != (~number & 0x7fffffffffu) ||
                     pushers[request.channel % PUSHERS].written[number] != number + 1;
            mscclpp_fifo_pop(fifo);
            ++taken;
            deadline = now() + PATIENCE;
        } else {
            sched_yield();
        }
    }
    CHECK_EQ(taken, PUSHERS * count);
    CHECK_EQ(wrong, 0);
    if (taken < PUSHERS * count) {
        __atomic_store_n(&mailbox.abort, 1, __ATOMIC_RELAXED);
    }
    for (i = 0; i < PUSHERS; ++i) {
        pthread_join(threads[i], NULL);
        CHECK(!pushers[i].failed);
        free(pushers[i].written);
    }
    mscclpp_fifo_destroy(fifo);
}

/* Nobody takes: the pusher ends by the host's word, or by its own deadline, and says for whom it waited. */
static void test_give_up(bool by_word)
{
    mscclpp_fifo_t *fifo = create(4);
    pusher_t pusher = {fifo, 0, 6, NULL, false};
    double started = now();
    pthread_t thread;

    reset(by_word ? 50 : 0.3);
    REQUIRE(pthread_create(&thread, NULL, push_all, &pusher) == 0);
    if (by_word) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        __atomic_store_n(&mailbox.abort, 1, __ATOMIC_RELAXED);
    }
    pthread_join(thread, NULL);
    CHECK(pusher.failed);
    CHECK_EQ(mailbox.failed, 3);
    CHECK(now() - started > 0.19 && now() - started < 10);
    mscclpp_fifo_destroy(fifo);
}

/* A put of 10 GiB and a bit, from beyond 5 GiB: the pieces make up the whole, and only the last one signals. */
static void test_split(void)
{
    const uint64_t gib = UINT64_C(1) << 30, bytes = 10 * gib + 12345, from = 5 * gib + 7, to = 100 * gib + 3;
    mscclpp_dev_port_channel_t channel;
    mscclpp_fifo_t *fifo = create(32);
    uint64_t done = 0, signals = 0;
    mscclpp_dev_trigger_t trigger;
    mscclpp_dev_ctx_t ctx;

    memset(&ctx, 0, sizeof(ctx));
    memset(&channel, 0, sizeof(channel));
    reset(10);
    channel.fifo = *mscclpp_fifo_device(fifo);
    channel.number = 77;
    mscclpp_dev_port_put_with_signal(&ctx, &args, &channel, to, from, bytes);
    while (mscclpp_fifo_poll(fifo, &trigger)) {
        const mscclpp_dev_request_t request = mscclpp_dev_trigger_unpack(&trigger);

        CHECK_EQ(request.channel, 77);
        CHECK_EQ(request.from, from + done);
        CHECK_EQ(request.to, to + done);
        CHECK(request.size > 0);
        CHECK(signals == 0);
        CHECK((request.type & MSCCLPP_TRIGGER_DATA) != 0);
        signals += (request.type & MSCCLPP_TRIGGER_SIGNAL) != 0;
        done += request.size;
        mscclpp_fifo_pop(fifo);
    }
    CHECK_EQ(done, bytes);
    CHECK_EQ(signals, 1);
    mscclpp_fifo_destroy(fifo);
}

typedef struct {
    mscclpp_dev_port_channel_t channel;
    uint64_t result; /* atomic; 1: the flush has ended, 2: it failed */
} flusher_t;

static void *flush_once(void *argument)
{
    flusher_t *flusher = argument;
    mscclpp_dev_ctx_t ctx;

    memset(&ctx, 0, sizeof(ctx));
    mscclpp_dev_port_put(&ctx, &args, &flusher->channel, 0, 0, 8);
    mscclpp_dev_port_flush(&ctx, &args, &flusher->channel);
    __atomic_store_n(&flusher->result, ctx.failed ? 2 : 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A flush ends when the position of its own trigger is told, not before. */
static void test_flush_and_wait(void)
{
    uint64_t flushed = 0, inbound = 0, expected = 0;
    mscclpp_fifo_t *fifo = create(8);
    flusher_t flusher;
    mscclpp_dev_ctx_t ctx;
    pthread_t thread;

    reset(20);
    memset(&ctx, 0, sizeof(ctx));
    memset(&flusher, 0, sizeof(flusher));
    flusher.channel.fifo = *mscclpp_fifo_device(fifo);
    flusher.channel.flushed = &flushed;
    flusher.channel.inbound = &inbound;
    flusher.channel.expected = &expected;
    flusher.channel.peer = 5;
    REQUIRE(pthread_create(&thread, NULL, flush_once, &flusher) == 0);
    __atomic_store_n(&flushed, 1, __ATOMIC_RELEASE); /* the put, at position 0 */
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    CHECK_EQ(__atomic_load_n(&flusher.result, __ATOMIC_ACQUIRE), 0);
    __atomic_store_n(&flushed, 2, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK_EQ(flusher.result, 1);

    CHECK(!mscclpp_dev_port_poll(&flusher.channel));
    inbound = 3;
    CHECK(mscclpp_dev_port_poll(&flusher.channel));
    mscclpp_dev_port_wait(&ctx, &args, &flusher.channel);
    CHECK(mscclpp_dev_port_poll(&flusher.channel));
    CHECK(!mscclpp_dev_port_poll(&flusher.channel));
    CHECK_EQ(expected, 3);
    args.timeout_ns = 100000000;
    mscclpp_dev_port_wait(&ctx, &args, &flusher.channel);
    CHECK(ctx.failed);
    CHECK_EQ(expected, 3);
    CHECK_EQ(mailbox.failed, 6);
    /* Whoever has failed pushes nothing. */
    CHECK_EQ(*flusher.channel.fifo.head, 2);
    mscclpp_dev_port_signal(&ctx, &args, &flusher.channel);
    mscclpp_dev_port_flush(&ctx, &args, &flusher.channel);
    CHECK_EQ(*flusher.channel.fifo.head, 2);
    mscclpp_fifo_destroy(fifo);
}

static void count_call(void *calls)
{
    ++*(int *)calls;
}

/*
 * A kernel in an application's thread makes the calls that carry its requests out. The first turn of a wait makes one
 * if the thread has pushed since. Otherwise a wait makes one in the turn before it yields, and looks in between.
 */
static void test_pushed_is_carried_at_once(uint32_t patience, uint32_t turns)
{
    mscclpp_fifo_t *fifo = create(8);
    mscclpp_dev_ctx_t ctx;
    int calls = 0;
    uint32_t i;

    reset(PATIENCE);
    memset(&ctx, 0, sizeof(ctx));
    ctx.patience = patience;
    ctx.progress = count_call;
    ctx.progress_context = &calls;
    for (i = 1; i <= turns; ++i) {
        CHECK_EQ(calls, 0);
        mscclpp_dev_pause(&ctx);
    }
    CHECK_EQ(calls, 1);
    mscclpp_dev_pause(&ctx);
    CHECK_EQ(calls, 1);
    (void)mscclpp_dev_fifo_push(&ctx, &args, mscclpp_fifo_device(fifo), numbered(1, 0), 0);
    mscclpp_dev_pause(&ctx);
    CHECK_EQ(calls, 2);
    mscclpp_dev_pause(&ctx);
    CHECK_EQ(calls, 2);
    mscclpp_fifo_destroy(fifo);
}

int main(void)
{
    unit_begin();
    test_pushed_is_carried_at_once(4, 4);
    test_pushed_is_carried_at_once(2048, 32);
    test_fields();
    test_laps(1, 1);
    test_laps(2, 2);
    test_laps(33, 64);
    test_pushers(1, 0);
    test_pushers(2, 0);
    test_pushers(16, 1);
    test_pushers(1024, 0);
    test_give_up(true);
    test_give_up(false);
    test_split();
    test_flush_and_wait();
    mscclpp_fifo_destroy(NULL);
    return unit_end();
}
