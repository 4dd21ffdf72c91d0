/* Refuses handles of another abi or size before anything is written to them. */
#include <stdio.h>

#include "mpix/handles.h"
#include "mpix/internal.h"

/*
 * Compares the size of the program's handle with the size that this library writes. Prints what is wrong. Returns
 * MPI_ERR_UNSUPPORTED_OPERATION for an abi that this library does not know, and MPI_ERR_ARG for a wrong size or a NULL
 * handle.
 */
int mpix_check_handle(const char *function, unsigned abi, const void *handle, size_t size, size_t expected_size)
{
    if (expected_size == 0) {
        (void)fprintf(stderr,
                      "libmpix_mscclpp: MPIX_Mscclpp_%s: handles of abi %u are asked for; this library knows 1 to %u: "
                      "the program was compiled with a newer mpix_mscclpp_device.h\n",
                      function, abi, mpix_newest_abi());
        return MPI_ERR_UNSUPPORTED_OPERATION;
    }
    if (handle == NULL || size != expected_size) {
        (void)fprintf(stderr,
                      "libmpix_mscclpp: MPIX_Mscclpp_%s: %zu bytes at %p for a handle of abi %u, which has "
                      "%zu\n",
                      function, size, handle, abi, expected_size);
        return MPI_ERR_ARG;
    }
    return MPI_SUCCESS;
}
