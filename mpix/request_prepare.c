/* Prepares requests: makes their communicators, streams and words. */
#include "mpix/requests.h"

#include <sched.h>
#include <stdio.h>

#include "mpix/plain.h"
#include "mpix/release_stream.h"

/* After this many seconds a stream without progress counts as held up. An idle GPU answers sooner. */
#define HELD_UP_SECONDS 2.0

/*
 * Waits until no operation in a stream of the application uses the request's words. Stops waiting if the driver says
 * that the GPU has failed, because then nothing runs any more.
 */
static void leave_streams(const struct mpix_mscclpp_request *request)
{
    int flag;

    while (!mpix_request_has_left_streams(request) && !request->backend->has_failed()) {
        /* The probe lets MPI make progress, on which the other ranks' part in the calls may depend. */
        (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, request->call.comm, &flag, MPI_STATUS_IGNORE);
        (void)sched_yield();
    }
}

/*
 * Frees everything that prepare has made, or the part that it had made before it failed. The request can be prepared
 * again. The order matters: freeing the stream waits for the calls in it, which use the communicator and the words.
 */
void mpix_request_unprepare(struct mpix_mscclpp_request *request)
{
    int code; /* not needed: a component that has mapped the call exists */

    if (request->is_prepared) {
        leave_streams(request);
    }
    if (request->is_plain) {
        mpix_plain_remove(request);
        request->is_plain = 0;
    }
    if (request->own_stream != NULL) {
        request->backend->stream_free(request->own_stream);
        request->own_stream = NULL;
    }
    if (request->call.mapped != NULL) {
        mpix_component(&code)->unmap(request->call.mapped);
        request->call.mapped = NULL;
    }
    if (request->call.comm != request->app_comm) {
        (void)MPI_Comm_free(&request->call.comm);
    }
    request->call.comm = request->app_comm;
    if (request->words != NULL) {
        request->backend->words_free(request->words);
        request->words = NULL;
    }
    request->is_prepared = 0;
}

/*
 * Makes the communicator of a sender and a receiver. The one with the lower rank in the application's communicator
 * becomes rank 0, and the other one rank 1. The sender becomes the root. Checks that both have the same partitions, and
 * that one sends and the other receives. If not, both print a message and return MPI_ERR_ARG. Both sides call this
 * function with the same tag, and each waits for the other. Errors are not reported. After an error the caller frees
 * the communicator with mpix_request_unprepare.
 */
static int make_pair(struct mpix_mscclpp_request *request)
{
    uint64_t local[3] = {(uint64_t)request->side, (uint64_t)request->partitions, request->part_bytes}, remote[3];
    int ranks[2], rank, code;
    MPI_Group app_group, pair_group;

    (void)MPI_Comm_rank(request->app_comm, &rank);
    ranks[0] = rank < request->peer ? rank : request->peer;
    ranks[1] = rank < request->peer ? request->peer : rank;
    code = MPI_Comm_group(request->app_comm, &app_group);
    if (code != MPI_SUCCESS) {
        return code;
    }
    code = MPI_Group_incl(app_group, 2, ranks, &pair_group);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_group(request->app_comm, pair_group, request->tag, &request->call.comm);
        (void)MPI_Group_free(&pair_group);
    }
    (void)MPI_Group_free(&app_group);
    if (code != MPI_SUCCESS) {
        request->call.comm = request->app_comm;
        return code;
    }
    request->call.root = (request->side == MPIX_SENDER ? rank : request->peer) == ranks[0] ? 0 : 1;
    /* The other side is rank 1 for the lower one of the two ranks, and rank 0 for the higher one. */
    code = MPI_Sendrecv(local, 3, MPI_UINT64_T, rank == ranks[0], 0, remote, 3, MPI_UINT64_T, rank == ranks[0], 0,
                        request->call.comm, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && (local[0] == remote[0] || local[1] != remote[1] || local[2] != remote[2])) {
        (void)fprintf(
            stderr,
            "libmpix_mscclpp: MPIX_Mscclpp_prepare: rank %d has %llu partitions of %llu bytes to %s, and rank "
            "%d has %llu of %llu to %s; they must be equal, of a sender and a receiver\n",
            rank, (unsigned long long)local[1], (unsigned long long)local[2],
            local[0] == MPIX_SENDER ? "send" : "receive", request->peer, (unsigned long long)remote[1],
            (unsigned long long)remote[2], remote[0] == MPIX_SENDER ? "send" : "receive");
        code = MPI_ERR_ARG;
    }
    return code;
}

/*
 * Makes the request's communicator. A pair gets a communicator of its two sides. A request that kernels release gets a
 * duplicate of the application's communicator, so that it waits for no other request. All other requests use the
 * application's communicator. If a communicator is made, the call is collective. Returns an MPI error code, which is
 * not reported; the request then has the application's communicator, or one that mpix_request_unprepare frees.
 */
static int make_comm(struct mpix_mscclpp_request *request)
{
    int code;

    if (request->side != MPIX_NO_SIDE) {
        return make_pair(request);
    }
    if (request->condition != MPIX_BY_KERNELS) {
        return MPI_SUCCESS;
    }
    code = MPI_Comm_dup(request->app_comm, &request->call.comm);
    if (code != MPI_SUCCESS) {
        request->call.comm = request->app_comm;
    }
    return code;
}

/*
 * Makes the request's own stream if kernels or a graph release the request; other requests need none. If kernels
 * release it, the function first waits until the application's stream is empty, and then tests new streams with the
 * request's words, which the caller has made. A graph only needs the stream for capturing. Returns an MPI error code,
 * which is not reported.
 */
static int make_stream(struct mpix_mscclpp_request *request)
{
    const mpix_backend_t *backend = request->backend;
    int code;

    switch (request->condition) {
    case MPIX_BY_KERNELS:
        code = mpix_stream_wait(request->stream); /* the stream has to be empty for the test */
        return code != MPI_SUCCESS
                   ? code
                   : mpix_release_stream_make(backend, request->stream, &request->words[MPIX_TRIAL_WORDS],
                                              HELD_UP_SECONDS, &request->own_stream);
    case MPIX_BY_GRAPH:
        return backend->stream_make(&request->own_stream);
    default:
        return MPI_SUCCESS;
    }
}

/* Allocates the request's words: the fixed ones, and a mark and an end for each partition. */
static int make_words(struct mpix_mscclpp_request *request)
{
    return request->backend->words_make(MPIX_FIRST_MARK + 2 * (size_t)request->partitions, &request->words);
}

/*
 * Makes the objects that executions with the component need. *queues_p becomes 1 if this rank can queue the executions:
 * the component queues such calls, and the words and the stream could be made. The reason why these could not be made
 * is not returned; for a stream a message may have been printed. *largest_p is the largest block that this rank knows,
 * in bytes. Returns the component's error code, which is not reported. The caller frees the objects with
 * mpix_request_unprepare.
 */
static int make_parts(const mca_coll_mscclpp_api_t *component, struct mpix_mscclpp_request *request, int *queues_p,
                      uint64_t *largest_p)
{
    const int code = component->prepare(&request->call, queues_p, largest_p);

    *queues_p =
        *queues_p && code == MPI_SUCCESS && make_words(request) == MPI_SUCCESS && make_stream(request) == MPI_SUCCESS;
    return code;
}

/*
 * Lets the ranks of the request's communicator agree whether they can prepare it together. They can if all ranks have
 * the component or none has it, and if `code` is MPI_SUCCESS on all of them; `code` is the error of finding the
 * component on this rank. This agreement comes before the call of the component, because the ranks that have the
 * component wait there for all ranks. Returns `code` if it is an error, MPI_ERR_UNSUPPORTED_OPERATION if the ranks
 * cannot prepare the request, or the error of the all-reduce.
 */
static int agree_on_component(const struct mpix_mscclpp_request *request, const mca_coll_mscclpp_api_t *component,
                              int code)
{
    int local[3] = {code != MPI_SUCCESS, component != NULL, component == NULL}, any[3];
    const int agreed = MPI_Allreduce(local, any, 3, MPI_INT, MPI_MAX, request->call.comm);

    if (code != MPI_SUCCESS) {
        return code;
    }
    return agreed == MPI_SUCCESS && (any[0] || (any[1] && any[2])) ? MPI_ERR_UNSUPPORTED_OPERATION : agreed;
}

/* The values that the ranks exchange about a request; the largest value of all ranks counts. */
enum {
    CANNOT_EXECUTE, /* not 0: this rank cannot carry out the executions */
    LARGEST_BLOCK,  /* bytes of the largest block that this rank knows */
    VALUE_COUNT
};

/*
 * Prepares one request. Collective over its communicator. If one rank cannot carry out the call, or only some ranks
 * have the component, all ranks return MPI_ERR_UNSUPPORTED_OPERATION, or a more specific code that they know. A rank
 * that fails after the agreement on the component still takes part in the last all-reduce, so that no rank waits for it
 * for ever. Without the component a graph cannot release a request. Errors are not reported. After an error everything
 * that was made is freed, and the request can be prepared again.
 */
static int prepare(struct mpix_mscclpp_request *request)
{
    uint64_t local[VALUE_COUNT] = {0}, largest[VALUE_COUNT] = {1};
    const mca_coll_mscclpp_api_t *component;
    int component_code, code, can_execute = 0;

    component = mpix_component(&component_code);
    request->backend = mpix_backend();
    code = make_comm(request);
    if (code == MPI_SUCCESS) {
        code = agree_on_component(request, component, component_code);
    }
    if (code != MPI_SUCCESS) {
        mpix_request_unprepare(request);
        return code;
    }
    if (component != NULL) {
        code = make_parts(component, request, &can_execute, &local[LARGEST_BLOCK]);
    } else {
        can_execute = request->condition != MPIX_BY_GRAPH && make_words(request) == MPI_SUCCESS;
    }
    local[CANNOT_EXECUTE] = !can_execute;
    if (MPI_Allreduce(local, largest, VALUE_COUNT, MPI_UINT64_T, MPI_MAX, request->call.comm) != MPI_SUCCESS ||
        largest[CANNOT_EXECUTE] != 0) {
        mpix_request_unprepare(request);
        return code != MPI_SUCCESS ? code : MPI_ERR_UNSUPPORTED_OPERATION;
    }
    if (component == NULL) {
        request->is_plain = 1;
        mpix_plain_add(request);
    }
    request->call.is_size_agreed = 1;
    request->call.largest_block = largest[LARGEST_BLOCK];
    code = component != NULL ? component->map(&request->call, &request->call.mapped) : MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        mpix_request_unprepare(request);
        return code;
    }
    request->is_prepared = 1;
    return MPI_SUCCESS;
}

/*
 * Returns 1 if pair `a` is prepared before pair `b`: pairs are sorted by the lower rank, the higher rank, and the
 * sender. All ranks use the same order, so there cannot be a cycle of waiting ranks. If the pairs are equal, returns 0
 * in both directions, and the caller keeps the order of its list. The ranks that are compared are those in each
 * request's application communicator.
 */
static int is_before(const struct mpix_mscclpp_request *a, const struct mpix_mscclpp_request *b)
{
    enum { KEY_LENGTH = 3 };
    int key[2][KEY_LENGTH]; /* [request]: lower rank, higher rank, sender */

    for (int i = 0; i < 2; ++i) {
        const struct mpix_mscclpp_request *request = i == 0 ? a : b;
        int rank;

        (void)MPI_Comm_rank(request->app_comm, &rank);
        key[i][0] = rank < request->peer ? rank : request->peer;
        key[i][1] = rank < request->peer ? request->peer : rank;
        key[i][2] = request->side == MPIX_SENDER ? rank : request->peer;
    }
    for (int i = 0; i < KEY_LENGTH; ++i) {
        if (key[0][i] != key[1][i]) {
            return key[0][i] < key[1][i];
        }
    }
    return 0;
}

/*
 * Prepares all requests between two ranks that are attached and not yet prepared, in the order of is_before. Returns an
 * MPI error code, which has been reported; the requests before the one that failed remain prepared.
 */
static int prepare_pairs(int n, MPIX_Mscclpp_request requests[])
{
    for (;;) {
        struct mpix_mscclpp_request *next = NULL;
        int code;

        for (int i = 0; i < n; ++i) {
            if (requests[i] != NULL && requests[i]->side != MPIX_NO_SIDE && requests[i]->condition != MPIX_NOTHING &&
                !requests[i]->is_prepared && (next == NULL || is_before(requests[i], next))) {
                next = requests[i];
            }
        }
        if (next == NULL) {
            return MPI_SUCCESS;
        }
        code = prepare(next);
        if (code != MPI_SUCCESS) {
            return code == MPI_ERR_UNSUPPORTED_OPERATION
                       ? mpix_request_refuse(next->app_comm, code, "prepare",
                                             "these buffers cannot be sent: see mpix_mscclpp.h")
                       : mpix_report(next->app_comm, code);
        }
    }
}

/*
 * Pairs are prepared first, in their own order. All other requests are collective over all ranks of a communicator, and
 * every rank passes them in the same order. Requests that are already prepared are skipped.
 */
int MPIX_Mscclpp_prepare(int n, MPIX_Mscclpp_request requests[])
{
    const int pairs_code = prepare_pairs(n, requests);

    if (pairs_code != MPI_SUCCESS) {
        return pairs_code;
    }
    for (int i = 0; i < n; ++i) {
        int code;

        if (requests[i] == NULL || requests[i]->condition == MPIX_NOTHING) {
            return mpix_request_refuse(requests[i] == NULL ? MPI_COMM_NULL : requests[i]->app_comm, MPI_ERR_REQUEST,
                                       "prepare", "a request is NULL, or attached to nothing");
        }
        code = requests[i]->is_prepared ? MPI_SUCCESS : prepare(requests[i]);
        if (code == MPI_ERR_UNSUPPORTED_OPERATION) {
            return mpix_request_refuse(requests[i]->app_comm, code, "prepare",
                                       "calls with these buffers cannot be queued: see mpix_mscclpp.h");
        }
        if (code != MPI_SUCCESS) {
            return mpix_report(requests[i]->app_comm, code);
        }
    }
    return MPI_SUCCESS;
}
