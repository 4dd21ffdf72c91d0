/*
 * Mode transpose: an array of complex doubles that is spread over the ranks along one axis becomes one that is spread
 * along another one, by MPI_Alltoallw of subarrays, as distributed Fourier transforms do it. Beside it, MPI_Alltoall
 * of as many bytes without holes.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

#define AXES 3
#define LENGTH_GPU 512
#define LENGTH_TWIN 48

typedef struct {
    uint64_t half[2];
} element_t; /* as large as a complex double */

/* One direction of the transposition, and its calls. */
typedef struct {
    bench_env_t *env;
    bench_buffers_t *buffers;
    int length;       /* elements along each axis */
    int old;          /* the axis that the array is spread along before */
    int new;          /* and after */
    int block;        /* elements of a block of MPI_Alltoall */
    int before[AXES]; /* this rank's part of the array */
    int after[AXES];
    int *sends; /* counts: 0 or 1 */
    int *recvs;
    int *zeros;
    MPI_Datatype *send_types;
    MPI_Datatype *recv_types;
} transposition_t;

/* Where a rank's part of an axis begins. */
static int first_of(int length, int rank, int size)
{
    return (int)((int64_t)length * rank / size);
}

static size_t volume(const int *shape)
{
    return (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
}

/* The part of an array of this shape that lies in rank `rank`'s part of an axis. Returns its count, 0 or 1. */
static int make_block(const int *shape, int axis, int begin, int end, MPI_Datatype *type_p)
{
    int sizes[AXES], starts[AXES] = {0, 0, 0};

    memcpy(sizes, shape, sizeof(sizes));
    sizes[axis] = end - begin;
    starts[axis] = begin;
    if (0 == volume(sizes)) {
        *type_p = MPI_BYTE;
        return 0;
    }
    MPI_Type_create_subarray(AXES, shape, sizes, starts, MPI_ORDER_C, MPI_C_DOUBLE_COMPLEX, type_p);
    MPI_Type_commit(type_p);
    return 1;
}

static void close_transposition(transposition_t *t)
{
    for (int i = 0; i < t->env->size && t->recv_types != NULL; ++i) {
        if (t->sends[i] > 0) {
            MPI_Type_free(&t->send_types[i]);
        }
        if (t->recvs[i] > 0) {
            MPI_Type_free(&t->recv_types[i]);
        }
    }
    free(t->sends);
    free(t->recvs);
    free(t->zeros);
    free(t->send_types);
    free(t->recv_types);
}

static bool open_transposition(transposition_t *t)
{
    const int size = t->env->size, rank = t->env->rank, length = t->length;
    const size_t share = (size_t)length * (size_t)length * (size_t)length / (size_t)size;

    for (int axis = 0; axis < AXES; ++axis) {
        t->before[axis] = t->after[axis] = length;
    }
    t->before[t->old] = t->after[t->new] = first_of(length, rank + 1, size) - first_of(length, rank, size);
    t->block = (int)(share / (size_t)size);
    t->sends = calloc((size_t)size, sizeof(t->sends[0]));
    t->recvs = calloc((size_t)size, sizeof(t->recvs[0]));
    t->zeros = calloc((size_t)size, sizeof(t->zeros[0]));
    t->send_types = calloc((size_t)size, sizeof(t->send_types[0]));
    t->recv_types = calloc((size_t)size, sizeof(t->recv_types[0]));
    if (t->sends == NULL || t->recvs == NULL || t->zeros == NULL || t->send_types == NULL || t->recv_types == NULL) {
        fprintf(stderr, "%s: out of memory\n", bench_program);
        return false;
    }
    for (int i = 0; i < size; ++i) {
        t->sends[i] =
            make_block(t->before, t->new, first_of(length, i, size), first_of(length, i + 1, size), &t->send_types[i]);
        t->recvs[i] =
            make_block(t->after, t->old, first_of(length, i, size), first_of(length, i + 1, size), &t->recv_types[i]);
    }
    return true;
}

static transposition_t *current; /* of the calls below, whose interface has no place for it */

static bool call_subarrays(bench_contender_t *contender, const bench_operation_t *operation)
{
    const transposition_t *t = current;

    (void)operation;
    return MPI_SUCCESS == MPI_Alltoallw(t->buffers->send, t->sends, t->zeros, t->send_types, t->buffers->recv, t->recvs,
                                        t->zeros, t->recv_types, contender->env->comm);
}

static bool call_blocks(bench_contender_t *contender, const bench_operation_t *operation)
{
    const transposition_t *t = current;

    (void)operation;
    return MPI_SUCCESS == MPI_Alltoall(t->buffers->send, t->block, MPI_C_DOUBLE_COMPLEX, t->buffers->recv, t->block,
                                       MPI_C_DOUBLE_COMPLEX, contender->env->comm);
}

/* The element at a place of the whole array. */
static element_t element_at(const transposition_t *t, const int *place, int seed)
{
    const uint64_t length = (uint64_t)t->length;
    const uint64_t index = ((uint64_t)place[0] * length + (uint64_t)place[1]) * length + (uint64_t)place[2];

    return (element_t){{index * 2 + (uint64_t)seed, ~index ^ (uint64_t)seed << 40}};
}

/* The place in the whole array of element `index` of a part of this shape, which is spread along `axis`. */
static void find_place(const transposition_t *t, const int *shape, int axis, size_t index, int *place)
{
    for (int i = AXES - 1; i >= 0; --i) {
        place[i] = (int)(index % (size_t)shape[i]);
        index /= (size_t)shape[i];
    }
    place[axis] += first_of(t->length, t->env->rank, t->env->size);
}

/* Calls the subarrays' exchange once and counts the elements that it puts where they do not belong. */
static bool check(transposition_t *t, bench_contender_t *contender, int seed, uint64_t *wrong_p)
{
    const mscclpp_gpu_ops_t *gpu = t->env->gpu;
    const size_t room = t->buffers->staging_size / sizeof(element_t);
    element_t *staging = (element_t *)(void *)t->buffers->staging;
    const size_t sent = volume(t->before), received = volume(t->after);
    uint64_t wrong = 0;
    bool ok = true;
    int place[AXES];

    for (size_t done = 0; ok && done < sent; done += room) {
        const size_t part = sent - done < room ? sent - done : room;

        for (size_t i = 0; i < part; ++i) {
            find_place(t, t->before, t->old, done + i, place);
            staging[i] = element_at(t, place, seed);
        }
        ok = MSCCLPP_OK == gpu->copy(t->env->stream, t->buffers->send + done * sizeof(*staging), staging,
                                     part * sizeof(*staging)) &&
             MSCCLPP_OK == gpu->stream_sync(t->env->stream);
    }
    MPI_Barrier(t->env->control);
    ok = ok && bench_repeat(contender, NULL, 1);
    for (size_t done = 0; ok && done < received; done += room) {
        const size_t part = received - done < room ? received - done : room;

        ok = MSCCLPP_OK == gpu->copy(t->env->stream, staging, t->buffers->recv + done * sizeof(*staging),
                                     part * sizeof(*staging)) &&
             MSCCLPP_OK == gpu->stream_sync(t->env->stream);
        for (size_t i = 0; ok && i < part; ++i) {
            element_t expected;

            find_place(t, t->after, t->new, done + i, place);
            expected = element_at(t, place, seed);
            wrong += 0 != memcmp(&expected, &staging[i], sizeof(expected));
        }
    }
    *wrong_p += bench_sum(t->env->control, wrong);
    return bench_all(t->env->control, ok);
}

typedef struct {
    bench_times_t subarrays;
    bench_times_t blocks;
    uint64_t wrong;
    uint64_t served; /* of this process's calls */
    uint64_t staged;
} row_t;

static bool measure(transposition_t *t, const bench_options_t *options, row_t *row)
{
    bench_contender_t subarrays = {.env = t->env, .call = call_subarrays},
                      blocks = {.env = t->env, .call = call_blocks};
    bench_component_t before, after;
    double estimate;
    int calls;

    current = t;
    bench_component_read(&before);
    for (int i = 0; i < options->checks; ++i) {
        if (!check(t, &subarrays, i + 1, &row->wrong)) {
            return false;
        }
    }
    if (!bench_repeat(&subarrays, NULL, options->warmup) || !bench_repeat(&blocks, NULL, options->warmup) ||
        !bench_time_round(t->env, &subarrays, NULL, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    calls = 0 != options->iterations ? options->iterations : bench_iterations(estimate);
    for (int i = 0; i < options->rounds; ++i) {
        if (!bench_time_round(t->env, &subarrays, NULL, calls, &row->subarrays.round[i]) ||
            !bench_time_round(t->env, &blocks, NULL, calls, &row->blocks.round[i])) {
            return false;
        }
        ++row->subarrays.rounds;
        ++row->blocks.rounds;
    }
    bench_component_read(&after);
    row->served = after.served - before.served;
    row->staged = after.staged - before.staged;
    return true;
}

static void report_header(const bench_report_t *report, int length)
{
    const bench_env_t *env = report->env;

    if (0 != env->rank) {
        return;
    }
    printf(
        "# mscclpp_bench %s: an array of %d x %d x %d complex doubles, spread along one axis and then along another\n",
        MSCCLPP_VERSION, length, length, length);
    printf("# %d rank%s on %d node%s, %s\n", env->size, 1 == env->size ? "" : "s", env->nodes,
           1 == env->nodes ? "" : "s",
           env->on_twin ? "HOST TWIN: CPU threads and memory, these times say nothing about GPUs" : "CUDA");
    bench_report_places(env);
    printf(
        "# alltoallw: MPI_Alltoallw of subarrays. alltoall: MPI_Alltoall of as many bytes without holes. ratio: the\n"
        "# first time / the second. served, staged: calls of this process by kernels or engines, and by way of host\n"
        "# memory. Median of %d rounds of the slowest rank\n#\n# %6s %10s %10s %8s %8s %8s %8s\n# %6s %10s %10s\n",
        report->options->rounds, "axes", "alltoallw", "alltoall", "ratio", "#wrong", "served", "staged", "", "(us)",
        "(us)");
    fflush(stdout);
}

/* Writes one list of times to the JSON file. */
static void json_times(FILE *file, const char *name, const bench_times_t *times)
{
    fprintf(file, ", \"%s_us\": {\"median\": %.4f, \"rounds\": [", name, 1e6 * bench_times_median(times));
    for (int i = 0; i < times->rounds; ++i) {
        fprintf(file, "%s%.4f", 0 == i ? "" : ", ", 1e6 * times->round[i]);
    }
    fprintf(file, "]}");
}

static void report_row(bench_report_t *report, const transposition_t *t, const row_t *row)
{
    const double subarrays = bench_times_median(&row->subarrays), blocks = bench_times_median(&row->blocks);
    char wrong[24] = "N/A";

    if (0 != report->env->rank) {
        return;
    }
    if (report->options->checks > 0) {
        snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)row->wrong);
    }
    printf("  %d to %d %10.2f %10.2f %8.3f %8s %8llu %8llu\n", t->old, t->new, 1e6 * subarrays, 1e6 * blocks,
           subarrays / blocks, wrong, (unsigned long long)row->served, (unsigned long long)row->staged);
    fflush(stdout);
    if (report->json != NULL) {
        fprintf(report->json, "%s\n    {\"length\": %d, \"old\": %d, \"new\": %d, \"bytes\": %zu, \"wrong\": %s",
                report->first_row ? "" : ",", t->length, t->old, t->new, volume(t->before) * sizeof(element_t),
                report->options->checks > 0 ? wrong : "null");
        report->first_row = false;
        json_times(report->json, "alltoallw", &row->subarrays);
        json_times(report->json, "alltoall", &row->blocks);
        fprintf(report->json, ", \"served\": %llu, \"staged\": %llu}", (unsigned long long)row->served,
                (unsigned long long)row->staged);
    }
}

/* All pairs of axes. False after a failure, which has printed a line. */
static bool measure_all(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, int length,
                        bench_report_t *report, uint64_t *wrong_p)
{
    static const int pairs[][2] = {{0, 1}, {0, 2}, {1, 2}};
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
        transposition_t t = {.env = env, .buffers = buffers, .length = length, .old = pairs[i][0], .new = pairs[i][1]};
        row_t row = {.wrong = 0};

        ok = bench_all(env->control, open_transposition(&t));
        if (ok && !measure(&t, options, &row)) {
            fprintf(stderr, "%s: rank %d: the transposition from axis %d to %d failed\n", bench_program, env->rank,
                    t.old, t.new);
            MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG); /* peers may wait within the call that failed here */
        }
        if (ok) {
            report_row(report, &t, &row);
        }
        *wrong_p += row.wrong;
        close_transposition(&t);
    }
    return ok;
}

bool bench_transpose_measure(bench_env_t *env, const bench_options_t *options)
{
    const int length = 0 != options->length ? options->length : env->on_twin ? LENGTH_TWIN : LENGTH_GPU;
    const size_t share = ((size_t)length + (size_t)env->size - 1) / (size_t)env->size;
    bench_component_t component;
    bench_buffers_t buffers;
    bench_report_t report;
    uint64_t wrong = 0;
    bool ok;

    if (!bench_all(env->control,
                   bench_buffers_open(&buffers, env, share * (size_t)length * (size_t)length * sizeof(element_t),
                                      BENCH_MEMORY_DEVICE, NULL))) {
        return false;
    }
    if (!bench_report_open(&report, options, env)) {
        bench_buffers_close(&buffers, env);
        return false;
    }
    report_header(&report, length);
    ok = measure_all(env, options, &buffers, length, &report, &wrong);
    bench_component_read(&component);
    ok = bench_report_close(&report, wrong, 0, &component) && ok;
    bench_buffers_close(&buffers, env);
    return bench_all(env->control, ok && 0 == wrong);
}
