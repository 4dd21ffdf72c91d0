/* How the proxy carries out triggers: what kernels ask of port channels becomes calls of a transport. */
#include <stdlib.h>

#include "device/lib/trigger.h"
#include "mca/common/base/log.h"
#include "mca/common/port/internal.h"

/*
 * The most triggers that wait on one channel. With more, the proxy stops taking triggers from the FIFO, so that kernels
 * wait, too: nothing else can slow them down.
 */
#define JOBS_MAX 65536u

/*
 * Adds a trigger to those that wait on the channel, in a ring of twice the size if there is no room. False, with
 * nothing changed, if JOBS_MAX would be exceeded, or if there is no memory.
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
 * Checks what a kernel asked for: the channel must have a connection, and the bytes must lie within the regions. A put
 * has bytes in both regions, an add only in the peer's, and a signal or a flush in none. Kernels are not trusted with
 * offsets, since a wrong one could make a transport write anywhere. MSCCLPP_ERR_INVALID, logged, if something is wrong.
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
 * Tells kernels that everything before `position` in the FIFO has left its sources. Never takes that back. Release
 * order, because the host must have finished reading the sources before a kernel overwrites them.
 */
static void publish_flushed(mscclpp_proxy_channel_t *channel, uint64_t position)
{
    if (position > channel->flushed_position) {
        channel->flushed_position = position;
        __atomic_store_n(channel->flushed, position, __ATOMIC_RELEASE);
    }
}

/*
 * Begins a flush, whose end will be published as that of the trigger at `position`. With two flushes under way, it
 * takes the place of the second. Fails as the transport's flush does, and changes nothing then.
 */
static mscclpp_status_t begin_flush(mscclpp_proxy_channel_t *channel, uint64_t position)
{
    mscclpp_proxy_flush_t flush = {0, position};
    mscclpp_status_t status = channel->params.ops->flush(channel->params.conn, &flush.ticket);

    if (status == MSCCLPP_OK) {
        channel->has_unflushed = false;
        channel->flush_count += channel->flush_count < 2;
        channel->flushes[channel->flush_count - 1] = flush;
    }
    return status;
}

/*
 * Tells kernels of the flushes that have ended. Returns MSCCLPP_OK, even if some are under way, or the error of the
 * connection.
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
 * Flushes the transfers that the transport was given before the channel got a handler: a kernel's flush covers them,
 * too, and the handler knows nothing of them. MSCCLPP_IN_PROGRESS while they are under way.
 */
static mscclpp_status_t end_transfers(mscclpp_proxy_channel_t *channel)
{
    mscclpp_status_t status = MSCCLPP_OK;

    if (channel->has_unflushed && channel->flush_count == 0) {
        /*
         * The position makes the end of this flush publish nothing new: 1 is added to it then, which also undoes the
         * wrap at 0.
         */
        status = begin_flush(channel, channel->flushed_position - 1);
    }
    return status == MSCCLPP_OK && channel->flush_count > 0 ? MSCCLPP_IN_PROGRESS : status;
}

/*
 * Lets the channel's handler carry out a trigger, and tells kernels of the end of a flush. Logs the handler's failure.
 * MSCCLPP_IN_PROGRESS: call it again with the same trigger.
 */
static mscclpp_status_t call_handler(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                     const mscclpp_proxy_job_t *job)
{
    const bool is_flush = (job->request.type & MSCCLPP_TRIGGER_FLUSH) != 0;
    mscclpp_status_t status = is_flush ? end_transfers(channel) : MSCCLPP_OK;

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
 * Carries out what is left of a trigger, as far as the transport takes it now: the put, then the signal, then the
 * flush. Removes finished actions from the trigger's type, so that the next call does not repeat them; the flush, as
 * the last one, need not be removed. An addition is type 0, so it is alone in its trigger. MSCCLPP_OK once all are
 * done, MSCCLPP_IN_PROGRESS if it has to be called again, or an error.
 */
static mscclpp_status_t carry_job(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
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
    /* A transport that cannot do both at once is asked for one after the other below. */
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
 * Carries out the triggers that wait on a channel, as far as the transport takes them now, and does for its unflushed
 * transfers what `settle` says. Returns MSCCLPP_OK, even if work is left, or an error. A channel without a transport
 * has no unflushed transfers and no flushes, so its `ops`, which is NULL, is not used.
 */
static mscclpp_status_t carry_channel(const mscclpp_proxy_t *proxy, mscclpp_proxy_channel_t *channel,
                                      mscclpp_proxy_settle_t settle)
{
    const bool may_flush =
        settle == MSCCLPP_PROXY_DELIVER ||
        (settle == MSCCLPP_PROXY_HAND_OVER && channel->has_unflushed && channel->params.ops->has_left == NULL);
    mscclpp_status_t status = MSCCLPP_OK;

    while (channel->job_count > 0) {
        status = carry_job(proxy, channel, &channel->jobs[channel->first_job]);
        if (status != MSCCLPP_OK) {
            break;
        }
        channel->first_job = (channel->first_job + 1) % channel->job_capacity;
        --channel->job_count;
    }
    if (status >= 0 && may_flush && channel->has_unflushed && channel->job_count == 0 && channel->flush_count == 0) {
        /* No kernel asked for this flush and none waits for it, so the published word does not change. */
        status = begin_flush(channel, channel->flushed_position - 1);
    }
    return status < 0 ? status : test_flushes(channel);
}

/*
 * Carries out a new trigger, or adds it to those that wait on its channel. A trigger for a destroyed channel is left
 * out first, since its number may be another channel's by now. MSCCLPP_IN_PROGRESS: neither is possible now, and the
 * trigger stays in the FIFO.
 */
static mscclpp_status_t carry_trigger(mscclpp_proxy_t *proxy, const mscclpp_dev_trigger_t *trigger)
{
    mscclpp_proxy_job_t job = {mscclpp_dev_trigger_unpack(trigger), mscclpp_fifo_position(proxy->fifo)};
    mscclpp_proxy_channel_t *channel = mscclpp_proxy_find(proxy, job.request.channel);
    mscclpp_status_t status = MSCCLPP_OK;

    if (job.request.channel < proxy->table_size && job.position < proxy->discard_before[job.request.channel]) {
        /* It was pushed for an earlier channel of this number, which has been destroyed. */
        return MSCCLPP_OK;
    }
    if (channel == NULL) {
        mscclpp_error("%s: a kernel used port channel %u, which does not exist", proxy->label, job.request.channel);
        return MSCCLPP_ERR_INVALID;
    }
    if (channel->job_count > 0) {
        return add_waiting(channel, &job) ? MSCCLPP_OK : MSCCLPP_IN_PROGRESS;
    }
    status = carry_job(proxy, channel, &job);
    if (status == MSCCLPP_IN_PROGRESS) {
        (void)add_waiting(channel, &job); /* cannot fail, because the list is empty */
        status = MSCCLPP_OK;
    }
    if (status == MSCCLPP_OK) {
        status = test_flushes(channel);
    }
    if (channel->job_count > 0 || channel->flush_count > 0 || channel->has_unflushed) {
        mscclpp_proxy_mark_busy(proxy, channel);
    }
    return status;
}

/*
 * Runs one round. Waiting triggers come before new ones, which would have to queue behind them on the same channel. A
 * trigger that can neither be carried out nor wait ends the round, and stays in the FIFO.
 */
mscclpp_status_t mscclpp_proxy_carry(mscclpp_proxy_t *proxy, mscclpp_proxy_settle_t settle)
{
    const uint64_t slots = mscclpp_fifo_device(proxy->fifo)->size;
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
    /*
     * Goes backwards, because a channel that is removed is replaced by the last one in the list, which has had its
     * turn.
     */
    for (i = proxy->busy_count; i-- > 0;) {
        mscclpp_proxy_channel_t *channel = proxy->busy[i];

        status = carry_channel(proxy, channel, settle);
        if (status < 0) {
            return status;
        }
        if (channel->job_count == 0 && channel->flush_count == 0 && !channel->has_unflushed) {
            mscclpp_proxy_mark_idle(proxy, channel);
        }
    }
    /* Takes at most as many triggers as the FIFO has slots, because other threads want the lock. */
    for (taken = 0; taken < slots && mscclpp_fifo_poll(proxy->fifo, &trigger); ++taken) {
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

/*
 * True if everything is handed to the network. A transport without has_left cannot tell. Its transfers have left once a
 * flush has covered them.
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
