/* The gate: decides which calls kernels serve, and turns their failures into MPI errors. */
#include "mca/coll/mscclpp/native/native.h"

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/kept.h"
#include "mca/coll/mscclpp/native/lane.h"
#include "mca/coll/mscclpp/oob/agree.h"
#include "mca/common/base/log.h"
#include "mca/common/team/parts.h"

/*
 * Without a team, the ranks agree in some of the calls in which some ranks may pass no data. They do so in each of the
 * first AGREE_ALWAYS calls, and later in every AGREE_EVERY-th call.
 */
#define AGREE_ALWAYS 16
#define AGREE_EVERY 64

/* Returns true if there is a team that works. Its ranks on one node agree through its board on who serves a call. */
static bool has_board(const mca_coll_mscclpp_module_t *module)
{
    return module->team != NULL && MCA_COLL_MSCCLPP_TEAM_READY == module->team_state;
}

/*
 * Waits until the peers have decided whether the call is on device memory, and returns their decision. It is for a rank
 * that sends and receives nothing. This rank must follow the decision, because the peers may wait for it. If no rank of
 * the node passes data, no rank decides, and the result is false: the call is served as one on host buffers.
 */
static bool follow_peers(mca_coll_mscclpp_module_t *module)
{
    mscclpp_team_t *team = module->team;
    bool on_device = false;

    mscclpp_team_announce(team, module->current_call, MSCCLPP_CALL_EITHER);
    while (!mscclpp_team_is_decided(team, module->current_call, &on_device) &&
           mscclpp_team_awaits_announcements(team, module->current_call)) {
        mca_coll_mscclpp_progress();
    }
    /* Asks again, because a peer may have decided between the two questions of the loop. */
    (void)mscclpp_team_is_decided(team, module->current_call, &on_device);
    return on_device;
}

/*
 * Shows the ranks of this node, and of the next one, that this rank lives while it waits in an agreement. If the rank
 * dies there, the call's later wait for it counts from its last sign (mca_coll_mscclpp_agree_tend_fn_t).
 */
static mscclpp_status_t give_signs(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_agree_stage_t stage)
{
    if (MCA_COLL_MSCCLPP_AGREE_BEGINS == stage) {
        mscclpp_team_begin_signs(module->team);
    } else if (MCA_COLL_MSCCLPP_AGREE_WAITS == stage) {
        return mscclpp_team_give_signs(module->team, module->current_call);
    } else {
        mscclpp_team_end_signs(module->team);
    }
    return MSCCLPP_OK;
}

/*
 * Lets all ranks agree on whether any of them passes device memory, and on the size of the largest block. *on_device_p
 * is first whether this rank passes device memory, and then whether any rank does. Waits for all ranks. Returns an MPI
 * error code, whose cause has been logged or is a revocation.
 *
 * If the agreement itself fails on this rank, for lack of memory or because a rank is late, this breaks the
 * communicator, and the other ranks fail, too.
 */
static int agree_on_exchange(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, bool *on_device_p)
{
    const uint64_t local[MCA_COLL_MSCCLPP_AGREED] = {*on_device_p, call->args.largest_block};
    uint64_t maxima[MCA_COLL_MSCCLPP_AGREED] = {0, 0};
    mscclpp_status_t wait_status;
    int rc;

    rc = mca_coll_mscclpp_agree(module, mscclpp_coll_name(call->args.coll), *on_device_p,
                                has_board(module) ? give_signs : NULL, local, maxima, &wait_status);
    if (MSCCLPP_OK != wait_status) {
        if (has_board(module)) {
            /* Whoever has given up first tells the late rank, too. */
            (void)mscclpp_team_fail_call(module->team, call->args.call, mscclpp_coll_name(call->args.coll), wait_status,
                                         module->peer_reports);
        }
        module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
    }
    *on_device_p = 0 != maxima[0];
    call->args.largest_block = maxima[1];
    call->args.is_size_known = true;
    return rc;
}

/*
 * Returns true if this rank passes device memory. If it passes data, only buffers with data count, because a buffer
 * without data may be any pointer. Sets *out_p and *in_p to the allocations of output and input, for the rest of the
 * call. An allocation that was not asked for is 0.
 */
static bool find_whether_device(const mca_coll_mscclpp_native_t *call, uint64_t *out_p, uint64_t *in_p)
{
    *out_p = 0;
    *in_p = 0;
    return call->passes_data
               ? mca_coll_mscclpp_find_device(call->args.out, out_p) ||
                     mca_coll_mscclpp_find_device(call->args.in, in_p)
               : mca_coll_mscclpp_is_device(call->buffers[1]) || mca_coll_mscclpp_is_device(call->buffers[0]);
}

/* Returns true if this rank passes device memory (find_whether_device). */
static bool passes_device(const mca_coll_mscclpp_native_t *call)
{
    uint64_t out, in;

    return find_whether_device(call, &out, &in);
}

/* Returns true if every rank passes data in each of its buffers, and so sees their kind. Equal on all ranks. */
static bool all_pass_data(const mca_coll_mscclpp_native_t *call)
{
    const mscclpp_dev_block_t *blocks = MSCCLPP_COLL_ALLGATHERV == call->args.coll ? call->recv : call->send;
    bool all_pass = call->args.is_size_known;

    for (int peer = 0; peer < call->ranks && call->args.varied && all_pass; ++peer) {
        all_pass = 0 != blocks[peer].bytes;
    }
    return all_pass;
}

/*
 * Decides whether the ranks have to agree on the kind of memory before they serve the call, and returns true if so. May
 * mark the call as staged instead. All ranks decide the same.
 *
 * A rank that passes no data, or none in one of its buffers, cannot tell whether its peers pass device memory. If all
 * ranks are on one node, it reads the team's board. Ranks on other nodes cannot see this board, and without a team
 * there is no board, so in these cases the ranks must agree.
 *
 * A program that passes only host memory never has a team, and would pay for an agreement in every call. So after the
 * first few calls without a team, the ranks agree only in some calls. In the other calls they stage device memory.
 */
static bool decide_to_agree(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call)
{
    const bool can_read_board = has_board(module);

    if (call->ranks < 2 || (can_read_board && !mscclpp_team_spans_nodes(module->team)) || all_pass_data(call)) {
        return false;
    }
    if (can_read_board) {
        return true;
    }
    if (MCA_COLL_MSCCLPP_TEAM_NONE != module->team_state || mca_coll_mscclpp_state.finalizing) {
        return false;
    }
    ++module->undecided_calls;
    if (module->undecided_calls <= AGREE_ALWAYS || 0 == module->undecided_calls % AGREE_EVERY) {
        return true;
    }
    call->unserved = MCA_COLL_MSCCLPP_REASON_UNDECIDED;
    return false;
}

/* Tells the other ranks of the node, so that a mixture of host and device buffers is reported. */
static void announce_host(mca_coll_mscclpp_module_t *module)
{
    if (module->team != NULL) {
        mscclpp_team_announce(module->team, module->current_call, MSCCLPP_CALL_HOST);
    }
}

/* Tells the peers, and native/mixture.c, that this rank is about to enter a host call of another component. */
static void begin_host_call(mca_coll_mscclpp_module_t *module)
{
    announce_host(module);
    /*
     * The call's number was written before this flag, so a thread that sees the flag in native/mixture.c sees the
     * number, too.
     */
    __atomic_store_n(&module->in_host_call, 1, __ATOMIC_RELEASE);
}

void mca_coll_mscclpp_native_leave(mca_coll_mscclpp_module_t *module)
{
    __atomic_store_n(&module->in_host_call, 0, __ATOMIC_RELEASE);
}

/* Makes a call that could not be described fail on the team's other ranks, too. Returns its MPI error code. */
static int fail_undescribed(mscclpp_team_t *team, const mca_coll_mscclpp_native_t *call)
{
    mscclpp_error("%s: %s call %llu: no memory for the description of its buffers", team->group.oob.label,
                  mscclpp_coll_name(call->args.coll), (unsigned long long)call->args.call);
    (void)mscclpp_team_fail_call(team, call->args.call, mscclpp_coll_name(call->args.coll), MSCCLPP_ERR_NO_MEMORY,
                                 false);
    return call->rc;
}

/*
 * Serves a call on the device, with the team. The first such call makes the team. Returns true if the call is over,
 * with its result, an MPI error code, in *rc_p. Returns false if all ranks stage the call. module->unserved is then the
 * reason: the one in call->unserved, or that kernels cannot serve the communicator or MPI_Finalize has begun, or that
 * the team has no algorithm for the call. An error breaks the communicator for device buffers.
 *
 * A call that this rank could not describe fails only after the team has been made. The team is needed to tell the
 * other ranks, which wait for this one.
 */
static bool serve_on_device(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p)
{
    mscclpp_status_t status;

    if (MCA_COLL_MSCCLPP_TEAM_BROKEN == module->team_state) {
        *rc_p = mca_coll_mscclpp_refuse_broken(module, mscclpp_coll_name(call->args.coll));
        return true;
    }
    if (MCA_COLL_MSCCLPP_REASON_NONE != call->unserved) {
        module->unserved = call->unserved;
        return false;
    }
    if (mca_coll_mscclpp_ensure_team(module, call->buffers[0], call->buffers[1], &status)) {
        if (OPAL_UNLIKELY(OMPI_SUCCESS != call->rc)) {
            *rc_p = fail_undescribed(module->team, call);
            module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
            return true;
        }
        status = mscclpp_collective(module->team, &call->args);
        if (OPAL_LIKELY(MSCCLPP_OK == status)) {
            mca_coll_mscclpp_count_served(module, call->args.coll);
            *rc_p = OMPI_SUCCESS;
            return true;
        }
        if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
            module->unserved = MCA_COLL_MSCCLPP_REASON_ALGORITHM;
            return false;
        }
    }
    if (MSCCLPP_OK == status) {
        module->unserved = MCA_COLL_MSCCLPP_REASON_COMMUNICATOR;
        return false;
    }
    module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
    *rc_p = mca_coll_mscclpp_status_to_ompi(status);
    return true;
}

/*
 * Decides whether the call, which begins now, is on device memory, and returns true if so. The first rank of the node
 * in the call decides for all; without a board, each rank decides for itself.
 */
static bool decide_on_device(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call)
{
    const bool on_device = find_whether_device(call, &call->args.out_allocation, &call->args.in_allocation);

    if (!has_board(module)) {
        return on_device;
    }
    return on_device || call->passes_data ? mscclpp_team_decide(module->team, module->current_call, on_device)
                                          : follow_peers(module);
}

/*
 * Hands a call to staging because no kernel knows its type or operation. All ranks find the same, so they need no
 * agreement. Each rank that passes device memory then stages its own part. Returns false, with the reason in
 * module->unserved. If the team is broken and this rank passes device memory, returns true, with the error in *rc_p.
 */
static bool leave_to_staging(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_native_t *call, int *rc_p)
{
    if (MCA_COLL_MSCCLPP_TEAM_BROKEN == module->team_state && passes_device(call)) {
        *rc_p = mca_coll_mscclpp_refuse_broken(module, mscclpp_coll_name(call->args.coll));
        return true;
    }
    module->unserved = call->unserved;
    return false;
}

/* Numbers the call first, even if no kernel serves it, so that it has the same number on all ranks. */
bool mca_coll_mscclpp_native_serve(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p)
{
    bool on_device;

    mca_coll_mscclpp_request_await(module);
    mca_coll_mscclpp_number_call(module);
    call->args.call = module->current_call;
    if (MCA_COLL_MSCCLPP_REASON_NONE != call->unserved) {
        return leave_to_staging(module, call, rc_p);
    }
    if (decide_to_agree(module, call)) {
        on_device = passes_device(call);
        *rc_p = agree_on_exchange(module, call, &on_device);
        if (OMPI_SUCCESS != *rc_p) {
            return true;
        }
    } else if (OPAL_UNLIKELY(mca_coll_mscclpp_state.config.mixed_buffers) && call->ranks > 1) {
        on_device = passes_device(call);
        *rc_p = mca_coll_mscclpp_agree_on_kind(module, &on_device);
        if (OMPI_SUCCESS != *rc_p) {
            return true;
        }
    } else {
        on_device = decide_on_device(module, call);
    }
    if (OPAL_LIKELY(!on_device)) {
        module->unserved = MCA_COLL_MSCCLPP_REASON_MIXED; /* if this rank passes device memory nevertheless */
        begin_host_call(module);
        return false;
    }
    return serve_on_device(module, call, rc_p);
}

/* The call got its number when its request was made. */
bool mca_coll_mscclpp_native_serve_later(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p)
{
    bool on_device;

    call->args.call = module->current_call;
    call->args.early = true;
    if (MCA_COLL_MSCCLPP_REASON_NONE != call->unserved) {
        return leave_to_staging(module, call, rc_p);
    }
    if (decide_to_agree(module, call)) {
        on_device = passes_device(call);
        *rc_p = agree_on_exchange(module, call, &on_device);
        if (OMPI_SUCCESS != *rc_p) {
            return true;
        }
    } else {
        on_device = decide_on_device(module, call);
    }
    if (!on_device) {
        module->unserved = MCA_COLL_MSCCLPP_REASON_MIXED; /* if this rank passes device memory nevertheless */
        announce_host(module);
        return false;
    }
    return serve_on_device(module, call, rc_p);
}

bool mca_coll_mscclpp_native_excludes_nonblocking(const mca_coll_mscclpp_module_t *module)
{
    /* With mixed_buffers, ranks would have to wait for one another before each call. */
    return mca_coll_mscclpp_state.config.mixed_buffers || ompi_comm_size(module->comm) > MSCCLPP_DEV_MAX_RANKS;
}

bool mca_coll_mscclpp_native_pass_at_once(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_native_t *call)
{
    if (passes_device(call)) {
        return false;
    }
    if (call->ranks > 1 && MCA_COLL_MSCCLPP_TEAM_NONE == module->team_state && !all_pass_data(call)) {
        return false; /* peers may pass device memory and ask this rank to agree */
    }
    mca_coll_mscclpp_number_call(module);
    return true;
}

/* Prepares the team for the call's arguments (`prepare` of mca_coll_mscclpp_lane_make). */
static mscclpp_status_t prepare_team(mscclpp_team_t *team, void *context)
{
    mca_coll_mscclpp_native_t *call = context;

    return mscclpp_collective_prepare(team, &call->args);
}

/*
 * mca_coll_mscclpp_lane_make replaces this rank's largest block by the largest of all ranks, so the size counts as
 * known. If kernels do not serve the call, *lane_p is NULL and the result is OMPI_SUCCESS.
 */
int mca_coll_mscclpp_native_make_lane(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call,
                                      mca_coll_mscclpp_lane_t **lane_p)
{
    *lane_p = NULL;
    if (MCA_COLL_MSCCLPP_REASON_NONE != call->unserved) {
        module->unserved = call->unserved;
        return OMPI_SUCCESS;
    }
    mca_coll_mscclpp_kept_mark(&call->args);
    return mca_coll_mscclpp_lane_make(module, call->buffers, passes_device(call), &call->args.largest_block,
                                      prepare_team, call, lane_p);
}

/*
 * Serves a start of a persistent request, in its fiber, as a call of the lane's team. Returns an MPI error code. A
 * start that cannot be described is counted, too, because the peers are told the number of the failed start.
 */
static int serve_again(mca_coll_mscclpp_request_t *request)
{
    mca_coll_mscclpp_lane_t *lane = request->lane;
    const mscclpp_coll_t coll = lane->kept->call.args.coll;
    mca_coll_mscclpp_native_t *call;
    int rc = OMPI_SUCCESS;
    const uint64_t number = mca_coll_mscclpp_lane_begin(lane, mscclpp_coll_name(coll), &rc);

    if (0 == number) {
        return rc;
    }
    call = mca_coll_mscclpp_kept_call(lane->kept);
    call->args.call = number;
    if (OMPI_SUCCESS != call->rc) {
        lane->broken = true;
        return fail_undescribed(lane->team, call);
    }
    return mca_coll_mscclpp_lane_finish(lane, coll, mscclpp_collective(lane->team, &call->args));
}

int mca_coll_mscclpp_native_make_request(mca_coll_mscclpp_lane_t *lane, mscclpp_coll_t coll,
                                         const mca_coll_mscclpp_passed_t *passed,
                                         mca_coll_mscclpp_describe_fn_t describe, uint64_t largest_block,
                                         ompi_request_t **request_p)
{
    const int rc = mca_coll_mscclpp_kept_make(lane->module, coll, passed, describe, largest_block, &lane->kept);
    mca_coll_mscclpp_request_t *request;

    if (OMPI_SUCCESS != rc) {
        mca_coll_mscclpp_lane_free(lane);
        return rc;
    }
    request = mca_coll_mscclpp_lane_request(lane, serve_again);
    if (request == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *request_p = &request->super.super;
    return OMPI_SUCCESS;
}
