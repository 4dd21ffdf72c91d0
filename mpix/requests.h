/* Persistent requests: request_make.c describes them, request_prepare.c makes what they need, requests.c starts them.
 */
#ifndef MPIX_REQUESTS_H
#define MPIX_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

#include "device/types/user.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "mpix/internal.h"

enum { NOT_ATTACHED, BY_STREAM, BY_KERNELS };

/* Of a request between two ranks. */
enum { NEITHER, SENDER, RECEIVER };

/* Words for a request: abort, what handles want for reports, then a mark and an end for each partition. */
enum { ABORT_WORD, REPORT_WORDS, FIRST_MARK = REPORT_WORDS + MSCCLPP_DEV_USER_REPORT_WORDS };

struct mpix_mscclpp_request {
    mca_coll_mscclpp_queue_call_t call; /* of one partition; the first one's buffers */
    MPI_Comm users;
    int partitioned;
    int side;
    int peer; /* of a sender or receiver, in the users' communicator */
    int tag;
    int partitions;
    size_t part_bytes;
    int attached;
    int prepared;
    void *stream; /* of the application */
    void *own;    /* stream; NULL if the application's stream releases it */
    uint64_t *words;
    uint64_t starts; /* that are not in a graph */
    int failed;      /* the error code of a start */
};

static inline uint64_t *mpix_request_mark(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[FIRST_MARK + partition];
}

static inline uint64_t *mpix_request_end(const struct mpix_mscclpp_request *request, int partition)
{
    return &request->words[FIRST_MARK + request->partitions + partition];
}

/* request_make.c: prints what is wrong, and reports the error. Returns the code. */
int mpix_request_refuse(MPI_Comm comm, int code, const char *function, const char *what);

/* request_prepare.c: gives back what prepare has made. */
void mpix_request_unprepare(struct mpix_mscclpp_request *request);

#endif
