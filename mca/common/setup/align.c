/*
 * Agreement between the nodes of a communicator before the fabric is created: on settings, on limits, and on whether
 * they can work together at all. All ranks return the same status. Ranks that own no shard take part, too.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/rules.h"
#include "mca/common/base/log.h"
#include "mca/common/base/tool.h"
#include "mca/common/setup/facts.h"
#include "mca/common/setup/internal.h"
#include "mca/common/setup/sharing.h"

/* Change this number whenever the data that ranks of different nodes exchange change. */
#define PROTOCOL_VERSION 15u

/* The most bytes of an address that travels with the facts. Those of most machines fit. */
#define ADDRESS_INLINE_BYTES 256u

/*
 * The values that each rank sends to all others: values that must be equal on all nodes, and facts that only its own
 * node knows so far.
 */
typedef struct {
    uint32_t version; /* PROTOCOL_VERSION of the sender */
    int32_t status;   /* whether the sender has a node's team; all that follows is 0 if not */
    uint32_t on_twin;
    uint32_t meet_first;  /* as in mscclpp_group_t */
    uint32_t block_limit; /* as in mscclpp_runner_t */
    uint32_t concurrent;  /* other threads launch kernels on the same GPU */
    uint32_t blocking;    /* launches wait for kernels to end */
    uint32_t plans;       /* the sender has been given execution plans */
    mscclpp_gpu_use_t use;
    uint64_t team_id;
    uint64_t exchange_size;
    uint64_t scratch_size;
    uint64_t protocol_digest;                    /* of the sender's protocol, which is larger than all of this */
    uint64_t address_length;                     /* bytes of its address for control messages; 0: it has none */
    unsigned char address[ADDRESS_INLINE_BYTES]; /* the address if it fits; else it takes an exchange of its own */
} node_facts_t;

/*
 * Returns true if every rank has a team of its node. Otherwise logs the first rank that has none for a reason of its
 * own, or the first rank without a team if there is no such reason. The ranks of that node have already logged the
 * reason at the right level.
 */
static bool check_teams(const mscclpp_oob_t *oob, const node_facts_t *facts)
{
    int rank, culprit = -1;

    for (rank = 0; rank < oob->size; ++rank) {
        const bool has_own_reason = facts[rank].status != MSCCLPP_OK && facts[rank].status != MSCCLPP_ERR_PEER;

        if (culprit < 0 ? facts[rank].status != MSCCLPP_OK
                        : has_own_reason && facts[culprit].status == MSCCLPP_ERR_PEER) {
            culprit = rank;
        }
    }
    if (culprit >= 0) {
        mscclpp_info("%s: rank %d: the team of its node: %s: device buffers are staged", oob->label, culprit,
                     mscclpp_status_string((mscclpp_status_t)facts[culprit].status));
    }
    return culprit < 0;
}

/*
 * Returns true if all ranks can work together. Otherwise every rank logs the first rank that differs. check_teams must
 * have returned true, because only then have all ranks filled in their facts.
 */
static bool check_facts(const mscclpp_oob_t *oob, const node_facts_t *facts)
{
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        const node_facts_t *fact = &facts[rank];

        if (fact->version != PROTOCOL_VERSION || fact->on_twin != facts[0].on_twin) {
            mscclpp_info("%s: rank %d runs protocol %u on the %s, rank 0 protocol %u on the %s: device buffers are "
                         "staged",
                         oob->label, rank, fact->version, fact->on_twin ? "host twin" : "GPU", facts[0].version,
                         facts[0].on_twin ? "host twin" : "GPU");
            return false;
        }
        if (fact->scratch_size != facts[0].scratch_size) {
            mscclpp_warn("%s: coll_mscclpp_scratch_size is %llu on rank %d and %llu on rank 0; it must be equal on all "
                         "ranks: device buffers are staged",
                         oob->label, (unsigned long long)fact->scratch_size, rank,
                         (unsigned long long)facts[0].scratch_size);
            return false;
        }
    }
    return true;
}

/*
 * Handles ranks that share a GPU. Divides the limit of blocks by their number, because the blocks of all their kernels
 * must be able to run at the same time. *take_turns_p becomes true if processes take turns on a GPU. On the twin,
 * nothing counts as shared, and the limit stays 0, which means that there is none. Returns MSCCLPP_ERR_NOT_SUPPORTED,
 * on all ranks and logged, if several ranks share a GPU and coll_mscclpp_shared_gpu is stage. Does so, too, if they
 * share it by turns or across nodes and the parameter is not kernels.
 *
 * With imitated nodes, ranks of different nodes may share a GPU. They do not meet before their kernels start, so a
 * kernel that waits for a late rank may keep that rank's kernel from starting. Therefore such a GPU is shared only if
 * the user has set coll_mscclpp_shared_gpu to kernels.
 */
static mscclpp_status_t check_shared_gpus(mscclpp_team_t *team, const mscclpp_oob_t *oob, const mscclpp_nodes_t *nodes,
                                          const node_facts_t *facts, bool *take_turns_p)
{
    const bool user_allows = team->protocol.shared_gpu == MSCCLPP_SHARED_GPU_KERNELS;
    const mscclpp_gpu_sharing_t sharing =
        team->group.on_twin
            ? (mscclpp_gpu_sharing_t){.max_ranks = 1, .max_processes = 1}
            : mscclpp_sharing_find(&facts[0].use, sizeof(*facts), nodes->node_of, oob->size, nodes->work);
    const uint32_t max_ranks = sharing.max_ranks, max_processes = sharing.max_processes;
    const bool may_share = user_allows || (!sharing.take_turns && !sharing.across_nodes &&
                                           team->protocol.shared_gpu != MSCCLPP_SHARED_GPU_STAGE);

    if (max_ranks > 1 && !may_share) {
        mscclpp_info("%s: %u ranks%s share a GPU%s and coll_mscclpp_shared_gpu is not kernels: device buffers are "
                     "staged",
                     oob->label, max_ranks, sharing.across_nodes ? " of several nodes" : "",
                     sharing.take_turns ? " by turns" : "");
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    *take_turns_p = sharing.take_turns;
    team->runner.shares_gpu = max_ranks > 1 || max_processes > 1;
    team->runner.block_limit = team->runner.block_limit / (max_processes > max_ranks ? max_processes : max_ranks);
    team->runner.block_limit = team->runner.block_limit == 0 && !team->group.on_twin ? 1 : team->runner.block_limit;
    return MSCCLPP_OK;
}

/*
 * Prevents deadlocks of kernels that wait for other nodes. There are two cases:
 *
 * - Another thread of the process uses the GPU (`concurrent`), for example to allocate memory, and must wait until the
 *   kernel ends. Then the ranks of all nodes must meet before they launch. Their hosts need control messages for that;
 *   without these, the communicator is refused.
 * - Launches wait for their kernels (`blocking`). The kernel waits for this process's proxy, which does not run during
 *   a launch. Such communicators are refused.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks and logged, if a deadlock cannot be prevented.
 */
static mscclpp_status_t avoid_deadlocks(mscclpp_team_t *team, const mscclpp_oob_t *oob, const node_facts_t *facts)
{
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        team->group.any_concurrent = team->group.any_concurrent || facts[rank].concurrent;
        if (facts[rank].concurrent && team->group.ctrl == NULL) {
            mscclpp_info("%s: rank %d runs with MPI_THREAD_MULTIPLE, and nodes have no control messages: device "
                         "buffers are staged",
                         oob->label, rank);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
        if (facts[rank].blocking) {
            mscclpp_info(
                "%s: launches of rank %d wait for the end of kernels (CUDA_LAUNCH_BLOCKING, or a profiler) and "
                "the ranks are on several nodes: device buffers are staged",
                oob->label, rank);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    return MSCCLPP_OK;
}

/*
 * Connects control messages between nodes. Without them, other nodes notice a failure of this node only when their
 * deadlines pass. If the ranks have no carrier in common, there are no control messages; this is not an error, and is
 * equal on all ranks.
 *
 * `own_address` is this rank's address. On entry, *own_status_p is this rank's status so far; on return, it includes
 * the result of connecting. Returns the error of the exchange of long addresses. Without memory for the addresses, the
 * rank still takes part, and that exchange fails on all ranks.
 */
static mscclpp_status_t connect_ctrl(mscclpp_team_t *team, const node_facts_t *facts, const unsigned char *own_address,
                                     mscclpp_status_t *own_status_p)
{
    const mscclpp_oob_t *oob = &team->group.oob;
    const unsigned char *addresses = facts[0].address;
    unsigned char *gathered = NULL;
    size_t stride = sizeof(*facts);
    uint64_t longest = 0;
    mscclpp_status_t status = MSCCLPP_OK;
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        if (facts[rank].address_length > MSCCLPP_CTRL_ADDRESS_MAX) {
            mscclpp_log(oob->rank == 0 ? MSCCLPP_LOG_ERROR : MSCCLPP_LOG_INFO,
                        "%s: rank %d has an address of %llu bytes for control messages; at most %d are allowed",
                        oob->label, rank, (unsigned long long)facts[rank].address_length, MSCCLPP_CTRL_ADDRESS_MAX);
            *own_status_p = MSCCLPP_ERR_INVALID; /* on all ranks */
            return MSCCLPP_OK;
        }
        longest = facts[rank].address_length > longest ? facts[rank].address_length : longest;
    }
    if (longest > ADDRESS_INLINE_BYTES) {
        addresses = gathered = calloc((size_t)oob->size, longest);
        stride = longest;
        status = oob->allgather(oob->context, own_address, gathered, longest);
    }
    if (status == MSCCLPP_OK && *own_status_p == MSCCLPP_OK && team->group.ctrl != NULL) {
        *own_status_p = longest == 0 ? MSCCLPP_ERR_NOT_SUPPORTED
                                     : mscclpp_ctrl_connect(team->group.ctrl, facts[0].team_id, addresses, stride);
    }
    free(gathered);
    if (*own_status_p == MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_ctrl_destroy(team->group.ctrl);
        team->group.ctrl = NULL;
        *own_status_p = MSCCLPP_OK;
    }
    return status;
}

/*
 * Fills in the facts that this rank sends to all others. `address` gets the rank's whole address for control messages,
 * even if the facts have room only for its beginning. Returns this rank's own status: an error of making the control
 * messages or their address, or MSCCLPP_OK. Without an address, whose length is then 0 in the facts, no rank gets
 * control messages.
 */
static mscclpp_status_t fill_facts(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                   const mscclpp_config_t *config, mscclpp_protocol_t *protocol,
                                   node_facts_t *own_facts, unsigned char *address)
{
    const mscclpp_oob_t *oob = &params->oob;
    size_t length = MSCCLPP_CTRL_ADDRESS_MAX;
    mscclpp_status_t own_status;

    memcpy(protocol, &team->protocol, sizeof(*protocol));
    protocol->rules = *mscclpp_rules_find(params->rules, (uint32_t)oob->size, team->group.on_twin);
    protocol->coll_rules = *mscclpp_rules_find_coll(params->rules, (uint32_t)oob->size, team->group.on_twin);
    own_facts->on_twin = team->group.on_twin;
    own_facts->meet_first = team->group.meet_first;
    own_facts->block_limit = team->runner.block_limit;
    own_facts->concurrent = team->group.concurrent;
    own_facts->blocking = !team->group.on_twin && mscclpp_tool_blocks_launches();
    own_facts->use.users = team->gpu_users;
    own_facts->use.strangers = team->gpu_strangers;
    own_facts->plans = params->plans != NULL;
    own_facts->use.server = team->server;
    memcpy(own_facts->use.uuid, team->uuid, sizeof(own_facts->use.uuid));
    own_facts->exchange_size = config->exchange_size;
    own_facts->scratch_size = protocol->scratch_size;
    own_facts->protocol_digest = mscclpp_facts_digest(protocol);
    own_facts->team_id = mscclpp_facts_new_id(team);
    own_status = mscclpp_ctrl_create(config->ucx, oob, &team->group.ctrl);
    if (own_status == MSCCLPP_OK) {
        own_status = mscclpp_ctrl_address(team->group.ctrl, address, &length);
    }
    if (own_status == MSCCLPP_OK) {
        own_facts->address_length = length;
        memcpy(own_facts->address, address, length < ADDRESS_INLINE_BYTES ? length : ADDRESS_INLINE_BYTES);
    }
    return own_status;
}

/*
 * Does the work of mscclpp_setup_align. `facts` has one entry more than there are ranks; the last entry is the one that
 * this rank sends. If this rank has no team, check_teams fails on all ranks before `team` or `protocol` is used.
 */
static mscclpp_status_t agree(mscclpp_team_t *team, const mscclpp_team_params_t *params, const mscclpp_nodes_t *nodes,
                              mscclpp_config_t *config, node_facts_t *facts, mscclpp_status_t *own_status_p,
                              bool *has_plans_p)
{
    const mscclpp_oob_t *oob = &params->oob;
    unsigned char address[MSCCLPP_CTRL_ADDRESS_MAX] = {0};
    mscclpp_protocol_t protocol;
    mscclpp_status_t status;
    bool take_turns = false;
    int rank;

    facts[oob->size].version = PROTOCOL_VERSION;
    facts[oob->size].status = (int32_t)*own_status_p;
    if (*own_status_p == MSCCLPP_OK) {
        *own_status_p = fill_facts(team, params, config, &protocol, &facts[oob->size], address);
    }
    status = oob->allgather(oob->context, &facts[oob->size], facts, sizeof(*facts));
    if (status == MSCCLPP_OK && (!check_teams(oob, facts) || !check_facts(oob, facts))) {
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (status == MSCCLPP_OK) {
        status = connect_ctrl(team, facts, address, own_status_p);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_facts_share_protocol(oob, &facts[0].protocol_digest, sizeof(*facts), &protocol);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    team->protocol = protocol;
    team->group.id = facts[0].team_id;
    config->exchange_size = facts[0].exchange_size;
    *has_plans_p = false;
    for (rank = 0; rank < oob->size; ++rank) {
        *has_plans_p = *has_plans_p || facts[rank].plans != 0;
        team->group.meet_first = team->group.meet_first || facts[rank].meet_first;
        team->runner.block_limit =
            facts[rank].block_limit < team->runner.block_limit ? facts[rank].block_limit : team->runner.block_limit;
    }
    status = avoid_deadlocks(team, oob, facts);
    if (status == MSCCLPP_OK) {
        status = check_shared_gpus(team, oob, nodes, facts, &take_turns);
    }
    if (status == MSCCLPP_OK) {
        team->runner.takes_turns = team->runner.takes_turns || take_turns;
        mscclpp_linger_init(&team->runner, config, take_turns, true);
    }
    return status;
}

/*
 * A rank without memory takes part in the first exchange without room for the answers. So the exchange fails on all
 * ranks.
 */
mscclpp_status_t mscclpp_setup_align(mscclpp_team_t *team, const mscclpp_team_params_t *params,
                                     const mscclpp_nodes_t *nodes, mscclpp_config_t *config,
                                     mscclpp_status_t *own_status_p, bool *has_plans_p)
{
    const mscclpp_oob_t *oob = &params->oob;
    node_facts_t *facts = calloc((size_t)oob->size + 1, sizeof(*facts)), no_facts;
    mscclpp_status_t status;

    if (facts == NULL) {
        mscclpp_error("%s: no memory for what %d ranks say", oob->label, oob->size);
        /* Takes part without memory for the answer, so the exchange fails on all ranks. */
        memset(&no_facts, 0, sizeof(no_facts));
        status = oob->allgather(oob->context, &no_facts, NULL, sizeof(no_facts));
        return status == MSCCLPP_OK ? MSCCLPP_ERR_NO_MEMORY : status;
    }
    status = agree(team, params, nodes, config, facts, own_status_p, has_plans_p);
    free(facts);
    return status;
}
