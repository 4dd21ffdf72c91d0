/* What all collectives with kernels need before they can serve a call. */
#ifndef MCA_COLL_MSCCLPP_NATIVE_GATE_H
#define MCA_COLL_MSCCLPP_NATIVE_GATE_H

#include "mca/coll/mscclpp/oob/oob.h"
#include "mca/coll/mscclpp/ompi/module.h"

#include "device/launch/launch.h"

/*
 * Lets all ranks agree on the kind of memory (allreduce.c): sets *on_device_p to whether any rank passes device memory.
 * The caller first sets *on_device_p to whether this rank does. Collective, and waits for all ranks. Returns an MPI
 * error code; after an error *on_device_p is not valid.
 */
int mca_coll_mscclpp_agree_on_kind(mca_coll_mscclpp_module_t *module, bool *on_device_p);

/*
 * Makes the team if this is the communicator's first call on device buffers (bind.c). Making the team waits for all
 * ranks. Returns true if there is a team to serve the call. Otherwise *status_p is MSCCLPP_OK if the call can be served
 * in another way, or an error. The caller has checked that the communicator is not broken: on a broken communicator, no
 * call may be served in another way.
 */
bool mca_coll_mscclpp_ensure_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf,
                                  mscclpp_status_t *status_p);

/*
 * Makes a new team of the communicator, for the device that holds the buffers (make.c). Collective, and waits. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED on all ranks or none. `port`: see mca/coll/mscclpp/oob/oob.h.
 */
mscclpp_status_t mca_coll_mscclpp_make_team(mca_coll_mscclpp_module_t *module, const void *sendbuf, const void *recvbuf,
                                            mca_coll_mscclpp_oob_port_t *port, mscclpp_team_t **team_p);

/* Returns true if a module exists (NULL: it does not) and its calls may still make teams. */
static inline bool mca_coll_mscclpp_may_serve(const mca_coll_mscclpp_module_t *module)
{
    return module != NULL && mca_coll_mscclpp_state.gpu != NULL && !mca_coll_mscclpp_state.finalizing;
}

/* Returns the reason why kernels of this device cannot combine data of this type with this operation; NONE: they can.
 */
static inline mca_coll_mscclpp_reason_t mca_coll_mscclpp_why_not_combined(mscclpp_dtype_t dtype, mscclpp_op_t op)
{
    if (MSCCLPP_OP_LAST == op) {
        return MCA_COLL_MSCCLPP_REASON_OPERATION;
    }
    return mscclpp_dev_supports(dtype, op, mca_coll_mscclpp_state.gpu->twin) ? MCA_COLL_MSCCLPP_REASON_NONE
                                                                             : MCA_COLL_MSCCLPP_REASON_TYPE;
}

/*
 * Gives the next number to a blocking call, which runs at once. Relaxed stores are enough: native/mixture.c trusts the
 * number only after an acquire load of in_host_call, which this thread stores later, with release order.
 */
static inline void mca_coll_mscclpp_number_call(mca_coll_mscclpp_module_t *module)
{
    const uint64_t call = module->calls + 1;

    __atomic_store_n(&module->calls, call, __ATOMIC_RELAXED);
    __atomic_store_n(&module->current_call, call, __ATOMIC_RELAXED);
}

/*
 * Returns the MPI error code for a call on a communicator that an earlier call has broken. The first such call is
 * logged, with `collective` as its name.
 */
int mca_coll_mscclpp_refuse_broken(mca_coll_mscclpp_module_t *module, const char *collective);

/*
 * Frees the module's team, its lanes, its channels and its messages. Local, and never waits for other ranks. The
 * communicator may already be unusable.
 */
void mca_coll_mscclpp_module_release_team(mca_coll_mscclpp_module_t *module);

/* Makes MPI_Finalize free the teams that are left. Returns an Open MPI error code. */
int mca_coll_mscclpp_bind_self(void);

/*
 * Makes MPI_Comm_free free the module's team, and MPI_Finalize the teams that are left. Returns an Open MPI error code.
 */
int mca_coll_mscclpp_bind(mca_coll_mscclpp_module_t *module);

#endif
