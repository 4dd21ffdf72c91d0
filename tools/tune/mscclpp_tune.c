/* mscclpp_tune: measures every algorithm on the available ranks, and execution plans if asked, and writes rules that
 * choose the fastest algorithm, collective by collective. See --help. Each algorithm has its own team, with a parameter
 * that forces the algorithm. All teams take turns in every round. */
#include "tools/tune/tune.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/team/plans.h"

const char bench_program[] = "mscclpp_tune";

#define COLUMN_WIDTH 10 /* the least width of a column of times, in characters */

/* How long the end of the program waits for peers that still hold memory of destroyed teams. */
#define FINALIZE_SECONDS 5.0

/* The run for one collective. */
typedef struct {
    bench_env_t *env;
    const tune_options_t *options;
    const bench_coll_t *coll;
    int nodes;                /* number of nodes on which the ranks are */
    tune_table_t table;       /* equal on all ranks */
    tune_files_t files;       /* used on rank 0 only */
    tune_progress_t progress; /* used on rank 0 only */
    bench_buffers_t buffers;
    mscclpp_config_t config[TUNE_MAX_ALGOS];      /* [algorithm]: a configuration that forces this algorithm */
    mscclpp_plan_library_t *library;              /* all plans of --plans; NULL: none */
    mscclpp_plan_library_t *plan[TUNE_MAX_ALGOS]; /* [algorithm]: a library of this plan alone; NULL: no plan */
    bench_contender_t contender[TUNE_MAX_ALGOS];  /* [algorithm]; no team: cannot serve these ranks */
    double size_seconds; /* seconds that the last size took; negative: this run has measured no size yet */
    int interrupted;     /* the signal that interrupted the run, equal on all ranks; 0: none */
} tune_t;

/* Returns true if any rank has received a signal, and then stores it. All ranks call this at the same point. */
static bool poll_interruption(tune_t *tune)
{
    tune->interrupted = (int)bench_max(tune->env->control, (double)tune_caught_signal());
    return 0 != tune->interrupted;
}

/* Opens the layout of calls of a size. The caller closes it; after a failure, which prints a line, it need not. */
static bool open_layout(const tune_t *tune, int size_index, bench_layout_t *layout)
{
    const bench_type_t *type = tune->options->type;

    return bench_layout_open(layout, tune->coll, tune->env->rank, tune->env->size, 0,
                             tune->table.bytes[size_index] / type->size, bench_type_mpi(type), type->size);
}

/* Returns the call that is measured: with the operation sum, and out of place where the collective can be. */
static bench_operation_t operation_of(const tune_t *tune, const bench_layout_t *layout)
{
    bench_operation_t operation = {.send = tune->buffers.send,
                                   .recv = tune->buffers.recv,
                                   .type = tune->options->type,
                                   .op = &bench_ops[0],
                                   .layout = layout};

    return operation;
}

/* Returns true if the plan of a file is valid, sums, and is for this collective and number of ranks. */
static bool can_measure_plan(const tune_t *tune, const mscclpp_plan_file_t *file)
{
    return file->plan != NULL && file->refusal == NULL && file->plan->collective <= MSCCLPP_PLAN_ALLTOALL &&
           mscclpp_plans_collective(file->plan) == tune->coll->coll &&
           file->plan->rank_count == (uint32_t)tune->env->size && !file->only_min_or_max;
}

/* Adds the plans that can be measured to the table, and prints the plans that are left out, on rank 0. Returns false
 * after a line on standard error if there are too many plans, two plans of one name, or a name that is too long. */
static bool list_plans(tune_t *tune)
{
    mscclpp_plan_file_t *files;
    int count = mscclpp_plan_library_load(tune->library, &files);

    for (int i = 0; i < count && 0 == tune->env->rank; ++i) {
        if (!can_measure_plan(tune, &files[i])) {
            printf("# %s: %s%s%s: left out\n", files[i].path, files[i].refusal != NULL ? files[i].refusal : "not for ",
                   files[i].refusal != NULL ? "" : tune->coll->name,
                   files[i].refusal != NULL ? "" : " of sums with so many ranks");
        } else if (tune_algo_find(&tune->table, files[i].label) >= 0 ||
                   !tune_table_add_plan(&tune->table, files[i].plan->name)) {
            fprintf(stderr,
                    "%s: --plans: %s: there are too many plans, two plans of one name, or a name that is too long\n",
                    bench_program, files[i].path);
            return false;
        }
    }
    return true;
}

/* Returns a library that contains the plan `name` alone and uses it for all sizes. The caller destroys the library. If
 * this rank does not have the plan, or memory runs out, prints a line on standard error and returns NULL. */
static mscclpp_plan_library_t *make_single_library(tune_t *tune, const char *name)
{
    mscclpp_plan_library_t *library = NULL;
    mscclpp_plan_file_t *files, *single = NULL;
    int count = mscclpp_plan_library_load(tune->library, &files);

    for (int i = 0; i < count; ++i) {
        if (can_measure_plan(tune, &files[i]) && 0 == strcmp(files[i].label, name)) {
            library = mscclpp_plan_library_create(files[i].path);
        }
    }
    if (library != NULL && 1 == mscclpp_plan_library_load(library, &single) && single->plan != NULL) {
        single->plan->min_bytes = 0;
        single->plan->max_bytes = UINT64_MAX;
        return library;
    }
    fprintf(stderr, "%s: rank %d has no %s\n", bench_program, tune->env->rank, name);
    mscclpp_plan_library_destroy(library);
    return NULL;
}

/* Returns true if the algorithm itself served the last call, not one in its place. All ranks return the same. */
static bool was_served(const bench_contender_t *contender)
{
    return bench_all(contender->env->control,
                     0 == strcmp(mscclpp_team_last_algorithm(contender->team), contender->name));
}

/* Ends the job after a call that failed on this rank: the peers may wait within it. The file of times stays. */
static void end_job(const tune_t *tune)
{
    fprintf(stderr, "%s: rank %d: measuring failed\n", bench_program, tune->env->rank);
    MPI_Abort(MPI_COMM_WORLD, BENCH_EXIT_WRONG);
}

/* Makes one call of the smallest size, and sets *serves_p to whether the algorithm served the call on all ranks. If the
 * call fails, ends the job, because other ranks may wait within the call. Returns false on all ranks if one of them has
 * no memory for the layout. */
static bool try_contender(tune_t *tune, int algo, bool *serves_p)
{
    bench_layout_t layout;
    const bool is_open = open_layout(tune, 0, &layout), ok = bench_all(tune->env->control, is_open);

    if (ok) {
        const bench_operation_t operation = operation_of(tune, &layout);

        if (!bench_repeat(&tune->contender[algo], &operation, 1)) {
            end_job(tune);
        }
        *serves_p = was_served(&tune->contender[algo]);
    }
    if (is_open) {
        bench_layout_close(&layout);
    }
    return ok;
}

/*
 * Opens the contender of an algorithm, with a team in which the algorithm serves all sizes. If a first call shows that
 * the algorithm cannot serve these ranks, prints a line on rank 0 and leaves the contender without a team. Returns
 * false on all ranks, after a line on standard error, if a rank lacks the plan, a team cannot be opened, or memory runs
 * out.
 */
static bool open_contender(tune_t *tune, int algo)
{
    bench_env_t *env = tune->env;
    bench_contender_t *contender = &tune->contender[algo];
    mscclpp_team_t *team = NULL;
    bool serves = false;

    if (!tune_algo_can_serve(&tune->table, algo)) {
        return true;
    }
    tune->config[algo] = env->config;
    if (algo < tune->table.builtin_count) {
        *tune_setting_of(&tune->config[algo], tune->coll->coll) = tune_algo_name(&tune->table, algo);
    } else {
        tune->plan[algo] = make_single_library(tune, tune_algo_name(&tune->table, algo));
        if (!bench_all(env->control, tune->plan[algo] != NULL)) {
            return false;
        }
    }
    if (!bench_team_open(env, &tune->config[algo], tune->plan[algo], &team)) {
        return false;
    }
    *contender = bench_contender_library(env, team, tune->coll, false);
    contender->name = tune_algo_name(&tune->table, algo);
    if (!try_contender(tune, algo, &serves)) {
        return false;
    }
    if (!serves) {
        if (0 == env->rank) {
            printf("# %s cannot serve these ranks and is left out\n", contender->name);
        }
        mscclpp_team_destroy(team);
        contender->team = NULL;
    }
    return true;
}

/* Shows the progress on rank 0: the fraction `fraction` of size number `size_index` is already measured. */
static void show_progress(tune_t *tune, int size_index, double fraction, bool size_done)
{
    double seconds_left = -1;

    if (0 != tune->env->rank) {
        return;
    }
    if (tune->size_seconds >= 0) {
        seconds_left = tune_seconds_left(&tune->table, size_index, tune->size_seconds);
        if (seconds_left >= 0) {
            seconds_left -= fraction * tune->size_seconds;
            seconds_left = seconds_left < 0 ? 0 : seconds_left;
        }
    }
    tune_progress_show(&tune->progress, size_index, tune->table.size_count, fraction, seconds_left, size_done);
}

/* Verifies an algorithm, warms it up, and sets *calls_p to the number of calls in a round, which is equal on all ranks.
 * *calls_p is 0 if the algorithm cannot serve this size, so that the library used another algorithm for the call.
 * Returns false after a wrong result, which rank 0 prints, or after a failed call. */
static bool prepare_contender(tune_t *tune, int algo, const bench_operation_t *operation, int *calls_p)
{
    const tune_options_t *options = tune->options;
    bench_env_t *env = tune->env;
    bench_contender_t *contender = &tune->contender[algo];
    uint64_t wrong;
    double estimate;

    if (!bench_check(env, 1, &tune->buffers, contender, operation, true, &wrong)) {
        return false;
    }
    if (0 != wrong) {
        if (0 == env->rank) {
            fprintf(stderr, "%s: %s: %llu wrong elements of %zu bytes\n", bench_program, contender->name,
                    (unsigned long long)wrong, operation->layout->count * operation->type->size);
        }
        return false;
    }
    *calls_p = 0;
    if (!was_served(contender)) {
        return true;
    }
    if (!bench_repeat(contender, operation, options->warmup) ||
        !bench_time_round(env, contender, operation, BENCH_MIN_ITERATIONS, &estimate)) {
        return false;
    }
    *calls_p = bench_iterations(estimate);
    return true;
}

/* Measures one size. All algorithms take turns in every round, and the medians of their times are stored in the table;
 * 0 means that an algorithm was left out. If the run is interrupted, *is_done_p is false and the table remains
 * unchanged. All ranks check for an interruption at the same points. Returns false after a wrong result or a failed
 * call. */
static bool measure_calls(tune_t *tune, int size_index, const bench_operation_t *operation, bool *is_done_p)
{
    const tune_options_t *options = tune->options;
    bench_times_t times[TUNE_MAX_ALGOS];
    int calls[TUNE_MAX_ALGOS] = {0}, algo_count = tune->table.algo_count;
    double started = bench_now();
    bool is_served = false;

    *is_done_p = false;
    memset(times, 0, sizeof(times));
    /* If no other algorithm can serve this size, the hopeless ones are measured, too. */
    for (int hopeless = 0; hopeless < 2 && !is_served; ++hopeless) {
        for (int algo = 0; algo < algo_count; ++algo) {
            if (poll_interruption(tune)) {
                return true;
            }
            if (tune->contender[algo].team == NULL || hopeless != tune_is_hopeless(&tune->table, size_index, algo)) {
                continue;
            }
            if (!prepare_contender(tune, algo, operation, &calls[algo])) {
                return false;
            }
            is_served = is_served || calls[algo] > 0;
        }
    }
    for (int round = 0; round < options->rounds; ++round) {
        for (int turn = 0; turn < algo_count; ++turn) {
            /* The first algorithm changes from round to round, so that the order favours none. */
            int algo = (turn + round) % algo_count;
            if (0 == calls[algo]) {
                continue;
            }
            if (poll_interruption(tune)) {
                return true;
            }
            if (!bench_time_round(tune->env, &tune->contender[algo], operation, calls[algo],
                                  &times[algo].seconds[times[algo].rounds])) {
                return false;
            }
            ++times[algo].rounds;
            show_progress(tune, size_index, (round * algo_count + turn + 1.0) / (options->rounds * algo_count), false);
        }
    }
    for (int algo = 0; algo < algo_count; ++algo) {
        tune->table.seconds[size_index][algo] = bench_times_median(&times[algo]);
    }
    tune->size_seconds = bench_now() - started;
    *is_done_p = true;
    return true;
}

/* Measures one size as measure_calls does. Also returns false if memory for the layout runs out. */
static bool measure_size(tune_t *tune, int size_index, bool *is_done_p)
{
    bench_layout_t layout;
    bool ok = false;

    if (open_layout(tune, size_index, &layout)) {
        const bench_operation_t operation = operation_of(tune, &layout);

        ok = measure_calls(tune, size_index, &operation, is_done_p);
    }
    bench_layout_close(&layout);
    return ok;
}

/* Prints what is measured, and the heads of the columns: the algorithms that can serve. Only rank 0 prints. */
static void print_header(const tune_t *tune)
{
    const bench_env_t *env = tune->env;

    if (0 != env->rank) {
        return;
    }
    printf("# mscclpp_tune %s: %s of %s, %s%d ranks on %d node%s, %s\n", MSCCLPP_VERSION, tune->coll->title,
           tune->options->type->name, tune->coll->in_place ? "out of place, " : "", env->size, tune->nodes,
           tune->nodes > 1 ? "s" : "", env->on_twin ? "HOST TWIN" : env->places[0].device_name);
    printf("# times in us, median of %d rounds of the slowest rank's average; -: too slow, left out\n",
           tune->options->rounds);
    printf("# %10s", "bytes");
    for (int algo = 0; algo < tune->table.algo_count; ++algo) {
        if (tune_algo_can_serve(&tune->table, algo)) {
            printf(" %10s", tune_algo_name(&tune->table, algo));
        }
    }
    printf("  fastest\n");
    fflush(stdout);
}

/* Prints the row of one size: the time of each algorithm, and the fastest. "-": not measured. Only rank 0 prints. */
static void print_size(tune_t *tune, int size_index)
{
    const tune_table_t *table = &tune->table;
    int fastest;

    if (0 != tune->env->rank) {
        return;
    }
    tune_progress_hide(&tune->progress);
    printf("  %10zu", table->bytes[size_index]);
    for (int algo = 0; algo < table->algo_count; ++algo) {
        const int width = (int)strlen(tune_algo_name(table, algo));

        if (!tune_algo_can_serve(table, algo)) {
            continue;
        }
        if (table->seconds[size_index][algo] > 0) {
            printf(" %*.2f", width > COLUMN_WIDTH ? width : COLUMN_WIDTH, 1e6 * table->seconds[size_index][algo]);
        } else {
            printf(" %*s", width > COLUMN_WIDTH ? width : COLUMN_WIDTH, "-");
        }
    }
    fastest = tune_fastest(table, size_index);
    printf("  %s\n", fastest >= 0 ? tune_algo_name(table, fastest) : "no algorithm can serve it");
    fflush(stdout);
}

/* Prints the sizes up to the first one that earlier runs did not measure, and measures all missing sizes, until the run
 * is interrupted. The times of each size are appended to the file at once. Returns false if measuring or writing fails.
 * Other ranks may then wait within a call, so the caller ends the job. */
static bool measure_missing(tune_t *tune)
{
    bench_env_t *env = tune->env;
    int known = tune_first_missing(&tune->table), size_index;
    bool is_done = true;

    print_header(tune);
    for (size_index = 0; size_index < known; ++size_index) {
        print_size(tune, size_index);
    }
    if (known > 0 && 0 == env->rank) {
        printf("# %d of %d sizes were measured by earlier runs (%s)\n", known, tune->table.size_count,
               tune->files.path);
        fflush(stdout);
    }
    for (size_index = known; size_index < tune->table.size_count; ++size_index) {
        if (tune_is_measured(&tune->table, size_index)) {
            continue;
        }
        show_progress(tune, size_index, 0, false);
        if (!measure_size(tune, size_index, &is_done)) {
            return false;
        }
        if (!is_done) {
            break;
        }
        print_size(tune, size_index);
        if (!bench_all(env->control, 0 != env->rank || tune_files_add(&tune->files, &tune->table, size_index))) {
            return false;
        }
        show_progress(tune, size_index + 1, 0, true);
    }
    tune_progress_hide(&tune->progress);
    return true;
}

/* Writes the rules for all sizes below the first missing one, on rank 0. If the rules cannot be written, rank 0 prints
 * a line and the function returns false on all ranks. */
static bool write_rules(tune_t *tune)
{
    int measured = tune_first_missing(&tune->table);
    uint64_t count = 0;
    bool ok = true;

    if (0 == tune->env->rank && measured > 0) {
        ok = tune_files_write_rules(&tune->files, &tune->table, &count);
        if (ok) {
            printf("# %llu rules for up to %zu bytes: --mca coll_mscclpp_rules %s\n", (unsigned long long)count,
                   tune->table.block_bytes[measured - 1], tune->options->output);
        }
    }
    if (0 == tune->env->rank && 0 != tune->interrupted) {
        printf("# interrupted after %d of %d sizes; the same command goes on from here\n", measured,
               tune->table.size_count);
    }
    fflush(stdout);
    return bench_all(tune->env->control, ok);
}

/* Fills in the table's sizes, and the largest block of each size, because rules refer to blocks. If a buffer has
 * blocks, its number of elements is a multiple of the number of ranks. Returns the same on all ranks: false if the
 * options yield no size or too many, which rank 0 prints, or if a rank runs out of memory. */
static bool open_table(tune_t *tune)
{
    const tune_options_t *options = tune->options;
    const size_t blocks = BENCH_WHOLE == tune->coll->blocks ? 1 : (size_t)tune->env->size;
    bench_layout_t layout;
    bool ok = tune_table_init(&tune->table, tune->coll->coll, tune->nodes, options->min_bytes, options->max_bytes,
                              options->factor, options->type->size * blocks);

    if (!ok && 0 == tune->env->rank) {
        fprintf(stderr, "%s: --min, --max and --factor give no size of %s, or more than %d; use other values\n",
                bench_program, tune->coll->name, TUNE_MAX_SIZES);
    }
    for (int size_index = 0; ok && size_index < tune->table.size_count; ++size_index) {
        ok = open_layout(tune, size_index, &layout);
        if (ok) {
            tune->table.block_bytes[size_index] = bench_layout_largest_block(&layout) * options->type->size;
            bench_layout_close(&layout);
        }
    }
    return bench_all(tune->env->control, ok);
}

/* Prepares the run. Rank 0 adds the plans and the times of earlier runs to its table and sends the table to all ranks.
 * Each rank then opens the buffers, and a contender for each algorithm. Returns false on all ranks if one of them
 * fails. The caller calls close_run in either case. */
static bool open_run(tune_t *tune, int index)
{
    bench_env_t *env = tune->env;
    bool ok = true;

    if (!open_table(tune)) {
        return false;
    }
    if (tune->options->plans != NULL) {
        tune->library = mscclpp_plan_library_create(tune->options->plans);
    }
    if (0 == env->rank) {
        tune_progress_init(&tune->progress, tune->options->progress, tune->coll->name, index,
                           tune->options->coll_count);
        ok = list_plans(tune) && tune_files_open(&tune->files, tune->options, env, &tune->table);
    }
    if (!bench_all(env->control, ok)) {
        return false;
    }
    bench_broadcast(env->control, &tune->table, sizeof(tune->table));
    if (!bench_all(env->control, bench_buffers_open(&tune->buffers, env, tune->table.bytes[tune->table.size_count - 1],
                                                    BENCH_MEMORY_DEVICE, NULL))) {
        return false;
    }
    for (int algo = 0; ok && algo < tune->table.algo_count; ++algo) {
        ok = open_contender(tune, algo);
    }
    return ok;
}

/* Frees everything that open_run has made, even if it failed. Teams are destroyed before the plans that they use. */
static void close_run(tune_t *tune)
{
    for (int algo = 0; algo < tune->table.algo_count; ++algo) {
        mscclpp_team_destroy(tune->contender[algo].team);
    }
    for (int algo = 0; algo < tune->table.algo_count; ++algo) {
        mscclpp_plan_library_destroy(tune->plan[algo]);
    }
    mscclpp_plan_library_destroy(tune->library);
    bench_buffers_close(&tune->buffers, tune->env);
    if (0 == tune->env->rank) {
        tune_files_close(&tune->files);
    }
}

/* Measures a collective and writes its rules. Returns the exit status: 0, BENCH_EXIT_WRONG after a failure, or 128 plus
 * the number of the signal that interrupted the run. If measuring fails, ends the job instead. */
static int tune_collective(tune_t *tune, int index)
{
    int status = BENCH_EXIT_WRONG;

    tune->coll = tune->options->colls[index];
    tune->size_seconds = -1;
    if (open_run(tune, index)) {
        if (!measure_missing(tune)) {
            end_job(tune);
        }
        if (write_rules(tune)) {
            status = 0 == tune->interrupted ? 0 : 128 + tune->interrupted; /* the status that a shell would report */
        }
    }
    close_run(tune);
    return status;
}

/* Measures all collectives that the options name, until one fails or is interrupted. Returns the exit status of the
 * last one, or BENCH_EXIT_WRONG if there are too few ranks or no team can be made. */
static int tune_collectives(bench_env_t *env, const tune_options_t *options)
{
    static tune_t tune; /* large */
    int status = 0;

    const int nodes = env->size < 2 ? 1 : tune_count_nodes(env);

    if (env->size < 2 || 0 == nodes) {
        if (0 == env->rank) {
            fprintf(stderr, "%s: %d ranks: rules are for 2 to %d ranks on a node, and for those on several\n",
                    bench_program, env->size, MSCCLPP_DEV_MAX_RANKS);
        }
        return BENCH_EXIT_WRONG;
    }
    for (int i = 0; i < options->coll_count && 0 == status; ++i) {
        memset(&tune, 0, sizeof(tune));
        tune.env = env;
        tune.options = options;
        tune.nodes = nodes;
        status = tune_collective(&tune, i);
    }
    mscclpp_team_finalize(FINALIZE_SECONDS);
    return status;
}

/* Chooses the device and checks the sizes before MPI_Init, so that bad options are refused before MPI starts. */
int main(int argc, char **argv)
{
    static tune_table_t table; /* large */
    tune_options_t options;
    bench_env_t env;
    int status;

    memset(&env, 0, sizeof(env));
    if (!tune_options_parse(argc, argv, &options, &status)) {
        return bench_early_exit_status(status);
    }
    if (!bench_env_choose_device(&env, options.device)) {
        return bench_early_exit_status(BENCH_EXIT_WRONG);
    }
    if (0 == options.max_bytes) {
        options.max_bytes = bench_env_largest(&env, options.min_bytes);
    }
    /* This table only serves to check the options: each collective later gets its own table. */
    if (!tune_table_init(&table, MSCCLPP_COLL_LAST, 1, options.min_bytes, options.max_bytes, options.factor,
                         options.type->size)) {
        if (bench_prints()) {
            fprintf(stderr, "%s: --min, --max and --factor give no size, or more than %d; use other values\n",
                    bench_program, TUNE_MAX_SIZES);
        }
        return bench_early_exit_status(BENCH_EXIT_USAGE);
    }
    MPI_Init(&argc, &argv);
    tune_catch_signals();
    status = BENCH_EXIT_WRONG;
    if (bench_env_open(&env)) {
        status = options.is_between ? tune_between(&env, &options) : tune_collectives(&env, &options);
    }
    bench_env_close(&env);
    MPI_Finalize();
    return bench_exit_status(status);
}
