/*
 * What MPI_Init and all-reduces of host memory take, which this component only looks at.
 * Usage: time_host [--init] [--context] [--device]
 *   --init     MPI_Init alone
 *   --context  the ranks have a CUDA context, made behind MPI_Init
 *   --device   then one all-reduce of each kind of device memory, which must be told from host memory
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tools/bench/bench_cuda.h"

#define BATCHES 41
#define CALLS 2000
#define DEVICE_BYTES ((size_t)2 << 20) /* a whole page of the driver's */

typedef int (*copy_to_fn_t)(uintptr_t to, const void *from, size_t size);
typedef int (*copy_from_fn_t)(void *to, uintptr_t from, size_t size);

static int rank, size;
static double program_variables[2];

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void fail(const char *what)
{
    fprintf(stderr, "time_host: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* `memory`: room for two numbers. */
static void time_calls(const char *kind, double *memory)
{
    double times[BATCHES], worst;

    memory[0] = rank;
    for (int batch = 0; batch < BATCHES; ++batch) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (int call = 0; call < CALLS; ++call) {
            MPI_Allreduce(&memory[0], &memory[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
        times[batch] = (now() - start) / CALLS;
    }
    if (memory[1] != 0.5 * size * (size - 1)) {
        fail("a sum of host memory is wrong");
    }
    qsort(times, BATCHES, sizeof(times[0]), compare);
    MPI_Reduce(&times[BATCHES / 2], &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%-8s 8 B: %.3f us\n", kind, worst);
    }
}

static void sum_on_device(const char *kind, void *memory)
{
    copy_to_fn_t copy_to = (copy_to_fn_t)bench_cuda_find("cuMemcpyHtoD_v2");
    copy_from_fn_t copy_from = (copy_from_fn_t)bench_cuda_find("cuMemcpyDtoH_v2");
    double value = rank;

    if (copy_to == NULL || copy_from == NULL || copy_to((uintptr_t)memory, &value, sizeof(value)) != 0) {
        fail("cannot copy to the device");
    }
    MPI_Allreduce(MPI_IN_PLACE, memory, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (copy_from(&value, (uintptr_t)memory, sizeof(value)) != 0 || value != 0.5 * size * (size - 1)) {
        fail("a sum of device memory is wrong");
    }
    if (rank == 0) {
        printf("%-8s device memory: right\n", kind);
    }
}

static void sum_all_kinds(void)
{
    void *memory;

    if (!bench_cuda_mapped_alloc(DEVICE_BYTES, &memory)) {
        fail("cannot map device memory");
    }
    sum_on_device("mapped", memory);
    bench_cuda_mapped_free(memory, DEVICE_BYTES);
    if (!bench_cuda_pool_alloc(DEVICE_BYTES, &memory)) {
        fail("cannot allocate from the pool");
    }
    sum_on_device("pool", memory);
    bench_cuda_pool_free(memory);
    if (!bench_cuda_managed_alloc(DEVICE_BYTES, &memory)) {
        fail("cannot allocate managed memory");
    }
    sum_on_device("managed", memory);
    bench_cuda_managed_free(memory);
}

int main(int argc, char **argv)
{
    bool init = false, context = false, device = false;
    double stack[2], start, took, worst;
    double *heap = malloc(2 * sizeof(*heap));
    void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--init") == 0) {
            init = true;
        } else if (strcmp(argv[i], "--context") == 0) {
            context = true;
        } else if (strcmp(argv[i], "--device") == 0) {
            context = device = true;
        } else {
            fprintf(stderr, "time_host: \"%s\" is not allowed; use --init, --context, --device, or nothing\n", argv[i]);
            return 2;
        }
    }
    start = now();
    MPI_Init(&argc, &argv);
    took = 1e-3 * (now() - start);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(&took, &worst, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("MPI_Init: %.1f ms\n", worst);
    }
    if (init) {
        MPI_Finalize();
        return 0;
    }
    if (heap == NULL || mapped == MAP_FAILED || (context && !bench_cuda_select(0))) {
        fail("cannot set up");
    }
    time_calls("stack", stack);
    time_calls("heap", heap);
    time_calls("program", program_variables);
    time_calls("mmap", mapped);
    if (device) {
        sum_all_kinds();
    }
    free(heap);
    munmap(mapped, 4096);
    MPI_Finalize();
    return 0;
}
