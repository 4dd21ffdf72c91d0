/*
 * Persistent requests: request_make.c describes them, request_prepare.c makes what they need, requests.c starts and
 * completes them.
 *
 * A request in the order of a stream, or of a graph, is a queued call that is made again at each start.
 *
 * One that kernels release has a communicator and a stream of its own. A start puts three things into that stream for
 * each partition: a wait for the partition's mark, the queued call, and a store that tells of its end. Marks and ends
 * are words that count starts, in host memory that kernels reach.
 */
#ifndef MPIX_REQUESTS_H
#define MPIX_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "device/types/user.h"
#include "mpix/backend.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "mpix/internal.h"

/* What an execution waits for. */
typedef enum { MPIX_NOTHING, MPIX_BY_STREAM, MPIX_BY_KERNELS, MPIX_BY_GRAPH } mpix_condition_t;

/* A partitioned request between two ranks has two sides. */
typedef enum { MPIX_NO_SIDE, MPIX_SENDER, MPIX_RECEIVER } mpix_side_of_pair_t;

/* The words of a request; behind them lie a mark for each partition, and then an end for each. */
enum {
    MPIX_ABORT_WORD,  /* not 0: kernels that wait give up */
    MPIX_TRIAL_WORDS, /* for mpix_release_stream_make */
    MPIX_REPORT_WORDS = MPIX_TRIAL_WORDS + 2,
    MPIX_FIRST_MARK = MPIX_REPORT_WORDS + MSCCLPP_DEV_USER_REPORT_WORDS
};

struct mpix_mscclpp_request {
    mca_coll_mscclpp_queue_call_t call; /* of one partition, with the first one's buffers */
    void *arrays;                       /* copies of the call's lists */
    MPI_Comm users;                     /* the application's communicator */
    int partitions;                     /* 1: not partitioned, unless `partitioned` */
    int partitioned;
    size_t part_bytes;
    mpix_side_of_pair_t side;
    int peer; /* of a side, in the application's communicator */
    int tag;

    mpix_condition_t condition;
    void *stream; /* of the application */
    void *graph;  /* of the application */
    void *node;   /* of the latest start */

    int prepared;
    void *own;       /* this library's stream; NULL: not needed */
    uint64_t *words; /* as numbered above */
    uint64_t starts; /* outside of graphs */
    int failed;      /* MPI_SUCCESS, or the error code that all further starts return */
};

static inline uint64_t *mpix_request_mark(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[MPIX_FIRST_MARK + partition];
}

static inline uint64_t *mpix_request_end(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[MPIX_FIRST_MARK + request->partitions + partition];
}

/* Tells whether all starts have come to their ends. Partitions end in the order of their numbers. */
static inline int mpix_request_has_ended(const struct mpix_mscclpp_request *request)
{
    return mpix_word_get(mpix_request_end(request, request->partitions - 1)) >= request->starts;
}

/* request_make.c: prints what is wrong, and reports the error. Returns the code. */
int mpix_request_refuse(MPI_Comm comm, int code, const char *function, const char *what);

/* request_make.c: frees a request of which nothing has been prepared, and sets the handle to NULL. */
void mpix_request_discard(MPIX_Mscclpp_request *request);

/* request_prepare.c: gives back what prepare has made. */
void mpix_request_unprepare(struct mpix_mscclpp_request *request);

#endif
