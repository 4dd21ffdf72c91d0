#include "mca/common/team/grow.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/select.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/gpu/pool.h"
#include "mca/common/team/larger.h"
#include "mca/common/team/lease.h"

#define KIB ((uint64_t)1024)

/* The scratch_size of a scratch of the middle size. With the kernels' state, it takes less than 1 MiB. */
#define MIDDLE_BYTES (384 * KIB)

/*
 * Areas of the smallest scratch, in bytes: half the packet area, and those of other algorithms. The other algorithms
 * use them only if there is no memory for a larger scratch. With more than FIRST_RANKS_MAX ranks they would be too
 * small for that, so such a team begins with a scratch of the middle size.
 */
#define FIRST_PACKET_HALF (16 * KIB)
#define FIRST_BULK (8 * KIB)
#define FIRST_PUTS (4 * KIB)
#define FIRST_RANKS_MAX 8

/*
 * FIRST_BULK over several nodes, where there is no area for puts. The shortest tiles of a reduce-scatter of up to
 * FIRST_RANKS_MAX ranks on any nodes have room there: at most 116 rows (MSCCLPP_DEV_COLL_NODES_TILE_ROWS).
 */
#define FIRST_BULK_NODES (12 * KIB)

/* Packets take twice the size of their data in a slot of the packet area. */
#define PACKET_FACTOR 2u

/* Returns the largest message, in bytes, that packets carry at full speed. */
static uint64_t largest_packet_message(const mscclpp_layout_t *layout, int ranks)
{
    return layout->packet_half / (uint64_t)ranks / PACKET_FACTOR;
}

/* Returns true if the communicator has ranks on other nodes. Known before the team has a fabric. */
static bool spans_nodes(const mscclpp_team_t *team)
{
    return team->group.oob.size != team->group.size;
}

/* Divides a scratch of the middle or the full size. */
static void divide(bool spans, uint64_t scratch_size, mscclpp_layout_t *layout)
{
    if (spans) {
        mscclpp_layout_init_between(layout, scratch_size);
    } else {
        mscclpp_layout_init(layout, scratch_size);
    }
}

/*
 * `small_max` is for the largest node, because all nodes have to grow at the same call, although nodes with fewer ranks
 * could hold larger messages. Ranks of other nodes have no room in the scratch, so they do not matter. The team does
 * not know of them yet (spans_nodes).
 */
void mscclpp_team_lay_out(mscclpp_team_t *team, uint64_t scratch_size, int ranks, int node_ranks)
{
    const bool starts_small = scratch_size > KIB * KIB, spans = node_ranks < ranks;

    divide(spans, starts_small ? MIDDLE_BYTES : scratch_size, &team->runner.layout);
    team->full_size = starts_small ? scratch_size : 0;
    team->small_max = starts_small ? largest_packet_message(&team->runner.layout, node_ranks) : 0;
    if (starts_small && ranks <= FIRST_RANKS_MAX) {
        team->middle_max = team->small_max;
        if (spans) {
            mscclpp_layout_divide_between(&team->runner.layout, FIRST_PACKET_HALF, FIRST_BULK_NODES);
        } else {
            mscclpp_layout_divide(&team->runner.layout, FIRST_PACKET_HALF, FIRST_BULK, FIRST_PUTS);
        }
        team->small_max = largest_packet_message(&team->runner.layout, node_ranks);
    }
}

/* A message goes through both the scratch and the area between nodes, so the smaller limit counts. */
void mscclpp_team_note_nodes(mscclpp_team_t *team)
{
    const uint64_t small = mscclpp_fabric_packet_bytes(team->fabric, MSCCLPP_FABRIC_SMALL);
    const uint64_t middle = mscclpp_fabric_packet_bytes(team->fabric, MSCCLPP_FABRIC_MIDDLE);

    team->small_max = team->small_max < small ? team->small_max : small;
    team->middle_max = team->middle_max < middle ? team->middle_max : middle;
}

void mscclpp_team_note_choices(mscclpp_team_t *team)
{
    const mscclpp_protocol_t *protocol = &team->protocol;
    bool is_forced = protocol->algorithm >= 0 && protocol->algorithm == mscclpp_algo_find("oneshot_put");
    int coll;

    for (coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        is_forced = is_forced || protocol->coll_algorithm[coll] == MSCCLPP_COLL_BY_PUTS;
    }
    team->lacks_puts = team->full_size != 0 && !spans_nodes(team) &&
                       (is_forced || protocol->put_max != 0 || protocol->rules.count != 0) &&
                       MSCCLPP_DEV_PUT_CAPACITY(team->runner.layout.put_size, team->group.size) == 0;
}

bool mscclpp_team_wants_more(const mscclpp_team_t *team, uint64_t bytes, bool queued)
{
    return team->full_size != 0 && (bytes > team->small_max || queued || team->lacks_puts);
}

bool mscclpp_team_wants_more_queued(const mscclpp_team_t *team, uint64_t bytes)
{
    return team->runner.serves_queue && team->fabric == NULL && !team->group.gave_up &&
           mscclpp_team_wants_more(team, bytes, false);
}

bool mscclpp_team_has_middle(const mscclpp_team_t *team, uint64_t bytes)
{
    return team->middle_max != 0 && bytes <= team->middle_max;
}

void mscclpp_team_describe_grown(const mscclpp_team_t *team, bool to_middle, mscclpp_layout_t *layout,
                                 mscclpp_select_input_t *input)
{
    divide(spans_nodes(team), to_middle ? MIDDLE_BYTES : team->full_size, layout);
    input->layout = layout;
    if (team->fabric != NULL) {
        mscclpp_fabric_describe_grown(team->fabric, to_middle ? MSCCLPP_FABRIC_MIDDLE : MSCCLPP_FABRIC_FULL, input);
    }
}

/*
 * Waits until all ranks of this node have closed their mappings of the memory that is given up. Before that, freeing
 * it would take memory from under a peer's mapping. `bytes` is the size of the call, for messages.
 */
static mscclpp_status_t await_closing(mscclpp_team_t *team, uint64_t bytes)
{
    uint64_t *own_meeting = &team->group.board[team->group.rank].met;

    mscclpp_board_store(own_meeting, ++team->group.meetings);
    return mscclpp_group_wait_words(&team->group, "larger scratch, given up by all", bytes, own_meeting,
                                    team->group.meetings);
}

/*
 * Notes which larger sizes the scratch may still get: its full size, if it has just grown to the middle size. Otherwise
 * it has its full size, or could not grow. In both cases it does not grow again, and small_max does not matter, unless
 * the team loses a leased scratch (return_to_small).
 */
static void note_growth(mscclpp_team_t *team, bool can_grow_further)
{
    team->full_size = can_grow_further ? team->full_size : 0;
    team->small_max = team->middle_max;
    team->lacks_puts = false;
    team->middle_max = 0;
}

/*
 * Frees scratch, or gives a chunk back. Memory that is no chunk comes from the pool. No peer maps the memory any more.
 * NULL is allowed.
 */
static void free_scratch(mscclpp_team_t *team, void *memory)
{
    if (!mscclpp_lease_give(team, memory)) {
        mscclpp_pool_free(team->runner.gpu, team->runner.device, memory);
    }
}

/*
 * Makes the team count its uses, from the current call on, which has entered without counting. A chunk can be recalled
 * only from a team that counts.
 */
static void count_uses(mscclpp_team_t *team)
{
    team->counts_uses = true;
    if (!team->in_use) {
        (void)mscclpp_lease_begin(team);
        team->in_use = true;
    }
}

/*
 * Replaces the scratch by a larger one, in this order:
 * 1. The ranks allocate, exchange and map the new scratch, and vote.
 * 2. Each rank installs the new scratch, or closes its new mappings.
 * 3. All ranks of the node meet, so that no peer maps the memory that is given up.
 * 4. That memory is freed.
 * If any rank fails, all keep the scratch that they have, and do not try again (note_growth). After an error, the
 * memory that is given up stays in team->unused_scratch until the team ends. A queued call keeps the old scratch, so it
 * skips the last two steps.
 */
mscclpp_status_t mscclpp_team_grow(mscclpp_team_t *team, uint64_t bytes, bool to_full_size)
{
    const bool to_middle = !to_full_size && mscclpp_team_has_middle(team, bytes);
    /*
     * A lease needs a host that waits for each use (lease.h). So teams for queued operations get memory of their own.
     * So do calls on one node that grow to the full size at once, because their hosts may not wait.
     */
    mscclpp_larger_t larger = {.is_leased =
                                   !to_middle && (!to_full_size || team->fabric != NULL) && !team->runner.serves_queue,
                               .is_queued = team->runner.serves_queue && team->fabric == NULL,
                               .epochs = team->runner.epochs};
    mscclpp_status_t status, own_status;
    bool all_succeeded = false;

    mscclpp_fiber_close(); /* growing waits for other ranks, also by the embedding runtime */
    /* The lingering kernel must end, because it would continue to use the old scratch. */
    if (mscclpp_linger_end(&team->runner) != MSCCLPP_OK) {
        return MSCCLPP_ERR_DEVICE;
    }
    if (larger.is_leased) {
        count_uses(team);
    }
    divide(spans_nodes(team), to_middle ? MIDDLE_BYTES : team->full_size, &larger.layout);
    own_status = mscclpp_larger_allocate(team, &larger);
    team->unused_scratch = larger.own_scratch; /* kept, because peers may still map it after an error */
    status = mscclpp_larger_exchange(team, bytes, &larger, &own_status, &all_succeeded);
    if (status != MSCCLPP_OK) {
        mscclpp_larger_close(&larger);
        return status;
    }
    if (all_succeeded) {
        team->has_older_graphs = mscclpp_runner_is_captured(&team->runner);
        team->unused_scratch = mscclpp_larger_install(team, &larger);
    } else {
        mscclpp_larger_close(&larger);
    }
    note_growth(team, to_middle && all_succeeded);
    status = larger.is_queued ? MSCCLPP_OK : await_closing(team, bytes);
    if (status == MSCCLPP_OK && team->fabric != NULL && all_succeeded) {
        status = mscclpp_fabric_grow(team->fabric, to_middle ? MSCCLPP_FABRIC_MIDDLE : MSCCLPP_FABRIC_FULL);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (larger.is_leased && !all_succeeded) {
        mscclpp_lease_leave(team);
    }
    /*
     * Freed now, unless the team serves queued operations: for those, freeing would wait for the kernels of other
     * queues.
     */
    if (!team->runner.serves_queue) {
        free_scratch(team, team->unused_scratch);
        team->unused_scratch = NULL;
    }
    if (!all_succeeded) {
        mscclpp_log(
            mscclpp_status_is_shortage(own_status) || team->group.gave_up ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
            "%s: rank %d: no %llu bytes of scratch for large messages (%s); large messages will take many steps",
            team->group.oob.label, team->group.members[team->group.rank], (unsigned long long)larger.layout.total,
            own_status != MSCCLPP_OK ? mscclpp_status_string(own_status)
            : team->group.gave_up    ? "a rank did not come to the call in time"
                                     : "a peer has none");
    }
    return MSCCLPP_OK;
}

/* Returns true if the scratch in use is leased, so that the small one is kept. */
static bool is_leased(const mscclpp_team_t *team)
{
    return team->kept != NULL && team->kept->scratch != NULL;
}

/*
 * Makes the team use its small scratch again. All ranks of the node do this before the same operation, because a grant
 * names the use from which on the chunks are gone. Over several nodes other nodes may still have theirs. So the sizes
 * to grow to stay as they are, and so does the layout by which algorithms are chosen (mscclpp_team_layout). An error
 * breaks the team.
 */
static mscclpp_status_t return_to_small(mscclpp_team_t *team)
{
    mscclpp_runner_t *runner = &team->runner;
    mscclpp_team_kept_t *kept = team->kept;
    mscclpp_status_t status;

    /*
     * This comes first, because it waits for the lock: the team that has taken the chunk may still be ending the
     * lingering kernel.
     */
    mscclpp_lease_leave(team);
    if (mscclpp_linger_end(runner) != MSCCLPP_OK) {
        return MSCCLPP_ERR_DEVICE;
    }
    /* Peers may still map the chunk, so it is only stored here, and given back later (mscclpp_larger_exchange). */
    mscclpp_runner_close_peers(runner);
    team->lost_chunk = runner->scratch;
    runner->scratch = kept->scratch;
    memcpy(runner->peer_scratch, kept->peer_scratch, sizeof(kept->peer_scratch));
    memcpy(runner->peer_mapping, kept->peer_mapping, sizeof(kept->peer_mapping));
    if (team->fabric != NULL) {
        team->has_lost = true;
        team->lost_layout = runner->layout;
    } else {
        team->full_size = kept->full_size;
        team->small_max = kept->small_max;
        team->middle_max = kept->middle_max;
    }
    runner->layout = kept->layout;
    memset(kept, 0, sizeof(*kept));
    mscclpp_team_note_choices(team);
    mscclpp_repeats_clear(&runner->repeats, runner->gpu);
    status = mscclpp_larger_write_progress(runner, runner->scratch, &runner->layout, runner->epochs);
    mscclpp_runner_give_stream(runner);
    mscclpp_debug("%s: another communicator of the process has the scratch for large messages", team->group.oob.label);
    return status;
}

const mscclpp_layout_t *mscclpp_team_layout(const mscclpp_team_t *team)
{
    return team->has_lost ? &team->lost_layout : &team->runner.layout;
}

/* Returns true if both choices launch the same kernel in the same grid, for the same algorithm. */
static bool is_same_launch(const mscclpp_choice_t *first, const mscclpp_choice_t *second)
{
    return first->algo == second->algo && first->kernel == second->kernel && first->nblocks == second->nblocks &&
           first->nthreads == second->nthreads;
}

/*
 * The small scratch is enough only for calls of one epoch that launch the same kernel. With several epochs, the pieces
 * that other nodes expect depend on the layout. Without packets, the tiles depend on it.
 */
bool mscclpp_team_needs_lost(const mscclpp_team_t *team, const mscclpp_select_input_t *input,
                             const mscclpp_choice_t *choice)
{
    mscclpp_select_input_t small_input = *input;
    mscclpp_choice_t small_choice;

    if (!team->has_lost) {
        return false;
    }
    small_input.layout = &team->runner.layout;
    return mscclpp_select_allreduce(&small_input, &small_choice) != MSCCLPP_OK ||
           !is_same_launch(&small_choice, choice) || small_choice.epochs != 1 || choice->epochs != 1;
}

/*
 * Other nodes take no part, and do not know of it. So a failure breaks the team, where a first growth would go on with
 * the small scratch.
 */
mscclpp_status_t mscclpp_team_reclaim(mscclpp_team_t *team, uint64_t bytes)
{
    mscclpp_larger_t larger = {.is_leased = true, .is_reclaimed = true, .epochs = team->runner.epochs};
    mscclpp_status_t status, own_status;
    bool all_succeeded = false;

    if (!team->has_lost) {
        return MSCCLPP_OK;
    }
    if (mscclpp_linger_end(&team->runner) != MSCCLPP_OK) {
        return MSCCLPP_ERR_DEVICE;
    }
    larger.layout = team->lost_layout;
    own_status = mscclpp_larger_allocate(team, &larger);
    team->unused_scratch = larger.own_scratch; /* kept, because peers may still map it after an error */
    status = mscclpp_larger_exchange(team, bytes, &larger, &own_status, &all_succeeded);
    if (status == MSCCLPP_OK && !all_succeeded) {
        const bool peer_failed = own_status == MSCCLPP_OK || own_status == MSCCLPP_ERR_PEER;

        /* The rank without memory logs the error and tells all ranks. */
        team->group.peer_failed = team->group.peer_failed || peer_failed;
        status = peer_failed ? MSCCLPP_ERR_PEER : own_status;
        mscclpp_log(peer_failed ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_ERROR,
                    "%s: rank %d: no %llu bytes of scratch in place of those that other communicators use (%s)",
                    team->group.oob.label, team->group.members[team->group.rank],
                    (unsigned long long)larger.layout.total,
                    peer_failed ? "a peer has none" : mscclpp_status_string(own_status));
    }
    if (status != MSCCLPP_OK) {
        mscclpp_larger_close(&larger);
        return status;
    }
    team->unused_scratch = mscclpp_larger_install(team, &larger);
    team->has_lost = false;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_team_enter(mscclpp_team_t *team)
{
    if (!team->counts_uses) {
        return MSCCLPP_OK;
    }
    team->in_use = true;
    return mscclpp_lease_begin(team) && is_leased(team) ? return_to_small(team) : MSCCLPP_OK;
}

/* Returns true if no operation is in progress on the device. */
static bool is_idle(const mscclpp_runner_t *runner)
{
    return runner->launches == 0 || mscclpp_runner_has_ended(runner);
}

void mscclpp_team_leave(mscclpp_team_t *team)
{
    const mscclpp_runner_t *runner = &team->runner;

    /* After a failure, or while an operation is in progress in a stream, the chunk stays with the team. */
    if (team->in_use && !team->group.broken && !runner->stuck && is_idle(runner)) {
        mscclpp_lease_end(team);
    }
    team->in_use = false;
}

void mscclpp_team_close_kept(mscclpp_team_t *team)
{
    int rank;

    for (rank = 0; team->kept != NULL && rank < team->group.size; ++rank) {
        mscclpp_mapping_put(team->kept->peer_mapping[rank]);
        team->kept->peer_mapping[rank] = NULL;
    }
}

void mscclpp_team_free_scratch(mscclpp_team_t *team)
{
    mscclpp_lease_leave(team);
    free_scratch(team, team->runner.scratch);
    free_scratch(team, team->unused_scratch);
    free_scratch(team, team->lost_chunk);
    if (team->kept != NULL) {
        free_scratch(team, team->kept->scratch);
    }
    free(team->kept);
}
