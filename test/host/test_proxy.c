/*
 * The proxy under faults and at its limits: handlers, stop, kernels that ask for nonsense, broken and busy connections,
 * as many channels as there can be, and how little it costs when nothing is in flight.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/lib/port_channel.h"
#include "mca/common/base/log.h"
#include "mca/common/gpu/mapping.h"
#include "test/host/late_transport.h"
#include "test/host/port_rank.h"
#include "test/host/process_state.h"

/* Seconds within which a failure must reach a kernel that waits; its own deadline is far later. */
#define SOON 5.0
#define KERNEL_TIMEOUT 60.0

static int passed;
static int provoked; /* not 0: the test provokes errors, so a logged line is no failure */
static int lines;    /* logged lines that the test has not provoked */

static void print(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    if (__atomic_load_n(&provoked, __ATOMIC_ACQUIRE) == 0) {
        fprintf(stderr, "FAIL level %d: %s\n", (int)level, line);
        __atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED);
    }
}

static void check(rank_t *rank, bool ok, const char *what)
{
    if (ok) {
        __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
        return;
    }
    ++rank->failures;
    fprintf(stderr, "FAIL rank %d of %d: %s, proxy=%s, transport %s\n", rank->rank, rank->size, what,
            rank->config->proxy, (const char *)((const mscclpp_transport_ops_t *)rank->argument)->name);
}

static void provoke(rank_t *rank, bool on)
{
    meet(rank);
    __atomic_store_n(&provoked, on, __ATOMIC_RELEASE);
    meet(rank);
}

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void pause_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(long)seconds) * 1e9)};

    nanosleep(&time, NULL);
}

/* A word that a kernel or the proxy may be writing. */
static uint64_t word(const uint64_t *address)
{
    return __atomic_load_n(address, __ATOMIC_RELAXED);
}

/* A kernel's thread runs in this thread, and makes the proxy progress while it waits. */
static void kernel_progress(void *context)
{
    (void)mscclpp_proxy_progress(((port_rank_t *)context)->proxy);
}

static void kernel_begin(port_rank_t *port, mscclpp_dev_ctx_t *ctx, mscclpp_dev_args_t *args, double timeout)
{
    memset(ctx, 0, sizeof(*ctx));
    memset(args, 0, sizeof(*args));
    ctx->nthreads = ctx->nblocks = 1;
    ctx->patience = 1; /* pauses call the progress function one turn before they yield */
    ctx->progress = kernel_progress;
    ctx->progress_context = port;
    args->mailbox = port->mailbox;
    args->timeout_ns = (uint64_t)(timeout * 1e9);
}

/* Makes the proxy progress until `is_so` is true. False if that takes longer than SOON. */
static bool soon(port_rank_t *port, bool (*is_so)(port_rank_t *port, const void *argument), const void *argument)
{
    const double deadline = port_rank_now() + SOON;

    while (!is_so(port, argument)) {
        (void)mscclpp_proxy_progress(port->proxy);
        sched_yield();
        if (port_rank_now() > deadline) {
            return false;
        }
    }
    return true;
}

static bool drained(port_rank_t *port, const void *argument)
{
    (void)argument;
    return mscclpp_proxy_drain(port->proxy) == MSCCLPP_OK;
}

static bool failed_as(port_rank_t *port, const void *argument)
{
    return mscclpp_proxy_progress(port->proxy) == *(const mscclpp_status_t *)argument;
}

static bool kernel_ended(port_rank_t *port, const void *argument)
{
    (void)argument;
    return port_rank_is_idle(port);
}

typedef struct {
    mscclpp_dev_request_t last;
    uint64_t calls;
    uint64_t busy;           /* calls for each request that return MSCCLPP_IN_PROGRESS */
    uint64_t turns;          /* such calls for the current request so far */
    uint64_t fails_at;       /* the call that fails */
    mscclpp_status_t status; /* the status of that call */
} handler_t;

static mscclpp_status_t handle(void *context, const mscclpp_dev_request_t *request)
{
    handler_t *handler = context;

    if (handler->turns < handler->busy) {
        ++handler->turns;
        return MSCCLPP_IN_PROGRESS;
    }
    handler->turns = 0;
    handler->last = *request;
    return ++handler->calls == handler->fails_at ? handler->status : MSCCLPP_OK;
}

/* Triggers reach the handler whole and in order, again as often as it asks. A flush ends when the handler has them. */
static void test_handler(rank_t *rank)
{
    const mscclpp_transport_ops_t *ops = rank->argument;
    mscclpp_port_params_t params = {.peer = 0};
    mscclpp_dev_port_channel_t channel;
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    handler_t handler;
    port_rank_t port;

    memset(&handler, 0, sizeof(handler));
    handler.busy = 3;
    port_rank_open(&port, rank, ops, 4096);
    kernel_begin(&port, &ctx, &args, SOON);
    check(rank, mscclpp_proxy_channel_create(port.proxy, &params, &channel) == MSCCLPP_OK, "channel without transport");
    check(rank, mscclpp_proxy_set_handler(port.proxy, channel.number, handle, &handler) == MSCCLPP_OK, "handler");
    mscclpp_proxy_begin(port.proxy);
    mscclpp_dev_port_put(&ctx, &args, &channel, UINT64_C(0x7ffffffffe), UINT64_C(0x6eeeeeeeee), 0x1fffffff);
    mscclpp_dev_port_flush(&ctx, &args, &channel);
    check(rank, !ctx.failed && handler.calls == 2, "flush of a handler");
    mscclpp_dev_port_add(&ctx, &args, &channel, 24, UINT64_C(0xfedcba9876543210));
    mscclpp_proxy_end(port.proxy);
    check(rank, soon(&port, drained, NULL), "drain");
    check(rank, handler.calls == 3 && handler.last.value == UINT64_C(0xfedcba9876543210) && handler.last.to == 24,
          "request of a handler");
    mscclpp_proxy_channel_destroy(port.proxy, channel.number);
    provoke(rank, true);
    check(rank, mscclpp_proxy_set_handler(port.proxy, channel.number, handle, &handler) == MSCCLPP_ERR_INVALID,
          "handler of no channel");
    provoke(rank, false);
    port_rank_close(&port);
}

/* A trigger for a destroyed channel does not reach a new channel with the same number, and is no failure. */
static void test_left_behind(rank_t *rank)
{
    const mscclpp_port_params_t params = {.peer = 0};
    mscclpp_dev_port_channel_t first, second;
    handler_t handlers[2] = {{.busy = 0}, {.busy = 0}};
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    port_rank_t port;

    port_rank_open(&port, rank, rank->argument, 4096);
    kernel_begin(&port, &ctx, &args, SOON);
    check(rank, mscclpp_proxy_channel_create(port.proxy, &params, &first) == MSCCLPP_OK, "channel");
    check(rank, mscclpp_proxy_set_handler(port.proxy, first.number, handle, &handlers[0]) == MSCCLPP_OK, "handler");
    /* Nothing is in flight for the proxy, so it does not take this trigger. */
    mscclpp_dev_port_put(&ctx, &args, &first, 1, 1, 1);
    mscclpp_proxy_channel_destroy(port.proxy, first.number);
    check(rank, mscclpp_proxy_channel_create(port.proxy, &params, &second) == MSCCLPP_OK, "channel");
    check(rank, second.number == first.number, "the number that was free");
    check(rank, mscclpp_proxy_set_handler(port.proxy, second.number, handle, &handlers[1]) == MSCCLPP_OK, "handler");
    mscclpp_dev_port_put(&ctx, &args, &second, 2, 2, 2);
    check(rank, soon(&port, drained, NULL), "drain");
    check(rank, handlers[0].calls == 0 && handlers[1].calls == 1 && handlers[1].last.to == 2, "whose triggers");
    mscclpp_dev_port_put(&ctx, &args, &second, 3, 3, 3);
    mscclpp_proxy_channel_destroy(port.proxy, second.number);
    check(rank, soon(&port, drained, NULL) && handlers[1].calls == 1, "drain without a channel");
    meet(rank);
    port_rank_close(&port);
}

static bool has_begun(port_rank_t *port, const void *argument)
{
    (void)argument;
    return late_begun(port->conns[0]) != 0;
}

/* A handler's flush does not end before operations that the transport got before there was a handler. */
static void test_handler_after_put(rank_t *rank)
{
    const mscclpp_dev_port_channel_t *channel;
    handler_t handler = {.busy = 0};
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    port_rank_t port;
    uint64_t position;
    int turn;

    port_rank_open(&port, rank, &late_transport, 4096);
    channel = &port.channels[0][0];
    kernel_begin(&port, &ctx, &args, SOON);
    late_hold(port.conns[0], true);
    mscclpp_proxy_begin(port.proxy);
    mscclpp_dev_port_put(&ctx, &args, channel, 0, 0, 64);
    check(rank, soon(&port, has_begun, NULL), "put");
    check(rank, mscclpp_proxy_set_handler(port.proxy, channel->number, handle, &handler) == MSCCLPP_OK, "handler");
    position = mscclpp_dev_port_push(&ctx, &args, channel, MSCCLPP_TRIGGER_FLUSH, 0, 0, 0);
    for (turn = 0; turn < 100; ++turn) {
        (void)mscclpp_proxy_progress(port.proxy);
        pause_for(0.0005);
    }
    check(rank, __atomic_load_n(channel->flushed, __ATOMIC_ACQUIRE) <= position, "flush while a put is under way");
    late_hold(port.conns[0], false);
    mscclpp_dev_port_wait_flushed(&ctx, &args, channel, position);
    check(rank, !ctx.failed && handler.calls == 1, "flush of the handler");
    mscclpp_proxy_end(port.proxy);
    check(rank, soon(&port, drained, NULL), "drain");
    meet(rank);
    port_rank_close(&port);
}

/* A handler that fails in the middle of a kernel: the kernel sees it at once, and so does the host. */
static void test_failing_handler(rank_t *rank)
{
    handler_t handler = {.fails_at = 1, .status = MSCCLPP_ERR_SYSTEM};
    const mscclpp_status_t wanted = MSCCLPP_ERR_SYSTEM;
    unsigned char in[100] = {0}, out[100];
    port_rank_t port;
    double started;

    provoke(rank, true);
    port_rank_open(&port, rank, rank->argument, 4096);
    check(rank, mscclpp_proxy_set_handler(port.proxy, port.channels[1][0].number, handle, &handler) == MSCCLPP_OK,
          "handler");
    mscclpp_proxy_begin(port.proxy);
    started = port_rank_now();
    check(rank, port_rank_launch(&port, in, out, 100, 3, 0, true, KERNEL_TIMEOUT) == MSCCLPP_OK, "launch");
    check(rank, soon(&port, kernel_ended, NULL), "end of the kernel");
    check(rank, port_rank_now() - started < SOON, "end of the kernel soon");
    check(rank, soon(&port, failed_as, &wanted), "failure of the handler");
    check(rank, mscclpp_proxy_drain(port.proxy) == wanted, "failure of a drain");
    check(rank, word(&port.mailbox->abort) != 0 && word(&port.mailbox->failed) != 0, "mailbox");
    mscclpp_proxy_end(port.proxy);
    provoke(rank, false);
    port_rank_close(&port);
}

/* A kernel waits, and no peer answers it. Stopping the proxy ends the kernel. */
static void test_stop(rank_t *rank)
{
    handler_t handler = {.calls = 0};
    unsigned char in[100] = {0}, out[100];
    port_rank_t port;

    port_rank_open(&port, rank, rank->argument, 4096);
    check(rank, mscclpp_proxy_set_handler(port.proxy, port.channels[1][0].number, handle, &handler) == MSCCLPP_OK,
          "handler");
    mscclpp_proxy_begin(port.proxy);
    check(rank, port_rank_launch(&port, in, out, 100, 3, 0, false, KERNEL_TIMEOUT) == MSCCLPP_OK, "launch");
    (void)port_rank_wait(&port, 0.2);
    check(rank, !port_rank_is_idle(&port) && word(&port.mailbox->failed) == 0, "kernel that waits");
    mscclpp_proxy_stop(port.proxy);
    check(rank, soon(&port, kernel_ended, NULL) && word(&port.mailbox->failed) != 0, "end of the kernel");
    check(rank, mscclpp_proxy_progress(port.proxy) == MSCCLPP_ERR_REVOKED, "progress after stop");
    mscclpp_proxy_stop(port.proxy);
    mscclpp_proxy_end(port.proxy);
    meet(rank);
    port_rank_close(&port);
}

static mscclpp_status_t refuse_add(mscclpp_conn_t *conn, mscclpp_remote_t *remote, uint64_t to, uint64_t value)
{
    (void)conn;
    (void)remote;
    (void)to;
    (void)value;
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

/* An invalid request of a kernel ends in an error that names the request. */
static void test_nonsense(rank_t *rank)
{
    const mscclpp_status_t wanted = MSCCLPP_ERR_INVALID;
    mscclpp_transport_ops_t without_add = late_transport;
    int k;

    without_add.add = refuse_add;
    for (k = 0; k < 7; ++k) {
        mscclpp_dev_port_channel_t channel;
        mscclpp_dev_args_t args;
        mscclpp_dev_ctx_t ctx;
        port_rank_t port;

        provoke(rank, true);
        port_rank_open(&port, rank, k == 6 ? &without_add : rank->argument, 4096);
        kernel_begin(&port, &ctx, &args, SOON);
        mscclpp_proxy_begin(port.proxy);
        channel = port.channels[0][0];
        channel.number = k == 0 ? MSCCLPP_DEV_PORT_CHANNELS - 1 : channel.number;
        if (k <= 1) {
            mscclpp_dev_port_put(&ctx, &args, &channel, k == 0 ? 0 : port.region_size - 7, 0, 8);
        } else if (k == 2) {
            mscclpp_dev_port_put(&ctx, &args, &channel, 0, port.region_size + 1, 0);
        } else if (k == 3) {
            mscclpp_dev_port_put(&ctx, &args, &channel, UINT64_C(0x7fffffffff), 0, 2);
        } else {
            mscclpp_dev_port_add(&ctx, &args, &channel, k == 4 ? port.region_size - 4 : k == 5 ? 4 : 0, 1);
        }
        check(rank, soon(&port, failed_as, &wanted), "refusal");
        mscclpp_dev_port_flush(&ctx, &args, &channel);
        check(rank, ctx.failed && word(&port.mailbox->abort) != 0, "end of the flush");
        mscclpp_proxy_end(port.proxy);
        provoke(rank, false);
        port_rank_close(&port);
    }
}

static uint64_t token(const port_rank_t *port, uint32_t block, uint32_t side)
{
    return __atomic_load_n(&port->tokens[2 * block + side], __ATOMIC_ACQUIRE);
}

typedef struct {
    uint32_t side;
    uint64_t count;
} signals_t;

static bool signalled(port_rank_t *port, const void *argument)
{
    const signals_t *wanted = argument;

    return token(port, 0, wanted->side) == wanted->count;
}

/*
 * One connection takes nothing while a kernel sends it more requests than the FIFO holds. The other connection goes on,
 * flushes included. In the end all requests of the first connection arrive in their order.
 */
static void test_busy_connection(rank_t *rank)
{
    const uint64_t count = 300;
    const signals_t forward = {0, count}, back = {1, 5};
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    port_rank_t port;
    uint64_t i;

    port_rank_open(&port, rank, &late_transport, 4096);
    kernel_begin(&port, &ctx, &args, SOON);
    late_hold(port.conns[0], true);
    mscclpp_proxy_begin(port.proxy);
    for (i = 0; i < count; ++i) {
        ((uint64_t *)(void *)port.region)[i % 512] = i;
        mscclpp_dev_port_put_with_signal(&ctx, &args, &port.channels[0][0], 4096 - 8, i % 512 * 8, 8);
    }
    for (i = 0; i < back.count; ++i) {
        mscclpp_dev_port_signal(&ctx, &args, &port.channels[1][0]);
        mscclpp_dev_port_flush(&ctx, &args, &port.channels[1][0]);
    }
    check(rank, !ctx.failed, "flush beside a connection that takes nothing");
    check(rank, soon(&port, signalled, &back), "signals beside a connection that takes nothing");
    meet(rank);
    check(rank, token(&port, 0, 0) == 0, "connection that takes nothing");
    check(rank, mscclpp_proxy_drain(port.proxy) == MSCCLPP_IN_PROGRESS, "drain while something is left");
    meet(rank);
    late_hold(port.conns[0], false);
    check(rank, soon(&port, signalled, &forward), "requests kept for later");
    mscclpp_dev_port_flush(&ctx, &args, &port.channels[0][0]);
    check(rank, !ctx.failed, "flush after all");
    mscclpp_proxy_end(port.proxy);
    check(rank, soon(&port, drained, NULL), "drain");
    meet(rank);
    check(rank, ((uint64_t *)(void *)port.region)[511] == count - 1, "order of requests");
    meet(rank);
    port_rank_close(&port);
}

/* A connection breaks while a kernel waits for its flush. */
static void test_broken_connection(rank_t *rank)
{
    const mscclpp_status_t wanted = MSCCLPP_ERR_PEER;
    unsigned char in[100] = {0}, out[100];
    port_rank_t port;

    provoke(rank, true);
    port_rank_open(&port, rank, &late_transport, 4096);
    late_hold(port.conns[0], true);
    mscclpp_proxy_begin(port.proxy);
    check(rank, port_rank_launch(&port, in, out, 100, 3, 0, true, KERNEL_TIMEOUT) == MSCCLPP_OK, "launch");
    (void)port_rank_wait(&port, 0.1);
    check(rank, !port_rank_is_idle(&port), "kernel that waits");
    late_break(port.conns[0], MSCCLPP_ERR_PEER);
    check(rank, soon(&port, kernel_ended, NULL) && word(&port.mailbox->failed) != 0, "end of the kernel");
    check(rank, soon(&port, failed_as, &wanted), "failure of the connection");
    mscclpp_proxy_end(port.proxy);
    provoke(rank, false);
    port_rank_close(&port);
}

/* All channel numbers that a trigger can name are in use at once, and are then used again. */
static void test_many_channels(rank_t *rank)
{
    const mscclpp_port_params_t params = {.peer = 0};
    mscclpp_port_params_t large = params;
    mscclpp_dev_port_channel_t channel, last;
    bool *used = calloc(MSCCLPP_DEV_PORT_CHANNELS, sizeof(*used));
    handler_t handler = {.calls = 0};
    uint32_t i, made = 0, twice = 0;
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    port_rank_t port;

    port_rank_open(&port, rank, rank->argument, 64);
    memset(&last, 0, sizeof(last));
    while (used != NULL && made < MSCCLPP_DEV_PORT_CHANNELS - 2 * PORT_BLOCKS_MAX &&
           mscclpp_proxy_channel_create(port.proxy, &params, &channel) == MSCCLPP_OK) {
        twice += used[channel.number];
        used[channel.number] = true;
        last = channel;
        ++made;
    }
    check(rank, made == MSCCLPP_DEV_PORT_CHANNELS - 2 * PORT_BLOCKS_MAX && twice == 0, "as many channels as there are");
    provoke(rank, true);
    check(rank, mscclpp_proxy_channel_create(port.proxy, &params, &channel) == MSCCLPP_ERR_NO_MEMORY, "one more");
    large.remote_size = MSCCLPP_DEV_PORT_REGION_MAX + 1;
    mscclpp_proxy_channel_destroy(port.proxy, last.number);
    check(rank, mscclpp_proxy_channel_create(port.proxy, &large, &channel) == MSCCLPP_ERR_INVALID, "too large");
    large.remote_size = 0;
    large.region_size = MSCCLPP_DEV_PORT_REGION_MAX + 1;
    check(rank, mscclpp_proxy_channel_create(port.proxy, &large, &channel) == MSCCLPP_ERR_INVALID, "too large");
    mscclpp_proxy_channel_destroy(port.proxy, last.number);
    provoke(rank, false);
    large.region_size = MSCCLPP_DEV_PORT_REGION_MAX;
    check(rank, mscclpp_proxy_channel_create(port.proxy, &large, &channel) == MSCCLPP_OK, "again");
    check(rank, channel.number == last.number, "the number that was free");
    kernel_begin(&port, &ctx, &args, SOON);
    mscclpp_proxy_begin(port.proxy);
    /* A number is used again and again. Its word of flushes goes on from the value that the last channel left. */
    for (i = 0; i < 50; ++i) {
        mscclpp_proxy_set_handler(port.proxy, channel.number, handle, &handler);
        mscclpp_dev_port_flush(&ctx, &args, &channel);
        mscclpp_proxy_channel_destroy(port.proxy, channel.number);
        check(rank, mscclpp_proxy_channel_create(port.proxy, &params, &channel) == MSCCLPP_OK, "again");
    }
    check(rank, !ctx.failed && handler.calls == 50, "flushes over one number");
    mscclpp_proxy_end(port.proxy);
    meet(rank);
    port_rank_close(&port);
    free(used);
}

/* With nothing in flight no thread uses the processor, although a proxy has a thread and has done work before. */
static void test_idle(rank_t *rank)
{
    unsigned char in[100] = {0}, out[100];
    port_rank_t port;
    double before, used;

    port_rank_open(&port, rank, rank->argument, 4096);
    mscclpp_proxy_begin(port.proxy);
    check(rank, port_rank_launch(&port, in, out, 100, 7, 1, true, KERNEL_TIMEOUT) == MSCCLPP_OK, "launch");
    check(rank, port_rank_wait(&port, SOON) >= 0 && port_rank_is_idle(&port), "kernel");
    mscclpp_proxy_end(port.proxy);
    check(rank, soon(&port, drained, NULL), "drain");
    while (mscclpp_proxy_progress(port.proxy) == MSCCLPP_IN_PROGRESS) {
    }
    check(rank, mscclpp_proxy_progress(port.proxy) == MSCCLPP_OK, "nothing to do");
    meet(rank);
    if (rank->rank == 0) {
        pause_for(0.1);
        before = cpu_seconds();
        pause_for(0.5);
        used = cpu_seconds() - before;
        if (used > 0.02) {
            fprintf(stderr, "    %.3f s of 0.5 s\n", used);
        }
        check(rank, used <= 0.02, "processor time of idle ranks");
    } else {
        pause_for(0.7);
    }
    meet(rank);
    /* After the pause the proxy still works. */
    mscclpp_proxy_begin(port.proxy);
    check(rank, port_rank_launch(&port, in, out, 100, 7, 1, true, KERNEL_TIMEOUT) == MSCCLPP_OK, "launch");
    check(rank, port_rank_wait(&port, SOON) >= 0 && port_rank_is_idle(&port), "kernel after a pause");
    mscclpp_proxy_end(port.proxy);
    check(rank, soon(&port, drained, NULL), "drain");
    meet(rank);
    port_rank_close(&port);
}

/* Requests without a flush, and an operation that has ended: they are carried out, and the proxy comes to rest. */
static void test_settle(rank_t *rank)
{
    const signals_t wanted = {0, 40};
    mscclpp_dev_args_t args;
    mscclpp_dev_ctx_t ctx;
    port_rank_t port;
    uint64_t i;

    port_rank_open(&port, rank, &late_transport, 4096);
    kernel_begin(&port, &ctx, &args, SOON);
    mscclpp_proxy_begin(port.proxy);
    for (i = 0; i < wanted.count; ++i) {
        mscclpp_dev_port_put_with_signal(&ctx, &args, &port.channels[0][0], 0, 2048, 64);
    }
    mscclpp_proxy_end(port.proxy);
    check(rank, soon(&port, signalled, &wanted), "signals after the end of the operation");
    if (strcmp(rank->config->proxy, "progress") == 0) {
        for (i = 0; i < 100000 && mscclpp_proxy_progress(port.proxy) == MSCCLPP_IN_PROGRESS; ++i) {
        }
        check(rank, i < 100000, "rest");
    }
    check(rank, soon(&port, drained, NULL), "drain");
    meet(rank);
    port_rank_close(&port);
}

static int open_files(void)
{
    process_state_t state;

    process_state_read(&state);
    return state.descriptors;
}

int main(void)
{
    static const char *const modes[] = {"progress", "thread"};
    static void (*const tests[])(rank_t * rank) = {test_handler,
                                                   test_left_behind,
                                                   test_handler_after_put,

                                                   test_failing_handler,
                                                   test_stop,
                                                   test_nonsense,
                                                   test_busy_connection,
                                                   test_broken_connection,
                                                   test_many_channels,
                                                   test_idle,
                                                   test_settle};
    const mscclpp_transport_ops_t *const transports[] = {mscclpp_transport_find("shm"), &late_transport};
    int mode, k, failures = 0, files;
    mscclpp_config_t config;
    unsigned test;

    mscclpp_log_set(print, NULL, MSCCLPP_LOG_WARN);
    mscclpp_config_init(&config);
    config.fifo_size = 8;
    config.twin_blocks = 1;
    config.twin_threads = 2; /* so that kernels have threads of their own */
    files = open_files();
    for (mode = 0; mode < 2; ++mode) {
        config.proxy = modes[mode];
        for (k = 0; k < 2; ++k) {
            for (test = 0; test < sizeof(tests) / sizeof(tests[0]); ++test) {
                failures += run_ranks(2, &config, tests[test], (void *)(uintptr_t)transports[k]);
            }
        }
    }
    if (mscclpp_mapping_drain() != 0 || open_files() != files) {
        ++failures;
        fprintf(stderr, "FAIL mappings or %d files are left\n", open_files() - files);
    }
    printf("%d passed, %d failed\n", passed, failures + lines);
    return failures + lines != 0;
}
