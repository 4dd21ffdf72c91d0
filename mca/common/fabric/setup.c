/*
 * Creation of a fabric, in steps that all ranks take together, each with the same result on all ranks. A rank that
 * lacks something still takes part in every exchange until the vote. Ranks that own no shard vote as well.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/fabric/internal.h"
#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"

/* The objects that every rank needs before transports are tried, as text for messages. */
#define NEEDED_OBJECTS "the team of its node, control messages, or memory to join nodes"

/* The alignment, in bytes, of an area that follows the tokens. */
#define AREA_ALIGN ((uint64_t)4096)

/*
 * Allocates the tokens. If peers map them, the tokens share a segment with the area, so that a peer maps one segment
 * and not two.
 */
static mscclpp_status_t allocate_tokens(mscclpp_fabric_t *fabric, mscclpp_transport_place_t place, uint64_t bytes)
{
    const uint64_t offset = (bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
    mscclpp_status_t status;

    if (place != MSCCLPP_PLACE_SHARED) {
        return mscclpp_fabric_allocate(fabric, place, bytes, &fabric->tokens);
    }
    status = mscclpp_fabric_allocate(fabric, place, offset + fabric->area_size, &fabric->tokens);
    if (status == MSCCLPP_OK) {
        mscclpp_fabric_cut(&fabric->tokens, offset, &fabric->area);
    }
    return status;
}

/*
 * Creates the transport `ops`, with its tokens in memory of the kind `place`. Sets *flags_p to its abilities, and
 * fabric->has_packets to whether it can carry packets. Returns the error of that memory, or of the transport's
 * `create`. After an error, nothing of it is left, and has_packets is meaningless, because the vote on this rank's
 * status fails.
 */
static mscclpp_status_t create_transport(mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *ops,
                                         mscclpp_transport_place_t place, uint32_t *flags_p)
{
    const uint64_t token_count =
        (uint64_t)MSCCLPP_DEV_NODES_BLOCKS_OF((uint32_t)fabric->nodes.count) * (uint64_t)fabric->nodes.count;
    mscclpp_transport_params_t transport;
    mscclpp_status_t status = allocate_tokens(fabric, place, token_count * sizeof(uint64_t));

    if (status != MSCCLPP_OK) {
        return status;
    }
    memset(&fabric->loss, 0, sizeof(fabric->loss));
    memset(&transport, 0, sizeof(transport));
    transport.config = &fabric->config;
    transport.gpu = fabric->gpu;
    transport.device = fabric->device;
    transport.rank = fabric->group->oob.rank;
    transport.size = fabric->group->oob.size;
    transport.one_host = fabric->nodes.one_host;
    transport.label = fabric->label;
    transport.tokens = fabric->tokens.host;
    transport.token_count = token_count;
    transport.loss = &fabric->loss;
    fabric->ops = ops;
    fabric->place = place;
    status = ops->create(&transport, flags_p, &fabric->transport);
    if (status != MSCCLPP_OK) {
        fabric->transport = NULL;
        mscclpp_fabric_close_transport(fabric);
    }
    fabric->has_packets = (*flags_p & MSCCLPP_WHOLE_WORDS) != 0;
    return status;
}

/*
 * Opens a transport. Tokens and slots are both in device memory or both in host memory: a signal in one kind of memory
 * says nothing about data that takes another path to the other kind.
 *
 * Chooses device memory if the transport supports it for both. If the CPU moves the bytes (MSCCLPP_PLACE_SHARED),
 * chooses it only if the user asks for it. If other threads of a rank launch kernels on its GPU, only host memory is
 * possible, because a transport may copy device memory by the driver (calls_driver in transport.h). Only an instance
 * can tell what the transport supports. So it is created in its own place first, and once more if device memory is
 * better.
 *
 * Returns MSCCLPP_ERR_NOT_SUPPORTED if the transport cannot use the required kind of memory. After an error, nothing of
 * it is left.
 */
static mscclpp_status_t open_transport(mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *ops)
{
    const uint32_t device_flags = MSCCLPP_DEVICE_TOKENS | MSCCLPP_DEVICE_REGIONS;
    const char *wanted = fabric->config.exchange_memory;
    const bool must_be_device = strcmp(wanted, "device") == 0;
    const bool must_be_host = strcmp(wanted, "host") == 0 || fabric->group->any_concurrent;
    const bool prefers_device = !must_be_host && (must_be_device || ops->place != MSCCLPP_PLACE_SHARED);
    uint32_t flags = 0;
    mscclpp_status_t status = create_transport(fabric, ops, ops->place, &flags);

    if (status == MSCCLPP_OK && prefers_device && !fabric->tokens.on_device && (flags & device_flags) == device_flags) {
        mscclpp_fabric_close_transport(fabric);
        status = create_transport(fabric, ops, MSCCLPP_PLACE_DEVICE, &flags);
    }
    if (status == MSCCLPP_OK && (fabric->tokens.on_device ? must_be_host : must_be_device)) {
        mscclpp_info("%s: no transport %s: coll_mscclpp_exchange_memory is %s%s", fabric->label, ops->name, wanted,
                     fabric->group->any_concurrent ? ", and a rank runs with MPI_THREAD_MULTIPLE" : "");
        mscclpp_fabric_close_transport(fabric);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

/*
 * Logs, after a vote, which rank cannot use a transport and why. Notes if that is this rank, which has run out of
 * descriptors. Logs nothing for MSCCLPP_ERR_NOT_SUPPORTED: the failed rank has logged the reason, or its packets are
 * not as a hint says.
 */
static void report_failure(mscclpp_fabric_t *fabric, const mscclpp_oob_t *oob, const mscclpp_vote_t *vote,
                           const mscclpp_transport_ops_t *ops)
{
    if (vote->status != MSCCLPP_OK && vote->status != MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_info("%s: rank %d: transport %s: %s", oob->label, vote->culprit, ops->name,
                     mscclpp_status_string(vote->status));
    }
    fabric->lacks_descriptors =
        fabric->lacks_descriptors || (vote->status == MSCCLPP_ERR_NO_DESCRIPTORS && vote->culprit == oob->rank);
}

/* Returns the index of a transport in mscclpp_transports. NULL means the first one. */
static int transport_index(const mscclpp_transport_ops_t *ops)
{
    int number = 0;

    while (ops != NULL && mscclpp_transports[number] != ops) {
        ++number;
    }
    return number;
}

/*
 * Returns the index of the first transport, from `next` on, that the settings allow. Returns mscclpp_transport_count if
 * there is none.
 */
static int find_allowed(const mscclpp_config_t *config, const mscclpp_nodes_t *nodes, int next)
{
    while (next < mscclpp_transport_count &&
           !mscclpp_transport_may_take(mscclpp_transports[next], config, nodes->one_host)) {
        ++next;
    }
    return next;
}

/* Returns true if the user asks for one transport, or for a kind of memory that not all transports support. */
static bool user_asks_for_transport(const mscclpp_fabric_t *fabric)
{
    return (strcmp(fabric->config.transport, "auto") != 0 && strcmp(fabric->config.transport, "network") != 0) ||
           strcmp(fabric->config.exchange_memory, "auto") != 0;
}

/*
 * Creates the area of slots, unless it was allocated together with the tokens, and the state of kernels. The transport
 * must be open. After an error, mscclpp_fabric_close_transport frees what was made.
 */
static mscclpp_status_t prepare_area(mscclpp_fabric_t *fabric)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (!fabric->area.is_part) {
        status = mscclpp_fabric_allocate(fabric, fabric->place, fabric->area_size, &fabric->area);
    }
    if (status == MSCCLPP_OK) {
        status = fabric->ops->region_create(fabric->transport, fabric->area.host, fabric->area_size, &fabric->region);
    }
    return status == MSCCLPP_OK ? mscclpp_fabric_equip(fabric) : status;
}

/*
 * Returns the links that the set-up makes if there are packets. Few nodes are all connected with one another. Many
 * nodes are connected only with those of their lists of steps, which the set-up itself uses. Others follow at the first
 * call that needs them.
 */
static mscclpp_fabric_links_t links_with_packets(const mscclpp_fabric_t *fabric)
{
    return fabric->nodes.count <= (int)MSCCLPP_DEV_NODES_MAPPED ? MSCCLPP_FABRIC_ALL : MSCCLPP_FABRIC_STEPS;
}

/*
 * Returns the links that the set-up makes. Without packets the algorithms are different, and need all nodes connected.
 */
static mscclpp_fabric_links_t links_at_setup(const mscclpp_fabric_t *fabric, bool has_packets)
{
    return has_packets ? links_with_packets(fabric) : MSCCLPP_FABRIC_ALL;
}

/*
 * Opens a transport on this rank, and makes its ends of the links. Ranks that own no shard open none. The lists by rank
 * (places) do not depend on the transport, so they are made only once. Returns this rank's own status, on which the
 * ranks have not voted.
 */
static mscclpp_status_t open_own_ends(mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *ops,
                                      mscclpp_fabric_links_t links, mscclpp_fabric_partners_t *partners)
{
    mscclpp_status_t status = MSCCLPP_OK;

    /* A call of such a transport may wait for kernels, and these for a call of another thread. */
    if (ops->calls_driver && fabric->group->any_concurrent) {
        mscclpp_info("%s: no transport %s: a rank runs with MPI_THREAD_MULTIPLE", fabric->label, ops->name);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (status == MSCCLPP_OK && fabric->is_owner) {
        status = open_transport(fabric, ops);
    }
    if (status == MSCCLPP_OK && fabric->places == NULL) {
        status = mscclpp_fabric_open_places(fabric);
    }
    if (status == MSCCLPP_OK && fabric->is_owner) {
        status = prepare_area(fabric);
    }
    return status == MSCCLPP_OK ? mscclpp_fabric_link_open(fabric, links, partners) : status;
}

/* Logs the transport that all ranks use. */
static void report_choice(const mscclpp_fabric_t *fabric)
{
    const mscclpp_oob_t *oob = &fabric->group->oob;

    mscclpp_log(oob->rank == 0 ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_DEBUG,
                "%s: inter-node transport %s: %d nodes of %d to %d ranks, partial results in %s memory", oob->label,
                fabric->ops->name, fabric->nodes.count, fabric->nodes.shards, fabric->nodes.largest_node,
                fabric->tokens.on_device ? "device" : "pinned host");
}

/*
 * Opens the first transport, starting with number *next_p, that all ranks can use, and makes their ends of the first
 * links. Sets *next_p to the number after it.
 *
 * Collective: all ranks vote on each transport that the settings allow. The settings are equal on all ranks, including
 * those that own no shard. A rank whose `own_status` is an error gives up in the first vote. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED on all ranks, with a log line, if there is no such transport or if a rank gives up, or the
 * error of the exchange. In the last two cases, fabric->transport may still be open. The caller frees the partners.
 */
static mscclpp_status_t choose_transport(mscclpp_fabric_t *fabric, mscclpp_status_t own_status, int *next_p,
                                         mscclpp_fabric_partners_t *partners)
{
    static bool has_warned;
    const mscclpp_oob_t *oob = &fabric->group->oob;
    mscclpp_vote_t vote;
    bool is_warning;

    while ((*next_p = find_allowed(&fabric->config, &fabric->nodes, *next_p)) < mscclpp_transport_count) {
        const mscclpp_transport_ops_t *ops = mscclpp_transports[(*next_p)++];
        mscclpp_status_t status;

        if (own_status == MSCCLPP_OK) {
            status = open_own_ends(fabric, ops, links_with_packets(fabric), partners);
            status = mscclpp_vote_with(oob, status, fabric->has_packets || !fabric->is_owner, &vote);
        } else {
            status = mscclpp_vote_give_up(oob, own_status, &vote);
        }
        if (status == MSCCLPP_OK && !vote.none_gave_up) {
            status = mscclpp_vote_outcome(oob, NULL, &vote, NEEDED_OBJECTS);
        }
        if (status != MSCCLPP_OK) {
            return status;
        }
        report_failure(fabric, oob, &vote, ops);
        if (vote.culprit < 0) {
            fabric->ops = ops;
            fabric->has_packets = vote.all;
            report_choice(fabric);
            return MSCCLPP_OK;
        }
        mscclpp_fabric_free_partners(partners);
        mscclpp_fabric_close_transport(fabric);
    }
    if (fabric->lacks_descriptors) {
        mscclpp_warn("%s: rank %d: a transport between nodes: %s: device buffers are staged", oob->label, oob->rank,
                     mscclpp_status_string(MSCCLPP_ERR_NO_DESCRIPTORS));
    }
    /* If the user has named a transport, this is a warning, but only once in a process. */
    is_warning =
        user_asks_for_transport(fabric) && oob->rank == 0 && !__atomic_exchange_n(&has_warned, true, __ATOMIC_RELAXED);
    mscclpp_log(is_warning ? MSCCLPP_LOG_WARN : MSCCLPP_LOG_INFO,
                "%s: no inter-node transport that all ranks have (coll_mscclpp_transport is %s, "
                "coll_mscclpp_exchange_memory %s): device buffers are staged; coll_mscclpp_verbose 2 says why",
                oob->label, fabric->config.transport, fabric->config.exchange_memory);
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

/*
 * Connects the nodes over the transport that was chosen: first those of the first links, and then all if there are no
 * packets. Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks, if a rank fails; then another transport may be tried. Any
 * other error is one of a vote.
 */
static mscclpp_status_t connect_nodes(mscclpp_fabric_t *fabric, const mscclpp_fabric_partners_t *partners)
{
    const mscclpp_oob_t *oob = &fabric->group->oob;
    const mscclpp_fabric_links_t links = links_at_setup(fabric, fabric->has_packets);
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_fabric_link_join(fabric, links_with_packets(fabric), partners, &vote);

    if (status == MSCCLPP_OK && vote.culprit < 0 && links != links_with_packets(fabric)) {
        status = mscclpp_fabric_link(fabric, links, &vote);
    }
    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        report_failure(fabric, oob, &vote, fabric->ops);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (status == MSCCLPP_OK && fabric->is_owner) {
        mscclpp_fabric_choose_packet_mover(fabric, oob->rank == 0);
    }
    return status;
}

/*
 * Chooses a transport and connects the nodes. If some ranks cannot reach each other, tries the next transport.
 * Collective, with the same result on all ranks. `own_status` says whether this rank can continue. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED if no transport is left, or the error of the exchange.
 */
static mscclpp_status_t open_and_connect(mscclpp_fabric_t *fabric, const mscclpp_transport_ops_t *first,
                                         mscclpp_status_t own_status)
{
    mscclpp_fabric_partners_t partners;
    mscclpp_status_t status;
    int next = transport_index(first);

    memset(&partners, 0, sizeof(partners));
    while ((status = choose_transport(fabric, own_status, &next, &partners)) == MSCCLPP_OK) {
        status = connect_nodes(fabric, &partners);
        if (status != MSCCLPP_ERR_NOT_SUPPORTED) {
            break;
        }
        mscclpp_fabric_free_partners(&partners);
        mscclpp_info("%s: transport %s does not connect all nodes; others are tried", fabric->label, fabric->ops->name);
        mscclpp_fabric_close_transport(fabric);
    }
    mscclpp_fabric_free_partners(&partners);
    return status;
}

/*
 * Opens the transport of the hint and makes this rank's ends of its links, as open_own_ends does. Fails with
 * MSCCLPP_ERR_NOT_SUPPORTED, unlogged, if this rank's packets are not as the hint says. Returns this rank's own status,
 * on which the ranks have not voted.
 */
static mscclpp_status_t open_as_hint(mscclpp_fabric_t *fabric, const mscclpp_fabric_hint_t *hint,
                                     mscclpp_fabric_partners_t *partners)
{
    mscclpp_status_t status =
        open_own_ends(fabric, hint->transport, links_at_setup(fabric, hint->has_packets), partners);

    if (status == MSCCLPP_OK && fabric->is_owner && fabric->has_packets != hint->has_packets) {
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    fabric->ops = hint->transport;
    fabric->has_packets = hint->has_packets;
    return status;
}

/*
 * Connects the nodes with the transport of the hint, without a vote on it. A rank that cannot take part tells the ranks
 * that wait for it. Returns MSCCLPP_ERR_NOT_SUPPORTED, on all ranks, if a rank fails; then transports may be tried as
 * without a hint. Any other error is an error of the vote; fabric->transport may then still be open.
 */
static mscclpp_status_t connect_by_hint(mscclpp_fabric_t *fabric, const mscclpp_fabric_hint_t *hint,
                                        mscclpp_status_t own_status)
{
    const mscclpp_oob_t *oob = &fabric->group->oob;
    const mscclpp_fabric_links_t links = links_at_setup(fabric, hint->has_packets);
    mscclpp_fabric_partners_t partners;
    mscclpp_status_t status;
    mscclpp_vote_t vote;

    memset(&partners, 0, sizeof(partners));
    if (own_status == MSCCLPP_OK) {
        own_status = open_as_hint(fabric, hint, &partners);
    }
    fabric->ops = hint->transport;
    fabric->has_packets = hint->has_packets;
    status = own_status == MSCCLPP_OK ? mscclpp_fabric_link_join(fabric, links, &partners, &vote)
                                      : mscclpp_fabric_link_decline(oob, hint, own_status, &vote);
    mscclpp_fabric_free_partners(&partners);
    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        report_failure(fabric, oob, &vote, fabric->ops);
        mscclpp_fabric_close_transport(fabric);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (status == MSCCLPP_OK) {
        report_choice(fabric);
    }
    if (status == MSCCLPP_OK && fabric->is_owner) {
        mscclpp_fabric_choose_packet_mover(fabric, oob->rank == 0);
    }
    return status;
}

mscclpp_status_t mscclpp_fabric_take_hint(const mscclpp_fabric_t *fabric, mscclpp_fabric_hint_t *hint)
{
    hint->transport = fabric->ops;
    hint->has_packets = fabric->has_packets;
    return mscclpp_fabric_list_peers(fabric, links_at_setup(fabric, fabric->has_packets), &hint->peers,
                                     &hint->peer_count);
}

/* Tells a wait which ranks of other nodes have sent nothing yet (find_absent in mca/common/group/group.h). */
static uint64_t find_absent(void *context, bool may_ask)
{
    return mscclpp_fabric_absent(context, may_ask);
}

/*
 * Takes part, without a fabric, in the exchanges and votes of the other ranks until they know that this rank has given
 * up.
 */
mscclpp_status_t mscclpp_fabric_give_up(const mscclpp_oob_t *oob, const mscclpp_config_t *config,
                                        const mscclpp_nodes_t *nodes, const mscclpp_fabric_hint_t *hint,
                                        mscclpp_status_t own_status)
{
    const int next = transport_index(hint != NULL ? hint->transport : NULL);
    mscclpp_vote_t vote;
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;

    if (hint != NULL) {
        status = mscclpp_fabric_link_decline(oob, hint, own_status, &vote);
        if (status != MSCCLPP_OK) {
            return status;
        }
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (find_allowed(config, nodes, next) < mscclpp_transport_count) {
        status = mscclpp_vote_give_up(oob, own_status, &vote);
        status = status == MSCCLPP_OK ? mscclpp_vote_outcome(oob, NULL, &vote, NEEDED_OBJECTS) : status;
    }
    return status;
}

/* Fills in a zeroed fabric, before any transport is opened. It takes over the contents of `nodes`. */
static void init(mscclpp_fabric_t *fabric, mscclpp_runner_t *runner, const mscclpp_config_t *config,
                 mscclpp_nodes_t *nodes)
{
    fabric->node = (mscclpp_fabric_node_t *)(void *)(fabric + 1);
    fabric->runner = runner;
    fabric->group = runner->group;
    fabric->is_owner = nodes->rank < nodes->shards;
    fabric->nodes = *nodes; /* now owned by the fabric */
    memset(nodes, 0, sizeof(*nodes));
    fabric->config = *config;
    fabric->gpu = runner->gpu;
    fabric->device = runner->device;
    fabric->label = runner->group->oob.label;
    mscclpp_fabric_divide_area(fabric);
    mscclpp_fabric_list_steps(fabric);
}

/* Makes the fabric visible to progress and to the waits of the group, now that it is complete. */
static void publish(mscclpp_fabric_t *fabric)
{
    fabric->ctrl = fabric->group->ctrl;
    mscclpp_fabric_enlist(fabric);
    fabric->group->spans = true;
    fabric->group->find_absent = find_absent;
    fabric->group->absent_context = fabric;
}

/* A hint that fails on some rank fails on all. So all ranks go on without it. */
mscclpp_status_t mscclpp_fabric_create(mscclpp_runner_t *runner, const mscclpp_config_t *config, mscclpp_nodes_t *nodes,
                                       const mscclpp_fabric_hint_t *hint, mscclpp_status_t own_status,
                                       mscclpp_fabric_t **fabric_p)
{
    mscclpp_group_t *group = runner->group;
    const mscclpp_oob_t *oob = &group->oob;
    mscclpp_fabric_t *fabric = calloc(1, sizeof(*fabric) + (size_t)nodes->count * sizeof(*fabric->node));
    mscclpp_status_t status;

    /* Checked before the memory, because it fails on all ranks alike, without a vote. */
    if ((uint32_t)nodes->count > MSCCLPP_DEV_NODES_MAX) {
        mscclpp_info("%s: %d nodes: device buffers are staged (allowed are up to %u nodes)", oob->label, nodes->count,
                     MSCCLPP_DEV_NODES_MAX);
        free(fabric);
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (fabric == NULL) {
        mscclpp_error("%s: no memory to join the nodes of %d ranks", oob->label, oob->size);
        return mscclpp_fabric_give_up(oob, config, nodes, hint, MSCCLPP_ERR_NO_MEMORY);
    }
    init(fabric, runner, config, nodes);
    status = hint != NULL ? connect_by_hint(fabric, hint, own_status) : MSCCLPP_ERR_NOT_SUPPORTED;
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        status = open_and_connect(fabric, hint != NULL ? hint->transport : NULL, own_status);
    }
    if (status != MSCCLPP_OK) {
        mscclpp_fabric_destroy(fabric);
        return status;
    }
    publish(fabric);
    *fabric_p = fabric;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_fabric_begin(mscclpp_runner_t *runner, const mscclpp_config_t *config, mscclpp_nodes_t *nodes,
                                      const mscclpp_fabric_hint_t *hint, mscclpp_oob_ahead_t *ahead,
                                      mscclpp_fabric_t **fabric_p)
{
    mscclpp_fabric_t *fabric = calloc(1, sizeof(*fabric) + (size_t)nodes->count * sizeof(*fabric->node));
    mscclpp_fabric_partners_t *partners;
    mscclpp_status_t status;
    int i;

    if (fabric == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    init(fabric, runner, config, nodes);
    partners = &fabric->ahead;
    status = open_as_hint(fabric, hint, partners);
    if (status != MSCCLPP_OK) {
        mscclpp_fabric_destroy(fabric);
        return status;
    }
    for (i = 0; i < partners->count; ++i) {
        partners->sent[i].ahead = ahead->id;
    }
    ahead->peers = partners->peers;
    ahead->count = partners->count;
    ahead->sent = partners->sent;
    ahead->lengths = partners->lengths;
    ahead->received = partners->received;
    ahead->pitch = sizeof(mscclpp_fabric_card_t);
    *fabric_p = fabric;
    return MSCCLPP_OK;
}

void mscclpp_fabric_decline(const mscclpp_fabric_hint_t *hint, mscclpp_oob_ahead_t *ahead)
{
    ahead->peers = hint->peers;
    ahead->count = hint->peer_count;
    ahead->sent = ahead->received = NULL;
    ahead->lengths = NULL;
    ahead->pitch = sizeof(mscclpp_fabric_card_t);
}

mscclpp_status_t mscclpp_fabric_connect(mscclpp_fabric_t *fabric)
{
    return mscclpp_fabric_link_connect(fabric, &fabric->ahead);
}

void mscclpp_fabric_finish(mscclpp_fabric_t *fabric)
{
    mscclpp_fabric_link_note(fabric, links_at_setup(fabric, fabric->has_packets));
    mscclpp_fabric_free_partners(&fabric->ahead);
    report_choice(fabric);
    if (fabric->is_owner) {
        mscclpp_fabric_choose_packet_mover(fabric, fabric->group->oob.rank == 0);
    }
    publish(fabric);
}

const mscclpp_transport_ops_t *mscclpp_fabric_transport(const mscclpp_fabric_t *fabric)
{
    return fabric->ops;
}
