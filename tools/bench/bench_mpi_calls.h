/*
 * MPI's function of each collective, and its relatives with other names and more arguments, on an operation's buffers.
 */
#ifndef TOOLS_BENCH_BENCH_MPI_CALLS_H
#define TOOLS_BENCH_BENCH_MPI_CALLS_H

#include "tools/bench/bench.h"

/* MPI's arguments of a call. */
typedef struct {
    const bench_layout_t *layout;
    MPI_Datatype type;
    MPI_Op op;
    int whole_count;             /* elements of the whole buffer */
    int block_count;             /* elements of a block, if all are equal */
    int own_count;               /* elements of this rank's block */
    const void *operand_to_root; /* send buffer of collectives whose result only the root gets */
    const void *send;            /* send buffer of collectives without a root */
    const void *scatter_send;    /* send buffer of a root that scatters */
    void *recv;                  /* receive buffer of all collectives but those that scatter from a root */
    void *scatter_recv;          /* receive buffer for what a root scatters */
} bench_mpi_args_t;

/* Returns MPI's arguments of a call. Where a collective has a root, only the root passes MPI_IN_PLACE. */
bench_mpi_args_t bench_mpi_args(const bench_operation_t *operation);

/*
 * Calls the function FUNCTION_(Name, name) of the collective in a_, with the arguments in a_ and those that follow, and
 * stores what it returns. Collectives without such a function leave result_ as it is.
 */
#define BENCH_MPI_CALL(result_, a_, FUNCTION_, ...)                                                                    \
    switch ((a_).layout->coll->coll) {                                                                                 \
    case MSCCLPP_COLL_ALLGATHER:                                                                                       \
        (result_) = FUNCTION_(Allgather, allgather)((a_).send, (a_).block_count, (a_).type, (a_).recv,                 \
                                                    (a_).block_count, (a_).type, __VA_ARGS__);                         \
        break;                                                                                                         \
    case MSCCLPP_COLL_ALLGATHERV:                                                                                      \
        (result_) =                                                                                                    \
            FUNCTION_(Allgatherv, allgatherv)((a_).send, (a_).own_count, (a_).type, (a_).recv, (a_).layout->counts,    \
                                              (a_).layout->displacements, (a_).type, __VA_ARGS__);                     \
        break;                                                                                                         \
    case MSCCLPP_COLL_REDUCE_SCATTER_BLOCK:                                                                            \
        (result_) = FUNCTION_(Reduce_scatter_block, reduce_scatter_block)((a_).send, (a_).recv, (a_).block_count,      \
                                                                          (a_).type, (a_).op, __VA_ARGS__);            \
        break;                                                                                                         \
    case MSCCLPP_COLL_REDUCE_SCATTER:                                                                                  \
        (result_) = FUNCTION_(Reduce_scatter, reduce_scatter)((a_).send, (a_).recv, (a_).layout->counts, (a_).type,    \
                                                              (a_).op, __VA_ARGS__);                                   \
        break;                                                                                                         \
    case MSCCLPP_COLL_BCAST:                                                                                           \
        (result_) = FUNCTION_(Bcast, bcast)((a_).recv, (a_).whole_count, (a_).type, (a_).layout->root, __VA_ARGS__);   \
        break;                                                                                                         \
    case MSCCLPP_COLL_REDUCE:                                                                                          \
        (result_) = FUNCTION_(Reduce, reduce)((a_).operand_to_root, (a_).recv, (a_).whole_count, (a_).type, (a_).op,   \
                                              (a_).layout->root, __VA_ARGS__);                                         \
        break;                                                                                                         \
    case MSCCLPP_COLL_ALLTOALL:                                                                                        \
        (result_) = FUNCTION_(Alltoall, alltoall)((a_).send, (a_).block_count, (a_).type, (a_).recv, (a_).block_count, \
                                                  (a_).type, __VA_ARGS__);                                             \
        break;                                                                                                         \
    case MSCCLPP_COLL_ALLTOALLV:                                                                                       \
        (result_) = FUNCTION_(Alltoallv, alltoallv)((a_).send, (a_).layout->counts, (a_).layout->displacements,        \
                                                    (a_).type, (a_).recv, (a_).layout->counts,                         \
                                                    (a_).layout->displacements, (a_).type, __VA_ARGS__);               \
        break;                                                                                                         \
    case MSCCLPP_COLL_ALLTOALLW:                                                                                       \
        (result_) = FUNCTION_(Alltoallw, alltoallw)((a_).send, (a_).layout->counts, (a_).layout->byte_displacements,   \
                                                    (a_).layout->types, (a_).recv, (a_).layout->counts,                \
                                                    (a_).layout->byte_displacements, (a_).layout->types, __VA_ARGS__); \
        break;                                                                                                         \
    case MSCCLPP_COLL_GATHER:                                                                                          \
        (result_) = FUNCTION_(Gather, gather)((a_).operand_to_root, (a_).block_count, (a_).type, (a_).recv,            \
                                              (a_).block_count, (a_).type, (a_).layout->root, __VA_ARGS__);            \
        break;                                                                                                         \
    case MSCCLPP_COLL_GATHERV:                                                                                         \
        (result_) = FUNCTION_(Gatherv, gatherv)((a_).operand_to_root, (a_).own_count, (a_).type, (a_).recv,            \
                                                (a_).layout->counts, (a_).layout->displacements, (a_).type,            \
                                                (a_).layout->root, __VA_ARGS__);                                       \
        break;                                                                                                         \
    case MSCCLPP_COLL_SCATTER:                                                                                         \
        (result_) = FUNCTION_(Scatter, scatter)((a_).scatter_send, (a_).block_count, (a_).type, (a_).scatter_recv,     \
                                                (a_).block_count, (a_).type, (a_).layout->root, __VA_ARGS__);          \
        break;                                                                                                         \
    case MSCCLPP_COLL_SCATTERV:                                                                                        \
        (result_) = FUNCTION_(Scatterv, scatterv)((a_).scatter_send, (a_).layout->counts, (a_).layout->displacements,  \
                                                  (a_).type, (a_).scatter_recv, (a_).own_count, (a_).type,             \
                                                  (a_).layout->root, __VA_ARGS__);                                     \
        break;                                                                                                         \
    case MSCCLPP_COLL_SCAN:                                                                                            \
        (result_) = FUNCTION_(Scan, scan)((a_).send, (a_).recv, (a_).whole_count, (a_).type, (a_).op, __VA_ARGS__);    \
        break;                                                                                                         \
    case MSCCLPP_COLL_EXSCAN:                                                                                          \
        (result_) =                                                                                                    \
            FUNCTION_(Exscan, exscan)((a_).send, (a_).recv, (a_).whole_count, (a_).type, (a_).op, __VA_ARGS__);        \
        break;                                                                                                         \
    case MSCCLPP_COLL_LAST:                                                                                            \
        (result_) =                                                                                                    \
            FUNCTION_(Allreduce, allreduce)((a_).send, (a_).recv, (a_).whole_count, (a_).type, (a_).op, __VA_ARGS__);  \
        break;                                                                                                         \
    default: /* no others are in the list */                                                                           \
        break;                                                                                                         \
    }

/* Calls a collective of neighbours, as BENCH_MPI_CALL calls the others. */
#define BENCH_MPI_NEIGHBOR_CALL(result_, a_, FUNCTION_, ...)                                                           \
    switch ((a_).layout->coll->coll) {                                                                                 \
    case MSCCLPP_COLL_NEIGHBOR_ALLGATHER:                                                                              \
        (result_) = FUNCTION_(Neighbor_allgather, neighbor_allgather)(                                                 \
            (a_).send, (a_).block_count, (a_).type, (a_).recv, (a_).block_count, (a_).type, __VA_ARGS__);              \
        break;                                                                                                         \
    case MSCCLPP_COLL_NEIGHBOR_ALLGATHERV:                                                                             \
        (result_) = FUNCTION_(Neighbor_allgatherv, neighbor_allgatherv)(                                               \
            (a_).send, (a_).own_count, (a_).type, (a_).recv, (a_).layout->counts, (a_).layout->displacements,          \
            (a_).type, __VA_ARGS__);                                                                                   \
        break;                                                                                                         \
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALL:                                                                               \
        (result_) = FUNCTION_(Neighbor_alltoall, neighbor_alltoall)((a_).send, (a_).block_count, (a_).type, (a_).recv, \
                                                                    (a_).block_count, (a_).type, __VA_ARGS__);         \
        break;                                                                                                         \
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALLV:                                                                              \
        (result_) = FUNCTION_(Neighbor_alltoallv, neighbor_alltoallv)(                                                 \
            (a_).send, (a_).layout->send_counts, (a_).layout->send_displacements, (a_).type, (a_).recv,                \
            (a_).layout->counts, (a_).layout->displacements, (a_).type, __VA_ARGS__);                                  \
        break;                                                                                                         \
    case MSCCLPP_COLL_NEIGHBOR_ALLTOALLW:                                                                              \
        (result_) = FUNCTION_(Neighbor_alltoallw, neighbor_alltoallw)(                                                 \
            (a_).send, (a_).layout->send_counts, (a_).layout->send_byte_displacements, (a_).layout->types, (a_).recv,  \
            (a_).layout->counts, (a_).layout->recv_byte_displacements, (a_).layout->types, __VA_ARGS__);               \
        break;                                                                                                         \
    default: /* no others are in the list */                                                                           \
        break;                                                                                                         \
    }

#endif
