/* The gate: which calls kernels serve, and what their failures become. */
#include "mca/coll/mscclpp/native/native.h"

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/common/base/log.h"

#define AGREE_ALWAYS 16 /* calls whose sizes only pairs know, and that all agree upon, before there is a team */
#define AGREE_EVERY 64  /* and then of so many calls one */

/* Ranks of this node can agree on the way of a call once one on device buffers has made them a team. */
static bool have_board(const mca_coll_mscclpp_module_t *module)
{
    return NULL != module->team && MCA_COLL_MSCCLPP_TEAM_READY == module->team_state;
}

/*
 * A rank that sends and receives nothing does what its peers do, as they may wait for it. Those that pass nothing
 * either decide nothing: if all do, the call takes the way of host buffers.
 */
static bool follow(mca_coll_mscclpp_module_t *module)
{
    mscclpp_team_t *team = module->team;
    bool device = false;

    mscclpp_team_announce(team, module->calls, MSCCLPP_CALL_EITHER);
    while (!mscclpp_team_is_decided(team, module->calls, &device) &&
           mscclpp_team_awaits_announcements(team, module->calls)) {
        opal_progress();
    }
    /* Who announces has decided before, but perhaps after the look above. */
    (void)mscclpp_team_is_decided(team, module->calls, &device);
    return device;
}

/* Yields on all ranks whether any of them passes device memory, and the size of the largest block. */
static int agree_on_exchange(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, bool *device_p)
{
    uint64_t mine[2] = {*device_p, call->args.most}, all[2] = {0, 0};
    const int rc = module->previous.allreduce(mine, all, 2, &ompi_mpi_uint64_t.dt, &ompi_mpi_op_max.op, module->comm,
                                              module->previous.allreduce_module);

    *device_p = 0 != all[0];
    call->args.most = all[1];
    call->args.known = true;
    return rc;
}

/* Of a rank that passes some data only the buffers count that have any: another one may be any pointer. */
static bool is_device(const mca_coll_mscclpp_native_t *call)
{
    return call->touches ? mca_coll_mscclpp_is_device(call->args.out) || mca_coll_mscclpp_is_device(call->args.in)
                         : mca_coll_mscclpp_is_device(call->buffers[1]) || mca_coll_mscclpp_is_device(call->buffers[0]);
}

/*
 * Where only the two ranks of a pair know its size, a rank that passes nothing cannot tell whether its peers pass
 * device memory. On one node it looks at the team's board. But ranks of other nodes do not see it, and to make the team
 * takes all ranks. A program that passes host memory only, and so never has a team, would pay in every call: after the
 * first few, only some are agreed upon, and in the others device memory is staged.
 */
static bool agrees_first(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call)
{
    if (call->args.known || call->ranks < 2) {
        return false;
    }
    if (have_board(module)) {
        return mscclpp_team_spans_nodes(module->team);
    }
    if (MCA_COLL_MSCCLPP_TEAM_NONE != module->team_state || mca_coll_mscclpp_state.finalizing) {
        return false;
    }
    ++module->calls_of_pairs;
    if (module->calls_of_pairs <= AGREE_ALWAYS || 0 == module->calls_of_pairs % AGREE_EVERY) {
        return true;
    }
    call->staged = true;
    return false;
}

/* Tells peers, and whoever looks for mixtures, that this rank is about to be in the host call of another component. */
static void begin_host_call(mca_coll_mscclpp_module_t *module)
{
    if (NULL != module->team) {
        mscclpp_team_announce(module->team, module->calls, MSCCLPP_CALL_HOST);
    }
    /* The number of the call is written before: whoever looks for mixtures and sees the flag sees its number. */
    __atomic_store_n(&module->in_host_call, 1, __ATOMIC_RELEASE);
}

void mca_coll_mscclpp_native_leave(mca_coll_mscclpp_module_t *module)
{
    __atomic_store_n(&module->in_host_call, 0, __ATOMIC_RELEASE);
}

static bool on_device(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p)
{
    mscclpp_status_t status;

    if (MCA_COLL_MSCCLPP_TEAM_BROKEN == module->team_state) {
        *rc_p = mca_coll_mscclpp_refuse_broken(module, mscclpp_coll_name(call->args.coll));
        return true;
    }
    if (call->staged) {
        return false;
    }
    if (mca_coll_mscclpp_have_team(module, call->buffers[0], call->buffers[1], &status)) {
        status = mscclpp_collective(module->team, &call->args);
        if (OPAL_LIKELY(MSCCLPP_OK == status)) {
            mca_coll_mscclpp_count_served(module, call->args.coll);
            *rc_p = OMPI_SUCCESS;
            return true;
        }
        if (MSCCLPP_ERR_NOT_SUPPORTED == status) {
            return false;
        }
    }
    if (MSCCLPP_OK == status) {
        return false;
    }
    module->team_state = MCA_COLL_MSCCLPP_TEAM_BROKEN;
    *rc_p = mca_coll_mscclpp_status_to_ompi(status);
    return true;
}

bool mca_coll_mscclpp_native_serve(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_native_t *call, int *rc_p)
{
    bool device = is_device(call);

    __atomic_store_n(&module->calls, module->calls + 1, __ATOMIC_RELAXED);
    call->args.call = module->calls;
    if (agrees_first(module, call)) {
        *rc_p = agree_on_exchange(module, call, &device);
        if (OMPI_SUCCESS != *rc_p) {
            return true;
        }
    } else if (OPAL_UNLIKELY(mca_coll_mscclpp_state.config.mixed_buffers) && call->ranks > 1) {
        *rc_p = mca_coll_mscclpp_agree_on_kind(module, &device);
        if (OMPI_SUCCESS != *rc_p) {
            return true;
        }
    } else if (have_board(module)) {
        device = device || call->touches ? mscclpp_team_decide(module->team, module->calls, device) : follow(module);
    }
    if (OPAL_LIKELY(!device)) {
        begin_host_call(module);
        return false;
    }
    if (OMPI_SUCCESS != call->rc) {
        *rc_p = call->rc;
        return true;
    }
    return on_device(module, call, rc_p);
}
