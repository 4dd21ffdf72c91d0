#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef MSCCLPP_HAVE_YAJL
#include "mca/common/plan/libyajl.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static mscclpp_yajl_t yajl;
static bool is_open;
static char refusal[256];

/*
 * Opens the library, and finds its functions. The library stays open until the process ends. On failure `is_open` stays
 * false, and `refusal` says why.
 */
static void open_library(void)
{
    void *library = dlopen(MSCCLPP_YAJL_FILE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (library == NULL) {
        (void)snprintf(refusal, sizeof(refusal), "no yajl, which reads plans: %s", dlerror());
        return;
    }
#define MSCCLPP_YAJL_FIND(name_)                                                                                       \
    *(void **)&yajl.name_ = dlsym(library, "yajl_" #name_);                                                            \
    if (yajl.name_ == NULL) {                                                                                          \
        (void)snprintf(refusal, sizeof(refusal), "%s has no yajl_" #name_, MSCCLPP_YAJL_FILE);                         \
        return;                                                                                                        \
    }
    MSCCLPP_YAJL_FUNCTIONS(MSCCLPP_YAJL_FIND)
#undef MSCCLPP_YAJL_FIND
    is_open = true;
}

const mscclpp_yajl_t *mscclpp_yajl_open(char *reason, size_t reason_size)
{
    (void)pthread_once(&once, open_library);
    if (!is_open) {
        (void)snprintf(reason, reason_size, "%s", refusal);
        return NULL;
    }
    return &yajl;
}

#endif
