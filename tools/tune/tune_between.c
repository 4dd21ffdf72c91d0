/*
 * Derives the figures of the transport between nodes from the times of all-reduces in which each node sends everything
 * to all other nodes.
 */
#include <string.h>

#include "mca/common/team/parts.h"
#include "tools/tune/tune.h"
#include "tools/tune/tune_fit.h"

/* How long the end of the program waits for peers that still hold memory of the team. */
#define FINALIZE_SECONDS 5.0

/*
 * The sizes that are measured, in bytes. The smallest mostly shows the latency, and the largest mostly shows the
 * bandwidth.
 */
static const size_t sizes[] = {(size_t)16 << 10, (size_t)64 << 10, (size_t)256 << 10, (size_t)1 << 20, (size_t)4 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/*
 * Measures an all-reduce of point->bytes bytes, and sets point->seconds to the same value on all ranks. All ranks call
 * this function. Returns false if a call fails or its result is wrong. Other ranks may then wait within a call, so the
 * caller ends the job.
 */
static bool measure_point(bench_env_t *env, const tune_options_t *options, bench_buffers_t *buffers,
                          bench_contender_t *contender, tune_point_t *point)
{
    const bench_layout_t layout = bench_layout_allreduce(env->rank, env->size, point->bytes / options->type->size);
    const bench_operation_t operation = {
        .send = buffers->send, .recv = buffers->recv, .type = options->type, .op = &bench_ops[0], .layout = &layout};
    bench_times_t times;
    uint64_t wrong;
    double estimate;

    memset(&times, 0, sizeof(times));
    if (!bench_check(env, 1, buffers, contender, &operation, true, &wrong) || wrong != 0 ||
        !bench_repeat(contender, &operation, options->warmup) ||
        !bench_time_round(env, contender, &operation, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    /* bench_time_round yields the time of the slowest rank, so all ranks make the same number of calls. */
    for (; times.rounds < options->rounds; ++times.rounds) {
        if (!bench_time_round(env, contender, &operation, bench_iterations(estimate), &times.seconds[times.rounds])) {
            return false;
        }
    }
    point->seconds = bench_times_median(&times);
    return true;
}

/*
 * Fits the figures to the measured points, beginning with the built-in figures of the transport. Prints the points and
 * the figures, and writes the figures into the rules file. Rank 0 calls this function after all points are measured. If
 * the file cannot be written, tune_files_write_figures prints a line, and this function returns false.
 */
static bool fit_and_write(const tune_options_t *options, const mscclpp_select_input_t *input,
                          const tune_point_t *points)
{
    const int transport = mscclpp_cost_find_transport(input->transport);
    mscclpp_cost_figures_t figures = *mscclpp_cost_find_builtin(input->transport);
    const double error_factor = tune_fit(&figures, input->nodes, input->shards, points, SIZES);
    const mscclpp_rule_figures_t measured = {.is_given = 1,
                                             .latency = figures.latency,
                                             .overhead = figures.overhead,
                                             .gap = figures.gap,
                                             .bandwidth = figures.bandwidth};
    int i;

    printf("# mscclpp_tune %s: all-reduce of %s over %u nodes of %u ranks at least, %s, pattern nodes; times in us\n",
           MSCCLPP_VERSION, options->type->name, input->nodes, input->shards, input->transport);
    printf("# %10s %12s %12s %7s\n", "bytes", "measured", "model", "error");
    for (i = 0; i < SIZES; ++i) {
        const double model = tune_fit_model(&figures, input->nodes, input->shards, points[i].bytes);

        printf("  %10llu %12.2f %12.2f %+6.0f%%\n", (unsigned long long)points[i].bytes, points[i].seconds * 1e6,
               model * 1e6, 100 * (model / points[i].seconds - 1));
    }
    printf("# %s: latency %.3g us, overhead %.3g us, gap %.3g us, %.3g GB/s; the model is off by a factor of %.2f on "
           "average\n",
           input->transport, figures.latency * 1e6, figures.overhead * 1e6, figures.gap * 1e6, figures.bandwidth * 1e-9,
           error_factor);
    if (!tune_files_write_figures(options->output, transport, &measured)) {
        return false;
    }
    printf("# --mca coll_mscclpp_rules %s\n", options->output);
    fflush(stdout);
    return true;
}

/* Opens a team only to ask its fabric for the number of nodes. A team without a fabric has one node. */
int tune_count_nodes(bench_env_t *env)
{
    mscclpp_select_input_t input = {.nodes = 1};
    mscclpp_team_t *team = NULL;

    if (!bench_team_open(env, &env->config, NULL, &team)) {
        return 0;
    }
    if (team->fabric != NULL) {
        mscclpp_fabric_describe(team->fabric, &input);
    }
    mscclpp_team_destroy(team);
    return (int)input.nodes;
}

/*
 * Measures all sizes and writes the figures. All ranks call this function, and it returns the same on all of them. If a
 * call fails, the program ends with MPI_Abort, since other ranks would wait within the call. If any rank has no memory
 * for its buffers, all ranks free theirs; bench_buffers_close does nothing for buffers that were not opened.
 */
int tune_between(bench_env_t *env, const tune_options_t *options)
{
    static tune_point_t points[SIZES];
    mscclpp_config_t config = env->config;
    mscclpp_select_input_t input = {.nodes = 1};
    bench_contender_t contender;
    bench_buffers_t buffers;
    mscclpp_team_t *team = NULL;
    bool ok;
    int i;

    config.algorithm = "nodes";
    if (!bench_team_open(env, &config, NULL, &team)) {
        return BENCH_EXIT_WRONG;
    }
    if (team->fabric != NULL) {
        mscclpp_fabric_describe(team->fabric, &input);
    }
    ok = bench_all(env->control, input.nodes > 1 && input.transport != NULL);
    if (!ok && env->rank == 0) {
        fprintf(stderr, "%s: --between: these ranks are on one node, or no transport connects their nodes\n",
                bench_program);
    }
    if (ok) {
        ok = bench_all(env->control, bench_buffers_open(&buffers, env, sizes[SIZES - 1], BENCH_MEMORY_DEVICE, NULL));
        contender = bench_contender_library(env, team, &bench_colls[0], false);
        for (i = 0; i < SIZES && ok; ++i) {
            points[i].bytes = sizes[i];
            if (!measure_point(env, options, &buffers, &contender, &points[i])) {
                fprintf(stderr, "%s: rank %d: measuring failed\n", bench_program, env->rank);
                MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
            }
        }
        ok = bench_all(env->control, ok && (env->rank != 0 || fit_and_write(options, &input, points)));
        bench_buffers_close(&buffers, env);
    }
    mscclpp_team_destroy(team);
    mscclpp_team_finalize(FINALIZE_SECONDS);
    return ok ? 0 : BENCH_EXIT_WRONG;
}
