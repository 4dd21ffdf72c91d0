/* The choice of a collective's algorithm, and when the scratch grows for one. */
#include <string.h>

#include "mca/common/task/coll_task.h"
#include "mca/common/team/grow.h"

bool mscclpp_coll_is_early(const mscclpp_coll_task_t *task)
{
    return task->args->early && task->team->protocol.coll_algorithm[task->args->coll] == MSCCLPP_ALGO_AUTO;
}

/*
 * Returns true if the kept choice was made from the same values. The settings of a team do not change. Bytes between
 * the fields of `input` may differ, and then the choice is only made again.
 */
static bool is_made_from(const mscclpp_team_choice_t *kept, const mscclpp_select_input_t *input, uint64_t block_bytes,
                         bool varied, bool mapped)
{
    return kept->is_set && kept->block_bytes == block_bytes && kept->varied == varied && kept->mapped == mapped &&
           memcmp(&kept->input, input, sizeof(*input)) == 0 &&
           memcmp(&kept->layout, input->layout, sizeof(kept->layout)) == 0;
}

/*
 * Early and queued calls map buffers only if `may_map` says so. Between nodes the cost model reckons many schedules,
 * which takes as long as a small call, so the last choice of each collective is kept.
 */
mscclpp_status_t mscclpp_coll_try_choice(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input,
                                         bool can_map, mscclpp_coll_choice_t *choice_p)
{
    const mscclpp_coll_t coll = task->args->coll;
    const uint64_t bytes = task->largest;
    const bool varied = task->args->varied;
    const bool mapped = can_map && ((!mscclpp_coll_is_early(task) && !task->queued) || task->may_map);
    mscclpp_team_choice_t *kept = &task->team->choices[coll];
    mscclpp_status_t status;

    if (input->nodes > 1 && is_made_from(kept, input, bytes, varied, mapped)) {
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
 * Of two ranks, each knows both blocks that go from one to the other. If packets carry the larger one, the ranks need
 * not know more: each copies its own block alone, and packs blocks with holes alone. Without any data between the
 * ranks, they agree nevertheless, which may show that no rank needs a kernel.
 */
bool mscclpp_coll_choose_for_pair(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    const uint64_t largest = task->largest;

    if (!mscclpp_coll_is_unsized_pair(task)) {
        return false;
    }
    task->largest = mscclpp_coll_exchanged_bytes(task);
    task->excludes_own = task->largest > 0 && mscclpp_coll_choose(task, input, true) == MSCCLPP_OK &&
                         task->choice.algo == MSCCLPP_COLL_BY_PACKETS;
    task->largest = task->excludes_own ? task->largest : largest;
    return task->excludes_own;
}

/*
 * The peer does not know this rank's own block. So the block has no part in the choice of the algorithm, nor in
 * anything else that both ranks have to do alike. It has a part in this rank's grid, because packets have the same
 * places in the scratch with any grid.
 */
void mscclpp_coll_add_own_block(mscclpp_coll_task_t *task, const mscclpp_select_input_t *input)
{
    task->own_bytes = task->in_place ? 0 : mscclpp_coll_recv_block(task, task->rank).bytes;
    if (task->own_bytes > task->largest) {
        mscclpp_coll_widen_packets(input, task->own_bytes, &task->choice);
    }
}

/* Returns true if a call between nodes takes one turn or, if `in_windows`, one in each window. Chooses on trial. */
static bool takes_one_turn(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool in_windows)
{
    mscclpp_coll_choice_t choice = task->choice;

    return mscclpp_coll_try_choice(task, input, true, &choice) == MSCCLPP_OK &&
           (in_windows || choice.exchange != MSCCLPP_DEV_NODES_WINDOWS) &&
           (choice.epochs != 0 || task->largest <= choice.tile);
}

/*
 * Returns true if the call is worth a larger scratch.
 *
 * - On one node: the scratch is too small for the call, which would go through the larger one, not mapped buffers.
 * - Over several nodes: the call takes several turns, of which a larger scratch may spare some. *to_full_size_p then
 * says that the middle size is not available, or that the call would take several turns with it, too.
 */
static bool wants_scratch(const mscclpp_coll_task_t *task, const mscclpp_select_input_t *input, bool *to_full_size_p)
{
    const mscclpp_team_t *team = task->team;
    const bool has_middle = mscclpp_team_has_middle(team, task->largest);
    mscclpp_select_input_t later;
    mscclpp_coll_choice_t choice;
    mscclpp_layout_t layout;

    *to_full_size_p = false;
    if (team->fabric != NULL) {
        if (team->full_size == 0 || takes_one_turn(task, input, false)) {
            return false;
        }
        later = *input;
        mscclpp_team_describe_grown(team, has_middle, &layout, &later);
        *to_full_size_p = !has_middle || !takes_one_turn(task, &later, true);
        return !takes_one_turn(task, input, true) || takes_one_turn(task, &later, false);
    }
    if (!mscclpp_team_wants_more(team, task->largest, false)) {
        return false;
    }
    later = *input;
    mscclpp_team_describe_grown(team, has_middle, &layout, &later);
    return mscclpp_coll_try_choice(task, &later, true, &choice) != MSCCLPP_OK || !mscclpp_coll_maps_buffers(&choice);
}

mscclpp_status_t mscclpp_coll_grow(const mscclpp_coll_task_t *task, mscclpp_select_input_t *input, bool *has_grown_p)
{
    bool to_full_size;
    mscclpp_status_t status = MSCCLPP_OK;

    *has_grown_p = wants_scratch(task, input, &to_full_size);
    if (*has_grown_p) {
        status = mscclpp_team_grow(task->team, task->largest, to_full_size);
        if (task->team->fabric != NULL) {
            mscclpp_fabric_describe(task->team->fabric, input);
        }
    }
    return status;
}
