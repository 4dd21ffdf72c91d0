/* mscclpp_bench: measures and verifies collectives on device buffers, beside NCCL if asked. See --help. */
#include "tools/bench/bench.h"
#include "tools/bench/bench_port.h"
#include "tools/bench/bench_report.h"

#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

const char bench_program[] = "mscclpp_bench";

/* The default sizes of the largest message: in the host's memory, and in mode channel. */
#define HOST_LARGEST ((size_t)1 << 20)
#define CHANNEL_LARGEST ((size_t)64 << 10)

/* Returns true if MPI says that it takes buffers in device memory. */
static bool mpi_takes_device_buffers(void)
{
#if defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA
    return 1 == MPIX_Query_cuda_support();
#else
    return false;
#endif
}

/*
 * Returns false, after a line, if the run would crash or measure something that the user did not ask for. All ranks
 * return the same. There are three cases:
 * - Neither the component nor MPI takes device buffers.
 * - The component runs on another kind of device than the program.
 * - --root is not a rank.
 */
static bool can_run(const bench_env_t *env, const bench_options_t *options)
{
    bench_component_t component;
    char device[64] = "";
    bool ok = true;

    bench_component_read(&component);
    if (bench_mode_is_mpi(options->mode) && BENCH_MEMORY_DEVICE == options->memory && !env->on_twin &&
        !mpi_takes_device_buffers() && (!component.is_loaded || component.is_disabled)) {
        if (0 == env->rank) {
            fprintf(stderr,
                    "mscclpp_bench: coll/mscclpp is %s and this MPI cannot take device buffers, so MPI's collectives "
                    "would crash; see its README for how Open MPI finds it\n",
                    component.is_loaded ? "turned off" : "not loaded");
        }
        ok = false;
    }
    if (component.is_loaded && !component.is_disabled && bench_component_parameter("device", device, sizeof(device)) &&
        0 != strcmp(device, "auto") && 0 != strcmp(device, env->gpu->name)) {
        if (0 == env->rank) {
            fprintf(stderr, "mscclpp_bench: --device chose %s but coll_mscclpp_device is %s; make them agree\n",
                    env->gpu->name, device);
        }
        ok = false;
    }
    if (options->root >= env->size) {
        if (0 == env->rank) {
            fprintf(stderr, "mscclpp_bench: --root: '%d' is not allowed; use a rank from 0 to %d\n", options->root,
                    env->size - 1);
        }
        ok = false;
    }
    return bench_all(env->control, ok);
}

/* Returns how many operations a graph has while it is timed: BENCH_GRAPH_BATCH, unless a round is to have fewer. */
static int graph_batch(const bench_options_t *options)
{
    return 0 != options->iterations && options->iterations < BENCH_GRAPH_BATCH ? options->iterations
                                                                               : BENCH_GRAPH_BATCH;
}

/*
 * Opens the contender that --compare names, in `rival`, and makes *rival_p point to it. Without --compare, *rival_p is
 * NULL. All ranks return the same: false if the contender cannot be opened, after a line that says why, unless memory
 * has run out.
 */
static bool open_rival(bench_env_t *env, const bench_options_t *options, const bench_buffers_t *buffers,
                       bench_contender_t *rival, bench_contender_t **rival_p)
{
    const bool waits = !bench_mode_queues(options->mode);

    *rival_p = NULL;
    switch (options->compare) {
    case BENCH_COMPARE_NCCL:
        if (!bench_nccl_open(env, options->nccl_library, waits, options->nccl_spin, rival)) {
            return false;
        }
        break;
    case BENCH_COMPARE_STAGED:
        if (!bench_staged_open(env, options->max_bytes, rival)) {
            return false;
        }
        break;
    case BENCH_COMPARE_LAUNCHED:
        if (!bench_launched_open(env, rival)) {
            return false;
        }
        break;
    case BENCH_COMPARE_NATIVE:
        if (!bench_native_open(env, rival)) {
            return false;
        }
        break;
    case BENCH_COMPARE_COPIES:
        if (!bench_copies_open(env, buffers, waits, rival)) {
            return false;
        }
        break;
    case BENCH_COMPARE_KERNEL:
        if (!bench_plain_open(env, options, waits, rival)) {
            return false;
        }
        break;
    case BENCH_COMPARE_BLOCKING:
        *rival = bench_contender_mpi(env, &bench_colls[0]);
        rival->name = "MPI's blocking function";
        break;
    case BENCH_COMPARE_NONE:
        return true;
    }
    *rival_p = rival;
    return true;
}

/*
 * Replaces *rival_p in mode graph by `graph`, a contender that captures the rival's calls, too. MPI's blocking function
 * cannot be captured and is not replaced. `graph` keeps the rival's address. Prints a line and returns false on the
 * host twin, whose streams capture only the extension library's calls.
 */
static bool capture_rival(bench_env_t *env, const bench_options_t *options, bench_contender_t *graph,
                          bench_contender_t **rival_p)
{
    if (BENCH_MODE_GRAPH != options->mode || *rival_p == NULL || BENCH_COMPARE_BLOCKING == options->compare) {
        return true;
    }
    if (env->on_twin) {
        return bench_refuse("--compare", bench_compare_name(options->compare),
                            "blocking with --mode graph on the host twin");
    }
    *graph = bench_contender_graph(env, *rival_p, graph_batch(options));
    *rival_p = graph;
    return true;
}

/* Closes the contender that open_rival has opened in `rival`, if --compare names one. All ranks call it. */
static void close_rival(bench_env_t *env, const bench_options_t *options, bench_contender_t *rival)
{
    switch (options->compare) {
    case BENCH_COMPARE_NCCL:
        bench_nccl_close();
        break;
    case BENCH_COMPARE_STAGED:
        bench_staged_close(rival);
        break;
    case BENCH_COMPARE_LAUNCHED:
    case BENCH_COMPARE_NATIVE:
        bench_launched_close(rival);
        break;
    case BENCH_COMPARE_COPIES:
        bench_copies_close();
        /* Peers must not free buffers that this rank still maps. */
        MPI_Barrier(env->control);
        break;
    case BENCH_COMPARE_KERNEL:
        bench_plain_close(env);
        break;
    case BENCH_COMPARE_BLOCKING:
    case BENCH_COMPARE_NONE:
        break;
    }
}

/*
 * Returns true if the program calls the host library, not MPI. It does so in a mode that is not MPI's, and for types
 * that MPI lacks, half and bfloat16.
 */
static bool is_served_by_library(const bench_options_t *options, const bench_type_t *type)
{
    return !bench_mode_is_mpi(options->mode) || MPI_DATATYPE_NULL == bench_type_mpi(type);
}

/*
 * Opens the host library if the mode or some type needs it. All ranks return the same: false if that failed, and then
 * rank 0 has printed a line.
 */
static bool open_ours(bench_env_t *env, const bench_options_t *options)
{
    bool ok = true;

    for (int i = 0; ok && i < options->type_count; ++i) {
        ok = !is_served_by_library(options, options->types[i]) || bench_library_open(env);
    }
    return ok;
}

/*
 * Measures one size with one type and operation, in place and out of place, if the report has these columns. If MPI
 * serves our calls or the rival's, skips a size whose count does not fit into MPI's int; nothing in *row is then
 * measured. Returns false if a call or a copy failed.
 */
static bool run_size(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers,
                     bench_contender_t *ours, bench_contender_t *rival, bench_report_t *report, bench_row_t *row)
{
    const bool rival_is_mpi = BENCH_COMPARE_STAGED == options->compare || BENCH_COMPARE_BLOCKING == options->compare;
    const bool is_mpi = bench_mode_is_mpi(options->mode) && ours->team == NULL;

    if ((is_mpi || rival_is_mpi) && !bench_layout_fits_int(row->layout, row->type->size)) {
        if (0 == env->rank) {
            printf("# %zu elements: MPI's count is an int; left out\n", row->layout->count);
        }
        return true;
    }
    return (!report->out_of_place ||
            bench_measure(env, options, buffers, ours, rival, row, false, &row->out_of_place)) &&
           (!report->in_place || bench_measure(env, options, buffers, ours, rival, row, true, &row->in_place));
}

/* How many elements were wrong in our results, and in the rival's results. */
typedef struct {
    uint64_t ours;
    uint64_t rival;
} wrong_t;

/*
 * Returns the contender that is measured. In mode graph it refers to *queued, the contender whose calls are captured,
 * so *queued must stay as long.
 */
static bench_contender_t choose_ours(bench_env_t *env, const bench_options_t *options, const bench_coll_t *coll,
                                     const bench_type_t *type, bench_contender_t *queued)
{
    if (is_served_by_library(options, type)) {
        return bench_contender_library(env, env->team, coll, BENCH_MODE_STREAM == options->mode);
    }
    switch (options->mode) {
    case BENCH_MODE_NONBLOCKING:
    case BENCH_MODE_PERSISTENT:
        return bench_contender_requests(env, coll, BENCH_MODE_PERSISTENT == options->mode);
    case BENCH_MODE_QUEUED:
        return bench_contender_queued(env, coll);
    case BENCH_MODE_GRAPH:
        *queued = bench_contender_queued(env, coll);
        return bench_contender_graph(env, queued, graph_batch(options));
    default:
        return bench_contender_mpi(env, coll);
    }
}

/*
 * Measures the sizes of the report's collective with one type and operation. Prints a row for each size that could be
 * measured (run_size), and adds the numbers of wrong elements to *wrong. Sizes that are equal after rounding to whole
 * blocks are measured once, and sizes without an element are skipped. `queued` stays as long as `ours`, which may refer
 * to it. Returns false if memory ran out, if a call or a copy failed, or if the plan of --plan did not serve a call.
 * The layout is then not closed, because the program ends.
 */
static bool run_table(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers,
                      bench_contender_t *rival, const bench_type_t *type, const bench_op_t *op, bench_report_t *report,
                      wrong_t *wrong)
{
    const bench_coll_t *coll = report->coll;
    bench_contender_t queued, ours = choose_ours(env, options, coll, type, &queued);
    size_t previous = 0;

    ours.name = env->plan != NULL ? env->plan : ours.name;
    /* The size is real, because the factor is. */
    for (double size = (double)options->min_bytes; size <= (double)options->max_bytes; size *= options->factor) {
        bench_row_t row = {.type = type, .op = op, .path = ours.name};
        bench_layout_t layout;
        size_t count = bench_layout_max_count(coll, env->size, (size_t)size, type->size);
        bool ok;

        row.bytes = count * type->size;
        if (row.bytes == previous || 0 == count) {
            continue;
        }
        previous = row.bytes;
        ok = bench_layout_open(&layout, coll, env->rank, env->size, options->root, count, bench_type_mpi(type),
                               type->size);
        row.layout = &layout;
        if (!ok || !run_size(env, options, buffers, &ours, rival, report, &row)) {
            return false;
        }
        if (env->plan != NULL && !bench_plan_served(env, type, row.bytes)) {
            return false;
        }
        if (row.out_of_place.is_measured || row.in_place.is_measured) {
            bench_report_row(report, &row);
        }
        bench_layout_close(&layout);
        wrong->ours += row.out_of_place.wrong + row.in_place.wrong;
        wrong->rival += row.out_of_place.rival_wrong + row.in_place.rival_wrong;
    }
    return true;
}

/*
 * Measures one collective with all types and operations. A collective that only moves data is measured with one
 * operation, because the operation has no effect. After a failure prints a line and returns false; peers may then still
 * wait within a call.
 */
static bool run_coll(bench_env_t *env, const bench_options_t *options, bench_buffers_t *buffers,
                     bench_contender_t *rival, const bench_coll_t *coll, bench_report_t *report, wrong_t *wrong)
{
    const int op_count = coll->reduces ? options->op_count : 1;
    bench_component_t before, after;

    bench_report_begin(report, coll, rival);
    if (!report->in_place && !report->out_of_place) {
        return true; /* bench_report_begin has said that there is nothing to measure */
    }
    bench_component_read(&before);
    for (int i = 0; i < options->type_count; ++i) {
        for (int j = 0; j < op_count; ++j) {
            if (!run_table(env, options, buffers, rival, options->types[i], options->ops[j], report, wrong)) {
                fprintf(stderr, "mscclpp_bench: rank %d: measuring %s %s%s%s failed\n", env->rank, coll->name,
                        options->types[i]->name, coll->reduces ? " " : "", coll->reduces ? options->ops[j]->name : "");
                return false;
            }
        }
    }
    bench_component_read(&after);
    bench_report_end(report, &before, &after);
    return true;
}

/*
 * Runs the mode that the options name. Returns the exit status: 0; BENCH_EXIT_USAGE if mode transpose refuses a length;
 * or BENCH_EXIT_WRONG after a wrong result or a failure. `stack`: memory for buffers on the stack, or NULL. The rival
 * is opened before ours, and closed before the host library. The buffers are freed last, because everything else may
 * use them.
 */
static int run_benchmark(bench_env_t *env, bench_options_t *options, char *stack)
{
    const bool uses_queue = BENCH_MODE_QUEUED == options->mode || BENCH_MODE_GRAPH == options->mode;
    bench_contender_t rival_storage, rival_graph, *rival; /* `rival`: one of the two, or NULL */
    bench_component_t component;
    bench_buffers_t buffers;
    bench_report_t report;
    wrong_t wrong = {0, 0};
    bool ok;

    if (!can_run(env, options)) {
        return BENCH_EXIT_WRONG;
    }
    if (BENCH_MODE_PORT == options->mode) {
        return bench_port_measure(env, options) ? 0 : BENCH_EXIT_WRONG;
    }
    if (BENCH_MODE_TRANSPOSE == options->mode) {
        return bench_transpose_measure(env, options);
    }
    if (BENCH_MODE_CHANNEL == options->mode) {
        return bench_channel_measure(env, options) ? 0 : BENCH_EXIT_WRONG;
    }
    /* After a failure below, most of what was opened before is left to the end of the process. */
    if (!bench_plan_open(env, options)) {
        bench_plan_close(env);
        return BENCH_EXIT_WRONG;
    }
    if (!bench_all(env->control, bench_buffers_open(&buffers, env, options->max_bytes, options->memory, stack))) {
        return BENCH_EXIT_WRONG;
    }
    if (!open_rival(env, options, &buffers, &rival_storage, &rival) ||
        !capture_rival(env, options, &rival_graph, &rival) || !open_ours(env, options) ||
        (uses_queue && !bench_queued_open(env, &buffers, BENCH_MODE_GRAPH == options->mode)) ||
        (options->between.is_given && !bench_between_open(env, &options->between, bench_mode_queues(options->mode))) ||
        !bench_report_open(&report, options, env)) {
        bench_buffers_close(&buffers, env);
        return BENCH_EXIT_WRONG;
    }
    bench_report_header(&report);
    for (int i = 0; i < options->coll_count; ++i) {
        if (!run_coll(env, options, &buffers, rival, options->colls[i], &report, &wrong)) {
            /* The peers may be waiting within the call that failed here. */
            MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
        }
    }
    bench_component_read(&component);
    ok = bench_report_close(&report, wrong.ours, wrong.rival, &component);
    close_rival(env, options, &rival_storage);
    bench_between_close();
    bench_queued_close(env);
    bench_library_close(env);
    bench_plan_close(env);
    bench_buffers_close(&buffers, env);
    return bench_all(env->control, ok && 0 == wrong.ours && 0 == wrong.rival) ? 0 : BENCH_EXIT_WRONG;
}

/* Runs the benchmark with memory for buffers on the stack. */
static int run_on_stack(bench_env_t *env, bench_options_t *options)
{
    char stack[2 * BENCH_STACK_BUFFER];

    return run_benchmark(env, options, stack);
}

/* Returns the default size of the largest message, in bytes. It is not below --min. */
static size_t find_largest(const bench_env_t *env, const bench_options_t *options)
{
    if (BENCH_MODE_CHANNEL == options->mode) {
        return options->min_bytes > CHANNEL_LARGEST ? options->min_bytes : CHANNEL_LARGEST;
    }
    switch (options->memory) {
    case BENCH_MEMORY_DEVICE:
        return bench_env_largest(env, options->min_bytes);
    case BENCH_MEMORY_STACK:
        return BENCH_STACK_BUFFER;
    case BENCH_MEMORY_HEAP:
    case BENCH_MEMORY_LARGE:
        break;
    }
    return options->min_bytes > HOST_LARGEST ? options->min_bytes : HOST_LARGEST;
}

/*
 * Chooses the device and the sizes that depend on it. On failure prints one line, sets the exit status, returns false.
 */
static bool choose_device(bench_env_t *env, bench_options_t *options, int *status_p)
{
    *status_p = BENCH_EXIT_WRONG;
    if (!bench_env_choose_device(env, options->device)) {
        return false;
    }
    if (options->between.is_given && !bench_between_possible(env, &options->between)) {
        *status_p = BENCH_EXIT_USAGE;
        return false;
    }
    if (0 == options->max_bytes) {
        options->max_bytes = find_largest(env, options);
    }
    return true;
}

/*
 * Parses the command line, starts MPI and measures. Returns 0 or a BENCH_EXIT_ constant. After a failure before
 * MPI_Init, or in the choice of the device, calls bench_early_exit_status. So the rank that prints can still do so
 * before the launcher ends all ranks.
 */
int main(int argc, char **argv)
{
    bench_options_t options;
    bench_env_t env;
    int status;
    bool chooses_early;

    memset(&env, 0, sizeof(env));
    if (!bench_options_parse(argc, argv, &options, &status)) {
        return bench_early_exit_status(status);
    }
    /*
     * For buffers in host memory, the time of MPI_Init is measured as in an application that does not use the GPU. It
     * would be shorter if the driver were already open, so the device is chosen later.
     */
    chooses_early = BENCH_MEMORY_DEVICE == options.memory;
    if (chooses_early && !choose_device(&env, &options, &status)) {
        return bench_early_exit_status(status);
    }
    if (!chooses_early && 0 != strcmp(options.device, "auto")) {
        setenv("OMPI_MCA_coll_mscclpp_device", options.device, 0);
    }
    env.init_seconds = -bench_now();
    MPI_Init(&argc, &argv);
    env.init_seconds += bench_now();
    if (!chooses_early && !choose_device(&env, &options, &status)) {
        MPI_Finalize();
        return bench_early_exit_status(status);
    }
    status = BENCH_EXIT_WRONG;
    if (bench_env_open(&env)) {
        bench_component_open();
        env.init_seconds = bench_max(env.control, env.init_seconds);
        status =
            BENCH_MEMORY_STACK == options.memory ? run_on_stack(&env, &options) : run_benchmark(&env, &options, NULL);
        bench_component_close();
    }
    bench_env_close(&env);
    MPI_Finalize();
    return bench_exit_status(status);
}
