/*
 * Kin: the agreements of the ranks of a communicator over several nodes. They are kept as long as a team lives that was
 * made with them. A later communicator of the same ranks, such as a duplicate, takes them over. So its ranks exchange
 * less, and do not repeat attempts that have failed between them.
 *
 * Ranks end communicators at different times. So they agree on the kin as they do on a parked team (team/park.h): by a
 * number that all of them offer. Unlike a parked team, kin may serve any number of communicators at a time.
 */
#ifndef MCA_COMMON_TEAM_KIN_H
#define MCA_COMMON_TEAM_KIN_H

#include "mca/common/algo/algo.h"
#include "mca/common/ctrl/ctrl.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/team/team.h"

/* The maximum number of kin that a rank offers to one communicator. */
#define MSCCLPP_KIN_OFFERS 2

typedef struct mscclpp_kin mscclpp_kin_t;

/* The agreements of the ranks. Constant except for the first three fields, which belong to kin.c. */
struct mscclpp_kin {
    struct mscclpp_kin *next;
    unsigned references; /* number of references by teams, and by ranks that offer the kin */
    bool is_spoilt;      /* a team that was made with the kin has failed */
    uint64_t key;        /* key, as for parked teams (mscclpp_park_key) */
    uint64_t id;         /* number; equal on all ranks, and different for every other kin of any of them */
    mscclpp_protocol_t protocol;
    uint64_t exchange_size;
    uint32_t block_limit; /* this and the next four as in mscclpp_group_t and mscclpp_runner_t */
    bool meet_first;
    bool any_concurrent;
    bool shares_gpu;
    bool takes_turns;
    mscclpp_fabric_hint_t hint;
    mscclpp_nodes_t nodes; /* if each has one rank; else empty, since the ranks of a node set up their part first */
    mscclpp_ctrl_t *ctrl;  /* copy of the first team's control messages, for mscclpp_ctrl_connect_like; NULL: none */
};

/*
 * Makes kin from the agreements of a new team over several nodes. `exchange_size` is the setting, and `key` is not 0.
 * Without memory, or if the control messages cannot be copied, the team has no kin, which is not logged: later teams
 * only need a complete set-up.
 */
void mscclpp_kin_found(mscclpp_team_t *team, uint64_t exchange_size, uint64_t key);

/* Stores in the team the kin with which it was made. Takes over the caller's reference. */
void mscclpp_kin_join(mscclpp_team_t *team, mscclpp_kin_t *kin);

/*
 * Stores in `offers` the kin with this key, the youngest first, each with a reference for the caller. The other
 * elements become NULL.
 */
void mscclpp_kin_claim(uint64_t key, mscclpp_kin_t *offers[MSCCLPP_KIN_OFFERS]);

/* Gives up a reference. NULL is allowed. */
void mscclpp_kin_release(mscclpp_kin_t *kin);

/* Prevents later teams from taking over kin of a team that has failed. NULL is allowed. */
void mscclpp_kin_spoil(mscclpp_kin_t *kin);

#endif
