/*
 * A rank runs out of memory in a communicator's first call: each allocation that the component makes there fails once.
 * All ranks have to end the call alike and at once, with the right result or with an error. This program's allocation
 * functions come before the C library's and look at who calls them.
 * Usage: test_no_memory [RANK NTH]: only this one.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"

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

/* Of this thread the nth allocation of the component from now on fails; 0: none does. */
static _Thread_local int left;
static _Thread_local bool happened;

static bool is_due(const void *caller)
{
    if (left == 0 || (uintptr_t)caller < code_begin || (uintptr_t)caller >= code_end || --left != 0) {
        return false;
    }
    happened = true;
    errno = ENOMEM;
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

    if (NULL == memory) {
        return ENOMEM;
    }
    *memory_p = memory;
    return 0;
}

static int find_component(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    if (NULL == strstr(info->dlpi_name, "mca_coll_mscclpp.so")) {
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

typedef struct {
    int code;
    bool right;
    bool reached;
    double seconds;
} outcome_t;

static outcome_t call(MPI_Comm comm, mt_buffer_t *send, mt_buffer_t *recv, int nth)
{
    outcome_t outcome = {.seconds = mt_now()};
    int value = mt_rank + 1;

    mt_buffer_put(send, &value, sizeof(value));
    happened = false;
    left = nth;
    outcome.code = MPI_Allreduce(send->data, recv->data, 1, MPI_INT, MPI_SUM, comm);
    left = 0;
    outcome.seconds = mt_now() - outcome.seconds;
    mt_buffer_get(recv, &value, sizeof(value));
    outcome.right = value == mt_size * (mt_size + 1) / 2;
    outcome.reached = happened;
    return outcome;
}

/* True if the culprit has come to its nth allocation; known to all ranks. */
static bool fail_once(mt_buffer_t *send, mt_buffer_t *recv, int culprit, int nth)
{
    outcome_t all[64], own;
    int errors = 0;
    MPI_Comm comm;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    own = call(comm, send, recv, mt_rank == culprit ? nth : 0);
    mt_allgather(MPI_COMM_WORLD, &own, all, sizeof(own));
    for (int i = 0; i < mt_size; ++i) {
        errors += MPI_SUCCESS != all[i].code;
    }
    MT_CHECK(0 == errors || mt_size == errors, "allocation %d of rank %d: the call failed on %d of %d ranks", nth,
             culprit, errors, mt_size);
    MT_CHECK(own.right || MPI_SUCCESS != own.code, "allocation %d of rank %d: a wrong result", nth, culprit);
    MT_CHECK(own.seconds < PROMPT, "allocation %d of rank %d: the call took %.1f s", nth, culprit, own.seconds);
    MT_CHECK(0 == errors || all[culprit].reached, "the call failed though memory was there");
    if (0 == errors) {
        own = call(comm, send, recv, 0);
        MT_CHECK(MPI_SUCCESS == own.code && own.right, "allocation %d of rank %d: the next call failed", nth, culprit);
    }
    MT_MPI(MPI_Comm_free(&comm));
    return all[culprit].reached;
}

int main(int argc, char **argv)
{
    mt_buffer_t send, recv;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    (void)dl_iterate_phdr(find_component, NULL);
    MT_CHECK(code_end > code_begin, "the component is not loaded");
    send = mt_buffer_alloc(MT_DEVICE, sizeof(int), 0);
    recv = mt_buffer_alloc(MT_DEVICE, sizeof(int), 0);
    if (argc == 3) {
        (void)fail_once(&send, &recv, atoi(argv[1]), atoi(argv[2]));
    }
    for (int culprit = 0; culprit < 2 && argc != 3; ++culprit) {
        int nth = 1;
        while (nth < NTH_MAX && 0 == mt_failures() && fail_once(&send, &recv, culprit, nth)) {
            ++nth;
        }
        MT_CHECK(nth > 10 && nth < NTH_MAX, "the component allocates memory %d times", nth - 1);
    }
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    return mt_finish();
}
