/* Finds the component. Open MPI has loaded it in MPI_Init, where everybody sees its symbols, or at least its file. */
#include "mpix/internal.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME "mca_coll_mscclpp.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int searched;
static int result = MPI_SUCCESS;
static const mca_coll_mscclpp_api_t *found;

/* Opens the component once more if this loaded file is it. */
static int note_file(struct dl_phdr_info *info, size_t size, void *context)
{
    const char *slash = info->dlpi_name != NULL ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (slash == NULL || strcmp(slash + 1, FILE_NAME) != 0) {
        return 0;
    }
    *(void **)context = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return 1;
}

/* Looks for the component's table in this process. */
static void search(void)
{
    void *component = NULL;

    found = dlsym(RTLD_DEFAULT, MCA_COLL_MSCCLPP_API_NAME);
    if (found == NULL) {
        (void)dl_iterate_phdr(note_file, &component);
        if (component == NULL) {
            return;
        }
        found = dlsym(component, MCA_COLL_MSCCLPP_API_NAME);
        (void)dlclose(component); /* Open MPI keeps it */
    }
    if (found == NULL || found->version != MCA_COLL_MSCCLPP_API_VERSION || found->size < sizeof(*found)) {
        (void)fprintf(stderr,
                      "libmpix_mscclpp: the component coll/mscclpp that Open MPI has loaded is of another version: its "
                      "interface is %u, and this library needs %u\n",
                      found == NULL ? 0 : found->version, MCA_COLL_MSCCLPP_API_VERSION);
        found = NULL;
        result = MPI_ERR_OTHER;
    }
}

const mca_coll_mscclpp_api_t *mpix_component(int *code_p)
{
    int initialized = 0;

    (void)MPI_Initialized(&initialized);
    pthread_mutex_lock(&lock);
    if (!searched && initialized) {
        search();
        searched = 1;
    }
    pthread_mutex_unlock(&lock);
    *code_p = result;
    return found;
}
