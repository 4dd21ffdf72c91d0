/*
 * Describes queued calls with the functions fill_<name>, which describe blocking calls, too (define.h). The arguments
 * of a queued call are first copied to the fields that those functions read.
 */
#include "mca/coll/mscclpp/native/describe.h"

#include <string.h>

#include "mca/coll/mscclpp/native/queued.h"

typedef mca_coll_mscclpp_queue_call_t call_t;

/* The collectives other than all-reduce and barrier, with the functions that describe their calls. */
static const struct {
    mscclpp_coll_t coll;
    const mca_coll_mscclpp_describe_fn_t *describe;
} collectives[] = {
#define COLLECTIVE(id_, name_)                                                                                         \
    [MCA_COLL_MSCCLPP_QUEUE_##id_] = {MSCCLPP_COLL_##id_, &mca_coll_mscclpp_native_describe_##name_}
    COLLECTIVE(ALLGATHER, allgather),
    COLLECTIVE(ALLGATHERV, allgatherv),
    COLLECTIVE(ALLTOALL, alltoall),
    COLLECTIVE(BCAST, bcast),
    COLLECTIVE(GATHER, gather),
    COLLECTIVE(SCATTER, scatter),
    COLLECTIVE(REDUCE, reduce),
    COLLECTIVE(REDUCE_SCATTER, reduce_scatter),
    COLLECTIVE(REDUCE_SCATTER_BLOCK, reduce_scatter_block),
    COLLECTIVE(SCAN, scan),
    COLLECTIVE(EXSCAN, exscan),
    COLLECTIVE(GATHERV, gatherv),
    COLLECTIVE(SCATTERV, scatterv),
    COLLECTIVE(ALLTOALLV, alltoallv),
    COLLECTIVE(ALLTOALLW, alltoallw),
    COLLECTIVE(NEIGHBOR_ALLGATHER, neighbor_allgather),
    COLLECTIVE(NEIGHBOR_ALLGATHERV, neighbor_allgatherv),
    COLLECTIVE(NEIGHBOR_ALLTOALL, neighbor_alltoall),
    COLLECTIVE(NEIGHBOR_ALLTOALLV, neighbor_alltoallv),
    COLLECTIVE(NEIGHBOR_ALLTOALLW, neighbor_alltoallw),
#undef COLLECTIVE
};

/*
 * Copies the arguments of a queued call to all fields that the function fill_<name> of any collective reads.
 * Collectives with only one buffer, one count and one type have them on the receive side of a queued call (api.h).
 */
static void copy_arguments(const call_t *call, mca_coll_mscclpp_passed_t *passed)
{
    memset(passed, 0, sizeof(*passed));
    passed->sbuf = call->sendbuf;
    passed->rbuf = call->recvbuf;
    passed->buf = call->recvbuf;
    passed->scount = (mca_coll_mscclpp_count_t)call->sendcount;
    passed->rcount = (mca_coll_mscclpp_count_t)call->recvcount;
    passed->count = (mca_coll_mscclpp_count_t)call->recvcount;
    if (call->sendcounts != NULL) {
        MCA_COLL_MSCCLPP_COUNTS_OF(passed->scounts, call->sendcounts);
    }
    if (call->recvcounts != NULL) {
        MCA_COLL_MSCCLPP_COUNTS_OF(passed->rcounts, call->recvcounts);
    }
    /* A collective with only one list of displacements reads `displs`, whichever side the list belongs to. */
    if (call->sdispls != NULL) {
        MCA_COLL_MSCCLPP_DISPLS_OF(passed->sdispls, call->sdispls);
        MCA_COLL_MSCCLPP_DISPLS_OF(passed->displs, call->sdispls);
    }
    if (call->rdispls != NULL) {
        MCA_COLL_MSCCLPP_DISPLS_OF(passed->rdispls, call->rdispls);
        if (call->sdispls == NULL) {
            MCA_COLL_MSCCLPP_DISPLS_OF(passed->displs, call->rdispls);
        }
    }
    passed->stype = call->sendtype;
    passed->rtype = call->recvtype;
    passed->soffsets = call->soffsets;
    passed->roffsets = call->roffsets;
    passed->stypes = (struct ompi_datatype_t *const *)call->sendtypes;
    passed->rtypes = (struct ompi_datatype_t *const *)call->recvtypes;
    passed->type = call->recvtype;
    passed->op = call->op;
    passed->root = call->root;
}

bool mca_coll_mscclpp_queued_is_known(const call_t *call)
{
    return (size_t)call->coll < sizeof(collectives) / sizeof(collectives[0]);
}

bool mca_coll_mscclpp_queued_describe(mca_coll_mscclpp_module_t *module, const call_t *call,
                                      mca_coll_mscclpp_native_t *native)
{
    mca_coll_mscclpp_passed_t passed;

    /* Cannot fail: callers have checked that there are at most MSCCLPP_DEV_MAX_RANKS ranks. */
    (void)mca_coll_mscclpp_native_begin(native, module, collectives[call->coll].coll);
    copy_arguments(call, &passed);
    if (!(*collectives[call->coll].describe)(native, module, &passed)) {
        return false;
    }
    if (MSCCLPP_COLL_REDUCE_SCATTER == native->args.coll && !native->args.in_place &&
        0 == native->recv[ompi_comm_rank(module->comm)].bytes) {
        native->args.out = NULL; /* this rank receives nothing, so MPI allows any pointer here */
    }
    if (mca_coll_mscclpp_has_unknown_sizes(native)) {
        mca_coll_mscclpp_native_drop_empty(native);
    }
    if (call->is_size_agreed && !native->args.is_size_known) {
        native->args.is_size_known = true;
        native->args.largest_block = call->largest_block;
    }
    return true;
}
