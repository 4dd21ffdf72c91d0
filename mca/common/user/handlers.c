/* What the triggers of port channels make the proxy do, where it is no put or signal: a handler, or a prepared list. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/user/ports.h"

/* What one trigger of a channel makes the proxy do. */
struct mscclpp_user_list {
    mscclpp_user_channels_t *channels;
    int count;
    int next;        /* item of the trigger in hand */
    uint32_t done;   /* what has been done of it */
    int link;        /* once all items are begun: the peer's number whose connection is flushed */
    bool has_ticket; /* of that flush */
    uint64_t ticket;
    mscclpp_dev_request_t items[];
};

void mscclpp_user_list_free(mscclpp_user_list_t *list)
{
    free(list);
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
    const mscclpp_user_on_trigger_t *handler = context;
    const int answer = handler->call(handler->context, request);

    return answer == 0 ? MSCCLPP_OK : answer == 1 ? MSCCLPP_IN_PROGRESS : MSCCLPP_ERR_INVALID;
}

mscclpp_status_t mscclpp_user_channels_set_handler(mscclpp_user_channels_t *channels, int index,
                                                   mscclpp_user_handler_fn_t handler, void *context)
{
    mscclpp_status_t status = check_set(channels, index);

    if (status == MSCCLPP_OK) {
        channels->ports->handlers[index] = (mscclpp_user_on_trigger_t){handler, context};
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
static mscclpp_status_t do_item(mscclpp_user_list_t *list, const mscclpp_dev_request_t *item)
{
    const mscclpp_user_channels_t *channels = list->channels;
    const mscclpp_user_ports_t *ports = channels->ports;
    const int index = (int)item->channel;
    const mscclpp_user_link_t *link = &ports->links[index / channels->per_peer];
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
static bool uses_link(const mscclpp_user_list_t *list, int p)
{
    int i = 0;

    while (i < list->count && (int)list->items[i].channel / list->channels->per_peer != p) {
        ++i;
    }
    return i < list->count;
}

/* Flushes the connections of all items, one after the other: all of them move on meanwhile. */
static mscclpp_status_t flush_links(mscclpp_user_list_t *list)
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
    mscclpp_user_list_t *list = context;
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
    mscclpp_user_list_t *list = NULL;
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
            mscclpp_error("%s: no memory for a list of %d items", channels->user->oob.label, count);
            return MSCCLPP_ERR_NO_MEMORY;
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
