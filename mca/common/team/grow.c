#include "mca/common/team/grow.h"

#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/pool.h"
#include "mca/common/oob/vote.h"

#define KIB ((uint64_t)1024)

/* The scratch_size of a scratch of the middle size. With the kernels' state, it takes less than 1 MiB. */
#define MIDDLE_SIZE (384 * KIB)

/*
 * Areas of the smallest scratch, in bytes: half the packet area, and those of other algorithms. The other algorithms
 * use them only if there is no memory for a larger scratch. With more than FIRST_RANKS ranks they would be too small
 * for that, so such a team begins with a scratch of the middle size.
 */
#define FIRST_HALF (16 * KIB)
#define FIRST_BULK (8 * KIB)
#define FIRST_PUTS (4 * KIB)
#define FIRST_RANKS 8

/* Packets take twice the size of their data in a slot of the packet area. */
#define PACKET_FACTOR 2u

/* Returns the largest message, in bytes, that packets carry at full speed. */
static uint64_t largest_packet_message(const mscclpp_layout_t *layout, int ranks)
{
    return layout->packet_half / (uint64_t)ranks / PACKET_FACTOR;
}

void mscclpp_team_lay_out(mscclpp_team_t *team, uint64_t scratch_size, int ranks)
{
    const bool starts_small = scratch_size > KIB * KIB;

    mscclpp_layout_init(&team->runner.layout, starts_small ? MIDDLE_SIZE : scratch_size);
    team->full_size = starts_small ? scratch_size : 0;
    /*
     * The same size on all nodes, because all have to grow at the same call. (Nodes with few ranks could hold larger
     * messages.)
     */
    team->small_max = starts_small ? largest_packet_message(&team->runner.layout, ranks) : 0;
    if (starts_small && ranks == team->group.size && ranks <= FIRST_RANKS) {
        team->middle_max = team->small_max;
        mscclpp_layout_divide(&team->runner.layout, FIRST_HALF, FIRST_BULK, FIRST_PUTS);
        team->small_max = largest_packet_message(&team->runner.layout, ranks);
    }
}

void mscclpp_team_note_choices(mscclpp_team_t *team)
{
    const mscclpp_protocol_t *protocol = &team->protocol;
    const bool forced = protocol->algorithm >= 0 && protocol->algorithm == mscclpp_algo_find("oneshot_put");

    team->lacks_puts = team->full_size != 0 && (forced || protocol->put_max != 0 || protocol->rules.count != 0) &&
                       MSCCLPP_DEV_PUT_CAPACITY(team->runner.layout.put_size, team->group.size) == 0;
}

bool mscclpp_team_wants_more(const mscclpp_team_t *team, uint64_t bytes, bool queued)
{
    return team->full_size != 0 && (bytes > team->small_max || queued || team->lacks_puts);
}

/* Waits until all ranks of this node have closed their mappings of the memory that is given up. */
static mscclpp_status_t await_closing(mscclpp_team_t *team, uint64_t bytes)
{
    uint64_t *mine = &team->group.board[team->group.rank].met;

    mscclpp_board_store(mine, ++team->group.meetings);
    return mscclpp_group_wait_words(&team->group, "larger scratch, given up by all", bytes, mine, team->group.meetings);
}

/*
 * Allocates the new scratch. Its counters of operations go on from those of the old one. After an error, *scratch_p may
 * still be memory that is to be freed.
 */
static mscclpp_status_t allocate(mscclpp_team_t *team, const mscclpp_layout_t *layout, char **scratch_p)
{
    mscclpp_dev_progress_t progress[MSCCLPP_DEV_MAX_BLOCKS];
    mscclpp_dev_state_t *state;
    mscclpp_status_t status = team->runner.gpu->device_alloc(team->runner.device, layout->total, (void **)scratch_p);
    int block;

    if (status != MSCCLPP_OK) {
        *scratch_p = NULL;
        return status;
    }
    memset(progress, 0, sizeof(progress));
    for (block = 0; block < MSCCLPP_DEV_MAX_BLOCKS; ++block) {
        progress[block].launches = team->runner.launches;
        /* Packets from other nodes are not cleared, so their flags go on. */
        progress[block].epoch = (uint32_t)team->runner.epochs;
    }
    state = (mscclpp_dev_state_t *)(void *)(*scratch_p + layout->state_offset);
    status = mscclpp_runner_take_stream(&team->runner);
    if (status == MSCCLPP_OK) {
        status = team->runner.gpu->copy(team->runner.stream, state->progress, progress, sizeof(progress));
    }
    return status == MSCCLPP_OK ? team->runner.gpu->stream_sync(team->runner.stream) : status;
}

/* Closes the mappings of the peers' new scratch, as far as there are any. */
static void close_new_mappings(const mscclpp_team_t *team, char **scratch, mscclpp_gpu_handle_t *handles)
{
    int rank;

    for (rank = 0; rank < team->group.size; ++rank) {
        if (rank != team->group.rank && scratch[rank] != NULL) {
            team->runner.gpu->close_memory(team->runner.device, &handles[rank], scratch[rank] - handles[rank].offset);
            scratch[rank] = NULL;
        }
    }
}

/*
 * Maps the new scratch of all ranks of this node, which they have exchanged. Stops at the first failure; the caller
 * then closes the mappings made so far.
 */
static mscclpp_status_t map_peers(mscclpp_team_t *team, char *own_scratch, char **scratch,
                                  mscclpp_gpu_handle_t *handles)
{
    mscclpp_status_t status = MSCCLPP_OK;
    void *base;
    int rank;

    for (rank = 0; rank < team->group.size && status == MSCCLPP_OK; ++rank) {
        const mscclpp_board_buffers_t *theirs = mscclpp_group_exchanged(&team->group, rank);

        if (theirs->exportable == 0) {
            status = MSCCLPP_ERR_PEER;
        } else if (rank == team->group.rank) {
            scratch[rank] = own_scratch;
        } else if ((status = mscclpp_mapping_import(team->runner.gpu, team->runner.device, &theirs->out, &base)) ==
                   MSCCLPP_OK) {
            handles[rank] = theirs->out;
            scratch[rank] = (char *)base + theirs->out.offset;
        }
    }
    return status;
}

/*
 * Votes among all nodes, after the ranks of this node have, because the scratch must have one size on all nodes. *all_p
 * is the result of the vote before, and becomes that of both.
 */
static mscclpp_status_t agree_with_nodes(mscclpp_team_t *team, mscclpp_status_t own_status, bool *all_p)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status;

    if (team->fabric == NULL) {
        return MSCCLPP_OK;
    }
    status = mscclpp_vote(&team->group.oob,
                          *all_p                     ? MSCCLPP_OK
                          : own_status != MSCCLPP_OK ? own_status
                                                     : MSCCLPP_ERR_PEER,
                          &vote);
    *all_p = *all_p && status == MSCCLPP_OK && vote.culprit < 0;
    return status;
}

/*
 * Replaces the team's scratch by a larger one, which all ranks have mapped. Returns the old one, still allocated. This
 * rank's own entry of `handles` is not set, and never read.
 */
static char *replace_scratch(mscclpp_team_t *team, const mscclpp_layout_t *layout, char *const *scratch,
                             const mscclpp_gpu_handle_t *handles)
{
    char *old = team->runner.scratch;

    mscclpp_runner_close_peers(&team->runner);
    team->runner.scratch = scratch[team->group.rank];
    memcpy(team->runner.peer_scratch, scratch, sizeof(team->runner.peer_scratch));
    memcpy(team->runner.peer_handle, handles, sizeof(team->runner.peer_handle));
    team->runner.layout = *layout;
    mscclpp_repeats_clear(&team->runner.repeats, team->runner.gpu);
    return old;
}

/*
 * Notes which larger sizes the scratch may still get: its full size, if it has just grown to the middle size. Otherwise
 * it has its full size, or could not grow; in both cases it never grows again.
 */
static void note_growth(mscclpp_team_t *team, bool can_grow_further)
{
    team->full_size = can_grow_further ? team->full_size : 0;
    team->small_max = team->middle_max;
    team->lacks_puts = false;
    team->middle_max = 0;
}

mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes, bool queued)
{
    const bool to_middle = team->middle_max != 0 && bytes <= team->middle_max && !queued;
    mscclpp_gpu_handle_t handles[MSCCLPP_DEV_MAX_RANKS];
    char *scratch[MSCCLPP_DEV_MAX_RANKS], *grown = NULL, *given_up;
    mscclpp_board_buffers_t *mine;
    mscclpp_status_t status, own_status;
    mscclpp_layout_t layout;
    bool all_succeeded = false;

    memset(scratch, 0, sizeof(scratch));
    /* Ends the lingering kernel, which would go on using the old scratch. */
    if (mscclpp_linger_end(&team->runner) != MSCCLPP_OK) {
        return MSCCLPP_ERR_DEVICE;
    }
    mscclpp_layout_init(&layout, to_middle ? MIDDLE_SIZE : team->full_size);
    own_status = allocate(team, &layout, &grown);
    /* All ranks of the node exchange handles, map the new scratch of their peers, and vote. */
    mine = mscclpp_group_begin_exchange(&team->group);
    mine->asked = team->group.asked;
    mine->in_place = 0;
    if (own_status == MSCCLPP_OK) {
        own_status = team->runner.gpu->export_memory(grown, &mine->out);
    }
    mine->exportable = own_status == MSCCLPP_OK;
    team->given_up = grown; /* kept, because peers may still map it after an error */
    status = mscclpp_group_meet_exchange(&team->group, "larger scratch", bytes);
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (own_status == MSCCLPP_OK) {
        own_status = map_peers(team, grown, scratch, handles);
    }
    status = mscclpp_group_end_exchange(&team->group, "vote on a larger scratch", bytes, own_status == MSCCLPP_OK,
                                        &all_succeeded);
    if (status == MSCCLPP_OK) {
        status = agree_with_nodes(team, own_status, &all_succeeded);
    }
    if (status == MSCCLPP_OK && all_succeeded) {
        given_up = replace_scratch(team, &layout, scratch, handles);
    } else {
        close_new_mappings(team, scratch, handles);
        given_up = grown;
    }
    team->given_up = given_up;
    note_growth(team, to_middle && status == MSCCLPP_OK && all_succeeded);
    if (status == MSCCLPP_OK) {
        status = await_closing(team, bytes);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    /*
     * Freed at once unless the team serves queued operations: the runtime would wait here for kernels of other queues.
     */
    if (!team->runner.serves_queue) {
        mscclpp_pool_free(team->runner.gpu, team->runner.device, given_up);
        team->given_up = NULL;
    }
    if (!all_succeeded) {
        mscclpp_log(mscclpp_status_is_shortage(own_status) ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                    "%s: rank %d: %llu bytes of scratch for large messages: %s: these take many steps",
                    team->group.oob.label, team->group.members[team->group.rank], (unsigned long long)layout.total,
                    own_status != MSCCLPP_OK ? mscclpp_status_string(own_status) : "a peer has none");
    }
    return MSCCLPP_OK;
}
