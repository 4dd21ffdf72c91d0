/*
 * Mode channel: how long a message takes from a kernel of one rank to a kernel of another, over the channels of
 * mpix_mscclpp_channels.h. Ranks 0 and 1 are a pair, 2 and 3, and so on; a rank without a partner measures nothing.
 */
#include "tools/bench/bench_channel.h"

#include <string.h>

#include "mpix/include/mpix_mscclpp/host_kernel.h"
#include "mpix/include/mpix_mscclpp_channels.h"
#include "tools/bench/bench.h"

#define ROUND_SECONDS 0.02
#define MIN_ROUNDS 2
#define MAX_ROUNDS 5000
#define MAX_THREADS 256

static const char *const way_names[BENCH_CHANNEL_WAYS] = {"packets", "put", "port"};

/* One rank's end of a pair. */
typedef struct {
    bench_env_t *env;
    int peer; /* -1: there is no peer */
    MPIX_Mscclpp_memory memory;
    MPIX_Mscclpp_channels channels;
    MPIX_Mscclpp_channels ports;
    bench_channel_args_t args;
    uint64_t *elapsed_ns; /* at the address of the host */
    char *staging;        /* pinned */
    size_t capacity;
} end_t;

typedef struct {
    size_t bytes;
    int rounds[BENCH_CHANNEL_WAYS];
    bench_times_t times[BENCH_CHANNEL_WAYS]; /* seconds to and fro */
    uint64_t wrong;
} row_t;

/* Whether an MPI function succeeded; if not, with a message. */
static bool succeeded(const char *what, int code)
{
    if (0 != code) {
        fprintf(stderr, "mscclpp_bench: %s failed with error %d\n", what, code);
    }
    return 0 == code;
}

/* Makes this rank's end of its pair, with channels of both kinds. All ranks return the same. */
static bool open_end(end_t *end, bench_env_t *env, size_t capacity)
{
    const size_t room = (capacity + 15) / 16 * 16;
    void *base, *host, *device;
    bool ok;

    memset(end, 0, sizeof(*end));
    end->env = env;
    end->peer = (env->rank ^ 1) < env->size ? env->rank ^ 1 : -1;
    end->capacity = capacity;
    ok = succeeded("MPIX_Mscclpp_memory_alloc",
                   MPIX_Mscclpp_memory_alloc(env->comm, (MPI_Aint)(4 * room), &base, &end->memory)) &&
         succeeded("MPIX_Mscclpp_channels_create",
                   MPIX_Mscclpp_channels_create(end->memory, MPIX_MSCCLPP_CHANNEL_MEMORY, end->peer >= 0, &end->peer, 1,
                                                &end->channels)) &&
         succeeded("MPIX_Mscclpp_channels_create",
                   MPIX_Mscclpp_channels_create(end->memory, MPIX_MSCCLPP_CHANNEL_PORT, end->peer >= 0, &end->peer, 1,
                                                &end->ports));
    if (!bench_all(env->control, ok)) {
        return false;
    }
    ok = succeeded("MPIX_Mscclpp_channels_get_device",
                   MPIX_Mscclpp_channels_get_device(end->channels, MPIX_MSCCLPP_DEVICE_ABI, &end->args.memory,
                                                    sizeof(end->args.memory))) &&
         succeeded("MPIX_Mscclpp_channels_get_device",
                   MPIX_Mscclpp_channels_get_device(end->ports, MPIX_MSCCLPP_DEVICE_ABI, &end->args.port,
                                                    sizeof(end->args.port))) &&
         succeeded("MPIX_Mscclpp_channels_open", MPIX_Mscclpp_channels_open(end->ports)) &&
         MSCCLPP_OK == env->gpu->host_alloc(sizeof(uint64_t) + room, &host, &device);
    if (ok) {
        end->elapsed_ns = host;
        end->staging = (char *)host + sizeof(uint64_t);
        end->args.elapsed_ns = device;
    }
    end->args.first = env->rank % 2 == 0;
    end->args.base = base;
    end->args.incoming = room;
    end->args.packets = 2 * room;
    return bench_all(env->control, ok);
}

/* Frees what this side of the pair has made. */
static void close_end(end_t *end)
{
    (void)MPIX_Mscclpp_channels_close(end->ports);
    (void)MPIX_Mscclpp_channels_free(&end->ports);
    (void)MPIX_Mscclpp_channels_free(&end->channels);
    (void)MPIX_Mscclpp_memory_free(&end->memory);
    end->env->gpu->host_free(end->elapsed_ns);
}

static void run_twin(mpix_group_t *block, void *args)
{
    bench_channel_body(block, args);
}

/* Runs the kernel. False after a failure, with a line that says why. */
static bool run_kernel(end_t *end)
{
    const size_t units = (end->args.bytes + 15) / 16;
    mpix_host_kernel_t kernel = {run_twin, &end->args, 1, 1, 0};
    unsigned threads = units > MAX_THREADS ? MAX_THREADS : (unsigned)(units + 31) / 32 * 32;
    char text[320] = "";
    int code = 0;

    __atomic_store_n(end->elapsed_ns, 0, __ATOMIC_RELAXED);
    if (end->env->on_twin) {
        mpix_host_run(&kernel);
        code = kernel.error;
    } else {
#if MSCCLPP_HAVE_CUDA
        code = bench_channel_launch(end->env->native_stream, threads, &end->args);
#else
        code = -1;
#endif
        code = 0 == code && !bench_cuda_stream_wait(end->env->native_stream) ? -1 : code;
    }
    (void)threads;
    if (0 != code || 0 == __atomic_load_n(end->elapsed_ns, __ATOMIC_ACQUIRE)) {
        MPIX_Mscclpp_get_async_error(end->env->comm, &code, text, (int)sizeof(text));
        fprintf(stderr, "mscclpp_bench: rank %d: a kernel of mode channel failed: %s\n", end->env->rank, text);
        return false;
    }
    return true;
}

/*
 * Returns the seconds per round of the slowest rank. If a rank fails, its peer would wait forever, so the program ends.
 */
static double time_rounds(end_t *end, int way, size_t bytes, int rounds)
{
    double seconds = 0;

    bench_all(end->env->control, true);
    if (end->peer >= 0) {
        end->args.way = (mpix_u32)way;
        end->args.bytes = bytes;
        end->args.rounds = (mpix_u32)rounds;
        if (!run_kernel(end)) {
            MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
        }
        end->args.flag += (mpix_u32)rounds + 1;
        seconds = 1e-9 * (double)*end->elapsed_ns / rounds;
    }
    return bench_max(end->env->control, seconds);
}

/* Copies on the stream and waits. */
static bool copy_and_wait(end_t *end, void *to, const void *from, size_t bytes)
{
    const mscclpp_gpu_ops_t *gpu = end->env->gpu;

    return MSCCLPP_OK == gpu->copy(end->env->stream, to, from, bytes) &&
           MSCCLPP_OK == gpu->stream_sync(end->env->stream);
}

static unsigned char content(int rank, int seed, size_t i)
{
    return (unsigned char)((size_t)rank * 31 + (size_t)seed * 7 + i + (i >> 8));
}

/* Sends known bytes in each way, and counts the wrong ones that arrive. */
static uint64_t check(end_t *end, const bench_options_t *options, size_t bytes)
{
    uint64_t wrong = 0;

    for (int seed = 0; seed < BENCH_CHANNEL_WAYS * options->checks; ++seed) {
        bool ok = true;

        for (size_t i = 0; i < bytes; ++i) {
            end->staging[i] = (char)content(end->env->rank, seed, i);
        }
        ok = copy_and_wait(end, end->args.base, end->staging, bytes);
        memset(end->staging, 0xff, bytes);
        ok = ok && copy_and_wait(end, end->args.base + end->args.incoming, end->staging, bytes);
        time_rounds(end, seed % BENCH_CHANNEL_WAYS, bytes, 1);
        ok = ok && copy_and_wait(end, end->staging, end->args.base + end->args.incoming, bytes);
        for (size_t i = 0; i < bytes && end->peer >= 0; ++i) {
            wrong += !ok || (unsigned char)end->staging[i] != content(end->peer, seed, i);
        }
    }
    return bench_sum(end->env->control, wrong);
}

/* How many rounds are measured: as the options say, or as many as take ROUND_SECONDS if one takes `seconds`. */
static int choose_rounds(const bench_options_t *options, double seconds)
{
    const double rounds = ROUND_SECONDS / (seconds > 1e-9 ? seconds : 1e-9);

    if (0 != options->iterations) {
        return options->iterations;
    }
    return rounds < MIN_ROUNDS ? MIN_ROUNDS : rounds > MAX_ROUNDS ? MAX_ROUNDS : (int)rounds;
}

/* Measures one size in each way. */
static void measure(end_t *end, const bench_options_t *options, row_t *row)
{
    row->wrong = check(end, options, row->bytes);
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        if (options->warmup > 0) {
            time_rounds(end, way, row->bytes, options->warmup);
        }
        row->rounds[way] = choose_rounds(options, time_rounds(end, way, row->bytes, MIN_ROUNDS));
    }
    for (int i = 0; i < options->rounds; ++i) {
        for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
            bench_times_t *times = &row->times[way];

            times->round[times->rounds++] = time_rounds(end, way, row->bytes, row->rounds[way]);
        }
    }
}

/* Prints the head of the table. */
static void report_header(const bench_report_t *report)
{
    const bench_env_t *env = report->env;

    if (0 != env->rank) {
        return;
    }
    printf("# mscclpp_bench %s: channels between kernels of ranks in pairs, one block each\n", MSCCLPP_VERSION);
    printf("# %d ranks, %s\n", env->size,
           env->on_twin ? "HOST TWIN: CPU threads and memory, these times say nothing about GPUs" : "CUDA");
    bench_report_places(env);
    printf("# one way: half of the time of a message to and fro, as packets, as a put and a signal, and by a port.\n"
           "# Median of %d rounds of the slowest rank\n#\n# %10s %10s %10s %10s %8s\n# %10s %10s %10s %10s\n",
           report->options->rounds, "size", "packets", "put", "port", "#wrong", "(B)", "(us)", "(us)", "(us)");
    fflush(stdout);
}

/* Writes one row to the JSON file. */
static void json_row(bench_report_t *report, const row_t *row)
{
    FILE *file = report->json;

    fprintf(file, "%s\n    {\"bytes\": %zu, \"wrong\": ", report->first_row ? "" : ",", row->bytes);
    report->first_row = false;
    if (report->options->checks > 0) {
        fprintf(file, "%llu", (unsigned long long)row->wrong);
    } else {
        fprintf(file, "null");
    }
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        const bench_times_t *times = &row->times[way];

        fprintf(file, ", \"%s\": {\"repeats\": %d, \"one_way_us\": {\"median\": %.4f, \"rounds\": [", way_names[way],
                row->rounds[way], 0.5e6 * bench_times_median(times));
        for (int i = 0; i < times->rounds; ++i) {
            fprintf(file, "%s%.4f", 0 == i ? "" : ", ", 0.5e6 * times->round[i]);
        }
        fprintf(file, "]}}");
    }
    fprintf(file, "}");
}

/* Prints one row of the table. */
static void report_row(bench_report_t *report, const row_t *row)
{
    if (0 != report->env->rank) {
        return;
    }
    printf("  %10zu", row->bytes);
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        printf(" %10.2f", 0.5e6 * bench_times_median(&row->times[way]));
    }
    if (report->options->checks > 0) {
        printf(" %8llu\n", (unsigned long long)row->wrong);
    } else {
        printf(" %8s\n", "N/A");
    }
    fflush(stdout);
    if (report->json != NULL) {
        json_row(report, row);
    }
}

bool bench_channel_measure(bench_env_t *env, const bench_options_t *options)
{
    bench_component_t component;
    bench_report_t report;
    size_t previous = 0;
    uint64_t wrong = 0;
    end_t end;

    if (env->size < 2) {
        fprintf(stderr, "mscclpp_bench: --mode channel needs two ranks\n");
        return false;
    }
    MPI_Comm_set_errhandler(env->comm, MPI_ERRORS_RETURN);
    if (!open_end(&end, env, options->max)) {
        if (0 == env->rank) {
            fprintf(stderr, "mscclpp_bench: --mode channel: these ranks get no channels (several nodes, more than 64 "
                            "ranks, ranks that take turns on a GPU, or coll/mscclpp is not loaded)\n");
        }
        return false;
    }
    if (!bench_report_open(&report, options, env)) {
        return false;
    }
    report_header(&report);
    for (double size = (double)options->min; size <= (double)options->max; size *= options->factor) {
        row_t row = {.bytes = (size_t)size};

        if (row.bytes != previous && row.bytes > 0) {
            measure(&end, options, &row);
            report_row(&report, &row);
            wrong += row.wrong;
        }
        previous = row.bytes;
    }
    close_end(&end);
    bench_component_read(&component);
    return bench_all(env->control, bench_report_close(&report, wrong, 0, &component) && 0 == wrong);
}
