#include "mca/common/team/larger.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/gpu/clear.h"
#include "mca/common/oob/vote.h"
#include "mca/common/team/lease.h"

mscclpp_status_t mscclpp_larger_write_progress(mscclpp_runner_t *runner, char *scratch, const mscclpp_layout_t *layout,
                                               uint64_t epochs)
{
    mscclpp_dev_state_t *state = (mscclpp_dev_state_t *)(void *)(scratch + layout->state_offset);
    mscclpp_dev_progress_t progress[MSCCLPP_DEV_MAX_BLOCKS];
    mscclpp_status_t status = mscclpp_runner_take_stream(runner);
    int block;

    memset(progress, 0, sizeof(progress));
    for (block = 0; block < MSCCLPP_DEV_MAX_BLOCKS; ++block) {
        progress[block].launches = runner->launches;
        /* Packets from other nodes are not cleared, so their flags continue from this number. */
        progress[block].epoch = (uint32_t)epochs;
    }
    if (status == MSCCLPP_OK) {
        status = runner->gpu->copy(runner->stream, state->progress, progress, sizeof(progress));
    }
    return status == MSCCLPP_OK ? runner->gpu->stream_sync(runner->stream) : status;
}

/*
 * Zeroes the words of a chunk that this team counts in. Another team may have counted up the words of barriers and the
 * state of kernels in a chunk; this team counts from 0. Returns when they are cleared.
 */
static mscclpp_status_t clear_counters(mscclpp_runner_t *runner, char *scratch, const mscclpp_layout_t *layout)
{
    const uint64_t head = MSCCLPP_DEV_PACKET_OFFSET, state = sizeof(mscclpp_dev_state_t);
    void *zeros = calloc(1, head > state ? head : state);
    mscclpp_status_t status = zeros == NULL ? MSCCLPP_ERR_NO_MEMORY : mscclpp_runner_take_stream(runner);

    if (status == MSCCLPP_OK) {
        status = runner->gpu->copy(runner->stream, scratch, zeros, head);
    }
    if (status == MSCCLPP_OK) {
        status = runner->gpu->copy(runner->stream, scratch + layout->state_offset, zeros, state);
    }
    if (status == MSCCLPP_OK) {
        status = runner->gpu->stream_sync(runner->stream);
    }
    free(zeros);
    return status;
}

/*
 * Clears the packets that other teams have left in a chunk. When all ranks of a team get chunks, its flags continue
 * after theirs instead, which is faster. When one node alone gets others, flags must stay equal to those of other
 * nodes.
 */
static mscclpp_status_t clear_packets(mscclpp_runner_t *runner, char *scratch, const mscclpp_layout_t *layout)
{
    mscclpp_status_t status = mscclpp_gpu_clear(runner->gpu, runner->stream, scratch + MSCCLPP_DEV_PACKET_OFFSET,
                                                mscclpp_layout_packet_bytes(layout));

    return status == MSCCLPP_OK ? runner->gpu->stream_sync(runner->stream) : status;
}

mscclpp_status_t mscclpp_larger_allocate(mscclpp_team_t *team, mscclpp_larger_t *larger)
{
    mscclpp_runner_t *runner = &team->runner;
    mscclpp_status_t status;
    uint64_t epochs = 0;
    void *memory;

    if ((larger->is_leased || larger->is_queued) && team->kept == NULL &&
        (team->kept = calloc(1, sizeof(*team->kept))) == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    if (!larger->is_leased) {
        status = runner->gpu->device_alloc(runner->device, larger->layout.total, &memory);
        larger->own_scratch = status == MSCCLPP_OK ? memory : NULL;
        return status;
    }
    status = mscclpp_lease_take(team, larger->layout.total, &larger->own_scratch, &epochs);
    if (status == MSCCLPP_OK) {
        status = clear_counters(runner, larger->own_scratch, &larger->layout);
    }
    if (!larger->is_reclaimed) {
        larger->epochs = epochs > larger->epochs ? epochs : larger->epochs;
    } else if (status == MSCCLPP_OK && epochs > larger->epochs) {
        status = clear_packets(runner, larger->own_scratch, &larger->layout);
    }
    return status;
}

void mscclpp_larger_close(mscclpp_larger_t *larger)
{
    int rank;

    for (rank = 0; rank < MSCCLPP_DEV_MAX_RANKS; ++rank) {
        mscclpp_mapping_put(larger->mapping[rank]);
        larger->mapping[rank] = NULL;
    }
}

/*
 * Maps the new scratch of all ranks of this node, whose handles have been exchanged. The flags of all ranks have to
 * continue from the same number, the largest that any rank has seen. Stops at the first failure, which is
 * MSCCLPP_ERR_PEER if a peer has no scratch; the caller then closes the mappings made so far.
 */
static mscclpp_status_t map_peers(mscclpp_team_t *team, mscclpp_larger_t *larger)
{
    mscclpp_status_t status = MSCCLPP_OK;
    int rank;

    for (rank = 0; rank < team->group.size && status == MSCCLPP_OK; ++rank) {
        const mscclpp_board_buffers_t *rank_buffers = mscclpp_group_exchanged(&team->group, rank);

        larger->epochs = rank_buffers->epochs > larger->epochs ? rank_buffers->epochs : larger->epochs;
        if (rank_buffers->exportable == 0) {
            status = MSCCLPP_ERR_PEER;
        } else if (rank == team->group.rank) {
            larger->scratch[rank] = larger->own_scratch;
        } else if ((status = mscclpp_mapping_share(team->runner.gpu, team->runner.device, &rank_buffers->out,
                                                   &larger->mapping[rank])) == MSCCLPP_OK) {
            larger->scratch[rank] = (char *)mscclpp_mapping_base(larger->mapping[rank]) + rank_buffers->out.offset;
        }
    }
    return status == MSCCLPP_OK
               ? mscclpp_larger_write_progress(&team->runner, larger->own_scratch, &larger->layout, larger->epochs)
               : status;
}

/*
 * Votes among all nodes, after the ranks of this node have voted, because the scratch must have one size on all nodes.
 * On entry, *all_succeeded_p is the result of the vote on this node; on return, it is the result of both votes. Flags
 * continue from the largest number of any node. Returns an error only if the vote itself fails, or if that number
 * cannot be written.
 */
static mscclpp_status_t agree_with_nodes(mscclpp_team_t *team, mscclpp_status_t own_status, mscclpp_larger_t *larger,
                                         bool *all_succeeded_p)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status;

    if (team->fabric == NULL) {
        return MSCCLPP_OK;
    }
    status = mscclpp_vote_max(&team->group.oob,
                              *all_succeeded_p           ? MSCCLPP_OK
                              : own_status != MSCCLPP_OK ? own_status
                                                         : MSCCLPP_ERR_PEER,
                              larger->epochs, &vote);
    *all_succeeded_p = *all_succeeded_p && status == MSCCLPP_OK && vote.culprit < 0;
    if (*all_succeeded_p && vote.max_number > larger->epochs) {
        larger->epochs = vote.max_number;
        status = mscclpp_larger_write_progress(&team->runner, larger->own_scratch, &larger->layout, larger->epochs);
    }
    return status;
}

char *mscclpp_larger_install(mscclpp_team_t *team, const mscclpp_larger_t *larger)
{
    mscclpp_runner_t *runner = &team->runner;
    mscclpp_team_kept_t *kept = team->kept;
    char *old = runner->scratch;

    if (larger->is_leased || larger->is_queued) {
        kept->scratch = old;
        memcpy(kept->peer_scratch, runner->peer_scratch, sizeof(kept->peer_scratch));
        memcpy(kept->peer_mapping, runner->peer_mapping, sizeof(kept->peer_mapping));
        kept->layout = runner->layout;
        kept->full_size = team->full_size;
        kept->small_max = team->small_max;
        kept->middle_max = team->middle_max;
        if (larger->is_queued && runner->running == NULL) {
            runner->running = ((mscclpp_dev_state_t *)(void *)(old + runner->layout.state_offset))->running;
        }
        old = NULL;
    } else {
        mscclpp_runner_close_peers(runner);
    }
    runner->scratch = larger->own_scratch;
    memcpy(runner->peer_scratch, larger->scratch, sizeof(runner->peer_scratch));
    memcpy(runner->peer_mapping, larger->mapping, sizeof(runner->peer_mapping));
    runner->layout = larger->layout;
    runner->epochs = larger->epochs;
    mscclpp_repeats_clear(&runner->repeats, runner->gpu);
    return old;
}

mscclpp_status_t mscclpp_larger_exchange(mscclpp_team_t *team, uint64_t bytes, mscclpp_larger_t *larger,
                                         mscclpp_status_t *own_status_p, bool *all_succeeded_p)
{
    mscclpp_group_t *group = &team->group;
    mscclpp_board_buffers_t *own_buffers = mscclpp_group_begin_exchange(group);
    const mscclpp_board_args_t call_args = larger->is_queued ? ~group->call_args : group->call_args;
    const double deadline = larger->is_queued ? mscclpp_now() + mscclpp_group_exchange_patience(group) : 0;
    bool have_all_met = true;
    mscclpp_status_t status;

    *all_succeeded_p = false;
    own_buffers->call_args = call_args;
    own_buffers->in_place = 0;
    own_buffers->epochs = larger->epochs;
    if (*own_status_p == MSCCLPP_OK) {
        *own_status_p = team->runner.gpu->export_memory(larger->own_scratch, &own_buffers->out);
    }
    own_buffers->exportable = *own_status_p == MSCCLPP_OK;
    status = larger->is_queued
                 ? mscclpp_group_meet_exchange_by_deadline(group, "larger scratch", bytes, deadline, &have_all_met)
                 : mscclpp_group_meet_exchange(group, "larger scratch", bytes);
    if (status != MSCCLPP_OK || !have_all_met) {
        return status;
    }
    /*
     * A rank reaches this point only after it has lost its chunk and closed the mappings of the peers' chunks. So no
     * peer maps this rank's lost chunk any more.
     */
    (void)mscclpp_lease_give(team, team->lost_chunk);
    team->lost_chunk = NULL;
    if (*own_status_p == MSCCLPP_OK && larger->is_queued && !mscclpp_group_all_pass_args(group, call_args)) {
        *own_status_p = MSCCLPP_ERR_PEER;
    }
    if (*own_status_p == MSCCLPP_OK) {
        *own_status_p = map_peers(team, larger);
    }
    status = larger->is_queued
                 ? mscclpp_group_end_exchange_by_deadline(group, "vote on a larger scratch", bytes, deadline,
                                                          *own_status_p == MSCCLPP_OK, all_succeeded_p)
                 : mscclpp_group_end_exchange(group, "vote on a larger scratch", bytes, *own_status_p == MSCCLPP_OK,
                                              all_succeeded_p);
    return status == MSCCLPP_OK && !larger->is_reclaimed
               ? agree_with_nodes(team, *own_status_p, larger, all_succeeded_p)
               : status;
}
