/*
 * Persistent requests: request_make.c describes them, request_prepare.c makes what they need, requests.c starts and
 * completes them.
 *
 * A request that is attached to a stream or a graph is a queued call that is made again at each start.
 *
 * A request that kernels release has its own communicator and stream. A start queues three operations in that stream
 * for each partition: a wait for the partition's mark, the call, and a store to the partition's end word. Marks and
 * ends are words in host memory, which kernels reach. They count starts.
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

/* What releases an execution. */
typedef enum { MPIX_NOTHING, MPIX_BY_STREAM, MPIX_BY_KERNELS, MPIX_BY_GRAPH } mpix_condition_t;

/* A partitioned request between two ranks has two sides. */
typedef enum { MPIX_NO_SIDE, MPIX_SENDER, MPIX_RECEIVER } mpix_side_of_pair_t;

/* Positions of a request's words. A mark for each partition follows, then an end for each. */
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
    int partitions;                     /* 1 if it is not partitioned */
    int partitioned;                    /* made by a function for partitions, of which there may be only one */
    size_t part_bytes;                  /* of one partition */
    mpix_side_of_pair_t side;
    int peer; /* the other side's rank in the application's communicator */
    int tag;

    mpix_condition_t condition;
    void *stream; /* of the application */
    void *graph;  /* of the application */
    void *node;   /* the graph's node that the latest start added */

    int prepared;
    void *own;                     /* this library's stream; NULL: not needed */
    uint64_t *words;               /* at the positions above */
    uint64_t starts;               /* so far, outside of graphs */
    int failed;                    /* MPI_SUCCESS, or the error code that all further starts return */
    const mpix_backend_t *backend; /* which has made what the request has */

    /* Without the component (plain.h). */
    int plain;                         /* MPI's own calls carry out the executions */
    MPI_Request under_way;             /* MPI's call */
    uint64_t execution;                /* the number of the start that is carried out, or comes next */
    int part;                          /* its partition that is carried out, or comes next */
    struct mpix_mscclpp_request *next; /* in the list of plain.c */
};

/* The word that kernels count up to release a partition. */
static inline uint64_t *mpix_request_mark_word(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[MPIX_FIRST_MARK + partition];
}

/* The word that tells in which start a partition has ended. */
static inline uint64_t *mpix_request_end_word(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[MPIX_FIRST_MARK + request->partitions + partition];
}

/* Whether all starts have ended. Partitions end in the order of their numbers. */
static inline int mpix_request_has_ended(const struct mpix_mscclpp_request *request)
{
    return mpix_word_get(mpix_request_end_word(request, request->partitions - 1)) >= request->starts;
}

/* request_make.c: prints what is wrong, and reports the error. Returns the code. */
int mpix_request_refuse(MPI_Comm comm, int code, const char *function, const char *what);

/* request_make.c: frees a request of which nothing has been prepared, and sets the handle to NULL. */
void mpix_request_discard(MPIX_Mscclpp_request *request);

/* requests.c: the call of one partition. */
mca_coll_mscclpp_queue_call_t mpix_request_part(const struct mpix_mscclpp_request *request, int partition);

/* requests.c: ends a failed request: releases the stream from its waits for marks, and tells kernels that wait for it.
 */
void mpix_request_abandon(struct mpix_mscclpp_request *request, int code);

/* request_prepare.c: gives back what prepare has made. */
void mpix_request_unprepare(struct mpix_mscclpp_request *request);

#endif
