/*
 * What the programs of the mpi layer share: start and end, checks, buffers of every kind of memory with guard bytes,
 * the component's counters, and exchanges that do not use the collectives under test.
 *
 * Each program runs under mpirun with the component in Open MPI's path. MSCCLPP_TEST_DEVICE is "host" (the twin) or
 * "cuda". Exit status 0: passed, 1: failed, 77: skipped, with a line that says why.
 */
#ifndef TEST_MPI_MPI_TEST_H
#define TEST_MPI_MPI_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#define MT_SKIPPED 77

extern int mt_rank;  /* in MPI_COMM_WORLD */
extern int mt_size;  /* of MPI_COMM_WORLD */
extern bool mt_twin; /* the host twin: all memory is device memory */

/* Starts MPI with the given thread level and opens the device of this rank. Ends the program if that fails. */
void mt_init(int *argc, char ***argv, int thread_level);

/* For tests that need a number of ranks. If there are fewer, prints the reason and returns true. */
bool mt_too_small(int ranks);

/*
 * For tests that allow `ranks` ranks on a GPU at most. If a GPU has more, which then take turns unless MPS serves the
 * GPU (MSCCLPP_TEST_MPS), prints the reason and returns true.
 */
bool mt_too_crowded(int ranks);

/* Sums up the failures of all ranks, ends MPI, and returns the program's exit status. */
int mt_finish(void);

/* Records and prints a failure; the first few of each rank are printed. May be called from any thread. */
void mt_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
int mt_failures(void);

#define MT_CHECK(condition_, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition_)) {                                                                                           \
            mt_fail(__FILE__, __LINE__, __VA_ARGS__);                                                                  \
        }                                                                                                              \
    } while (0)

/* An MPI call that has to succeed. */
#define MT_MPI(call_)                                                                                                  \
    do {                                                                                                               \
        int mt_code_ = (call_);                                                                                        \
        MT_CHECK(MPI_SUCCESS == mt_code_, "%s returned error %d", #call_, mt_code_);                                   \
    } while (0)

/* Memory */
/* MT_MAPPED: virtual memory of the device that the application maps itself. */
typedef enum { MT_HOST, MT_DEVICE, MT_PINNED, MT_MANAGED, MT_POOL, MT_MAPPED, MT_KIND_LAST } mt_kind_t;

typedef struct {
    mt_kind_t kind;
    char *base;    /* of the allocation */
    size_t length; /* of the allocation */
    char *data;    /* what the test passes to MPI */
    size_t size;
} mt_buffer_t;

const char *mt_kind_name(mt_kind_t kind);

/* False if this machine has no such memory. */
bool mt_kind_exists(mt_kind_t kind);

/*
 * `size` bytes, `misalign` bytes behind an address that is a multiple of 16, with guard bytes on both sides. Ends the
 * program if there is no memory.
 */
mt_buffer_t mt_buffer_alloc(mt_kind_t kind, size_t size, size_t misalign);

/* Reports touched guard bytes, then frees. */
void mt_buffer_free(mt_buffer_t *buffer, const char *what);
void mt_buffer_put(mt_buffer_t *buffer, const void *from, size_t size);
void mt_buffer_get(const mt_buffer_t *buffer, void *to, size_t size);
void mt_buffer_set(mt_buffer_t *buffer, int byte);

/* As mt_buffer_put and mt_buffer_get, for a device that may have failed. False if it has failed. */
bool mt_buffer_try_put(mt_buffer_t *buffer, const void *from, size_t size);
bool mt_buffer_try_get(const mt_buffer_t *buffer, void *to, size_t size);

/* Host memory for the test's own copies. When a call on a device buffer returns, the call's data is in place. */
void *mt_host_alloc(size_t size);

/*
 * Counters of this process since mt_init: all-reduce calls served by kernels, calls of any collective that were staged,
 * and all-reduce calls served by a lingering kernel without a launch. Without these counters a test would pass when the
 * component declines everything, so the test fails if they are missing. `comm` is the communicator of the calls, and is
 * ignored, as the counters are for the whole process.
 */
uint64_t mt_served(MPI_Comm comm);
uint64_t mt_staged(MPI_Comm comm);
uint64_t mt_rung(MPI_Comm comm);
uint64_t mt_planned(MPI_Comm comm); /* calls of any collective that execution plans served */
/* The counter coll_mscclpp_<name>, since this was first called for it. The test fails if there is none. */
uint64_t mt_counter(const char *name);
/* The name of the plan that served the last call on device buffers; "": none did. */
void mt_plan(char *name, size_t size);

/* Starts counting; mt_init calls it. `level`: MPI's thread level, which counting must not change. */
void mt_counters_open(int level);

/* True if coll_mscclpp_<name> has this value as text; parameters with choices by their name. */
bool mt_parameter_is(const char *name, const char *value);

/* True if ranks that share a GPU are clients of MPS. */
bool mt_under_mps(void);

/* Exchanges by point-to-point messages, which the component does not serve. */
void mt_allgather(MPI_Comm comm, const void *send, void *recv, size_t length);
void mt_barrier(MPI_Comm comm);

double mt_now(void);

/* A number that looks random and depends on its arguments alone. */
uint64_t mt_mix(uint64_t a, uint64_t b, uint64_t c);

#endif
