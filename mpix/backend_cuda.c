/*
 * The backend on GPUs. It calls functions of CUDA's driver, which the application has loaded, so that CUDA need not be
 * installed where this library is built.
 */
#include "mpix/backend.h"

#include <string.h>

#include "mpix/internal.h"

/*
 * Values as in cuda.h. A stream that is not non-blocking would wait for the default stream, whose kernel may have to
 * release it. In the other modes of capture, calls such as allocations fail while a capture lasts.
 */
#define HOST_PORTABLE_AND_MAPPED 3u
#define STREAM_NON_BLOCKING 1u
#define CAPTURE_RELAXED 2
#define WAIT_UNTIL_NOT_BELOW 0u
#define WRITE_DEFAULT 0u
#define NO_CURRENT_CONTEXT 201

/*
 * Calls a driver function with this prototype. The value is MPI_SUCCESS, or MPI_ERR_OTHER if the function fails or does
 * not exist. CUDA's functions return 0 on success.
 */
#define CALL(symbol_, prototype_, ...)                                                                                 \
    ((symbol_).address != NULL && ((int(*) prototype_)(symbol_).function)(__VA_ARGS__) == 0 ? MPI_SUCCESS              \
                                                                                            : MPI_ERR_OTHER)

/* The functions of the backend follow; backend.h says what each does. */
static int words_make(size_t count, uint64_t **words_p)
{
    const size_t size = count * sizeof(uint64_t);
    void *words = NULL;
    const int code = CALL(mpix_driver("cuMemHostAlloc"), (void **address, size_t size, unsigned flags), &words, size,
                          HOST_PORTABLE_AND_MAPPED);

    if (code == MPI_SUCCESS) {
        memset(words, 0, size);
        *words_p = words;
    }
    return code;
}

static void words_free(uint64_t *words)
{
    (void)CALL(mpix_driver("cuMemFreeHost"), (void *address), words);
}

static int stream_make(void **stream_p)
{
    return CALL(mpix_driver("cuStreamCreate"), (void **stream, unsigned flags), stream_p, STREAM_NON_BLOCKING);
}

static void stream_free(void *stream)
{
    (void)CALL(mpix_driver("cuStreamSynchronize"), (void *stream), stream);
    (void)CALL(mpix_driver("cuStreamDestroy_v2"), (void *stream), stream);
}

/*
 * Queues a wait for a word, or a store to it, with the driver's function `name`. Drivers before CUDA 11.7 have it only
 * under `old_name`, and drivers of CUDA 12 only under `name`. words_make has allocated the word, so the GPU reaches it
 * at the host's address.
 */
static int queue_word(const char *name, const char *old_name, void *stream, const uint64_t *word, uint64_t value,
                      unsigned flags)
{
    mpix_symbol_t symbol = mpix_driver(name);

    if (symbol.address == NULL) {
        symbol = mpix_driver(old_name);
    }
    return CALL(symbol, (void *stream, uintptr_t address, uint64_t value, unsigned flags), stream, (uintptr_t)word,
                value, flags);
}

static int stream_await(void *stream, const uint64_t *word, uint64_t value)
{
    return queue_word("cuStreamWaitValue64_v2", "cuStreamWaitValue64", stream, word, value, WAIT_UNTIL_NOT_BELOW);
}

static int stream_store(void *stream, uint64_t *word, uint64_t value)
{
    return queue_word("cuStreamWriteValue64_v2", "cuStreamWriteValue64", stream, word, value, WRITE_DEFAULT);
}

/*
 * Returns whether a kernel has failed. Once a kernel has failed, all functions of the driver return an error, also this
 * one, which waits for nothing.
 */
static int has_failed(void)
{
    const mpix_symbol_t symbol = mpix_driver("cuMemGetInfo_v2");
    size_t free_bytes, all_bytes;
    const int status = symbol.address == NULL ? 0
                                              : ((int (*)(size_t * free_bytes, size_t * all_bytes))
                                                     symbol.function)(&free_bytes, &all_bytes);

    /* A thread that has never used the GPU has no context, and so tells nothing about kernels. */
    return status != 0 && status != NO_CURRENT_CONTEXT;
}

static int capture_begin(void *stream)
{
    return CALL(mpix_driver("cuStreamBeginCapture_v2"), (void *stream, int mode), stream, CAPTURE_RELAXED);
}

static int capture_end(void *stream, void **graph_p)
{
    return CALL(mpix_driver("cuStreamEndCapture"), (void *stream, void **graph), stream, graph_p);
}

static int graph_add(void *graph, void *part, void **node_p)
{
    return CALL(mpix_driver("cuGraphAddChildGraphNode"),
                (void **node, void *graph, const void *const *dependencies, size_t count, void *child), node_p, graph,
                NULL, 0, part);
}

static void graph_free(void *graph)
{
    (void)CALL(mpix_driver("cuGraphDestroy"), (void *graph), graph);
}

const mpix_backend_t mpix_backend_cuda = {
    .words_make = words_make,
    .words_free = words_free,
    .stream_make = stream_make,
    .stream_free = stream_free,
    .stream_await = stream_await,
    .stream_store = stream_store,
    .has_failed = has_failed,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_add = graph_add,
    .graph_free = graph_free,
};
