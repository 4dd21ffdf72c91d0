/* For tests on the host twin: which memory counts as device memory (twin_host_ranks, twin_shared_only). */
#include "mca/coll/mscclpp/component.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mca/common/base/log.h"

/* After this many calls served by kernels, all buffers of this process count as host memory. */
static uint64_t calls_before = UINT64_MAX;

/* Only shared mappings count as device memory (twin_shared_only). */
static bool shared_only;

/* Finds the shared mapping, *low_p .. *high_p - 1, that holds an address. Reads all mappings anew: it is for tests. */
static bool find_shared_mapping(const void *address, uintptr_t *low_p, uintptr_t *high_p)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool is_found = false;

    while (maps != NULL && !is_found && fgets(line, sizeof(line), maps) != NULL) {
        char sharing; /* 's': shared, 'p': private */

        is_found = 3 == sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*3c%c", low_p, high_p, &sharing) && 's' == sharing &&
                   (uintptr_t)address >= *low_p && (uintptr_t)address < *high_p;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return is_found;
}

/*
 * Returns true if an address is in a shared mapping. With an old length of 0, mremap duplicates a shared mapping and
 * refuses a private one (mremap(2)). A process with many mappings takes far longer to read the list of them. The list
 * is read if mremap fails for another reason, such as a limit of the process.
 */
static bool is_shared(const void *address)
{
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)address / page_size * page_size), *duplicate;
    uintptr_t low, high;

    duplicate = mremap(page, 0, page_size, MREMAP_MAYMOVE);
    if (MAP_FAILED == duplicate) {
        return EINVAL != errno && EFAULT != errno && find_shared_mapping(address, &low, &high);
    }
    (void)munmap(duplicate, page_size);
    return true;
}

/* The filter of the twin: returns true if the memory at an address is to count as host memory. */
static bool is_host(const void *address)
{
    return mca_coll_mscclpp_served_calls() >= calls_before || (shared_only && !is_shared(address));
}

/* Yields the allocation that contains an address of shared memory; for other addresses, leaves both values alone. */
static void find_bounds(const void *address, void **base_p, size_t *length_p)
{
    uintptr_t low, high;

    if (find_shared_mapping(address, &low, &high)) {
        *base_p = (void *)low;
        *length_p = high - low;
    }
}

/*
 * Parses an entry RANK or RANK/CALLS of the list. RANK and CALLS are decimal numbers without a sign. If CALLS is
 * absent, *calls_p becomes 0. Returns false, and logs nothing, if the text is neither, or a number is too large; both
 * values are then undefined.
 */
static bool parse_entry(const char *text, long *rank_p, uint64_t *calls_p)
{
    char *end;

    errno = 0;
    *calls_p = 0;
    if (!isdigit((unsigned char)*text)) { /* strtol would take spaces and signs */
        return false;
    }
    *rank_p = strtol(text, &end, 10);
    if ('/' == *end) {
        if (!isdigit((unsigned char)end[1])) {
            return false;
        }
        *calls_p = strtoul(end + 1, &end, 10);
    }
    return '\0' == *end && 0 == errno;
}

/*
 * Called for MPI_COMM_WORLD, so `rank` is this process's rank there. All entries of the list are checked, and this
 * rank's entry is used.
 */
void mca_coll_mscclpp_twin_hide_buffers(int rank)
{
    const char *list = mca_coll_mscclpp_state.config.twin_host_ranks;
    char **ranks;

    if (!mca_coll_mscclpp_state.gpu->twin) {
        return;
    }
    shared_only = mca_coll_mscclpp_state.config.twin_shared_only;
    mscclpp_gpu_twin_set_filter(shared_only ? is_host : NULL);
    mscclpp_gpu_twin_set_bounds(shared_only ? find_bounds : NULL);
    ranks = opal_argv_split(list, ',');
    for (char **text = ranks; text != NULL && *text != NULL; ++text) {
        long listed_rank;
        uint64_t calls;
        if (!parse_entry(*text, &listed_rank, &calls)) {
            mscclpp_error(
                "parameter twin_host_ranks: \"%s\" is not allowed; use RANK or RANK/CALLS, separated by commas", *text);
        } else if (listed_rank == rank) {
            calls_before = calls;
            mscclpp_gpu_twin_set_filter(is_host);
        }
    }
    opal_argv_free(ranks);
}
