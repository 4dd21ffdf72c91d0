#include "mca/common/ctrl_ucx_load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "mca/common/log.h"

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define UCX_UNDER_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define UCX_UNDER_TSAN 1
#endif

/* The handlers are the process's: two threads that save and restore them at once would restore each other's. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

static void *open_library(void)
{
    struct sigaction before[NSIG];
    bool known[NSIG] = {false};
    void *library;

    for (int signal = 1; signal < NSIG; ++signal) {
        known[signal] = 0 == sigaction(signal, NULL, &before[signal]);
    }
    library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction after;
        if (known[signal] && 0 == sigaction(signal, NULL, &after) && after.sa_handler != before[signal].sa_handler) {
            (void)sigaction(signal, &before[signal], NULL);
        }
    }
    return library;
}

mscclpp_status_t mscclpp_ucx_load(mscclpp_ucx_functions_t *functions_p)
{
    mscclpp_ucx_functions_t functions;
    void *library;

#ifdef UCX_UNDER_TSAN
    /* Its hooks run in threads that have just been made, which that sanitizer does not survive. */
    mscclpp_info("no UCX: it does not work under ThreadSanitizer");
    return MSCCLPP_ERR_NOT_SUPPORTED;
#endif
    pthread_mutex_lock(&load_lock);
    library = open_library();
    pthread_mutex_unlock(&load_lock);
    if (library == NULL) {
        mscclpp_info("no UCX: %s", dlerror());
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
#define MSCCLPP_UCX_FIND(function_)                                                                                    \
    *(void **)&functions.function_ = dlsym(library, #function_);                                                       \
    if (functions.function_ == NULL) {                                                                                 \
        mscclpp_info("no UCX: it is too old and has no " #function_);                                                  \
        return MSCCLPP_ERR_NOT_SUPPORTED;                                                                              \
    }
    MSCCLPP_UCX_FUNCTIONS(MSCCLPP_UCX_FIND)
#undef MSCCLPP_UCX_FIND
    *functions_p = functions;
    return MSCCLPP_OK;
}
