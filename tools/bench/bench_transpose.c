/*
 * Mode transpose, which distributed Fourier transforms need. An array of complex doubles is spread over the ranks along
 * one axis, and MPI_Alltoallw of subarrays spreads it along another one. Beside it, MPI_Alltoall of as many bytes
 * without holes is measured.
 */
#include "tools/bench/bench_report.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define AXES 3

/* Elements along each axis, unless --length is given. */
#define LENGTH_GPU 512
#define LENGTH_TWIN 48

typedef struct {
    uint64_t half[2];
} element_t; /* as large as a complex double */

/* A transposition from one axis to another, and the data that this rank sends and receives in it. */
typedef struct {
    bench_env_t *env;
    bench_buffers_t *buffers;
    int length;               /* elements along each axis */
    int old_axis;             /* the axis that the array is spread along before */
    int new_axis;             /* the axis that it is spread along after */
    int block_elements;       /* elements of a block of MPI_Alltoall */
    int old_shape[AXES];      /* lengths of this rank's part of the array before the transposition */
    int new_shape[AXES];      /* lengths of this rank's part of the array after the transposition */
    int *sends;               /* [rank]: how many subarrays to send, 0 or 1 */
    int *recvs;               /* [rank]: how many subarrays to receive, 0 or 1 */
    int *zeros;               /* [rank]: the displacements of MPI_Alltoallw */
    MPI_Datatype *send_types; /* [rank]; only those with a subarray have to be freed */
    MPI_Datatype *recv_types; /* [rank] */
} transposition_t;

/* Returns where a rank's part of an axis begins. */
static int part_begin(int length, int rank, int size)
{
    return (int)((int64_t)length * rank / size);
}

/* Returns the number of elements of an array of this shape. */
static size_t volume(const int *shape)
{
    return (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2];
}

/*
 * Makes MPI's type for the part of an array of this shape from `begin` to `end` - 1 of an axis. Returns how many
 * elements of this type to send or receive: 1, or 0 if the part is empty, because MPI has no empty subarrays. In the
 * latter case *type_p is MPI_BYTE, which must not be freed.
 */
static int make_subarray(const int *shape, int axis, int begin, int end, MPI_Datatype *type_p)
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

/*
 * Frees what open_transposition has made, all of it or, after a failure, a part. Types are made only once all arrays
 * are allocated. A count of 1 means that the type was made.
 */
static void close_transposition(transposition_t *transposition)
{
    const bool has_types = transposition->sends != NULL && transposition->recvs != NULL &&
                           transposition->send_types != NULL && transposition->recv_types != NULL;

    for (int i = 0; has_types && i < transposition->env->size; ++i) {
        if (transposition->sends[i] > 0) {
            MPI_Type_free(&transposition->send_types[i]);
        }
        if (transposition->recvs[i] > 0) {
            MPI_Type_free(&transposition->recv_types[i]);
        }
    }
    free(transposition->sends);
    free(transposition->recvs);
    free(transposition->zeros);
    free(transposition->send_types);
    free(transposition->recv_types);
}

/* Returns how many elements a block of MPI_Alltoall has if an array of this length is spread over `size` ranks. */
static size_t block_of(int length, int size)
{
    const size_t share = (size_t)length * (size_t)length * (size_t)length / (size_t)size; /* elements of a rank */

    return share / (size_t)size;
}

/*
 * Computes the part that this rank sends to each rank, and the part that it receives from it. From its old part, this
 * rank sends to rank i the elements in i's part of the new axis. In its new part, it receives from i the elements in
 * i's part of the old axis. The caller has checked that a block of MPI_Alltoall fits into an int. If memory runs out,
 * prints a line and returns false. The caller closes the transposition in both cases.
 */
static bool open_transposition(transposition_t *transposition)
{
    const int size = transposition->env->size, rank = transposition->env->rank, length = transposition->length;

    for (int axis = 0; axis < AXES; ++axis) {
        transposition->old_shape[axis] = transposition->new_shape[axis] = length;
    }
    transposition->old_shape[transposition->old_axis] = transposition->new_shape[transposition->new_axis] =
        part_begin(length, rank + 1, size) - part_begin(length, rank, size);
    transposition->block_elements = (int)block_of(length, size);
    transposition->sends = calloc((size_t)size, sizeof(transposition->sends[0]));
    transposition->recvs = calloc((size_t)size, sizeof(transposition->recvs[0]));
    transposition->zeros = calloc((size_t)size, sizeof(transposition->zeros[0]));
    transposition->send_types = calloc((size_t)size, sizeof(transposition->send_types[0]));
    transposition->recv_types = calloc((size_t)size, sizeof(transposition->recv_types[0]));
    if (transposition->sends == NULL || transposition->recvs == NULL || transposition->zeros == NULL ||
        transposition->send_types == NULL || transposition->recv_types == NULL) {
        fprintf(stderr, "%s: out of memory\n", bench_program);
        return false;
    }
    for (int i = 0; i < size; ++i) {
        transposition->sends[i] =
            make_subarray(transposition->old_shape, transposition->new_axis, part_begin(length, i, size),
                          part_begin(length, i + 1, size), &transposition->send_types[i]);
        transposition->recvs[i] =
            make_subarray(transposition->new_shape, transposition->old_axis, part_begin(length, i, size),
                          part_begin(length, i + 1, size), &transposition->recv_types[i]);
    }
    return true;
}

/*
 * The transposition that the contenders below carry out, set by measure(). It is a global variable because their
 * interface has no argument for it.
 */
static transposition_t *current;

/* Makes the contender's call: MPI_Alltoallw of the subarrays of `current`. It needs no operation. */
static bool call_subarrays(bench_contender_t *contender, const bench_operation_t *operation)
{
    const transposition_t *transposition = current;

    (void)operation;
    return MPI_SUCCESS == MPI_Alltoallw(transposition->buffers->send, transposition->sends, transposition->zeros,
                                        transposition->send_types, transposition->buffers->recv, transposition->recvs,
                                        transposition->zeros, transposition->recv_types, contender->env->comm);
}

/* Makes the rival's call: MPI_Alltoall of as many bytes. What arrives is not verified, since it is no transposition. */
static bool call_blocks(bench_contender_t *contender, const bench_operation_t *operation)
{
    const transposition_t *transposition = current;

    (void)operation;
    return MPI_SUCCESS == MPI_Alltoall(transposition->buffers->send, transposition->block_elements,
                                       MPI_C_DOUBLE_COMPLEX, transposition->buffers->recv,
                                       transposition->block_elements, MPI_C_DOUBLE_COMPLEX, contender->env->comm);
}

/* Returns the element at a place of the whole array. No two places have equal elements, and all change with `seed`. */
static element_t element_at(const transposition_t *transposition, const int *indices, int seed)
{
    const uint64_t length = (uint64_t)transposition->length;
    const uint64_t index = ((uint64_t)indices[0] * length + (uint64_t)indices[1]) * length + (uint64_t)indices[2];

    return (element_t){{index * 2 + (uint64_t)seed, ~index ^ (uint64_t)seed << 40}};
}

/*
 * Finds the place in the whole array of element `index` of this rank's part. The part has this shape, and is the whole
 * array but along `axis`, the axis that the array is spread along.
 */
static void find_indices(const transposition_t *transposition, const int *shape, int axis, size_t index, int *indices)
{
    for (int i = AXES - 1; i >= 0; --i) {
        indices[i] = (int)(index % (size_t)shape[i]);
        index /= (size_t)shape[i];
    }
    indices[axis] += part_begin(transposition->length, transposition->env->rank, transposition->env->size);
}

/*
 * Fills the array, exchanges the subarrays once, and adds to *wrong_p the number of elements of all ranks that are then
 * not in their right places. All ranks return the same: false if a copy or the call failed on any of them. No rank
 * calls MPI before all have filled their parts, so that a failed copy leaves no rank waiting within the call.
 */
static bool check_subarrays(transposition_t *transposition, bench_contender_t *contender, int seed, uint64_t *wrong_p)
{
    const size_t capacity = transposition->buffers->staging_size / sizeof(element_t);
    element_t *staging = (element_t *)(void *)transposition->buffers->staging;
    const size_t sent = volume(transposition->old_shape), received = volume(transposition->new_shape);
    uint64_t wrong = 0;
    bool ok = true;
    int indices[AXES];

    for (size_t offset = 0; ok && offset < sent; offset += capacity) {
        const size_t count = sent - offset < capacity ? sent - offset : capacity;

        for (size_t i = 0; i < count; ++i) {
            find_indices(transposition, transposition->old_shape, transposition->old_axis, offset + i, indices);
            staging[i] = element_at(transposition, indices, seed);
        }
        ok = bench_env_copy(transposition->env, transposition->buffers->send + offset * sizeof(*staging), staging,
                            count * sizeof(*staging));
    }
    ok = bench_all(transposition->env->control, ok) && bench_repeat(contender, NULL, 1);
    for (size_t offset = 0; ok && offset < received; offset += capacity) {
        const size_t count = received - offset < capacity ? received - offset : capacity;

        ok = bench_env_copy(transposition->env, staging, transposition->buffers->recv + offset * sizeof(*staging),
                            count * sizeof(*staging));
        for (size_t i = 0; ok && i < count; ++i) {
            element_t expected;

            find_indices(transposition, transposition->new_shape, transposition->new_axis, offset + i, indices);
            expected = element_at(transposition, indices, seed);
            wrong += 0 != memcmp(&expected, &staging[i], sizeof(expected));
        }
    }
    *wrong_p += bench_sum(transposition->env->control, wrong);
    return bench_all(transposition->env->control, ok);
}

/* What was measured of one pair of axes. */
typedef struct {
    bench_times_t subarrays;
    bench_times_t blocks;
    uint64_t wrong;  /* elements, on all ranks */
    uint64_t served; /* calls of this process by kernels or engines */
    uint64_t staged; /* calls of this process by way of host memory */
} row_t;

/*
 * Verifies the exchange of subarrays, and measures it and the exchange of blocks in alternating rounds. Both make as
 * many calls in a round as the time of the subarrays suggests. Returns false if a copy or a call failed; peers may then
 * still wait within a call.
 */
static bool measure(transposition_t *transposition, const bench_options_t *options, row_t *row)
{
    bench_contender_t subarrays = {.env = transposition->env, .call = call_subarrays},
                      blocks = {.env = transposition->env, .call = call_blocks};
    bench_component_t before, after;
    double estimate;
    int calls;

    current = transposition;
    bench_component_read(&before);
    for (int i = 0; i < options->checks; ++i) {
        if (!check_subarrays(transposition, &subarrays, i + 1, &row->wrong)) {
            return false;
        }
    }
    if (!bench_repeat(&subarrays, NULL, options->warmup) || !bench_repeat(&blocks, NULL, options->warmup) ||
        !bench_time_round(transposition->env, &subarrays, NULL, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    calls = 0 != options->iterations ? options->iterations : bench_iterations(estimate);
    for (int i = 0; i < options->rounds; ++i) {
        if (!bench_time_round(transposition->env, &subarrays, NULL, calls, &row->subarrays.seconds[i]) ||
            !bench_time_round(transposition->env, &blocks, NULL, calls, &row->blocks.seconds[i])) {
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

/* Prints what is measured and the heads of the columns, on rank 0. */
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
        "# first time / the second. served: calls of rank 0 by kernels or engines. staged: its calls through host\n"
        "# memory. Median of %d rounds of the slowest rank\n#\n",
        report->options->rounds);
    printf("# %6s %10s %10s %8s %8s %8s %8s\n# %6s %10s %10s\n", "axes", "alltoallw", "alltoall", "ratio", "#wrong",
           "served", "staged", "", "(us)", "(us)");
    fflush(stdout);
}

/* Appends a member "<name>_us" to an object of the JSON file: the median of the rounds, and all of them. */
static void json_times(FILE *file, const char *name, const bench_times_t *times)
{
    fprintf(file, ", \"%s_us\": {\"median\": %.4f, \"rounds\": [", name, 1e6 * bench_times_median(times));
    for (int i = 0; i < times->rounds; ++i) {
        fprintf(file, "%s%.4f", 0 == i ? "" : ", ", 1e6 * times->seconds[i]);
    }
    fprintf(file, "]}");
}

/* Prints one row of the table, and writes it to the JSON file, on rank 0. */
static void report_row(bench_report_t *report, const transposition_t *transposition, const row_t *row)
{
    const double subarrays = bench_times_median(&row->subarrays), blocks = bench_times_median(&row->blocks);
    char wrong[24] = "N/A";

    if (0 != report->env->rank) {
        return;
    }
    if (report->options->checks > 0) {
        snprintf(wrong, sizeof(wrong), "%llu", (unsigned long long)row->wrong);
    }
    printf("  %d to %d %10.2f %10.2f %8.3f %8s %8llu %8llu\n", transposition->old_axis, transposition->new_axis,
           1e6 * subarrays, 1e6 * blocks, subarrays / blocks, wrong, (unsigned long long)row->served,
           (unsigned long long)row->staged);
    fflush(stdout);
    if (report->json != NULL) {
        fprintf(report->json, "%s\n    {\"length\": %d, \"old\": %d, \"new\": %d, \"bytes\": %zu, \"wrong\": %s",
                report->is_first_row ? "" : ",", transposition->length, transposition->old_axis,
                transposition->new_axis, volume(transposition->old_shape) * sizeof(element_t),
                report->options->checks > 0 ? wrong : "null");
        report->is_first_row = false;
        json_times(report->json, "alltoallw", &row->subarrays);
        json_times(report->json, "alltoall", &row->blocks);
        fprintf(report->json, ", \"served\": %llu, \"staged\": %llu}", (unsigned long long)row->served,
                (unsigned long long)row->staged);
    }
}

/*
 * Measures all pairs of axes, and adds the wrong elements to *wrong_p. All ranks return the same: false if memory ran
 * out on one of them. If a copy or a call fails, the program ends.
 */
static bool measure_all(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers, int length,
                        bench_report_t *report, uint64_t *wrong_p)
{
    static const int pairs[][2] = {{0, 1}, {0, 2}, {1, 2}};
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof(pairs) / sizeof(pairs[0]); ++i) {
        transposition_t transposition = {
            .env = env, .buffers = buffers, .length = length, .old_axis = pairs[i][0], .new_axis = pairs[i][1]};
        row_t row = {.wrong = 0};

        ok = bench_all(env->control, open_transposition(&transposition));
        if (ok && !measure(&transposition, options, &row)) {
            fprintf(stderr, "%s: rank %d: the transposition from axis %d to %d failed\n", bench_program, env->rank,
                    transposition.old_axis, transposition.new_axis);
            MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG); /* peers may wait within the call that failed here */
        }
        if (ok) {
            report_row(report, &transposition, &row);
        }
        *wrong_p += row.wrong;
        close_transposition(&transposition);
    }
    return ok;
}

/* Refuses a length with so few ranks that MPI cannot count the elements of a block. Prints a line. */
static bool can_count_blocks(const bench_env_t *env, int length)
{
    char value[16], allowed[64];
    int max_length = length;

    while (block_of(max_length, env->size) > INT_MAX) {
        --max_length;
    }
    snprintf(value, sizeof(value), "%d", length);
    snprintf(allowed, sizeof(allowed), "1 to %d with %d rank%s", max_length, env->size, 1 == env->size ? "" : "s");
    return max_length == length || bench_refuse("--length", value, allowed);
}

/*
 * Runs mode transpose. The buffers have room for the largest part of the array that any rank has. Wrong elements are
 * reported like those of other modes, and make the exit status BENCH_EXIT_WRONG.
 */
int bench_transpose_measure(bench_env_t *env, const bench_options_t *options)
{
    const int length = 0 != options->length ? options->length : env->on_twin ? LENGTH_TWIN : LENGTH_GPU;
    const size_t max_slices = ((size_t)length + (size_t)env->size - 1) / (size_t)env->size; /* of one rank */
    bench_component_t component;
    bench_buffers_t buffers;
    bench_report_t report;
    uint64_t wrong = 0;
    bool ok;

    if (!can_count_blocks(env, length)) {
        return BENCH_EXIT_USAGE;
    }
    if (!bench_all(env->control,
                   bench_buffers_open(&buffers, env, max_slices * (size_t)length * (size_t)length * sizeof(element_t),
                                      BENCH_MEMORY_DEVICE, NULL))) {
        return BENCH_EXIT_WRONG;
    }
    if (!bench_report_open(&report, options, env)) {
        bench_buffers_close(&buffers, env);
        return BENCH_EXIT_WRONG;
    }
    report_header(&report, length);
    ok = measure_all(env, options, &buffers, length, &report, &wrong);
    bench_component_read(&component);
    ok = bench_report_close(&report, wrong, 0, &component) && ok;
    bench_buffers_close(&buffers, env);
    return bench_all(env->control, ok && 0 == wrong) ? 0 : BENCH_EXIT_WRONG;
}
