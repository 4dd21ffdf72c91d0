/*
 * MPI's collectives in the order of a GPU stream, for C and C++. Link with -lmpix_mscclpp.
 *
 * A call queues its work in `stream` and returns. It waits neither for other ranks nor for the GPU. The work begins
 * when all earlier work in the stream has ended, and later work in the stream sees the result. No synchronisation of
 * the stream is needed before or after the call. `stream` is a cudaStream_t (NULL: the default stream), or a stream of
 * the host twin (see the end of this file).
 *
 *     fill<<<blocks, threads, 0, stream>>>(gradients);
 *     MPIX_Mscclpp_allreduce_enqueue(MPI_IN_PLACE, gradients, n, MPI_FLOAT, MPI_SUM, comm, stream);
 *     step<<<blocks, threads, 0, stream>>>(gradients);
 *
 * Rules:
 * - All ranks of the communicator make the same queued calls on it in the same order. Calls on different communicators
 *   may be made in different orders by different ranks, and from different threads.
 * - The first queued call of a communicator makes the memory that queued calls use, and waits for all ranks. Make this
 *   call before a stream is captured. On one node, the first large call makes the memory of large calls, and waits for
 *   at most 10 seconds. Starts of requests never wait.
 * - On each rank, the calls of one communicator run one after another: in one stream, or in streams that wait for one
 *   another. If two calls run at the same time, their results are undefined, and the communicator fails with
 *   MPIX_MSCCLPP_ERR_BUSY.
 * - While queued calls of several communicators are running, do nothing that waits for all kernels of the device,
 *   unless all ranks do it at the same point of those calls. Such operations are cudaMalloc, cudaFree, the first launch
 *   of a kernel, the first queued call of another communicator, MPI_Comm_free, and a call, plain or queued, that is the
 *   first large one of its communicator, or a plain one that an execution plan serves in a new size. Otherwise each
 *   rank may wait for a kernel that another rank cannot start.
 * - Queued kernels need room on the GPU, which a communicator's first queued call reserves. Up to four communicators of
 *   a process have such room at a time. A kernel of the application that needs the whole GPU at once (a cooperative
 *   launch) waits for queued kernels, as it does for any other kernel.
 * - Before a communicator is freed, the work that was queued on it must have ended, and no graph with its calls may be
 *   running. If such a graph is launched later, its calls end at once, without a result.
 *
 * Graphs: calls may be captured in a CUDA graph. Each call becomes one kernel node, or a few nodes without host nodes.
 * All ranks capture the same calls, and launch their graphs equally often and in the same order among other calls.
 * Captured calls and other calls may be mixed in any order. A captured call that is large, or whose blocks differ in
 * size, waits until the other ranks capture it, too, but for at most 10 seconds. The buffers of a large call must not
 * be freed while its graphs are launched, since kernels of other ranks use these buffers.
 *
 * Calls that cannot be queued:
 * - data in host memory, or one buffer in several allocations;
 * - types and operations that no kernel knows, and all-reduces of derived types;
 * - in a captured stream also types with holes, reduce_scatter in place, and neighbourhood collectives if any rank has
 *   several edges to one rank, as in a periodic grid of two;
 * - a barrier before the communicator's first other call;
 * - on several nodes, blocks that differ (allgatherv, gatherv, scatterv, alltoallv, alltoallw, reduce_scatter, and
 *   neighbourhood collectives);
 * - more than 64 ranks, or ranks that take turns on a GPU;
 * - a fifth communicator of a process, or a process without the component coll/mscclpp.
 *
 * Such a call waits until the stream is empty and makes the plain MPI call. Either all ranks or no rank must be in such
 * a case. In gatherv, scatterv, alltoallv, alltoallw and neighbourhood collectives, a rank without data does what the
 * other ranks do. If the stream is captured, the call returns MPIX_MSCCLPP_ERR_CAPTURE and queues nothing.
 * MPIX_Mscclpp_query tells how many calls were queued and how many waited.
 *
 * Errors of arguments are returned as usual, through the communicator's error handler. Errors of the work itself occur
 * later: MPIX_Mscclpp_get_async_error reports them, and the next queued call on the communicator returns them.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_H

#include <stdint.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MPIX_MSCCLPP_PUBLIC __attribute__((visibility("default")))
#else
#define MPIX_MSCCLPP_PUBLIC
#endif

/*
 * The calls have the arguments of MPI's calls and a stream. They return MPI_SUCCESS when their work is queued or, if
 * the call cannot be queued, when it is done.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_allreduce_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                       MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_barrier_enqueue(MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_bcast_enqueue(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                                                   MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_reduce_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                    MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
                                                    void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_allgather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                       void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                       MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_allgatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                        void *recvbuf, const int recvcounts[], const int displs[],
                                                        MPI_Datatype recvtype, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_gather_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                                    MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_gatherv_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                     void *recvbuf, const int recvcounts[], const int displs[],
                                                     MPI_Datatype recvtype, int root, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_scatter_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                     void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                     int root, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_scatterv_enqueue(const void *sendbuf, const int sendcounts[], const int displs[],
                                                      MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                                                      MPI_Datatype recvtype, int root, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_alltoall_enqueue(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                      void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                      MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_alltoallv_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                                       MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                                                       const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                                       void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_alltoallw_enqueue(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                                       const MPI_Datatype sendtypes[], void *recvbuf,
                                                       const int recvcounts[], const int rdispls[],
                                                       const MPI_Datatype recvtypes[], MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_reduce_scatter_enqueue(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                                            MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                            void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_reduce_scatter_block_enqueue(const void *sendbuf, void *recvbuf,
                                                                  MPI_Count recvcount, MPI_Datatype datatype, MPI_Op op,
                                                                  MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_scan_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                  MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_exscan_enqueue(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, void *stream);

/*
 * Neighbourhood collectives, on communicators with a topology. They are treated as calls whose blocks differ, even if
 * all blocks have one size. On several nodes they cannot be queued, therefore, and wait for the stream instead.
 * MPI_IN_PLACE is not allowed.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_allgather_enqueue(const void *sendbuf, MPI_Count sendcount,
                                                                MPI_Datatype sendtype, void *recvbuf,
                                                                MPI_Count recvcount, MPI_Datatype recvtype,
                                                                MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_allgatherv_enqueue(const void *sendbuf, MPI_Count sendcount,
                                                                 MPI_Datatype sendtype, void *recvbuf,
                                                                 const int recvcounts[], const int displs[],
                                                                 MPI_Datatype recvtype, MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_alltoall_enqueue(const void *sendbuf, MPI_Count sendcount,
                                                               MPI_Datatype sendtype, void *recvbuf,
                                                               MPI_Count recvcount, MPI_Datatype recvtype,
                                                               MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_alltoallv_enqueue(const void *sendbuf, const int sendcounts[],
                                                                const int sdispls[], MPI_Datatype sendtype,
                                                                void *recvbuf, const int recvcounts[],
                                                                const int rdispls[], MPI_Datatype recvtype,
                                                                MPI_Comm comm, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_alltoallw_enqueue(const void *sendbuf, const int sendcounts[],
                                                                const MPI_Aint sdispls[],
                                                                const MPI_Datatype sendtypes[], void *recvbuf,
                                                                const int recvcounts[], const MPI_Aint rdispls[],
                                                                const MPI_Datatype recvtypes[], MPI_Comm comm,
                                                                void *stream);

/*
 * Error classes of queued calls. MPIX_Mscclpp_error_class sets *error_class to the number that MPI_Error_class gives
 * for `which` in this process.
 */
enum {
    MPIX_MSCCLPP_ERR_TIMEOUT = 1, /* a rank did not join the call in time (parameter coll_mscclpp_timeout) */
    MPIX_MSCCLPP_ERR_PEER,        /* another rank failed in a queued call */
    MPIX_MSCCLPP_ERR_BUSY,        /* two calls of one communicator ran at the same time */
    MPIX_MSCCLPP_ERR_CAPTURE      /* the call cannot be queued, and the stream is captured */
};
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_error_class(int which, int *error_class);

/*
 * Tells whether the queued calls of a communicator have failed. Sets *code to MPI_SUCCESS or an error code, and writes
 * what happened into `text`, in at most `size` bytes. `text` may be NULL if `size` is 0. Never waits and never calls an
 * error handler.
 * After a communicator has failed, the kernels that are queued on it end without a result, and every queued call on it
 * returns an error. Plain MPI calls on it still work.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_get_async_error(MPI_Comm comm, int *code, char *text, int size);

/*
 * Sets *value to the number of calls that this process has made on a communicator: those that were queued (`what` is
 * MPIX_MSCCLPP_QUERY_QUEUED), or those that waited instead (MPIX_MSCCLPP_QUERY_WAITED).
 */
enum { MPIX_MSCCLPP_QUERY_QUEUED = 1, MPIX_MSCCLPP_QUERY_WAITED };
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_query(MPI_Comm comm, int what, MPI_Count *value);

/*
 * Streams of the host twin, for programs and tests without a GPU (parameter coll_mscclpp_device = host). Each stream
 * has its own thread, which runs queued calls and host functions one after another. Between capture_begin and
 * capture_end, the calls and functions are recorded in a graph instead, which graph_launch carries out any number of
 * times. With GPUs these functions return MPI_ERR_UNSUPPORTED_OPERATION.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_stream_create(void **stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_stream_sync(void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_stream_destroy(void *stream); /* waits for its work */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_launch(void *stream, void (*function)(void *argument), void *argument);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_capture_begin(void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_capture_end(void *stream, void **graph);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_graph_launch(void *graph, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_graph_destroy(void *graph);

/* Appends a copy of the contents of `added` to `graph`. This corresponds to a child graph on a GPU. */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_graph_append(void *graph, void *added);

/*
 * Queues a loop, as a WHILE node of a graph on a GPU: carries out the contents of the graph `body` repeatedly while
 * *condition is not 0. *condition is read before each turn, and must remain valid until the loop has ended. If the
 * stream is captured, the loop is recorded. The body is copied.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_host_while(void *stream, void *body, const uint64_t *condition);

#ifdef __cplusplus
}
#endif

#endif
