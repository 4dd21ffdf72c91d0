/* Finds the component that Open MPI has loaded in MPI_Init: by its symbol, or among the loaded files. */
#include "mpix/internal.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME "mca_coll_mscclpp.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int has_searched; /* a search has ended; `search_code` and `component_table` no longer change */
static int search_code = MPI_SUCCESS;
static const mca_coll_mscclpp_api_t *component_table; /* NULL: there is none */

/*
 * dl_iterate_phdr calls this function for each loaded file. If the file is the component, stores its handle in *context
 * and ends the search.
 */
static int open_if_component(struct dl_phdr_info *info, size_t size, void *context)
{
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (slash == NULL || strcmp(slash + 1, FILE_NAME) != 0) {
        return 0;
    }
    *(void **)context = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return 1;
}

/*
 * Searches for the component's table in this process. Looks first among the symbols that are visible to all files, and
 * then in the component's file, whose symbols may be hidden from other files. If the component has no table, or one of
 * another version, or one shorter than this library's, prints a message and sets `search_code` to MPI_ERR_OTHER. A
 * longer table is accepted, because new members are only added at its end. The caller holds the lock.
 */
static void search_component(void)
{
    void *component = NULL;

    component_table = dlsym(RTLD_DEFAULT, MCA_COLL_MSCCLPP_API_NAME);
    if (component_table == NULL) {
        (void)dl_iterate_phdr(open_if_component, &component);
        if (component == NULL) {
            return;
        }
        component_table = dlsym(component, MCA_COLL_MSCCLPP_API_NAME);
        (void)dlclose(component); /* Open MPI keeps the component loaded */
    }
    if (component_table == NULL || component_table->version != MCA_COLL_MSCCLPP_API_VERSION ||
        component_table->size < sizeof(*component_table)) {
        (void)fprintf(stderr,
                      "libmpix_mscclpp: the component coll/mscclpp that Open MPI has loaded is of another version: its "
                      "interface is %u, and this library needs %u\n",
                      component_table == NULL ? 0 : component_table->version, MCA_COLL_MSCCLPP_API_VERSION);
        component_table = NULL;
        search_code = MPI_ERR_OTHER;
    }
}

/*
 * Returns the component's table. The first call after MPI_Init searches, because Open MPI has then loaded its
 * components. Several threads may call this function at the same time. `search_code` and `component_table` are read
 * without the lock, because they do not change after the search.
 */
const mca_coll_mscclpp_api_t *mpix_component(int *code_p)
{
    int is_initialized = 0;

    (void)MPI_Initialized(&is_initialized);
    pthread_mutex_lock(&lock);
    if (!has_searched && is_initialized) {
        search_component();
        has_searched = 1;
    }
    pthread_mutex_unlock(&lock);
    *code_p = search_code;
    return component_table;
}
