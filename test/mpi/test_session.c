/*
 * A process that never calls MPI_Init: a session and another one within its life, with communicators of their groups,
 * calls on device buffers, and the end of all of it. MPI 4. On GPUs rank r takes the GPU of that number, modulo how
 * many there are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/gpu/gpu.h"
#include "tools/bench/bench_cuda.h"
#include "test/mpi/mpi_test.h"

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

#define COUNT 30000
#define CALLS 3

/* What one of the session's communicators is used with. */
typedef struct {
    const mscclpp_gpu_ops_t *gpu;
    mscclpp_gpu_stream_t *stream;
    int *in; /* device memory */
    int *out;
    int *host;
} memory_t;

static bool copy(const memory_t *memory, void *to, const void *from)
{
    return MSCCLPP_OK == memory->gpu->copy(memory->stream, to, from, COUNT * sizeof(int)) &&
           MSCCLPP_OK == memory->gpu->stream_sync(memory->stream);
}

static bool open_memory(memory_t *memory)
{
    const char *wanted = getenv("MSCCLPP_TEST_DEVICE");
    void *in, *out;
    int count, device;

    wanted = wanted == NULL ? "host" : wanted;
    if (MSCCLPP_OK != mscclpp_gpu_open(wanted, &memory->gpu) || MSCCLPP_OK != memory->gpu->probe(&count) || count < 1) {
        return false;
    }
    device = mt_rank % count;
    if ((0 != strcmp(wanted, "host") && !bench_cuda_select(device)) ||
        MSCCLPP_OK != memory->gpu->stream_create(device, &memory->stream) ||
        MSCCLPP_OK != memory->gpu->device_alloc(device, COUNT * sizeof(int), &in) ||
        MSCCLPP_OK != memory->gpu->device_alloc(device, COUNT * sizeof(int), &out)) {
        return false;
    }
    memory->in = in;
    memory->out = out;
    memory->host = calloc(COUNT, sizeof(int));
    return memory->host != NULL;
}

static void use(MPI_Comm comm, const memory_t *memory, int seed)
{
    uint64_t served = mt_served(comm);

    for (int call = 0; call < CALLS; ++call) {
        for (int i = 0; i < COUNT; ++i) {
            memory->host[i] = mt_rank + i + seed + call;
        }
        MT_CHECK(copy(memory, memory->in, memory->host), "a copy of the test failed");
        MT_MPI(MPI_Allreduce(memory->in, memory->out, 0 == call ? 1 : COUNT, MPI_INT, MPI_SUM, comm));
        MT_CHECK(copy(memory, memory->host, memory->out), "a copy of the test failed");
        for (int i = 0; i < (0 == call ? 1 : COUNT); ++i) {
            const int expected = mt_size * (mt_size - 1) / 2 + mt_size * (i + seed + call);

            MT_CHECK(expected == memory->host[i], "call %d: element %d is %d and not %d", call, i, memory->host[i],
                     expected);
        }
    }
    served = mt_served(comm) - served;
    MT_CHECK(CALLS == served, "kernels served %llu of %d calls", (unsigned long long)served, CALLS);
}

/* One within the other: Open MPI 5.0 does not start again after its last session while the tool interface is in use. */
static void run_session(memory_t *memory, int seed, bool outer)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, again;

    MT_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    MT_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MT_MPI(MPI_Comm_create_from_group(group, "mscclpp test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    MPI_Comm_rank(comm, &mt_rank);
    MPI_Comm_size(comm, &mt_size);
    if (memory->gpu == NULL) {
        mt_counters_open(MPI_THREAD_SINGLE);
        if (!open_memory(memory)) {
            fprintf(stderr, "rank %d: no memory of MSCCLPP_TEST_DEVICE\n", mt_rank);
            MPI_Abort(comm, 1);
        }
    }
    use(comm, memory, seed);
    MT_MPI(MPI_Comm_dup(comm, &again));
    use(again, memory, seed + 1);
    MT_MPI(MPI_Comm_free(&comm));
    use(again, memory, seed + 2);
    if (outer) {
        run_session(memory, seed + 100, false);
        use(again, memory, seed + 3);
    }
    MT_MPI(MPI_Comm_free(&again));
    MT_MPI(MPI_Group_free(&group));
    MT_MPI(MPI_Session_finalize(&session));
}

int main(void)
{
    memory_t memory = {NULL, NULL, NULL, NULL, NULL};

    run_session(&memory, 1, true);
    return 0 == mt_failures() ? 0 : 1;
}

#else

int main(void)
{
    printf("skipped: this MPI has no sessions\n");
    return MT_SKIPPED;
}

#endif
