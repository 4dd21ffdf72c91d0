/*
 * Joined memory: memory of kernels, besides the fabric's own area, that ranks of other nodes put into. Each such memory
 * has an instance of the transport of its own, because a transport counts signals in one list of words. The fabric's
 * proxy serves the channels.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/fabric/internal.h"
#include "mca/common/oob/vote.h"

/* This rank's end of the connection to a peer. */
typedef struct {
    mscclpp_conn_t *conn;
    mscclpp_remote_t *remote;
} peer_end_t;

struct mscclpp_fabric_join {
    mscclpp_fabric_t *fabric;
    mscclpp_transport_t *transport;
    mscclpp_region_t *region;
    uint32_t *channel_numbers; /* in the proxy */
    uint32_t channel_count;
    peer_end_t ends[]; /* by rank of the communicator */
};

/* The key of a rank's memory. Each rank sends its card to all others. An address_t for each rank follows the card. */
typedef struct {
    uint64_t key_length; /* 0: it cannot take part */
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
} card_t;

/* The address of a rank's end of the connection to one peer. */
typedef struct {
    uint64_t length;
    unsigned char bytes[];
} address_t;

/* The cards of all ranks, each with its addresses. */
typedef struct {
    size_t address_size; /* bytes of one address_t, the same for all */
    size_t size;         /* bytes of one rank's card with its addresses */
    char *all;           /* the cards by rank, then this rank's card, as it is sent */
} cards_t;

/* Returns a rank's card. The number of ranks means the card that this rank sends. */
static card_t *card_of(const cards_t *cards, int rank)
{
    return (card_t *)(void *)(cards->all + (size_t)rank * cards->size);
}

/* Returns the address in a card that is for `rank`. */
static address_t *address_in(const cards_t *cards, const card_t *card, int rank)
{
    return (address_t *)(void *)((uintptr_t)card + sizeof(card_t) + (size_t)rank * cards->address_size);
}

const mscclpp_nodes_t *mscclpp_fabric_nodes(const mscclpp_fabric_t *fabric)
{
    return &fabric->nodes;
}

bool mscclpp_fabric_can_join(const mscclpp_fabric_t *fabric, bool needs_packets)
{
    const bool all_have_connections = fabric->nodes.shards == fabric->nodes.largest_node;
    const bool is_right_memory = fabric->gpu->twin || fabric->place == MSCCLPP_PLACE_DEVICE;

    return all_have_connections && is_right_memory && (fabric->has_packets || !needs_packets);
}

/*
 * Frees the parts in the reverse order of their use: channels, remotes, connections, the region, and the transport.
 * `join` may be incomplete.
 */
void mscclpp_fabric_leave(mscclpp_fabric_join_t *join)
{
    const mscclpp_transport_ops_t *ops;

    if (join == NULL) {
        return;
    }
    ops = join->fabric->ops;
    /* Channels are destroyed first, so that the proxy no longer uses the other parts. */
    mscclpp_fabric_await_delivery(join->fabric);
    for (uint32_t i = 0; i < join->channel_count; ++i) {
        mscclpp_proxy_channel_destroy(join->fabric->proxy, join->channel_numbers[i]);
    }
    for (int rank = 0; rank < join->fabric->group->oob.size; ++rank) {
        if (join->ends[rank].remote != NULL) {
            ops->remote_destroy(join->ends[rank].remote);
        }
        if (join->ends[rank].conn != NULL) {
            ops->conn_destroy(join->ends[rank].conn);
        }
    }
    if (join->region != NULL) {
        ops->region_destroy(join->region);
    }
    if (join->transport != NULL) {
        ops->destroy(join->transport);
    }
    free(join->channel_numbers);
    free(join);
}

/*
 * Opens the transport, and this rank's ends of the connections to params->peers. Raises *longest_address_p to the
 * length of their longest address. The addresses themselves are taken in fill_card, when all ranks know the size of a
 * card. After an error, which has been logged, mscclpp_fabric_leave frees what was made.
 */
static mscclpp_status_t open_ends(mscclpp_fabric_join_t *join, const mscclpp_fabric_memory_params_t *params,
                                  uint64_t *longest_address_p)
{
    mscclpp_fabric_t *fabric = join->fabric;
    const mscclpp_transport_params_t transport = {.config = &fabric->config,
                                                  .gpu = fabric->gpu,
                                                  .device = fabric->device,
                                                  .rank = fabric->group->oob.rank,
                                                  .size = fabric->group->oob.size,
                                                  .one_host = fabric->nodes.one_host,
                                                  .label = fabric->label,
                                                  .tokens = params->memory,
                                                  .token_count = params->tokens};
    unsigned char address[MSCCLPP_TRANSPORT_ADDRESS_MAX];
    uint32_t flags = 0;
    mscclpp_status_t status = fabric->ops->create(&transport, &flags, &join->transport);

    if (status != MSCCLPP_OK) {
        join->transport = NULL;
        return status;
    }
    status = fabric->ops->region_create(join->transport, params->memory, params->bytes, &join->region);
    for (int rank = 0; rank < transport.size && status == MSCCLPP_OK; ++rank) {
        size_t address_length = sizeof(address);

        if (!params->peers[rank]) {
            continue;
        }
        status = fabric->ops->conn_create(join->transport, rank, &join->ends[rank].conn);
        if (status == MSCCLPP_OK) {
            status = fabric->ops->conn_address(join->ends[rank].conn, address, &address_length);
            *longest_address_p = address_length > *longest_address_p ? address_length : *longest_address_p;
        }
    }
    return status;
}

/*
 * Fills in the card that peers need: the key of this rank's region, and an address for each peer. cards->address_size
 * is large enough for each address. After an error, the key's length is 0, which tells the peers that this rank cannot
 * take part.
 */
static mscclpp_status_t fill_card(const mscclpp_fabric_join_t *join, const cards_t *cards, card_t *card)
{
    const mscclpp_transport_ops_t *ops = join->fabric->ops;
    size_t length = sizeof(card->key);
    mscclpp_status_t status = ops->region_key(join->region, card->key, &length);

    for (int rank = 0; rank < join->fabric->group->oob.size && status == MSCCLPP_OK; ++rank) {
        address_t *address = address_in(cards, card, rank);
        size_t length_left = cards->address_size - sizeof(*address);

        if (join->ends[rank].conn != NULL) {
            status = ops->conn_address(join->ends[rank].conn, address->bytes, &length_left);
            address->length = length_left;
        }
    }
    card->key_length = status == MSCCLPP_OK ? length : 0;
    return status;
}

/*
 * Connects this rank's ends of the connections with the ends of the peers. The cards of all ranks must have arrived.
 * Returns MSCCLPP_ERR_PEER if a peer cannot take part. Any other error, such as MSCCLPP_ERR_INVALID for a card with
 * wrong lengths, has been logged. mscclpp_fabric_leave frees what was made before an error.
 */
static mscclpp_status_t connect_ends(mscclpp_fabric_join_t *join, const cards_t *cards)
{
    const mscclpp_transport_ops_t *ops = join->fabric->ops;
    mscclpp_status_t status = MSCCLPP_OK;

    for (int rank = 0; rank < join->fabric->group->oob.size && status == MSCCLPP_OK; ++rank) {
        const card_t *card = card_of(cards, rank);
        const address_t *address = address_in(cards, card, join->fabric->group->oob.rank);
        peer_end_t *end = &join->ends[rank];

        if (end->conn == NULL) {
            continue;
        }
        if (card->key_length == 0) {
            return MSCCLPP_ERR_PEER;
        }
        if (!mscclpp_transport_card_fits(join->fabric->label, rank, card->key_length, address->length,
                                         cards->address_size - sizeof(*address))) {
            return MSCCLPP_ERR_INVALID;
        }
        status = ops->conn_connect(end->conn, address->bytes, address->length);
        if (status == MSCCLPP_OK) {
            status = ops->remote_create(end->conn, card->key, card->key_length, &end->remote);
        }
    }
    return status;
}

/*
 * Creates the port channels, and writes their description for kernels to `channels`. Entries of ports without a peer
 * are unchanged. All peers of ports must be connected. The channels are only for sending, because kernels themselves
 * wait on the words in the joined memory. After a failure, `join` lists the channels made so far, which
 * mscclpp_fabric_leave destroys.
 */
static mscclpp_status_t create_channels(mscclpp_fabric_join_t *join, const mscclpp_fabric_memory_params_t *params,
                                        mscclpp_dev_port_channel_t *channels)
{
    mscclpp_status_t status = MSCCLPP_OK;

    for (uint32_t i = 0; i < params->port_count && status == MSCCLPP_OK; ++i) {
        const int peer = params->ports[i].peer;
        mscclpp_port_params_t port = {.ops = join->fabric->ops,
                                      .transport = join->transport,
                                      .region = join->region,
                                      .region_size = params->bytes,
                                      .remote_size = params->bytes,
                                      .token = params->ports[i].token,
                                      .peer = peer};

        if (peer < 0) {
            continue;
        }
        port.conn = join->ends[peer].conn;
        port.remote = join->ends[peer].remote;
        status = mscclpp_proxy_channel_create(join->fabric->proxy, &port, &channels[i]);
        if (status == MSCCLPP_OK) {
            /* A kernel that gives up reports this number, which must not look like a rank of this node. */
            channels[i].peer = MSCCLPP_FABRIC_FAR_PEER + (uint32_t)peer;
            join->channel_numbers[join->channel_count++] = channels[i].number;
        }
    }
    return status;
}

/*
 * Exchanges the cards of all ranks. Collective. A rank whose *own_status_p is an error sends its zeroed card, whose key
 * length 0 tells its peers. Returns only an error of the exchange; a failure to fill in the own card goes to
 * *own_status_p.
 */
static mscclpp_status_t exchange_cards(mscclpp_fabric_join_t *join, cards_t *cards, mscclpp_status_t *own_status_p)
{
    const mscclpp_oob_t *oob = &join->fabric->group->oob;
    card_t *own_card = card_of(cards, oob->size);

    if (*own_status_p == MSCCLPP_OK) {
        *own_status_p = fill_card(join, cards, own_card);
    }
    return oob->allgather(oob->context, own_card, cards->all, cards->size);
}

/*
 * Connects ranks of all nodes for a memory that is not the fabric's own, in these steps:
 * 1. Agrees on memory for the descriptions.
 * 2. Opens this rank's ends of the connections.
 * 3. Agrees on the size of a card, and exchanges the cards.
 * 4. Connects the ends, and creates channels.
 * A rank that has failed still takes part in all exchanges. If a rank lacks memory, all ranks return MSCCLPP_OK with an
 * error in *own_status_p.
 */
mscclpp_status_t mscclpp_fabric_join(mscclpp_fabric_t *fabric, const mscclpp_fabric_memory_params_t *params,
                                     mscclpp_status_t own_status, mscclpp_dev_port_channel_t *channels,
                                     mscclpp_fabric_join_t **join_p, mscclpp_status_t *own_status_p)
{
    const mscclpp_oob_t *oob = &fabric->group->oob;
    mscclpp_fabric_join_t *join = calloc(1, sizeof(*join) + (size_t)oob->size * sizeof(join->ends[0]));
    uint64_t longest_address = 0, *longest_of_rank = calloc((size_t)oob->size + 1, sizeof(*longest_of_rank));
    cards_t cards = {.all = NULL};
    mscclpp_status_t status;

    if (join != NULL) {
        join->fabric = fabric;
        join->channel_numbers = calloc(params->port_count + 1, sizeof(*join->channel_numbers));
    }
    status = mscclpp_agree(
        oob, NULL,
        join == NULL || join->channel_numbers == NULL || longest_of_rank == NULL ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_OK,
        "memory to join nodes");
    if (status != MSCCLPP_OK) {
        goto out;
    }
    if (own_status == MSCCLPP_OK) {
        own_status = open_ends(join, params, &longest_address);
    }
    /* All cards have the size that the longest address of any rank needs. */
    status = oob->allgather(oob->context, &longest_address, longest_of_rank, sizeof(longest_address));
    for (int rank = 0; rank < oob->size && status == MSCCLPP_OK; ++rank) {
        if (!mscclpp_transport_card_fits(fabric->label, rank, 0, longest_of_rank[rank],
                                         MSCCLPP_TRANSPORT_ADDRESS_MAX)) {
            own_status = MSCCLPP_ERR_INVALID; /* on all ranks */
            goto out;
        }
        longest_address = longest_of_rank[rank] > longest_address ? longest_of_rank[rank] : longest_address;
    }
    if (status != MSCCLPP_OK) {
        goto out;
    }
    cards.address_size =
        (sizeof(address_t) + longest_address + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    cards.size = sizeof(card_t) + (size_t)oob->size * cards.address_size;
    cards.all = calloc((size_t)oob->size + 1, cards.size);
    status = mscclpp_agree(oob, NULL, cards.all == NULL ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_OK, "memory to join nodes");
    if (status != MSCCLPP_OK) {
        goto out;
    }
    status = exchange_cards(join, &cards, &own_status);
    if (status == MSCCLPP_OK && own_status == MSCCLPP_OK) {
        own_status = connect_ends(join, &cards);
    }
    if (status == MSCCLPP_OK && own_status == MSCCLPP_OK) {
        own_status = create_channels(join, params, channels);
    }
out:
    free(longest_of_rank);
    free(cards.all);
    /*
     * mscclpp_agree or an all-gather has found that a rank lacks memory. This is not an error of the exchange, but no
     * rank can join.
     */
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        own_status = own_status == MSCCLPP_OK ? MSCCLPP_ERR_NO_MEMORY : own_status;
        status = MSCCLPP_OK;
    }
    if (status == MSCCLPP_OK && own_status == MSCCLPP_OK) {
        *join_p = join;
    } else if (join != NULL && join->channel_numbers != NULL) {
        mscclpp_fabric_leave(join);
    } else {
        free(join);
    }
    *own_status_p = own_status;
    return status;
}
