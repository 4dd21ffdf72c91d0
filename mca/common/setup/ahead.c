/*
 * Sets a team up before the ranks know that they agree on it. A rank that offers kin makes its own part of the team,
 * and its ends of the connections, as the kin say. It connects them in an exchange that the first all-gather ends. So
 * the cards of that all-gather tell whether all ranks are connected, and nothing else has to be exchanged.
 *
 * If they are not, the set-up goes on as without this. Nothing is made ahead for nodes of several ranks, because these
 * ranks need exchanges of their own before they can connect with other nodes.
 */
#include <string.h>

#include "mca/common/setup/internal.h"

/*
 * Carries out the all-gather of a node that has one rank: copies that rank's part. The context is the exchange of all
 * ranks, and is not used.
 */
static mscclpp_status_t gather_alone(void *context, const void *sendbuf, void *recvbuf, size_t length)
{
    (void)context;
    if (recvbuf == NULL) {
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    memmove(recvbuf, sendbuf, length);
    return MSCCLPP_OK;
}

/* Makes the progress of the exchange of all ranks, which is the context. */
static void progress(void *context)
{
    const mscclpp_oob_t *whole = context;

    whole->progress(whole->context);
}

/* Makes the check of the exchange of all ranks, which is the context. */
static mscclpp_status_t check(void *context)
{
    const mscclpp_oob_t *whole = context;

    return whole->check(whole->context);
}

/*
 * Lists the first rank of each other node in the group's `leaders`. A rank is the first of its node if that node's
 * number appears for the first time: nodes are numbered in the order of their first ranks.
 */
static void find_leaders(mscclpp_team_t *team, const mscclpp_nodes_t *nodes)
{
    int rank, next_node = 0;

    for (rank = 0; rank < team->group.oob.size; ++rank) {
        if (nodes->node_of[rank] == next_node) {
            if (next_node != nodes->node) {
                team->group.leaders[team->group.leader_count++] = rank;
            }
            ++next_node;
        }
    }
}

void mscclpp_setup_widen(mscclpp_team_t *team, const mscclpp_team_params_t *params, const mscclpp_nodes_t *nodes)
{
    team->group.oob = params->oob;
    find_leaders(team, nodes);
}

/*
 * Makes this rank's part of the team, and its ends of the connections. Returns this rank's own status. What was made
 * before an error stays in *ahead, for the set-up that follows.
 */
static mscclpp_status_t prepare(mscclpp_setup_ahead_t *ahead, const mscclpp_team_params_t *user_params)
{
    mscclpp_config_t config = *user_params->config;
    mscclpp_team_params_t params = *user_params;
    const mscclpp_kin_t *kin = ahead->kin;
    mscclpp_oob_t alone = {.context = (void *)(uintptr_t)&user_params->oob,
                           .size = 1,
                           .label = user_params->oob.label,
                           .allgather = gather_alone,
                           .progress = progress,
                           .check = check};
    mscclpp_status_t status;

    params.config = &config;
    status = mscclpp_setup_node(&params, &alone, &kin->nodes, true, &ahead->node_status, &ahead->team);
    if (status != MSCCLPP_OK) {
        ahead->team = NULL;
        return status;
    }
    mscclpp_setup_widen(ahead->team, user_params, &kin->nodes);
    status = mscclpp_setup_inherit(ahead->team, kin, &config);
    if (status == MSCCLPP_OK) {
        status = mscclpp_nodes_copy(&kin->nodes, user_params->oob.size, &ahead->nodes);
    }
    return status == MSCCLPP_OK ? mscclpp_fabric_begin(&ahead->team->runner, &config, &ahead->nodes, &kin->hint,
                                                       &ahead->exchange, &ahead->fabric)
                                : status;
}

/* Connects the ends, once the peers' messages have come, and writes the result into this rank's card. */
static void complete(void *context, mscclpp_status_t status)
{
    mscclpp_setup_ahead_t *ahead = context;

    if (ahead->status == MSCCLPP_OK) {
        ahead->status = status == MSCCLPP_OK ? mscclpp_fabric_connect(ahead->fabric) : status;
    }
    *ahead->connected_p = ahead->status == MSCCLPP_OK ? ahead->kin->id : 0;
}

void mscclpp_setup_ahead_begin(mscclpp_setup_ahead_t *ahead, const mscclpp_team_params_t *params,
                               const mscclpp_kin_t *kin)
{
    memset(ahead, 0, sizeof(*ahead));
    if (kin == NULL || kin->nodes.node_of == NULL || params->oob.exchange_and_gather == NULL) {
        return;
    }
    ahead->kin = kin;
    ahead->exchange.id = kin->id;
    ahead->status = prepare(ahead, params);
    if (ahead->status != MSCCLPP_OK) {
        mscclpp_fabric_decline(&kin->hint, &ahead->exchange);
    }
    ahead->exchange.complete = complete;
    ahead->exchange.context = ahead;
}

mscclpp_status_t mscclpp_setup_ahead_gather(mscclpp_setup_ahead_t *ahead, const mscclpp_oob_t *oob, const void *card,
                                            uint64_t *connected_p, void *cards, size_t length)
{
    if (ahead->kin == NULL) {
        return oob->allgather(oob->context, card, cards, length);
    }
    ahead->connected_p = connected_p;
    return oob->exchange_and_gather(oob->context, &ahead->exchange, card, cards, length);
}

mscclpp_team_t *mscclpp_setup_ahead_finish(mscclpp_setup_ahead_t *ahead, uint64_t team_id)
{
    mscclpp_team_t *team = ahead->team;

    mscclpp_setup_name(team, team_id);
    mscclpp_fabric_finish(ahead->fabric);
    team->fabric = ahead->fabric;
    ahead->fabric = NULL;
    ahead->team = NULL;
    return team;
}

bool mscclpp_setup_ahead_take(mscclpp_setup_ahead_t *ahead, const mscclpp_kin_t *kin, mscclpp_status_t *own_status_p,
                              mscclpp_team_t **team_p)
{
    if (kin == NULL || ahead->kin != kin) {
        return false;
    }
    *own_status_p = ahead->team != NULL || ahead->node_status != MSCCLPP_OK ? ahead->node_status : MSCCLPP_ERR_PEER;
    *team_p = ahead->team;
    ahead->team = NULL;
    if (*team_p != NULL) {
        mscclpp_ctrl_destroy((*team_p)->group.ctrl); /* inherited once more */
        (*team_p)->group.ctrl = NULL;
    }
    return true;
}

void mscclpp_setup_ahead_drop(mscclpp_setup_ahead_t *ahead)
{
    mscclpp_fabric_destroy(ahead->fabric);
    ahead->fabric = NULL;
    mscclpp_nodes_fini(&ahead->nodes);
}
