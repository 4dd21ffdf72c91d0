/*
 * Mode channel: how long a message takes from a kernel of one rank to a kernel of another, over the channels of
 * mpix_mscclpp_channels.h. Ranks 0 and 1 are a pair, 2 and 3, and so on; a rank without a partner measures nothing.
 * bench_channel_coll.c measures collectives in its place.
 */
#include "tools/bench/bench_channel.h"

#include <string.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_channels.h"
#include "tools/bench/bench_channel_report.h"

#define UNIT_BYTES 16 /* parts of the memory begin at multiples of this */

/* One rank's side of a pair. */
typedef struct {
    bench_env_t *env;
    int peer; /* -1: there is no peer */
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels; /* the memory channel to the peer */
    MPIX_Mscclpp_channels ports;    /* the port channel to the peer */
    bench_channel_args_t args;
    uint64_t *elapsed_ns; /* args.elapsed_ns at the host's address */
    char *staging;        /* pinned host memory, for messages */
    size_t capacity;      /* bytes of the largest message */
} side_t;

/*
 * Makes this rank's side of its pair: memory, a memory channel and a port channel to the peer, and pinned memory for
 * staging and for the time. A rank without a peer makes the same without channels, because memory and channels are made
 * by all ranks together. The ranks agree after these collective steps, and again after the steps that each rank makes
 * alone, so all return the same. After a failure nothing is freed, because the program ends.
 */
static bool open_side(side_t *side, bench_env_t *env, size_t capacity)
{
    const size_t slot_bytes = (capacity + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    void *base, *host, *device;
    bool ok;

    memset(side, 0, sizeof(*side));
    side->env = env;
    side->peer = (env->rank ^ 1) < env->size ? env->rank ^ 1 : -1;
    side->capacity = capacity;
    /* Outgoing bytes, incoming bytes, and packets, which take twice as much. */
    ok = bench_channel_succeeded(
             "MPIX_Mscclpp_memory_alloc",
             MPIX_Mscclpp_memory_alloc(env->comm, (MPI_Aint)(4 * slot_bytes), &base, &side->memory)) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_create",
                                 MPIX_Mscclpp_channels_create(side->memory, MPIX_MSCCLPP_CHANNEL_MEMORY,
                                                              side->peer >= 0, &side->peer, 1, &side->channels)) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_create",
                                 MPIX_Mscclpp_channels_create(side->memory, MPIX_MSCCLPP_CHANNEL_PORT, side->peer >= 0,
                                                              &side->peer, 1, &side->ports));
    if (!bench_all(env->control, ok)) {
        return false;
    }
    ok = bench_channel_succeeded("MPIX_Mscclpp_channels_get_device",
                                 MPIX_Mscclpp_channels_get_device(side->channels, MPIX_MSCCLPP_DEVICE_ABI,
                                                                  &side->args.memory, sizeof(side->args.memory))) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_get_device",
                                 MPIX_Mscclpp_channels_get_device(side->ports, MPIX_MSCCLPP_DEVICE_ABI,
                                                                  &side->args.port, sizeof(side->args.port))) &&
         bench_channel_succeeded("MPIX_Mscclpp_channels_open", MPIX_Mscclpp_channels_open(side->ports)) &&
         MSCCLPP_OK == env->gpu->host_alloc(sizeof(uint64_t) + slot_bytes, &host, &device);
    if (ok) {
        side->elapsed_ns = host;
        side->staging = (char *)host + sizeof(uint64_t);
        side->args.elapsed_ns = device;
    }
    side->args.sends_first = env->rank % 2 == 0;
    side->args.base = base;
    side->args.incoming_offset = slot_bytes;
    side->args.packets_offset = 2 * slot_bytes;
    return bench_all(env->control, ok);
}

/* Frees what open_side has made: channels before the memory that they refer to. All ranks call it. */
static void close_side(side_t *side)
{
    (void)MPIX_Mscclpp_channels_close(side->ports);
    (void)MPIX_Mscclpp_channels_free(&side->ports);
    (void)MPIX_Mscclpp_channels_free(&side->channels);
    (void)MPIX_Mscclpp_memory_free(&side->memory);
    side->env->gpu->host_free(side->elapsed_ns);
}

/* Runs the kernel in one thread of the host twin, as mpix_host_run calls it. */
static void run_twin(mpix_group_t *block, void *args)
{
    bench_channel_body(block, args);
}

/*
 * Runs the kernel and waits for its end. If the kernel cannot be launched, or if a channel fails in it, prints a line
 * and returns false. A kernel in which a channel fails leaves the elapsed time at 0.
 */
static bool run_kernel(side_t *side)
{
    mpix_host_kernel_t kernel = {.function = run_twin, .argument = &side->args, .blocks = 1, .threads = 1};
    int code = 0;

    __atomic_store_n(side->elapsed_ns, 0, __ATOMIC_RELAXED);
    if (side->env->on_twin) {
        mpix_host_run(&kernel);
        code = kernel.error;
    } else {
#if MSCCLPP_HAVE_CUDA
        code = bench_channel_launch(side->env->native_stream, bench_channel_threads(side->args.bytes), &side->args);
#else
        code = -1;
#endif
    }
    return bench_channel_wait(side->env, code, side->elapsed_ns);
}

/*
 * Runs the kernel on all pairs, after all ranks are ready. `way` is a BENCH_CHANNEL_ constant. A round is one message
 * to the peer and one back. Returns the seconds per round of the slowest rank. If the kernel fails on a rank, its peer
 * would wait forever, so the program ends.
 */
static double time_rounds(side_t *side, int way, size_t bytes, int rounds)
{
    double seconds = 0;

    bench_all(side->env->control, true); /* a barrier */
    if (side->peer >= 0) {
        side->args.way = (mpix_u32)way;
        side->args.bytes = bytes;
        side->args.rounds = (mpix_u32)rounds;
        if (!run_kernel(side)) {
            MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
        }
        side->args.last_flag += (mpix_u32)rounds + 1; /* the kernel does one round more, which is not timed */
        seconds = 1e-9 * (double)*side->elapsed_ns / rounds;
    }
    return bench_max(side->env->control, seconds);
}

/* Returns byte `i` of the messages that a rank sends in the check of number `seed`. */
static unsigned char content(int rank, int seed, size_t i)
{
    return (unsigned char)((size_t)rank * 31 + (size_t)seed * 7 + i + (i >> 8));
}

/*
 * Sends known bytes in each way, as often as the options say. Returns the number of wrong bytes on all ranks. A rank
 * whose copy failed continues, because its peer waits for its message, and counts all bytes as wrong. A rank without a
 * peer has no wrong bytes.
 */
static uint64_t check_size(side_t *side, const bench_options_t *options, size_t bytes)
{
    uint64_t wrong = 0;

    for (int seed = 0; seed < BENCH_CHANNEL_WAYS * options->checks; ++seed) {
        bool ok = true;

        for (size_t i = 0; i < bytes; ++i) {
            side->staging[i] = (char)content(side->env->rank, seed, i);
        }
        ok = bench_env_copy(side->env, side->args.base, side->staging, bytes);
        /* The receive buffer is overwritten, so that an earlier message does not pass for this one. */
        memset(side->staging, 0xff, bytes);
        ok = ok && bench_env_copy(side->env, side->args.base + side->args.incoming_offset, side->staging, bytes);
        time_rounds(side, seed % BENCH_CHANNEL_WAYS, bytes, 1);
        ok = ok && bench_env_copy(side->env, side->staging, side->args.base + side->args.incoming_offset, bytes);
        for (size_t i = 0; i < bytes && side->peer >= 0; ++i) { /* after a failed copy all bytes count as wrong */
            wrong += !ok || (unsigned char)side->staging[i] != content(side->peer, seed, i);
        }
    }
    return bench_sum(side->env->control, wrong);
}

/*
 * Verifies and measures one size in each way. The ways take turns, so that a drift of the machine affects all of them.
 * All ranks choose the same number of rounds, because time_rounds returns the same on all.
 */
static void measure_size(side_t *side, const bench_options_t *options, bench_channel_row_t *row)
{
    row->wrong = check_size(side, options, row->bytes);
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        if (options->warmup > 0) {
            time_rounds(side, way, row->bytes, options->warmup);
        }
        row->rounds[way] = bench_channel_rounds(options, time_rounds(side, way, row->bytes, BENCH_CHANNEL_MIN_ROUNDS));
    }
    for (int i = 0; i < options->rounds; ++i) {
        for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
            bench_times_t *times = &row->times[way];

            times->seconds[times->rounds++] = time_rounds(side, way, row->bytes, row->rounds[way]);
        }
    }
}

/*
 * Measures messages in pairs. *wrong_p becomes the number of wrong bytes. If a channel fails, the program ends, since
 * the peer would wait forever. Sizes that are rounded to the same number of bytes are measured once. After a failure
 * before the first size, which all ranks return, nothing is freed.
 */
static bool measure_pairs(bench_env_t *env, const bench_options_t *options, bench_report_t *report, uint64_t *wrong_p)
{
    size_t previous = 0;
    side_t side;

    if (!open_side(&side, env, options->max_bytes)) {
        return false;
    }
    bench_channel_report_header(report, NULL);
    for (double size = (double)options->min_bytes; size <= (double)options->max_bytes; size *= options->factor) {
        bench_channel_row_t row = {.bytes = (size_t)size};

        if (row.bytes != previous && row.bytes > 0) {
            measure_size(&side, options, &row);
            bench_channel_report_row(report, NULL, &row);
            *wrong_p += row.wrong;
        }
        previous = row.bytes;
    }
    close_side(&side);
    return true;
}

/*
 * Runs mode channel: without --coll messages in pairs, and otherwise the collectives. Wrong results are counted and
 * printed, and make the result false.
 */
bool bench_channel_measure(bench_env_t *env, const bench_options_t *options)
{
    bench_component_t component;
    bench_report_t report;
    uint64_t wrong = 0;
    bool ok = true;

    if (env->size < 2) {
        fprintf(stderr, "mscclpp_bench: --mode channel needs two ranks\n");
        return false;
    }
    MPI_Comm_set_errhandler(env->comm, MPI_ERRORS_RETURN);
    if (!bench_report_open(&report, options, env)) {
        return false;
    }
    if (0 == options->coll_count) {
        ok = measure_pairs(env, options, &report, &wrong);
    }
    for (int i = 0; ok && i < options->coll_count; ++i) {
        ok = bench_channel_measure_coll(env, options, options->colls[i], &report, &wrong);
    }
    if (!ok && 0 == env->rank) {
        fprintf(stderr, "mscclpp_bench: --mode channel: these ranks get no channels (several nodes, more than 64 "
                        "ranks, ranks that take turns on a GPU, or coll/mscclpp is not loaded)\n");
    }
    bench_component_read(&component);
    return bench_all(env->control, bench_report_close(&report, wrong, 0, &component) && ok && 0 == wrong);
}
