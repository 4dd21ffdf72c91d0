/*
 * Requests without the component. Each request is advanced by whichever thread waits for any request (plain.h says
 * why), under one lock.
 */
#include "mpix/plain.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>

typedef mca_coll_mscclpp_queue_call_t call_t;
typedef struct mpix_mscclpp_request request_t;

/*
 * The prepared requests, in the order of their preparation. The lock also makes sure that only one thread makes
 * progress at a time.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_t *requests;

/*
 * Begins MPI's nonblocking call for a reduction or a barrier. The caller has checked that the collective is one of
 * them, and that the count fits into an int.
 */
static int begin_reduction(const call_t *call, MPI_Request *under_way_p)
{
    const int count = (int)call->recvcount;

    switch (call->coll) {
    case MCA_COLL_MSCCLPP_QUEUE_BARRIER:
        return MPI_Ibarrier(call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_REDUCE:
        return MPI_Ireduce(call->sendbuf, call->recvbuf, count, call->recvtype, call->op, call->root, call->comm,
                           under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER:
        return MPI_Ireduce_scatter(call->sendbuf, call->recvbuf, call->recvcounts, call->recvtype, call->op, call->comm,
                                   under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK:
        return MPI_Ireduce_scatter_block(call->sendbuf, call->recvbuf, count, call->recvtype, call->op, call->comm,
                                         under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_SCAN:
        return MPI_Iscan(call->sendbuf, call->recvbuf, count, call->recvtype, call->op, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_EXSCAN:
        return MPI_Iexscan(call->sendbuf, call->recvbuf, count, call->recvtype, call->op, call->comm, under_way_p);
    default: /* MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE */
        return MPI_Iallreduce(call->sendbuf, call->recvbuf, count, call->recvtype, call->op, call->comm, under_way_p);
    }
}

/*
 * Begins MPI's nonblocking call for a neighbourhood collective. The caller has checked that the collective is one, and
 * that the counts fit into an int.
 */
static int begin_neighbors(const call_t *call, MPI_Request *under_way_p)
{
    const int sendcount = (int)call->sendcount, recvcount = (int)call->recvcount;

    switch (call->coll) {
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHER:
        return MPI_Ineighbor_allgather(call->sendbuf, sendcount, call->sendtype, call->recvbuf, recvcount,
                                       call->recvtype, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV:
        return MPI_Ineighbor_allgatherv(call->sendbuf, sendcount, call->sendtype, call->recvbuf, call->recvcounts,
                                        call->rdispls, call->recvtype, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALL:
        return MPI_Ineighbor_alltoall(call->sendbuf, sendcount, call->sendtype, call->recvbuf, recvcount,
                                      call->recvtype, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV:
        return MPI_Ineighbor_alltoallv(call->sendbuf, call->sendcounts, call->sdispls, call->sendtype, call->recvbuf,
                                       call->recvcounts, call->rdispls, call->recvtype, call->comm, under_way_p);
    default: /* MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLW */
        return MPI_Ineighbor_alltoallw(call->sendbuf, call->sendcounts, call->soffsets, call->sendtypes, call->recvbuf,
                                       call->recvcounts, call->roffsets, call->recvtypes, call->comm, under_way_p);
    }
}

/* The switch has no default, so that the compiler warns of a collective that is not listed. */
int mpix_plain_begin(const call_t *call, MPI_Request *under_way_p)
{
    const int sendcount = (int)call->sendcount, recvcount = (int)call->recvcount;

    if (call->sendcount > INT_MAX || call->recvcount > INT_MAX) {
        return MPI_ERR_COUNT;
    }
    switch (call->coll) {
    case MCA_COLL_MSCCLPP_QUEUE_BCAST:
        return MPI_Ibcast(call->recvbuf, recvcount, call->recvtype, call->root, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_ALLGATHER:
        return MPI_Iallgather(call->sendbuf, sendcount, call->sendtype, call->recvbuf, recvcount, call->recvtype,
                              call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_ALLGATHERV:
        return MPI_Iallgatherv(call->sendbuf, sendcount, call->sendtype, call->recvbuf, call->recvcounts, call->rdispls,
                               call->recvtype, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_GATHER:
        return MPI_Igather(call->sendbuf, sendcount, call->sendtype, call->recvbuf, recvcount, call->recvtype,
                           call->root, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_GATHERV:
        return MPI_Igatherv(call->sendbuf, sendcount, call->sendtype, call->recvbuf, call->recvcounts, call->rdispls,
                            call->recvtype, call->root, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_SCATTER:
        return MPI_Iscatter(call->sendbuf, sendcount, call->sendtype, call->recvbuf, recvcount, call->recvtype,
                            call->root, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_SCATTERV:
        return MPI_Iscatterv(call->sendbuf, call->sendcounts, call->sdispls, call->sendtype, call->recvbuf, recvcount,
                             call->recvtype, call->root, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_ALLTOALL:
        return MPI_Ialltoall(call->sendbuf, sendcount, call->sendtype, call->recvbuf, recvcount, call->recvtype,
                             call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_ALLTOALLV:
        return MPI_Ialltoallv(call->sendbuf, call->sendcounts, call->sdispls, call->sendtype, call->recvbuf,
                              call->recvcounts, call->rdispls, call->recvtype, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_ALLTOALLW:
        return MPI_Ialltoallw(call->sendbuf, call->sendcounts, call->sdispls, call->sendtypes, call->recvbuf,
                              call->recvcounts, call->rdispls, call->recvtypes, call->comm, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHER:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLGATHERV:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALL:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLV:
    case MCA_COLL_MSCCLPP_QUEUE_NEIGHBOR_ALLTOALLW:
        return begin_neighbors(call, under_way_p);
    case MCA_COLL_MSCCLPP_QUEUE_ALLREDUCE:
    case MCA_COLL_MSCCLPP_QUEUE_BARRIER:
    case MCA_COLL_MSCCLPP_QUEUE_REDUCE:
    case MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER:
    case MCA_COLL_MSCCLPP_QUEUE_REDUCE_SCATTER_BLOCK:
    case MCA_COLL_MSCCLPP_QUEUE_SCAN:
    case MCA_COLL_MSCCLPP_QUEUE_EXSCAN:
        break;
    }
    return begin_reduction(call, under_way_p);
}

/* Appends a prepared request to the list, after its words were made. Its first execution has the number 1. */
void mpix_plain_add(request_t *request)
{
    request_t **link = &requests;

    request->under_way = MPI_REQUEST_NULL;
    request->execution = 1;
    request->partition = 0;
    request->next = NULL;
    pthread_mutex_lock(&lock);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = request;
    pthread_mutex_unlock(&lock);
}

/*
 * Tests whether MPI's call for the request has ended. Returns 1 if it has, if there is none, or if MPI_Test fails: then
 * there is nothing to wait for. Also a failed request can have a call under way: a kernel may report an error while
 * MPI's call runs.
 */
static int has_left_mpi(request_t *request)
{
    int has_ended = 1;

    pthread_mutex_lock(&lock);
    if (request->under_way != MPI_REQUEST_NULL &&
        MPI_Test(&request->under_way, &has_ended, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        has_ended = 1;
    }
    pthread_mutex_unlock(&lock);
    return has_ended;
}

/*
 * First waits until MPI's call has ended; meanwhile the other requests make progress, on which other ranks may depend.
 * When this function returns, no thread works on the request, because mpix_plain_progress holds the lock while it
 * works.
 */
void mpix_plain_remove(request_t *request)
{
    request_t **link = &requests;

    while (!has_left_mpi(request)) {
        mpix_plain_progress();
        (void)sched_yield();
    }
    pthread_mutex_lock(&lock);
    while (*link != NULL && *link != request) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = request->next;
    }
    pthread_mutex_unlock(&lock);
}

/*
 * Stores the end of the current partition in its end word, and continues with the next partition. After the last one,
 * this is the first partition of the next start.
 */
static void end_partition(request_t *request)
{
    mpix_word_set(mpix_request_end_word(request, request->partition), request->execution);
    if (++request->partition == request->partitions) {
        request->partition = 0;
        ++request->execution;
    }
}

/* Begins MPI's call of the current partition, and counts it as one that was not queued. Returns an MPI error code. */
static int begin_partition(request_t *request)
{
    const call_t call = mpix_request_part(request, request->partition);

    mpix_count_waited(request->app_comm);
    return mpix_plain_begin(&call, &request->under_way);
}

/*
 * Advances a request as far as possible without waiting. Repeats two steps as long as one is possible: it ends the
 * partition whose call of MPI has ended, and begins the call of the next one if that is marked. Partitions are carried
 * out one by one, in the order of their numbers, which is the same on all ranks. After an error the request is
 * abandoned. The caller holds the lock, and has checked that the request has not failed, because the marks of an
 * abandoned request would let it continue.
 */
static void advance_request(request_t *request)
{
    int code = MPI_SUCCESS, has_ended;

    while (code == MPI_SUCCESS) {
        if (request->under_way != MPI_REQUEST_NULL) {
            code = MPI_Test(&request->under_way, &has_ended, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS || !has_ended) {
                break;
            }
            end_partition(request);
        } else if (mpix_word_get(mpix_request_mark_word(request, request->partition)) >= request->execution) {
            code = begin_partition(request);
        } else {
            break; /* the partition is not marked yet */
        }
    }
    if (code != MPI_SUCCESS) {
        mpix_request_abandon(request, code);
    }
}

/* Holds the lock all the time, so that no request is removed from the list meanwhile. */
void mpix_plain_progress(void)
{
    if (pthread_mutex_trylock(&lock) != 0) {
        return; /* another thread makes progress, or uses the list for a moment; callers call again */
    }
    for (request_t *request = requests; request != NULL; request = request->next) {
        if (request->failure_code == MPI_SUCCESS) {
            advance_request(request);
        }
    }
    pthread_mutex_unlock(&lock);
}
