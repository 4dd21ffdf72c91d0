/* Distinguishes the application's calls from Open MPI's own calls, by the address that a call returns to. */
#include <dlfcn.h>
#include <string.h>

#include "mca/coll/mscclpp/check/check.h"

/*
 * A cache of callers in Open MPI's library, since dladdr takes microseconds. An entry holds the caller's address,
 * shifted left by 1, and in its lowest bit whether the caller is one of MPI's functions. Open MPI's library is never
 * unloaded while this component is used, so entries stay valid. Two callers may share an entry and replace each other
 * there, which only costs dladdr again.
 */
#define CACHE_SIZE 64

/* Calls in code are rarely closer than this number of bytes, so addresses that are closer share an entry. */
#define CALLER_GRAIN 16

static uint64_t known_callers[CACHE_SIZE];

/* Returns the entry that a caller has in the cache. */
static uint64_t *entry_of(uintptr_t caller)
{
    return &known_callers[caller / CALLER_GRAIN % CACHE_SIZE];
}

/*
 * Returns true if the cache holds the caller. Only then is *is_mpi_p valid: the caller is one of MPI's functions.
 * Relaxed order is enough, as one word is a whole entry.
 */
static bool find_known(uintptr_t caller, bool *is_mpi_p)
{
    const uint64_t known = __atomic_load_n(entry_of(caller), __ATOMIC_RELAXED);

    *is_mpi_p = 0 != (known & 1);
    return known >> 1 == (uint64_t)caller;
}

/*
 * A caller outside Open MPI's library is the application, a component in front of this one, or a component that serves
 * a compared call. So such a call counts as the application's, unless a compared call is being served. The same holds
 * for a caller that dladdr cannot name.
 */
bool mca_coll_mscclpp_check_is_wanted(const mca_coll_mscclpp_module_t *module, const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    Dl_info mpi, symbol;
    bool is_mpi;

    if (find_known(address, &is_mpi)) {
        return is_mpi;
    }
    if (0 == dladdr(caller, &symbol) || 0 == dladdr((void *)(uintptr_t)MPI_Init, &mpi) ||
        symbol.dli_fbase != mpi.dli_fbase) {
        return !module->in_compared_call;
    }
    is_mpi = symbol.dli_sname != NULL &&
             (0 == strncmp(symbol.dli_sname, "MPI_", 4) || 0 == strncmp(symbol.dli_sname, "PMPI_", 5));
    __atomic_store_n(entry_of(address), (uint64_t)address << 1 | is_mpi, __ATOMIC_RELAXED);
    return is_mpi;
}
