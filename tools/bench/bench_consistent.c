/*
 * Checks options of the command line that depend on one another. A check that fails prints one line and returns false.
 */
#include "tools/bench/bench.h"
#include "tools/bench/bench_channel_report.h"

#include <stdio.h>

/* Checks that the mode allows kernels between the calls, and that kernels queued before the calls have a kind. */
static bool between_fits(const bench_options_t *options)
{
    char ahead[16];

    if (options->between.is_given && (BENCH_MODE_PORT == options->mode || BENCH_MODE_GRAPH == options->mode ||
                                      BENCH_MODE_CHANNEL == options->mode || BENCH_MODE_TRANSPOSE == options->mode)) {
        return bench_refuse("--mode", bench_mode_name(options->mode),
                            "blocking, library, stream, nonblocking, persistent or queued with --between");
    }
    if (0 != options->between.kernels_ahead && !bench_between_has_kernels(&options->between)) {
        snprintf(ahead, sizeof(ahead), "%d", options->between.kernels_ahead);
        return bench_refuse("--between-ahead", ahead, "it with kernels of --between");
    }
    return true;
}

/*
 * Checks that collectives of neighbours are measured in the modes blocking, nonblocking or persistent, without
 * --compare, and not with --in-place alone, because MPI has none in place. With --in-place and --out-of-place, or
 * neither, they are measured out of place. The other modes have no such calls: only bench_mpi.c and bench_requests.c
 * make them.
 */
static bool neighbors_fit(const bench_options_t *options, const bench_coll_t *coll)
{
    if (BENCH_MODE_BLOCKING != options->mode && BENCH_MODE_NONBLOCKING != options->mode &&
        BENCH_MODE_PERSISTENT != options->mode) {
        return bench_refuse("--mode", bench_mode_name(options->mode),
                            "blocking, nonblocking or persistent with collectives of neighbours");
    }
    if (BENCH_COMPARE_NONE != options->compare) {
        return bench_refuse("--compare", bench_compare_name(options->compare), "it with collectives of all ranks");
    }
    if (options->in_place && !options->out_of_place) {
        return bench_refuse("--coll", coll->name, "collectives of all ranks with --in-place");
    }
    return true;
}

/*
 * Checks options that only some collectives allow. --root, --op, --out-of-place and --compare copies are refused only
 * if no collective in the list can use them. The list is empty if --coll was not given: then an all-reduce is measured
 * or, with --plan, the plan's collective. An all-reduce has no root, and it does not only move data. So --root and
 * --compare copies are refused with an empty list, too.
 */
static bool colls_fit(const bench_options_t *options)
{
    bool some_reduce = false, some_have_root = false, some_have_two_buffers = false, some_only_move = false;
    char root[16];

    for (int i = 0; i < options->coll_count; ++i) {
        const bench_coll_t *coll = options->colls[i];
        if (BENCH_MODE_STREAM == options->mode && MSCCLPP_COLL_LAST != coll->coll) {
            return bench_refuse("--coll", coll->name, "allreduce with --mode stream");
        }
        if (BENCH_MODE_CHANNEL == options->mode && !bench_channel_has_coll(coll)) {
            return bench_refuse("--coll", coll->name,
                                "allreduce, allgather, reduce_scatter_block or alltoall with --mode channel");
        }
        if (coll->is_of_neighbors && !neighbors_fit(options, coll)) {
            return false;
        }
        some_reduce |= coll->reduces;
        some_have_root |= coll->has_root;
        some_have_two_buffers |= coll->in_place;
        some_only_move |= !coll->reduces;
    }
    if (0 != options->root && !some_have_root) {
        snprintf(root, sizeof(root), "%d", options->root);
        return bench_refuse("--root", root, "it with a collective of --coll that has a root");
    }
    if (options->op_count > 0 && options->coll_count > 0 && !some_reduce) {
        return bench_refuse("--op", options->ops[0]->name, "it with a collective of --coll that reduces");
    }
    if (options->out_of_place && !options->in_place && options->coll_count > 0 && !some_have_two_buffers) {
        return bench_refuse("--out-of-place", "bcast", "it with a collective of --coll that has two buffers");
    }
    if (BENCH_COMPARE_COPIES == options->compare && !some_only_move) {
        return bench_refuse("--compare", "copies", "it with a collective of --coll that moves without reducing");
    }
    return true;
}

/*
 * Checks options that calls on host buffers do not allow: other modes, rivals, types that MPI lacks, and buffers that
 * do not fit on the stack.
 */
static bool host_buffers_fit(const bench_options_t *options)
{
    const char *memory = bench_memory_name(options->memory);

    if (BENCH_MEMORY_DEVICE == options->memory) {
        return true;
    }
    if (BENCH_MODE_BLOCKING != options->mode) {
        return bench_refuse("--mode", bench_mode_name(options->mode), "blocking with --host-buffers");
    }
    if (BENCH_COMPARE_NONE != options->compare) {
        return bench_refuse("--compare", bench_compare_name(options->compare),
                            "a run of its own under --mca coll ^mscclpp with --host-buffers");
    }
    if (BENCH_MEMORY_STACK == options->memory &&
        (options->min_bytes > BENCH_STACK_BUFFER || options->max_bytes > BENCH_STACK_BUFFER)) {
        return bench_refuse("--host-buffers", memory, "heap or large above 64k");
    }
    for (int i = 0; i < options->type_count; ++i) {
        if (MPI_DATATYPE_NULL == bench_type_mpi(options->types[i])) {
            return bench_refuse("--type", options->types[i]->name, "types that MPI has with --host-buffers");
        }
    }
    return true;
}

/*
 * Checks that MPI has all types, if only MPI can serve them: in MPI's modes except blocking, or beside a rival that
 * calls MPI (staged and blocking). In mode blocking the host library serves the types that MPI lacks.
 */
static bool types_fit(const bench_options_t *options)
{
    const bool mode_needs_mpi = bench_mode_is_mpi(options->mode) && BENCH_MODE_BLOCKING != options->mode;
    const bool rival_needs_mpi = BENCH_COMPARE_STAGED == options->compare || BENCH_COMPARE_BLOCKING == options->compare;
    char allowed[64];

    snprintf(allowed, sizeof(allowed), "types that MPI has with --%s %s", rival_needs_mpi ? "compare" : "mode",
             rival_needs_mpi ? bench_compare_name(options->compare) : bench_mode_name(options->mode));
    for (int i = 0; (mode_needs_mpi || rival_needs_mpi) && i < options->type_count; ++i) {
        if (MPI_DATATYPE_NULL == bench_type_mpi(options->types[i])) {
            return bench_refuse("--type", options->types[i]->name, allowed);
        }
    }
    return true;
}

/*
 * Checks that the mode allows the rival of --compare. Modes without any rival are refused by
 * bench_options_fit_together, and the rival native without a plan by plan_fits.
 */
static bool compare_fits(const bench_options_t *options)
{
    const char *compare = bench_compare_name(options->compare);

    if (BENCH_COMPARE_STAGED == options->compare && BENCH_MODE_BLOCKING != options->mode) {
        return bench_refuse("--compare", compare, "it with --mode blocking, as MPI's staged call blocks");
    }
    if (BENCH_COMPARE_BLOCKING == options->compare && BENCH_MODE_BLOCKING == options->mode) {
        return bench_refuse("--compare", compare, "it with another --mode");
    }
    if (BENCH_COMPARE_LAUNCHED == options->compare && BENCH_MODE_LIBRARY != options->mode) {
        return bench_refuse("--mode", bench_mode_name(options->mode), "library with --compare launched");
    }
    if (BENCH_COMPARE_COPIES == options->compare && BENCH_MODE_GRAPH == options->mode) {
        return bench_refuse("--compare", compare, "nccl, kernel or blocking with --mode graph");
    }
    return true;
}

/* Checks that a plan is called in the mode library, without --coll, and that --compare native has a plan. */
static bool plan_fits(const bench_options_t *options)
{
    if (options->plan != NULL && BENCH_MODE_LIBRARY != options->mode) {
        return bench_refuse("--mode", bench_mode_name(options->mode), "library with --plan");
    }
    if (options->plan != NULL && options->coll_count > 0) {
        return bench_refuse("--coll", options->colls[0]->name, "it without --plan, whose file names the collective");
    }
    if (options->plan == NULL && BENCH_COMPARE_NATIVE == options->compare) {
        return bench_refuse("--compare", "native", "it with --plan");
    }
    return true;
}

/*
 * Checks that no options contradict one another. Prints a line about the first contradiction, and returns false. Called
 * before defaults are filled in, so that 0, NULL and empty lists mean that an option was not given.
 */
bool bench_options_fit_together(const bench_options_t *options)
{
    char max[32];

    if (BENCH_MODE_PORT == options->mode || BENCH_MODE_CHANNEL == options->mode ||
        BENCH_MODE_TRANSPOSE == options->mode) {
        const bool takes_coll = BENCH_MODE_CHANNEL == options->mode;

        if (BENCH_COMPARE_NONE != options->compare || options->type_count + options->op_count > 0 ||
            options->in_place || options->out_of_place || (options->coll_count > 0 && !takes_coll)) {
            return bench_refuse("--mode", bench_mode_name(options->mode),
                                takes_coll
                                    ? "it without --compare, --type, --op, --in-place and --out-of-place"
                                    : "it without --coll, --compare, --type, --op, --in-place and --out-of-place");
        }
    }
    if (BENCH_MODE_PORT != options->mode && (options->transport != NULL || 0 != options->window)) {
        return bench_refuse("--mode", bench_mode_name(options->mode), "port with --transport and --window");
    }
    if (BENCH_MODE_TRANSPOSE != options->mode && 0 != options->length) {
        return bench_refuse("--mode", bench_mode_name(options->mode), "transpose with --length");
    }
    if (0 != options->max_bytes && options->min_bytes > options->max_bytes) {
        snprintf(max, sizeof(max), "%zu", options->max_bytes);
        return bench_refuse("--max", max, "a size that is not below --min");
    }
    return compare_fits(options) && plan_fits(options) && types_fit(options) && colls_fit(options) &&
           between_fits(options) && host_buffers_fit(options);
}
