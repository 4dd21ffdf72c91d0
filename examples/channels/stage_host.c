/* The examples' device on the host twin: see stage.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpix_mscclpp/host_kernel.h"
#include "mpix_mscclpp_channels.h"
#include "stage.h"

#define THREADS 2 /* of a block */

/* A launched kernel. Kept until it has run. */
typedef struct launch {
    struct launch *next;
    mpix_host_kernel_t kernel;
} launch_t;

static void *stream;
static launch_t *launches;

/* Returns the memory, or ends the program if it is NULL. */
static void *not_null(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

const char *stage_open(int number)
{
    (void)number;
    if (MPIX_Mscclpp_host_stream_create(&stream) != MPI_SUCCESS) {
        fprintf(stderr, "no stream: run with --mca coll_mscclpp_device host\n");
        exit(1);
    }
    return "host twin";
}

void stage_close(void)
{
    (void)MPIX_Mscclpp_host_stream_destroy(stream);
}

unsigned stage_threads(void)
{
    return THREADS;
}

void *stage_alloc(size_t bytes)
{
    return not_null(calloc(1, bytes));
}

void stage_free(void *memory)
{
    free(memory);
}

void *stage_alloc_pinned(size_t bytes)
{
    return not_null(calloc(1, bytes));
}

void stage_free_pinned(void *memory)
{
    free(memory);
}

void stage_to_device(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void stage_to_host(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/*
 * Queues a kernel in the stream, with a copy of its arguments, which has `size` bytes: the kernel runs later, when the
 * caller may have changed them. stage_wait frees the copy.
 */
static void launch(void (*function)(mpix_group_t *block, void *args), unsigned blocks, const void *args, size_t size)
{
    launch_t *launched = not_null(malloc(sizeof(*launched)));

    launched->kernel = (mpix_host_kernel_t){function, not_null(malloc(size)), blocks, THREADS, 0};
    memcpy(launched->kernel.argument, args, size);
    launched->next = launches;
    launches = launched;
    if (MPIX_Mscclpp_host_launch(stream, mpix_host_run, &launched->kernel) != MPI_SUCCESS) {
        fprintf(stderr, "a kernel was not launched\n");
        exit(1);
    }
}

#define STAGE_LAUNCH(name_)                                                                                            \
    static void name_##_run(mpix_group_t *block, void *args)                                                           \
    {                                                                                                                  \
        name_##_body(block, args);                                                                                     \
    }                                                                                                                  \
    void name_##_launch(unsigned blocks, const name_##_args_t *args)                                                   \
    {                                                                                                                  \
        launch(name_##_run, blocks, args, sizeof(*args));                                                              \
    }
KERNELS(STAGE_LAUNCH)

/* Waits for all kernels, and then frees what their launches have allocated. One that did not run ends the program. */
void stage_wait(void)
{
    launch_t *launched;

    if (MPIX_Mscclpp_host_stream_sync(stream) != MPI_SUCCESS) {
        fprintf(stderr, "a stream failed\n");
        exit(1);
    }
    while ((launched = launches) != NULL) {
        if (launched->kernel.error != 0) {
            fprintf(stderr, "a kernel did not run: %s\n", strerror(launched->kernel.error));
            exit(1);
        }
        launches = launched->next;
        free(launched->kernel.argument);
        free(launched);
    }
}
