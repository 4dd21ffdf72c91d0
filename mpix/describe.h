/* Describes calls of collectives to the component, for queued calls and for persistent requests. */
#ifndef MPIX_DESCRIBE_H
#define MPIX_DESCRIBE_H

#include "mpix/internal.h"

/*
 * The send or receive arguments of a collective that moves blocks. Arguments that the collective does not have are 0 or
 * NULL.
 */
typedef struct {
    const void *buffer;
    MPI_Count count;   /* elements of each block, if all have one size */
    const int *counts; /* elements of each block, if their sizes differ */
    const int *displs; /* the displacements of these blocks, in the units of MPI */
    MPI_Datatype type;
    const MPI_Datatype *types; /* of alltoallw and neighbor_alltoallw */
} mpix_side_t;

/* The root of collectives without one. It is one that every communicator has, so it needs no check of its own. */
#define MPIX_NO_ROOT 0

/*
 * Each of these functions fills in a call from MPI's arguments. Returns MPI_SUCCESS, or the error class of the first
 * argument that is not allowed, after the communicator's error handler was called. `coll` is MCA_COLL_MSCCLPP_QUEUE_...
 */
int mpix_describe_barrier(mca_coll_mscclpp_queue_call_t *call, MPI_Comm comm);
int mpix_describe_bcast(mca_coll_mscclpp_queue_call_t *call, void *buffer, MPI_Count count, MPI_Datatype datatype,
                        int root, MPI_Comm comm);

/* Reductions. `recvcounts` is for reduce_scatter, `count` for all others. */
int mpix_describe_reduction(mca_coll_mscclpp_queue_call_t *call, int coll, const void *sendbuf, void *recvbuf,
                            MPI_Count count, const int recvcounts[], MPI_Datatype datatype, MPI_Op op, int root,
                            MPI_Comm comm);

/* Describes a collective that moves blocks: from each rank to each rank, or from or to a root. */
int mpix_describe_blocks(mca_coll_mscclpp_queue_call_t *call, int coll, const mpix_side_t *send,
                         const mpix_side_t *recv, int root, MPI_Comm comm);

/*
 * Describe neighbourhood collectives. The second function is for neighbor_alltoallw, whose displacements are in bytes.
 * Without a topology both report MPI_ERR_TOPOLOGY.
 */
int mpix_describe_neighbors(mca_coll_mscclpp_queue_call_t *call, int coll, const mpix_side_t *send,
                            const mpix_side_t *recv, MPI_Comm comm);
int mpix_describe_neighbors_w(mca_coll_mscclpp_queue_call_t *call, const mpix_side_t *send, const MPI_Aint sdispls[],
                              const mpix_side_t *recv, const MPI_Aint rdispls[], MPI_Comm comm);

/*
 * Counts the edges that lead out of this rank and into it. Returns an MPI error code, which has not been reported; it
 * is MPI_ERR_TOPOLOGY if the communicator has no topology.
 */
int mpix_count_edges(MPI_Comm comm, int *outs_p, int *ins_p);

#endif
