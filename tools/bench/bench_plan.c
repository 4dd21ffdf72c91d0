/* Opens the execution plan of --plan, which serves the calls in place of the library's own algorithms. */
#include "tools/bench/bench.h"

#include <string.h>

#include "mca/common/team/plans.h"

/*
 * Returns the reason why the plan in the library's only file cannot be measured, or NULL if it can. `count` is the
 * number of files in the library; `files` is only read if it is 1. The refusal of a file is checked first, because a
 * refused file may have no plan.
 */
static const char *refusal_of(const mscclpp_plan_file_t *files, int count, int ranks, bool on_twin)
{
    if (count != 1) {
        return "it is not one file";
    }
    if (files->plan == NULL || files->refusal != NULL) {
        return files->refusal != NULL ? files->refusal : "no memory";
    }
    if (files->plan->collective > MSCCLPP_PLAN_ALLTOALL) {
        return "its collective is none of allreduce, allgather, reducescatter and alltoall";
    }
    return files->plan->rank_count != (uint32_t)ranks ? "it is for another number of ranks"
                                                      : mscclpp_plan_library_misfit(files, on_twin);
}

/*
 * Reads the plan, and lets it serve all sizes. Sets the options' collective to the plan's and, if the plan has only one
 * operation, the options' operation, too. Must be called before the team is made, because the team takes the plans that
 * exist then. The name in env->plan belongs to the library, and stays as long as env->plans. After a failure
 * bench_plan_close frees what was read. The first rank that cannot use the plan prints why.
 */
bool bench_plan_open(bench_env_t *env, bench_options_t *options)
{
    mscclpp_plan_file_t *file = NULL;
    const char *refusal = "no memory";
    int count, first;

    if (options->plan == NULL) {
        return true;
    }
    env->plans = mscclpp_plan_library_create(options->plan);
    if (env->plans != NULL) {
        count = mscclpp_plan_library_load(env->plans, &file);
        refusal = refusal_of(file, count, env->size, env->on_twin);
    }
    /* The largest value is that of the lowest rank. */
    first = -(int)bench_max(env->control, refusal == NULL ? -env->size : -env->rank);
    if (first < env->size) {
        if (first == env->rank) {
            fprintf(stderr, "%s: --plan %s: rank %d: %s\n", bench_program, options->plan, env->rank, refusal);
        }
        return false;
    }
    /* It is to serve all sizes that are asked for, whatever its file says. */
    file->plan->min_bytes = 0;
    file->plan->max_bytes = UINT64_MAX;
    env->plan = file->label;
    for (int i = 0; i < bench_coll_count; ++i) {
        if (bench_colls[i].coll == mscclpp_plans_collective(file->plan)) {
            options->coll_count = 1;
            options->colls[0] = &bench_colls[i];
        }
    }
    /* A plan of the largest or the least has only that operation; others reduce by whatever --op says. */
    for (int i = 0; i < bench_op_count && file->only_min_or_max; ++i) {
        if (bench_ops[i].op == (MSCCLPP_PLAN_MAX == file->reduce ? MSCCLPP_OP_MAX : MSCCLPP_OP_MIN)) {
            options->op_count = 1;
            options->ops[0] = &bench_ops[i];
        }
    }
    return true;
}

/*
 * Compares the name of the algorithm that has served the last call with the plan's name. All ranks choose the same
 * algorithm, so they return the same without an agreement. Rank 0 prints a line if the names differ.
 */
bool bench_plan_served(const bench_env_t *env, const bench_type_t *type, size_t bytes)
{
    const char *algorithm = mscclpp_team_last_algorithm(env->team);

    if (0 != strcmp(algorithm, env->plan) && 0 == env->rank) {
        fprintf(stderr, "%s: --plan: %s serves %zu bytes of %s in place of %s; MSCCLPP_VERBOSE=2 says why\n",
                bench_program, algorithm, bytes, type->name, env->plan);
    }
    return 0 == strcmp(algorithm, env->plan);
}

void bench_plan_close(bench_env_t *env)
{
    mscclpp_plan_library_destroy(env->plans);
    env->plans = NULL;
}

/*
 * Opens a team without the plan, and with the rules file. The caller closes it by bench_launched_close. The contender
 * serves all collectives, not only the all-reduce that it is made for.
 */
bool bench_native_open(bench_env_t *env, bench_contender_t *contender_p)
{
    mscclpp_team_t *team;

    if (!bench_team_open(env, &env->config, NULL, &team)) {
        return false;
    }
    *contender_p = bench_contender_library(env, team, &bench_colls[0], false);
    contender_p->name = "native";
    return true;
}
