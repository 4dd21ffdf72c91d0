/* The backend on the host twin, whose streams are threads of the CPU. */
#include "mpix/backend.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "mpix/internal.h"

/*
 * A wait first yields the processor, so that it notices a mark at once that comes soon. Then it sleeps between two
 * reads of the word, because a mark may take seconds, and the kernel that sets it needs the processor.
 */
#define YIELDS_BEFORE_SLEEP 1000
#define PAUSE_US 100

/*
 * Returns the component's table; NULL: there is none. Functions of this backend are only called if the component runs
 * on the host twin, so they need not check that.
 */
static const mca_coll_mscclpp_api_t *component_table(void)
{
    int code;

    return mpix_component(&code);
}

const mpix_backend_t *mpix_backend(void)
{
    const mca_coll_mscclpp_api_t *component = component_table();

    if (component == NULL && mpix_driver("cuMemHostAlloc").address == NULL) {
        return &mpix_backend_plain;
    }
    return component != NULL && component->is_twin() ? &mpix_backend_twin : &mpix_backend_cuda;
}

/* The functions of the backend follow; backend.h says what each does. */
static int words_make(size_t count, uint64_t **words_p)
{
    *words_p = calloc(count, sizeof(uint64_t));
    return *words_p != NULL ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static void words_free(uint64_t *words)
{
    free(words);
}

static int stream_make(void **stream_p)
{
    return component_table()->host_stream_create(stream_p);
}

static void stream_free(void *stream)
{
    (void)component_table()->host_stream_destroy(stream);
}

/* An operation on a word that a stream's thread carries out. The function that carries it out also frees it. */
typedef struct {
    uint64_t *word;
    uint64_t value;
} operation_t;

/*
 * Runs in the stream's thread: waits until the word reaches the value. The wait has no deadline: mpix_request_abandon
 * ends such waits by storing a value that is larger than all others.
 */
static void run_wait(void *argument)
{
    operation_t *operation = argument;

    for (int yields = 0; mpix_word_get(operation->word) < operation->value;) {
        if (yields < YIELDS_BEFORE_SLEEP) {
            (void)sched_yield();
            ++yields;
        } else {
            (void)usleep(PAUSE_US);
        }
    }
    free(operation);
}

/* Runs in the stream's thread: stores the value in the word. */
static void run_store(void *argument)
{
    operation_t *operation = argument;

    mpix_word_set(operation->word, operation->value);
    free(operation);
}

/*
 * Queues an operation on a word. `carry_out`, which is run_wait or run_store, runs in the stream's thread and frees
 * the operation. Returns MPI_ERR_NO_MEM or the error code of the component if nothing could be queued.
 */
static int queue_operation(void *stream, void (*carry_out)(void *argument), uint64_t *word, uint64_t value)
{
    operation_t *operation = malloc(sizeof(*operation));
    int code;

    if (operation == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *operation = (operation_t){word, value};
    code = component_table()->host_call(stream, carry_out, operation);
    if (code != MPI_SUCCESS) {
        free(operation);
    }
    return code;
}

static int stream_await(void *stream, const uint64_t *word, uint64_t value)
{
    return queue_operation(stream, run_wait, (uint64_t *)(uintptr_t)word, value);
}

static int stream_store(void *stream, uint64_t *word, uint64_t value)
{
    return queue_operation(stream, run_store, word, value);
}

static int has_failed(void)
{
    return 0;
}

static int capture_begin(void *stream)
{
    return component_table()->host_capture_begin(stream);
}

static int capture_end(void *stream, void **graph_p)
{
    return component_table()->host_capture_end(stream, graph_p);
}

static int graph_add(void *graph, void *part, void **node_p)
{
    *node_p = NULL;
    return component_table()->host_graph_append(graph, part);
}

static void graph_free(void *graph)
{
    (void)component_table()->host_graph_destroy(graph);
}

const mpix_backend_t mpix_backend_twin = {
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

const mpix_backend_t mpix_backend_plain = {.words_make = words_make, .words_free = words_free};
