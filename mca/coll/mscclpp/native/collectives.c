/*
 * The functions fill_<name>, which describe the arguments of each collective for kernels (define.h). `call` is the
 * description, which mca_coll_mscclpp_native_begin has begun, and `rank` is this rank. The other parameters are those
 * of MPI's function. Each function returns false if there is nothing to do. An error is stored in call->rc (native.h).
 *
 * args.count is the size of one block: in elements for reductions, otherwise in bytes. If blocks differ in size,
 * args.varied is set instead, and each block is described.
 *
 * All ranks decide in the same way whether a call passes the gate. The decision depends only on values that MPI
 * requires to be equal: the amount of data of a block, the type, the operation, the root. If a type has holes on one
 * rank only, this rank alone handles them.
 */
#include "mca/coll/mscclpp/native/define.h"
#include "mca/coll/mscclpp/native/gate.h"

/* Returns the address of element `index`. The address is computed as an integer, since `buffer` may be MPI_BOTTOM. */
static char *element_address(const void *buffer, ptrdiff_t index, type_t *type)
{
    ptrdiff_t lb, extent;

    ompi_datatype_get_extent(type, &lb, &extent);
    return (char *)((uintptr_t)buffer + (uintptr_t)(index * extent));
}

/*
 * Describes the input of a call in place: `count` elements in this rank's receive buffer, from element `first` on. The
 * output must have been described before. If the output is packed, the input is packed separately, and for kernels the
 * call is not in place.
 */
static void send_in_place(call_t *call, void *rbuf, size_t first, size_t count, type_t *type)
{
    const bool is_packed = call->args.out_pack_count > 0;

    call->args.in_place = !is_packed;
    /* All ranks choose the algorithm by this field, which must not depend on the holes in this rank's type. */
    call->args.passed_in_place = true;
    if (is_packed) {
        mca_coll_mscclpp_native_send(call, element_address(rbuf, (ptrdiff_t)first, type), count, type);
    }
    call->buffers[0] = NULL;
}

/* Describes MPI_Allgather. In place, this rank's block is already in the receive buffer. */
static bool fill_allgather(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                           count_t rcount, type_t *rtype)
{
    call->args.count = mca_coll_mscclpp_packed_bytes((size_t)rcount, rtype);
    mca_coll_mscclpp_native_recv(call, rbuf, (size_t)rcount * (size_t)call->ranks, rtype);
    if (MPI_IN_PLACE == sbuf) {
        send_in_place(call, rbuf, (size_t)rank * (size_t)rcount, (size_t)rcount, rtype);
    } else {
        mca_coll_mscclpp_native_send(call, sbuf, (size_t)scount, stype);
    }
    return 0 != call->args.count;
}

/* Describes MPI_Alltoall. In place, the blocks that are received replace those that are sent. */
static bool fill_alltoall(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                          count_t rcount, type_t *rtype)
{
    const size_t ranks = (size_t)call->ranks;

    (void)rank;
    call->args.count = mca_coll_mscclpp_packed_bytes((size_t)rcount, rtype);
    mca_coll_mscclpp_native_recv(call, rbuf, (size_t)rcount * ranks, rtype);
    if (MPI_IN_PLACE == sbuf) {
        send_in_place(call, rbuf, 0, (size_t)rcount * ranks, rtype);
    } else {
        mca_coll_mscclpp_native_send(call, sbuf, (size_t)scount * ranks, stype);
    }
    return 0 != call->args.count;
}

/* Describes MPI_Bcast: the root only sends, and the other ranks only receive. */
static bool fill_bcast(call_t *call, int rank, void *buf, count_t count, type_t *type, int root)
{
    call->args.root = root;
    call->args.count = mca_coll_mscclpp_packed_bytes((size_t)count, type);
    if (rank == root) {
        mca_coll_mscclpp_native_send(call, buf, (size_t)count, type);
    } else {
        mca_coll_mscclpp_native_recv(call, buf, (size_t)count, type);
    }
    return 0 != call->args.count;
}

/*
 * Describes MPI_Gather. The block's size comes from the arguments that are significant to MPI: the root's for
 * receiving, the others' for sending.
 */
static bool fill_gather(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                        count_t rcount, type_t *rtype, int root)
{
    call->args.root = root;
    if (rank == root) {
        call->args.count = mca_coll_mscclpp_packed_bytes((size_t)rcount, rtype);
        mca_coll_mscclpp_native_recv(call, rbuf, (size_t)rcount * (size_t)call->ranks, rtype);
    } else {
        call->args.count = mca_coll_mscclpp_packed_bytes((size_t)scount, stype);
    }
    if (rank == root && MPI_IN_PLACE == sbuf) {
        send_in_place(call, rbuf, (size_t)rank * (size_t)rcount, (size_t)rcount, rtype);
    } else {
        mca_coll_mscclpp_native_send(call, sbuf, (size_t)scount, stype);
    }
    return 0 != call->args.count;
}

/*
 * Describes MPI_Scatter. The block's size comes from the arguments that are significant to MPI: the root's for sending,
 * the others' for receiving.
 */
static bool fill_scatter(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                         count_t rcount, type_t *rtype, int root)
{
    call->args.root = root;
    if (rank == root) {
        call->args.count = mca_coll_mscclpp_packed_bytes((size_t)scount, stype);
        mca_coll_mscclpp_native_send(call, sbuf, (size_t)scount * (size_t)call->ranks, stype);
    } else {
        call->args.count = mca_coll_mscclpp_packed_bytes((size_t)rcount, rtype);
    }
    if (rank == root && MPI_IN_PLACE == rbuf) {
        call->args.in_place = true;
    } else {
        mca_coll_mscclpp_native_recv(call, rbuf, (size_t)rcount, rtype);
    }
    return 0 != call->args.count;
}

/*
 * Describes the input of an all-gather in place whose output is packed: this rank's own block, which goes to all ranks
 * and is packed separately.
 */
static void send_own_block(call_t *call, const mca_coll_mscclpp_blocks_t *blocks, int rank)
{
    const ptrdiff_t displ = mca_coll_mscclpp_displ_at(blocks->displs, rank);

    mca_coll_mscclpp_native_send_one(call, element_address(blocks->address, displ, blocks->type),
                                     (size_t)mca_coll_mscclpp_count_at(blocks->counts, rank), blocks->type,
                                     MCA_COLL_MSCCLPP_ALL_PEERS);
    call->buffers[0] = NULL;
}

/* Describes MPI_Allgatherv. All ranks know the counts of all ranks, so the largest block is known, too. */
static bool fill_allgatherv(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                            counts_t rcounts, displs_t displs, type_t *rtype)
{
    const mca_coll_mscclpp_blocks_t blocks = {.address = rbuf,
                                              .counts = rcounts,
                                              .displs = displs,
                                              .type = rtype,
                                              .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    call->args.varied = true;
    mca_coll_mscclpp_native_recv_blocks(call, &blocks);
    if (MPI_IN_PLACE != sbuf) {
        mca_coll_mscclpp_native_send_one(call, sbuf, (size_t)scount, stype, MCA_COLL_MSCCLPP_ALL_PEERS);
    } else if (call->args.out_pack_count > 0) {
        send_own_block(call, &blocks, rank);
    } else {
        /* This rank's block goes to all ranks from its place in the output. */
        call->args.in_place = true;
        call->args.send = call->send;
        for (int peer = 0; peer < call->ranks; ++peer) {
            call->send[peer] = call->recv[rank];
        }
    }
    return 0 != call->args.largest_block;
}

/*
 * Describes an exchange in which only the sender and the receiver of a block know its size. In place, the blocks that a
 * rank receives replace the blocks that the rank sends. Always returns true, since no rank can tell that all blocks are
 * empty.
 */
static bool fill_exchange(call_t *call, const mca_coll_mscclpp_blocks_t *send, const mca_coll_mscclpp_blocks_t *recv)
{
    call->args.varied = true;
    call->args.is_size_known = false;
    call->args.passed_in_place = MPI_IN_PLACE == send->address;
    mca_coll_mscclpp_native_recv_blocks(call, recv);
    if (!call->args.passed_in_place) {
        mca_coll_mscclpp_native_send_blocks(call, send);
    } else if (call->args.out_pack_count > 0) {
        mca_coll_mscclpp_native_send_blocks(call, recv);
        call->args.send_runs = NULL; /* so that all data are packed before received data overwrite them */
        call->buffers[0] = NULL;
    } else {
        call->args.in_place = true;
        call->args.send = call->recv;
    }
    return true;
}

/* Describes MPI_Alltoallv: displacements are in extents of the buffer's type. */
static bool fill_alltoallv(call_t *call, int rank, const void *sbuf, counts_t scounts, displs_t sdispls, type_t *stype,
                           void *rbuf, counts_t rcounts, displs_t rdispls, type_t *rtype)
{
    const mca_coll_mscclpp_blocks_t send = {.address = sbuf,
                                            .counts = scounts,
                                            .displs = sdispls,
                                            .type = stype,
                                            .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};
    const mca_coll_mscclpp_blocks_t recv = {.address = rbuf,
                                            .counts = rcounts,
                                            .displs = rdispls,
                                            .type = rtype,
                                            .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    (void)rank;
    return fill_exchange(call, &send, &recv);
}

/* Describes MPI_Alltoallw: each block has its own type, and displacements are in bytes. */
static bool fill_alltoallw(call_t *call, int rank, const void *sbuf, counts_t scounts, displs_t sdispls,
                           type_t *const *stypes, void *rbuf, counts_t rcounts, displs_t rdispls, type_t *const *rtypes)
{
    const mca_coll_mscclpp_blocks_t send = {.address = sbuf,
                                            .counts = scounts,
                                            .displs = sdispls,
                                            .types = stypes,
                                            .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};
    const mca_coll_mscclpp_blocks_t recv = {.address = rbuf,
                                            .counts = rcounts,
                                            .displs = rdispls,
                                            .types = rtypes,
                                            .unmoved_block = MCA_COLL_MSCCLPP_NO_BLOCK};

    (void)rank;
    return fill_exchange(call, &send, &recv);
}

/*
 * Describes MPI_Gatherv. In place, the root's own block is not moved. Always returns true: only the root knows all
 * sizes, so no other rank can tell that there is nothing to do.
 */
static bool fill_gatherv(call_t *call, int rank, const void *sbuf, count_t scount, type_t *stype, void *rbuf,
                         counts_t rcounts, displs_t displs, type_t *rtype, int root)
{
    const mca_coll_mscclpp_blocks_t blocks = {.address = rbuf,
                                              .counts = rcounts,
                                              .displs = displs,
                                              .type = rtype,
                                              .unmoved_block = MPI_IN_PLACE == sbuf ? rank : MCA_COLL_MSCCLPP_NO_BLOCK};

    call->args.root = root;
    call->args.varied = true;
    call->args.is_size_known = false;
    if (rank != root) {
        mca_coll_mscclpp_native_send_one(call, sbuf, (size_t)scount, stype, root);
        return true;
    }
    mca_coll_mscclpp_native_recv_blocks(call, &blocks);
    if (MPI_IN_PLACE != sbuf) {
        mca_coll_mscclpp_native_send_one(call, sbuf, (size_t)scount, stype, root);
    } else {
        call->args.in_place = true;
    }
    return true;
}

/*
 * Describes MPI_Scatterv. In place, the root's own block is not moved. Always returns true, for the reason given at
 * fill_gatherv.
 */
static bool fill_scatterv(call_t *call, int rank, const void *sbuf, counts_t scounts, displs_t displs, type_t *stype,
                          void *rbuf, count_t rcount, type_t *rtype, int root)
{
    const mca_coll_mscclpp_blocks_t blocks = {.address = sbuf,
                                              .counts = scounts,
                                              .displs = displs,
                                              .type = stype,
                                              .unmoved_block = MPI_IN_PLACE == rbuf ? rank : MCA_COLL_MSCCLPP_NO_BLOCK};

    call->args.root = root;
    call->args.varied = true;
    call->args.is_size_known = false;
    if (rank == root) {
        mca_coll_mscclpp_native_send_blocks(call, &blocks);
    }
    if (rank == root && MPI_IN_PLACE == rbuf) {
        call->args.in_place = true;
    } else {
        mca_coll_mscclpp_native_recv_one(call, rbuf, (size_t)rcount, rtype, root);
    }
    return true;
}

/*
 * Describes the type, operation and buffers of a reduction. `rbuf` is NULL if this rank has no receive buffer. Sets
 * call->unserved to the reason if kernels do not know the type or the operation; the call is then staged.
 */
static void fill_reduction(call_t *call, const void *sbuf, void *rbuf, type_t *type, struct ompi_op_t *op)
{
    call->args.dtype = mca_coll_mscclpp_dtype(type);
    call->args.op = mca_coll_mscclpp_op(op);
    call->unserved = mca_coll_mscclpp_why_not_combined(call->args.dtype, call->args.op);
    call->args.in_place = MPI_IN_PLACE == sbuf;
    call->args.passed_in_place = call->args.in_place;
    call->args.in = MPI_IN_PLACE == sbuf ? NULL : sbuf;
    call->args.out = rbuf;
    call->buffers[0] = call->args.in;
    call->buffers[1] = rbuf;
    call->passes_data = true;
}

/* Describes MPI_Reduce. Only the root has a receive buffer. */
static bool fill_reduce(call_t *call, int rank, const void *sbuf, void *rbuf, count_t count, type_t *type,
                        struct ompi_op_t *op, int root)
{
    fill_reduction(call, sbuf, rank == root ? rbuf : NULL, type, op);
    call->args.root = root;
    call->args.count = (uint64_t)count;
    return 0 != count;
}

/*
 * Describes a reduction whose result is divided into adjacent blocks: for each rank a block of count_of(counts, rank)
 * elements. A block ends with the data of its last element, whose padding is left out. Returns false if all blocks
 * are empty. call->unserved must be NONE, since only types that kernels know have an extent here.
 */
static bool fill_reduced_blocks(call_t *call, int rank, uint64_t (*count_of)(const void *counts, int peer),
                                const void *counts)
{
    const uint64_t extent = mscclpp_dev_dtype_extent(call->args.dtype);
    const uint64_t padding = extent - mscclpp_dev_dtype_true_extent(call->args.dtype);
    uint64_t elements_before = 0;

    call->args.varied = true;
    call->args.send = call->send;
    call->args.recv = call->recv;
    for (int peer = 0; peer < call->ranks; ++peer) {
        const uint64_t count = count_of(counts, peer);

        call->send[peer].offset = elements_before * extent;
        call->send[peer].bytes = 0 == count ? 0 : count * extent - padding;
        elements_before += count;
        if (call->send[peer].bytes > call->args.largest_block) {
            call->args.largest_block = call->send[peer].bytes;
        }
    }
    for (int peer = 0; peer < call->ranks; ++peer) {
        call->recv[peer].offset = 0;
        call->recv[peer].bytes = call->send[rank].bytes;
    }
    return 0 != elements_before;
}

/* Returns the count that all blocks have. `counts` points to a count_t. A count_of of fill_reduced_blocks. */
static uint64_t same_count(const void *counts, int peer)
{
    (void)peer;
    return (uint64_t) * (const count_t *)counts;
}

/* Returns the count of the peer's block. `counts` points to a counts_t. A count_of of fill_reduced_blocks. */
static uint64_t count_at(const void *counts, int peer)
{
    return (uint64_t)mca_coll_mscclpp_count_at(*(const counts_t *)counts, peer);
}

/*
 * Describes MPI_Reduce_scatter_block, whose blocks all have the same size. Each block is described if elements end with
 * padding, because the distance between two blocks is then larger than a block.
 */
static bool fill_reduce_scatter_block(call_t *call, int rank, const void *sbuf, void *rbuf, count_t rcount,
                                      type_t *type, struct ompi_op_t *op)
{
    fill_reduction(call, sbuf, rbuf, type, op);
    call->args.count = (uint64_t)rcount;
    if (MCA_COLL_MSCCLPP_REASON_NONE == call->unserved &&
        mscclpp_dev_dtype_extent(call->args.dtype) != mscclpp_dev_dtype_true_extent(call->args.dtype)) {
        return fill_reduced_blocks(call, rank, same_count, &rcount);
    }
    return 0 != rcount;
}

/* Describes MPI_Reduce_scatter: the result is divided into blocks of different sizes. A staged call needs no blocks. */
static bool fill_reduce_scatter(call_t *call, int rank, const void *sbuf, void *rbuf, counts_t rcounts, type_t *type,
                                struct ompi_op_t *op)
{
    fill_reduction(call, sbuf, rbuf, type, op);
    return MCA_COLL_MSCCLPP_REASON_NONE != call->unserved || fill_reduced_blocks(call, rank, count_at, &rcounts);
}

/* Describes MPI_Scan, whose buffers are significant on all ranks. */
static bool fill_scan(call_t *call, int rank, const void *sbuf, void *rbuf, count_t count, type_t *type,
                      struct ompi_op_t *op)
{
    (void)rank;
    fill_reduction(call, sbuf, rbuf, type, op);
    call->args.count = (uint64_t)count;
    return 0 != count;
}

/*
 * Describes MPI_Exscan. The receive buffer of rank 0 is not significant, unless rank 0 works in place and has its
 * operand there.
 */
static bool fill_exscan(call_t *call, int rank, const void *sbuf, void *rbuf, count_t count, type_t *type,
                        struct ompi_op_t *op)
{
    fill_reduction(call, sbuf, 0 == rank && MPI_IN_PLACE != sbuf ? NULL : rbuf, type, op);
    call->args.count = (uint64_t)count;
    return 0 != count;
}

NATIVE(allgather, ALLGATHER,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype),
       (sbuf, scount, stype, rbuf, rcount, rtype));
NATIVE(allgatherv, ALLGATHERV,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, counts_t rcounts, displs_t displs, type_t *rtype),
       (sbuf, scount, stype, rbuf, rcounts, displs, rtype));
NATIVE(alltoall, ALLTOALL, (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype),
       (sbuf, scount, stype, rbuf, rcount, rtype));
NATIVE(alltoallv, ALLTOALLV,
       (const void *sbuf, counts_t scounts, displs_t sdispls, type_t *stype, void *rbuf, counts_t rcounts,
        displs_t rdispls, type_t *rtype),
       (sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype));
NATIVE(alltoallw, ALLTOALLW,
       (const void *sbuf, counts_t scounts, displs_t sdispls, type_t *const *stypes, void *rbuf, counts_t rcounts,
        displs_t rdispls, type_t *const *rtypes),
       (sbuf, scounts, sdispls, stypes, rbuf, rcounts, rdispls, rtypes));
NATIVE(bcast, BCAST, (void *buf, count_t count, type_t *type, int root), (buf, count, type, root));
NATIVE(gather, GATHER,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype, int root),
       (sbuf, scount, stype, rbuf, rcount, rtype, root));
NATIVE(gatherv, GATHERV,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, counts_t rcounts, displs_t displs, type_t *rtype,
        int root),
       (sbuf, scount, stype, rbuf, rcounts, displs, rtype, root));
NATIVE(scatter, SCATTER,
       (const void *sbuf, count_t scount, type_t *stype, void *rbuf, count_t rcount, type_t *rtype, int root),
       (sbuf, scount, stype, rbuf, rcount, rtype, root));
NATIVE(scatterv, SCATTERV,
       (const void *sbuf, counts_t scounts, displs_t displs, type_t *stype, void *rbuf, count_t rcount, type_t *rtype,
        int root),
       (sbuf, scounts, displs, stype, rbuf, rcount, rtype, root));
NATIVE(reduce, REDUCE, (const void *sbuf, void *rbuf, count_t count, type_t *type, struct ompi_op_t *op, int root),
       (sbuf, rbuf, count, type, op, root));
NATIVE(reduce_scatter, REDUCE_SCATTER,
       (const void *sbuf, void *rbuf, counts_t rcounts, type_t *type, struct ompi_op_t *op),
       (sbuf, rbuf, rcounts, type, op));
NATIVE(reduce_scatter_block, REDUCE_SCATTER_BLOCK,
       (const void *sbuf, void *rbuf, count_t rcount, type_t *type, struct ompi_op_t *op),
       (sbuf, rbuf, rcount, type, op));
NATIVE(scan, SCAN, (const void *sbuf, void *rbuf, count_t count, type_t *type, struct ompi_op_t *op),
       (sbuf, rbuf, count, type, op));
NATIVE(exscan, EXSCAN, (const void *sbuf, void *rbuf, count_t count, type_t *type, struct ompi_op_t *op),
       (sbuf, rbuf, count, type, op));
