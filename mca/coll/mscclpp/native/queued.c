/*
 * Decides whether a call can be queued, and queues it in the module's lane `queued`. All ranks must decide the same: a
 * rank that does not queue the call would leave the others' kernels waiting.
 */
#include "mca/coll/mscclpp/native/queued.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/native/api.h"
#include "mca/coll/mscclpp/native/by_name.h"
#include "mca/coll/mscclpp/native/channels.h"
#include "mca/coll/mscclpp/native/describe.h"
#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/host_streams.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/coll/mscclpp/native/mapped.h"
#include "mca/common/base/log.h"
#include "mca/common/task/task.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/queue.h"

typedef mca_coll_mscclpp_queue_call_t call_t;
typedef mca_coll_mscclpp_queue_end_t outcome_t;

/*
 * Makes the team's queue (`prepare` of mca_coll_mscclpp_lane_make). Sets *context, a bool, to tell that there was
 * a team.
 */
static mscclpp_status_t open_queue(mscclpp_team_t *team, void *context)
{
    *(bool *)context = true;
    return mscclpp_team_open_queue(team);
}

/*
 * Makes module->queued unless there is a queue, and waits for all ranks. `on_device` is true if this rank passes device
 * memory. The queue remains NULL on all ranks if no rank passes device memory, if a rank can make no further lane,
 * or, permanently, if calls cannot be queued. Returns an MPI error code. This rank then returns it for all further
 * calls, because other ranks may have the queue, and would wait for calls of this rank.
 */
static int ensure_queue(mca_coll_mscclpp_module_t *module, const void *const buffers[2], bool on_device)
{
    uint64_t largest = 0; /* not needed */
    bool had_team = false;
    int rc;

    if (module->queued != NULL || module->never_queued || ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS) {
        return OMPI_SUCCESS;
    }
    if (OMPI_SUCCESS != module->queue_failure) {
        return module->queue_failure;
    }
    mca_coll_mscclpp_request_await(module);
    rc = mca_coll_mscclpp_lane_make(module, buffers, on_device, &largest, open_queue, &had_team, &module->queued);
    module->queue_failure = rc;
    module->never_queued = OMPI_SUCCESS == rc && module->queued == NULL && (had_team || module->no_lanes);
    return rc;
}

/* Converts a status to the end of a queued call. *code_p is the MPI error code for MCA_COLL_MSCCLPP_QUEUE_ERROR. */
static outcome_t outcome_from_status(mscclpp_status_t status, int *code_p)
{
    *code_p = OMPI_SUCCESS;
    switch (status) {
    case MSCCLPP_OK:
        return MCA_COLL_MSCCLPP_QUEUED;
    case MSCCLPP_ERR_NOT_SUPPORTED:
        return MCA_COLL_MSCCLPP_NOT_QUEUED;
    case MSCCLPP_ERR_TIMEOUT:
        return MCA_COLL_MSCCLPP_QUEUE_TIMEOUT;
    case MSCCLPP_ERR_PEER:
        return MCA_COLL_MSCCLPP_QUEUE_PEER;
    case MSCCLPP_ERR_INVALID:
        return MCA_COLL_MSCCLPP_QUEUE_BUSY;
    default:
        *code_p = mca_coll_mscclpp_status_to_ompi(status);
        return MCA_COLL_MSCCLPP_QUEUE_ERROR;
    }
}

/*
 * Returns why a team is broken: the error that an earlier operation met on this rank, or else that another rank failed.
 */
static mscclpp_status_t find_failure_status(mscclpp_team_t *team)
{
    char text[MSCCLPP_TEAM_FAILURE_TEXT];
    const mscclpp_status_t status = mscclpp_team_find_failure(team, text, sizeof(text));

    return MSCCLPP_OK == status ? MSCCLPP_ERR_PEER : status;
}

/*
 * Counts a call, and sets *stream_p to this component's stream for the application's stream. If an earlier call failed,
 * returns the error of that call instead, and logs it once.
 */
static mscclpp_status_t begin_call(mca_coll_mscclpp_lane_t *lane, void *app_stream, mscclpp_gpu_stream_t **stream_p)
{
    mscclpp_status_t status;

    if (mscclpp_team_broken(lane->team)) {
        if (!lane->told_broken) {
            lane->told_broken = true;
            mscclpp_error("%s: queued call %llu: an earlier one failed; this and further ones return an error",
                          mca_coll_mscclpp_comm_name(lane->module->comm), (unsigned long long)lane->calls + 1);
        }
        return find_failure_status(lane->team);
    }
    status = mscclpp_team_find_stream(lane->team, app_stream, stream_p);
    if (MSCCLPP_OK == status) {
        ++lane->calls;
    }
    return status;
}

/* Returns true for a buffer that kernels can use, that does not exist, or that is MPI_IN_PLACE. */
static bool is_none_or_device(const void *buffer)
{
    return buffer == NULL || MPI_IN_PLACE == buffer || mca_coll_mscclpp_is_device(buffer);
}

/*
 * Calls `use` with this component's stream for the application's stream. Does nothing for the twin's default stream,
 * which is always idle. Needs no memory: without it this rank would not come to a call of MPI that the others wait in.
 * Returns an Open MPI error code.
 */
static int with_stream(void *app_stream, mscclpp_gpu_ask_fn_t use, void *context)
{
    const mscclpp_gpu_ops_t *gpu = mca_coll_mscclpp_state.gpu;
    mscclpp_status_t status;
    int device;

    if (gpu == NULL || (gpu->twin && app_stream == NULL)) {
        return OMPI_SUCCESS;
    }
    status = gpu->current_device(&device);
    if (MSCCLPP_OK == status) {
        status = gpu->stream_ask(device, app_stream, use, context);
    }
    return MSCCLPP_OK == status ? OMPI_SUCCESS : mca_coll_mscclpp_status_to_ompi(status);
}

/* Sets *answer_p, an int, to whether a stream is being captured (mscclpp_gpu_ask_fn_t). */
static mscclpp_status_t ask_capturing(mscclpp_gpu_stream_t *stream, void *answer_p)
{
    *(int *)answer_p = mca_coll_mscclpp_state.gpu->is_capturing(stream);
    return MSCCLPP_OK;
}

/* Returns 1 if the application's stream is being captured, and 0 if it is not, or if this cannot be determined. */
static int is_capturing(void *stream)
{
    int answer = 0;

    (void)with_stream(stream, ask_capturing, &answer);
    return answer;
}

/*
 * Returns MCA_COLL_MSCCLPP_NOT_QUEUED. If the call's stream is being captured, the application gets an error, so the
 * function logs `reason`, which continues "cannot be captured in a graph: ".
 */
static outcome_t refuse(const mca_coll_mscclpp_module_t *module, const call_t *call, const char *collective,
                        const char *reason)
{
    if (is_capturing(call->stream)) {
        mscclpp_error("%s: rank %d: %s cannot be captured in a graph: %s", mca_coll_mscclpp_comm_name(module->comm),
                      ompi_comm_rank(module->comm), collective, reason);
    }
    return MCA_COLL_MSCCLPP_NOT_QUEUED;
}

/* The reasons for refusing calls that all collectives share. */
static const char unknown_to_kernels[] = "no kernel knows its type or its operation";
static const char no_queue[] = "no call of this communicator can be queued";
static const char host_memory[] = "some of its data are in host memory";
static const char is_first[] = "it is the communicator's first queued call, for which ranks wait for one another";

/*
 * Returns true for a captured call that would have to make the communicator's queue. Equal on all ranks if all capture
 * it.
 */
static bool is_captured_first(const mca_coll_mscclpp_module_t *module, const call_t *call)
{
    return module->queued == NULL && !module->never_queued && is_capturing(call->stream);
}

/*
 * Enqueues an all-reduce. Returns MCA_COLL_MSCCLPP_NOT_QUEUED, and queues nothing, if the type is derived, if no kernel
 * knows the type or the operation, or if the data are in host memory. The same holds without a queue, and for a
 * captured call that would have to make the queue. All of this is equal on all ranks: the caller promises that all pass
 * device memory, or none (mpix_mscclpp.h).
 */
static outcome_t enqueue_allreduce(mca_coll_mscclpp_module_t *module, const call_t *call, int *code_p)
{
    const void *const buffers[2] = {call->sendbuf, call->recvbuf};
    const char *const name = mscclpp_coll_name(MSCCLPP_COLL_LAST);
    const bool on_device = mca_coll_mscclpp_is_device(call->recvbuf) && is_none_or_device(call->sendbuf);
    mscclpp_allreduce_args_t args = {
        .sendbuf = MPI_IN_PLACE == call->sendbuf ? call->recvbuf : call->sendbuf,
        .recvbuf = call->recvbuf,
        .count = call->recvcount,
        .mapped = call->mapped,
        .may_wait = !call->is_size_agreed, /* starts of requests are local */
    };
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status;

    /*
     * The count, the type and the operation are equal on all ranks, so either all ranks reach the queue or none does.
     */
    if (0 == call->recvcount) {
        return MCA_COLL_MSCCLPP_QUEUED;
    }
    if (!ompi_datatype_is_predefined(call->recvtype)) {
        return refuse(module, call, name, "its type is a derived one");
    }
    args.dtype = mca_coll_mscclpp_dtype(call->recvtype);
    args.op = mca_coll_mscclpp_op(call->op);
    if (MSCCLPP_DTYPE_LAST == args.dtype || MSCCLPP_OP_LAST == args.op) {
        return refuse(module, call, name, unknown_to_kernels);
    }
    if (is_captured_first(module, call)) {
        return refuse(module, call, name, is_first);
    }
    *code_p = ensure_queue(module, buffers, on_device);
    if (OMPI_SUCCESS != *code_p) {
        return MCA_COLL_MSCCLPP_QUEUE_ERROR;
    }
    if (module->queued == NULL || !on_device) {
        return refuse(module, call, name, on_device ? no_queue : host_memory);
    }
    status = begin_call(module->queued, call->stream, &stream);
    if (MSCCLPP_OK == status) {
        args.call = module->queued->calls;
        status = mscclpp_allreduce_enqueue(module->queued->team, &args, stream);
    }
    if (MSCCLPP_OK == status) {
        mca_coll_mscclpp_count_queued(MSCCLPP_COLL_LAST, module->queued->team);
    } else if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
        (void)refuse(module, call, name, unknown_to_kernels);
    }
    return outcome_from_status(status, code_p);
}

/* Enqueues a barrier. Returns MCA_COLL_MSCCLPP_NOT_QUEUED if the communicator has no queue yet. */
static outcome_t enqueue_barrier(mca_coll_mscclpp_module_t *module, const call_t *call, int *code_p)
{
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status;

    /* A barrier has no buffers that could show whether the application uses devices, so it makes no queue. */
    if (module->queued == NULL) {
        return refuse(module, call, "barrier", "no other call of the communicator was queued before");
    }
    status = begin_call(module->queued, call->stream, &stream);
    if (MSCCLPP_OK == status) {
        status = mscclpp_team_enqueue_barrier(module->queued->team, module->queued->calls, stream);
    }
    return outcome_from_status(status, code_p);
}

/* Returns true if a count fits into the type that this version of Open MPI uses for counts. */
static bool fits_count(size_t count)
{
    return (size_t)(mca_coll_mscclpp_count_t)count == count && (mca_coll_mscclpp_count_t)count >= 0;
}

/*
 * Returns true if kernels can reach all data that this rank passes. The buffers of a rank without data may be any
 * pointers. Such a rank says yes if all ranks have agreed to queue the call, or if only it knows that it has no data.
 */
static bool all_on_device(const mca_coll_mscclpp_native_t *native, const call_t *call)
{
    const void *in = native->args.in, *out = native->args.out;
    const bool may_have_no_data = call->is_size_agreed || mca_coll_mscclpp_has_unknown_sizes(native);

    if (may_have_no_data && !native->passes_data) {
        return true;
    }
    return is_none_or_device(in) && is_none_or_device(out) && (in != NULL || out != NULL);
}

/* Returns why a call that has a queue is not queued, in words for a message. */
static const char *reason_not_queued(const mca_coll_mscclpp_native_t *native)
{
    if (native->args.in_scattered || native->args.out_scattered) {
        return "its data lie in several allocations";
    }
    return native->args.varied ? "its blocks may differ in size, and its ranks are on several nodes"
                               : unknown_to_kernels;
}

/*
 * Enqueues a call after the attempt to describe it. All ranks decide the same. If only this rank had no memory to
 * describe the call, the other ranks queue it and would wait for this one, so it reports the failure to them. If the
 * result is QUEUE_ERROR, *code_p is the MPI error code.
 */
static outcome_t enqueue_described(mca_coll_mscclpp_module_t *module, const call_t *call,
                                   mca_coll_mscclpp_native_t *native, int *code_p)
{
    const bool on_device = all_on_device(native, call);
    const char *const name = mscclpp_coll_name(native->args.coll);
    mscclpp_gpu_stream_t *stream;
    mscclpp_status_t status;

    if (MCA_COLL_MSCCLPP_REASON_NONE != native->unserved) {
        return refuse(module, call, name, unknown_to_kernels);
    }
    if (is_captured_first(module, call)) {
        return refuse(module, call, name, is_first);
    }
    /*
     * All ranks call ensure_queue, even a rank whose call could not be described, because the ranks make the queue
     * together. A rank does not vote for a queue if it has no data and only this rank knows that.
     */
    *code_p = ensure_queue(module, native->buffers,
                           on_device && (native->passes_data || !mca_coll_mscclpp_has_unknown_sizes(native)));
    if (OMPI_SUCCESS != *code_p) {
        return MCA_COLL_MSCCLPP_QUEUE_ERROR;
    }
    if (OMPI_SUCCESS != native->rc) {
        if (module->queued != NULL) {
            (void)mscclpp_team_fail_call(module->queued->team, module->queued->calls + 1, name, MSCCLPP_ERR_NO_MEMORY,
                                         false);
        }
        *code_p = native->rc;
        return MCA_COLL_MSCCLPP_QUEUE_ERROR;
    }
    if (module->queued == NULL || !on_device) {
        return refuse(module, call, name, on_device ? no_queue : host_memory);
    }
    status = begin_call(module->queued, call->stream, &stream);
    if (MSCCLPP_OK == status) {
        native->args.call = module->queued->calls;
        native->args.mapped = call->mapped;
        native->args.may_wait = !call->is_size_agreed; /* starts of requests are local */
        status = mscclpp_collective_enqueue(module->queued->team, &native->args, stream);
    }
    if (MSCCLPP_OK == status) {
        mca_coll_mscclpp_count_queued(native->args.coll, module->queued->team);
    } else if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
        (void)refuse(module, call, name, reason_not_queued(native));
    }
    return outcome_from_status(status, code_p);
}

/*
 * Enqueues a collective call other than all-reduce and barrier. If the result is QUEUE_ERROR, *code_p is the MPI error
 * code.
 */
static outcome_t enqueue_other(mca_coll_mscclpp_module_t *module, const call_t *call, int *code_p)
{
    mca_coll_mscclpp_native_t native;
    outcome_t outcome = MCA_COLL_MSCCLPP_QUEUED; /* the result if there is nothing to do */

    if (!fits_count(call->sendcount) || !fits_count(call->recvcount)) {
        *code_p = MPI_ERR_COUNT;
        return MCA_COLL_MSCCLPP_QUEUE_ERROR;
    }
    if (ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS || !mca_coll_mscclpp_queued_is_known(call)) {
        return MCA_COLL_MSCCLPP_NOT_QUEUED;
    }
    if (mca_coll_mscclpp_queued_describe(module, call, &native)) {
        outcome = enqueue_described(module, call, &native, code_p);
    }
    mca_coll_mscclpp_native_end(&native);
    return outcome;
}

/* Enqueues a call of any collective, for the MPIX functions (api.h). */
static outcome_t enqueue(const call_t *call, int *code_p)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(call->comm);
    outcome_t outcome;

    *code_p = OMPI_SUCCESS;
    if (!mca_coll_mscclpp_may_serve(module) || (mca_coll_mscclpp_state.gpu->twin && call->stream == NULL)) {
        return MCA_COLL_MSCCLPP_NOT_QUEUED;
    }
    switch (call->coll) {
    case MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE:
        outcome = enqueue_allreduce(module, call, code_p);
        break;
    case MCA_COLL_MSCCLPP_QUEUE_BARRIER:
        outcome = enqueue_barrier(module, call, code_p);
        break;
    default: /* the library may be newer, and know further collectives: enqueue_other does not queue these */
        outcome = enqueue_other(module, call, code_p);
    }
    module->queued_calls += MCA_COLL_MSCCLPP_QUEUED == outcome;
    return outcome;
}

/* Returns true if kernels know the type and the operation of an all-reduce. There must be a queue. */
static bool knows_allreduce(const mca_coll_mscclpp_module_t *module, const call_t *call)
{
    const mscclpp_dtype_t dtype = mca_coll_mscclpp_dtype(call->recvtype);
    const mscclpp_op_t op = mca_coll_mscclpp_op(call->op);

    return ompi_datatype_is_predefined(call->recvtype) && MSCCLPP_DTYPE_LAST != dtype && MSCCLPP_OP_LAST != op &&
           mscclpp_dev_supports(dtype, op, module->queued->team->group.on_twin);
}

/* Prepares a barrier or an all-reduce for `prepare_call`. These calls need no description. Returns an MPI error code.
 */
static int prepare_simple(mca_coll_mscclpp_module_t *module, const call_t *call, int *can_queue_p)
{
    const bool is_barrier = MCA_COLL_MSCCLPP_QUEUE_BARRIER == call->coll;
    const void *const buffers[2] = {is_barrier ? NULL : call->sendbuf, is_barrier ? NULL : call->recvbuf};
    const bool on_device =
        is_barrier || (mca_coll_mscclpp_is_device(call->recvbuf) && is_none_or_device(call->sendbuf));
    const int rc = ensure_queue(module, buffers, on_device);

    *can_queue_p =
        OMPI_SUCCESS == rc && module->queued != NULL && on_device && (is_barrier || knows_allreduce(module, call));
    return rc;
}

/* Prepares a call other than an all-reduce or a barrier for `prepare_call`. Returns an MPI error code. */
static int prepare_other(mca_coll_mscclpp_module_t *module, const call_t *call, int *can_queue_p, uint64_t *largest_p)
{
    mca_coll_mscclpp_native_t native;
    int rc = OMPI_SUCCESS;

    if (!mca_coll_mscclpp_queued_describe(module, call, &native)) {
        *can_queue_p = true;
    } else {
        /* A rank without data votes neither against a queue nor for one. */
        const bool on_device = !native.passes_data || all_on_device(&native, call);

        rc = ensure_queue(module, native.buffers, native.passes_data && on_device);
        native.args.is_size_known = true; /* when the call is queued, all ranks know the largest block */
        *largest_p = native.args.largest_block;
        *can_queue_p = OMPI_SUCCESS == rc && OMPI_SUCCESS == native.rc && module->queued != NULL && on_device &&
                       MCA_COLL_MSCCLPP_REASON_NONE == native.unserved &&
                       mscclpp_collective_can_enqueue(module->queued->team, &native.args);
    }
    mca_coll_mscclpp_native_end(&native);
    return rc;
}

/*
 * Makes the objects that are necessary to queue a call repeatedly, and tells whether the call can be queued (api.h).
 * Returns an MPI error code.
 */
static int prepare_call(const call_t *call, int *can_queue_p, uint64_t *largest_p)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(call->comm);

    *can_queue_p = 0;
    *largest_p = 0;
    if (!mca_coll_mscclpp_may_serve(module) || ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS) {
        return OMPI_SUCCESS;
    }
    if (!mca_coll_mscclpp_queued_is_known(call) || !fits_count(call->sendcount) || !fits_count(call->recvcount)) {
        return OMPI_SUCCESS;
    }
    return MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE == call->coll || MCA_COLL_MSCCLPP_QUEUE_BARRIER == call->coll
               ? prepare_simple(module, call, can_queue_p)
               : prepare_other(module, call, can_queue_p, largest_p);
}

/*
 * Returns how a queued call or the application's channels have failed, with a description in `text`, or QUEUED if none
 * has. Never waits.
 */
static outcome_t find_failure(MPI_Comm comm, char *text, size_t size)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(comm);
    outcome_t outcome = MCA_COLL_MSCCLPP_QUEUED;
    int code;

    text[0] = '\0';
    if (module != NULL && module->queued != NULL && module->queued->team != NULL) {
        outcome = outcome_from_status(mscclpp_team_find_failure(module->queued->team, text, size), &code);
    }
    if (module != NULL && MCA_COLL_MSCCLPP_QUEUED == outcome) {
        const mscclpp_status_t status = mca_coll_mscclpp_channels_find_failure(module, text, size);

        /*
         * Here MSCCLPP_ERR_INVALID means a misuse of a channel, and not two operations at the same time as in a queue.
         */
        outcome = MSCCLPP_ERR_INVALID == status ? MCA_COLL_MSCCLPP_QUEUE_ERROR : outcome_from_status(status, &code);
    }
    return outcome;
}

/* Makes the communicator's queued calls fail, for an error that the MPIX functions have found and logged. */
static void fail_calls(MPI_Comm comm)
{
    mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(comm);

    if (module != NULL && module->queued != NULL && module->queued->team != NULL) {
        (void)mscclpp_team_fail(module->queued->team, MSCCLPP_ERR_INVALID);
    }
}

/* Returns how many calls of a communicator have been queued; 0 if it is not served by this component. */
static uint64_t count_calls(MPI_Comm comm)
{
    const mca_coll_mscclpp_module_t *module = mca_coll_mscclpp_module_of(comm);

    return module == NULL ? 0 : module->queued_calls;
}

/* Waits until the stream is idle. Runs MPI's progress meanwhile, since other ranks may depend on it. */
static mscclpp_status_t await_idle(mscclpp_gpu_stream_t *stream, void *unused)
{
    mscclpp_status_t status;

    (void)unused;
    while ((status = mca_coll_mscclpp_state.gpu->stream_query(stream)) == MSCCLPP_IN_PROGRESS) {
        opal_progress();
    }
    return status;
}

/* Waits until the application's stream is idle. Returns an Open MPI error code. */
static int wait_stream(void *stream)
{
    return with_stream(stream, await_idle, NULL);
}

extern const mca_coll_mscclpp_api_t mca_coll_mscclpp_api __attribute__((visibility("default")));
const mca_coll_mscclpp_api_t mca_coll_mscclpp_api = {
    .version = MCA_COLL_MSCCLPP_API_VERSION,
    .size = sizeof(mca_coll_mscclpp_api_t),
    .enqueue = enqueue,
    .find_failure = find_failure,
    .count = count_calls,
    .wait = wait_stream,
    .is_capturing = is_capturing,
    .host_stream_create = mca_coll_mscclpp_host_stream_create,
    .host_stream_destroy = mca_coll_mscclpp_host_stream_destroy,
    .host_call = mca_coll_mscclpp_host_call,
    .host_capture_begin = mca_coll_mscclpp_host_capture_begin,
    .host_capture_end = mca_coll_mscclpp_host_capture_end,
    .host_graph_launch = mca_coll_mscclpp_host_graph_launch,
    .host_graph_destroy = mca_coll_mscclpp_host_graph_destroy,
    .host_loop = mca_coll_mscclpp_host_loop,
    .host_graph_append = mca_coll_mscclpp_host_graph_append,
    .prepare = prepare_call,
    .is_twin = mca_coll_mscclpp_is_twin,
    .run_plan = mca_coll_mscclpp_run_plan,
    .map = mca_coll_mscclpp_map,
    .unmap = mca_coll_mscclpp_unmap,
    .fail = fail_calls,
    .channels = &mca_coll_mscclpp_channel_api,
};
