/*
 * Creates teams. First finds out which ranks share a node. If there are several nodes, the ranks of each node create a
 * team as if they were alone, and a fabric connects these teams. All ranks vote on every decision, even if all are on
 * one node, because some rank may have been told to imitate several nodes. At the end an all-reduce between nodes is
 * tried, because a transport may not keep what it promises.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/ctrl/ctrl.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/base/machine.h"
#include "mca/common/base/log.h"
#include "mca/common/oob/part.h"
#include "mca/common/algo/select.h"
#include "mca/common/setup/agree_settings.h"
#include "mca/common/setup/facts.h"
#include "mca/common/setup/internal.h"
#include "mca/common/setup/setup.h"
#include "mca/common/task/collective.h"
#include "mca/common/task/task.h"
#include "mca/common/team/grow.h"
#include "mca/common/team/kin.h"
#include "mca/common/team/park.h"
#include "mca/common/oob/vote.h"

/* Seconds in which each all-reduce that is tried between nodes must have ended. */
#define PROBE_SECONDS 10.0

/* The data that each rank sends to all others in the first exchange. */
typedef struct {
    uint64_t job;  /* number of the rank's MPI job, as in mscclpp_team_params_t */
    uint64_t host; /* id of the rank's machine */
    mscclpp_settings_card_t settings;
    uint64_t offers[MSCCLPP_PARK_OFFERS]; /* numbers of ended teams that the sender could take over (team/park.h) */
    uint64_t kin[MSCCLPP_KIN_OFFERS];     /* numbers of the kin that the sender offers (team/kin.h) */
    uint64_t connected;                   /* number of the kin by which the sender is connected with its peers; or 0 */
    uint64_t team_id;                     /* rank 0's becomes that of a team with kin */
    int32_t leader;                       /* a rank of the sender's node, as in mscclpp_team_params_t */
    int32_t status;                       /* the sender's status so far */
} rank_card_t;

/* Returns the machine's id, or 0 if it is not known. Keeps it, because finding it takes several system calls. */
static uint64_t host_id(void)
{
    static uint64_t cached_id;
    uint64_t id = __atomic_load_n(&cached_id, __ATOMIC_RELAXED);

    if (id == 0) {
        id = mscclpp_machine_id();
        __atomic_store_n(&cached_id, id, __ATOMIC_RELAXED);
    }
    return id;
}

/* The teams and kin that a rank could take over. Unused entries are NULL. */
typedef struct {
    mscclpp_team_t *teams[MSCCLPP_PARK_OFFERS];
    mscclpp_kin_t *kin[MSCCLPP_KIN_OFFERS];
} offers_t;

/*
 * The objects that the ranks have agreed to take over: an ended team, which completes the set-up, or kin, or neither.
 */
typedef struct {
    mscclpp_team_t *team;
    mscclpp_kin_t *kin;
    uint64_t team_id;  /* for a team with kin */
    bool is_connected; /* all ranks have connected as the kin say */
} taken_t;

/* Returns true if all ranks are connected by the same kin. The result is equal on all ranks. */
static bool all_are_connected(const rank_card_t *cards, int size)
{
    int rank = 0;

    while (rank < size && cards[rank].connected != 0 && cards[rank].connected == cards[0].connected) {
        ++rank;
    }
    return rank == size;
}

/*
 * Returns a number that all ranks have in their lists of offers: the first one in the order of rank 0's list, or 0 if
 * there is none. `lists` is rank 0's list; the lists of the other ranks follow, each at the distance of one card. A
 * list has `count` entries; its first 0 ends it. The result is equal on all ranks.
 */
static uint64_t find_common_offer(const uint64_t *lists, int count, int size)
{
    const size_t stride = sizeof(rank_card_t) / sizeof(uint64_t);
    int offer, rank, i;

    for (offer = 0; offer < count && lists[offer] != 0; ++offer) {
        for (rank = 1; rank < size; ++rank) {
            const uint64_t *list = lists + (size_t)rank * stride;

            for (i = 0; i < count && list[i] != lists[offer]; ++i) {
            }
            if (i == count) {
                break;
            }
        }
        if (rank == size) {
            return lists[offer];
        }
    }
    return 0;
}

_Static_assert(sizeof(rank_card_t) % sizeof(uint64_t) == 0, "find_common_offer goes from card to card by words");

/*
 * Removes the offer that all ranks have made from `offers`, and stores it in `taken`. An ended team is preferred to
 * kin. If there is no common offer, `taken` is unchanged.
 */
static void take_common_offer(const rank_card_t *cards, int size, offers_t *offers, taken_t *taken)
{
    uint64_t id = find_common_offer(cards[0].offers, MSCCLPP_PARK_OFFERS, size);
    int i;

    for (i = 0; i < MSCCLPP_PARK_OFFERS && id != 0; ++i) {
        if (offers->teams[i] != NULL && offers->teams[i]->group.id == id) {
            taken->team = offers->teams[i];
            offers->teams[i] = NULL;
            return;
        }
    }
    id = find_common_offer(cards[0].kin, MSCCLPP_KIN_OFFERS, size);
    for (i = 0; i < MSCCLPP_KIN_OFFERS && id != 0; ++i) {
        if (offers->kin[i] != NULL && offers->kin[i]->id == id) {
            taken->kin = offers->kin[i];
            offers->kin[i] = NULL;
            taken->team_id = cards[0].team_id;
            taken->is_connected = all_are_connected(cards, size);
            return;
        }
    }
}

/*
 * Makes the settings in `config` that must be equal the same on all ranks, before anything uses them. *differ_p becomes
 * true if the settings of some rank differ from those of rank 0. All ranks have the same `cards`, so they agree on
 * whether an exchange is needed.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks and logged, if a rank has another table of parameters. Otherwise
 * returns the error of the exchange.
 */
static mscclpp_status_t agree_on_settings(const mscclpp_team_params_t *params, const rank_card_t *cards,
                                          mscclpp_config_t *config, bool *differ_p)
{
    const mscclpp_oob_t *oob = &params->oob;
    bool differ = false;
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        if (cards[rank].settings.names != cards[0].settings.names) {
            mscclpp_warn("%s: rank %d has other parameters than rank 0, as another version of the component has: "
                         "device buffers are staged",
                         oob->label, rank);
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
        differ = differ || cards[rank].settings.digest != cards[0].settings.digest;
    }
    *differ_p = differ;
    return differ
               ? mscclpp_settings_agree(oob, params->user_config != NULL ? params->user_config : params->config, config)
               : MSCCLPP_OK;
}

/* The cards of all ranks, and some of their contents as arrays. */
typedef struct {
    rank_card_t *by_rank;
    uint64_t *jobs;
    uint64_t *hosts;
} all_cards_t;

/*
 * Copies values from the cards into arrays. Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks and logged, if a rank has
 * reported an error.
 */
static mscclpp_status_t unpack_cards(const mscclpp_oob_t *oob, all_cards_t *cards, mscclpp_nodes_t *nodes)
{
    int rank;

    for (rank = 0; rank < oob->size; ++rank) {
        const rank_card_t *card = &cards->by_rank[rank];

        cards->jobs[rank] = card->job;
        cards->hosts[rank] = card->host;
        nodes->leaders[rank] = card->leader;
        if (card->status != MSCCLPP_OK) {
            mscclpp_info("%s: rank %d: memory for the set-up of nodes: %s: device buffers are staged", oob->label, rank,
                         mscclpp_status_string((mscclpp_status_t)card->status));
            return MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    return MSCCLPP_OK;
}

/*
 * Computes which ranks share a node, from nodes->leaders, which unpack_cards has filled in, and from the jobs and hosts
 * in `cards`. Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks and logged, if the ranks contradict one another, or if a
 * node has too many ranks for kernels.
 */
static mscclpp_status_t map_nodes(const mscclpp_oob_t *oob, const mscclpp_config_t *config, const all_cards_t *cards,
                                  mscclpp_nodes_t *nodes)
{
    mscclpp_nodes_join_jobs(nodes, cards->jobs, cards->hosts, oob->size);
    if (!mscclpp_nodes_map(nodes, oob->size, oob->rank, config->ranks_per_node)) {
        mscclpp_info("%s: ranks contradict one another on who shares a node: device buffers are staged", oob->label);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (nodes->largest_node > MSCCLPP_DEV_MAX_RANKS) {
        mscclpp_info("%s: %d ranks on one node: device buffers are staged (kernels serve up to %d ranks of a node)",
                     oob->label, nodes->largest_node, MSCCLPP_DEV_MAX_RANKS);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return MSCCLPP_OK;
}

/*
 * Makes the first exchange: all ranks send their cards, agree on settings, and find out which ranks share a node.
 *
 * On entry, *config contains this rank's settings; on return, those that all ranks have agreed on. The offer that all
 * ranks take over is removed from `offers`. `own_status` says whether this rank has the memory that it needs besides
 * `cards`. All failures are equal on all ranks.
 */
static mscclpp_status_t find_nodes(const mscclpp_team_params_t *params, mscclpp_status_t own_status,
                                   mscclpp_config_t *config, all_cards_t *cards, mscclpp_nodes_t *nodes,
                                   mscclpp_setup_ahead_t *ahead, offers_t *offers, taken_t *taken)
{
    const mscclpp_oob_t *oob = &params->oob;
    bool differ = false;
    mscclpp_status_t status;
    rank_card_t own_card;
    int i;

    memset(&own_card, 0, sizeof(own_card));
    own_card.job = params->job;
    own_card.host = host_id();
    own_card.leader = params->leader;
    mscclpp_settings_fill_card(params->user_config != NULL ? params->user_config : config, config, &own_card.settings);
    own_card.status = (int32_t)own_status;
    for (i = 0; i < MSCCLPP_PARK_OFFERS && offers->teams[i] != NULL; ++i) {
        own_card.offers[i] = offers->teams[i]->group.id;
    }
    for (i = 0; i < MSCCLPP_KIN_OFFERS && offers->kin[i] != NULL; ++i) {
        own_card.kin[i] = offers->kin[i]->id;
    }
    own_card.team_id = oob->rank == 0 && offers->kin[0] != NULL ? mscclpp_facts_new_id(offers) : 0;
    status = mscclpp_setup_ahead_gather(ahead, oob, &own_card, &own_card.connected, cards->by_rank, sizeof(own_card));
    if (status == MSCCLPP_OK) {
        status = unpack_cards(oob, cards, nodes);
    }
    if (status == MSCCLPP_OK) {
        status = agree_on_settings(params, cards->by_rank, config, &differ);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (!differ) {
        take_common_offer(cards->by_rank, oob->size, offers, taken);
    }
    return taken->team != NULL || taken->is_connected ? MSCCLPP_OK : map_nodes(oob, config, cards, nodes);
}

/*
 * Calls find_nodes with memory for the cards of all ranks. A rank without that memory still takes part in the exchange,
 * which then fails on all ranks before anything in `nodes` is used. Initializes `nodes`; the caller frees it with
 * mscclpp_nodes_fini, also after an error.
 */
static mscclpp_status_t exchange_cards(const mscclpp_team_params_t *params, mscclpp_status_t own_status,
                                       mscclpp_config_t *config, mscclpp_nodes_t *nodes, mscclpp_setup_ahead_t *ahead,
                                       offers_t *offers, taken_t *taken)
{
    const size_t size = (size_t)params->oob.size;
    all_cards_t cards = {.by_rank =
                             malloc(size * (sizeof(*cards.by_rank) + sizeof(*cards.jobs) + sizeof(*cards.hosts)))};
    mscclpp_status_t status = mscclpp_nodes_init(nodes, params->oob.size);

    if (status != MSCCLPP_OK) {
        free(cards.by_rank);
        cards.by_rank = NULL;
    }
    if (cards.by_rank != NULL) {
        cards.jobs = (uint64_t *)(void *)(cards.by_rank + size);
        cards.hosts = cards.jobs + size;
    }
    status = find_nodes(params, own_status, config, &cards, nodes, ahead, offers, taken);
    free(cards.by_rank);
    return status;
}

/*
 * Creates the node's team. Always sets *team_p, to NULL if there is no team. *own_status_p says whether this rank has
 * one, which the ranks of other nodes do not know yet; it is MSCCLPP_ERR_PEER if another rank of the node is the
 * reason. `have_met` is as in mscclpp_setup_node. Returns only the error of the exchange, which is equal on all ranks.
 */
static mscclpp_status_t create_node_team(const mscclpp_team_params_t *params, const mscclpp_nodes_t *nodes,
                                         mscclpp_oob_part_t *part, bool have_met, mscclpp_team_t **team_p,
                                         mscclpp_status_t *own_status_p)
{
    mscclpp_status_t status;
    mscclpp_oob_t table;

    *team_p = NULL;
    mscclpp_oob_part_table(part, nodes, &table);
    status = mscclpp_setup_node(params, &table, nodes, have_met, own_status_p, team_p);
    if (status == MSCCLPP_OK) {
        mscclpp_setup_widen(*team_p, params, nodes);
    } else if (*own_status_p == MSCCLPP_OK) {
        *own_status_p = MSCCLPP_ERR_PEER;
    }
    return mscclpp_oob_part_finish(part);
}

/*
 * Checks the result of an all-reduce in which each rank has contributed its number plus 1. Both sums are taken modulo
 * 2^32. If the result is wrong, logs a warning and returns MSCCLPP_ERR_DEVICE.
 */
static mscclpp_status_t check_sum(mscclpp_team_t *team, const uint32_t *result)
{
    const uint64_t ranks = (uint64_t)team->group.oob.size;
    const uint32_t expected = (uint32_t)(ranks * (ranks + 1) / 2);

    if (*result == expected) {
        return MSCCLPP_OK;
    }
    mscclpp_warn("%s: the first all-reduce between nodes gave %u in place of %u", team->group.oob.label, *result,
                 expected);
    return MSCCLPP_ERR_DEVICE;
}

/*
 * Tries one algorithm, by an all-reduce of one number with a short deadline. Returns the error of the call, or
 * MSCCLPP_ERR_DEVICE if the result is wrong. Restores the settings that it changes, also after an error.
 */
static mscclpp_status_t probe(mscclpp_team_t *team, const mscclpp_algo_t *algo)
{
    uint32_t value = (uint32_t)team->group.oob.rank + 1, result = 0;
    const mscclpp_allreduce_args_t args = {.sendbuf = &value,
                                           .recvbuf = &result,
                                           .count = 1,
                                           .dtype = MSCCLPP_DTYPE_UINT32,
                                           .op = MSCCLPP_OP_SUM,
                                           .call = 0};
    const double timeout = team->group.timeout, warn_after = team->group.warn_after;
    const int32_t algorithm = team->protocol.algorithm;
    mscclpp_status_t status;

    team->group.probing = true;
    team->group.timeout = PROBE_SECONDS;
    team->group.warn_after = 0;
    team->protocol.algorithm = mscclpp_algo_find(algo->name);
    status = mscclpp_allreduce(team, &args);
    if (status == MSCCLPP_OK) {
        status = check_sum(team, &result);
    }
    team->protocol.algorithm = algorithm;
    team->group.probing = false;
    team->group.timeout = timeout;
    team->group.warn_after = warn_after;
    return status;
}

/*
 * Tries the two ways in which algorithms use the transport: one algorithm that sends packets, if the transport carries
 * them, and one that sends tiles with signals. For each way, takes the first algorithm whose nodes are already
 * connected. Stops at the first failure, and returns it.
 */
static mscclpp_status_t probe_both(mscclpp_team_t *team)
{
    bool is_tried[2] = {false, false}; /* by whether the algorithm sends packets */
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    for (i = 0; i < mscclpp_algo_count && status == MSCCLPP_OK; ++i) {
        const mscclpp_algo_t *algo = mscclpp_algos[i];

        if (algo->spans_nodes && !is_tried[algo->sends_packets] && mscclpp_fabric_is_linked(team->fabric, algo)) {
            is_tried[algo->sends_packets] = true;
            status = probe(team, algo);
        }
    }
    return status;
}

/*
 * Logs, on rank 0, which collectives besides all-reduce have no kernels between nodes and are therefore staged. A list
 * that is too long is truncated.
 */
static void report_collectives(const mscclpp_team_t *team)
{
    char staged[256] = "";
    size_t used = 0;
    int coll;

    for (coll = 0; coll < MSCCLPP_COLL_LAST && used < sizeof(staged); ++coll) {
        if (!mscclpp_collective_serves(team, (mscclpp_coll_t)coll)) {
            used +=
                (size_t)snprintf(staged + used, sizeof(staged) - used, " %s", mscclpp_coll_name((mscclpp_coll_t)coll));
        }
    }
    if (team->group.oob.rank == 0) {
        mscclpp_info("%s: of the other blocking collectives %s%s", team->group.oob.label,
                     used == 0 ? "all are served between nodes" : "these are staged:", staged);
    }
}

/* Gives up what was not taken over: ended teams go back on the list of parked teams. */
static void return_offers(offers_t *offers)
{
    int i;

    for (i = 0; i < MSCCLPP_PARK_OFFERS; ++i) {
        mscclpp_team_destroy(offers->teams[i]);
    }
    for (i = 0; i < MSCCLPP_KIN_OFFERS; ++i) {
        mscclpp_kin_release(offers->kin[i]);
    }
}

/*
 * Makes the nodes agree on everything, and connects them. With kin, the nodes have already agreed; then the ranks vote
 * on their statuses after they have connected. `team` is NULL if this rank's node has no team. Such a rank takes part
 * in the connection only to make it fail on all ranks. All ranks return the same status.
 */
static mscclpp_status_t connect_nodes(const mscclpp_team_params_t *params, mscclpp_config_t *config,
                                      mscclpp_nodes_t *nodes, const taken_t *taken, mscclpp_team_t *team,
                                      mscclpp_status_t own_status, bool *has_plans_p)
{
    const mscclpp_fabric_hint_t *hint = taken->kin != NULL ? &taken->kin->hint : NULL;
    mscclpp_status_t status = MSCCLPP_OK;

    if (taken->kin != NULL && own_status == MSCCLPP_OK) {
        own_status = mscclpp_setup_inherit(team, taken->kin, config);
        if (own_status == MSCCLPP_OK) {
            mscclpp_setup_name(team, taken->team_id);
        }
    } else if (taken->kin == NULL) {
        status = mscclpp_setup_align(team, params, nodes, config, &own_status, has_plans_p);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    return team != NULL ? mscclpp_fabric_create(&team->runner, config, nodes, hint, own_status, &team->fabric)
                        : mscclpp_fabric_give_up(&params->oob, config, nodes, hint, own_status);
}

/*
 * Tries the connections, unless kin is taken over and the fabric uses the kin's transport, which the same processes
 * have tried already. Collective, with the same result on all ranks.
 */
static mscclpp_status_t try_connections(mscclpp_team_t *team, const mscclpp_kin_t *kin)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (kin == NULL || mscclpp_fabric_transport(team->fabric) != kin->hint.transport) {
        status = mscclpp_agree(&team->group.oob, NULL, probe_both(team), "the first all-reduce between nodes");
    }
    mscclpp_runner_give_stream(&team->runner);
    return status;
}

/* Logs how a rank's team of several nodes has been set up. */
static void report_ready(const mscclpp_team_t *team, bool with_kin)
{
    const mscclpp_oob_t *oob = &team->group.oob;
    const mscclpp_nodes_t *nodes = mscclpp_fabric_nodes(team->fabric);

    mscclpp_info("%s: rank %d of %d ready on node %d of %d%s, control messages over %s", oob->label, oob->rank,
                 oob->size, nodes->node, nodes->count,
                 with_kin ? " with what a communicator of these ranks has agreed on" : "",
                 team->group.ctrl != NULL ? mscclpp_ctrl_name(team->group.ctrl) : "nothing");
    report_collectives(team);
}

/* Completes a team of several nodes, all of whose ranks are connected already. Local, and cannot fail. */
static mscclpp_team_t *finish_connected(const mscclpp_team_params_t *params, mscclpp_setup_ahead_t *ahead,
                                        const taken_t *taken)
{
    mscclpp_team_t *team = mscclpp_setup_ahead_finish(ahead, taken->team_id);
    mscclpp_status_t own_status;

    mscclpp_team_note_nodes(team);
    (void)mscclpp_setup_plans(team, params, false, &own_status); /* without plans it only reports */
    mscclpp_runner_give_stream(&team->runner);
    report_ready(team, true);
    return team;
}

/*
 * Creates a team of several nodes. The fabric takes over the contents of `nodes` once it exists. connect_nodes succeeds
 * only if all ranks have a team of their node, so `team` is not NULL after that. After a failure, which is equal on all
 * ranks, the team is destroyed.
 */
static mscclpp_status_t join_nodes(const mscclpp_team_params_t *params, mscclpp_config_t *config,
                                   mscclpp_nodes_t *nodes, mscclpp_oob_part_t *part, uint64_t key,
                                   mscclpp_setup_ahead_t *ahead, const taken_t *taken, mscclpp_team_t **team_p)
{
    mscclpp_team_t *team = NULL;
    mscclpp_status_t own_status, status = MSCCLPP_OK;
    bool has_plans = false;

    if (!mscclpp_setup_ahead_take(ahead, taken->kin, &own_status, &team)) {
        status = create_node_team(params, nodes, part, taken->kin != NULL, &team, &own_status);
    }
    if (status == MSCCLPP_OK) {
        status = connect_nodes(params, config, nodes, taken, team, own_status, &has_plans);
    }
    if (status == MSCCLPP_OK) {
        mscclpp_team_note_nodes(team);
        status = try_connections(team, taken->kin);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_setup_plans(team, params, has_plans, &own_status);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_team_destroy(team);
        return status;
    }
    report_ready(team, taken->kin != NULL);
    if (taken->kin == NULL && key != 0 && !has_plans) {
        mscclpp_kin_found(team, config->exchange_size, key);
    }
    *team_p = team;
    return MSCCLPP_OK;
}

/*
 * Creates a team in one of four ways, the same on all ranks:
 * - takes over an ended team of these ranks;
 * - completes a team over several nodes whose ranks kin has connected already;
 * - creates a team on a single node;
 * - creates a team on each node, and joins them.
 * If a rank has no memory for `part`, its card says so, and the set-up fails on all ranks before `part` is used.
 */
mscclpp_status_t mscclpp_team_create(const mscclpp_team_params_t *user_params, mscclpp_team_t **team_p)
{
    mscclpp_config_t config = *user_params->config;
    mscclpp_team_params_t agreed = *user_params, *params = &agreed;
    const mscclpp_oob_t *oob = &user_params->oob;
    offers_t offers = {.teams = {NULL}, .kin = {NULL}};
    taken_t taken = {.team = NULL, .kin = NULL};
    mscclpp_setup_ahead_t ahead;
    const uint64_t key = user_params->reuse ? mscclpp_park_key(user_params) : 0;
    mscclpp_status_t status, own_status;
    mscclpp_oob_part_t *part;
    mscclpp_nodes_t nodes;

    agreed.config = &config;
    mscclpp_team_reap();
    part = mscclpp_oob_part_create(oob);
    own_status = part != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    if (key != 0) {
        mscclpp_park_claim(key, offers.teams);
        mscclpp_kin_claim(key, offers.kin);
    }
    mscclpp_setup_ahead_begin(&ahead, params, offers.teams[0] == NULL ? offers.kin[0] : NULL);
    status = exchange_cards(params, own_status, &config, &nodes, &ahead, &offers, &taken);
    if (status == MSCCLPP_OK && taken.is_connected) {
        *team_p = finish_connected(params, &ahead, &taken);
    }
    mscclpp_setup_ahead_drop(&ahead);
    return_offers(&offers);
    if (status == MSCCLPP_OK && taken.team != NULL) {
        mscclpp_park_reopen(taken.team, oob);
        mscclpp_info("%s: rank %d of %d ready with what an ended communicator has left", oob->label, oob->rank,
                     oob->size);
        *team_p = taken.team;
    } else if (status == MSCCLPP_OK && taken.is_connected) {
        mscclpp_kin_join(*team_p, taken.kin);
        taken.kin = NULL;
    } else if (status == MSCCLPP_OK && nodes.count == 1) {
        status = mscclpp_setup_node(params, oob, NULL, false, &own_status, team_p);
        if (status == MSCCLPP_OK) {
            (*team_p)->park_key = key;
        }
    } else if (status == MSCCLPP_OK) {
        status = join_nodes(params, &config, &nodes, part, key, &ahead, &taken, team_p);
        if (status == MSCCLPP_OK && taken.kin != NULL) {
            mscclpp_kin_join(*team_p, taken.kin);
            taken.kin = NULL;
        }
    }
    mscclpp_team_destroy(ahead.team); /* unless it has become the team */
    mscclpp_kin_release(taken.kin);
    mscclpp_oob_part_destroy(part);
    mscclpp_nodes_fini(&nodes);
    return status;
}

void mscclpp_setup_prepare(bool ucx)
{
    mscclpp_ctrl_prepare(ucx);
}
