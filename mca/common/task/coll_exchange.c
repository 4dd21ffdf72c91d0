/* Exchanges between the hosts about the buffers of a collective, before its kernel or engines start. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/base/numbers.h"
#include "mca/common/run/known.h"
#include "mca/common/task/coll_task.h"

mscclpp_status_t mscclpp_coll_meet(mscclpp_coll_task_t *task, const char *event_name)
{
    (void)mscclpp_group_begin_exchange(&task->team->group);
    return mscclpp_group_meet_exchange(&task->team->group, event_name, task->largest_block);
}

/*
 * Does what mscclpp_coll_agree_size does for ranks on several nodes. They cannot map one another's memory, so blocks
 * with holes have to be packed (`is_strided` is false).
 */
static mscclpp_status_t agree_on_largest_block(mscclpp_coll_task_t *task)
{
    const mscclpp_oob_t *oob = &task->team->group.oob;
    uint64_t *sizes = malloc((size_t)task->ranks * sizeof(*sizes)); /* each rank's largest block */
    mscclpp_status_t status;
    int rank;

    task->is_strided = false;
    if (sizes == NULL) {
        mscclpp_error("%s: no memory for the sizes of %d ranks", oob->label, task->ranks);
    }
    /* A rank without memory takes part with NULL, because the others wait for it. All ranks then get an error. */
    status = oob->allgather(oob->context, &task->args->largest_block, sizes, sizeof(*sizes));
    for (rank = 0; sizes != NULL && rank < task->ranks && status == MSCCLPP_OK; ++rank) {
        task->largest_block = mscclpp_max(task->largest_block, sizes[rank]);
    }
    free(sizes);
    return status;
}

/* Returns the kind of this rank's blocks: blocks that must be packed, or runs with or without holes. */
static unsigned find_layout(const mscclpp_coll_task_t *task)
{
    if (task->args->send_runs == NULL || task->args->recv_runs == NULL || task->in_unreachable ||
        task->out_unreachable) {
        return MSCCLPP_BOARD_NO_RUNS;
    }
    return mscclpp_coll_needs_packing(task) ? MSCCLPP_BOARD_HOLES : MSCCLPP_BOARD_DENSE;
}

/* One exchange is enough for both facts. `is_strided` is set only if some rank has blocks with holes. */
mscclpp_status_t mscclpp_coll_agree_size(mscclpp_coll_task_t *task)
{
    mscclpp_team_t *team = task->team;
    mscclpp_status_t status;
    bool has_holes = false; /* some rank's blocks have holes */
    int rank;

    if (team->fabric != NULL) {
        return agree_on_largest_block(task);
    }
    (void)mscclpp_group_begin_exchange(&team->group);
    mscclpp_group_write_sizes(&team->group, MSCCLPP_BOARD_SIZES(task->args->largest_block, find_layout(task)));
    status = mscclpp_group_meet_exchange(&team->group, "exchange of sizes", task->args->largest_block);
    task->is_strided = team->group.size <= MSCCLPP_DEV_STRIDED_BLOCKS;
    for (rank = 0; rank < team->group.size && status == MSCCLPP_OK; ++rank) {
        const uint64_t sizes = mscclpp_group_exchanged_sizes(&team->group, rank);

        task->largest_block = mscclpp_max(task->largest_block, MSCCLPP_BOARD_LARGEST(sizes));
        task->is_strided = task->is_strided && MSCCLPP_BOARD_LAYOUT(sizes) != MSCCLPP_BOARD_NO_RUNS;
        has_holes = has_holes || MSCCLPP_BOARD_LAYOUT(sizes) == MSCCLPP_BOARD_HOLES;
    }
    task->is_strided = task->is_strided && has_holes;
    return status;
}

/*
 * Returns the memory that this rank shares as its input, or NULL if peers do not read the input. Also returns NULL if
 * all blocks are empty, because the address may then be invalid.
 */
static const void *find_shared_in(const mscclpp_coll_task_t *task)
{
    return MSCCLPP_DEV_COMBINES(task->pattern) && mscclpp_coll_measure_span(task, true) > 0 ? task->in : NULL;
}

/* Returns the memory that this rank shares as its output, or NULL if peers do not access the output. */
static void *find_shared_out(const mscclpp_coll_task_t *task)
{
    switch (task->pattern) {
    case MSCCLPP_DEV_REDUCE_SCATTER:
        return NULL;
    case MSCCLPP_DEV_BCAST:
        /* Peers read the root's block, so the root shares its input in place of the output. */
        return task->team->group.rank == task->root ? (char *)(uintptr_t)task->in : task->out;
    default:
        return mscclpp_coll_measure_span(task, false) > 0 ? task->out : NULL;
    }
}

/* Returns true if peers need to know where their blocks belong in this rank's output. */
static bool has_places(const mscclpp_coll_task_t *task)
{
    return task->args->varied && task->args->recv != NULL;
}

/* Writes, by rank, the place of that rank's block in this rank's output. */
static void write_places(const mscclpp_coll_task_t *task, mscclpp_dev_runs_t *places)
{
    int peer;

    for (peer = 0; peer < task->team->group.size; ++peer) {
        places[peer] = task->is_strided ? task->args->recv_runs[peer]
                                        : (mscclpp_dev_runs_t){.offset = (int64_t)task->args->recv[peer].offset,
                                                               .length = task->args->recv[peer].bytes,
                                                               .count = 1};
    }
}

/*
 * Publishes the handles of this rank's buffers for its peers. If blocks differ in size, also publishes their places in
 * the output, which only the receiver knows. Waits until all ranks have done so. If `is_willing` is false, exports
 * nothing, and so no rank maps any buffer.
 */
static mscclpp_status_t exchange_handles(mscclpp_coll_task_t *task, bool is_willing)
{
    mscclpp_team_t *team = task->team;
    mscclpp_board_buffers_t *own_buffers = mscclpp_group_begin_exchange(&team->group);
    const void *in = find_shared_in(task);
    void *out = find_shared_out(task);
    /* In a swap, the output must contain the input. The output of a rank that packs its data does not. */
    bool is_exportable = is_willing && !(task->swaps && mscclpp_coll_needs_packing(task));

    own_buffers->has_in = in != NULL;
    own_buffers->has_out = out != NULL;
    own_buffers->in_place = 0;
    if (in != NULL && is_exportable) {
        is_exportable = team->runner.gpu->export_memory(in, &own_buffers->in) == MSCCLPP_OK;
    }
    if (out != NULL && is_exportable) {
        is_exportable = team->runner.gpu->export_memory(out, &own_buffers->out) == MSCCLPP_OK;
    }
    own_buffers->exportable = is_exportable;
    if (has_places(task)) {
        write_places(
            task, mscclpp_board_places(team->group.board, team->group.size, team->group.exchanges, team->group.rank));
    }
    return mscclpp_group_meet_exchange(&team->group, "exchange of buffers", task->largest_block);
}

/* Maps the buffers of one rank. Adds the mappings to `mappings`. The caller gives these back, even after an error. */
static mscclpp_status_t map_rank(mscclpp_coll_task_t *task, int rank, mscclpp_mapping_t **mappings, int *count_p)
{
    mscclpp_team_t *team = task->team;
    const mscclpp_board_buffers_t *rank_buffers = mscclpp_group_exchanged(&team->group, rank);
    mscclpp_status_t status = MSCCLPP_OK;

    task->peer_in[rank] = NULL;
    task->peer_out[rank] = NULL;
    if (rank == team->group.rank) {
        task->peer_in[rank] = (char *)(uintptr_t)find_shared_in(task);
        task->peer_out[rank] = find_shared_out(task);
        return MSCCLPP_OK;
    }
    if (rank_buffers->has_in != 0) {
        status = mscclpp_runner_map_buffer(&team->runner, &rank_buffers->in, mappings, count_p, &task->peer_in[rank]);
    }
    if (status == MSCCLPP_OK && rank_buffers->has_out != 0) {
        status = mscclpp_runner_map_buffer(&team->runner, &rank_buffers->out, mappings, count_p, &task->peer_out[rank]);
    }
    return status;
}

/*
 * Returns the place of this rank's block in the output of a peer. A single block is at the start of the output. If
 * blocks differ in size, the peer has published the place with its buffers. If all blocks have one size, the place
 * depends only on the number of this rank.
 */
static mscclpp_dev_runs_t find_place(const mscclpp_coll_task_t *task, int peer)
{
    const mscclpp_team_t *team = task->team;
    mscclpp_dev_runs_t place = {.count = 1};

    if (task->pattern == MSCCLPP_DEV_BCAST || task->pattern == MSCCLPP_DEV_SCATTER ||
        MSCCLPP_DEV_COMBINES(task->pattern)) {
        return place;
    }
    if (task->args->varied && task->mapped != NULL) {
        return task->mapped->place[peer];
    }
    if (task->args->varied) {
        return mscclpp_board_places(team->group.board, team->group.size, team->group.exchanges, peer)[team->group.rank];
    }
    place.offset = (int64_t)((uint64_t)team->group.rank * task->stride);
    return place;
}

/*
 * Exchanges the handles, maps the peers' buffers, and votes on the result. Waits for all ranks. If *mapped_p becomes
 * true, the runner holds the mappings; otherwise they have been given back. *mapped_p becomes false on all ranks, which
 * is not an error, if any rank is not willing, or cannot export or map a buffer. After an error, *mapped_p may not be
 * set.
 */
static mscclpp_status_t exchange_now(mscclpp_coll_task_t *task, bool is_willing, bool *mapped_p)
{
    mscclpp_team_t *team = task->team;
    mscclpp_mapping_t *mappings[2 * MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t map_status = MSCCLPP_OK, status = exchange_handles(task, is_willing);
    bool are_all_exportable = true, has_mapped_all, have_all_mapped = false;
    int rank, count = 0;

    if (status != MSCCLPP_OK) {
        return status;
    }
    for (rank = 0; rank < team->group.size; ++rank) {
        are_all_exportable = are_all_exportable && mscclpp_group_exchanged(&team->group, rank)->exportable != 0;
    }
    for (rank = 0; rank < team->group.size && are_all_exportable && map_status == MSCCLPP_OK; ++rank) {
        map_status = map_rank(task, rank, mappings, &count);
        task->place[rank] = find_place(task, rank);
    }
    has_mapped_all =
        are_all_exportable && map_status == MSCCLPP_OK && mscclpp_runner_reserve_holds(&team->runner, count);
    /* All ranks vote, even if they could not map a buffer, so that all of them use the same algorithm. */
    status = mscclpp_group_end_exchange(&team->group, "vote on mapped buffers", task->largest_block, has_mapped_all,
                                        &have_all_mapped);
    if (status == MSCCLPP_OK && have_all_mapped) {
        mscclpp_runner_hold_mappings(&team->runner, mappings, count);
    } else { /* no rank uses its mappings */
        while (count > 0) {
            mscclpp_mapping_put(mappings[--count]);
        }
    }
    *mapped_p = have_all_mapped;
    return status;
}

/*
 * Maps the buffers of an early call. Uses mappings of earlier calls if all ranks know the buffers; otherwise exchanges
 * the buffers. If blocks differ in size, an exchange is always needed, because only the receiver knows their places.
 * Only starts of a persistent request need none: the request has a separate team, and its blocks keep their places.
 */
static mscclpp_status_t exchange_early(mscclpp_coll_task_t *task, bool *mapped_p)
{
    mscclpp_runner_t *runner = &task->team->runner;
    const void *in = find_shared_in(task);
    void *out = find_shared_out(task);
    mscclpp_known_buffers_t known_buffers;
    mscclpp_status_t status = MSCCLPP_OK;
    int rank;

    if (!task->args->varied || task->args->repeated) {
        status =
            mscclpp_runner_meet_known(runner, in, out, task->largest_block,
                                      task->choice.algo == MSCCLPP_COLL_BY_ZEROCOPY, &known_buffers, &task->has_met);
    } else {
        mscclpp_group_open_fiber(runner->group, task->largest_block);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (!task->has_met) {
        status = exchange_now(task, true, mapped_p);
        if (status == MSCCLPP_OK) {
            mscclpp_runner_note_exchange(runner, *mapped_p, in, out, task->place);
        }
        return status;
    }
    for (rank = 0; rank < runner->group->size; ++rank) {
        task->peer_in[rank] = (char *)(uintptr_t)known_buffers.in[rank];
        task->peer_out[rank] = known_buffers.out[rank];
        task->place[rank] = task->args->varied ? known_buffers.place[rank] : find_place(task, rank);
    }
    *mapped_p = true;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_coll_exchange(mscclpp_coll_task_t *task, bool *mapped_p)
{
    return task->args->early ? exchange_early(task, mapped_p) : exchange_now(task, true, mapped_p);
}

/* The mappings are kept until the first start uses them. */
mscclpp_status_t mscclpp_coll_exchange_ahead(mscclpp_coll_task_t *task, bool is_willing)
{
    mscclpp_runner_t *runner = &task->team->runner;
    bool is_mapped = false;
    mscclpp_status_t status = exchange_now(task, is_willing, &is_mapped);

    if (status == MSCCLPP_OK && is_mapped) {
        mscclpp_runner_note_exchange(runner, true, find_shared_in(task), find_shared_out(task), task->place);
        mscclpp_runner_keep_mappings(runner, false);
    }
    return status;
}

/*
 * Waits only until a deadline, as mscclpp_runner_map_buffers does, because the other ranks may not come: they may have
 * captured another call, or none. A rank that comes after the deadline finds all sizes, although the others have given
 * up. The vote tells it so.
 *
 * This exchange carries no buffers. Ranks publish the complement of their arguments, so that a rank that expects
 * buffers sees a mismatch.
 */
mscclpp_status_t mscclpp_coll_agree_size_by_deadline(mscclpp_coll_task_t *task)
{
    mscclpp_group_t *group = &task->team->group;
    const double deadline = mscclpp_now() + mscclpp_group_exchange_patience(group);
    mscclpp_board_buffers_t *own_buffers = mscclpp_group_begin_exchange(group);
    uint64_t largest = task->largest_block;
    mscclpp_status_t status;
    bool all_met = false, all_pass_same = false;
    int rank;

    own_buffers->call_args = ~group->call_args;
    own_buffers->exportable = 0; /* no buffers are exchanged */
    mscclpp_group_write_sizes(group, MSCCLPP_BOARD_SIZES(task->args->largest_block, MSCCLPP_BOARD_NO_RUNS));
    status = mscclpp_group_meet_exchange_by_deadline(group, "exchange of sizes", largest, deadline, &all_met);
    if (status == MSCCLPP_OK && all_met) {
        for (rank = 0; rank < group->size; ++rank) {
            const uint64_t rank_largest = MSCCLPP_BOARD_LARGEST(mscclpp_group_exchanged_sizes(group, rank));

            largest = mscclpp_max(largest, rank_largest);
        }
        status = mscclpp_group_end_exchange_by_deadline(group, "vote on sizes", largest, deadline,
                                                        mscclpp_group_all_pass_args(group, ~group->call_args),
                                                        &all_pass_same);
    }
    if (group->gave_up) {
        mscclpp_runner_report_gave_up(&task->team->runner);
    }
    /* If all blocks are empty, the size counts as unknown, because a call of unknown size always has a kernel. */
    if (status == MSCCLPP_OK && all_pass_same && largest > 0) {
        task->largest_block = largest;
        task->knows_largest = true;
    }
    return status;
}

mscclpp_status_t mscclpp_coll_map_buffers(mscclpp_coll_task_t *task)
{
    const bool packs = mscclpp_coll_needs_packing(task);
    mscclpp_dev_runs_t places[MSCCLPP_DEV_MAX_RANKS];

    memset(places, 0, sizeof(places));
    if (has_places(task)) {
        write_places(task, places);
    }
    return mscclpp_runner_map_buffers(&task->team->runner, packs ? NULL : find_shared_in(task),
                                      packs ? NULL : find_shared_out(task), task->largest_block,
                                      task->args->varied ? places : NULL, !packs, &task->mapped);
}

void mscclpp_coll_use_mapped(mscclpp_coll_task_t *task)
{
    int rank;

    for (rank = 0; rank < task->team->group.size; ++rank) {
        task->peer_in[rank] = (char *)(uintptr_t)task->mapped->peer_in[rank];
        task->peer_out[rank] = task->mapped->peer_out[rank];
        task->place[rank] = find_place(task, rank);
    }
}
