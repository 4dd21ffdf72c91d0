/* Chooses the plan that serves a call. */
#include <string.h>

#include "mca/common/algo/coll.h"
#include "mca/common/algo/rule_match.h"
#include "mca/common/team/plans.h"

mscclpp_coll_t mscclpp_plans_collective(const mscclpp_plan_t *plan)
{
    static const mscclpp_coll_t collectives[] = {
        [MSCCLPP_PLAN_ALLREDUCE] = MSCCLPP_COLL_LAST,
        [MSCCLPP_PLAN_ALLGATHER] = MSCCLPP_COLL_ALLGATHER,
        [MSCCLPP_PLAN_REDUCESCATTER] = MSCCLPP_COLL_REDUCE_SCATTER_BLOCK,
        [MSCCLPP_PLAN_ALLTOALL] = MSCCLPP_COLL_ALLTOALL,
    };

    return collectives[plan->collective];
}

/*
 * The collective determines which buffers have a block for each rank; the others have one block. In a plan that
 * programs run by its name, each chunk is a block.
 */
uint64_t mscclpp_plans_blocks(const mscclpp_team_t *team, const mscclpp_team_plan_t *plan, mscclpp_plan_buffer_t buffer)
{
    const mscclpp_plan_t *definition = plan->file->plan;
    const bool is_input = buffer == MSCCLPP_PLAN_INPUT;

    if (plan->file->only_by_name) {
        return definition->ranks[team->group.oob.rank].chunks[buffer];
    }
    return definition->collective == MSCCLPP_PLAN_ALLTOALL ||
                   definition->collective == (is_input ? MSCCLPP_PLAN_REDUCESCATTER : MSCCLPP_PLAN_ALLGATHER)
               ? definition->rank_count
               : 1;
}

/*
 * Returns true if the plan can carry out the operation. A plan that says sum can do every operation; a plan that says
 * max or min, only that.
 */
static bool can_do(const mscclpp_plan_file_t *file, mscclpp_op_t op)
{
    return !file->only_min_or_max || op == (file->reduce == MSCCLPP_PLAN_MAX ? MSCCLPP_OP_MAX : MSCCLPP_OP_MIN);
}

/*
 * Returns true if the plan serves calls like this one. Ignores the size of the call. A plan in place is not for types
 * with padding: where a call is out of place, its input is first copied to the output as bytes, which would overwrite
 * the padding there.
 */
static bool serves(const mscclpp_team_plan_t *plan, const mscclpp_plan_query_t *query)
{
    const mscclpp_plan_file_t *file = plan->file;

    const bool keeps_padding = query->dtype < MSCCLPP_DTYPE_SHORT_INT || !file->plan->in_place;
    const bool has_blocks = query->blocks == 0 || file->blocks <= query->blocks;

    return !file->only_by_name && mscclpp_plans_collective(file->plan) == query->coll && can_do(file, query->op) &&
           keeps_padding && has_blocks;
}

/* Returns true if the user's parameters name an algorithm for such calls, or sizes of algorithms. Then they win. */
static bool is_for_parameters(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll)
{
    const bool is_allreduce = coll == MSCCLPP_COLL_LAST;
    const bool has_sizes =
        (protocol->oneshot_max | protocol->twophase_max | protocol->put_max | protocol->engine_min) != 0;

    return (is_allreduce && has_sizes) || protocol->algorithm == MSCCLPP_ALGO_STAGE ||
           (is_allreduce ? protocol->algorithm : protocol->coll_algorithm[coll]) != MSCCLPP_ALGO_AUTO;
}

/*
 * A rule may be about sizes that are in no plan's range; of several plans of the name, one with the size in its range
 * comes first.
 */
mscclpp_team_plan_t *mscclpp_plans_choose(const mscclpp_team_t *team, const mscclpp_plan_query_t *query)
{
    const mscclpp_protocol_t *protocol = &team->protocol;
    /* A plan's own range is about whole messages, whereas rules are about the size of one block. */
    const uint64_t message =
        query->coll == MSCCLPP_COLL_LAST ? query->bytes : query->bytes * (uint64_t)team->group.oob.size;
    mscclpp_team_plan_t *best = NULL;
    const uint32_t nodes = team->fabric != NULL ? (uint32_t)mscclpp_fabric_nodes(team->fabric)->count : 1;
    int64_t algorithm = 0; /* what the rule names: an algorithm, or a plan by its number */
    bool has_rule, is_best_in_range = false;

    if (team->plan_count == 0 || is_for_parameters(protocol, query->coll)) {
        return NULL;
    }
    /* If a rule matches, only the plan that it names is used, and none if it names an algorithm. */
    has_rule = mscclpp_rule_match(protocol, query->coll, query->bytes, query->in_place, nodes, &algorithm);
    for (int i = 0; i < team->plan_count; ++i) {
        mscclpp_team_plan_t *plan = &team->plans[i];
        const mscclpp_plan_t *definition = plan->file->plan;
        bool is_in_range;

        if (!serves(plan, query)) {
            continue;
        }
        is_in_range = message >= definition->min_bytes && message <= definition->max_bytes;
        if (has_rule ? plan->rule != algorithm || (best != NULL && !is_in_range) : !is_in_range) {
            continue;
        }
        if (best == NULL || !is_best_in_range || definition->max_bytes < best->file->plan->max_bytes) {
            best = plan;
            is_best_in_range = is_in_range;
        }
    }
    return best;
}

mscclpp_team_plan_t *mscclpp_plans_find(const mscclpp_team_t *team, const char *name, mscclpp_op_t op)
{
    for (int i = 0; i < team->plan_count; ++i) {
        const mscclpp_plan_file_t *file = team->plans[i].file;

        if (file->only_by_name && strcmp(file->plan->name, name) == 0 && can_do(file, op)) {
            return &team->plans[i];
        }
    }
    return NULL;
}
