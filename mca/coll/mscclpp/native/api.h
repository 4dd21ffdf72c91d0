/*
 * The table of functions that the component offers to libmpix_mscclpp (mpix/). The library finds the table by its name
 * in the loaded component. It uses nothing else of the component, so the table only uses types of mpi.h, of C and of
 * device/types.
 *
 * The table and the structure of a call may grow at their ends; `size` is their length. Any other change requires a new
 * version.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_API_H
#define MCA_COLL_MSCCLPP_NATIVE_API_H

#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "mca/coll/mscclpp/native/channel_api.h"

#define MCA_COLL_MSCCLPP_API_VERSION 3u
#define MCA_COLL_MSCCLPP_API_NAME "mca_coll_mscclpp_api"

typedef enum {
    MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE,
    MCA_COLL_MSCCLPP_QUEUE_BARRIER,
    MCA_COLL_MSCCLPP_QUEUE_ALLGATHER,
    MCA_COLL_MSCCLPP_QUEUE_ALLGATHERV,
    MCA_COLL_MSCCLPP_QUEUE_ALLTOALL,
    MCA_COLL_MSCCLPP_QUEUE_BCAST,
    MCA_COLL_MSCCLPP_QUEUE_GATHER,
    MCA_COLL_MSCCLPP_QUEUE_SCATTER,
    MCA_COLL_MSCCLPP_QUEUE_REDUCE,
    MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER,
    MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK,
    MCA_COLL_MSCCLPP_QUEUE_SCAN,
    MCA_COLL_MSCCLPP_QUEUE_EXSCAN,
    MCA_COLL_MSCCLPP_QUEUE_GATHERV,
    MCA_COLL_MSCCLPP_QUEUE_SCATTERV,
    MCA_COLL_MSCCLPP_QUEUE_ALLTOALLV,
    MCA_COLL_MSCCLPP_QUEUE_ALLTOALLW,
    MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHER,
    MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV,
    MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALL,
    MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV,
    MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLW
} mca_coll_mscclpp_queue_coll_t;

/*
 * One queued call: the arguments of MPI's call that the collective has. A broadcast's buffer is stored in recvbuf. If a
 * collective has only one count and one type, they are stored in recvcount and recvtype.
 */
typedef struct {
    size_t size; /* bytes of this structure */
    mca_coll_mscclpp_queue_coll_t coll;
    const void *sendbuf;
    void *recvbuf;
    size_t sendcount;
    size_t recvcount;
    const int *sendcounts;
    const int *sdispls;
    const int *recvcounts;
    const int *rdispls;
    MPI_Datatype sendtype;
    MPI_Datatype recvtype;
    const MPI_Datatype *sendtypes;
    const MPI_Datatype *recvtypes;
    MPI_Op op;
    int root;
    MPI_Comm comm;
    void *stream; /* a cudaStream_t, or a queue of the twin */
    /*
     * 1 if all ranks have agreed on `largest_block`, the size of the largest block of all ranks in bytes. In other
     * calls of gatherv, scatterv, alltoallv, alltoallw and neighbourhood collectives, each rank knows the sizes of its
     * own blocks only, and the kernels determine the largest block.
     */
    int is_size_agreed;
    uint64_t largest_block;
    const MPI_Aint *soffsets; /* displacements of neighbor_alltoallw, which has no sdispls and rdispls */
    const MPI_Aint *roffsets;
    void *mapped; /* the mapping that `map` has made for this call; NULL: none */
} mca_coll_mscclpp_queue_call_t;

typedef enum {
    MCA_COLL_MSCCLPP_QUEUED,
    MCA_COLL_MSCCLPP_NOT_QUEUED,    /* nothing was done on any rank; the caller serves the call in another way */
    MCA_COLL_MSCCLPP_QUEUE_TIMEOUT, /* a kernel has given up waiting for a rank */
    MCA_COLL_MSCCLPP_QUEUE_PEER,    /* another rank failed */
    MCA_COLL_MSCCLPP_QUEUE_BUSY,    /* two operations of one communicator ran at once */
    MCA_COLL_MSCCLPP_QUEUE_ERROR    /* another error: the MPI error code tells which */
} mca_coll_mscclpp_queue_end_t;

typedef struct {
    uint32_t version;
    uint32_t size; /* bytes of this structure */
    /*
     * Queues a call in its stream. The first queued call of a communicator waits for all ranks. *code_p is an MPI error
     * code if the result is MCA_COLL_MSCCLPP_QUEUE_ERROR.
     */
    mca_coll_mscclpp_queue_end_t (*enqueue)(const mca_coll_mscclpp_queue_call_t *call, int *code_p);

    /*
     * Returns how the communicator's queued operations or channels have failed, or QUEUED if none has, and writes a
     * description to `text`, if there is one. Never waits.
     */
    mca_coll_mscclpp_queue_end_t (*find_failure)(MPI_Comm comm, char *text, size_t size);

    /* Returns the number of the communicator's calls that were queued. */
    uint64_t (*count)(MPI_Comm comm);

    /* Waits for all work in the stream. Returns an MPI error code. */
    int (*wait)(void *stream);
    int (*is_capturing)(void *stream); /* returns 1 if the stream is being captured */

    /*
     * Streams and graphs of the twin, as those of CUDA. host_call queues a call of `function`. Between
     * host_capture_begin and host_capture_end, work that is put into the stream is recorded and not carried out.
     * host_capture_end returns it as a graph, which the caller destroys; NULL may be destroyed, too. If the component
     * runs on GPUs, host_stream_create returns MPI_ERR_UNSUPPORTED_OPERATION, so that there is no stream for the other
     * functions. All return an MPI error code.
     */
    int (*host_stream_create)(void **stream_p);
    int (*host_stream_destroy)(void *stream);
    int (*host_call)(void *stream, void (*function)(void *argument), void *argument);
    int (*host_capture_begin)(void *stream);
    int (*host_capture_end)(void *stream, void **graph_p);
    int (*host_graph_launch)(void *graph, void *stream);
    int (*host_graph_destroy)(void *graph);

    /* Queues a loop over `body` while *condition is not 0, or appends `added` to a graph. Both copy the graph. */
    int (*host_loop)(void *stream, void *body, const uint64_t *condition);
    int (*host_graph_append)(void *graph, void *added);

    const mca_coll_mscclpp_channel_api_t *channels;

    /*
     * Makes the objects that are necessary to queue this call repeatedly. Collective, and waits. *can_queue_p becomes 1
     * if the call can be queued, as far as this rank knows. *largest_block_p becomes the largest block that this rank
     * knows, in bytes. Returns an MPI error code.
     */
    int (*prepare)(const mca_coll_mscclpp_queue_call_t *call, int *can_queue_p, uint64_t *largest_block_p);
    int (*is_twin)(void); /* returns 1 if the component runs on the host twin */

    /*
     * Runs the execution plan of this name. Collective, and waits. `in` is NULL for a call in place. Returns an MPI
     * error code, which is MPI_ERR_UNSUPPORTED_OPERATION on all ranks if the ranks have no such plan, or cannot run it.
     */
    int (*run_plan)(const char *name, const void *in, void *out, size_t count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm);

    /*
     * Maps the buffers of a call, so that kernels of all ranks can access them, which makes the call faster. `prepare`
     * must have prepared the call on all ranks. Collective; does not wait for any rank longer than some seconds.
     * *mapped_p becomes NULL on all ranks if the buffers are not mapped, as when kernels would not use the mapping.
     *
     * The mapping can also be used for calls on parts of these buffers, if each part is as long as this call and at the
     * same place on all ranks. The buffers must not be freed before `unmap`. Call `unmap` when no call with the mapping
     * is running; calls in graphs use the mapping as long as the graphs exist. Returns an MPI error code.
     */
    int (*map)(const mca_coll_mscclpp_queue_call_t *call, void **mapped_p);
    void (*unmap)(void *mapped); /* NULL is allowed */

    /* Makes all queued calls of the communicator fail, also those that run, and tells the other ranks. Local. */
    void (*fail)(MPI_Comm comm);
} mca_coll_mscclpp_api_t;

#endif
