#include "mca/common/base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

bool mscclpp_limits_allow_descriptors(size_t wanted)
{
    struct rlimit limit;
    size_t free_count = 0;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return true;
    }
    /*
     * Counts free numbers below the limit. Files that were opened before the limit was lowered may have numbers above
     * the limit, and do not occupy any below it.
     */
    for (rlim_t descriptor = 0; descriptor < limit.rlim_cur && free_count < wanted; ++descriptor) {
        free_count += fcntl((int)descriptor, F_GETFD) < 0 && errno == EBADF;
    }
    return free_count >= wanted;
}

bool mscclpp_limits_allow_address_space(size_t wanted)
{
    void *space = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (space == MAP_FAILED) {
        return false;
    }
    (void)munmap(space, wanted);
    return true;
}

/* The body of the thread that mscclpp_limits_allow_thread starts. */
static void *do_nothing(void *argument)
{
    return argument;
}

bool mscclpp_limits_allow_thread(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

/* A folder that does not exist counts as empty. */
size_t mscclpp_limits_count_devices(void)
{
    static const char *const folders[] = {"/sys/class/net", "/sys/class/infiniband"};
    size_t count = 0;

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); ++i) {
        DIR *devices = opendir(folders[i]);
        const struct dirent *entry;

        while (devices != NULL && (entry = readdir(devices)) != NULL) {
            count += entry->d_name[0] != '.';
        }
        if (devices != NULL) {
            closedir(devices);
        }
    }
    return count;
}
