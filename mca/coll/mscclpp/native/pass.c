/*
 * Nonblocking barriers, which no kernel serves. Open MPI's own component tells calls apart by counting them, so all
 * ranks have to hand them over in the same order. A call is therefore handed over after the calls in progress here,
 * some of which may be handed over, too. Persistent requests are counted when they are made, and that function may
 * wait.
 */
#include "mca/coll/mscclpp/native/native.h"

typedef mca_coll_mscclpp_module_t module_t;
typedef mca_coll_mscclpp_request_t request_t;

#define PREVIOUS(slot_, ...) (module->previous.slot_(__VA_ARGS__, module->previous.slot_##_module))

/* Hands a barrier to the component before this one when it has its turn. Returns an MPI error code. */
static int barrier_later(request_t *request)
{
    module_t *module = request->module;

    return PREVIOUS(ibarrier, module->comm, &request->inner);
}

/* Hands a call of MPI_Ibarrier to the component before this one, at once or, if calls are in progress, after these. */
static int start_barrier(struct ompi_communicator_t *comm, ompi_request_t **request_p, mca_coll_base_module_t *base)
{
    module_t *module = (module_t *)base;
    request_t *request;

    if (mca_coll_mscclpp_request_is_idle(module)) {
        return PREVIOUS(ibarrier, comm, request_p);
    }
    request = mca_coll_mscclpp_request_new(module, barrier_later, false);
    return request == NULL ? MPI_ERR_NO_MEM : mca_coll_mscclpp_request_submit(request, request_p);
}

/* Waits for the calls in progress, and then hands a call of MPI_Barrier_init over. */
static int make_barrier(struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request_p,
                        mca_coll_base_module_t *base)
{
    module_t *module = (module_t *)base;

    mca_coll_mscclpp_request_await(module);
    return PREVIOUS(barrier_init, comm, info, request_p);
}

const mca_coll_mscclpp_fn_t(ibarrier) mca_coll_mscclpp_native_ibarrier = start_barrier;
const mca_coll_mscclpp_fn_t(barrier_init) mca_coll_mscclpp_native_barrier_init = make_barrier;
