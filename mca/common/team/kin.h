/*
 * Kin: what the ranks of a communicator over several nodes have agreed on, kept as long as a team lives that was made
 * with it. A later communicator of the same ranks, such as a duplicate, takes it over. So its ranks exchange less, and
 * do not try again what has been tried between them.
 *
 * Ranks end communicators at different times, so they agree on the kin as they do on a parked team (team/park.h), by a
 * number that all of them offer. Unlike a parked team, kin may serve any number of communicators at a time.
 */
#ifndef MCA_COMMON_TEAM_KIN_H
#define MCA_COMMON_TEAM_KIN_H

#include "mca/common/algo/algo.h"
#include "mca/common/ctrl/ctrl.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/team/team.h"

/* The most kin that a rank offers to one communicator. */
#define MSCCLPP_KIN_OFFERS 2

typedef struct mscclpp_kin mscclpp_kin_t;

/* What ranks have agreed on. Constant but for the first three, which belong to kin.c. */
struct mscclpp_kin {
    struct mscclpp_kin *next;
    unsigned references; /* by teams, and by ranks that offer it */
    bool spoilt;         /* a team that was made with it has failed */
    uint64_t key;        /* as of parked teams (mscclpp_park_key) */
    uint64_t id;         /* equal on all ranks, and of no other kin of any of them */
    mscclpp_protocol_t protocol;
    uint64_t exchange_size;
    uint32_t block_limit; /* this and the next four as in mscclpp_group_t and mscclpp_runner_t */
    bool meet_first;
    bool threads;
    bool shares_gpu;
    bool takes_turns;
    mscclpp_fabric_hint_t hint;
    mscclpp_ctrl_t *ctrl; /* a copy of the first team's, for mscclpp_ctrl_connect_like; NULL: none */
};

/*
 * Makes kin of what a new team over several nodes has agreed on. `exchange_size` is the setting, `key` is not 0.
 * Without memory the team has none, which costs later teams a whole set-up.
 */
void mscclpp_kin_found(mscclpp_team_t *team, uint64_t exchange_size, uint64_t key);

/* Gives the team the kin that it was made with. Takes over the caller's reference. */
void mscclpp_kin_join(mscclpp_team_t *team, mscclpp_kin_t *kin);

/* Offers the kin with this key, the youngest first, each with a reference for the caller. Others become NULL. */
void mscclpp_kin_claim(uint64_t key, mscclpp_kin_t *kin[MSCCLPP_KIN_OFFERS]);

/* Gives up a reference. NULL is allowed. */
void mscclpp_kin_release(mscclpp_kin_t *kin);

/* Keeps later teams from taking over kin of a team that has failed. NULL is allowed. */
void mscclpp_kin_spoil(mscclpp_kin_t *kin);

#endif
