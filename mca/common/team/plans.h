/*
 * The execution plans of a team: those that all its ranks have, each with the memory that it works with. This memory is
 * made when a plan is first used, and made anew when a message needs more of it.
 */
#ifndef MCA_COMMON_TEAM_PLANS_H
#define MCA_COMMON_TEAM_PLANS_H

#include "mca/common/plan/library.h"
#include "mca/common/plan/lower.h"
#include "mca/common/team/parts.h"

/*
 * Device memory of a plan on one rank. Arrays have the plan's ranks. It begins with what peers use: the counters of
 * signals, the scratch, and, if the plan does not work on the users' buffers, areas in their place. These are at the
 * same offsets on all ranks.
 */
typedef struct {
    char *base; /* NULL: none was made yet */
    uint64_t bytes;
    char *peers[MSCCLPP_DEV_MAX_RANKS]; /* of every rank on this node, including this one */
    mscclpp_gpu_handle_t handles[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_fabric_join_t *join;       /* with the rooms of ranks on other nodes; NULL: there are none */
    mscclpp_dev_port_channel_t *ports; /* this rank's port channels to them; those to others are zeroed */
    uint64_t chunk;                    /* the largest that there is room for, bytes */
    bool areas;
    uint64_t scratch, in, out; /* offsets */
    uint64_t half;             /* see mscclpp_dev_plan_args_t */
} mscclpp_plan_room_t;

struct mscclpp_team_plan {
    mscclpp_plan_file_t *file;
    int64_t rule; /* what stands for its name in rules, see mscclpp_rule_by_plan */
    mscclpp_plan_program_t program;
    mscclpp_plan_room_t room;
    uint64_t chunk;               /* of the last call, bytes; equal on all ranks */
    uint64_t launches;            /* since the room was made */
    uint64_t refused;             /* the smallest chunk that there was no memory for; equal on all ranks */
    char *given_up;               /* an old room, while peers may still map it */
    mscclpp_dev_plan_args_t args; /* those that do not depend on the call */
};

/* A call, as far as the choice of a plan depends on it: equal on all ranks. */
typedef struct {
    mscclpp_coll_t coll; /* MSCCLPP_COLL_LAST: all-reduce */
    uint64_t bytes;      /* of a block */
    mscclpp_dtype_t dtype;
    mscclpp_op_t op;
    bool in_place;
    uint32_t blocks; /* the most that the kernel may have; 0: no limit */
} mscclpp_plan_wish_t;

/*
 * Chooses a plan for a call: the one that a rule names. Where no rule is for such a call, it is the plan whose own
 * range has the message, and of several the one whose range ends first. NULL: none. Pure.
 */
mscclpp_team_plan_t *mscclpp_plans_choose(const mscclpp_team_t *team, const mscclpp_plan_wish_t *wish);

/*
 * Makes ready for a call with chunks of `chunk` bytes: makes sure of room for them, and of areas if `areas` is set. If
 * the chunks have another size than those of the last call, all ranks meet: what is where in the scratch changes, so no
 * peer may be in an earlier call. All ranks call it alike, while no
 * operation of the team is in flight. *there_p, equal on all ranks, is false if there is no memory. An error breaks the
 * team.
 */
mscclpp_status_t mscclpp_plans_make_room(mscclpp_team_t *team, mscclpp_team_plan_t *plan, uint64_t chunk, bool areas,
                                         bool *there_p);

/*
 * The collective whose calls a plan can serve; MSCCLPP_COLL_LAST: all-reduce. Not for plans whose collective comes
 * after MSCCLPP_PLAN_ALLTOALL, which serve no calls of MPI.
 */
mscclpp_coll_t mscclpp_plans_collective(const mscclpp_plan_t *plan);

/* Where something is in a rank's room; of a rank on another node its offset. */
static inline char *mscclpp_plans_place(const mscclpp_plan_room_t *room, int rank, uint64_t offset)
{
    return (char *)((uintptr_t)room->peers[rank] + offset);
}

/* Bytes of memory that the team's plans hold. */
uint64_t mscclpp_plans_bytes(const mscclpp_team_t *team);

/* Before the fabric is destroyed: ends the connections between rooms of several nodes. */
void mscclpp_plans_leave(mscclpp_team_t *team);

/* Closes the mappings of peers' memory; then, once all peers have done so, frees the team's own memory. */
void mscclpp_plans_close(mscclpp_team_t *team);
void mscclpp_plans_free(mscclpp_team_t *team);

#endif
