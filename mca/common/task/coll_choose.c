/* The choice of a collective's algorithm, and when the scratch grows for one. */
#include <string.h>

#include "mca/common/task/coll_task.h"
#include "mca/common/team/grow.h"

bool mscclpp_coll_is_early(const mscclpp_coll_task_t *task)
{
    return task->args->early && task->team->protocol.coll_algorithm[task->args->coll] == MSCCLPP_ALGO_AUTO;
}

/*
 * Returns true if the kept choice was made from the same values. The settings of a team do not change. If only padding
 * of `input` differs, returns false, which costs one more choice.
 */
static bool was_made_from(const mscclpp_team_choice_t *kept, const mscclpp_select_input_t *input, uint64_t block_bytes,
                          bool varied, bool mapped)
{
    return kept->is_set && kept->block_bytes == block_bytes && kept->varied == varied && kept->mapped == mapped &&
           memcmp(&kept->input, input, sizeof(*input)) == 0 &&
           memcmp(&kept->layout, input->layout, sizeof(kept->layout)) == 0;
}

/*
 * Early and queued calls map buffers only if `may_map` is set. Between nodes, the cost model takes as long as a small
 * call, because it computes the times of many schedules. So the team keeps the last choice of each collective.
 */
mscclpp_status_t mscclpp_coll_try_choice(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input,
                                         bool can_map, mscclpp_coll_choice_t *choice_p)
{
    const mscclpp_coll_t coll = task->args->coll;
    const uint64_t bytes = task->largest_block;
    const bool varied = task->args->varied;
    const bool waits = !mscclpp_coll_is_early(task) && !task->is_queued;
    const bool mapped = can_map && (waits || task->may_map);
    mscclpp_team_choice_t *kept = &task->team->choices[coll];
    mscclpp_status_t status;

    if (input->nodes > 1 && was_made_from(kept, input, bytes, varied, mapped)) {
        *choice_p = kept->choice;
        return MSCCLPP_OK;
    }
    status = mscclpp_coll_select(input, coll, bytes, varied, mapped, choice_p);
    if (status == MSCCLPP_OK && input->nodes > 1) {
        kept->is_set = true;
        kept->varied = varied;
        kept->mapped = mapped;
        kept->block_bytes = bytes;
        memcpy(&kept->input, input, sizeof(*input));
        kept->layout = *input->layout;
        kept->choice = *choice_p;
    }
    return status;
}

mscclpp_status_t mscclpp_coll_choose(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool can_map)
{
    return mscclpp_coll_try_choice(task, input, can_map, &task->choice);
}

/*
 * Each of two ranks knows the sizes of both blocks that they exchange. If packets carry the larger one, the ranks need
 * to know nothing else: each copies its own block, and packs blocks with holes, without the other. If the ranks
 * exchange no data, they agree nevertheless, which may show that no rank needs a kernel.
 */
bool mscclpp_coll_choose_for_pair(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    const uint64_t largest = task->largest_block;

    if (!mscclpp_coll_is_unsized_pair(task)) {
        return false;
    }
    task->largest_block = mscclpp_coll_exchanged_bytes(task);
    task->excludes_own = task->largest_block > 0 && mscclpp_coll_choose(task, input, true) == MSCCLPP_OK &&
                         task->choice.algo == MSCCLPP_COLL_BY_PACKETS;
    task->largest_block = task->excludes_own ? task->largest_block : largest;
    return task->excludes_own;
}

/*
 * The peer does not know the size of this rank's own block, so the choice of the algorithm must not depend on that
 * size. The grid may depend on it, because packets have the same places in the scratch with any grid.
 */
void mscclpp_coll_add_own_block(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    task->own_bytes = task->in_place ? 0 : mscclpp_coll_find_recv_block(task, task->rank).bytes;
    if (task->own_bytes > task->largest_block) {
        mscclpp_coll_widen_packets(input, task->own_bytes, &task->choice);
    }
}

/*
 * Returns true if a call between nodes takes one turn. `in_windows` says that one turn for each window counts as well.
 * Leaves the choice of the task unchanged.
 */
static bool takes_one_turn(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool in_windows)
{
    mscclpp_coll_choice_t choice = task->choice;

    return mscclpp_coll_try_choice(task, input, true, &choice) == MSCCLPP_OK &&
           (in_windows || choice.exchange != MSCCLPP_DEV_NODES_WINDOWS) &&
           (choice.epochs != 0 || task->largest_block <= choice.tile);
}

/*
 * Returns true if a call over several nodes is worth a larger scratch: if it takes several turns, of which a larger
 * scratch may save some. *to_full_size_p says that the scratch should have its full size, because the middle size is
 * not available, or because the call would take several turns with that size, too.
 */
static bool wants_scratch_between(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input,
                                  bool *to_full_size_p)
{
    const mscclpp_team_t *team = task->team;
    const bool has_middle = mscclpp_team_has_middle(team, task->largest_block);
    mscclpp_select_input_t grown_input = *input;
    mscclpp_layout_t grown_layout;

    *to_full_size_p = false;
    if (team->full_size == 0 || takes_one_turn(task, input, false)) {
        return false;
    }
    mscclpp_team_describe_grown(team, has_middle, &grown_layout, &grown_input);
    *to_full_size_p = !has_middle || !takes_one_turn(task, &grown_input, true);
    return !takes_one_turn(task, input, true) || takes_one_turn(task, &grown_input, false);
}

/*
 * Returns true if a call on one node is worth a larger scratch: if the scratch is too small for the call, and the call
 * would use the larger one, and not mapped buffers.
 */
static bool wants_scratch_within(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    const mscclpp_team_t *team = task->team;
    mscclpp_select_input_t grown_input = *input;
    mscclpp_coll_choice_t choice;
    mscclpp_layout_t grown_layout;

    if (!mscclpp_team_wants_more(team, task->largest_block, false)) {
        return false;
    }
    mscclpp_team_describe_grown(team, mscclpp_team_has_middle(team, task->largest_block), &grown_layout, &grown_input);
    return mscclpp_coll_try_choice(task, &grown_input, true, &choice) != MSCCLPP_OK ||
           !mscclpp_coll_maps_buffers(&choice);
}

mscclpp_status_t mscclpp_coll_grow(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input, bool *has_grown_p)
{
    const bool spans_nodes = task->team->fabric != NULL;
    bool to_full_size = false;
    mscclpp_status_t status;

    *has_grown_p = spans_nodes ? wants_scratch_between(task, input, &to_full_size) : wants_scratch_within(task, input);
    if (!*has_grown_p) {
        return MSCCLPP_OK;
    }
    status = mscclpp_team_grow(task->team, task->largest_block, to_full_size);
    if (spans_nodes) {
        mscclpp_fabric_describe(task->team->fabric, input);
    }
    return status;
}
