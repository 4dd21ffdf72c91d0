/*
 * Teams whose ranks lie on several nodes: each node's ranks make a team as if they were alone, and a fabric joins them.
 * All decisions are votes of all ranks. Last, an all-reduce is tried: what a transport promises is no proof.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric.h"
#include "mca/common/log.h"
#include "mca/common/oob_part.h"
#include "mca/common/select.h"
#include "mca/common/task.h"
#include "mca/common/team_internal.h"

/* Seconds in which the first all-reduce must have ended. */
#define PROBE_DEADLINE 10.0

typedef struct {
    int32_t leader;
    int32_t ranks_per_node;
} place_t;

static mscclpp_status_t find_nodes(const mscclpp_team_params_t *params, mscclpp_nodes_t *nodes)
{
    const mscclpp_oob_t *oob = &params->oob;
    const place_t own = {params->single_node ? 0 : params->leader, params->config->ranks_per_node};
    place_t places[MSCCLPP_DEV_MAX_RANKS];
    int leaders[MSCCLPP_DEV_MAX_RANKS], rank;
    mscclpp_status_t status = oob->allgather(oob->context, &own, places, sizeof(own));

    if (status != MSCCLPP_OK) {
        return status;
    }
    for (rank = 0; rank < oob->size; ++rank) {
        leaders[rank] = places[rank].leader;
        if (places[rank].ranks_per_node != places[0].ranks_per_node) {
            mscclpp_warn("%s: coll_mscclpp_ranks_per_node is %d on rank %d and %d on rank 0; it must be equal on all "
                         "ranks: device buffers are staged",
                         oob->label, places[rank].ranks_per_node, rank, places[0].ranks_per_node);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    if (!mscclpp_nodes_map(leaders, oob->size, oob->rank, places[0].ranks_per_node, nodes)) {
        mscclpp_info("%s: ranks contradict one another on who shares a node: device buffers are staged", oob->label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}

/* The node's team. *team_p is NULL, on every rank of a node alike, where its bring-up failed. */
static mscclpp_status_t create_node_team(const mscclpp_team_params_t *params, const mscclpp_nodes_t *nodes,
                                         mscclpp_team_t **team_p)
{
    mscclpp_oob_part_t *part = mscclpp_oob_part_create(&params->oob, nodes);
    mscclpp_status_t status, finished;
    mscclpp_oob_t table;

    *team_p = NULL;
    if (part == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    mscclpp_oob_part_table(part, &table);
    status = mscclpp_team_create_on_node(params, &table, nodes, team_p);
    finished = mscclpp_oob_part_finish(part);
    mscclpp_oob_part_destroy(part);
    if (status == MSCCLPP_OK) {
        (*team_p)->oob = params->oob;
    }
    return finished;
}

/* The result of the first all-reduce is known beforehand. */
static mscclpp_status_t check_sum(mscclpp_team_t *team, const uint32_t *result)
{
    const uint32_t n = (uint32_t)team->oob.size;

    if (*result == n * (n + 1) / 2) {
        return MSCCLPP_OK;
    }
    mscclpp_warn("%s: the first all-reduce between nodes gave %u in place of %u", team->oob.label, *result,
                 n * (n + 1) / 2);
    return MSCCLPP_ERR_DEVICE;
}

static mscclpp_status_t probe(mscclpp_team_t *team)
{
    uint32_t value = (uint32_t)team->oob.rank + 1, result = 0;
    const mscclpp_allreduce_args_t args = {.sendbuf = &value,
                                           .recvbuf = &result,
                                           .count = 1,
                                           .dtype = MSCCLPP_DTYPE_UINT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = 0};
    const double timeout = team->timeout, warn_after = team->warn_after;
    const int32_t algorithm = team->protocol.algorithm;
    mscclpp_status_t status;

    team->probing = true;
    team->timeout = PROBE_DEADLINE;
    team->warn_after = 0;
    team->protocol.algorithm = -1;
    status = mscclpp_allreduce(team, &args);
    if (status == MSCCLPP_OK) {
        status = check_sum(team, &result);
    }
    team->protocol.algorithm = algorithm;
    team->probing = false;
    team->timeout = timeout;
    team->warn_after = warn_after;
    return status;
}

static mscclpp_status_t agree(const mscclpp_oob_t *oob, mscclpp_status_t mine, const char *what)
{
    int32_t ballot = (int32_t)mine, ballots[MSCCLPP_DEV_MAX_RANKS];
    mscclpp_status_t status = oob->allgather(oob->context, &ballot, ballots, sizeof(ballot));
    int rank;

    for (rank = 0; rank < oob->size && status == MSCCLPP_OK; ++rank) {
        if (ballots[rank] != MSCCLPP_OK) {
            mscclpp_info("%s: rank %d: %s: %s: device buffers are staged", oob->label, rank, what,
                         mscclpp_status_string((mscclpp_status_t)ballots[rank]));
            status = MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    return status;
}

mscclpp_status_t mscclpp_team_create_spanning(const mscclpp_team_params_t *params, mscclpp_team_t **team_p)
{
    const mscclpp_oob_t *oob = &params->oob;
    mscclpp_team_t *team = NULL;
    mscclpp_nodes_t nodes;
    mscclpp_status_t status = find_nodes(params, &nodes);

    if (status != MSCCLPP_OK) {
        return status;
    }
    if (nodes.count == 1) {
        return mscclpp_team_create_on_node(params, oob, NULL, team_p);
    }
    status = create_node_team(params, &nodes, &team);
    if (status == MSCCLPP_OK) {
        status = agree(oob, team != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NOT_SUPPORTED, "its node");
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_fabric_create(team, params, &nodes, &team->fabric);
    }
    if (status == MSCCLPP_OK) {
        status = agree(oob, probe(team), "the first all-reduce between nodes");
        mscclpp_team_give_stream(team);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_team_destroy(team);
        return status;
    }
    mscclpp_info("%s: rank %d of %d ready on node %d of %d, control messages over %s", oob->label, oob->rank, oob->size,
                 nodes.node, nodes.count, team->ctrl != NULL ? mscclpp_ctrl_name(team->ctrl) : "nothing");
    *team_p = team;
    return MSCCLPP_OK;
}
