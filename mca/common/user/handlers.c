/* The handlers and prepared lists of port channels, which replace the puts and signals that triggers normally cause. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/ports.h"

/* A list that the proxy executes for each trigger of a channel, and its progress. */
struct mscclpp_user_list {
    mscclpp_user_channels_t *channels;
    int count;
    int next_item;       /* the item that the current trigger executes next; `count`: all items have begun */
    uint32_t done_parts; /* parts of this item that are done: MSCCLPP_TRIGGER_DATA or nothing */
    int flushed_peer;    /* once all items have begun: the number of the peer whose connection is being flushed */
    bool has_ticket;     /* `ticket` is valid */
    uint64_t ticket;     /* the transport's number of this flush */
    mscclpp_dev_request_t items[];
};

void mscclpp_user_list_free(mscclpp_user_list_t *list)
{
    free(list);
}

/*
 * Checks that the application may set a handler for this channel. MSCCLPP_ERR_REVOKED, after the end of the team, is
 * not logged.
 */
static mscclpp_status_t check_may_set(const mscclpp_user_channels_t *channels, int index)
{
    const mscclpp_user_t *user = channels->user;
    const int count = channels->peer_count * channels->per_peer;

    if (user->has_ended) {
        return MSCCLPP_ERR_REVOKED;
    }
    if (!channels->is_port || channels->open_count > 0) {
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

/*
 * Translates the result of the application's handler: 0 becomes MSCCLPP_OK, 1 MSCCLPP_IN_PROGRESS, and every other
 * result MSCCLPP_ERR_INVALID. After an error the proxy fails, and so do all channels of the object. The proxy holds its
 * lock during the call.
 */
static mscclpp_status_t call_handler(void *context, const mscclpp_dev_request_t *request)
{
    const mscclpp_user_on_trigger_t *handler = context;
    const int answer = handler->call(handler->context, request);

    return answer == 0 ? MSCCLPP_OK : answer == 1 ? MSCCLPP_IN_PROGRESS : MSCCLPP_ERR_INVALID;
}

/*
 * The channels are closed, so the proxy does not call the old handler during the change. An old list is freed only
 * after the proxy has stopped using it.
 */
mscclpp_status_t mscclpp_user_channels_set_handler(mscclpp_user_channels_t *channels, int index,
                                                   mscclpp_user_handler_fn_t handler, void *context)
{
    mscclpp_status_t status = check_may_set(channels, index);

    if (status == MSCCLPP_OK) {
        channels->ports->handlers[index] = (mscclpp_user_on_trigger_t){.call = handler, .context = context};
        status = mscclpp_proxy_set_handler(channels->ports->proxy, channels->ports->views[index].number,
                                           handler != NULL ? call_handler : NULL, &channels->ports->handlers[index]);
    }
    if (status == MSCCLPP_OK) {
        free(channels->ports->lists[index]);
        channels->ports->lists[index] = NULL;
    }
    return status;
}

/*
 * Carries out one item of the list. The put comes before the signal, so that a rank that sees the signal also sees the
 * data. The data of a put may still be in progress afterwards. After MSCCLPP_IN_PROGRESS the caller calls again with
 * the same item, and `done_parts` prevents a second put. check_item has checked the item. The proxy holds its lock
 * during the call.
 */
static mscclpp_status_t carry_out_item(mscclpp_user_list_t *list, const mscclpp_dev_request_t *item)
{
    const mscclpp_user_channels_t *channels = list->channels;
    const mscclpp_user_ports_t *ports = channels->ports;
    const int index = (int)item->channel;
    const mscclpp_user_link_t *link = &ports->links[index / channels->per_peer];
    mscclpp_status_t status = MSCCLPP_OK;

    if (item->type == MSCCLPP_TRIGGER_ADD) {
        return ports->ops->add(link->conn, link->remote, item->to, item->value);
    }
    if ((item->type & MSCCLPP_TRIGGER_DATA & ~list->done_parts) != 0) {
        status = ports->ops->put(link->conn, link->remote, item->to, ports->region, item->from, item->size);
        list->done_parts |= status == MSCCLPP_OK ? MSCCLPP_TRIGGER_DATA : 0;
    }
    if (status == MSCCLPP_OK && (item->type & MSCCLPP_TRIGGER_SIGNAL) != 0) {
        status = ports->ops->signal(link->conn,
                                    mscclpp_user_token(channels, channels->user->oob.rank, index % channels->per_peer));
    }
    return status;
}

/* Returns true if an item of the list uses the connection to this peer. */
static bool uses_link(const mscclpp_user_list_t *list, int peer_index)
{
    int i = 0;

    while (i < list->count && (int)list->items[i].channel / list->channels->per_peer != peer_index) {
        ++i;
    }
    return i < list->count;
}

/*
 * Flushes the connections that the items of the list use. The connections are flushed one after the other. Each is
 * flushed once: after that, later calls only test the ticket of the flush. After MSCCLPP_IN_PROGRESS, the next call
 * continues at the same connection. Any other error ends the proxy, so the list is then not reset.
 */
static mscclpp_status_t flush_links(mscclpp_user_list_t *list)
{
    const mscclpp_user_ports_t *ports = list->channels->ports;
    mscclpp_status_t status = MSCCLPP_OK;

    while (list->flushed_peer < list->channels->peer_count && status == MSCCLPP_OK) {
        mscclpp_conn_t *conn = ports->links[list->flushed_peer].conn;

        if (uses_link(list, list->flushed_peer)) {
            status = list->has_ticket ? MSCCLPP_OK : ports->ops->flush(conn, &list->ticket);
            if (status == MSCCLPP_OK) {
                list->has_ticket = true;
                status = ports->ops->test(conn, list->ticket);
            }
        }
        if (status == MSCCLPP_OK) {
            list->has_ticket = false;
            ++list->flushed_peer;
        }
    }
    return status;
}

/*
 * Carries out all items of a list. The contents of the trigger are ignored. Returns MSCCLPP_IN_PROGRESS until all items
 * are done and their puts have left their sources. The proxy then calls again, and the list continues at the same item.
 * Any other error ends the proxy.
 */
static mscclpp_status_t carry_out_list(void *context, const mscclpp_dev_request_t *request)
{
    mscclpp_user_list_t *list = context;
    mscclpp_status_t status = MSCCLPP_OK;

    (void)request;
    while (list->next_item < list->count && status == MSCCLPP_OK) {
        status = carry_out_item(list, &list->items[list->next_item]);
        if (status == MSCCLPP_OK) {
            ++list->next_item;
            list->done_parts = 0;
        }
    }
    if (status == MSCCLPP_OK) {
        status = flush_links(list);
    }
    if (status == MSCCLPP_OK) {
        list->next_item = 0;
        list->flushed_peer = 0;
    }
    return status;
}

/*
 * Checks the arguments of an item. The proxy executes the item without further checks. `number` is the item's position
 * in the list, for messages.
 */
static mscclpp_status_t check_item(const mscclpp_user_channels_t *channels, int number,
                                   const mscclpp_dev_request_t *item)
{
    const mscclpp_user_t *user = channels->user;
    const mscclpp_user_share_t *share = &channels->memory->share;
    const uint32_t count = (uint32_t)(channels->peer_count * channels->per_peer);
    const bool is_add = item->type == MSCCLPP_TRIGGER_ADD, has_data = (item->type & MSCCLPP_TRIGGER_DATA) != 0;
    const uint64_t bytes = is_add ? sizeof(uint64_t) : item->size;
    uint64_t peer_bytes;
    bool to_fits, from_fits;

    if (item->channel >= count || item->type > (MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL)) {
        mscclpp_error("%s: rank %d: item %d of a list has channel %u and type %u; channels 0 to %u are allowed, and "
                      "types 0 to %d",
                      user->oob.label, user->oob.rank, number, item->channel, item->type, count - 1,
                      MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL);
        return MSCCLPP_ERR_INVALID;
    }
    peer_bytes = share->sizes[channels->peers[item->channel / (uint32_t)channels->per_peer]];
    to_fits = (!is_add && !has_data) || mscclpp_fits(item->to, bytes, peer_bytes);
    from_fits = !has_data || mscclpp_fits(item->from, bytes, share->bytes);
    if (!to_fits || !from_fits || (is_add && item->to % sizeof(uint64_t) != 0)) {
        mscclpp_error("%s: rank %d: item %d of a list: %llu bytes do not fit: from offset %llu of %llu bytes to offset "
                      "%llu of %llu bytes; the word of an ADD must be aligned to 8 bytes",
                      user->oob.label, user->oob.rank, number, (unsigned long long)bytes,
                      (unsigned long long)item->from, (unsigned long long)share->bytes, (unsigned long long)item->to,
                      (unsigned long long)peer_bytes);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* Checks all items first, so that an invalid one changes nothing. */
mscclpp_status_t mscclpp_user_channels_set_list(mscclpp_user_channels_t *channels, int index, int count,
                                                const mscclpp_dev_request_t *items)
{
    mscclpp_status_t status = check_may_set(channels, index);
    mscclpp_user_list_t *list = NULL;
    int i;

    if (status == MSCCLPP_OK && count < 0) {
        mscclpp_error("%s: a list of %d items; 0 or more are allowed", channels->user->oob.label, count);
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
            mscclpp_error("%s: no memory for a list of %d items", channels->user->oob.label, count);
            return MSCCLPP_ERR_NO_MEMORY;
        }
        memset(list, 0, sizeof(*list));
        list->channels = channels;
        list->count = count;
        memcpy(list->items, items, (size_t)count * sizeof(*items));
    }
    status = mscclpp_proxy_set_handler(channels->ports->proxy, channels->ports->views[index].number,
                                       count > 0 ? carry_out_list : NULL, list);
    if (status != MSCCLPP_OK) {
        free(list);
        return status;
    }
    /* The channels are closed, and the handler was replaced under the proxy's lock, so nothing uses the old list. */
    free(channels->ports->lists[index]);
    channels->ports->lists[index] = list;
    return MSCCLPP_OK;
}
