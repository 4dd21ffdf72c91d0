/*
 * The functions of a driver that persistent requests need: words that the host, kernels and streams share, streams that
 * wait for such words, and graphs. Two backends have all of them: CUDA's driver, and the host twin.
 *
 * All functions that return int return an MPI error code, which they do not report.
 */
#ifndef MPIX_BACKEND_H
#define MPIX_BACKEND_H

#include <stddef.h>
#include <stdint.h>

/* A backend. */
typedef struct {
    /* Allocates words in host memory that kernels reach at the same address, and sets them to 0. */
    int (*words_make)(size_t count, uint64_t **words_p);
    void (*words_free)(uint64_t *words);

    /* Makes a stream of this library. Freeing the stream waits for the work in it. */
    int (*stream_make)(void **stream_p);
    void (*stream_free)(void *stream);

    /* Queues a wait: later work in the stream begins when the word is `value` or more. */
    int (*stream_await)(void *stream, const uint64_t *word, uint64_t value);

    /*
     * Queues a store of `value` to the word. The store is carried out when all earlier work in the stream has ended and
     * its results are visible.
     */
    int (*stream_store)(void *stream, uint64_t *word, uint64_t value);

    /* Returns 1 if the GPU has failed, so that nothing in any stream runs any more. */
    int (*has_failed)(void);

    /*
     * capture_begin begins to capture a stream of this library. capture_end ends the capture with a graph, which the
     * caller frees with graph_free.
     */
    int (*capture_begin)(void *stream);
    int (*capture_end)(void *stream, void **graph_p);

    /*
     * Adds a copy of graph `part` to the application's graph, as one node without edges, and sets *node_p to this node.
     * On the host twin a graph is a list; the copy is appended to the list, and *node_p becomes NULL.
     */
    int (*graph_add)(void *graph, void *part, void **node_p);
    void (*graph_free)(void *graph);
} mpix_backend_t;

extern const mpix_backend_t mpix_backend_cuda;
extern const mpix_backend_t mpix_backend_twin;

/* The backend of processes without the component and without CUDA. It has words only; its other functions are NULL. */
extern const mpix_backend_t mpix_backend_plain;

/*
 * Returns the backend that fits the component. Without a component it is CUDA's, or the plain one if there is no CUDA.
 */
const mpix_backend_t *mpix_backend(void);

/* Reads a word. All writes before the store of this value are visible afterwards. */
static inline uint64_t mpix_word_get(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Stores a word after everything that this thread has written. */
static inline void mpix_word_set(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

#endif
