#include "mca/common/gpu/users.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "mca/common/base/process.h"

/* The most GPUs whose users a process joins. On further GPUs the process is not counted. */
#define GPUS_MAX 64

/* Room for the longest prefix of a socket's name. */
#define NAME_MAX_BYTES 72

typedef struct {
    unsigned char uuid[MSCCLPP_GPU_UUID_SIZE];
    uint64_t process; /* the process that has joined; a forked child has another id and has not joined */
    int fd;           /* the socket; -1 if it could not be made */
} membership_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static membership_t memberships[GPUS_MAX];
static int membership_count;

/*
 * Writes the prefix of a GPU's names. The names of all users of a GPU begin with this prefix. With `server_p`, it is
 * the prefix of the users with that server only.
 */
static void write_prefix(const unsigned char *uuid, const uint64_t *server_p, char name[NAME_MAX_BYTES])
{
    int length = snprintf(name, NAME_MAX_BYTES, "mscclpp.gpu.");

    for (int i = 0; i < MSCCLPP_GPU_UUID_SIZE; ++i) {
        length += snprintf(name + length, NAME_MAX_BYTES - (size_t)length, "%02x", uuid[i]);
    }
    length += snprintf(name + length, NAME_MAX_BYTES - (size_t)length, ".");
    if (server_p != NULL) {
        snprintf(name + length, NAME_MAX_BYTES - (size_t)length, "%016llx.", (unsigned long long)*server_p);
    }
}

/*
 * Opens a socket whose name tells other processes that this one uses the GPU. The name ends with this process's token,
 * which makes it unique. Returns -1 on failure.
 */
static int open_socket(const char *prefix)
{
    struct sockaddr_un address;
    socklen_t length;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    memset(&address, 0, sizeof(address));
    address.sun_family = AF_UNIX;
    /* The first byte is zero, so the name is not in a file system and disappears with the process. */
    snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%.*s%016llx", NAME_MAX_BYTES - 1, prefix,
             (unsigned long long)mscclpp_process_token());
    length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address.sun_path + 1));
    if (bind(fd, (const struct sockaddr *)&address, length) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * Returns the number of processes that use the GPU. *strangers_p is the number of users whose names do not begin with
 * `server_prefix`. Returns 0 if sockets cannot be listed. A process that has joined counts itself.
 */
static uint32_t count_users(const char *gpu_prefix, const char *server_prefix, uint32_t *strangers_p)
{
    FILE *sockets = fopen("/proc/net/unix", "re");
    char line[512], pattern[NAME_MAX_BYTES + 2];
    uint32_t user_count = 0;

    *strangers_p = 0;
    if (sockets == NULL) {
        return 0;
    }
    /* The list shows a name without a file after " @". */
    snprintf(pattern, sizeof(pattern), " @%s", gpu_prefix);
    while (fgets(line, sizeof(line), sockets) != NULL) {
        const char *name = strstr(line, pattern);

        if (name != NULL) {
            ++user_count;
            *strangers_p += strncmp(name + 2, server_prefix, strlen(server_prefix)) != 0;
        }
    }
    fclose(sockets);
    return user_count;
}

/*
 * Returns this process's membership among the users of the GPU. The membership may be inherited from the parent
 * process. NULL: there is none. The caller holds the lock.
 */
static membership_t *find_membership(const unsigned char *uuid)
{
    int i = 0;

    while (i < membership_count && memcmp(memberships[i].uuid, uuid, sizeof(memberships[i].uuid)) != 0) {
        ++i;
    }
    return i < membership_count ? &memberships[i] : NULL;
}

/*
 * Makes this process a user of the GPU that others see. A failure is only logged, at the info level. After a failure
 * the process counts as joined, so that it does not try again at every call. The caller holds the lock.
 */
static void join_users(const unsigned char *uuid, const char *prefix)
{
    membership_t *membership = find_membership(uuid);

    if (membership != NULL && membership->process == mscclpp_process_token()) {
        return;
    }
    if (membership != NULL) {
        close(membership->fd); /* inherited from the parent process */
    } else if (membership_count < GPUS_MAX) {
        membership = &memberships[membership_count++];
        memcpy(membership->uuid, uuid, sizeof(membership->uuid));
    } else {
        return;
    }
    membership->process = mscclpp_process_token();
    membership->fd = open_socket(prefix);
    if (membership->fd < 0) {
        mscclpp_info("other users of the GPU will not learn of this process: no socket named %s", prefix);
    }
}

/*
 * Joins first, and counts afterwards. So if two processes join at the same time, at least the later one sees the other.
 */
uint32_t mscclpp_gpu_users_join(const unsigned char uuid[MSCCLPP_GPU_UUID_SIZE], uint64_t server, uint32_t *strangers_p)
{
    char gpu_prefix[NAME_MAX_BYTES], server_prefix[NAME_MAX_BYTES];
    uint32_t user_count;

    write_prefix(uuid, NULL, gpu_prefix);
    write_prefix(uuid, &server, server_prefix);
    pthread_mutex_lock(&lock);
    join_users(uuid, server_prefix);
    pthread_mutex_unlock(&lock);
    user_count = count_users(gpu_prefix, server_prefix, strangers_p);
    return user_count == 0 ? 1 : user_count;
}

void mscclpp_gpu_users_leave(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < membership_count; ++i) {
        if (memberships[i].fd >= 0) {
            close(memberships[i].fd);
        }
    }
    membership_count = 0;
    pthread_mutex_unlock(&lock);
}
