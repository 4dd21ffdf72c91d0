/*
 * Links between owners of the same shard: a connection, the peer's area, and a port channel for each block. They are
 * made when the first call comes that needs them, with those nodes alone that its algorithm exchanges with. All ranks
 * of the communicator are in that call, and so link at the same time.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/fabric/internal.h"
#include "mca/common/oob/pairs.h"
#include "mca/common/oob/vote.h"

/*
 * Returns true if this node exchanges with `node`, in either direction, in rounds with this radix. This is so if the
 * distance of the nodes is one of the distances j * radix^i of device/lib/nodes_rounds.h. The radix is 2 or more.
 */
static bool is_in_rounds(const mscclpp_fabric_t *fabric, uint32_t radix, uint32_t node)
{
    const uint64_t count = (uint64_t)fabric->nodes.count;
    const uint64_t nodes_ahead = (node + count - (uint64_t)fabric->nodes.node) % count;
    uint64_t digit_value, distance; /* a distance is a number to the base `radix`, and has one digit that is not 0 */

    for (digit_value = 1; digit_value < count; digit_value *= radix) {
        for (distance = digit_value; distance < digit_value * radix && distance < count; distance += digit_value) {
            if (nodes_ahead == distance || nodes_ahead == count - distance) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if a list of steps has a message from or to the node. */
static bool is_in_list(const mscclpp_fabric_steps_t *steps, uint32_t node)
{
    uint32_t i = 0;

    while (i < steps->kernel.count && steps->step[i].peer != node) {
        ++i;
    }
    return i < steps->kernel.count;
}

/* Returns true if an all-reduce in steps exchanges with the node. */
static bool is_in_steps(const mscclpp_fabric_t *fabric, uint32_t node)
{
    return is_in_list(&fabric->doubling, node) || is_in_list(&fabric->halving, node);
}

/* Returns true if the node is next to this one in the ring of nodes. */
static bool is_in_ring(const mscclpp_fabric_t *fabric, uint32_t node)
{
    const uint32_t count = (uint32_t)fabric->nodes.count, own_node = (uint32_t)fabric->nodes.node;

    return node == MSCCLPP_DEV_NODES_AHEAD(count, own_node, 1) || node == MSCCLPP_DEV_NODES_BEHIND(count, own_node, 1);
}

/* Returns true if links of this kind include `node`, which is another one. */
static bool includes(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, int node)
{
    if (node == fabric->nodes.node) {
        return false;
    }
    return links == MSCCLPP_FABRIC_ALL     ? true
           : links == MSCCLPP_FABRIC_STEPS ? is_in_steps(fabric, (uint32_t)node)
           : links == MSCCLPP_FABRIC_RING  ? is_in_ring(fabric, (uint32_t)node)
                                           : is_in_rounds(fabric, links, (uint32_t)node);
}

/* Returns true if links of this kind include `node` and it is not connected yet. */
static bool needs_link(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, int node)
{
    return fabric->node[node].conn == NULL && includes(fabric, links, node);
}

mscclpp_status_t mscclpp_fabric_list_peers(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, int **peers_p,
                                           int *count_p)
{
    int *peers, count = 0, node;

    for (node = 0; node < fabric->nodes.count && fabric->is_owner; ++node) {
        count += includes(fabric, links, node);
    }
    peers = calloc((size_t)count + 1, sizeof(*peers));
    if (peers == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *peers_p = peers;
    *count_p = count;
    for (node = 0; node < fabric->nodes.count && fabric->is_owner; ++node) {
        if (includes(fabric, links, node)) {
            *peers++ = fabric->nodes.owners[node];
        }
    }
    return MSCCLPP_OK;
}

void mscclpp_fabric_free_partners(mscclpp_fabric_partners_t *partners)
{
    free(partners->nodes);
    free(partners->lengths);
    free(partners->sent);
    memset(partners, 0, sizeof(*partners));
}

/*
 * Lists the nodes to be connected, and allocates the zeroed cards. A rank that owns no shard connects with none. If
 * this rank lists another rank, that rank also lists this one: links work in both directions, and all ranks link the
 * same kinds in the same order. The caller calls mscclpp_fabric_free_partners, also after an error.
 */
static mscclpp_status_t find_partners(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                      mscclpp_fabric_partners_t *partners)
{
    size_t count = 0;
    int node;

    memset(partners, 0, sizeof(*partners));
    for (node = 0; node < fabric->nodes.count && fabric->is_owner; ++node) {
        count += needs_link(fabric, links, node);
    }
    partners->nodes = calloc(2 * count + 1, sizeof(*partners->nodes));
    partners->lengths = calloc(count + 1, sizeof(*partners->lengths));
    partners->sent = calloc(2 * count + 1, sizeof(*partners->sent));
    if (partners->nodes == NULL || partners->lengths == NULL || partners->sent == NULL) {
        mscclpp_error("%s: no memory to connect %zu nodes", fabric->label, count);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    partners->peers = partners->nodes + count;
    partners->received = partners->sent + count;
    for (node = 0; node < fabric->nodes.count && fabric->is_owner; ++node) {
        if (needs_link(fabric, links, node)) {
            partners->nodes[partners->count] = node;
            partners->peers[partners->count++] = fabric->nodes.owners[node];
        }
    }
    return MSCCLPP_OK;
}

/*
 * Makes this rank's ends of the connections, and the cards that their peers need. In a card, the address follows the
 * key directly. After an error, the ends that were made are destroyed with the transport; so are all ends that the
 * following functions connect.
 */
static mscclpp_status_t open_ends(mscclpp_fabric_t *fabric, mscclpp_fabric_partners_t *partners)
{
    const mscclpp_transport_ops_t *ops = fabric->ops;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    for (i = 0; i < partners->count && status == MSCCLPP_OK; ++i) {
        mscclpp_fabric_node_t *node = &fabric->node[partners->nodes[i]];
        size_t key_length = MSCCLPP_TRANSPORT_KEY_MAX, address_length = MSCCLPP_TRANSPORT_ADDRESS_MAX;
        mscclpp_fabric_card_t *card = &partners->sent[i];

        status = ops->conn_create(fabric->transport, partners->peers[i], &node->conn);
        if (status == MSCCLPP_OK) {
            status = ops->region_key(fabric->region, card->bytes, &key_length);
        }
        if (status == MSCCLPP_OK) {
            status = ops->conn_address(node->conn, card->bytes + key_length, &address_length);
        }
        if (status == MSCCLPP_OK) {
            card->key_length = (uint32_t)key_length;
            card->address_length = (uint32_t)address_length;
            partners->lengths[i] = offsetof(mscclpp_fabric_card_t, bytes) + key_length + address_length;
        }
    }
    return status;
}

/*
 * Creates the port channels to a node, one for each block, and writes their description for kernels to the device. This
 * rank must be connected with the node, have the remote of the node's area, and have a stream. All areas have the same
 * size. A kernel that gives up reports channel.peer, which must differ from the number of every rank of this node.
 * Channels made before an error are destroyed with the proxy.
 */
static mscclpp_status_t create_channels(mscclpp_fabric_t *fabric, uint32_t node)
{
    const uint32_t count = (uint32_t)fabric->nodes.count;
    const uint32_t blocks = MSCCLPP_DEV_NODES_BLOCKS_OF(count);
    mscclpp_dev_port_channel_t channels[MSCCLPP_DEV_NODES_BLOCKS];
    mscclpp_status_t status = MSCCLPP_OK, synced;
    uint32_t block;

    for (block = 0; block < blocks && status == MSCCLPP_OK; ++block) {
        const uint64_t number = MSCCLPP_DEV_NODES_TOKEN(count, block, node);
        const mscclpp_port_params_t params = {
            .ops = fabric->ops,
            .transport = fabric->transport,
            .conn = fabric->node[node].conn,
            .region = fabric->region,
            .region_size = fabric->area_size,
            .remote = fabric->node[node].remote,
            .remote_size = fabric->area_size,
            .token = (uint32_t)MSCCLPP_DEV_NODES_TOKEN(count, block, (uint32_t)fabric->nodes.node),
            .peer = fabric->nodes.owners[node],
            .inbound = (uint64_t *)fabric->tokens.device + number,
            .expected = fabric->expected + number};
        status = mscclpp_proxy_channel_create(fabric->proxy, &params, &channels[block]);
        channels[block].peer = MSCCLPP_FABRIC_FAR_PEER + (uint32_t)fabric->nodes.owners[node];
    }
    if (status == MSCCLPP_OK) {
        status = fabric->gpu->copy(fabric->runner->stream, &fabric->channels[(uint64_t)node * blocks], channels,
                                   blocks * sizeof(channels[0]));
        synced = fabric->gpu->stream_sync(fabric->runner->stream); /* the copy reads the stack, also after an error */
        status = status == MSCCLPP_OK ? synced : status;
    }
    return status;
}

/*
 * Cards come from other processes, so their lengths are checked before use. The card of a partner that has sent none is
 * zeroed, which is invalid, too.
 */
mscclpp_status_t mscclpp_fabric_link_connect(mscclpp_fabric_t *fabric, const mscclpp_fabric_partners_t *partners)
{
    const mscclpp_transport_ops_t *ops = fabric->ops;
    mscclpp_status_t status = partners->count > 0 ? mscclpp_runner_take_stream(fabric->runner) : MSCCLPP_OK;
    int i;

    for (i = 0; i < partners->count && status == MSCCLPP_OK; ++i) {
        mscclpp_fabric_node_t *node = &fabric->node[partners->nodes[i]];
        const mscclpp_fabric_card_t *card = &partners->received[i];

        if (card->key_length == 0) {
            return MSCCLPP_ERR_PEER;
        }
        if (!mscclpp_transport_card_fits(fabric->label, partners->peers[i], card->key_length, card->address_length,
                                         MSCCLPP_TRANSPORT_ADDRESS_MAX)) {
            return MSCCLPP_ERR_INVALID;
        }
        status = ops->conn_connect(node->conn, card->bytes + card->key_length, card->address_length);
        if (status == MSCCLPP_OK) {
            status = ops->remote_create(node->conn, card->bytes, card->key_length, &node->remote);
        }
        if (status == MSCCLPP_OK) {
            status = create_channels(fabric, (uint32_t)partners->nodes[i]);
        }
    }
    return status;
}

/* Returns true if links of this kind are connected, as far as all ranks know. */
static bool has_links(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links)
{
    return ((fabric->linked >> MSCCLPP_FABRIC_ALL | fabric->linked >> links) & 1) != 0;
}

mscclpp_status_t mscclpp_fabric_link_open(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                          mscclpp_fabric_partners_t *partners)
{
    const mscclpp_status_t status = find_partners(fabric, links, partners);

    return status == MSCCLPP_OK ? open_ends(fabric, partners) : status;
}

/* Once all nodes are connected, all peers have attached this memory, so it needs no file descriptor any more. */
void mscclpp_fabric_link_note(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links)
{
    fabric->linked |= (uint64_t)1 << links;
    if (links == MSCCLPP_FABRIC_ALL) {
        mscclpp_fabric_hide_memory(&fabric->tokens);
        mscclpp_fabric_hide_memory(&fabric->area);
    }
}

/* A failed exchange counts as this rank's own failure, so that the vote tells all ranks. */
mscclpp_status_t mscclpp_fabric_link_join(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                          const mscclpp_fabric_partners_t *partners, mscclpp_vote_t *vote_p)
{
    const mscclpp_oob_t *oob = &fabric->group->oob;
    mscclpp_status_t status, own_status;

    own_status = mscclpp_oob_exchange(oob, partners->peers, partners->count, partners->sent, partners->lengths,
                                      partners->received, sizeof(mscclpp_fabric_card_t));
    own_status = own_status == MSCCLPP_OK ? mscclpp_fabric_link_connect(fabric, partners) : own_status;
    status = mscclpp_vote(oob, own_status, vote_p);
    if (status == MSCCLPP_OK && vote_p->culprit < 0) {
        mscclpp_fabric_link_note(fabric, links);
    }
    return status;
}

mscclpp_status_t mscclpp_fabric_link_decline(const mscclpp_oob_t *oob, const mscclpp_fabric_hint_t *hint,
                                             mscclpp_status_t own_status, mscclpp_vote_t *vote_p)
{
    /* Whatever comes of this, the ranks vote. */
    (void)mscclpp_oob_exchange(oob, hint->peers, hint->peer_count, NULL, NULL, NULL, sizeof(mscclpp_fabric_card_t));
    return mscclpp_vote(oob, own_status, vote_p);
}

/*
 * Votes twice: first on this rank's ends, because a peer must not wait for a card that never comes, and then on the
 * connections.
 */
mscclpp_status_t mscclpp_fabric_link(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, mscclpp_vote_t *vote_p)
{
    mscclpp_fabric_partners_t partners;
    const mscclpp_status_t own_status = mscclpp_fabric_link_open(fabric, links, &partners);
    mscclpp_status_t status = mscclpp_vote(&fabric->group->oob, own_status, vote_p);

    if (status == MSCCLPP_OK && vote_p->culprit < 0) {
        status = mscclpp_fabric_link_join(fabric, links, &partners, vote_p);
    }
    mscclpp_fabric_free_partners(&partners);
    return status;
}

mscclpp_fabric_links_t mscclpp_fabric_links_of(const mscclpp_algo_t *algo)
{
    /* Neighbours in the trees are powers of 2 apart, as are partners in rounds with radix 2. */
    return algo->pattern == MSCCLPP_DEV_NODES_TREES ? 2
           : algo->pattern == MSCCLPP_DEV_NODES_DOUBLING || algo->pattern == MSCCLPP_DEV_NODES_HALVING
               ? MSCCLPP_FABRIC_STEPS
               : MSCCLPP_FABRIC_ALL;
}

bool mscclpp_fabric_is_linked(const mscclpp_fabric_t *fabric, const mscclpp_algo_t *algo)
{
    return has_links(fabric, mscclpp_fabric_links_of(algo));
}

mscclpp_status_t mscclpp_fabric_link_all(mscclpp_fabric_t *fabric)
{
    return mscclpp_fabric_link_for_call(fabric, MSCCLPP_FABRIC_ALL);
}

/* fabric->linked is the same on all ranks, so either all of them make the links or none does. */
mscclpp_status_t mscclpp_fabric_link_for_call(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links)
{
    mscclpp_status_t status;
    mscclpp_vote_t vote;

    if (has_links(fabric, links)) {
        return MSCCLPP_OK;
    }
    /* The lingering kernel must end, because it may read the channels, which are about to change. */
    if (mscclpp_linger_end(fabric->runner) != MSCCLPP_OK) {
        return MSCCLPP_ERR_DEVICE;
    }
    status = mscclpp_fabric_link(fabric, links, &vote);
    if (status == MSCCLPP_OK && vote.culprit >= 0) {
        mscclpp_log(vote.culprit == fabric->group->oob.rank ? MSCCLPP_LOG_ERROR : MSCCLPP_LOG_INFO,
                    "%s: rank %d: connections to other nodes: %s", fabric->label, vote.culprit,
                    mscclpp_status_string(vote.status));
        status = vote.culprit == fabric->group->oob.rank ? vote.status : MSCCLPP_ERR_PEER;
    }
    return status;
}
