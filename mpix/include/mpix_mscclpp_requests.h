/*
 * Persistent requests of queued collectives: prepared once, started often, in the order of a stream or released by a
 * kernel of the application, also part by part. Link with -lmpix_mscclpp.
 *
 * In the order of a stream:
 *
 *     MPIX_Mscclpp_allreduce_init(MPI_IN_PLACE, gradients, n, MPI_FLOAT, MPI_SUM, comm, &request);
 *     MPIX_Mscclpp_attach_stream(request, stream);
 *     MPIX_Mscclpp_prepare(1, &request);
 *     for (...) {
 *         fill<<<blocks, threads, 0, stream>>>(gradients);
 *         MPIX_Mscclpp_start(1, &request);
 *         use<<<blocks, threads, 0, stream>>>(gradients);
 *     }
 *
 * Released by kernels, each partition as soon as it is ready:
 *
 *     MPIX_Mscclpp_pallreduce_init(MPI_IN_PLACE, gradients, parts, n / parts, MPI_FLOAT, MPI_SUM, comm, &request);
 *     MPIX_Mscclpp_attach_kernels(request, stream);
 *     MPIX_Mscclpp_prepare(1, &request);
 *     MPIX_Mscclpp_request_get_device(request, MPIX_MSCCLPP_DEVICE_ABI, &marks, sizeof(marks));
 *     for (...) {
 *         MPIX_Mscclpp_start(1, &request);
 *         fill<<<blocks, threads, 0, stream>>>(gradients, marks);  // calls mpix_pready for each partition
 *         MPIX_Mscclpp_complete(1, &request);
 *         use<<<blocks, threads, 0, stream>>>(gradients);
 *     }
 *
 * `prepare` is collective, and so is `request_free` of a request that kernels release: all ranks call them in the same
 * order. All other functions are local and wait for no rank. A request that kernels release has its own communicator,
 * so such requests may be started in any order. This communicator counts as one of the four communicators of a process
 * that can have queued calls. All other requests follow the rules of queued calls (mpix_mscclpp.h). `start` queues one
 * more execution after the earlier ones, and need not wait for them.
 *
 * If Open MPI has loaded the component on no rank, MPI's own calls carry out the executions. For a request that is
 * attached to a stream, `start` then waits for the stream and for the other ranks. For a request that kernels release,
 * `complete` and `wait` wait on the host for the marks and for the other ranks, and `test` and `parrived` make all such
 * requests progress. While kernels wait for the results, the application has to call one of these functions. A request
 * cannot be attached to a graph. MPI itself has to accept the buffers.
 *
 * Functions return MPI error codes, through the communicator's error handler. If the calls cannot be queued
 * (mpix_mscclpp.h), `prepare` returns MPI_ERR_UNSUPPORTED_OPERATION on all ranks. Errors of the work are those of
 * queued calls, and `start`, `test` and `wait` return them. If a kernel has marked a partition that the request does
 * not have, `test`, `parrived` and `wait` return MPI_ERR_ARG there, and the request fails on all ranks.
 */
#ifndef MPIX_INCLUDE_MPIX_MSCCLPP_REQUESTS_H
#define MPIX_INCLUDE_MPIX_MSCCLPP_REQUESTS_H

#include <stddef.h>

#include "mpix_mscclpp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a request. */
typedef struct mpix_mscclpp_request *MPIX_Mscclpp_request;

/*
 * Each of these functions makes a request from the arguments of MPI's call. Buffers, types and the operation must not
 * be freed before the request; lists are copied. The functions are local.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_barrier_init(MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_bcast_init(void *buffer, MPI_Count count, MPI_Datatype datatype, int root,
                                                MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_allreduce_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                    MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_reduce_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                 MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm,
                                                 MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_reduce_scatter_block_init(const void *sendbuf, void *recvbuf, MPI_Count recvcount,
                                                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                               MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_reduce_scatter_init(const void *sendbuf, void *recvbuf, const int recvcounts[],
                                                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                         MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_scan_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                                               MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                               MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_exscan_init(const void *sendbuf, void *recvbuf, MPI_Count count,
                                                 MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                 MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_allgather_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                    void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                    MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_allgatherv_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                     void *recvbuf, const int recvcounts[], const int displs[],
                                                     MPI_Datatype recvtype, MPI_Comm comm,
                                                     MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_gather_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                 void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                                 MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_gatherv_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                  void *recvbuf, const int recvcounts[], const int displs[],
                                                  MPI_Datatype recvtype, int root, MPI_Comm comm,
                                                  MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_scatter_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                  void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int root,
                                                  MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_scatterv_init(const void *sendbuf, const int sendcounts[], const int displs[],
                                                   MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                                                   MPI_Datatype recvtype, int root, MPI_Comm comm,
                                                   MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_alltoall_init(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                                   void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                                   MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_alltoallv_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                                    MPI_Datatype sendtype, void *recvbuf, const int recvcounts[],
                                                    const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                                    MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_alltoallw_init(const void *sendbuf, const int sendcounts[], const int sdispls[],
                                                    const MPI_Datatype sendtypes[], void *recvbuf,
                                                    const int recvcounts[], const int rdispls[],
                                                    const MPI_Datatype recvtypes[], MPI_Comm comm,
                                                    MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_allgather_init(const void *sendbuf, MPI_Count sendcount,
                                                             MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                                                             MPI_Datatype recvtype, MPI_Comm comm,
                                                             MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_allgatherv_init(const void *sendbuf, MPI_Count sendcount,
                                                              MPI_Datatype sendtype, void *recvbuf,
                                                              const int recvcounts[], const int displs[],
                                                              MPI_Datatype recvtype, MPI_Comm comm,
                                                              MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_alltoall_init(const void *sendbuf, MPI_Count sendcount,
                                                            MPI_Datatype sendtype, void *recvbuf, MPI_Count recvcount,
                                                            MPI_Datatype recvtype, MPI_Comm comm,
                                                            MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_alltoallv_init(const void *sendbuf, const int sendcounts[],
                                                             const int sdispls[], MPI_Datatype sendtype, void *recvbuf,
                                                             const int recvcounts[], const int rdispls[],
                                                             MPI_Datatype recvtype, MPI_Comm comm,
                                                             MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_neighbor_alltoallw_init(const void *sendbuf, const int sendcounts[],
                                                             const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                                             void *recvbuf, const int recvcounts[],
                                                             const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                                             MPI_Comm comm, MPIX_Mscclpp_request *request);

/*
 * Makes an all-reduce of `partitions` partitions of `count` elements each, which are adjacent in both buffers. Each
 * partition is combined as soon as this partition and all partitions before it are marked ready on this rank and its
 * peers. The request has to be attached with attach_kernels.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_pallreduce_init(const void *sendbuf, void *recvbuf, int partitions,
                                                     MPI_Count count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                     MPIX_Mscclpp_request *request);

/*
 * Make the two sides of a message of `partitions` partitions of `count` elements each. Both sides must have the same
 * number of partitions of the same size; otherwise `prepare` fails on both. Kernels of the sender mark partitions
 * ready. Kernels of the receiver wait for partitions with mpix_await; work that is queued in the stream after
 * `complete` waits for all of them. A receiver's execution begins when it is started. `prepare` and `request_free` wait
 * for the other side. A rank has to prepare all its sends and receives in one call, or in an order in which there is no
 * cycle of waiting ranks. The requests have to be attached with attach_kernels.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                                                int dest, int tag, MPI_Comm comm, MPIX_Mscclpp_request *request);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                                                int source, int tag, MPI_Comm comm, MPIX_Mscclpp_request *request);

/*
 * These functions determine what an execution waits for. They are local. Call one of them before `prepare`. After
 * `prepare`, the request may be attached to another stream or graph, but only with the same function.
 *
 * attach_stream: an execution waits for the work that is in the stream when the request is started. A captured stream
 * records the execution.
 *
 * attach_kernels: an execution waits for mpix_pready or mpix_trigger in a kernel, or for MPIX_Mscclpp_pready. Such
 * kernels run in `stream`, and `complete` makes this stream wait for the results.
 *
 * attach_graph: an execution waits for the nodes on which the application makes it depend. A start adds one node
 * without edges to `graph`, a cudaGraph_t that has not been instantiated; request_get_node returns this node, a
 * cudaGraphNode_t. An execution then begins each time that a graph which was instantiated from `graph` reaches the
 * node. On the host twin, a graph is a list from MPIX_Mscclpp_host_capture_end; the execution is appended to it, and
 * the node is NULL.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_attach_stream(MPIX_Mscclpp_request request, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_attach_kernels(MPIX_Mscclpp_request request, void *stream);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_attach_graph(MPIX_Mscclpp_request request, void *graph);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_request_get_node(MPIX_Mscclpp_request request, void **node);

/*
 * Makes all objects that the starts of `n` requests need. Requests that are already prepared are skipped. The call is
 * collective, and may wait for running kernels, as cudaMalloc does.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_prepare(int n, MPIX_Mscclpp_request requests[]);

/*
 * Writes the handle that kernels use, an mpix_partitions_t, after `prepare`. A request without partitions has partition
 * 0. `abi` and `size` are as in MPIX_Mscclpp_memory_get_device.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_request_get_device(MPIX_Mscclpp_request request, unsigned abi, void *handle,
                                                        size_t size);

/* Starts one more execution of each of `n` prepared requests. Stops at the first request that fails. */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_start(int n, MPIX_Mscclpp_request requests[]);

/*
 * Makes all work that is queued in the requests' streams from now on wait for the results. Does nothing for requests
 * that kernels do not release. Returns MPIX_MSCCLPP_ERR_CAPTURE if the stream of another request is captured.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_complete(int n, MPIX_Mscclpp_request requests[]);

/* Marks partitions `low` to `high`, both included, ready from the host. No kernel may mark them for the same start. */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_pready(int low, int high, MPIX_Mscclpp_request request);

/*
 * parrived sets *flag to 1 if one partition has ended in the latest start. test sets *flag to 1 if every start of the
 * request has ended. wait waits until every start of each of `n` requests has ended, one request after another, and
 * stops at the first request that fails. All three return the error of the request's work. Executions of a graph are
 * not counted: the application waits for the graph itself.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_parrived(MPIX_Mscclpp_request request, int partition, int *flag);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_test(MPIX_Mscclpp_request request, int *flag);
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_wait(int n, MPIX_Mscclpp_request requests[]);

/*
 * Frees a request and sets the handle to NULL. If an execution is running, returns MPI_ERR_REQUEST and frees nothing,
 * unless the request has failed: then waits for the executions that are left. Also waits until the application's stream
 * has passed the waits that `complete` has queued.
 */
MPIX_MSCCLPP_PUBLIC int MPIX_Mscclpp_request_free(MPIX_Mscclpp_request *request);

#ifdef __cplusplus
}
#endif

#endif
