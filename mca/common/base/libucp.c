#include "mca/common/base/libucp.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "mca/common/base/limits.h"
#include "mca/common/base/log.h"

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define UCX_UNDER_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define UCX_UNDER_TSAN 1
#endif

/*
 * File descriptors that UCX may take: for its first context, for each network device, and for each peer. UCX 1.13 was
 * seen to keep 5 for its first context, 5 to 8 for a worker on two interfaces, and one or two for a connection. While
 * UCX examines devices, it opens the same number again for a moment. UCX_DESCRIPTORS_LEFT more must stay for libraries
 * that end the process if they get no descriptor, such as Open MPI.
 */
#define UCX_DESCRIPTORS 32
#define UCX_DESCRIPTORS_DEVICE 4
#define UCX_DESCRIPTORS_PEER 4
#define UCX_DESCRIPTORS_LEFT 32

/*
 * Bytes of address space that UCX may take, for its first context and for each peer, and that must be left. 11 MB were
 * seen for a first context, 9 MB for a worker, and 1 MB for a peer.
 */
#define UCX_SPACE ((size_t)64 << 20)
#define UCX_SPACE_PEER ((size_t)4 << 20)
#define UCX_SPACE_LEFT ((size_t)256 << 20)

/*
 * Serialises loading. Signal handlers belong to the process, so two threads that save and restore them at the same time
 * would restore each other's handlers.
 */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static bool load_forbidden; /* guarded by load_lock, like the next two variables */
static bool load_tried;
static mscclpp_status_t load_status;

/*
 * Opens libucp, and restores the signal handlers that loading it has replaced. Returns NULL, with the reason in
 * dlerror(), if that fails. The caller holds the lock.
 */
static void *open_library(void)
{
    struct sigaction before[NSIG];
    bool was_read[NSIG] = {false};
    void *library;

    for (int signal = 1; signal < NSIG; ++signal) {
        was_read[signal] = 0 == sigaction(signal, NULL, &before[signal]);
    }
    library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction after;
        if (was_read[signal] && 0 == sigaction(signal, NULL, &after) && after.sa_handler != before[signal].sa_handler) {
            (void)sigaction(signal, &before[signal], NULL);
        }
    }
    return library;
}

mscclpp_status_t mscclpp_ucx_check_limits(const char *purpose, size_t peers)
{
    const size_t descriptors = UCX_DESCRIPTORS + UCX_DESCRIPTORS_DEVICE * mscclpp_limits_count_devices() +
                               UCX_DESCRIPTORS_PEER * peers + UCX_DESCRIPTORS_LEFT;
    const size_t space = UCX_SPACE + UCX_SPACE_PEER * peers + UCX_SPACE_LEFT;

    if (!mscclpp_limits_allow_descriptors(descriptors)) {
        mscclpp_info("%s: no UCX: it needs room for %zu more open files (ulimit -n)", purpose, descriptors);
        return MSCCLPP_ERR_NO_DESCRIPTORS;
    }
    if (!mscclpp_limits_allow_address_space(space)) {
        mscclpp_info("%s: no UCX: it needs %zu more bytes of address space (ulimit -v)", purpose, space);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    return MSCCLPP_OK;
}

void mscclpp_ucx_allow(bool allowed)
{
    pthread_mutex_lock(&load_lock);
    load_forbidden = !allowed;
    pthread_mutex_unlock(&load_lock);
}

/*
 * Checks whether UCX may be loaded now. Returns MSCCLPP_OK, or the status for the reason, which is logged at the info
 * level. The limits are checked and their reason is logged only once; later calls return the same status. Starts a
 * thread as a trial, because UCX aborts if it cannot start its own thread. The caller holds the lock.
 */
static mscclpp_status_t prepare_load(void)
{
    if (load_forbidden) {
        mscclpp_info("no UCX: it was not needed when the process started, and is not loaded later, beside threads that "
                     "the process may have");
        return MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (!load_tried) {
        load_tried = true;
        load_status = mscclpp_ucx_check_limits("set-up", 0);
        if (load_status == MSCCLPP_OK && !mscclpp_limits_allow_thread()) {
            mscclpp_info("no UCX: it needs a thread, and no more can be started (ulimit -u)");
            load_status = MSCCLPP_ERR_NOT_SUPPORTED;
        }
    }
    return load_status;
}

/* Fills in a local table first, so that *functions_p is either complete or unchanged. */
mscclpp_status_t mscclpp_ucx_load(mscclpp_ucx_functions_t *functions_p)
{
    mscclpp_ucx_functions_t functions;
    void *library = NULL;
    mscclpp_status_t status;

#ifdef UCX_UNDER_TSAN
    /* UCX's hooks run in threads that have just been created, which ThreadSanitizer does not survive. */
    mscclpp_info("no UCX: it does not work under ThreadSanitizer");
    return MSCCLPP_ERR_NOT_SUPPORTED;
#endif
    pthread_mutex_lock(&load_lock);
    status = prepare_load();
    if (status == MSCCLPP_OK) {
        library = open_library();
    }
    pthread_mutex_unlock(&load_lock);
    if (status != MSCCLPP_OK) {
        return status;
    }
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

/*
 * Excludes RDMA devices and mapped memory, because short and rare messages do not need them, and their transports would
 * cost the process memory, hooks and start-up time. Overrides the application's own choice of devices for UCX, which
 * could exclude the transports that are used here.
 */
ucp_context_h mscclpp_ucx_open_quiet(const mscclpp_ucx_functions_t *ucx)
{
    /*
     * MM_RX_BUFS_GROW is the number of receive buffers that a worker makes at once for shared memory. With the default
     * of 512, a worker touches 2 MiB.
     */
    static const char *const settings[][2] = {
        {"MM_RX_BUFS_GROW", "32"}, {"TLS", "self,tcp,sysv"},     {"NET_DEVICES", "all"},
        {"SHM_DEVICES", "all"},    {"WARN_INVALID_CONFIG", "n"},
    };
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    const char *call = "ucp_config_read";
    ucp_context_h context = NULL;
    ucp_config_t *config;
    ucs_status_t status;

    if (mscclpp_ucx_check_limits("control messages", 0) != MSCCLPP_OK) {
        return NULL;
    }
    status = ucx->ucp_config_read("MSCCLPP", NULL, &config);
    if (status == UCS_OK) {
        for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); ++i) {
            ucs_status_t modified = ucx->ucp_config_modify(config, settings[i][0], settings[i][1]);
            if (modified != UCS_OK) {
                mscclpp_debug("UCX does not know %s: %s", settings[i][0], ucx->ucs_status_string(modified));
            }
        }
        /* The library may be older than the headers, so this asks for the oldest interface version that suffices. */
        call = "ucp_init";
        status = ucx->ucp_init_version(1, 11, &params, config, &context);
        ucx->ucp_config_release(config);
    }
    if (status != UCS_OK) {
        mscclpp_info("no UCX for control messages: %s: %s", call, ucx->ucs_status_string(status));
        return NULL;
    }
    return context;
}
