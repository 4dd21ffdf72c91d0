/*
 * Nonblocking calls that no kernel serves. Open MPI's own component tells calls apart by counting them, so all ranks
 * have to hand them over in the same order. A call is therefore handed over after the calls in progress here, some of
 * which may be handed over, too. Persistent requests are counted when they are made, and that function may wait.
 */
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/stage/stage.h"

typedef mca_coll_mscclpp_count_t count_t;
typedef mca_coll_mscclpp_counts_t counts_t;
typedef mca_coll_mscclpp_displs_t displs_t;
typedef struct ompi_datatype_t type_t;
typedef mca_coll_mscclpp_module_t module_t;
typedef mca_coll_mscclpp_request_t request_t;

#define LIST(...) __VA_ARGS__

#define PREVIOUS(slot_, ...) (module->previous.slot_(__VA_ARGS__, module->previous.slot_##_module))

#define PASS(name_, params_, args_)                                                                                    \
    static int other_##name_(LIST params_, struct ompi_communicator_t *comm, ompi_request_t **request_p,               \
                             module_t *module)                                                                         \
    {                                                                                                                  \
        return mca_coll_mscclpp_state.stage_others                                                                     \
                   ? mca_coll_mscclpp_stage_i##name_(LIST args_, comm, request_p, &module->super)                      \
                   : (mca_coll_mscclpp_count_passed(MCA_COLL_MSCCLPP_COUNTED_##name_),                                 \
                      PREVIOUS(i##name_, LIST args_, comm, request_p));                                                \
    }                                                                                                                  \
                                                                                                                       \
    static int later_##name_(request_t *request)                                                                       \
    {                                                                                                                  \
        return other_##name_(MCA_COLL_MSCCLPP_KEPT(request, args_), request->module->comm, &request->inner,            \
                             request->module);                                                                         \
    }                                                                                                                  \
                                                                                                                       \
    static int start_##name_(LIST params_, struct ompi_communicator_t *comm, ompi_request_t **request_p,               \
                             mca_coll_base_module_t *base)                                                             \
    {                                                                                                                  \
        module_t *module = (module_t *)base;                                                                           \
        request_t *request;                                                                                            \
                                                                                                                       \
        if (mca_coll_mscclpp_request_none(module)) {                                                                   \
            return other_##name_(LIST args_, comm, request_p, module);                                                 \
        }                                                                                                              \
        request = mca_coll_mscclpp_request_new(module, later_##name_, false);                                          \
        if (request == NULL) {                                                                                         \
            return MPI_ERR_NO_MEM;                                                                                     \
        }                                                                                                              \
        MCA_COLL_MSCCLPP_KEEP(request, args_);                                                                         \
        return mca_coll_mscclpp_request_submit(request, request_p);                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static int make_##name_(LIST params_, struct ompi_communicator_t *comm, struct ompi_info_t *info,                  \
                            ompi_request_t **request_p, mca_coll_base_module_t *base)                                  \
    {                                                                                                                  \
        module_t *module = (module_t *)base;                                                                           \
                                                                                                                       \
        mca_coll_mscclpp_request_await(module);                                                                        \
        return mca_coll_mscclpp_state.stage_others                                                                     \
                   ? mca_coll_mscclpp_stage_##name_##_init(LIST args_, comm, info, request_p, base)                    \
                   : (mca_coll_mscclpp_count_passed(MCA_COLL_MSCCLPP_COUNTED_##name_),                                 \
                      PREVIOUS(name_##_init, LIST args_, comm, info, request_p));                                      \
    }                                                                                                                  \
    const mca_coll_mscclpp_fn_t(i##name_) mca_coll_mscclpp_native_i##name_ = start_##name_;                            \
    const mca_coll_mscclpp_fn_t(name_##_init) mca_coll_mscclpp_native_##name_##_init = make_##name_

PASS(neighbor_allgather, (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype),
     (sbuf, scount, stype, rbuf, rcount, rtype));
PASS(neighbor_allgatherv,
     (const void *sbuf, count_t scount, type_t *stype, void *rbuf, counts_t rcounts, displs_t displs, type_t *rtype),
     (sbuf, scount, stype, rbuf, rcounts, displs, rtype));
PASS(neighbor_alltoall, (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype),
     (sbuf, scount, stype, rbuf, rcount, rtype));
PASS(neighbor_alltoallv,
     (const void *sbuf, counts_t scounts, displs_t sdispls, type_t *stype, void *rbuf, counts_t rcounts,
      displs_t rdispls, type_t *rtype),
     (sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype));
PASS(neighbor_alltoallw,
     (const void *sbuf, counts_t scounts, const MPI_Aint *soffsets, type_t *const *stypes, void *rbuf, counts_t rcounts,
      const MPI_Aint *roffsets, type_t *const *rtypes),
     (sbuf, scounts, soffsets, stypes, rbuf, rcounts, roffsets, rtypes));

/* Has no buffers, and so no blocking counterpart here. */
static int barrier_later(request_t *request)
{
    module_t *module = request->module;

    return PREVIOUS(ibarrier, module->comm, &request->inner);
}

static int start_barrier(struct ompi_communicator_t *comm, ompi_request_t **request_p, mca_coll_base_module_t *base)
{
    module_t *module = (module_t *)base;
    request_t *request;

    if (mca_coll_mscclpp_request_none(module)) {
        return PREVIOUS(ibarrier, comm, request_p);
    }
    request = mca_coll_mscclpp_request_new(module, barrier_later, false);
    return request == NULL ? MPI_ERR_NO_MEM : mca_coll_mscclpp_request_submit(request, request_p);
}

static int make_barrier(struct ompi_communicator_t *comm, struct ompi_info_t *info, ompi_request_t **request_p,
                        mca_coll_base_module_t *base)
{
    module_t *module = (module_t *)base;

    mca_coll_mscclpp_request_await(module);
    return PREVIOUS(barrier_init, comm, info, request_p);
}

const mca_coll_mscclpp_fn_t(ibarrier) mca_coll_mscclpp_native_ibarrier = start_barrier;
const mca_coll_mscclpp_fn_t(barrier_init) mca_coll_mscclpp_native_barrier_init = make_barrier;
