#include "mca/common/team/plans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"
#include "mca/common/team/plans_image.h"

/* Rooms for chunks up to this size are made for a rounded size. Larger ones are only as large as they have to be. */
#define ROUNDED_CHUNK_MAX ((uint64_t)1 << 20)

/* For queued calls, in bytes: the largest message that rooms are made for, and the maximum for all rooms together. */
#define QUEUED_MESSAGE_MAX ((uint64_t)1 << 20)
#define QUEUED_ROOMS_MAX ((uint64_t)64 << 20)
#define AREA_ALIGNMENT (2 * (uint64_t)MSCCLPP_DEV_PLAN_PLANE) /* of parts of a room that peers use, bytes */

/*
 * Returns the maximum number of blocks of the plan's input or output on any rank. In a plan that programs run by its
 * name, each chunk is a block.
 */
static uint64_t max_blocks(const mscclpp_plan_file_t *file)
{
    const mscclpp_plan_t *definition = file->plan;
    uint64_t count = 0;

    if (!file->only_by_name) {
        return definition->collective == MSCCLPP_PLAN_ALLREDUCE ? 1 : definition->rank_count;
    }
    for (uint32_t rank = 0; rank < definition->rank_count; ++rank) {
        for (int buffer = MSCCLPP_PLAN_INPUT; buffer <= MSCCLPP_PLAN_OUTPUT; ++buffer) {
            count = definition->ranks[rank].chunks[buffer] > count ? definition->ranks[rank].chunks[buffer] : count;
        }
    }
    return count;
}

/* Returns the value, rounded up to a multiple of `unit`. */
static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/*
 * Returns the size of chunks for which a room is made. It is rounded up, so that rooms are made less often, except if
 * data of one size could be taken for packets of another (`mixes_packets`).
 */
static uint64_t rounded_chunk(const mscclpp_plan_file_t *file, uint64_t chunk)
{
    uint64_t rounded = 4096; /* the smallest chunk that a room is made for, bytes */

    if (file->mixes_packets) {
        return chunk;
    }
    while (rounded < chunk && rounded < ROUNDED_CHUNK_MAX) {
        rounded *= 2;
    }
    return round_up(rounded > chunk ? rounded : chunk, file->unit);
}

/*
 * Computes the places of the parts of a room, equally on all ranks. room->chunk and room->has_areas must be set.
 * *local_offset_p: where the last part begins, which only this rank uses; its size, not known here, may differ between
 * ranks.
 */
static void lay_out_room(const mscclpp_team_plan_t *plan, mscclpp_plan_room_t *room, uint64_t *local_offset_p)
{
    const mscclpp_plan_file_t *file = plan->file;
    const uint64_t area = room->has_areas ? round_up(max_blocks(file) * file->chunks * room->chunk, AREA_ALIGNMENT) : 0;

    room->scratch = round_up((uint64_t)file->channels * sizeof(uint64_t), AREA_ALIGNMENT);
    room->in =
        room->scratch + round_up(mscclpp_plan_scratch_bytes(file->plan, room->chunk, &room->half), AREA_ALIGNMENT);
    room->out = room->in + area;
    *local_offset_p = room->out + area;
}

/* Returns true if the rank of the communicator is on this node. */
static bool is_on_this_node(const mscclpp_team_t *team, int rank)
{
    const mscclpp_nodes_t *nodes = team->fabric != NULL ? mscclpp_fabric_nodes(team->fabric) : NULL;

    return nodes == NULL || nodes->node_of[rank] == nodes->node;
}

/*
 * Lowers the plan for this rank, if this has not been done yet, and allocates a room. After an error, room->base is
 * NULL. In any case, plan->args does not match any room until mscclpp_plans_upload.
 */
static mscclpp_status_t allocate_room(mscclpp_team_t *team, mscclpp_team_plan_t *plan, mscclpp_plan_room_t *room,
                                      uint64_t *local_offset_p)
{
    const char *reason = NULL;
    const uint32_t rank = (uint32_t)team->group.oob.rank;
    bool is_far[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status = MSCCLPP_OK;

    for (int i = 0; i < team->group.oob.size; ++i) {
        is_far[i] = !is_on_this_node(team, i);
    }
    if (plan->program.starts == NULL) {
        status = mscclpp_plan_lower(plan->file->plan, rank, is_far, plan->orders, &plan->program, &reason);
    }
    if (reason != NULL) {
        mscclpp_info("%s: rank %d: kernels cannot run %s: %s", team->group.oob.label, (int)rank, plan->file->label,
                     reason);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    lay_out_room(plan, room, local_offset_p);
    room->bytes = *local_offset_p + mscclpp_plans_image_bytes(team, plan);
    status = team->runner.gpu->device_alloc(team->runner.device, room->bytes, (void **)&room->base);
    if (status != MSCCLPP_OK) {
        room->base = NULL;
    }
    return status;
}

/* Closes the mappings of the peers' rooms. Skips entries that were not mapped, so it also cleans up after a failure. */
static void close_peers(const mscclpp_team_t *team, mscclpp_plan_room_t *room)
{
    for (int i = 0; i < team->group.size; ++i) {
        const int rank = team->group.members[i];

        if (i != team->group.rank && room->peers[rank] != NULL) {
            team->runner.gpu->close_memory(team->runner.device, &room->handles[rank],
                                           room->peers[rank] - room->handles[rank].offset);
        }
        room->peers[rank] = NULL;
    }
}

/*
 * Maps the rooms of all peers. Stops at the first failure; close_peers closes the mappings made so far. *owner_p is the
 * rank whose room was tried last. Returns MSCCLPP_ERR_PEER if that rank has no room.
 */
static mscclpp_status_t map_peers(const mscclpp_team_t *team, mscclpp_plan_room_t *room, int *owner_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    void *base;

    for (int i = 0; i < team->group.size && status == MSCCLPP_OK; ++i) {
        const mscclpp_board_buffers_t *rank_buffers = mscclpp_group_exchanged(&team->group, i);
        const int rank = team->group.members[i];

        if (rank_buffers->exportable == 0) {
            status = MSCCLPP_ERR_PEER;
        } else if (i == team->group.rank) {
            room->peers[rank] = room->base;
        } else {
            status = mscclpp_mapping_import(team->runner.gpu, team->runner.device, &rank_buffers->out, &base);
            if (status == MSCCLPP_OK) {
                room->handles[rank] = rank_buffers->out;
                room->peers[rank] = (char *)base + rank_buffers->out.offset;
            }
        }
        *owner_p = rank;
    }
    return status;
}

/*
 * Connects a room with the rooms of ranks on other nodes. Collective, also for ranks that have failed before.
 * *own_status_p is this rank's own status, before and after. Returns an error, equal on all ranks, only if the exchange
 * itself fails.
 */
static mscclpp_status_t join_nodes(mscclpp_team_t *team, mscclpp_team_plan_t *plan, mscclpp_plan_room_t *room,
                                   mscclpp_status_t *own_status_p)
{
    const mscclpp_plan_t *definition = plan->file->plan;
    const mscclpp_plan_rank_t *this_rank = &definition->ranks[team->group.oob.rank];
    const uint32_t count = this_rank->channel_count[MSCCLPP_PLAN_PORT];
    mscclpp_fabric_port_t *ports = calloc(count + 1, sizeof(*ports));
    bool peers[MSCCLPP_DEV_MAX_RANKS] = {false};
    mscclpp_fabric_memory_params_t params = {.memory = room->base,
                                             .bytes = room->bytes,
                                             .tokens = plan->file->channels,
                                             .peers = peers,
                                             .ports = ports,
                                             .port_count = count};
    mscclpp_status_t status;

    room->ports = calloc(count + 1, sizeof(*room->ports));
    if (*own_status_p == MSCCLPP_OK && (ports == NULL || room->ports == NULL)) {
        *own_status_p = MSCCLPP_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < count && ports != NULL; ++i) {
        const mscclpp_plan_channel_t *channel = &this_rank->channels[MSCCLPP_PLAN_PORT][i];

        /* Ports to ranks of this node need no connection, because kernels access their memory directly. */
        ports[i].peer = is_on_this_node(team, (int)channel->peer) ? -1 : (int)channel->peer;
        if (channel->pair >= 0) {
            ports[i].token = mscclpp_plan_slot(definition, channel->peer, MSCCLPP_PLAN_PORT, (uint32_t)channel->pair);
        }
    }
    /*
     * A rank of another node is a peer if a port channel leads to it or comes from it, because both sides have to
     * connect.
     */
    for (uint32_t rank = 0; rank < definition->rank_count; ++rank) {
        for (uint32_t i = 0; i < definition->ranks[rank].channel_count[MSCCLPP_PLAN_PORT]; ++i) {
            const uint32_t peer = definition->ranks[rank].channels[MSCCLPP_PLAN_PORT][i].peer;

            if (rank == (uint32_t)team->group.oob.rank) {
                peers[peer] = peers[peer] || !is_on_this_node(team, (int)peer);
            } else if (peer == (uint32_t)team->group.oob.rank) {
                peers[rank] = peers[rank] || !is_on_this_node(team, (int)rank);
            }
        }
    }
    status = mscclpp_fabric_join(team->fabric, &params, *own_status_p, room->ports, &room->join, own_status_p);
    free(ports);
    return status;
}

/* Ends the room's connections to other nodes. Does nothing if there are none. */
static void leave_fabric(mscclpp_plan_room_t *room)
{
    mscclpp_fabric_leave(room->join);
    room->join = NULL;
    free(room->ports);
    room->ports = NULL;
}

/*
 * Waits until all ranks have come. The ranks of one node meet by words of their board. Nodes share no words, so their
 * ranks vote.
 */
static mscclpp_status_t meet_ranks(mscclpp_team_t *team, const char *event_name, uint64_t bytes)
{
    uint64_t *own_meeting = &team->group.board[team->group.rank].met;
    mscclpp_vote_t vote;

    if (team->fabric != NULL) {
        return mscclpp_vote(&team->group.oob, MSCCLPP_OK, &vote);
    }
    mscclpp_board_store(own_meeting, ++team->group.meetings);
    return mscclpp_group_wait_words(&team->group, event_name, bytes, own_meeting, team->group.meetings);
}

/*
 * Swaps the plan's room and *room, and fills in the new one. If that fails, swaps them back; *own_status_p is then the
 * error. In both cases, *room is the room that the plan does not use.
 */
static void replace_room(mscclpp_team_t *team, mscclpp_team_plan_t *plan, mscclpp_plan_room_t *room,
                         uint64_t local_offset, mscclpp_status_t *own_status_p)
{
    mscclpp_plan_room_t old = plan->room;

    plan->room = *room;
    *own_status_p = mscclpp_plans_upload(team, plan, plan->room.base + local_offset);
    if (*own_status_p == MSCCLPP_OK) {
        *room = old;
        plan->launches = 0;
        return;
    }
    /* The arguments no longer fit the old room. This rank's vote makes all ranks free both rooms. */
    *room = plan->room;
    plan->room = old;
}

/* Returns true if the plan's room is large enough for a call. Does not check whether the room's flags are used up. */
static bool has_room(const mscclpp_team_plan_t *plan, uint64_t chunk, bool needs_areas)
{
    const mscclpp_plan_room_t *room = &plan->room;
    uint64_t half;

    if (room->base == NULL || (needs_areas && !room->has_areas)) {
        return false;
    }
    if (!room->has_areas && mscclpp_plan_scratch_bytes(plan->file->plan, 1, &half) == 0) {
        return true; /* nothing in the room depends on the size of chunks */
    }
    return plan->file->mixes_packets ? chunk == room->chunk : chunk <= room->chunk;
}

/* Flags that are used up could be taken for those of earlier packets, so the room then needs new memory. */
static bool are_flags_used_up(const mscclpp_team_t *team, const mscclpp_team_plan_t *plan)
{
    return plan->room.base != NULL && plan->launches >= mscclpp_plans_epoch_limit(team);
}

bool mscclpp_plans_has_room(const mscclpp_team_t *team, const mscclpp_team_plan_t *plan, uint64_t chunk,
                            bool needs_areas)
{
    return has_room(plan, chunk, needs_areas) && !are_flags_used_up(team, plan);
}

/*
 * Logs why calls with such chunks are served without the plan: this rank has failed in `step`, or a peer has failed. A
 * shortage is logged as a warning, and anything else as information.
 */
static void report_no_room(const mscclpp_team_t *team, const mscclpp_team_plan_t *plan, uint64_t chunk,
                           const char *step, int room_owner, mscclpp_status_t own_status)
{
    const bool peer_failed = own_status == MSCCLPP_OK || own_status == MSCCLPP_ERR_PEER;
    char rank[32] = "";

    if (room_owner >= 0 && !peer_failed) {
        snprintf(rank, sizeof(rank), " of rank %d", room_owner);
    }
    mscclpp_log(mscclpp_status_is_shortage(own_status) ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                "%s: rank %d: memory of %s for chunks of %llu bytes: %s%s%s%s: such calls are served without it",
                team->group.oob.label, team->group.members[team->group.rank], plan->file->label,
                (unsigned long long)chunk, peer_failed ? "" : step, rank, peer_failed ? "" : ": ",
                peer_failed ? "a peer has none" : mscclpp_status_string(own_status));
}

/*
 * Votes among all nodes. On entry, *all_succeeded_p is the result of the vote on this node; on return, it is the result
 * of both votes. A rank votes against with its own error or, if only a peer has failed, with MSCCLPP_ERR_PEER. Returns
 * an error only if the vote itself fails.
 */
static mscclpp_status_t vote_of_nodes(mscclpp_team_t *team, mscclpp_status_t own_status, bool *all_succeeded_p)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_vote(&team->group.oob,
                                           *all_succeeded_p           ? MSCCLPP_OK
                                           : own_status != MSCCLPP_OK ? own_status
                                                                      : MSCCLPP_ERR_PEER,
                                           &vote);

    *all_succeeded_p = *all_succeeded_p && status == MSCCLPP_OK && vote.culprit < 0;
    return status;
}

/* A new room of a plan, from its allocation to the vote of all ranks on it. */
typedef struct {
    mscclpp_plan_room_t room;
    uint64_t bytes;              /* of the call that needs it, for messages */
    uint64_t local_offset;       /* offset of what only this rank uses, bytes */
    mscclpp_status_t own_status; /* this rank's status of the last step that it has tried */
    const char *step;            /* that step, for messages */
    int room_owner;              /* the rank whose room the step was about; -1: this rank's own */
    bool all_succeeded;          /* equal on all ranks */
} attempt_t;

/*
 * Makes a room on all ranks, and lets them vote on it. The result is in `attempt`. Its `room` becomes whichever room
 * the plan does not use. A rank that fails takes part in all exchanges, because the others wait for it there.
 *
 * Returns an error only if an exchange itself fails, which breaks the team. plan->unused_room is then the memory that
 * the plan does not use.
 */
static mscclpp_status_t exchange_room(mscclpp_team_t *team, mscclpp_team_plan_t *plan, attempt_t *attempt)
{
    mscclpp_board_buffers_t *own_buffers;
    mscclpp_status_t status;

    attempt->step = "allocating";
    attempt->own_status = allocate_room(team, plan, &attempt->room, &attempt->local_offset);
    plan->unused_room = attempt->room.base; /* kept, because peers may still map it after an error */
    own_buffers = mscclpp_group_begin_exchange(&team->group);
    own_buffers->call_args = team->group.call_args;
    own_buffers->in_place = 0;
    if (attempt->own_status == MSCCLPP_OK) {
        attempt->step = "exporting";
        attempt->own_status = team->runner.gpu->export_memory(attempt->room.base, &own_buffers->out);
    }
    own_buffers->exportable = attempt->own_status == MSCCLPP_OK;
    status = mscclpp_group_meet_exchange(&team->group, "memory of a plan", attempt->bytes);
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (attempt->own_status == MSCCLPP_OK) {
        attempt->step = "mapping that";
        attempt->own_status = map_peers(team, &attempt->room, &attempt->room_owner);
    }
    if (team->fabric != NULL) {
        attempt->step = attempt->own_status == MSCCLPP_OK ? "joining nodes" : attempt->step;
        status = join_nodes(team, plan, &attempt->room, &attempt->own_status);
    }
    if (status == MSCCLPP_OK && attempt->own_status == MSCCLPP_OK) {
        attempt->step = "filling";
        attempt->room_owner = -1;
        replace_room(team, plan, &attempt->room, attempt->local_offset, &attempt->own_status);
        plan->unused_room = attempt->room.base; /* whichever of the two rooms the plan does not keep */
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_group_end_exchange(&team->group, "vote on memory of a plan", attempt->bytes,
                                            attempt->own_status == MSCCLPP_OK, &attempt->all_succeeded);
    }
    if (status == MSCCLPP_OK && team->fabric != NULL) {
        status = vote_of_nodes(team, attempt->own_status, &attempt->all_succeeded);
    }
    if (status != MSCCLPP_OK) {
        leave_fabric(&attempt->room);
        close_peers(team, &attempt->room);
    }
    return status;
}

/*
 * Frees, after the vote, the room that the plan does not use. If any rank has failed, frees the plan's own room as
 * well. Before that, all ranks close their mappings and meet. If the meeting fails, returns its error, and nothing is
 * freed until the team ends.
 */
static mscclpp_status_t free_unused_rooms(mscclpp_team_t *team, mscclpp_team_plan_t *plan, uint64_t chunk,
                                          attempt_t *attempt)
{
    mscclpp_status_t status;

    if (!attempt->all_succeeded) {
        /* No rank keeps a room. Some ranks have replaced the old one already. */
        plan->refused = chunk < plan->refused ? chunk : plan->refused;
        leave_fabric(&plan->room);
        close_peers(team, &plan->room);
    }
    leave_fabric(&attempt->room);
    close_peers(team, &attempt->room);
    plan->unused_room = attempt->room.base;
    /* After this, no rank maps any of the memory that is freed below. */
    status = meet_ranks(team, "memory of a plan, given up by all", attempt->bytes);
    if (status != MSCCLPP_OK) {
        return status;
    }
    team->runner.gpu->device_free(team->runner.device, attempt->room.base);
    plan->unused_room = NULL;
    if (!attempt->all_succeeded) {
        team->runner.gpu->device_free(team->runner.device, plan->room.base);
        memset(&plan->room, 0, sizeof(plan->room));
    }
    return MSCCLPP_OK;
}

/*
 * Makes a new room only if the plan's room is too small, or if its flags are used up. A failure of one rank to get
 * memory is not an error: the size is remembered (`refused`), so that it is not tried again.
 */
mscclpp_status_t mscclpp_plans_make_room(mscclpp_team_t *team, mscclpp_team_plan_t *plan, uint64_t chunk,
                                         bool needs_areas, uint64_t bytes, bool *has_memory_p)
{
    const bool is_new_for_flags = are_flags_used_up(team, plan);
    attempt_t attempt = {.bytes = bytes, .room_owner = -1};
    mscclpp_status_t status;

    *has_memory_p = true;
    if (has_room(plan, chunk, needs_areas) && !is_new_for_flags) {
        status = chunk == plan->chunk ? MSCCLPP_OK : meet_ranks(team, "chunks of a plan of another size", bytes);
        plan->chunk = chunk;
        return status;
    }
    *has_memory_p = false;
    if (chunk >= plan->refused) { /* some rank had no memory for chunks of this size, or of a smaller one, before */
        return MSCCLPP_OK;
    }
    /* The lingering kernel must end, because the allocation of memory may have to wait for it. */
    if (mscclpp_linger_end(&team->runner) != MSCCLPP_OK) {
        return MSCCLPP_ERR_DEVICE;
    }
    /* No smaller than the room so far, unless the plan needs a room for exactly this size. */
    attempt.room.chunk =
        rounded_chunk(plan->file, chunk > plan->room.chunk || plan->file->mixes_packets ? chunk : plan->room.chunk);
    attempt.room.has_areas = needs_areas || plan->room.has_areas;
    status = exchange_room(team, plan, &attempt);
    if (status == MSCCLPP_OK) {
        status = free_unused_rooms(team, plan, chunk, &attempt);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (attempt.all_succeeded) {
        mscclpp_debug("%s: %s has %llu bytes of memory, for chunks of up to %llu bytes%s", team->group.oob.label,
                      plan->file->label, (unsigned long long)plan->room.bytes, (unsigned long long)plan->room.chunk,
                      is_new_for_flags ? ", as its flags are used up" : "");
    } else {
        report_no_room(team, plan, chunk, attempt.step, attempt.room_owner, attempt.own_status);
    }
    plan->chunk = chunk;
    *has_memory_p = attempt.all_succeeded;
    return MSCCLPP_OK;
}

/*
 * Makes the rooms of queued calls, up to QUEUED_ROOMS_MAX bytes in total, because these calls cannot make them. A plan
 * without memory for a room is not an error, and serves no queued calls.
 */
mscclpp_status_t mscclpp_plans_open_queue(mscclpp_team_t *team)
{
    const uint32_t blocks = team->runner.queue_blocks;
    uint64_t total = 0, shared_bytes;
    mscclpp_status_t status = MSCCLPP_OK;
    bool has_memory;

    for (int i = 0; i < team->plan_count && status == MSCCLPP_OK; ++i) {
        mscclpp_team_plan_t *plan = &team->plans[i];
        const mscclpp_plan_file_t *file = plan->file;
        /*
         * There is room for the largest message that the plan is for, but not for more than QUEUED_MESSAGE_MAX bytes.
         */
        const uint64_t message =
            file->plan->max_bytes < QUEUED_MESSAGE_MAX ? file->plan->max_bytes : QUEUED_MESSAGE_MAX;
        const uint64_t ranks = file->plan->collective == MSCCLPP_PLAN_ALLREDUCE ? 1 : (uint64_t)team->group.oob.size;
        mscclpp_plan_room_t room = {.chunk = round_up(message / ranks / file->chunks + 1, file->unit),
                                    .has_areas = true};

        lay_out_room(plan, &room, &shared_bytes);
        /* These conditions are equal on all ranks. Plans that programs run by their names are never queued. */
        if (file->only_by_name || (blocks != 0 && file->blocks > blocks) || shared_bytes > QUEUED_ROOMS_MAX - total) {
            continue;
        }
        total += shared_bytes;
        status = mscclpp_plans_make_room(team, plan, room.chunk, true, QUEUED_MESSAGE_MAX, &has_memory);
    }
    return status;
}

bool mscclpp_plans_can_queue(const mscclpp_team_plan_t *plan, uint64_t chunk)
{
    return plan->room.base != NULL && chunk <= plan->room.chunk;
}

uint64_t mscclpp_plans_bytes(const mscclpp_team_t *team)
{
    uint64_t bytes = 0;

    for (int i = 0; i < team->plan_count; ++i) {
        bytes += team->plans[i].room.base != NULL ? team->plans[i].room.bytes : 0;
    }
    return bytes;
}

void mscclpp_plans_leave(mscclpp_team_t *team)
{
    for (int i = 0; i < team->plan_count; ++i) {
        leave_fabric(&team->plans[i].room);
    }
}

void mscclpp_plans_close(mscclpp_team_t *team)
{
    for (int i = 0; i < team->plan_count; ++i) {
        close_peers(team, &team->plans[i].room);
    }
}

void mscclpp_plans_free(mscclpp_team_t *team)
{
    for (int i = 0; i < team->plan_count; ++i) {
        team->runner.gpu->device_free(team->runner.device, team->plans[i].room.base);
        team->runner.gpu->device_free(team->runner.device, team->plans[i].unused_room);
        mscclpp_plan_program_destroy(&team->plans[i].program);
    }
    free(team->plans);
    team->plans = NULL;
    team->plan_count = 0;
}
