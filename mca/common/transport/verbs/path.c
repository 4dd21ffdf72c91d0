/* Tells how near HCAs and GPUs are to one another, by their paths in sysfs. */
#include "mca/common/transport/verbs/internal.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps that another socket adds. More than any tree is deep, so all devices of one socket are nearer. */
#define OTHER_SOCKET_STEPS 1000

/* Counts the components of a path that begin with a slash. */
static int count_steps(const char *path)
{
    int steps = 0;

    for (; '\0' != *path; ++path) {
        steps += '/' == path[0] && '/' != path[1] && '\0' != path[1];
    }
    return steps;
}

/*
 * Returns the socket (NUMA node) of a device by its sysfs path, or -1 if it is unknown. On a machine without NUMA, the
 * file itself contains -1.
 */
static int read_numa_node(const char *path)
{
    char file_name[PATH_MAX];
    int numa_node = -1;
    FILE *file;

    if ((size_t)snprintf(file_name, sizeof(file_name), "%s/numa_node", path) < sizeof(file_name)) {
        file = fopen(file_name, "re");
        if (file != NULL) {
            if (1 != fscanf(file, "%d", &numa_node)) {
                numa_node = -1;
            }
            fclose(file);
        }
    }
    return numa_node;
}

/*
 * Counts the steps from both devices up to the deepest folder that their paths share, plus OTHER_SOCKET_STEPS if they
 * are known to be on different sockets. Returns INT_MAX if a path is unknown.
 */
int mscclpp_verbs_path_distance(const char *path_a, const char *path_b)
{
    size_t common_length = 0;
    int distance;
    int socket_a;
    int socket_b;

    if ('\0' == *path_a || '\0' == *path_b) {
        return INT_MAX;
    }
    /* `common_length` becomes the length of the components that both paths begin with. */
    for (size_t i = 0;; ++i) {
        bool is_end_a = '/' == path_a[i] || '\0' == path_a[i];
        bool is_end_b = '/' == path_b[i] || '\0' == path_b[i];
        if (is_end_a && is_end_b) {
            common_length = i;
        }
        if (path_a[i] != path_b[i] || '\0' == path_a[i]) {
            break;
        }
    }
    distance = count_steps(path_a + common_length) + count_steps(path_b + common_length);
    socket_a = read_numa_node(path_a);
    socket_b = read_numa_node(path_b);
    return distance + (socket_a >= 0 && socket_b >= 0 && socket_a != socket_b ? OTHER_SOCKET_STEPS : 0);
}

/* Writes the path of a file with all links resolved. The result is "" if the path does not exist or is too long. */
static void resolve_links(const char *file_name, char *path, size_t size)
{
    char *resolved = realpath(file_name, NULL);

    path[0] = '\0';
    if (resolved != NULL && strlen(resolved) < size) {
        snprintf(path, size, "%s", resolved);
    }
    free(resolved);
}

void mscclpp_verbs_path_of_hca(const struct ibv_device *device, char *path, size_t size)
{
    char name[IBV_SYSFS_PATH_MAX + 16];

    snprintf(name, sizeof(name), "%s/device", device->ibdev_path);
    resolve_links(name, path, size);
}

/*
 * `bus_id` has the form "0000:1b:00.0"; it is empty if the address is unknown. Then, and if there is no such device,
 * the path is empty.
 */
void mscclpp_verbs_path_of_gpu(const char *bus_id, char *path, size_t size)
{
    char name[128];
    int length = snprintf(name, sizeof(name), "/sys/bus/pci/devices/%s", bus_id);

    path[0] = '\0';
    if ('\0' == *bus_id || length < 0 || (size_t)length >= sizeof(name)) {
        return;
    }
    /* The driver may write hexadecimal digits in capitals; sysfs uses lower case. */
    for (char *letter = name; '\0' != *letter; ++letter) {
        *letter = (char)tolower((unsigned char)*letter);
    }
    resolve_links(name, path, size);
}
