/*
 * Copies and sets without a stream, as a CUDA application makes them: cudaMemcpy, cudaMemset and similar functions.
 * These may return before they have read or written device memory. If the driver refuses one, the program ends. Call
 * mt_init first.
 */
#ifndef TEST_MPI_MPI_COPIES_H
#define TEST_MPI_MPI_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*mt_copy_fn_t)(uintptr_t to, uintptr_t from, size_t size);
typedef int (*mt_set_fn_t)(uintptr_t address, unsigned char byte, size_t size);

/* One family of functions. Calls of its members are executed in the order in which they are made. */
typedef struct {
    const char *name;
    mt_copy_fn_t to_device; /* from pageable memory, which may be written to again at once */
    mt_copy_fn_t to_host;   /* done when it returns */
    mt_copy_fn_t on_device;
    mt_set_fn_t set;
} mt_copies_t;

/*
 * All families: of the legacy default stream, the same by cudaMemcpyDefault, and of the default stream of each thread.
 * The twin has one family, memcpy. With `late` its functions return long before they have read or written anything, as
 * CUDA's may. Returns the number of families. The table belongs to the function.
 */
int mt_copies(bool late, const mt_copies_t **families_p);

/* Checks the result of `call`, one of these functions. */
void mt_copies_check(int result, const char *call);

#define MT_COPY(call_) mt_copies_check(call_, #call_)

#endif
