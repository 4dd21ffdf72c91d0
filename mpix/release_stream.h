/*
 * Makes streams for requests that kernels release. Such a stream waits for marks in memory. CUDA maps streams to a few
 * hardware queues, and a wait at the head of such a queue holds up all streams that share it. If the application's
 * stream is one of them, the kernel that has to store the mark never begins. So each stream is tested before it is
 * used.
 */
#ifndef MPIX_RELEASE_STREAM_H
#define MPIX_RELEASE_STREAM_H

#include "mpix/backend.h"

/*
 * Makes a stream that does not hold up the stream `other`, which has to be empty. If a new stream holds up `other` for
 * `limit_seconds`, the function tries another one. `words` are two words of the backend for these trials, which have to
 * be 0. Sets *stream_p on success only. Returns an MPI error code, which the caller has to report. If all streams hold
 * up `other`, the code is MPI_ERR_UNSUPPORTED_OPERATION, and a message has been printed.
 */
int mpix_release_stream_make(const mpix_backend_t *backend, void *other, uint64_t words[2], double limit_seconds,
                             void **stream_p);

#endif
