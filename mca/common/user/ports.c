/*
 * Port channels. They have their own transport, and a proxy whose thread runs while the channels are open. If all ranks
 * are on one node, the transport is shared memory on the host twin, and copy engines on GPUs. If there are several
 * nodes, one transport serves all channels, including channels within a node.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/oob/vote.h"
#include "mca/common/user/ports.h"

/* The number of seconds that the last close waits for the proxy, if calls have no deadline. */
#define CLOSE_SECONDS 60.0

/* The key of a rank's memory. Each rank sends its card to all others. An address_t for each rank follows the card. */
typedef struct {
    uint64_t key_length; /* 0: no memory to put into */
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
} card_t;

/* The address of this rank's end of the connection to one peer. */
typedef struct {
    uint64_t length;
    unsigned char bytes[MSCCLPP_TRANSPORT_ADDRESS_MAX];
} address_t;

/* Logs a lack of memory, and returns MSCCLPP_ERR_NO_MEMORY. */
static mscclpp_status_t report_no_memory(const mscclpp_user_t *user)
{
    mscclpp_error("%s: no memory for port channels", user->oob.label);
    return MSCCLPP_ERR_NO_MEMORY;
}

/*
 * Destroys the transport, and then frees the tokens, which it uses. Either may be gone already. The connections and the
 * region of the transport must be destroyed before this call, and no peer may write to the tokens any more.
 */
static void free_transport_and_tokens(const mscclpp_user_t *user, mscclpp_user_ports_t *ports)
{
    if (ports->transport != NULL) {
        ports->ops->destroy(ports->transport);
        ports->transport = NULL;
    }
    if (ports->tokens != NULL && ports->has_host_tokens) {
        user->gpu->host_free(ports->tokens);
    } else if (ports->tokens != NULL) {
        user->gpu->device_free(user->device, ports->tokens);
    }
    ports->tokens = NULL;
}

/*
 * Opens a transport with tokens of its own. The tokens are in pinned host memory if `on_host` is set, and in device
 * memory otherwise. Returns MSCCLPP_ERR_NOT_SUPPORTED if this rank cannot use the transport. After an error nothing is
 * left.
 */
static mscclpp_status_t create_transport(const mscclpp_user_t *user, mscclpp_user_ports_t *ports,
                                         const mscclpp_transport_ops_t *ops, size_t token_count, bool on_host,
                                         uint32_t *flags_p)
{
    mscclpp_transport_params_t params;
    mscclpp_status_t status;
    void *host, *device;

    if (on_host) {
        status = user->gpu->host_alloc(token_count * sizeof(uint64_t), &host, &device);
    } else {
        status = user->gpu->device_alloc(user->device, token_count * sizeof(uint64_t), &device);
        host = device;
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    ports->ops = ops;
    ports->tokens = host;
    ports->device_tokens = device;
    ports->has_host_tokens = on_host;
    memset(&params, 0, sizeof(params));
    params.config = &user->config;
    params.gpu = user->gpu;
    params.device = user->device;
    params.rank = user->oob.rank;
    params.size = user->oob.size;
    params.one_host = user->node_of == NULL || user->one_host;
    params.label = user->oob.label;
    params.tokens = ports->tokens;
    params.token_count = token_count;
    status = ops->create(&params, flags_p, &ports->transport);
    if (status != MSCCLPP_OK) {
        ports->transport = NULL;
        free_transport_and_tokens(user, ports);
    }
    return status;
}

/*
 * Opens a transport with its tokens where it can write to them. The tokens are in device memory if the transport
 * supports that, and in host memory otherwise. Only an instance of the transport knows its capabilities. So the
 * function first opens an instance with tokens on the host, and replaces it if the tokens can be in device memory.
 * Returns MSCCLPP_ERR_NOT_SUPPORTED if the transport cannot be used, cannot move device memory, or cannot have tokens
 * where it needs them. After an error nothing is left.
 */
static mscclpp_status_t open_transport(const mscclpp_user_t *user, mscclpp_user_ports_t *ports,
                                       const mscclpp_transport_ops_t *ops, size_t token_count)
{
    bool on_host = ops->place == MSCCLPP_PLACE_HOST, has_tokens;
    uint32_t flags = 0;
    mscclpp_status_t status = create_transport(user, ports, ops, token_count, on_host, &flags);

    if (status == MSCCLPP_OK && on_host && (flags & MSCCLPP_DEVICE_TOKENS) != 0) {
        free_transport_and_tokens(user, ports);
        on_host = false;
        status = create_transport(user, ports, ops, token_count, on_host, &flags);
    }
    has_tokens = on_host || (flags & MSCCLPP_DEVICE_TOKENS) != 0;
    if (status == MSCCLPP_OK && ((flags & MSCCLPP_DEVICE_REGIONS) == 0 || !has_tokens)) {
        free_transport_and_tokens(user, ports);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    return status;
}

/*
 * Opens the transport and this rank's ends of the connections, and fills in this rank's card, with an address for each
 * peer. The caller has zeroed the card. Local. `key_length` stays 0 if this rank has no memory. The region is created
 * before the connections, as region_create in transport.h advises. After an error the caller disconnects and closes the
 * transport.
 */
static mscclpp_status_t open_and_fill_card(mscclpp_user_channels_t *channels, const mscclpp_transport_ops_t *ops,
                                           card_t *card)
{
    const mscclpp_user_t *user = channels->user;
    const mscclpp_user_share_t *memory = &channels->memory->share;
    mscclpp_user_ports_t *ports = channels->ports;
    address_t *addresses = (address_t *)(void *)(card + 1);
    size_t length = sizeof(card->key);
    mscclpp_status_t status;
    int peer_index;

    status = open_transport(user, ports, ops, (size_t)user->oob.size * (size_t)channels->per_peer);
    if (status == MSCCLPP_OK && memory->bytes > 0) {
        status = ports->ops->region_create(ports->transport, memory->own_memory, memory->bytes, &ports->region);
        if (status == MSCCLPP_OK) {
            status = ports->ops->region_key(ports->region, card->key, &length);
            card->key_length = length;
        }
    }
    for (peer_index = 0; peer_index < channels->peer_count && status == MSCCLPP_OK; ++peer_index) {
        address_t *address = &addresses[channels->peers[peer_index]];

        status = ports->ops->conn_create(ports->transport, channels->peers[peer_index], &ports->links[peer_index].conn);
        if (status == MSCCLPP_OK) {
            length = sizeof(address->bytes);
            status = ports->ops->conn_address(ports->links[peer_index].conn, address->bytes, &length);
            address->length = length;
        }
    }
    return status;
}

/*
 * Makes the port channel `index`. The connection to the peer must exist. The proxy owns the channel. Both ends number
 * the tokens in the same way (mscclpp_user_token). A signal of this rank adds to the peer's token for this rank and
 * channel. This rank waits on its own token for the peer and channel.
 */
static mscclpp_status_t make_channel(mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports, int index)
{
    const mscclpp_user_share_t *memory = &channels->memory->share;
    const int peer_index = index / channels->per_peer, channel_index = index % channels->per_peer,
              peer = channels->peers[peer_index];
    mscclpp_port_params_t params;

    memset(&params, 0, sizeof(params));
    params.ops = ports->ops;
    params.transport = ports->transport;
    params.conn = ports->links[peer_index].conn;
    params.region = ports->region;
    params.region_size = memory->bytes;
    params.remote = ports->links[peer_index].remote;
    params.remote_size = memory->sizes[peer];
    params.token = mscclpp_user_token(channels, channels->user->oob.rank, channel_index);
    params.peer = peer;
    params.inbound = &ports->device_tokens[mscclpp_user_token(channels, peer, channel_index)];
    params.expected = &channels->expected[index];
    return mscclpp_proxy_channel_create(ports->proxy, &params, &ports->views[index]);
}

/*
 * Connects with all peers. Local. `cards` has the cards of all ranks, at distances of `size` bytes. All ranks must have
 * opened their ends before, so that all cards are complete. A peer without memory gets no remote. After an error the
 * caller destroys the proxy and disconnects.
 */
static mscclpp_status_t connect_peers(mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports, const char *cards,
                                      size_t size)
{
    const mscclpp_user_t *user = channels->user;
    mscclpp_proxy_params_t proxy;
    mscclpp_status_t status = MSCCLPP_OK;
    int peer_index, index;

    for (peer_index = 0; peer_index < channels->peer_count && status == MSCCLPP_OK; ++peer_index) {
        const card_t *card = (const card_t *)(const void *)(cards + (size_t)channels->peers[peer_index] * size);
        const address_t *address = (const address_t *)(const void *)(card + 1) + user->oob.rank;

        if (!mscclpp_transport_card_fits(user->oob.label, channels->peers[peer_index], card->key_length,
                                         address->length, sizeof(address->bytes))) {
            return MSCCLPP_ERR_INVALID;
        }
        status = ports->ops->conn_connect(ports->links[peer_index].conn, address->bytes, address->length);
        if (status == MSCCLPP_OK && card->key_length > 0) {
            status = ports->ops->remote_create(ports->links[peer_index].conn, card->key, card->key_length,
                                               &ports->links[peer_index].remote);
        }
    }
    memset(&proxy, 0, sizeof(proxy));
    proxy.config = &user->config;
    proxy.gpu = user->gpu;
    proxy.device = user->device;
    proxy.label = user->oob.label;
    proxy.mailbox = &user->words->mailbox;
    if (status == MSCCLPP_OK) {
        status = mscclpp_proxy_create(&proxy, &ports->proxy);
    }
    for (index = 0; index < channels->peer_count * channels->per_peer && status == MSCCLPP_OK; ++index) {
        status = make_channel(channels, ports, index);
    }
    return status;
}

/*
 * Destroys what connects the ports with the peers, in the order that transports demand: remotes and connections, the
 * region, the transport. The caller has destroyed the proxy, which uses all of them. The tokens are kept, because peers
 * may still write to them.
 */
static void disconnect(const mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports)
{
    int peer_index;

    for (peer_index = 0; peer_index < channels->peer_count && ports->links != NULL; ++peer_index) {
        if (ports->links[peer_index].remote != NULL) {
            ports->ops->remote_destroy(ports->links[peer_index].remote);
        }
        if (ports->links[peer_index].conn != NULL) {
            ports->ops->conn_destroy(ports->links[peer_index].conn);
        }
        ports->links[peer_index] = (mscclpp_user_link_t){.conn = NULL, .remote = NULL};
    }
    if (ports->region != NULL) {
        ports->ops->region_destroy(ports->region);
        ports->region = NULL;
    }
    if (ports->transport != NULL) {
        ports->ops->destroy(ports->transport);
        ports->transport = NULL;
    }
}

/* Frees the lists, which need not be complete, and the struct itself. */
static void free_arrays(mscclpp_user_ports_t *ports)
{
    free(ports->handlers);
    free(ports->lists);
    free(ports->views);
    free(ports->links);
    free(ports);
}

/*
 * Frees the ports with their transport, tokens and lists. The proxy and the connections must be destroyed first. If
 * `keep_tokens` is set, the tokens are never freed, because peers may still write to them.
 */
static void free_ports(mscclpp_user_channels_t *channels, bool keep_tokens)
{
    mscclpp_user_ports_t *ports = channels->ports;
    int index;

    if (keep_tokens) {
        ports->tokens = NULL;
    }
    free_transport_and_tokens(channels->user, ports);
    for (index = 0; index < channels->peer_count * channels->per_peer && ports->lists != NULL; ++index) {
        mscclpp_user_list_free(ports->lists[index]);
    }
    free_arrays(ports);
    channels->ports = NULL;
}

/*
 * Allocates the ports and their lists. Each list has one entry more than needed, because calloc may return NULL for 0
 * bytes. Returns NULL if there is no memory, which the caller logs.
 */
static mscclpp_user_ports_t *new_ports(const mscclpp_user_channels_t *channels)
{
    const size_t count = (size_t)channels->peer_count * (size_t)channels->per_peer + 1;
    mscclpp_user_ports_t *ports = calloc(1, sizeof(*ports));

    if (ports == NULL) {
        return NULL;
    }
    ports->links = calloc((size_t)channels->peer_count + 1, sizeof(*ports->links));
    ports->views = calloc(count, sizeof(*ports->views));
    ports->lists = calloc(count, sizeof(*ports->lists));
    ports->handlers = calloc(count, sizeof(*ports->handlers));
    if (ports->links == NULL || ports->views == NULL || ports->lists == NULL || ports->handlers == NULL) {
        free_arrays(ports);
        return NULL;
    }
    return ports;
}

/*
 * Finds whether all ranks can use the transport. Collective. Returns MSCCLPP_OK if no rank failed, and otherwise the
 * error of the first rank that failed, on all ranks. MSCCLPP_ERR_NOT_SUPPORTED is logged as information only, because
 * another transport may be tried.
 */
static mscclpp_status_t vote_on_transport(const mscclpp_user_t *user, const mscclpp_transport_ops_t *ops,
                                          mscclpp_status_t own_status)
{
    mscclpp_vote_t vote;
    mscclpp_status_t status = mscclpp_vote(&user->oob, own_status, &vote);

    if (status != MSCCLPP_OK || vote.culprit < 0) {
        return status;
    }
    mscclpp_log(vote.status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_ERROR,
                "%s: port channels over %s: rank %d: %s", user->oob.label, ops->name, vote.culprit,
                mscclpp_status_string(vote.status));
    return vote.status;
}

/*
 * Connects all ranks over the transport. Collective. `card` has room for this rank's card with its addresses, which
 * takes `size` bytes, and `cards` for the cards of all ranks. If `own_status` is an error, `card`, `cards` and
 * channels->ports may be NULL, because the first vote then fails on all ranks. Returns MSCCLPP_ERR_NOT_SUPPORTED, on
 * all ranks, if a rank cannot use the transport. After an error nothing of the transport is left. Its tokens can be
 * freed: no kernel has a channel yet, so no rank sends signals.
 */
static mscclpp_status_t connect_over(mscclpp_user_channels_t *channels, const mscclpp_transport_ops_t *ops,
                                     card_t *card, char *cards, size_t size, mscclpp_status_t own_status)
{
    const mscclpp_user_t *user = channels->user;
    mscclpp_status_t status;

    if (own_status == MSCCLPP_OK) {
        memset(card, 0, size);
        own_status = open_and_fill_card(channels, ops, card);
    }
    status = vote_on_transport(user, ops, own_status);
    if (status == MSCCLPP_OK) {
        status = user->oob.allgather(user->oob.context, card, cards, size);
    }
    if (status == MSCCLPP_OK) {
        status = vote_on_transport(user, ops, connect_peers(channels, channels->ports, cards, size));
    }
    if (status != MSCCLPP_OK && channels->ports != NULL) {
        mscclpp_proxy_destroy(channels->ports->proxy);
        channels->ports->proxy = NULL;
        disconnect(channels, channels->ports);
        free_transport_and_tokens(user, channels->ports);
    }
    return status;
}

/*
 * Returns the next transport to try. Returns NULL if no transport is left to try. The sequence is equal on all ranks,
 * because the ranks vote on each transport. If all ranks are on one node, there is only one candidate.
 */
static const mscclpp_transport_ops_t *next_transport(const mscclpp_user_t *user, int *next_index_p)
{
    if (user->node_of == NULL) {
        return (*next_index_p)++ == 0 ? mscclpp_transport_find(user->gpu->twin ? "shm" : "cuda_ipc") : NULL;
    }
    while (*next_index_p < mscclpp_transport_count) {
        const mscclpp_transport_ops_t *ops = mscclpp_transports[(*next_index_p)++];

        if (mscclpp_transport_may_take(ops, &user->config, user->one_host)) {
            return ops;
        }
    }
    return NULL;
}

/*
 * A rank that has failed, or that has no memory, also takes part in the votes. Returns MSCCLPP_ERR_NOT_SUPPORTED if no
 * transport is left. All errors are logged, and are equal on all ranks; nothing is then left.
 */
mscclpp_status_t mscclpp_user_ports_create(mscclpp_user_channels_t *channels, mscclpp_status_t own_status)
{
    const mscclpp_user_t *user = channels->user;
    const size_t ranks = (size_t)user->oob.size, size = sizeof(card_t) + ranks * sizeof(address_t);
    const mscclpp_transport_ops_t *ops;
    char *cards = malloc(ranks * size);
    card_t *card = calloc(1, size);
    mscclpp_status_t status = MSCCLPP_ERR_NOT_SUPPORTED;
    int next_index = 0;

    channels->ports = new_ports(channels);
    if (own_status == MSCCLPP_OK && (card == NULL || cards == NULL || channels->ports == NULL)) {
        own_status = report_no_memory(user);
    }
    while (status == MSCCLPP_ERR_NOT_SUPPORTED && (ops = next_transport(user, &next_index)) != NULL) {
        status = connect_over(channels, ops, card, cards, size, own_status);
    }
    free(cards);
    free(card);
    if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_error("%s: no transport that all ranks have moves device memory between them for port channels "
                      "(coll_mscclpp_transport is %s); coll_mscclpp_verbose 2 says why",
                      user->oob.label, user->config.transport);
    }
    if (status == MSCCLPP_OK && user->node_of != NULL && user->oob.rank == 0) {
        mscclpp_info("%s: port channels over %s, signals in %s memory", user->oob.label, channels->ports->ops->name,
                     channels->ports->has_host_tokens ? "pinned host" : "device");
    }
    if (status != MSCCLPP_OK && channels->ports != NULL) {
        free_ports(channels, false);
    }
    return status;
}

/*
 * Starts or stops the service of the proxy's thread. Does nothing if the thread is in that state already, because every
 * begin of the proxy needs exactly one end.
 */
static void set_serving(mscclpp_user_channels_t *channels, bool serves)
{
    if (serves && !channels->ports->is_serving) {
        mscclpp_proxy_begin(channels->ports->proxy);
    } else if (!serves && channels->ports->is_serving) {
        mscclpp_proxy_end(channels->ports->proxy);
    }
    channels->ports->is_serving = serves;
}

/*
 * Frees the ports in three steps. Between two steps all ranks vote, so that no rank begins a step before all ranks have
 * done the previous one:
 * 1. Puts end.
 * 2. Connections end.
 * 3. Tokens are freed.
 *
 * Returns the error of the first vote that fails. This rank then continues alone, and never frees its tokens.
 */
mscclpp_status_t mscclpp_user_ports_free(mscclpp_user_channels_t *channels)
{
    const mscclpp_user_t *user = channels->user;
    mscclpp_status_t status = MSCCLPP_OK;

    if (user->node_of != NULL) {
        /* Peers may need this rank's proxy until they have closed their channels. */
        status = mscclpp_user_agree(user, MSCCLPP_OK, "port channels are freed");
    }
    set_serving(channels, false);
    /* If a vote fails, no further votes are taken. */
    mscclpp_proxy_destroy(channels->ports->proxy);
    if (status == MSCCLPP_OK) {
        status = mscclpp_user_agree(user, MSCCLPP_OK, "port channels are freed");
    }
    disconnect(channels, channels->ports);
    if (status == MSCCLPP_OK) {
        status = mscclpp_user_agree(user, MSCCLPP_OK, "port channels are freed");
    }
    free_ports(channels, status != MSCCLPP_OK);
    return status;
}

void mscclpp_user_ports_end(mscclpp_user_channels_t *channels)
{
    mscclpp_proxy_destroy(channels->ports->proxy);
    disconnect(channels, channels->ports);
    free_ports(channels, true);
}

void mscclpp_user_ports_view(const mscclpp_user_channels_t *channels, int index, mscclpp_dev_port_channel_t *view)
{
    *view = channels->ports->views[index];
}

mscclpp_status_t mscclpp_user_channels_open(mscclpp_user_channels_t *channels)
{
    if (channels->user->has_ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    if (channels->is_port) {
        set_serving(channels, true);
    }
    ++channels->open_count;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_user_channels_close(mscclpp_user_channels_t *channels)
{
    const mscclpp_user_t *user = channels->user;
    double deadline;
    mscclpp_status_t status;

    if (user->has_ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    if (channels->open_count == 0) {
        mscclpp_error("%s: rank %d: a close of channels that are not open", user->oob.label, user->oob.rank);
        return MSCCLPP_ERR_INVALID;
    }
    if (--channels->open_count > 0 || !channels->is_port) {
        return MSCCLPP_OK;
    }
    deadline = mscclpp_now() + (user->config.timeout > 0 ? user->config.timeout : CLOSE_SECONDS);
    while ((status = mscclpp_proxy_drain(channels->ports->proxy)) == MSCCLPP_IN_PROGRESS && mscclpp_now() < deadline) {
        user->oob.progress(user->oob.context);
    }
    /*
     * Between nodes the proxy continues to serve until the channels are freed, because peers may still need this rank's
     * progress to deliver their puts.
     */
    if (user->node_of == NULL) {
        set_serving(channels, false);
    }
    if (status == MSCCLPP_IN_PROGRESS) {
        mscclpp_error("%s: rank %d: what kernels have pushed to port channels was not carried out in time",
                      user->oob.label, user->oob.rank);
        status = MSCCLPP_ERR_TIMEOUT;
    }
    return status;
}
