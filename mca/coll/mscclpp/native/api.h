/*
 * The table of functions that the component offers to libmpix_mscclpp (mpix/). The library finds the table by its name
 * in the loaded component. It needs nothing else of the component, so only types of mpi.h, of C and of device/types are
 * used.
 *
 * The table and the structure of a call may grow at their ends; `size` tells how long they are. A change of anything
 * else takes a new version.
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
 * One queued call: MPI's arguments, as far as the collective has them. A broadcast's buffer is recvbuf, and a
 * collective with one count and one type has them in recvcount and recvtype.
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
     * Whether `largest_block` is that of all ranks, in bytes. In other calls of gatherv, scatterv, alltoallv, alltoallw
     * and of neighbourhood collectives each rank knows the sizes of its own blocks alone, and the kernels find the
     * largest.
     */
    int agreed;
    uint64_t largest_block;
    const MPI_Aint *soffsets; /* displacements of neighbor_alltoallw, which has no sdispls and rdispls */
    const MPI_Aint *roffsets;
    void *mapped; /* what `map` has made for this call; NULL: nothing */
} mca_coll_mscclpp_queue_call_t;

typedef enum {
    MCA_COLL_MSCCLPP_QUEUED,
    MCA_COLL_MSCCLPP_NOT_QUEUED,    /* nothing has happened on any rank; the caller serves the call in another way */
    MCA_COLL_MSCCLPP_QUEUE_TIMEOUT, /* a kernel has given up waiting for a rank */
    MCA_COLL_MSCCLPP_QUEUE_PEER,    /* another rank failed */
    MCA_COLL_MSCCLPP_QUEUE_BUSY,    /* two operations of one communicator ran at once */
    MCA_COLL_MSCCLPP_QUEUE_ERROR    /* see the MPI error code */
} mca_coll_mscclpp_queue_end_t;

typedef struct {
    uint32_t version;
    uint32_t size; /* bytes of this structure */
    /*
     * Queues a call in its stream. The first one of a communicator waits for all ranks. *code_p is an MPI error code
     * for MCA_COLL_MSCCLPP_QUEUE_ERROR.
     */
    mca_coll_mscclpp_queue_end_t (*enqueue)(const mca_coll_mscclpp_queue_call_t *call, int *code_p);

    /* Tells whether the communicator's queued operations have failed, and in `text`, if known, how. Never waits. */
    mca_coll_mscclpp_queue_end_t (*find_failure)(MPI_Comm comm, char *text, size_t size);

    /* Returns the number of the communicator's calls that were queued. */
    uint64_t (*count)(MPI_Comm comm);

    /* Waits for all work in the stream. Returns an MPI error code. */
    int (*wait)(void *stream);
    int (*is_capturing)(void *stream); /* whether the stream is being captured */

    /*
     * Streams of the twin. If the component runs on GPUs, streams are NULL, or functions fail with
     * MPI_ERR_UNSUPPORTED_OPERATION.
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
     * Makes what this call needs to be queued often. Collective, and waits. *can_queue_p: whether it can be queued, as
     * far as this rank knows. *largest_block_p: the largest block that this rank knows of, in bytes.
     */
    int (*prepare)(const mca_coll_mscclpp_queue_call_t *call, int *can_queue_p, uint64_t *largest_block_p);
    int (*is_twin)(void); /* whether the component runs on the host twin */

    /*
     * Runs the execution plan of this name. Collective, and waits. `in` NULL: in place. An MPI error code;
     * MPI_ERR_UNSUPPORTED_OPERATION, on all ranks, if the ranks have no such plan, or cannot run it.
     */
    int (*run_plan)(const char *name, const void *in, void *out, size_t count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm);

    /*
     * Makes a call that `prepare` has prepared on all ranks faster: kernels of all ranks get access to its buffers, if
     * they would use it. Collective; waits for no rank longer than some seconds. *mapped_p is NULL on all ranks if
     * nothing was made. It serves calls on parts of these buffers, too, each as long as this call and at equal places
     * on all ranks. The buffers must stay allocated until `unmap`, which comes when no call with it is under way; calls
     * in graphs may use it as long as the graphs. An MPI error code.
     */
    int (*map)(const mca_coll_mscclpp_queue_call_t *call, void **mapped_p);
    void (*unmap)(void *mapped); /* NULL is allowed */
} mca_coll_mscclpp_api_t;

#endif
