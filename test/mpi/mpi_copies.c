#include "test/mpi/mpi_copies.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "tools/bench/bench_cuda.h"
#include "test/mpi/mpi_test.h"

/* How late the twin's late copies are. */
#define LATE_NS 3000000L

/* The twin's late copy that has not ended. There is one at most, so that they stay in order. */
static struct {
    bool running;
    pthread_t thread;
    char *to;
    const char *from; /* NULL: `byte` is to be set */
    char *kept;       /* what pageable memory held; NULL if `from` is device memory */
    unsigned char byte;
    size_t size;
} late_copy;

void mt_copies_check(int result, const char *call)
{
    if (0 != result) {
        fprintf(stderr, "rank %d: %s failed with CUDA error %d\n", mt_rank, call, result);
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
}

static int prompt_copy(uintptr_t to, uintptr_t from, size_t size)
{
    memcpy((void *)to, (const void *)from, size);
    return 0;
}

static int prompt_set(uintptr_t address, unsigned char byte, size_t size)
{
    memset((void *)address, byte, size);
    return 0;
}

static void *carry_out(void *unused)
{
    (void)unused;
    nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    if (late_copy.from == NULL) {
        memset(late_copy.to, late_copy.byte, late_copy.size);
    } else {
        memcpy(late_copy.to, late_copy.from, late_copy.size);
    }
    return NULL;
}

static void await_late(void)
{
    if (late_copy.running) {
        pthread_join(late_copy.thread, NULL);
        free(late_copy.kept);
        late_copy.running = false;
    }
}

/* Starts a thread that copies or fills after a delay. */
static int start_late(uintptr_t to, const char *from, char *kept, unsigned char byte, size_t size)
{
    late_copy.to = (char *)to;
    late_copy.from = from;
    late_copy.kept = kept;
    late_copy.byte = byte;
    late_copy.size = size;
    late_copy.running = 0 == pthread_create(&late_copy.thread, NULL, carry_out, NULL);
    return late_copy.running ? 0 : -1;
}

/* A copy from host memory that ends late: it reads a copy of the source, as CUDA does. */
static int late_to_device(uintptr_t to, uintptr_t from, size_t size)
{
    char *kept;

    await_late();
    kept = mt_host_alloc(size);
    memcpy(kept, (const void *)from, size);
    return start_late(to, kept, kept, 0, size);
}

static int late_on_device(uintptr_t to, uintptr_t from, size_t size)
{
    await_late();
    return start_late(to, (const char *)from, NULL, 0, size);
}

static int late_set(uintptr_t address, unsigned char byte, size_t size)
{
    await_late();
    return start_late(address, NULL, NULL, byte, size);
}

static int late_to_host(uintptr_t to, uintptr_t from, size_t size)
{
    await_late();
    return prompt_copy(to, from, size);
}

static mt_copy_fn_t find_copy(const char *name)
{
    mt_copy_fn_t function = (mt_copy_fn_t)bench_cuda_find(name);

    mt_copies_check(function == NULL ? -1 : 0, name);
    return function;
}

static mt_set_fn_t find_set(const char *name)
{
    mt_set_fn_t function = (mt_set_fn_t)bench_cuda_find(name);

    mt_copies_check(function == NULL ? -1 : 0, name);
    return function;
}

int mt_copies(bool late, const mt_copies_t **families_p)
{
    static const mt_copies_t prompt_twin = {"memcpy", prompt_copy, prompt_copy, prompt_copy, prompt_set};
    static const mt_copies_t late_twin = {"late memcpy", late_to_device, late_to_host, late_on_device, late_set};
    static mt_copies_t cuda[3];

    if (mt_twin) {
        *families_p = late ? &late_twin : &prompt_twin;
        return 1;
    }
    cuda[0] = (mt_copies_t){"legacy stream", find_copy("cuMemcpyHtoD_v2"), find_copy("cuMemcpyDtoH_v2"),
                            find_copy("cuMemcpyDtoD_v2"), find_set("cuMemsetD8_v2")};
    cuda[1] = (mt_copies_t){"legacy stream, default kind", find_copy("cuMemcpy"), find_copy("cuMemcpy"),
                            find_copy("cuMemcpy"), find_set("cuMemsetD8_v2")};
    cuda[2] = (mt_copies_t){"per-thread stream", find_copy("cuMemcpyHtoD_v2_ptds"), find_copy("cuMemcpyDtoH_v2_ptds"),
                            find_copy("cuMemcpyDtoD_v2_ptds"), find_set("cuMemsetD8_v2_ptds")};
    *families_p = cuda;
    return (int)(sizeof(cuda) / sizeof(cuda[0]));
}
