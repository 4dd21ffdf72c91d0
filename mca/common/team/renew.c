/*
 * Clears a team's packet memory once its flags (epochs) are used up. A flag must never repeat while an old packet with
 * that flag is in memory: a kernel would take it for a new one.
 */
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/clear.h"
#include "mca/common/team/parts.h"

/* Waits until all ranks of the node have come to the renewal. */
static mscclpp_status_t meet_ranks(mscclpp_team_t *team)
{
    uint64_t *own_meeting = &team->group.board[team->group.rank].met;

    mscclpp_board_store(own_meeting, ++team->group.meetings);
    return mscclpp_group_wait_words(&team->group, "renewal of packet flags", 0, own_meeting, team->group.meetings);
}

/*
 * Returns at once if the limit is not reached. Otherwise:
 * 1. All ranks of the node meet. No rank awaits a packet any more.
 * 2. Each rank clears its own packet areas and counters.
 * 3. All meet again. No rank sends a packet into an area before it is cleared.
 * After an error, peers may be waiting in here, so the caller must break the team.
 */
mscclpp_status_t mscclpp_team_reserve_epochs(mscclpp_team_t *team, mscclpp_gpu_stream_t *stream, uint64_t epochs)
{
    mscclpp_dev_state_t *state = (mscclpp_dev_state_t *)(team->runner.scratch + team->runner.layout.state_offset);
    mscclpp_dev_progress_t progress[MSCCLPP_DEV_MAX_BLOCKS];
    mscclpp_status_t status;
    int block;

    if (team->runner.epochs + epochs <= team->protocol.epoch_limit) {
        team->runner.epochs += epochs;
        return MSCCLPP_OK;
    }
    mscclpp_linger_clear(&team->runner);
    if (stream == NULL) {
        mscclpp_status_t stream_status = mscclpp_runner_take_stream(&team->runner);

        if (stream_status != MSCCLPP_OK) {
            return stream_status;
        }
        stream = team->runner.stream;
    }
    mscclpp_debug("%s: packet flags begin again after %llu epochs", team->group.oob.label,
                  (unsigned long long)team->runner.epochs);
    status = team->runner.gpu->stream_sync(stream);
    if (status == MSCCLPP_OK) {
        status = meet_ranks(team);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_gpu_clear(team->runner.gpu, stream, team->runner.scratch + MSCCLPP_DEV_PACKET_OFFSET,
                                   mscclpp_layout_packet_bytes(&team->runner.layout));
    }
    /* The team may return to the small scratch. Its counters are written when that happens. */
    if (status == MSCCLPP_OK && team->kept != NULL && team->kept->scratch != NULL) {
        status = mscclpp_gpu_clear(team->runner.gpu, stream, team->kept->scratch + MSCCLPP_DEV_PACKET_OFFSET,
                                   mscclpp_layout_packet_bytes(&team->kept->layout));
    }
    /* Only the epoch starts again. The number of operations, by which the host recognizes their end, continues. */
    if (status == MSCCLPP_OK) {
        for (block = 0; block < MSCCLPP_DEV_MAX_BLOCKS; ++block) {
            progress[block] = (mscclpp_dev_progress_t){.launches = team->runner.launches};
        }
        status = team->runner.gpu->copy(stream, state->progress, progress, sizeof(progress));
    }
    if (status == MSCCLPP_OK) {
        status = team->runner.gpu->stream_sync(stream);
    }
    if (status == MSCCLPP_OK && team->fabric != NULL) {
        status = mscclpp_fabric_renew(team->fabric, &team->protocol, stream);
    }
    if (status == MSCCLPP_OK) {
        status = meet_ranks(team);
    }
    if (status == MSCCLPP_OK) {
        team->runner.epochs = epochs;
    }
    return status;
}
