/* How the proxy carries triggers out. */
#include <stdlib.h>

#include "device/lib/trigger.h"
#include "mca/common/base/log.h"
#include "mca/common/port/internal.h"

/*
 * The most triggers that wait on one channel. A channel with more blocks the whole FIFO and so the kernels: nothing
 * else can slow them down.
 */
#define JOBS_MAX 65536u

/* False if it does not fit. */
static bool keep(mscclpp_proxy_channel_t *channel, const mscclpp_proxy_job_t *job)
{
    mscclpp_proxy_job_t *jobs;
    uint32_t capacity, i;

    if (channel->count == channel->capacity) {
        capacity = 2 * channel->capacity;
        jobs = capacity <= JOBS_MAX ? malloc(capacity * sizeof(*jobs)) : NULL;
        if (jobs == NULL) {
            return false;
        }
        for (i = 0; i < channel->count; ++i) {
            jobs[i] = channel->jobs[(channel->first + i) % channel->capacity];
        }
        free(channel->jobs);
        channel->jobs = jobs;
        channel->first = 0;
        channel->capacity = capacity;
    }
    channel->jobs[(channel->first + channel->count) % channel->capacity] = *job;
    ++channel->count;
    return true;
}

/* Kernels are not trusted with offsets: a bad one could make a transport write anywhere. */
static mscclpp_status_t check_range(const mscclpp_proxy_t *proxy, const mscclpp_proxy_channel_t *channel,
                                    const mscclpp_dev_request_t *request)
{
    const bool add = request->type == MSCCLPP_TRIGGER_ADD;
    const uint64_t length = add ? sizeof(uint64_t) : request->size;

    if (channel->params.ops == NULL) {
        mscclpp_error("%s: port channel %u has neither a connection nor a handler for its trigger", proxy->label,
                      channel->number);
        return MSCCLPP_ERR_INVALID;
    }
    if ((add || (request->type & MSCCLPP_TRIGGER_DATA) != 0) &&
        !mscclpp_fits(request->to, length, channel->params.remote_size)) {
        mscclpp_error("%s: a kernel asked port channel %u for %llu bytes at offset %llu of rank %d's region, which "
                      "has %llu",
                      proxy->label, channel->number, (unsigned long long)length, (unsigned long long)request->to,
                      channel->params.peer, (unsigned long long)channel->params.remote_size);
        return MSCCLPP_ERR_INVALID;
    }
    if ((request->type & MSCCLPP_TRIGGER_DATA) != 0 &&
        !mscclpp_fits(request->from, length, channel->params.region_size)) {
        mscclpp_error("%s: a kernel asked port channel %u for %llu bytes from offset %llu of its own region, which has "
                      "%llu",
                      proxy->label, channel->number, (unsigned long long)length, (unsigned long long)request->from,
                      (unsigned long long)channel->params.region_size);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

/* Release order: the host has finished reading the sources before a kernel writes them again. */
static void publish_flushed(mscclpp_proxy_channel_t *channel, uint64_t done)
{
    if (done > channel->done) {
        channel->done = done;
        __atomic_store_n(channel->flushed, done, __ATOMIC_RELEASE);
    }
}

static mscclpp_status_t begin_flush(mscclpp_proxy_channel_t *channel, uint64_t position)
{
    mscclpp_proxy_flush_t flush = {0, position};
    mscclpp_status_t status = channel->params.ops->flush(channel->params.conn, &flush.ticket);

    if (status == MSCCLPP_OK) {
        channel->dirty = false;
        channel->flush_count += channel->flush_count < 2;
        channel->flushes[channel->flush_count - 1] = flush;
    }
    return status;
}

static mscclpp_status_t test_flushes(mscclpp_proxy_channel_t *channel)
{
    while (channel->flush_count > 0) {
        mscclpp_status_t status = channel->params.ops->test(channel->params.conn, channel->flushes[0].ticket);

        if (status != MSCCLPP_OK) {
            return status == MSCCLPP_IN_PROGRESS ? MSCCLPP_OK : status;
        }
        publish_flushed(channel, channel->flushes[0].position + 1);
        channel->flushes[0] = channel->flushes[1];
        --channel->flush_count;
    }
    return MSCCLPP_OK;
}

/*
 * A flush by a handler covers everything before it. So transfers that the transport was given before the handler was
 * set must leave their sources first.
 */
static mscclpp_status_t end_transfers(mscclpp_proxy_channel_t *channel)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (channel->dirty && channel->flush_count == 0) {
        status = begin_flush(channel, channel->done - 1);
    }
    return status == MSCCLPP_OK && channel->flush_count > 0 ? MSCCLPP_IN_PROGRESS : status;
}

static mscclpp_status_t call_handler(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                     const mscclpp_proxy_job_t *job)
{
    const bool flush = (job->request.type & MSCCLPP_TRIGGER_FLUSH) != 0;
    mscclpp_status_t status = flush ? end_transfers(channel) : MSCCLPP_OK;

    if (status != MSCCLPP_OK) {
        return status;
    }
    status = channel->handler(channel->context, &job->request);
    if (status < 0) {
        mscclpp_error("%s: the handler of port channel %u failed: %s", proxy->label, channel->number,
                      mscclpp_status_string(status));
    } else if (status == MSCCLPP_OK && flush) {
        publish_flushed(channel, job->position + 1);
    }
    return status;
}

/*
 * Carries out the rest of a job, and removes finished parts from its type. MSCCLPP_OK once all is done, or
 * MSCCLPP_IN_PROGRESS.
 */
static mscclpp_status_t carry_job(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                  mscclpp_proxy_job_t *job)
{
    const mscclpp_port_params_t *params = &channel->params;
    const uint32_t both = MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL;
    mscclpp_dev_request_t *request = &job->request;
    mscclpp_status_t status;

    if (channel->handler != NULL) {
        return call_handler(proxy, channel, job);
    }
    status = check_range(proxy, channel, request);
    if (status == MSCCLPP_OK && request->type == MSCCLPP_TRIGGER_ADD) {
        status = params->ops->add(params->conn, params->remote, request->to, request->value);
        channel->dirty = channel->dirty || status == MSCCLPP_OK;
        if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
            mscclpp_error("%s: a kernel asked port channel %u for an addition, which transport %s cannot do at rank %d",
                          proxy->label, channel->number, params->ops->name, params->peer);
            return MSCCLPP_ERR_INVALID;
        }
        return status;
    }
    if (status == MSCCLPP_OK && (request->type & both) == both && params->ops->put_signal != NULL) {
        status = params->ops->put_signal(params->conn, params->remote, request->to, params->region, request->from,
                                         request->size, params->token);
        if (status == MSCCLPP_OK) {
            channel->dirty = true;
            request->type &= ~both;
        }
        status = status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_OK : status;
    }
    if (status == MSCCLPP_OK && (request->type & MSCCLPP_TRIGGER_DATA) != 0) {
        status =
            params->ops->put(params->conn, params->remote, request->to, params->region, request->from, request->size);
        if (status == MSCCLPP_OK) {
            channel->dirty = true;
            request->type &= ~(uint32_t)MSCCLPP_TRIGGER_DATA;
        }
    }
    if (status == MSCCLPP_OK && (request->type & MSCCLPP_TRIGGER_SIGNAL) != 0) {
        status = params->ops->signal(params->conn, params->token);
        if (status == MSCCLPP_OK) {
            channel->dirty = true;
            request->type &= ~(uint32_t)MSCCLPP_TRIGGER_SIGNAL;
        }
    }
    if (status == MSCCLPP_OK && (request->type & MSCCLPP_TRIGGER_FLUSH) != 0) {
        status = begin_flush(channel, job->position);
    }
    return status;
}

/* What waits on a channel, as far as there is room now. */
static mscclpp_status_t carry_channel(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                      mscclpp_proxy_settle_t settle)
{
    const bool flush = settle == MSCCLPP_PROXY_DELIVER ||
                       (settle == MSCCLPP_PROXY_HAND_OVER && channel->dirty && channel->params.ops->has_left == NULL);
    mscclpp_status_t status = MSCCLPP_OK;

    while (channel->count > 0) {
        status = carry_job(proxy, channel, &channel->jobs[channel->first]);
        if (status != MSCCLPP_OK) {
            break;
        }
        channel->first = (channel->first + 1) % channel->capacity;
        --channel->count;
    }
    if (status >= 0 && flush && channel->dirty && channel->count == 0 && channel->flush_count == 0) {
        /* No kernel asked for this flush and none waits for it, so the published word does not change. */
        status = begin_flush(channel, channel->done - 1);
    }
    return status < 0 ? status : test_flushes(channel);
}

static mscclpp_status_t carry_trigger(mscclpp_proxy_t *proxy, const mscclpp_dev_trigger_t *trigger)
{
    mscclpp_proxy_job_t job = {mscclpp_dev_trigger_unpack(trigger), mscclpp_fifo_position(proxy->fifo)};
    mscclpp_proxy_channel_t *channel = mscclpp_proxy_find(proxy, job.request.channel);
    mscclpp_status_t status = MSCCLPP_OK;

    if (job.request.channel < proxy->table_size && job.position < proxy->gone_before[job.request.channel]) {
        return MSCCLPP_OK;
    }
    if (channel == NULL) {
        mscclpp_error("%s: a kernel used port channel %u, which does not exist", proxy->label, job.request.channel);
        return MSCCLPP_ERR_INVALID;
    }
    if (channel->count > 0) {
        return keep(channel, &job) ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
    }
    status = carry_job(proxy, channel, &job);
    if (status == MSCCLPP_IN_PROGRESS) {
        (void)keep(channel, &job); /* an empty list has room */
        status = MSCCLPP_OK;
    }
    if (status == MSCCLPP_OK) {
        status = test_flushes(channel);
    }
    if (channel->count > 0 || channel->flush_count > 0 || channel->dirty) {
        mscclpp_proxy_remember(proxy, channel);
    }
    return status;
}

mscclpp_status_t mscclpp_proxy_carry(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle)
{
    const uint64_t most = mscclpp_fifo_device(proxy->fifo)->size;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_dev_trigger_t trigger;
    uint64_t taken;
    uint32_t i;

    for (i = 0; i < proxy->transport_count; ++i) {
        status = proxy->transports[i].ops->progress(proxy->transports[i].transport);
        if (status < 0) {
            return status;
        }
    }
    /* Goes backwards, so that channels that leave the list do not cause others to be skipped. */
    for (i = proxy->busy_count; i-- > 0;) {
        mscclpp_proxy_channel_t *channel = proxy->busy[i];

        status = carry_channel(proxy, channel, settle);
        if (status < 0) {
            return status;
        }
        if (channel->count == 0 && channel->flush_count == 0 && !channel->dirty) {
            mscclpp_proxy_forget(proxy, channel);
        }
    }
    /* At most one lap, for others want the lock. */
    for (taken = 0; taken < most && mscclpp_fifo_poll(proxy->fifo, &trigger); ++taken) {
        status = carry_trigger(proxy, &trigger);
        if (status != MSCCLPP_OK) {
            break;
        }
        mscclpp_fifo_pop(proxy->fifo);
    }
    return status < 0 ? status : MSCCLPP_OK;
}

bool mscclpp_proxy_is_settled(const mscclpp_proxy_t *proxy)
{
    mscclpp_dev_trigger_t trigger;

    return proxy->busy_count == 0 && !mscclpp_fifo_poll(proxy->fifo, &trigger);
}

bool mscclpp_proxy_has_left(const mscclpp_proxy_t *proxy)
{
    mscclpp_dev_trigger_t trigger;
    bool left = !mscclpp_fifo_poll(proxy->fifo, &trigger);
    uint32_t i;

    for (i = 0; i < proxy->busy_count && left; ++i) {
        const mscclpp_proxy_channel_t *channel = proxy->busy[i];
        const mscclpp_transport_ops_t *ops = channel->params.ops;

        left = channel->count == 0 && channel->flush_count == 0 &&
               (!channel->dirty || (ops->has_left != NULL && ops->has_left(channel->params.conn)));
    }
    return left;
}
