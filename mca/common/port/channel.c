/* Creates and destroys the port channels of a proxy, and keeps the table of them. */
#include <stdlib.h>
#include <string.h>

#include "device/lib/trigger.h"
#include "mca/common/base/log.h"
#include "mca/common/port/internal.h"

/*
 * The initial number of entries of a channel's ring of triggers, of the tables of channels, and of the list of
 * transports. Each doubles when it is full.
 */
#define INITIAL_JOBS 2
#define INITIAL_TABLE_SIZE 16
#define INITIAL_TRANSPORTS 4

/*
 * The number of words in a cache line. The `flushed` words of two channels are that far apart, so that the CPU's writes
 * to one word do not delay reads of another.
 */
#define LINE_WORDS 8

mscclpp_proxy_channel_t *mscclpp_proxy_find(const mscclpp_proxy_t *proxy, uint32_t number)
{
    return number < proxy->table_size ? proxy->channels[number] : NULL;
}

/* There is always room: the list has an entry for each channel number, and each channel is in the list at most once. */
void mscclpp_proxy_mark_busy(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel)
{
    if (!channel->is_busy) {
        channel->is_busy = true;
        proxy->busy[proxy->busy_count++] = channel;
    }
}

/* The list has no order, so the last entry replaces the removed one. */
void mscclpp_proxy_mark_idle(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel)
{
    uint32_t i = 0;

    if (!channel->is_busy) {
        return;
    }
    while (proxy->busy[i] != channel) {
        ++i;
    }
    proxy->busy[i] = proxy->busy[--proxy->busy_count];
    channel->is_busy = false;
}

/* Returns the number of pages for the flushed words of so many channels. */
static uint32_t pages_of(uint32_t channels)
{
    return (channels + MSCCLPP_PROXY_PAGE - 1) / MSCCLPP_PROXY_PAGE;
}

/*
 * Makes room for more channels. Fails if triggers cannot name more channels or if there is no memory; the tables are
 * then unchanged.
 */
static mscclpp_status_t grow_table(mscclpp_proxy_t *proxy)
{
    const uint32_t size = proxy->table_size == 0 ? INITIAL_TABLE_SIZE : 2 * proxy->table_size;
    mscclpp_proxy_channel_t **channels, **busy;
    mscclpp_proxy_page_t *pages;
    uint64_t *discard_before;
    uint32_t *free_numbers, i;

    if (size > MSCCLPP_DEV_PORT_CHANNELS) {
        mscclpp_error("%s: all %u port channels that a trigger can name are in use", proxy->label,
                      MSCCLPP_DEV_PORT_CHANNELS);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    channels = calloc(size, sizeof(*channels)); /* NOLINT(bugprone-sizeof-expression) */
    busy = calloc(size, sizeof(*busy));         /* NOLINT(bugprone-sizeof-expression) */
    discard_before = calloc(size, sizeof(*discard_before));
    free_numbers = calloc(size, sizeof(*free_numbers));
    pages = calloc(pages_of(size), sizeof(*pages));
    if (channels == NULL || busy == NULL || discard_before == NULL || free_numbers == NULL || pages == NULL) {
        mscclpp_error("%s: out of memory for %u port channels", proxy->label, size);
        free(channels);
        free(busy);
        free(discard_before);
        free(free_numbers);
        free(pages);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    for (i = 0; i < proxy->table_size; ++i) {
        channels[i] = proxy->channels[i];
        busy[i] = proxy->busy[i];
        discard_before[i] = proxy->discard_before[i];
    }
    for (i = 0; i < pages_of(proxy->table_size); ++i) {
        pages[i] = proxy->pages[i];
    }
    /*
     * The new numbers are pushed in descending order, so that the lowest one is on top of the stack. The stack is empty
     * before, because the tables grow only if no number is free.
     */
    for (i = size; i-- > proxy->table_size;) {
        free_numbers[proxy->free_count++] = i;
    }
    free(proxy->channels);
    free(proxy->busy);
    free(proxy->discard_before);
    free(proxy->free_numbers);
    free(proxy->pages);
    proxy->pages = pages;
    proxy->channels = channels;
    proxy->busy = busy;
    proxy->discard_before = discard_before;
    proxy->free_numbers = free_numbers;
    proxy->table_size = size;
    return MSCCLPP_OK;
}

/*
 * Finds the addresses of a channel's `flushed` word, for the host and for kernels. Allocates the word's page when the
 * page is first used. The page is kept until the proxy is destroyed, so kernels may read a word even after its channel
 * is gone.
 */
static mscclpp_status_t get_flushed_word(mscclpp_proxy_t *proxy, uint32_t number, uint64_t **host_p,
                                         uint64_t **device_p)
{
    mscclpp_proxy_page_t *page = &proxy->pages[number / MSCCLPP_PROXY_PAGE];
    const uint32_t word_index = number % MSCCLPP_PROXY_PAGE * LINE_WORDS;
    void *host, *device;
    mscclpp_status_t status;

    if (page->host == NULL) {
        status = proxy->gpu->host_alloc((size_t)MSCCLPP_PROXY_PAGE * LINE_WORDS * sizeof(uint64_t), &host, &device);
        if (status != MSCCLPP_OK) {
            return status;
        }
        page->host = host;
        page->device = device;
    }
    *host_p = &page->host[word_index];
    *device_p = &page->device[word_index];
    return MSCCLPP_OK;
}

/* Takes a reference to the transport. With the first reference, rounds begin to make progress on the transport. */
static mscclpp_status_t use_transport(mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params)
{
    mscclpp_proxy_transport_t *transports;
    uint32_t i, capacity;

    for (i = 0; i < proxy->transport_count; ++i) {
        if (proxy->transports[i].transport == params->transport) {
            ++proxy->transports[i].references;
            return MSCCLPP_OK;
        }
    }
    if (proxy->transport_count == proxy->transport_capacity) {
        capacity = proxy->transport_capacity == 0 ? INITIAL_TRANSPORTS : 2 * proxy->transport_capacity;
        transports = realloc(proxy->transports, capacity * sizeof(*transports));
        if (transports == NULL) {
            mscclpp_error("%s: out of memory for %u transports", proxy->label, capacity);
            return MSCCLPP_ERR_NO_MEMORY;
        }
        proxy->transports = transports;
        proxy->transport_capacity = capacity;
    }
    proxy->transports[proxy->transport_count++] =
        (mscclpp_proxy_transport_t){.ops = params->ops, .transport = params->transport, .references = 1};
    return MSCCLPP_OK;
}

/* Gives back a reference to the transport. After the last reference, rounds make no more progress on the transport. */
static void leave_transport(mscclpp_proxy_t *proxy, const mscclpp_transport_t *transport)
{
    uint32_t i = 0;

    while (proxy->transports[i].transport != transport) {
        ++i;
    }
    if (--proxy->transports[i].references == 0) {
        proxy->transports[i] = proxy->transports[--proxy->transport_count];
    }
}

/* Refuses regions with offsets that triggers cannot express. Returns MSCCLPP_ERR_INVALID, which is logged. */
static mscclpp_status_t check_params(const mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params)
{
    if (params->region_size > MSCCLPP_DEV_PORT_REGION_MAX || params->remote_size > MSCCLPP_DEV_PORT_REGION_MAX) {
        mscclpp_error("%s: regions of %llu and %llu bytes for a port channel to rank %d; at most %llu are allowed",
                      proxy->label, (unsigned long long)params->region_size, (unsigned long long)params->remote_size,
                      params->peer, (unsigned long long)MSCCLPP_DEV_PORT_REGION_MAX);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/*
 * Makes a channel under a free number. After a failure the number is still free. Tables that have grown, and a page of
 * `flushed` words that was allocated, are kept for later channels. The caller holds the lock.
 */
static mscclpp_status_t create_locked(mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params,
                                      mscclpp_dev_port_channel_t *channel_p)
{
    mscclpp_status_t status = proxy->free_count > 0 ? MSCCLPP_OK : grow_table(proxy);
    mscclpp_proxy_channel_t *channel;
    uint64_t *device_flushed;
    uint32_t number;

    if (status != MSCCLPP_OK) {
        return status;
    }
    number = proxy->free_numbers[proxy->free_count - 1];
    channel = calloc(1, sizeof(*channel));
    if (channel != NULL) {
        channel->jobs = calloc(INITIAL_JOBS, sizeof(*channel->jobs));
    }
    if (channel == NULL || channel->jobs == NULL) {
        mscclpp_error("%s: out of memory for a port channel", proxy->label);
        free(channel);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    channel->job_capacity = INITIAL_JOBS;
    channel->params = *params;
    channel->number = number;
    status = get_flushed_word(proxy, number, &channel->flushed, &device_flushed);
    if (status == MSCCLPP_OK && params->ops != NULL) {
        status = use_transport(proxy, params);
    }
    if (status != MSCCLPP_OK) {
        free(channel->jobs);
        free(channel);
        return status;
    }
    /*
     * The word may hold a position of an earlier channel with this number. Positions never decrease, so the new channel
     * continues from there.
     */
    channel->flushed_position = *channel->flushed;
    --proxy->free_count;
    proxy->channels[number] = channel;

    memset(channel_p, 0, sizeof(*channel_p));
    channel_p->fifo = *mscclpp_fifo_device(proxy->fifo);
    channel_p->flushed = device_flushed;
    channel_p->inbound = params->inbound;
    channel_p->expected = params->expected;
    channel_p->number = number;
    channel_p->peer = (uint32_t)params->peer;
    return MSCCLPP_OK;
}

/* After an error *channel_p is unchanged. */
mscclpp_status_t mscclpp_proxy_channel_create(mscclpp_proxy_t *proxy, const mscclpp_port_params_t *params,
                                              mscclpp_dev_port_channel_t *channel_p)
{
    mscclpp_status_t status = check_params(proxy, params);

    if (status == MSCCLPP_OK) {
        mscclpp_proxy_lock(proxy);
        status = create_locked(proxy, params, channel_p);
        mscclpp_proxy_unlock(proxy);
    }
    return status;
}

/*
 * Makes the proxy discard the triggers in the FIFO of a channel that is being destroyed. They must not reach the next
 * channel with the same number, but they cannot be removed from the middle of the FIFO. So the position after the last
 * of them is stored: all triggers before it that have this number are discarded when their turn comes. The caller holds
 * the lock.
 */
static void discard_triggers(mscclpp_proxy_t *proxy, uint32_t number)
{
    const uint64_t next_position = mscclpp_fifo_position(proxy->fifo);
    const uint64_t size = mscclpp_fifo_device(proxy->fifo)->size;
    mscclpp_dev_trigger_t trigger;
    uint64_t i;

    for (i = 0; i < size; ++i) {
        if (mscclpp_fifo_peek(proxy->fifo, next_position + i, &trigger) &&
            mscclpp_dev_trigger_unpack(&trigger).channel == number) {
            proxy->discard_before[number] = next_position + i + 1;
        }
    }
}

/*
 * Frees the channel and its number. The triggers that wait on the channel are dropped. The caller holds the lock, or
 * destroys the proxy.
 */
static void destroy_channel(mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel)
{
    mscclpp_proxy_mark_idle(proxy, channel);
    if (channel->params.ops != NULL) {
        leave_transport(proxy, channel->params.transport);
    }
    proxy->channels[channel->number] = NULL;
    proxy->free_numbers[proxy->free_count++] = channel->number;
    free(channel->jobs);
    free(channel);
}

/*
 * Triggers that wait on the channel are dropped now, and its triggers in the FIFO are discarded when their turn comes.
 */
void mscclpp_proxy_channel_destroy(mscclpp_proxy_t *proxy, uint32_t number)
{
    mscclpp_proxy_channel_t *channel;

    mscclpp_proxy_lock(proxy);
    channel = mscclpp_proxy_find(proxy, number);
    if (channel != NULL) {
        discard_triggers(proxy, number);
        destroy_channel(proxy, channel);
    }
    mscclpp_proxy_unlock(proxy);
    if (channel == NULL) {
        mscclpp_warn("%s: port channel %u does not exist and is not destroyed", proxy->label, number);
    }
}

/* No trigger of these channels waits, so none is carried out half with the old memory. */
void mscclpp_proxy_replace_memory(mscclpp_proxy_t *proxy, const mscclpp_conn_t *conn, mscclpp_region_t *region,
                                  mscclpp_remote_t *remote, uint64_t size)
{
    uint32_t i;

    mscclpp_proxy_lock(proxy);
    for (i = 0; i < proxy->table_size; ++i) {
        mscclpp_proxy_channel_t *channel = proxy->channels[i];

        if (channel != NULL && channel->params.ops != NULL && channel->params.conn == conn) {
            channel->params.region = region;
            channel->params.region_size = size;
            channel->params.remote = remote;
            channel->params.remote_size = size;
        }
    }
    mscclpp_proxy_unlock(proxy);
}

mscclpp_status_t mscclpp_proxy_set_handler(mscclpp_proxy_t *proxy, uint32_t number, mscclpp_proxy_handler_fn_t handler,
                                           void *context)
{
    mscclpp_proxy_channel_t *channel;

    mscclpp_proxy_lock(proxy);
    channel = mscclpp_proxy_find(proxy, number);
    if (channel != NULL) {
        channel->handler = handler;
        channel->context = context;
    }
    mscclpp_proxy_unlock(proxy);
    if (channel == NULL) {
        mscclpp_error("%s: a handler for port channel %u, which does not exist", proxy->label, number);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* The channels come first, because destroying a channel uses the tables. */
void mscclpp_proxy_free_channels(mscclpp_proxy_t *proxy)
{
    uint32_t i;

    for (i = 0; i < proxy->table_size; ++i) {
        if (proxy->channels[i] != NULL) {
            destroy_channel(proxy, proxy->channels[i]);
        }
    }
    for (i = 0; i < pages_of(proxy->table_size); ++i) {
        if (proxy->pages[i].host != NULL) {
            proxy->gpu->host_free(proxy->pages[i].host);
        }
    }
    free(proxy->channels);
    free(proxy->busy);
    free(proxy->discard_before);
    free(proxy->free_numbers);
    free(proxy->pages);
    free(proxy->transports);
}
