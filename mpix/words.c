#include "mpix/words.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpix/internal.h"

/* As in cuda.h. */
#define HOST_PORTABLE_AND_MAPPED 3u
#define STREAM_NON_BLOCKING 1u
#define WAIT_UNTIL_NOT_BELOW 0u
#define WRITE_DEFAULT 0u
typedef int (*host_alloc_fn_t)(void **address, size_t size, unsigned flags);
typedef int (*host_free_fn_t)(void *address);
typedef int (*stream_create_fn_t)(void **stream, unsigned flags);
typedef int (*stream_destroy_fn_t)(void *stream);
typedef int (*value_fn_t)(void *stream, uintptr_t address, uint64_t value, unsigned flags);

#define CALL(type_, symbol_, ...)                                                                                      \
    ((symbol_).address != NULL && ((type_)(symbol_).function)(__VA_ARGS__) == 0 ? MPI_SUCCESS : MPI_ERR_OTHER)

/* The component, if it runs on the host twin. */
static const mca_coll_mscclpp_api_t *twin(void)
{
    int code;
    const mca_coll_mscclpp_api_t *component = mpix_component(&code);

    return component != NULL && component->is_twin() ? component : NULL;
}

uint64_t *mpix_words_make(size_t count)
{
    void *words = NULL;

    if (twin() != NULL) {
        return calloc(count, sizeof(uint64_t));
    }
    if (CALL(host_alloc_fn_t, mpix_driver("cuMemHostAlloc"), &words, count * sizeof(uint64_t),
             HOST_PORTABLE_AND_MAPPED) != MPI_SUCCESS) {
        return NULL;
    }
    memset(words, 0, count * sizeof(uint64_t));
    return words;
}

void mpix_words_free(uint64_t *words)
{
    if (words == NULL) {
        return;
    }
    if (twin() != NULL) {
        free(words);
    } else {
        (void)CALL(host_free_fn_t, mpix_driver("cuMemFreeHost"), words);
    }
}

int mpix_own_stream_make(void **stream_p)
{
    const mca_coll_mscclpp_api_t *component = twin();

    return component != NULL ? component->host_stream_create(stream_p)
                             : CALL(stream_create_fn_t, mpix_driver("cuStreamCreate"), stream_p, STREAM_NON_BLOCKING);
}

int mpix_own_stream_free(void *stream)
{
    const mca_coll_mscclpp_api_t *component = twin();

    return component != NULL ? component->host_stream_destroy(stream)
                             : CALL(stream_destroy_fn_t, mpix_driver("cuStreamDestroy_v2"), stream);
}

uint64_t mpix_word_get(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void mpix_word_set(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Arguments of a wait or a store that a thread of the host twin's stream carries out. */
typedef struct {
    uint64_t *to;
    const uint64_t *word;
    const uint64_t *abort;
    uint64_t value;
} step_t;

/* A wait may be long, so the thread soon leaves the processor to others. */
static void await_on_twin(void *argument)
{
    step_t *step = argument;

    for (int turns = 0; mpix_word_get(step->word) < step->value && mpix_word_get(step->abort) == 0; ++turns) {
        if (turns < 1000) {
            (void)sched_yield();
        } else {
            (void)usleep(100);
        }
    }
    free(step);
}

static void store_on_twin(void *argument)
{
    step_t *step = argument;

    mpix_word_set(step->to, step->value);
    free(step);
}

static int queue_on_twin(const mca_coll_mscclpp_api_t *component, void *stream, void (*function)(void *argument),
                         step_t step)
{
    step_t *kept = malloc(sizeof(*kept));
    int code;

    if (kept == NULL) {
        return MPI_ERR_NO_MEM;
    }
    *kept = step;
    code = component->host_call(stream, function, kept);
    if (code != MPI_SUCCESS) {
        free(kept);
    }
    return code;
}

static int queue_on_gpu(const char *name, const char *old_name, void *stream, const uint64_t *word, uint64_t value,
                        unsigned flags)
{
    mpix_symbol_t symbol = mpix_driver(name);

    if (symbol.address == NULL) {
        symbol = mpix_driver(old_name);
    }
    return CALL(value_fn_t, symbol, stream, (uintptr_t)word, value, flags);
}

int mpix_stream_await(void *stream, const uint64_t *word, uint64_t value, const uint64_t *abort)
{
    const mca_coll_mscclpp_api_t *component = twin();

    return component != NULL ? queue_on_twin(component, stream, await_on_twin, (step_t){NULL, word, abort, value})
                             : queue_on_gpu("cuStreamWaitValue64_v2", "cuStreamWaitValue64", stream, word, value,
                                            WAIT_UNTIL_NOT_BELOW);
}

int mpix_stream_store(void *stream, uint64_t *word, uint64_t value)
{
    const mca_coll_mscclpp_api_t *component = twin();

    return component != NULL
               ? queue_on_twin(component, stream, store_on_twin, (step_t){word, NULL, NULL, value})
               : queue_on_gpu("cuStreamWriteValue64_v2", "cuStreamWriteValue64", stream, word, value, WRITE_DEFAULT);
}
