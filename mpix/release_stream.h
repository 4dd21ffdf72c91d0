/*
 * Makes streams of requests that kernels release. Such a stream waits for marks in memory. CUDA maps streams to a few
 * hardware queues, and a wait at the head of such a queue holds up all streams that share it. If the application's
 * stream is one of them, the kernel that is to make the mark never begins. So a stream is tried before it is used.
 */
#ifndef MPIX_RELEASE_STREAM_H
#define MPIX_RELEASE_STREAM_H

#include "mpix/backend.h"

/*
 * Makes a stream that does not hold up the stream `other`, which is empty. A stream that has held it up for `limit`
 * seconds is given up, and another one is tried. `words`: two words of the backend for the trials, which are 0 before.
 * Returns an MPI error code. If all streams hold up the other one, that is MPI_ERR_UNSUPPORTED_OPERATION, and a message
 * has been printed.
 */
int mpix_release_stream_make(const mpix_backend_t *backend, void *other, uint64_t words[2], double limit,
                             void **stream_p);

#endif
