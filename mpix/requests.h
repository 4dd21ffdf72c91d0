/*
 * Persistent requests: request_make.c makes them from arguments, request_prepare.c makes the objects that they need,
 * and requests.c starts and completes them.
 *
 * A request that is attached to a stream or a graph is a queued call that is made again at each start.
 *
 * A request that kernels release has its own communicator and stream. A start queues three operations in that stream
 * for each partition: a wait for the partition's mark, the call, and a store to the partition's end word. Marks and end
 * words are words in host memory, which kernels reach. They count starts.
 *
 * Without the component the host waits for the marks, and makes MPI's own calls (plain.h).
 */
#ifndef MPIX_REQUESTS_H
#define MPIX_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "device/types/user.h"
#include "mpix/backend.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "mpix/internal.h"

/*
 * What releases an execution: the kind of object to which the application has attached the request. NOTHING: it is not
 * attached yet.
 */
typedef enum { MPIX_NOTHING, MPIX_BY_STREAM, MPIX_BY_KERNELS, MPIX_BY_GRAPH } mpix_condition_t;

/* The side of this rank in a partitioned request between two ranks. NO_SIDE: the request is a collective. */
typedef enum { MPIX_NO_SIDE, MPIX_SENDER, MPIX_RECEIVER } mpix_side_of_pair_t;

/*
 * Indices of a request's words. They are followed by a mark word for each partition, and then by an end word for each.
 */
enum {
    MPIX_ABORT_WORD,                          /* not 0: kernels stop waiting */
    MPIX_PASSED_WORD,                         /* how many waits of `complete` have ended in the application's streams */
    MPIX_TRIAL_WORDS,                         /* two words, for mpix_release_stream_make */
    MPIX_REPORT_WORDS = MPIX_TRIAL_WORDS + 2, /* why a kernel gave up (mpix_mscclpp/types.h) */
    MPIX_FIRST_MARK = MPIX_REPORT_WORDS + MSCCLPP_DEV_USER_REPORT_WORDS
};

/* A request. The application's handle is its address. */
struct mpix_mscclpp_request {
    mca_coll_mscclpp_queue_call_t call; /* the call of one partition, with the buffers of the first partition */
    void *arrays;                       /* copies of the call's lists */
    MPI_Comm app_comm;                  /* the application's communicator; call.comm may be one of this library */
    int partitions;                     /* number of partitions; 1 if it is not partitioned */
    int is_partitioned;                 /* made by a function for partitions, even if there is only one */
    size_t part_bytes;                  /* of one partition */
    mpix_side_of_pair_t side;
    int peer; /* for a pair: the other side's rank in the application's communicator */
    int tag;  /* tag of a pair */

    mpix_condition_t condition;
    void *stream; /* of the application */
    void *graph;  /* of the application */
    void *node;   /* the graph's node that the latest start added */

    int is_prepared;
    void *own_stream;              /* a stream of this library for the request; NULL: not needed */
    uint64_t *words;               /* the words, at the indices above */
    uint64_t start_count;          /* starts so far, outside of graphs */
    uint64_t complete_count;       /* waits that `complete` has queued in the application's streams */
    int failure_code;              /* MPI_SUCCESS, or the error code that all further starts return */
    const mpix_backend_t *backend; /* the backend that has made the words and the stream */

    /* Without the component (plain.h). */
    int is_plain;                      /* MPI's own calls carry out the executions */
    MPI_Request under_way;             /* MPI's call; MPI_REQUEST_NULL: none is under way */
    uint64_t execution;                /* the number of the start that is being carried out, or is next; from 1 on */
    int partition;                     /* the partition of this start that is being carried out, or is next */
    struct mpix_mscclpp_request *next; /* next request in the list of plain.c */
};

/* Returns the address of a partition's mark: the word that kernels count up to release the partition. */
static inline uint64_t *mpix_request_mark_word(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[MPIX_FIRST_MARK + partition];
}

/* Returns the address of a partition's end word: the number of the last start in which the partition has ended. */
static inline uint64_t *mpix_request_end_word(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[MPIX_FIRST_MARK + request->partitions + partition];
}

/* Returns 1 if all starts have ended. Partitions end in the order of their numbers, so the last one is tested. */
static inline int mpix_request_has_ended(const struct mpix_mscclpp_request *request)
{
    return mpix_word_get(mpix_request_end_word(request, request->partitions - 1)) >= request->start_count;
}

/*
 * Returns 1 if no operation in a stream of the application uses the request's words any more. Operations in the
 * request's own stream do not count, because freeing that stream waits for them.
 */
static inline int mpix_request_has_left_streams(const struct mpix_mscclpp_request *request)
{
    return request->is_plain || ((request->condition == MPIX_BY_KERNELS || mpix_request_has_ended(request)) &&
                                 mpix_word_get(&request->words[MPIX_PASSED_WORD]) >= request->complete_count);
}

/*
 * request_make.c: prints `reason`, the mistake in the call of MPIX_Mscclpp_<function>, and reports the error. Returns
 * `code`.
 */
int mpix_request_refuse(MPI_Comm comm, int code, const char *function, const char *reason);

/* request_make.c: frees a request of which nothing has been prepared, and sets the handle to NULL. */
void mpix_request_discard(MPIX_Mscclpp_request *request);

/* requests.c: returns the call of one partition: the request's call, with the partition's buffers. */
mca_coll_mscclpp_queue_call_t mpix_request_part(const struct mpix_mscclpp_request *request, int partition);

/*
 * requests.c: ends a failed request. All its further starts return `code`. Ends the waits for marks in its stream, and
 * makes kernels that wait for the request stop waiting.
 */
void mpix_request_abandon(struct mpix_mscclpp_request *request, int code);

/* request_prepare.c: frees everything that prepare has made, even if prepare failed in between. */
void mpix_request_unprepare(struct mpix_mscclpp_request *request);

#endif
