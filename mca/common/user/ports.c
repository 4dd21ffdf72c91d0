/*
 * Port channels within a node: a transport of their own over shared memory or copy engines, and a proxy whose thread
 * runs while the channels are open.
 */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/log.h"
#include "mca/common/port/proxy.h"
#include "mca/common/user/internal.h"

/* Seconds that the last close gives the proxy, if calls have no deadline. */
#define CLOSE_TIME 60.0

/* What a rank tells of itself. Its addresses follow, one for each rank. */
typedef struct {
    uint64_t key_length; /* 0: no memory to put into */
    unsigned char key[MSCCLPP_TRANSPORT_KEY_MAX];
} card_t;

typedef struct {
    uint64_t length;
    unsigned char bytes[MSCCLPP_TRANSPORT_ADDRESS_MAX];
} address_t;

typedef struct {
    mscclpp_conn_t *conn;
    mscclpp_remote_t *remote;
} link_t;

/* What one trigger of a channel makes the proxy do. */
typedef struct {
    mscclpp_user_channels_t *channels;
    int count;
    int next;        /* item of the trigger in hand */
    uint32_t done;   /* what has been done of it */
    int link;        /* once all items are begun: the peer's number whose connection is flushed */
    bool has_ticket; /* of that flush */
    uint64_t ticket;
    mscclpp_dev_request_t items[];
} list_t;

typedef struct {
    mscclpp_user_handler_fn_t call;
    void *context;
} handler_t;

struct mscclpp_user_ports {
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    mscclpp_region_t *region;
    mscclpp_proxy_t *proxy;
    uint64_t *tokens; /* device memory */
    link_t *links;    /* by peer number */
    mscclpp_dev_port_channel_t *views;
    list_t **lists;      /* by index; NULL: none */
    handler_t *handlers; /* by index */
};

static mscclpp_status_t no_memory(const mscclpp_user_t *user)
{
    mscclpp_error("%s: no memory for port channels", user->oob.label);
    return MSCCLPP_ERR_NO_MEMORY;
}

/* Allocates the tokens, and opens the transport that the channels use. */
static mscclpp_status_t open_transport(const mscclpp_user_t *user, mscclpp_user_ports_t *ports, size_t tokens)
{
    mscclpp_transport_params_t params;
    mscclpp_status_t status;
    uint32_t flags = 0;
    void *address;

    status = user->gpu->device_alloc(user->device, tokens * sizeof(uint64_t), &address);
    if (status != MSCCLPP_OK) {
        return status;
    }
    ports->tokens = address;
    ports->ops = mscclpp_transport_find(user->gpu->twin ? "shm" : "cuda_ipc");
    memset(&params, 0, sizeof(params));
    params.config = &user->config;
    params.gpu = user->gpu;
    params.device = user->device;
    params.rank = user->oob.rank;
    params.size = user->oob.size;
    params.one_host = true;
    params.label = user->oob.label;
    params.tokens = ports->tokens;
    params.token_count = tokens;
    return ports->ops->create(&params, &flags, &ports->transport);
}

/* Does what needs no other rank: everything up to the addresses that peers need. */
static mscclpp_status_t prepare_local(mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports, card_t *card)
{
    const mscclpp_user_t *user = channels->user;
    const mscclpp_user_share_t *memory = &channels->memory->share;
    address_t *addresses = (address_t *)(void *)(card + 1);
    size_t length = sizeof(card->key);
    mscclpp_status_t status = open_transport(user, ports, (size_t)user->oob.size * (size_t)channels->per_peer);
    int p;

    if (status == MSCCLPP_OK && memory->bytes > 0) {
        status = ports->ops->region_create(ports->transport, memory->own, memory->bytes, &ports->region);
        if (status == MSCCLPP_OK) {
            status = ports->ops->region_key(ports->region, card->key, &length);
            card->key_length = length;
        }
    }
    for (p = 0; p < channels->n && status == MSCCLPP_OK; ++p) {
        address_t *address = &addresses[channels->peers[p]];

        status = ports->ops->conn_create(ports->transport, channels->peers[p], &ports->links[p].conn);
        if (status == MSCCLPP_OK) {
            length = sizeof(address->bytes);
            status = ports->ops->conn_address(ports->links[p].conn, address->bytes, &length);
            address->length = length;
        }
    }
    return status;
}

static mscclpp_status_t make_channel(mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports, int index)
{
    const mscclpp_user_share_t *memory = &channels->memory->share;
    const int p = index / channels->per_peer, k = index % channels->per_peer, peer = channels->peers[p];
    mscclpp_port_params_t params;

    memset(&params, 0, sizeof(params));
    params.ops = ports->ops;
    params.transport = ports->transport;
    params.conn = ports->links[p].conn;
    params.region = ports->region;
    params.region_size = memory->bytes;
    params.remote = ports->links[p].remote;
    params.remote_size = memory->sizes[peer];
    params.token = mscclpp_user_token(channels, channels->user->oob.rank, k);
    params.peer = peer;
    params.inbound = &ports->tokens[mscclpp_user_token(channels, peer, k)];
    params.expected = &channels->expected[index];
    return mscclpp_proxy_channel_create(ports->proxy, &params, &ports->views[index]);
}

/* Local: connects to what the peers have told. `cards` lie `size` bytes apart. */
static mscclpp_status_t connect(mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports, const char *cards,
                                size_t size)
{
    const mscclpp_user_t *user = channels->user;
    mscclpp_proxy_params_t proxy;
    mscclpp_status_t status = MSCCLPP_OK;
    int p, index;

    for (p = 0; p < channels->n && status == MSCCLPP_OK; ++p) {
        const card_t *card = (const card_t *)(const void *)(cards + (size_t)channels->peers[p] * size);
        const address_t *address = (const address_t *)(const void *)(card + 1) + user->oob.rank;

        status = ports->ops->conn_connect(ports->links[p].conn, address->bytes, address->length);
        if (status == MSCCLPP_OK && card->key_length > 0) {
            status =
                ports->ops->remote_create(ports->links[p].conn, card->key, card->key_length, &ports->links[p].remote);
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
    for (index = 0; index < channels->n * channels->per_peer && status == MSCCLPP_OK; ++index) {
        status = make_channel(channels, ports, index);
    }
    return status;
}

static void disconnect(const mscclpp_user_channels_t *channels, mscclpp_user_ports_t *ports)
{
    int p;

    for (p = 0; p < channels->n && ports->links != NULL; ++p) {
        if (ports->links[p].remote != NULL) {
            ports->ops->remote_destroy(ports->links[p].remote);
        }
        if (ports->links[p].conn != NULL) {
            ports->ops->conn_destroy(ports->links[p].conn);
        }
    }
    if (ports->region != NULL) {
        ports->ops->region_destroy(ports->region);
    }
    if (ports->transport != NULL) {
        ports->ops->destroy(ports->transport);
    }
}

static void free_arrays(mscclpp_user_ports_t *ports)
{
    free(ports->handlers);
    free(ports->lists);
    free(ports->views);
    free(ports->links);
    free(ports);
}

static void discard(mscclpp_user_channels_t *channels, bool keep_tokens)
{
    mscclpp_user_ports_t *ports = channels->ports;
    int index;

    if (ports->tokens != NULL && !keep_tokens) {
        channels->user->gpu->device_free(channels->user->device, ports->tokens);
    }
    for (index = 0; index < channels->n * channels->per_peer && ports->lists != NULL; ++index) {
        free(ports->lists[index]);
    }
    free_arrays(ports);
    channels->ports = NULL;
}

/* Of this rank and its peers: the memory of descriptions. */
static mscclpp_user_ports_t *new_ports(const mscclpp_user_channels_t *channels)
{
    const size_t count = (size_t)channels->n * (size_t)channels->per_peer + 1;
    mscclpp_user_ports_t *ports = calloc(1, sizeof(*ports));

    if (ports == NULL) {
        return NULL;
    }
    ports->links = calloc((size_t)channels->n + 1, sizeof(*ports->links));
    ports->views = calloc(count, sizeof(*ports->views));
    ports->lists = calloc(count, sizeof(*ports->lists));
    ports->handlers = calloc(count, sizeof(*ports->handlers));
    if (ports->links == NULL || ports->views == NULL || ports->lists == NULL || ports->handlers == NULL) {
        free_arrays(ports);
        return NULL;
    }
    return ports;
}

mscclpp_status_t mscclpp_user_ports_create(mscclpp_user_channels_t *channels, mscclpp_status_t mine)
{
    const mscclpp_user_t *user = channels->user;
    const size_t ranks = (size_t)user->oob.size, size = sizeof(card_t) + ranks * sizeof(address_t);
    char *cards = malloc(ranks * size);
    card_t *card = calloc(1, size);
    mscclpp_status_t status;

    channels->ports = new_ports(channels);
    if (mine == MSCCLPP_OK && (card == NULL || channels->ports == NULL)) {
        mine = no_memory(user);
    }
    if (mine == MSCCLPP_OK) {
        mine = prepare_local(channels, channels->ports, card);
    }
    status = mscclpp_user_agree(user, mine, "port channels");
    if (status == MSCCLPP_OK) {
        status = user->oob.allgather(user->oob.context, card, cards, size);
    }
    if (status == MSCCLPP_OK) {
        status = mscclpp_user_agree(user, connect(channels, channels->ports, cards, size), "port channels");
    }
    free(cards);
    free(card);
    if (status != MSCCLPP_OK && channels->ports != NULL) {
        mscclpp_proxy_destroy(channels->ports->proxy);
        disconnect(channels, channels->ports);
        discard(channels, false);
    }
    return status;
}

mscclpp_status_t mscclpp_user_ports_free(mscclpp_user_channels_t *channels)
{
    mscclpp_status_t status;

    /* Nobody puts any more; then nobody has connections any more; then tokens may go. */
    mscclpp_proxy_destroy(channels->ports->proxy);
    status = mscclpp_user_agree(channels->user, MSCCLPP_OK, "port channels are freed");
    disconnect(channels, channels->ports);
    if (status == MSCCLPP_OK) {
        status = mscclpp_user_agree(channels->user, MSCCLPP_OK, "port channels are freed");
    }
    discard(channels, status != MSCCLPP_OK);
    return status;
}

void mscclpp_user_ports_end(mscclpp_user_channels_t *channels)
{
    mscclpp_proxy_destroy(channels->ports->proxy);
    disconnect(channels, channels->ports);
    discard(channels, true);
}

void mscclpp_user_ports_view(const mscclpp_user_channels_t *channels, int index, mscclpp_dev_port_channel_t *view)
{
    *view = channels->ports->views[index];
}

mscclpp_status_t mscclpp_user_channels_open(mscclpp_user_channels_t *channels)
{
    if (channels->user->ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    if (channels->is_port && channels->opened == 0) {
        mscclpp_proxy_begin(channels->ports->proxy);
    }
    ++channels->opened;
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_user_channels_close(mscclpp_user_channels_t *channels)
{
    const mscclpp_user_t *user = channels->user;
    double until;
    mscclpp_status_t status;

    if (user->ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    if (channels->opened == 0) {
        mscclpp_error("%s: rank %d: channels are closed that are not open", user->oob.label, user->oob.rank);
        return MSCCLPP_ERR_INVALID;
    }
    if (--channels->opened > 0 || !channels->is_port) {
        return MSCCLPP_OK;
    }
    until = mscclpp_now() + (user->config.timeout > 0 ? user->config.timeout : CLOSE_TIME);
    while ((status = mscclpp_proxy_drain(channels->ports->proxy)) == MSCCLPP_IN_PROGRESS && mscclpp_now() < until) {
        user->oob.progress(user->oob.context);
    }
    mscclpp_proxy_end(channels->ports->proxy);
    if (status == MSCCLPP_IN_PROGRESS) {
        mscclpp_error("%s: rank %d: what kernels have pushed to port channels was not carried out in time",
                      user->oob.label, user->oob.rank);
        status = MSCCLPP_ERR_TIMEOUT;
    }
    return status;
}

/* Checks that a handler or a list may be set now for this channel. */
static mscclpp_status_t check_set(const mscclpp_user_channels_t *channels, int index)
{
    const mscclpp_user_t *user = channels->user;
    const int count = channels->n * channels->per_peer;

    if (user->ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    if (!channels->is_port || channels->opened > 0) {
        mscclpp_error("%s: rank %d: a handler for %s; only port channels that are closed take one", user->oob.label,
                      user->oob.rank, channels->is_port ? "channels that are open" : "a memory channel");
        return MSCCLPP_ERR_INVALID;
    }
    if (index < 0 || index >= count) {
        mscclpp_error("%s: rank %d: a handler for channel %d; 0 to %d are allowed", user->oob.label, user->oob.rank,
                      index, count - 1);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* Has the application's handler execute a request. */
static mscclpp_status_t do_handler(void *context, const mscclpp_dev_request_t *request)
{
    const handler_t *handler = context;
    const int answer = handler->call(handler->context, request);

    return answer == 0 ? MSCCLPP_OK : answer == 1 ? MSCCLPP_IN_PROGRESS : MSCCLPP_ERR_INVALID;
}

mscclpp_status_t mscclpp_user_channels_set_handler(mscclpp_user_channels_t *channels, int index,
                                                   mscclpp_user_handler_fn_t handler, void *context)
{
    mscclpp_status_t status = check_set(channels, index);

    if (status == MSCCLPP_OK) {
        channels->ports->handlers[index] = (handler_t){handler, context};
        status = mscclpp_proxy_set_handler(channels->ports->proxy, channels->ports->views[index].number,
                                           handler != NULL ? do_handler : NULL, &channels->ports->handlers[index]);
    }
    if (status == MSCCLPP_OK) {
        free(channels->ports->lists[index]);
        channels->ports->lists[index] = NULL;
    }
    return status;
}

/* Carries out an item of a list, in the proxy's thread. */
static mscclpp_status_t do_item(list_t *list, const mscclpp_dev_request_t *item)
{
    const mscclpp_user_channels_t *channels = list->channels;
    const mscclpp_user_ports_t *ports = channels->ports;
    const int index = (int)item->channel;
    const link_t *link = &ports->links[index / channels->per_peer];
    mscclpp_status_t status = MSCCLPP_OK;

    if (item->type == MSCCLPP_TRIGGER_ADD) {
        return ports->ops->add(link->conn, link->remote, item->to, item->value);
    }
    if ((item->type & MSCCLPP_TRIGGER_DATA & ~list->done) != 0) {
        status = ports->ops->put(link->conn, link->remote, item->to, ports->region, item->from, item->size);
        list->done |= status == MSCCLPP_OK ? MSCCLPP_TRIGGER_DATA : 0;
    }
    if (status == MSCCLPP_OK && (item->type & MSCCLPP_TRIGGER_SIGNAL) != 0) {
        status = ports->ops->signal(link->conn,
                                    mscclpp_user_token(channels, channels->user->oob.rank, index % channels->per_peer));
    }
    return status;
}

/* Finds whether an item of the list goes to the peer number `p`. */
static bool uses_link(const list_t *list, int p)
{
    int i = 0;

    while (i < list->count && (int)list->items[i].channel / list->channels->per_peer != p) {
        ++i;
    }
    return i < list->count;
}

/* Flushes the connections of all items, one after the other: all of them move on meanwhile. */
static mscclpp_status_t flush_links(list_t *list)
{
    const mscclpp_user_ports_t *ports = list->channels->ports;
    mscclpp_status_t status = MSCCLPP_OK;

    while (list->link < list->channels->n && status == MSCCLPP_OK) {
        mscclpp_conn_t *conn = ports->links[list->link].conn;

        if (uses_link(list, list->link)) {
            status = list->has_ticket ? MSCCLPP_OK : ports->ops->flush(conn, &list->ticket);
            if (status == MSCCLPP_OK) {
                list->has_ticket = true;
                status = ports->ops->test(conn, list->ticket);
            }
        }
        if (status == MSCCLPP_OK) {
            list->has_ticket = false;
            ++list->link;
        }
    }
    return status;
}

/*
 * Executes the items of a list, from the one on that is next. Called again until all are done and their puts have left
 * their sources.
 */
static mscclpp_status_t do_list(void *context, const mscclpp_dev_request_t *request)
{
    list_t *list = context;
    mscclpp_status_t status = MSCCLPP_OK;

    (void)request;
    while (list->next < list->count && status == MSCCLPP_OK) {
        status = do_item(list, &list->items[list->next]);
        if (status == MSCCLPP_OK) {
            ++list->next;
            list->done = 0;
        }
    }
    if (status == MSCCLPP_OK) {
        status = flush_links(list);
    }
    if (status == MSCCLPP_OK) {
        list->next = 0;
        list->link = 0;
    }
    return status;
}

/* Checks an item of a list, as far as this rank knows what is allowed. */
static mscclpp_status_t check_item(const mscclpp_user_channels_t *channels, int number,
                                   const mscclpp_dev_request_t *item)
{
    const mscclpp_user_t *user = channels->user;
    const mscclpp_user_share_t *memory = &channels->memory->share;
    const uint32_t count = (uint32_t)(channels->n * channels->per_peer);
    const bool add = item->type == MSCCLPP_TRIGGER_ADD, data = (item->type & MSCCLPP_TRIGGER_DATA) != 0;
    const uint64_t bytes = add ? sizeof(uint64_t) : item->size;
    uint64_t there;

    if (item->channel >= count || item->type > (MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL)) {
        mscclpp_error("%s: rank %d: item %d of a list has channel %u and type %u; channels 0 to %u are allowed, and "
                      "types 0 to %d",
                      user->oob.label, user->oob.rank, number, item->channel, item->type, count - 1,
                      MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL);
        return MSCCLPP_ERR_INVALID;
    }
    there = memory->sizes[channels->peers[item->channel / (uint32_t)channels->per_peer]];
    if (((add || data) && !mscclpp_fits(item->to, bytes, there)) ||
        (data && !mscclpp_fits(item->from, bytes, memory->bytes)) || (add && item->to % sizeof(uint64_t) != 0)) {
        mscclpp_error("%s: rank %d: item %d of a list: %llu bytes from offset %llu of %llu to offset %llu of %llu",
                      user->oob.label, user->oob.rank, number, (unsigned long long)bytes,
                      (unsigned long long)item->from, (unsigned long long)memory->bytes, (unsigned long long)item->to,
                      (unsigned long long)there);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_user_channels_set_list(mscclpp_user_channels_t *channels, int index, int count,
                                                const mscclpp_dev_request_t *items)
{
    mscclpp_status_t status = check_set(channels, index);
    list_t *list = NULL;
    int i;

    if (status == MSCCLPP_OK && count < 0) {
        mscclpp_error("%s: a list of %d items", channels->user->oob.label, count);
        status = MSCCLPP_ERR_INVALID;
    }
    for (i = 0; i < count && status == MSCCLPP_OK; ++i) {
        status = check_item(channels, i, &items[i]);
    }
    if (status != MSCCLPP_OK) {
        return status;
    }
    if (count > 0) {
        list = malloc(sizeof(*list) + (size_t)count * sizeof(*items));
        if (list == NULL) {
            return no_memory(channels->user);
        }
        memset(list, 0, sizeof(*list));
        list->channels = channels;
        list->count = count;
        memcpy(list->items, items, (size_t)count * sizeof(*items));
    }
    status = mscclpp_proxy_set_handler(channels->ports->proxy, channels->ports->views[index].number,
                                       count > 0 ? do_list : NULL, list);
    if (status != MSCCLPP_OK) {
        free(list);
        return status;
    }
    free(channels->ports->lists[index]);
    channels->ports->lists[index] = list;
    return MSCCLPP_OK;
}
