/*
 * A rank, or all of them, run out of memory in a communicator's first call, or from where it is made until its third
 * one: each allocation that the component makes there fails once. The communicator must come to be, and all ranks have
 * to end each call alike and at once, with the right result or with an error. This program's allocation functions come
 * before the C library's and look at who calls them.
 * Last, there is none at all for some communicators.
 * Usage: test_no_memory [call|dup RANK|all NTH]: only this one, -1 for all at a time.
 *        test_no_memory stage: each allocation of a staged call of many parts fails once; the result is right all the
 *        same, as the peers are on their way into the call.
 *        test_no_memory init RANK|all NTH: the same from the beginning of MPI_Init on.
 *        test_no_memory gpu INTS [call|dup RANK|all NTH]: in place of these allocations, whatever is taken of the
 * device fails once: its memory and pinned memory, mappings, streams, events and prepared launches. Calls of so many
 * ints.
 *        test_no_memory exchange [call|dup RANK|all NTH]: calls of MPI_Alltoallv, in which only the two ends of a pair
 * know the size of its block, in place of MPI_Allreduce.
 *        test_no_memory queued [call|dup RANK|all NTH]: the same of queued all-reduces on the twin.
 *        test_no_memory compared: with coll_mscclpp_check_calls, each allocation of a nonblocking call on host memory
 * fails once. The call and those that follow go on, and nobody waits for the comparison when the communicator ends.
 *        test_no_memory answer: of 10 ranks, one has no memory to answer another that asks, while it waits in the
 * set-up, whether it is there. Kernels serve the call all the same.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/mpi/mpi_queued.h"

#define NTH_MAX 2000
#define PUBLIC __attribute__((visibility("default")))

/* Seconds in which a call has to end, on a busy machine; less than any deadline. */
#define PROMPT 8.0

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Where the component's code lies. */
static uintptr_t code_begin, code_end;

/* Of this thread the nth allocation of the component from now on fails; 0: none does, ALL: each one. */
#define ALL (-1)

static _Thread_local int left;
static _Thread_local bool happened;

/* At this time, by mt_now, `left` becomes `left_then`; 0: never. */
static _Thread_local double armed_at;
static _Thread_local int left_then;

/* What fails is what is taken of the device, and not the host's memory. */
static bool of_device;

/* Calls are of MPI_Alltoallv. */
static bool exchanges;

/* Calls are queued in this stream; NULL: they are not. */
static void *stream;

/* Of each call or, of an exchange, of each block at most; and the values that all ranks but one have. */
static size_t ints = 1;
static int *values;

static int find_component(struct dl_phdr_info *info, size_t size, void *data);

static bool is_due(const void *caller)
{
    if (of_device) {
        return false;
    }
    if (0 != armed_at && mt_now() >= armed_at) {
        armed_at = 0;
        left = left_then;
    }
    if (left != 0 && code_end == 0) {
        const int kept = left;

        left = 0;
        (void)dl_iterate_phdr(find_component, NULL);
        left = kept;
    }
    if (left == 0 || (uintptr_t)caller < code_begin || (uintptr_t)caller >= code_end || (left != ALL && --left != 0)) {
        return false;
    }
    happened = true;
    errno = ENOMEM;
    return true;
}

/* The component asks for it by name: mca/common/gpu/refusing.h. */
PUBLIC bool mscclpp_test_gpu_refuses(const char *what);
PUBLIC bool mscclpp_test_gpu_refuses(const char *what)
{
    (void)what;
    if (!of_device || left == 0 || (left != ALL && --left != 0)) {
        return false;
    }
    happened = true;
    return true;
}

PUBLIC void *malloc(size_t size)
{
    return is_due(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

PUBLIC void *calloc(size_t count, size_t size)
{
    return is_due(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

PUBLIC void *realloc(void *memory, size_t size)
{
    return is_due(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

PUBLIC int posix_memalign(void **memory_p, size_t alignment, size_t size)
{
    void *memory = is_due(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);

    if (memory == NULL) {
        return ENOMEM;
    }
    *memory_p = memory;
    return 0;
}

static int find_component(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    if (strstr(info->dlpi_name, "mca_coll_mscclpp.so") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (PT_LOAD == info->dlpi_phdr[i].p_type && 0 != (info->dlpi_phdr[i].p_flags & PF_X)) {
            code_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code_end = code_begin + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 1;
}

#define CALLS 3

/* More communicators, together, than there are modules for those without memory. */
#define ALIVE 8
#define TURNS 9

typedef struct {
    int made; /* MPI_Comm_dup's result */
    int codes[CALLS];
    bool right[CALLS];
    bool reached;
    double seconds;
} outcome_t;

/*
 * Each block has one element fewer or not, as its sender and receiver say. Behind each int is a hole; the type is a new
 * one in each call, as the component keeps what it knows of a type.
 */
static void call_exchange(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, int *code_p, bool *right_p)
{
    const size_t bytes = 2 * sizeof(int) * ints * (size_t)mt_size;
    int kept = left, counts[64], places[64];
    MPI_Datatype type;

    left = 0;
    MT_MPI(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type));
    MT_MPI(MPI_Type_commit(&type));
    for (int peer = 0; peer < mt_size; ++peer) {
        counts[peer] = (int)ints - (mt_rank + peer) % 2;
        places[peer] = peer * (int)ints;
        for (int i = 0; i < (int)ints; ++i) {
            values[2 * (places[peer] + i)] = 1000 * mt_rank + peer + i;
        }
    }
    mt_buffer_put(send, values, bytes);
    left = kept;
    *code_p = MPI_Alltoallv(send->data, counts, places, type, recv->data, counts, places, type, comm);
    kept = left;
    left = 0;
    mt_buffer_get(recv, values, bytes);
    MT_MPI(MPI_Type_free(&type));
    left = kept;
    *right_p = true;
    for (int peer = 0; peer < mt_size; ++peer) {
        for (int i = 0; i < counts[peer]; ++i) {
            *right_p = *right_p && values[2 * (places[peer] + i)] == 1000 * peer + mt_rank + i;
        }
    }
}

static void set_flag(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_RELEASE);
}

/* Queues an all-reduce, and waits for its end or its error. After an error its kernel ends, too. */
static int call_queued(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv)
{
    int code = MPIX_Mscclpp_allreduce_enqueue(send->data, recv->data, (int)ints, MPI_INT, MPI_SUM, comm, stream);
    int ended = 0, kept = left;

    left = 0;
    MT_MPI(MPIX_Mscclpp_host_launch(stream, set_flag, &ended));
    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        if (MPI_SUCCESS == code) {
            MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, NULL, 0));
        }
        usleep(100);
    }
    if (MPI_SUCCESS == code) {
        MT_MPI(MPIX_Mscclpp_get_async_error(comm, &code, NULL, 0));
    }
    left = kept;
    return code;
}

static void call(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, int *code_p, bool *right_p)
{
    int kept = left;

    if (exchanges) {
        call_exchange(comm, send, recv, code_p, right_p);
        return;
    }
    left = 0;
    for (size_t i = 0; i < ints; ++i) {
        values[i] = mt_rank + 1 + (int)(i % 1000);
    }
    mt_buffer_put(send, values, sizeof(int) * ints);
    left = kept;
    *code_p = stream != NULL ? call_queued(comm, send, recv)
                             : MPI_Allreduce(send->data, recv->data, (int)ints, MPI_INT, MPI_SUM, comm);
    kept = left;
    left = 0;
    mt_buffer_get(recv, values, sizeof(int) * ints);
    left = kept;
    *right_p = true;
    for (size_t i = 0; i < ints; ++i) {
        *right_p = *right_p && values[i] == mt_size * (mt_size + 1) / 2 + mt_size * (int)(i % 1000);
    }
}

/* Makes a communicator and calls on it, of which the first or all, and its making, may find no memory. */
static outcome_t try(mt_buffer_t *send, mt_buffer_t *recv, bool whole, int nth, MPI_Comm *comm_p)
{
    outcome_t outcome = {.seconds = mt_now()};

    happened = false;
    left = whole ? nth : 0;
    outcome.made = MPI_Comm_dup(MPI_COMM_WORLD, comm_p);
    if (MPI_SUCCESS == outcome.made) {
        MPI_Comm_set_errhandler(*comm_p, MPI_ERRORS_RETURN);
        left = whole ? left : nth;
        for (int i = 0; i < CALLS; ++i) {
            call(*comm_p, send, recv, &outcome.codes[i], &outcome.right[i]);
            left = whole ? left : 0;
        }
    }
    left = 0;
    outcome.seconds = mt_now() - outcome.seconds;
    outcome.reached = happened;
    return outcome;
}

/* True if a culprit, a rank or, where there is none of that number, all, has come to its nth allocation. */
static bool fail_in(mt_buffer_t *send, mt_buffer_t *recv, bool whole, int culprit, int nth, MPI_Comm *comm_p)
{
    const char *what = whole ? "dup" : "call";
    outcome_t all[64], own;
    bool reached = false;

    own = try(send, recv, whole, mt_rank == culprit || mt_size == culprit ? nth : 0, comm_p);
    mt_allgather(MPI_COMM_WORLD, &own, all, sizeof(own));
    for (int rank = 0; rank < mt_size; ++rank) {
        reached = reached || all[rank].reached;
        MT_CHECK(MPI_SUCCESS == all[rank].made, "%s, allocation %d of rank %d: no communicator on rank %d: error %d",
                 what, nth, culprit, rank, all[rank].made);
    }
    for (int i = 0; i < CALLS; ++i) {
        int errors = 0;

        for (int rank = 0; rank < mt_size; ++rank) {
            errors += MPI_SUCCESS != all[rank].codes[i];
        }
        /* Of queued calls, a rank may hear of a failure in the next one before it has looked at this one. */
        MT_CHECK(0 == errors || mt_size == errors || (stream != NULL && i < CALLS - 1),
                 "%s, allocation %d of rank %d: call %d failed on %d of %d ranks", what, nth, culprit, i, errors,
                 mt_size);
        MT_CHECK(own.right[i] || MPI_SUCCESS != own.codes[i],
                 "%s, allocation %d of rank %d: call %d has a wrong result", what, nth, culprit, i);
        MT_CHECK(0 == errors || reached, "call %d failed though memory was there", i);
    }
    MT_CHECK(own.seconds < PROMPT, "%s, allocation %d of rank %d: the calls took %.1f s", what, nth, culprit,
             own.seconds);
    return reached;
}

static bool fail_once(mt_buffer_t *send, mt_buffer_t *recv, bool whole, int culprit, int nth)
{
    MPI_Comm comm = MPI_COMM_NULL;
    bool reached = fail_in(send, recv, whole, culprit, nth, &comm);

    if (MPI_COMM_NULL != comm) {
        MT_MPI(MPI_Comm_free(&comm));
    }
    return reached;
}

/* Several communicators at a time, again and again, for which there is no memory at all. */
static void fail_each(mt_buffer_t *send, mt_buffer_t *recv)
{
    MPI_Comm comms[ALIVE];

    for (int turn = 0; turn < TURNS && 0 == mt_failures(); ++turn) {
        const int culprit = turn % 3 < 2 ? turn % 3 : mt_size;

        for (int i = 0; i < ALIVE; ++i) {
            comms[i] = MPI_COMM_NULL;
            MT_CHECK(fail_in(send, recv, true, culprit, ALL, &comms[i]), "memory was there");
        }
        for (int i = 0; i < ALIVE; ++i) {
            MT_MPI(MPI_Comm_free(&comms[i]));
        }
    }
}

#define PARTS 40
#define ELEMENTS 3

/* True if the last rank has come to its nth allocation in a broadcast of a type of many parts. */
static bool stage_once(MPI_Datatype type, size_t extent, const int *displacements, int nth)
{
    mt_buffer_t buffer = mt_buffer_alloc(MT_DEVICE, extent * ELEMENTS, 0);
    int *parts = mt_host_alloc(extent * ELEMENTS), code;
    bool reached;

    for (size_t i = 0; i < extent * ELEMENTS / sizeof(int); ++i) {
        parts[i] = 0 == mt_rank ? (int)i + nth : -1;
    }
    mt_buffer_put(&buffer, parts, extent * ELEMENTS);
    mt_barrier(MPI_COMM_WORLD);
    happened = false;
    left = mt_rank == mt_size - 1 ? nth : 0;
    code = MPI_Bcast(buffer.data, ELEMENTS, type, 0, MPI_COMM_WORLD);
    left = 0;
    reached = happened;
    MT_CHECK(MPI_SUCCESS == code, "allocation %d: error %d", nth, code);
    mt_buffer_get(&buffer, parts, extent * ELEMENTS);
    for (int element = 0; element < ELEMENTS; ++element) {
        for (int part = 0; part < PARTS; ++part) {
            const int at = element * (int)(extent / sizeof(int)) + displacements[part];

            MT_CHECK(at + nth == parts[at], "allocation %d: part %d of element %d is wrong", nth, part, element);
        }
    }
    free(parts);
    mt_buffer_free(&buffer, "broadcast buffer");
    mt_barrier(MPI_COMM_WORLD);
    return reached;
}

static void fail_staged(void)
{
    int lengths[PARTS], displacements[PARTS], nth = 1, more = 1, all[64];
    MPI_Datatype type;

    for (int part = 0; part < PARTS; ++part) {
        lengths[part] = 1;
        displacements[part] = part * (part + 3) / 2;
    }
    MT_MPI(MPI_Type_indexed(PARTS, lengths, displacements, MPI_INT, &type));
    MT_MPI(MPI_Type_commit(&type));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (more && nth < NTH_MAX) {
        more = stage_once(type, ((size_t)displacements[PARTS - 1] + 1) * sizeof(int), displacements, nth);
        mt_allgather(MPI_COMM_WORLD, &more, all, sizeof(more));
        more = all[mt_size - 1];
        nth += more;
    }
    MT_CHECK(nth > 2 && nth < NTH_MAX, "the component allocates memory %d times", nth - 1);
    if (0 == mt_rank) {
        printf("staged: %d allocations failed\n", nth - 1);
    }
    MT_MPI(MPI_Type_free(&type));
}

/* True if a culprit has come to its nth allocation in a nonblocking call that is compared. */
static bool compare_once(int culprit, int nth)
{
    double seconds = mt_now();
    int own[2] = {mt_rank + 1, 0}, sums[2] = {0, 0}, codes[2], reached[64];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    happened = false;
    left = mt_rank == culprit ? nth : 0;
    codes[0] = MPI_Iallreduce(&own[0], &sums[0], 1, MPI_INT, MPI_SUM, comm, &request);
    left = 0;
    if (MPI_SUCCESS == codes[0]) {
        codes[0] = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    own[1] = happened;
    codes[1] = MPI_Allreduce(&own[0], &sums[1], 1, MPI_INT, MPI_SUM, comm);
    MT_MPI(MPI_Comm_free(&comm));
    seconds = mt_now() - seconds;
    for (int i = 0; i < 2; ++i) {
        MT_CHECK(MPI_SUCCESS == codes[i] && mt_size * (mt_size + 1) / 2 == sums[i],
                 "allocation %d of rank %d: call %d yields %d, error %d", nth, culprit, i, sums[i], codes[i]);
    }
    MT_CHECK(seconds < PROMPT, "allocation %d of rank %d: the communicator took %.1f s", nth, culprit, seconds);
    mt_allgather(MPI_COMM_WORLD, &own[1], reached, sizeof(own[1]));
    return reached[culprit];
}

static void fail_compared(void)
{
    int taken = -1;

    /* A rank without peers has nothing to compare, so its calls on host memory need none of the component's memory. */
    left = ALL;
    MT_MPI(MPI_Alltoall(&mt_rank, 1, MPI_INT, &taken, 1, MPI_INT, MPI_COMM_SELF));
    left = 0;
    MT_CHECK(taken == mt_rank, "rank %d alone receives %d", mt_rank, taken);
    for (int culprit = 0; culprit < mt_size && culprit < 2; ++culprit) {
        int nth = 1;

        while (nth < NTH_MAX && 0 == mt_failures() && compare_once(culprit, nth)) {
            ++nth;
        }
        MT_CHECK(nth > 3 && nth < NTH_MAX, "the component allocates memory %d times", nth - 1);
        if (0 == mt_rank) {
            printf("compared, rank %d: %d allocations failed\n", culprit, nth - 1);
        }
    }
}

/*
 * Rank 1 is late, so that after half a second ranks ask those that they wait for in the tree of the set-up, and rank 0
 * is asked by all others. Some of the first allocations of rank 0 from then on are those of its answers.
 */
static void fail_answer(mt_buffer_t *send, mt_buffer_t *recv, int nth)
{
    const struct timespec late = {.tv_sec = 1, .tv_nsec = 0};
    const uint64_t served_before = mt_served(MPI_COMM_WORLD);
    MPI_Comm comm;
    bool right;
    int code;

    MT_CHECK(10 == mt_size, "%d ranks; this test takes 10", mt_size);
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mt_barrier(MPI_COMM_WORLD);
    if (1 == mt_rank) {
        (void)nanosleep(&late, NULL);
    }
    happened = false;
    left_then = nth;
    armed_at = 0 == mt_rank ? mt_now() + 0.3 : 0;
    call(comm, send, recv, &code, &right);
    armed_at = 0;
    left = 0;
    MT_CHECK(MPI_SUCCESS == code && right, "allocation %d: the call failed: error %d", nth, code);
    MT_CHECK(mt_served(comm) > served_before, "allocation %d: kernels did not serve the call", nth);
    if (0 == mt_rank && happened) {
        printf("rank 0: memory was refused\n");
    }
    MT_MPI(MPI_Comm_free(&comm));
}

static int culprit_of(const char *argument)
{
    return 0 == strcmp(argument, "all") ? -1 : atoi(argument);
}

/* Before MPI_Init there is only the launcher to say who this is. */
static bool is_culprit(const char *argument)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    return 0 == strcmp(argument, "all") || (rank != NULL && 0 == strcmp(argument, rank));
}

static void fail_all(mt_buffer_t *send, mt_buffer_t *recv, bool whole)
{
    for (int which = 0; which < 3; ++which) {
        int culprit = which < 2 ? which : mt_size, nth = 1;

        while (nth < NTH_MAX && 0 == mt_failures() && fail_once(send, recv, whole, culprit, nth)) {
            ++nth;
        }
        MT_CHECK(nth > (of_device ? 3 : 10) && nth < NTH_MAX, "the component allocates memory %d times", nth - 1);
        if (0 == mt_rank) {
            printf("%s, rank %d: %d allocations failed\n", whole ? "dup" : "call", culprit, nth - 1);
        }
    }
}

/*
 * Loads the component before MPI does. The CUDA runtime in it allocates memory in functions that the loader calls, and
 * does not survive if there is none; what the component itself does comes later.
 */
static void load_component(void)
{
    const char *folders = getenv("OMPI_MCA_mca_base_component_path");
    char path[4096];

    if (folders != NULL) {
        snprintf(path, sizeof(path), "%.*s/mca_coll_mscclpp.so", (int)strcspn(folders, ":"), folders);
        (void)dlopen(path, RTLD_NOW);
    }
}

int main(int argc, char **argv)
{
    const bool init = argc == 4 && 0 == strcmp(argv[1], "init");
    const bool gpu = argc >= 3 && 0 == strcmp(argv[1], "gpu");
    bool queued;
    mt_buffer_t send, recv;
    size_t bytes;

    if (gpu) {
        ints = strtoul(argv[2], NULL, 10);
        ints = 0 == ints ? 1 : ints;
        argc -= 2;
        argv += 2;
    }
    queued = argc >= 2 && 0 == strcmp(argv[1], "queued");
    if (queued) {
        --argc;
        ++argv;
    }
    if (argc >= 2 && 0 == strcmp(argv[1], "exchange")) {
        exchanges = true;
        ints = 3;
        --argc;
        ++argv;
    }
    load_component();
    left = init && is_culprit(argv[2]) ? atoi(argv[3]) : 0;
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    left = 0;
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    (void)dl_iterate_phdr(find_component, NULL);
    MT_CHECK(code_end > code_begin, "the component is not loaded");
    bytes = sizeof(int) * ints * (exchanges ? 2 * (size_t)mt_size : 1);
    values = mt_host_alloc(bytes);
    send = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    recv = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    of_device = gpu;
    stream = queued ? mq_stream_make() : NULL;
    if (init) {
        int code;
        bool right;

        printf("rank %d: %s\n", mt_rank, happened ? "memory was refused" : "memory was there");
        call(MPI_COMM_WORLD, &send, &recv, &code, &right);
        MT_CHECK(MPI_SUCCESS == code && right, "a call on MPI_COMM_WORLD failed: error %d", code);
        (void)fail_once(&send, &recv, true, -1, 0);
    } else if (argc == 2 && 0 == strcmp(argv[1], "stage")) {
        fail_staged();
    } else if (argc == 2 && 0 == strcmp(argv[1], "compared")) {
        fail_compared();
    } else if (argc == 2 && 0 == strcmp(argv[1], "answer")) {
        for (int nth = 1; nth <= 5; ++nth) {
            fail_answer(&send, &recv, nth);
        }
    } else if (argc == 4) {
        int culprit = culprit_of(argv[2]);

        (void)fail_once(&send, &recv, 0 == strcmp(argv[1], "dup"), culprit < 0 ? mt_size : culprit, atoi(argv[3]));
    } else {
        fail_all(&send, &recv, false);
        fail_all(&send, &recv, true);
        fail_each(&send, &recv);
    }
    if (queued) {
        mq_stream_free(stream);
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    free(values);
    return mt_finish();
}
