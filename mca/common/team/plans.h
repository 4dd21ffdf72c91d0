/*
 * The execution plans of a team, which are those that all of its ranks have. Each plan has a room, the memory that it
 * works with. The room is allocated when the plan is first used, and replaced when a message needs a larger one.
 */
#ifndef MCA_COMMON_TEAM_PLANS_H
#define MCA_COMMON_TEAM_PLANS_H

#include "mca/common/plan/library.h"
#include "mca/common/plan/lower.h"
#include "mca/common/team/parts.h"

/*
 * A room: device memory of a plan on one rank. Arrays have one entry for each of the plan's ranks. A room begins with
 * the parts that peers use, at the same offsets on all ranks: the counters of signals, the scratch, and, if the plan
 * does not work on the users' buffers, areas that replace them.
 */
typedef struct {
    char *base;                         /* start of the memory; NULL: there is no room yet */
    uint64_t bytes;                     /* size of the memory */
    char *peers[MSCCLPP_DEV_MAX_RANKS]; /* by rank of the communicator: start of the room of a rank on this node */
    mscclpp_gpu_handle_t handles[MSCCLPP_DEV_MAX_RANKS]; /* handles of `peers`, which close their mappings */
    mscclpp_fabric_join_t *join;       /* connections to the rooms of ranks on other nodes; NULL: there are none */
    mscclpp_dev_port_channel_t *ports; /* this rank's port channels, as the plan numbers them; zeroed if the peer is on
                                          this node */
    uint64_t chunk;                    /* the largest chunk for which the room has space, in bytes */
    bool has_areas;                    /* the room has areas for input and output */
    uint64_t scratch, in, out;         /* offsets in the room, in bytes */
    uint64_t half;                     /* as in mscclpp_dev_plan_args_t */
} mscclpp_plan_room_t;

struct mscclpp_team_plan {
    mscclpp_plan_file_t *file; /* owned by the library of plans */
    int64_t rule;
    mscclpp_plan_program_t program; /* this rank's part of the plan, lowered when the first room is made */
    mscclpp_plan_room_t room;
    uint64_t chunk;               /* chunk size of the last call, in bytes; equal on all ranks */
    uint64_t launches;            /* number of launches since the room was made, or cleared for new flags */
    bool orders;                  /* the packets of the plan must order other stores; equal on all ranks */
    bool replayed;                /* a graph repeats launches, which the host does not see */
    uint64_t refused;             /* the smallest chunk for which there was no memory; equal on all ranks */
    char *unused_room;            /* memory of a room that is no longer used, kept while peers may still map it */
    mscclpp_dev_plan_args_t args; /* arguments that do not depend on the call */
    const mscclpp_dev_plan_args_t *lasting; /* a copy of `args` in the room */
};

/* The inputs of the choice of a plan: properties of a call that are equal on all ranks. */
typedef struct {
    mscclpp_coll_t coll; /* MSCCLPP_COLL_LAST: all-reduce */
    uint64_t bytes;      /* size in bytes of one block */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    bool in_place;
    uint32_t blocks; /* the maximum number of blocks of the kernel; 0: no limit */
} mscclpp_plan_query_t;

/*
 * Chooses the plan that serves a call. Returns NULL if there is none. No side effects.
 *
 * 1. If the user's parameters name an algorithm, or sizes of algorithms, none is chosen.
 * 2. If a rule matches the call, it is the plan that the rule names. Of several of that name, it is one whose own range
 *    of sizes includes the message, and else the first.
 * 3. Otherwise it is a plan whose own range of sizes includes the message.
 *
 * Of several plans with the message in their ranges, it is the one whose range ends first.
 */
mscclpp_team_plan_t *mscclpp_plans_choose(const mscclpp_team_t *team, const mscclpp_plan_query_t *query);

/*
 * Returns the plan that programs run by this name, if it can do the operation, or NULL if there is none. If several
 * plans have the name, returns the first that can do `op`. No side effects.
 */
mscclpp_team_plan_t *mscclpp_plans_find(const mscclpp_team_t *team, const char *name, mscclpp_op_t op);

/* Returns the number of blocks in a buffer of this rank. A block is one rank's part. */
uint64_t mscclpp_plans_blocks(const mscclpp_team_t *team, const mscclpp_team_plan_t *plan,
                              mscclpp_plan_buffer_t buffer);

/*
 * Makes sure that the plan has a room for chunks of `chunk` bytes, with areas for input and output if `needs_areas` is
 * set. If the chunk size differs from that of the last call, all ranks meet: the scratch is divided in a new way, so no
 * peer may still be in an earlier call. All ranks call this function in the same way, while no operation of the team is
 * in flight. `bytes` is the size of the call, for messages. *has_memory_p is equal on all ranks, and is false if there
 * is no memory on one of them. An error breaks the team.
 */
mscclpp_status_t mscclpp_plans_make_room(mscclpp_team_t *team, mscclpp_team_plan_t *plan, uint64_t chunk,
                                         bool needs_areas, uint64_t bytes, bool *has_memory_p);

/*
 * Returns true if the plan has such a room already, so that mscclpp_plans_make_room would not allocate one. Equal on
 * all ranks.
 */
bool mscclpp_plans_has_room(const mscclpp_team_t *team, const mscclpp_team_plan_t *plan, uint64_t chunk,
                            bool needs_areas);

/*
 * Returns the collective whose calls a plan can serve; MSCCLPP_COLL_LAST: all-reduce. Must not be called for plans
 * whose collective comes after MSCCLPP_PLAN_ALLTOALL, which serve no calls of MPI.
 */
mscclpp_coll_t mscclpp_plans_collective(const mscclpp_plan_t *plan);

/*
 * Allocates the rooms of a team for queued operations, for messages of up to 1 MiB, because queued calls cannot
 * allocate rooms. A plan without a room then serves no queued calls. All ranks call it in the same way. An error breaks
 * the team.
 */
mscclpp_status_t mscclpp_plans_open_queue(mscclpp_team_t *team);

/* Returns true if the plan's room is large enough for queued calls with chunks of this size. Equal on all ranks. */
bool mscclpp_plans_can_queue(const mscclpp_team_plan_t *plan, uint64_t chunk);

/* Flags are 32 bits wide, so the limit is below UINT32_MAX. */
static inline uint64_t mscclpp_plans_epoch_limit(const mscclpp_team_t *team)
{
    return team->protocol.epoch_limit < UINT32_MAX ? team->protocol.epoch_limit : UINT32_MAX - 1;
}

/* Returns the address at an offset in a rank's room, or, if the rank is on another node, the offset itself. */
static inline char *mscclpp_plans_place(const mscclpp_plan_room_t *room, int rank, uint64_t offset)
{
    return (char *)((uintptr_t)room->peers[rank] + offset);
}

/* Returns the number of bytes of device memory that the rooms of the team's plans take. */
uint64_t mscclpp_plans_bytes(const mscclpp_team_t *team);

/* Ends the connections between rooms of several nodes. The fabric must still exist. */
void mscclpp_plans_leave(mscclpp_team_t *team);

/* Closes the mappings of the peers' rooms. */
void mscclpp_plans_close(mscclpp_team_t *team);

/* Frees the team's plans and their rooms, once all peers have closed their mappings of the rooms. */
void mscclpp_plans_free(mscclpp_team_t *team);

#endif
