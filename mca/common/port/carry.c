/*
 * How the proxy executes triggers: it translates the requests that kernels push to port channels into calls of a
 * transport.
 */
#include <stdlib.h>

#include "device/lib/trigger.h"
#include "mca/common/base/log.h"
#include "mca/common/port/internal.h"

/*
 * The maximum number of triggers that wait on one channel. Beyond it, the proxy takes no further triggers from the
 * FIFO, so that kernels wait, too. Nothing else can slow them down.
 */
#define JOBS_MAX 65536u

/*
 * Appends a trigger to those that wait on the channel. The list is a ring, which is replaced by one of twice the size
 * if it is full. Returns false, with nothing changed and nothing logged, if the ring would exceed JOBS_MAX entries or
 * if there is no memory. The trigger can then be added later.
 */
static bool add_waiting(mscclpp_proxy_channel_t *channel, const mscclpp_proxy_job_t *job)
{
    mscclpp_proxy_job_t *jobs;
    uint32_t capacity, i;

    if (channel->job_count == channel->job_capacity) {
        capacity = 2 * channel->job_capacity;
        jobs = capacity <= JOBS_MAX ? malloc(capacity * sizeof(*jobs)) : NULL;
        if (jobs == NULL) {
            return false;
        }
        for (i = 0; i < channel->job_count; ++i) {
            jobs[i] = channel->jobs[(channel->first_job + i) % channel->job_capacity];
        }
        free(channel->jobs);
        channel->jobs = jobs;
        channel->first_job = 0;
        channel->job_capacity = capacity;
    }
    channel->jobs[(channel->first_job + channel->job_count) % channel->job_capacity] = *job;
    ++channel->job_count;
    return true;
}

/*
 * Checks that a request stays within the regions. A put uses bytes of both regions, an add uses bytes of the peer's
 * region only, and a signal or a flush uses none. The offsets of kernels are always checked, because a wrong offset
 * could make a transport write anywhere. Also refuses requests to a channel without a transport. Returns
 * MSCCLPP_ERR_INVALID, which is logged.
 */
static mscclpp_status_t check_range(const mscclpp_proxy_t *proxy, const mscclpp_proxy_channel_t *channel,
                                    const mscclpp_dev_request_t *request)
{
    const bool is_add = request->type == MSCCLPP_TRIGGER_ADD;
    const uint64_t length = is_add ? sizeof(uint64_t) : request->size;

    if (channel->params.ops == NULL) {
        mscclpp_error("%s: port channel %u has neither a connection nor a handler for its trigger", proxy->label,
                      channel->number);
        return MSCCLPP_ERR_INVALID;
    }
    if ((is_add || (request->type & MSCCLPP_TRIGGER_DATA) != 0) &&
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

/*
 * Tells kernels how far the channel is flushed. Kernels may then overwrite the sources of all triggers before
 * `position` in the FIFO. The published position never decreases. It is stored in release order, because the host must
 * have finished reading the sources before a kernel overwrites them.
 */
static void publish_flushed(mscclpp_proxy_channel_t *channel, uint64_t position)
{
    if (position > channel->flushed_position) {
        channel->flushed_position = position;
        __atomic_store_n(channel->flushed, position, __ATOMIC_RELEASE);
    }
}

/*
 * Begins a flush of the channel's connection. When the flush ends, the trigger at `position` is published as flushed.
 * If two flushes are in progress, the new flush replaces the second one, which it includes. With MSCCLPP_IN_PROGRESS or
 * an error nothing has changed.
 */
static mscclpp_status_t begin_flush(mscclpp_proxy_channel_t *channel, uint64_t position)
{
    mscclpp_proxy_flush_t flush = {.position = position};
    mscclpp_status_t status = channel->params.ops->flush(channel->params.conn, &flush.ticket);

    if (status == MSCCLPP_OK) {
        channel->has_unflushed = false;
        channel->flush_count += channel->flush_count < 2;
        channel->flushes[channel->flush_count - 1] = flush;
    }
    return status;
}

/*
 * Publishes the flushes that have ended, in their order. Returns MSCCLPP_OK, even if some flushes are still in
 * progress, or the error of the connection. The transport has logged that error or, if the peer is lost, described it.
 */
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
 * Flushes the transfers that the transport started before the channel got a handler. A kernel's flush includes these
 * transfers, but the handler does not know about them. Returns MSCCLPP_IN_PROGRESS while they are in progress.
 */
static mscclpp_status_t flush_earlier_transfers(mscclpp_proxy_channel_t *channel)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (channel->has_unflushed && channel->flush_count == 0) {
        /*
         * With this position, the end of the flush publishes nothing new: 1 is added to the position then. If the
         * position has wrapped below 0, the addition also undoes that.
         */
        status = begin_flush(channel, channel->flushed_position - 1);
    }
    return status == MSCCLPP_OK && channel->flush_count > 0 ? MSCCLPP_IN_PROGRESS : status;
}

/*
 * Calls the function that the application has set for the channel. Returns MSCCLPP_IN_PROGRESS if the function must be
 * called again with the same trigger. An error of the handler is logged here.
 */
static mscclpp_status_t call_handler(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                     const mscclpp_proxy_job_t *job)
{
    const bool is_flush = (job->request.type & MSCCLPP_TRIGGER_FLUSH) != 0;
    mscclpp_status_t status = is_flush ? flush_earlier_transfers(channel) : MSCCLPP_OK;

    if (status != MSCCLPP_OK) {
        return status;
    }
    status = channel->handler(channel->context, &job->request);
    if (status < 0) {
        mscclpp_error("%s: the handler of port channel %u failed: %s", proxy->label, channel->number,
                      mscclpp_status_string(status));
    } else if (status == MSCCLPP_OK && is_flush) {
        publish_flushed(channel, job->position + 1);
    }
    return status;
}

/*
 * Executes the rest of a trigger, as far as the transport takes it now: the put, then the signal, then the flush.
 * Removes finished actions from the trigger's type, so that the next call does not repeat them. The flush is the last
 * action, so it need not be removed. An addition has type 0, so it is the only action of its trigger.
 *
 * With MSCCLPP_IN_PROGRESS the function must be called again with the same trigger. Returns MSCCLPP_ERR_INVALID for an
 * invalid request or an addition that the transport cannot do.
 */
static mscclpp_status_t execute_job(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                    mscclpp_proxy_job_t *job)
{
    const mscclpp_port_params_t *params = &channel->params;
    const uint32_t put_and_signal = MSCCLPP_TRIGGER_DATA | MSCCLPP_TRIGGER_SIGNAL;
    mscclpp_dev_request_t *request = &job->request;
    mscclpp_status_t status;

    if (channel->handler != NULL) {
        return call_handler(proxy, channel, job);
    }
    status = check_range(proxy, channel, request);
    if (status == MSCCLPP_OK && request->type == MSCCLPP_TRIGGER_ADD) {
        status = params->ops->add(params->conn, params->remote, request->to, request->value);
        channel->has_unflushed = channel->has_unflushed || status == MSCCLPP_OK;
        if (status == MSCCLPP_ERR_NOT_SUPPORTED) {
            mscclpp_error("%s: a kernel asked port channel %u for an addition, which transport %s cannot do at rank %d",
                          proxy->label, channel->number, params->ops->name, params->peer);
            return MSCCLPP_ERR_INVALID;
        }
        return status;
    }
    /* If the transport cannot do a put and a signal in one operation, the code below does one after the other. */
    if (status == MSCCLPP_OK && (request->type & put_and_signal) == put_and_signal && params->ops->put_signal != NULL) {
        status = params->ops->put_signal(params->conn, params->remote, request->to, params->region, request->from,
                                         request->size, params->token);
        if (status == MSCCLPP_OK) {
            channel->has_unflushed = true;
            request->type &= ~put_and_signal;
        }
        status = status == MSCCLPP_ERR_NOT_SUPPORTED ? MSCCLPP_OK : status;
    }
    if (status == MSCCLPP_OK && (request->type & MSCCLPP_TRIGGER_DATA) != 0) {
        status =
            params->ops->put(params->conn, params->remote, request->to, params->region, request->from, request->size);
        if (status == MSCCLPP_OK) {
            channel->has_unflushed = true;
            request->type &= ~(uint32_t)MSCCLPP_TRIGGER_DATA;
        }
    }
    if (status == MSCCLPP_OK && (request->type & MSCCLPP_TRIGGER_SIGNAL) != 0) {
        status = params->ops->signal(params->conn, params->token);
        if (status == MSCCLPP_OK) {
            channel->has_unflushed = true;
            request->type &= ~(uint32_t)MSCCLPP_TRIGGER_SIGNAL;
        }
    }
    if (status == MSCCLPP_OK && (request->type & MSCCLPP_TRIGGER_FLUSH) != 0) {
        status = begin_flush(channel, job->position);
    }
    return status;
}

/*
 * Executes the triggers that wait, as far as the transport takes them now, and treats unflushed transfers as `settle`
 * says. Returns MSCCLPP_OK even if work is left. A channel without a transport has no unflushed transfers and no
 * flushes, so its `ops`, which is NULL, is not used.
 */
static mscclpp_status_t execute_waiting(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                        mscclpp_proxy_settle_t settle)
{
    const bool may_flush =
        settle == MSCCLPP_PROXY_DELIVER ||
        (settle == MSCCLPP_PROXY_HAND_OVER && channel->has_unflushed && channel->params.ops->has_left == NULL);
    mscclpp_status_t status = MSCCLPP_OK;
    bool has_caught_up;

    while (channel->job_count > 0) {
        status = execute_job(proxy, channel, &channel->jobs[channel->first_job]);
        if (status != MSCCLPP_OK) {
            break;
        }
        channel->first_job = (channel->first_job + 1) % channel->job_capacity;
        --channel->job_count;
    }
    has_caught_up = status >= 0 && channel->job_count == 0 && channel->flush_count == 0;
    if (has_caught_up && may_flush && channel->has_unflushed) {
        /* No kernel asked for this flush and none waits for it, so the published position does not change. */
        status = begin_flush(channel, channel->flushed_position - 1);
    }
    return status < 0 ? status : test_flushes(channel);
}

/* Returns true if the channel has triggers that wait, flushes in progress, or transfers that are not flushed. */
static bool has_work_left(const mscclpp_proxy_channel_t *channel)
{
    return channel->job_count > 0 || channel->flush_count > 0 || channel->has_unflushed;
}

/*
 * Carries out a trigger, or lets it wait on its channel. A trigger that was pushed for a destroyed channel is ignored.
 * The check for that comes first, because a new channel may already have the same number.
 *
 * Returns MSCCLPP_OK if the trigger can be removed from the FIFO. Returns MSCCLPP_IN_PROGRESS if it must stay there
 * because no further trigger can wait on its channel.
 */
static mscclpp_status_t take_trigger(mscclpp_proxy_t *proxy, const mscclpp_dev_trigger_t *trigger)
{
    mscclpp_proxy_job_t job = {.request = mscclpp_dev_trigger_unpack(trigger),
                               .position = mscclpp_fifo_position(proxy->fifo)};
    mscclpp_proxy_channel_t *channel = mscclpp_proxy_find(proxy, job.request.channel);
    mscclpp_status_t status = MSCCLPP_OK;

    if (job.request.channel < proxy->table_size && job.position < proxy->discard_before[job.request.channel]) {
        /* The trigger was pushed for an earlier channel with this number, which has been destroyed. */
        return MSCCLPP_OK;
    }
    if (channel == NULL) {
        mscclpp_error("%s: a kernel used port channel %u, which does not exist", proxy->label, job.request.channel);
        return MSCCLPP_ERR_INVALID;
    }
    if (channel->job_count > 0) {
        return add_waiting(channel, &job) ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
    }
    status = execute_job(proxy, channel, &job);
    if (status == MSCCLPP_IN_PROGRESS) {
        (void)add_waiting(channel, &job); /* cannot fail, because the list is empty */
        status = MSCCLPP_OK;
    }
    if (status == MSCCLPP_OK) {
        status = test_flushes(channel);
    }
    if (has_work_left(channel)) {
        mscclpp_proxy_mark_busy(proxy, channel);
    }
    return status;
}

/*
 * Triggers that wait come before new ones, which would have to wait behind them on the same channel. A trigger that can
 * neither be executed nor wait ends the round, and stays in the FIFO.
 */
mscclpp_status_t mscclpp_proxy_carry(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle)
{
    const uint64_t slots = mscclpp_fifo_device(proxy->fifo)->size;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_dev_trigger_t trigger;
    uint64_t taken_count;
    uint32_t i;

    for (i = 0; i < proxy->transport_count; ++i) {
        status = proxy->transports[i].ops->progress(proxy->transports[i].transport);
        if (status < 0) {
            return status;
        }
    }
    /*
     * The loop runs backwards, because a channel that leaves the list is replaced by the last entry, which has been
     * visited already.
     */
    for (i = proxy->busy_count; i-- > 0;) {
        mscclpp_proxy_channel_t *channel = proxy->busy[i];

        status = execute_waiting(proxy, channel, settle);
        if (status < 0) {
            return status;
        }
        if (!has_work_left(channel)) {
            mscclpp_proxy_mark_idle(proxy, channel);
        }
    }
    /* Takes at most as many triggers as the FIFO has slots, so that other threads get the lock after a limited time. */
    for (taken_count = 0; taken_count < slots && mscclpp_fifo_poll(proxy->fifo, &trigger); ++taken_count) {
        status = take_trigger(proxy, &trigger);
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

/*
 * A transport without `has_left` cannot tell; its transfers count as handed over when a flush that includes them has
 * ended.
 */
bool mscclpp_proxy_has_left(const mscclpp_proxy_t *proxy)
{
    mscclpp_dev_trigger_t trigger;
    bool has_left = !mscclpp_fifo_poll(proxy->fifo, &trigger);
    uint32_t i;

    for (i = 0; i < proxy->busy_count && has_left; ++i) {
        const mscclpp_proxy_channel_t *channel = proxy->busy[i];
        const mscclpp_transport_ops_t *ops = channel->params.ops;

        has_left = channel->job_count == 0 && channel->flush_count == 0 &&
                   (!channel->has_unflushed || (ops->has_left != NULL && ops->has_left(channel->params.conn)));
    }
    return has_left;
}
