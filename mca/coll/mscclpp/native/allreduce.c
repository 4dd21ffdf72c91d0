/* All-reduce: blocking, nonblocking and persistent calls. What kernels do not serve is staged, or left to Open MPI. */
#include "mca/coll/mscclpp/native/gate.h"

#include "mca/coll/mscclpp/check/check.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/native/request.h"
#include "mca/coll/mscclpp/stage/stage.h"
#include "mca/common/task/task.h"

#include "mca/common/base/log.h"

/* Carries out the call by the component before this one. Returns its MPI error code. */
static int call_previous(mca_coll_mscclpp_module_t *module, const void *sendbuf, void *recvbuf,
                         mca_coll_mscclpp_count_t count, struct ompi_datatype_t *datatype, struct ompi_op_t *op)
{
    return module->previous.allreduce(sendbuf, recvbuf, count, datatype, op, module->comm,
                                      module->previous.allreduce_module);
}

/* Stages the call through host memory. Returns an MPI error code. */
static int stage_call(mca_coll_mscclpp_module_t *module, const void *sendbuf, void *recvbuf,
                      mca_coll_mscclpp_count_t count, struct ompi_datatype_t *datatype, struct ompi_op_t *op)
{
    return mca_coll_mscclpp_stage_allreduce(sendbuf, recvbuf, count, datatype, op, module->comm, &module->super);
}

/*
 * Serves a call on host memory by the component before this one. While this component works, the other ranks can see
 * that this rank has passed host memory. Returns the MPI error code of the other component.
 */
static int call_on_host(mca_coll_mscclpp_module_t *module, const void *sendbuf, void *recvbuf,
                        mca_coll_mscclpp_count_t count, struct ompi_datatype_t *datatype, struct ompi_op_t *op)
{
    int rc;

    if (module->team != NULL) {
        mscclpp_team_announce(module->team, module->current_call, MSCCLPP_CALL_HOST);
    }
    /*
     * The call's number was written before this flag, so a thread that sees the flag in native/mixture.c sees the
     * number, too.
     */
    __atomic_store_n(&module->in_host_call, 1, __ATOMIC_RELEASE);
    mca_coll_mscclpp_count_passed(module, MCA_COLL_MSCCLPP_COUNTED_allreduce);
    rc = call_previous(module, sendbuf, recvbuf, count, datatype, op);
    __atomic_store_n(&module->in_host_call, 0, __ATOMIC_RELEASE);
    return rc;
}

int mca_coll_mscclpp_agree_on_kind(mca_coll_mscclpp_module_t *module, bool *on_device_p)
{
    int is_own_on_device = *on_device_p;
    int is_any_on_device = 0;
    int rc = call_previous(module, &is_own_on_device, &is_any_on_device, 1, &ompi_mpi_int.dt, &ompi_mpi_op_max.op);

    *on_device_p = 0 != is_any_on_device;
    return rc;
}

/* Logs the failure once for each communicator. `collective` is the name of the call in the log. */
int mca_coll_mscclpp_refuse_broken(mca_coll_mscclpp_module_t *module, const char *collective)
{
    if (!module->told_broken) {
        /* This is reported once, because an application that continues under MPI_ERRORS_RETURN may make many calls. */
        module->told_broken = true;
        /* There may be thousands of ranks. If a peer has named the failure, that peer logs this as an error, too. */
        mscclpp_log(module->peer_reports || mscclpp_team_peer_reports(module->team) ? MSCCLPP_LOG_INFO
                                                                                    : MSCCLPP_LOG_ERROR,
                    "%s: %s call %llu: an earlier call failed, which broke the communicator for device buffers; this "
                    "and further calls on them return an error",
                    mca_coll_mscclpp_comm_name(module->comm), collective, (unsigned long long)module->current_call);
    }
    return MPI_ERR_OTHER;
}

/*
 * Serves the current call, on device buffers, with the team, which the first such call makes. Returns true if the call
 * is over, with its result in *rc_p. Otherwise the caller stages the call or leaves it to Open MPI, on all ranks. An
 * error breaks the communicator. `early`: the call runs in a fiber. `allocation` is recvbuf's, or 0.
 */
static bool serve_on_device(mca_coll_mscclpp_module_t *module, const void *sendbuf, void *recvbuf,
                            mca_coll_mscclpp_count_t count, struct ompi_datatype_t *datatype, struct ompi_op_t *op,
                            uint64_t allocation, bool early, int *rc_p)
{
    mscclpp_allreduce_args_t args = {
        .sendbuf = MPI_IN_PLACE == sendbuf ? recvbuf : sendbuf,
        .recvbuf = recvbuf,
        .count = (uint64_t)count,
        .dtype = mca_coll_mscclpp_dtype(datatype),
        .op = mca_coll_mscclpp_op(op),
        .call = module->current_call,
        .recv_allocation = allocation,
        .early = early,
    };
    mscclpp_status_t status;

    if (MCA_COLL_MSCCLPP_TEAM_BROKEN == module->team_state) {
        *rc_p = mca_coll_mscclpp_refuse_broken(module, "all-reduce");
        return true;
    }
    /* Equal on all ranks, because MPI requires the same operation and the same types of elements from all of them. */
    if (MSCCLPP_DTYPE_LAST == args.dtype || MSCCLPP_OP_LAST == args.op) {
        module->unserved = mca_coll_mscclpp_why_not_combined(args.dtype, args.op);
        return false;
    }
    if (mca_coll_mscclpp_ensure_team(module, sendbuf, recvbuf, &status)) {
        status = mscclpp_allreduce(module->team, &args);
        if (OPAL_LIKELY(MSCCLPP_OK == status)) {
            mca_coll_mscclpp_count_served(module, MSCCLPP_COLL_LAST);
            *rc_p = OMPI_SUCCESS;
            return true;
        }
        if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
            module->unserved = mca_coll_mscclpp_why_not_combined(args.dtype, args.op);
            if (MCA_COLL_MSCCLPP_REASON_NONE == module->unserved) {
                module->unserved = MCA_COLL_MSCCLPP_REASON_ALGORITHM;
            }
            return false;
        }
    }
    if (MSCCLPP_OK != status) {
        module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
        *rc_p = mca_coll_mscclpp_status_to_ompi(status);
        return true;
    }
    module->unserved = MCA_COLL_MSCCLPP_REASON_COMMUNICATOR;
    return false;
}

/*
 * Serves MPI_Allreduce by kernels, by staging, or by the component before this one. All ranks have to pass the same
 * kind of memory. If mixed_buffers is set, they agree on it first, with an all-reduce of the component before this one.
 * An error of that ends the call.
 */
int mca_coll_mscclpp_allreduce(const void *sendbuf, void *recvbuf, mca_coll_mscclpp_count_t count,
                               struct ompi_datatype_t *datatype, struct ompi_op_t *op, struct ompi_communicator_t *comm,
                               mca_coll_base_module_t *base)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;
    uint64_t allocation;
    bool on_device;
    int rc;

    if (0 == count) { /* on all ranks, so none waits for this one */
        return OMPI_SUCCESS;
    }
    mca_coll_mscclpp_request_await(module);
    if (OPAL_UNLIKELY(!ompi_datatype_is_predefined(datatype))) {
        /*
         * The data of a derived type may lie elsewhere than the pointers. Staging examines where they lie, and passes
         * calls on host memory to the previous component.
         */
        module->unserved = mca_coll_mscclpp_why_not_combined(mca_coll_mscclpp_dtype(datatype), mca_coll_mscclpp_op(op));
        return stage_call(module, sendbuf, recvbuf, count, datatype, op);
    }
    on_device = mca_coll_mscclpp_find_device(recvbuf, &allocation) || mca_coll_mscclpp_is_device(sendbuf);
    mca_coll_mscclpp_number_call(module);
    if (OPAL_UNLIKELY(mca_coll_mscclpp_state.config.mixed_buffers) && ompi_comm_size(comm) > 1) {
        rc = mca_coll_mscclpp_agree_on_kind(module, &on_device);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    if (OPAL_LIKELY(!on_device)) {
        return call_on_host(module, sendbuf, recvbuf, count, datatype, op);
    }
    return serve_on_device(module, sendbuf, recvbuf, count, datatype, op, allocation, false, &rc)
               ? rc
               : stage_call(module, sendbuf, recvbuf, count, datatype, op);
}

/* Stages a call that kernels do not serve, or leaves it to Open MPI if that takes device buffers. */
static int other_iallreduce(const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *type,
                            struct ompi_op_t *op, mca_coll_mscclpp_module_t *module, ompi_request_t **request_p)
{
    if (mca_coll_mscclpp_state.stage_others) {
        return mca_coll_mscclpp_stage_iallreduce(sbuf, rbuf, count, type, op, module->comm, request_p, &module->super);
    }
    mca_coll_mscclpp_count_passed(module, MCA_COLL_MSCCLPP_COUNTED_allreduce);
    return module->previous.iallreduce(sbuf, rbuf, count, type, op, module->comm, request_p,
                                       module->previous.iallreduce_module);
}

/* The names of the arguments that a nonblocking or persistent request keeps. */
#define PASSED (sbuf, rbuf, count, type, op)

/*
 * Leaves a nonblocking call, in its turn, to staging or to Open MPI, whose request completes it. Closes the fiber
 * first, because only a thread of MPI may call Open MPI (starter.h).
 */
static int hand_over(mca_coll_mscclpp_request_t *request)
{
    mscclpp_fiber_close();
    return other_iallreduce(MCA_COLL_MSCCLPP_KEPT(request, PASSED), request->module, &request->inner);
}

/* Serves a nonblocking call in its turn, in a fiber. Returns an MPI error code. */
static int serve_later(mca_coll_mscclpp_request_t *request)
{
    int rc;

    return serve_on_device(request->module, MCA_COLL_MSCCLPP_KEPT(request, PASSED), request->allocation, true, &rc)
               ? rc
               : hand_over(request);
}

/*
 * Returns true if the application made the call. Open MPI itself calls this function while it makes communicators, with
 * integers in host memory, and not at the same point on all ranks. Such calls must not be counted. On GPUs, calls on
 * host memory are never counted. On the twin all memory is device memory, so the caller's address decides.
 */
static bool is_from_application(const mca_coll_mscclpp_module_t *module, const void *caller)
{
    return !mca_coll_mscclpp_state.gpu->twin ||
           (!module->in_ompi_call && (module->in_compared_call || mca_coll_mscclpp_check_is_wanted(module, caller)));
}

/* Notes why a nonblocking call is not for kernels, in case it is on device memory. */
static void note_reason(mca_coll_mscclpp_module_t *module, struct ompi_datatype_t *type, struct ompi_op_t *op)
{
    if (!ompi_datatype_is_predefined(type)) {
        module->unserved = mca_coll_mscclpp_why_not_combined(mca_coll_mscclpp_dtype(type), mca_coll_mscclpp_op(op));
    } else if (mca_coll_mscclpp_state.config.mixed_buffers) {
        module->unserved = MCA_COLL_MSCCLPP_REASON_MIXED;
    } else {
        module->unserved = MCA_COLL_MSCCLPP_REASON_INTERNAL;
    }
}

/* Hands over, in its turn, a nonblocking call that is not for kernels. */
static int pass_later(mca_coll_mscclpp_request_t *request)
{
    note_reason(request->module, request->passed.type, request->passed.op);
    return hand_over(request);
}

/*
 * Starts MPI_Iallreduce. Kernels serve a call if the application made it with data of a predefined type in device
 * memory. With mixed_buffers, kernels serve no nonblocking call, because the ranks would first have to agree on the
 * kind of memory. All other calls are passed to another component: at once if no call of the communicator is in
 * progress, else after the calls that were started before. Returns an MPI error code; MPI_ERR_NO_MEM if there is no
 * memory for the request.
 */
static int start_nonblocking(const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *type,
                             struct ompi_op_t *op, struct ompi_communicator_t *comm, ompi_request_t **request_p,
                             mca_coll_base_module_t *base)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;
    mca_coll_mscclpp_request_t *request;
    uint64_t allocation;
    const bool is_on_device = mca_coll_mscclpp_find_device(rbuf, &allocation) || mca_coll_mscclpp_is_device(sbuf);
    const bool is_for_kernels = 0 != count && ompi_datatype_is_predefined(type) && is_on_device &&
                                !mca_coll_mscclpp_state.config.mixed_buffers &&
                                is_from_application(module, __builtin_return_address(0));

    (void)comm;
    if (!is_for_kernels && mca_coll_mscclpp_request_is_idle(module)) {
        note_reason(module, type, op);
        return other_iallreduce(sbuf, rbuf, count, type, op, module, request_p);
    }
    request = mca_coll_mscclpp_request_new(module, is_for_kernels ? serve_later : pass_later, is_for_kernels);
    if (request == NULL) {
        return MPI_ERR_NO_MEM;
    }
    MCA_COLL_MSCCLPP_KEEP(request, PASSED);
    request->allocation = allocation;
    return mca_coll_mscclpp_request_submit(request, request_p);
}

/* Returns the arguments of a persistent request. The number of the call is set at each start. */
static mscclpp_allreduce_args_t persistent_args(const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                                                struct ompi_datatype_t *type, struct ompi_op_t *op)
{
    return (mscclpp_allreduce_args_t){
        .sendbuf = MPI_IN_PLACE == sbuf ? rbuf : sbuf,
        .recvbuf = rbuf,
        .count = (uint64_t)count,
        .dtype = mca_coll_mscclpp_dtype(type),
        .op = mca_coll_mscclpp_op(op),
        .early = true,
    };
}

/* Prepares the team for the request's arguments (`prepare` of mca_coll_mscclpp_lane_make). */
static mscclpp_status_t prepare_team(mscclpp_team_t *team, void *args)
{
    return mscclpp_allreduce_prepare(team, args);
}

/* Serves one start of a persistent request, in its fiber. Returns an MPI error code. */
static int serve_again(mca_coll_mscclpp_request_t *request)
{
    mscclpp_allreduce_args_t args = persistent_args(MCA_COLL_MSCCLPP_KEPT(request, PASSED));
    mca_coll_mscclpp_lane_t *lane = request->lane;
    int rc = OMPI_SUCCESS;

    args.call = mca_coll_mscclpp_lane_begin(lane, "all-reduce", &rc);
    return 0 == args.call ? rc
                          : mca_coll_mscclpp_lane_finish(lane, MSCCLPP_COLL_LAST, mscclpp_allreduce(lane->team, &args));
}

/*
 * Makes the lane of a persistent request, which waits for all ranks. If kernels do not serve the request, *lane_p is
 * NULL on all ranks, and the result is OMPI_SUCCESS. Otherwise returns the MPI error code of
 * mca_coll_mscclpp_lane_make.
 */
static int make_lane(mca_coll_mscclpp_module_t *module, const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count,
                     struct ompi_datatype_t *type, struct ompi_op_t *op, mca_coll_mscclpp_lane_t **lane_p)
{
    const void *const buffers[2] = {sbuf, rbuf};
    mscclpp_allreduce_args_t args;
    uint64_t largest_block = 0; /* not needed here */

    *lane_p = NULL;
    /*
     * The count, the number of ranks, the type and the operation are equal on all ranks. So either all ranks return
     * here, or all take part in the agreement.
     */
    if (0 == count || ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS) {
        return OMPI_SUCCESS;
    }
    module->unserved = mca_coll_mscclpp_why_not_combined(mca_coll_mscclpp_dtype(type), mca_coll_mscclpp_op(op));
    if (MCA_COLL_MSCCLPP_REASON_NONE != module->unserved) {
        return OMPI_SUCCESS;
    }
    args = persistent_args(sbuf, rbuf, count, type, op);
    return mca_coll_mscclpp_lane_make(module, buffers,
                                      mca_coll_mscclpp_is_device(sbuf) || mca_coll_mscclpp_is_device(rbuf),
                                      &largest_block, prepare_team, &args, lane_p);
}

/*
 * Makes the request of MPI_Allreduce_init. Collective, and waits for all ranks, which MPI allows. If kernels do not
 * serve the request, staging or the previous component makes it. Returns an MPI error code. If there is no memory for
 * the request, its lane is freed with it, and this rank alone returns MPI_ERR_NO_MEM.
 */
static int make_persistent(const void *sbuf, void *rbuf, mca_coll_mscclpp_count_t count, struct ompi_datatype_t *type,
                           struct ompi_op_t *op, struct ompi_communicator_t *comm, struct ompi_info_t *info,
                           ompi_request_t **request_p, mca_coll_base_module_t *base)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;
    mca_coll_mscclpp_request_t *request;
    mca_coll_mscclpp_lane_t *lane;
    int rc;

    mca_coll_mscclpp_request_await(module);
    rc = make_lane(module, sbuf, rbuf, count, type, op, &lane);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    if (lane == NULL) {
        if (mca_coll_mscclpp_state.stage_others) {
            return mca_coll_mscclpp_stage_allreduce_init(sbuf, rbuf, count, type, op, comm, info, request_p, base);
        }
        mca_coll_mscclpp_count_passed(module, MCA_COLL_MSCCLPP_COUNTED_allreduce);
        return module->previous.allreduce_init(sbuf, rbuf, count, type, op, comm, info, request_p,
                                               module->previous.allreduce_init_module);
    }
    request = mca_coll_mscclpp_lane_request(lane, serve_again);
    if (request == NULL) {
        return MPI_ERR_NO_MEM;
    }
    MCA_COLL_MSCCLPP_KEEP(request, PASSED);
    *request_p = &request->super.super;
    return OMPI_SUCCESS;
}

const mca_coll_mscclpp_fn_t(iallreduce) mca_coll_mscclpp_native_iallreduce = start_nonblocking;
const mca_coll_mscclpp_fn_t(allreduce_init) mca_coll_mscclpp_native_allreduce_init = make_persistent;
