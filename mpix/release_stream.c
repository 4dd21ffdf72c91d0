/* Tests new streams until one does not hold up the application's stream. */
#include "mpix/release_stream.h"

#include <sched.h>
#include <stdio.h>

#include "mpix/internal.h"

/* The number of streams that are tried. CUDA has 8 hardware queues by default, and at most 32. */
#define TRIES 8

/*
 * Returns 1 if work in the stream `other` is held up for `limit_seconds` while the stream `waiting` waits for a word.
 * Both streams are empty before and after the call. Both words have to be below `number`, which the function stores in
 * them. The wait is queued before the work, because it can only hold up later work. After an error, which is stored in
 * *code_p, the result has no meaning, but the wait in `waiting` is ended nevertheless.
 */
static int is_held_up(const mpix_backend_t *backend, void *waiting, void *other, uint64_t words[2], uint64_t number,
                      double limit_seconds, int *code_p)
{
    const double deadline = MPI_Wtime() + limit_seconds;
    uint64_t *mark = &words[0];   /* `waiting` waits for this word */
    uint64_t *passed = &words[1]; /* `other` sets this word */
    int held_up;

    *code_p = backend->stream_await(waiting, mark, number);
    if (*code_p == MPI_SUCCESS) {
        *code_p = backend->stream_store(other, passed, number);
    }
    while (*code_p == MPI_SUCCESS && mpix_word_get(passed) < number && MPI_Wtime() < deadline) {
        (void)sched_yield();
    }
    held_up = mpix_word_get(passed) < number;
    /* This store ends the wait in `waiting`, so that both streams become empty. */
    mpix_word_set(mark, number);
    while (*code_p == MPI_SUCCESS && mpix_word_get(passed) < number) {
        (void)sched_yield();
    }
    return held_up;
}

/* Gives each trial its own number, from 1 on, so that the words need not be cleared in between. */
int mpix_release_stream_make(const mpix_backend_t *backend, void *other, uint64_t words[2], double limit_seconds,
                             void **stream_p)
{
    void *streams[TRIES];
    int made = 0, usable = -1, code = MPI_SUCCESS;

    /*
     * CUDA assigns new streams to its hardware queues in turn, so the streams that hold up `other` are not freed until
     * one is found that does not.
     */
    while (made < TRIES && usable < 0 && code == MPI_SUCCESS) {
        code = backend->stream_make(&streams[made]);
        if (code == MPI_SUCCESS) {
            usable =
                is_held_up(backend, streams[made], other, words, (uint64_t)made + 1, limit_seconds, &code) ? -1 : made;
            ++made;
        }
    }
    for (int i = 0; i < made; ++i) {
        if (i != usable || code != MPI_SUCCESS) {
            backend->stream_free(streams[i]);
        }
    }
    if (code != MPI_SUCCESS) {
        return code;
    }
    if (usable < 0) {
        (void)fprintf(stderr,
                      "libmpix_mscclpp: MPIX_Mscclpp_prepare: every new stream shares a hardware queue with the stream "
                      "that the request is attached to, so a kernel there could wait forever for the request that it "
                      "has to release; set CUDA_DEVICE_MAX_CONNECTIONS to 32, or use fewer streams\n");
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    *stream_p = streams[usable];
    return MPI_SUCCESS;
}
