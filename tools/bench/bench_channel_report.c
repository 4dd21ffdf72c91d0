/* The table and the JSON rows of mode channel, and what its kernels have in common. */
#include "tools/bench/bench_channel_report.h"

#include "mpix/include/mpix_mscclpp.h"

/* How long a kernel should run, in seconds, and the largest number of its rounds. */
#define ROUND_SECONDS 0.02
#define MAX_ROUNDS 5000

#define MAX_THREADS 256 /* of the block */
#define WARP 32         /* the number of threads is a multiple of this */
#define UNIT_BYTES 16   /* a thread moves so much at once */

static const char *const way_names[BENCH_CHANNEL_WAYS] = {"packets", "put", "port"};

bool bench_channel_succeeded(const char *function, int code)
{
    if (0 != code) {
        fprintf(stderr, "mscclpp_bench: %s failed with error %d\n", function, code);
    }
    return 0 == code;
}

int bench_channel_rounds(const bench_options_t *options, double seconds)
{
    const double rounds = ROUND_SECONDS / (seconds > 1e-9 ? seconds : 1e-9); /* `seconds` may be 0 */

    if (0 != options->iterations) {
        return options->iterations;
    }
    return rounds < BENCH_CHANNEL_MIN_ROUNDS ? BENCH_CHANNEL_MIN_ROUNDS
           : rounds > MAX_ROUNDS             ? MAX_ROUNDS
                                             : (int)rounds;
}

/* A thread for each unit, rounded up to whole warps, and at most MAX_THREADS. */
unsigned bench_channel_threads(size_t bytes)
{
    const size_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;

    return units > MAX_THREADS ? MAX_THREADS : (unsigned)(units + WARP - 1) / WARP * WARP;
}

bool bench_channel_wait(const bench_env_t *env, int code, const uint64_t *elapsed_ns)
{
    char text[320] = "";

    if (!env->on_twin && 0 == code && !bench_cuda_stream_wait(env->native_stream)) {
        code = -1;
    }
    if (0 != code || 0 == __atomic_load_n(elapsed_ns, __ATOMIC_ACQUIRE)) {
        MPIX_Mscclpp_get_async_error(env->comm, &code, text, (int)sizeof(text));
        fprintf(stderr, "mscclpp_bench: rank %d: a kernel of mode channel failed: %s\n", env->rank, text);
        return false;
    }
    return true;
}

/* Returns the microseconds that are shown of a round that takes `seconds`. */
static double shown_us(const bench_coll_t *coll, double seconds)
{
    return (coll == NULL ? 0.5e6 : 1e6) * seconds;
}

void bench_channel_report_header(const bench_report_t *report, const bench_coll_t *coll)
{
    const bench_env_t *env = report->env;

    if (0 != env->rank) {
        return;
    }
    printf("# mscclpp_bench %s: ", MSCCLPP_VERSION);
    if (coll == NULL) {
        printf("channels between kernels of ranks in pairs, one block each\n");
    } else {
        printf("%s of floats by kernels of one block, over their channels to all ranks\n", coll->title);
    }
    printf("# %d ranks, %s\n", env->size,
           env->on_twin ? "HOST TWIN: CPU threads and memory, these times say nothing about GPUs" : "CUDA");
    bench_report_places(env);
    if (coll == NULL) {
        printf("# one way: half of the time of a message to the peer and back. Columns: packets; a put and a signal; a "
               "port channel.\n");
    } else {
        printf("# size: %s. Columns: packets%s; puts and signals; port channels.\n", coll->sized_buffer,
               coll->reduces && BENCH_WHOLE == coll->blocks ? ", by mpix_allreduce_small" : "");
    }
    printf("# Median of %d rounds of the slowest rank\n#\n# %10s %10s %10s %10s %8s\n# %10s %10s %10s %10s\n",
           report->options->rounds, "size", way_names[0], way_names[1], way_names[2], "#wrong", "(B)", "(us)", "(us)",
           "(us)");
    fflush(stdout);
}

/* Writes one row to the JSON file, which is open. The wrong ones are null if nothing was verified. */
static void json_row(bench_report_t *report, const bench_coll_t *coll, const bench_channel_row_t *row)
{
    FILE *file = report->json;

    fprintf(file, "%s\n    {", report->is_first_row ? "" : ",");
    report->is_first_row = false;
    if (coll != NULL) {
        fprintf(file, "\"coll\": \"%s\", \"type\": \"float\", \"op\": \"%s\", ", coll->name,
                coll->reduces ? "sum" : "none");
    }
    fprintf(file, "\"bytes\": %zu, \"wrong\": ", row->bytes);
    if (report->options->checks > 0) {
        fprintf(file, "%llu", (unsigned long long)row->wrong);
    } else {
        fprintf(file, "null");
    }
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        const bench_times_t *times = &row->times[way];

        fprintf(file, ", \"%s\": {\"repeats\": %d, \"%s\": {\"median\": %.4f, \"rounds\": [", way_names[way],
                row->rounds[way], coll == NULL ? "one_way_us" : "time_us", shown_us(coll, bench_times_median(times)));
        for (int i = 0; i < times->rounds; ++i) {
            fprintf(file, "%s%.4f", 0 == i ? "" : ", ", shown_us(coll, times->seconds[i]));
        }
        fprintf(file, "]}}");
    }
    fprintf(file, "}");
}

void bench_channel_report_row(bench_report_t *report, const bench_coll_t *coll, const bench_channel_row_t *row)
{
    if (0 != report->env->rank) {
        return;
    }
    printf("  %10zu", row->bytes);
    for (int way = 0; way < BENCH_CHANNEL_WAYS; ++way) {
        printf(" %10.2f", shown_us(coll, bench_times_median(&row->times[way])));
    }
    if (report->options->checks > 0) {
        printf(" %8llu\n", (unsigned long long)row->wrong);
    } else {
        printf(" %8s\n", "N/A");
    }
    fflush(stdout);
    if (report->json != NULL) {
        json_row(report, coll, row);
    }
}
