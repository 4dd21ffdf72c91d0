/*
 * What persistent requests need of a driver: words that the host, kernels and streams share, streams that wait for such
 * words, and graphs. Two backends have all of this: CUDA's driver, and the host twin.
 *
 * Functions that return int return an MPI error code.
 */
#ifndef MPIX_BACKEND_H
#define MPIX_BACKEND_H

#include <stddef.h>
#include <stdint.h>

/* A backend. */
typedef struct {
    /* Allocates zeroed words in host memory, which kernels reach at the same address. */
    int (*words_make)(size_t count, uint64_t **words_p);
    void (*words_free)(uint64_t *words);

    /* Makes a stream of this library. Freeing it waits for what is in it. */
    int (*stream_make)(void **stream_p);
    void (*stream_free)(void *stream);

    /* Queues a wait: what follows in the stream begins once the word is `value` or more. */
    int (*stream_await)(void *stream, const uint64_t *word, uint64_t value);

    /* Queues a store of `value` to the word, after everything before it in the stream has ended and is visible. */
    int (*stream_store)(void *stream, uint64_t *word, uint64_t value);

    /* Begin to capture a stream of this library, and end that with a graph, which the caller frees. */
    int (*capture_begin)(void *stream);
    int (*capture_end)(void *stream, void **graph_p);

    /*
     * Adds a copy of graph `part` to the application's graph, as one node without edges, which *node_p is set to. On
     * the host twin, where graphs are lists, the copy becomes the end of the list, and *node_p NULL.
     */
    int (*graph_add)(void *graph, void *part, void **node_p);
    void (*graph_free)(void *graph);
} mpix_backend_t;

extern const mpix_backend_t mpix_backend_cuda;
extern const mpix_backend_t mpix_backend_twin;

/* For processes without the component and without CUDA: it has words only. Its other functions are NULL. */
extern const mpix_backend_t mpix_backend_plain;

/* Returns the backend that fits the component. Without a component: CUDA's, or the plain one if there is no CUDA. */
const mpix_backend_t *mpix_backend(void);

/* Reads a word; what was written before its store can be seen afterwards. */
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
