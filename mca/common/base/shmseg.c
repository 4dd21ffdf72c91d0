#include "mca/common/base/shmseg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/common/base/log.h"
#include "mca/common/base/process.h"

#define SHMSEG_NAME_MAX 64

struct mscclpp_shmseg {
    mscclpp_shmseg_t *next;
    mscclpp_shmseg_descriptor_t descriptor;
    void *base;
    int fd; /* the creator's descriptor, which attaching processes open; -1 in those processes, and once the segment
               is hidden */
    unsigned references; /* number of users in this process: creates and attaches that no detach has undone; guarded by
                            the lock */
};

/* Every segment that this process has mapped, so that a second attach returns the address of the first. */
static pthread_mutex_t shmseg_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_shmseg_t *shmseg_list;
static uint64_t shmseg_next_id = 1;

/* Returns the status for an errno value of a call that takes memory or file descriptors. */
static mscclpp_status_t status_of_errno(int error)
{
    switch (error) {
    case ENOMEM:
        return MSCCLPP_ERR_NO_MEMORY;
    case EMFILE:
    case ENFILE:
        return MSCCLPP_ERR_NO_DESCRIPTORS;
    default:
        return MSCCLPP_ERR_SYSTEM;
    }
}

/*
 * Writes the name of a segment's file. It holds the creator's token and the segment's number, because descriptors and
 * inode numbers are reused. An attaching process checks the name to make sure that it has the right file.
 */
static void write_name(char *name, const mscclpp_shmseg_descriptor_t *descriptor)
{
    snprintf(name, SHMSEG_NAME_MAX, "mscclpp-%016llx-%llu", (unsigned long long)descriptor->token,
             (unsigned long long)descriptor->id);
}

/* Maps a segment's file. Lack of memory is logged at the info level, any other failure as an error. */
static mscclpp_status_t map_file(int fd, size_t size, void **base_p)
{
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (MAP_FAILED == base) {
        const mscclpp_status_t status = status_of_errno(errno);

        /* The caller knows what a lack of memory means for which communicator, and reports that. */
        mscclpp_log(MSCCLPP_ERR_NO_MEMORY == status ? MSCCLPP_LOG_INFO : MSCCLPP_LOG_ERROR,
                    "cannot map %zu bytes of shared memory: %m", size);
        return status;
    }
    *base_p = base;
    return MSCCLPP_OK;
}

/*
 * A segment is a file in memory only (memfd). Peers open it by this process's descriptor in /proc. The segment joins
 * the list last, when it is ready for others.
 */
mscclpp_status_t mscclpp_shmseg_create(size_t size, mscclpp_shmseg_t **segment_p)
{
    mscclpp_shmseg_t *segment;
    mscclpp_status_t status;
    char name[SHMSEG_NAME_MAX];
    struct stat file;

    if (0 == size || size > (size_t)PTRDIFF_MAX) {
        mscclpp_error("cannot share %zu bytes of memory", size);
        return MSCCLPP_ERR_INVALID;
    }
    segment = calloc(1, sizeof(*segment));
    if (segment == NULL) {
        mscclpp_error("out of memory for the description of a shared segment");
        return MSCCLPP_ERR_NO_MEMORY;
    }
    segment->references = 1;
    segment->descriptor.pid = (int64_t)getpid();
    segment->descriptor.token = mscclpp_process_token();
    segment->descriptor.length = size;
    pthread_mutex_lock(&shmseg_lock);
    segment->descriptor.id = shmseg_next_id++;
    pthread_mutex_unlock(&shmseg_lock);

    write_name(name, &segment->descriptor);
    segment->fd = memfd_create(name, MFD_CLOEXEC);
    if (segment->fd < 0) {
        status = status_of_errno(errno);
        mscclpp_log(MSCCLPP_ERR_NO_DESCRIPTORS == status ? MSCCLPP_LOG_DEBUG : MSCCLPP_LOG_ERROR,
                    "memfd_create for %zu bytes of shared memory failed: %m", size);
        goto err_free;
    }
    if (0 != ftruncate(segment->fd, (off_t)size) || 0 != fstat(segment->fd, &file)) {
        status = status_of_errno(errno);
        mscclpp_error("cannot give shared memory %zu bytes: %m", size);
        goto err_close;
    }
    segment->descriptor.fd = segment->fd;
    segment->descriptor.dev = (uint64_t)file.st_dev;
    segment->descriptor.ino = (uint64_t)file.st_ino;
    status = map_file(segment->fd, size, &segment->base);
    if (MSCCLPP_OK != status) {
        goto err_close;
    }

    pthread_mutex_lock(&shmseg_lock);
    segment->next = shmseg_list;
    shmseg_list = segment;
    pthread_mutex_unlock(&shmseg_lock);
    *segment_p = segment;
    return MSCCLPP_OK;

err_close:
    close(segment->fd);
err_free:
    free(segment);
    return status;
}

void mscclpp_shmseg_describe(const mscclpp_shmseg_t *segment, mscclpp_shmseg_descriptor_t *descriptor_p)
{
    *descriptor_p = segment->descriptor;
}

/*
 * Searches for a segment around the address that this process has created; only these have a file descriptor. For an
 * address below a segment, the unsigned offset is huge, so the comparison fails.
 */
bool mscclpp_shmseg_locate(const void *address, size_t length, mscclpp_shmseg_descriptor_t *descriptor_p,
                           uint64_t *offset_p)
{
    const mscclpp_shmseg_t *segment;
    uint64_t offset = 0;

    pthread_mutex_lock(&shmseg_lock);
    for (segment = shmseg_list; segment != NULL; segment = segment->next) {
        offset = (uint64_t)((uintptr_t)address - (uintptr_t)segment->base);
        if (segment->fd >= 0 && offset <= segment->descriptor.length && length <= segment->descriptor.length - offset) {
            *descriptor_p = segment->descriptor;
            *offset_p = offset;
            break;
        }
    }
    pthread_mutex_unlock(&shmseg_lock);
    return segment != NULL;
}

/*
 * Returns true if the open file is the one that was described, by its device, inode, length and name. The name is
 * needed, because all other properties may belong to another file by now.
 */
static bool is_described(int fd, const mscclpp_shmseg_descriptor_t *descriptor)
{
    char path[64];
    char link_target[SHMSEG_NAME_MAX + 64];
    char name[SHMSEG_NAME_MAX];
    char expected_target[SHMSEG_NAME_MAX + 64];
    struct stat file;
    ssize_t length;

    if (0 != fstat(fd, &file) || (uint64_t)file.st_dev != descriptor->dev || (uint64_t)file.st_ino != descriptor->ino ||
        (uint64_t)file.st_size != descriptor->length) {
        return false;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, link_target, sizeof(link_target) - 1);
    if (length < 0) {
        return false;
    }
    link_target[length] = '\0';
    write_name(name, descriptor);
    snprintf(expected_target, sizeof(expected_target), "/memfd:%s (deleted)", name);
    return 0 == strcmp(link_target, expected_target);
}

/*
 * Finds the segment that is mapped at an address. Fills in the inode, token and number of *descriptor from the kernel's
 * list of mappings, and sets *offset_p to the offset of the address in the segment. Returns false if no segment is
 * mapped there; *descriptor may have changed even then.
 */
static bool read_mapping(const void *address, mscclpp_shmseg_descriptor_t *descriptor, uint64_t *offset_p)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool is_found = false;

    while (maps != NULL && !is_found && fgets(line, sizeof(line), maps) != NULL) {
        uintptr_t first_address, end_address;
        uint64_t file_offset;

        if (6 == sscanf(line,
                        "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %*s %" SCNu64 " /memfd:mscclpp-%" SCNx64 "-%" SCNu64,
                        &first_address, &end_address, &file_offset, &descriptor->ino, &descriptor->token,
                        &descriptor->id) &&
            (uintptr_t)address >= first_address && (uintptr_t)address < end_address) {
            *offset_p = file_offset + ((uintptr_t)address - first_address);
            is_found = true;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return is_found;
}

/*
 * Describes the segment at an address. Finds the segment's file among the open files of this process by its inode, and
 * then checks its name. Returns false if there is no such segment.
 */
bool mscclpp_shmseg_recognise(const void *address, mscclpp_shmseg_descriptor_t *descriptor_p, uint64_t *offset_p)
{
    mscclpp_shmseg_descriptor_t descriptor = {.pid = (int64_t)getpid()};
    bool is_found = false;
    struct dirent *entry;
    DIR *files;

    if (!read_mapping(address, &descriptor, offset_p)) {
        return false;
    }
    files = opendir("/proc/self/fd");
    while (files != NULL && !is_found && (entry = readdir(files)) != NULL) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        struct stat file;

        if (end != entry->d_name && '\0' == *end && 0 == fstat((int)fd, &file) &&
            (uint64_t)file.st_ino == descriptor.ino) {
            descriptor.fd = fd;
            descriptor.dev = (uint64_t)file.st_dev;
            descriptor.length = (uint64_t)file.st_size;
            is_found = is_described((int)fd, &descriptor);
        }
    }
    if (files != NULL) {
        closedir(files);
    }
    if (is_found) {
        *descriptor_p = descriptor;
    }
    return is_found;
}

/*
 * Opens and maps the file of a segment that another process made, through that process's entry in /proc. Returns
 * MSCCLPP_ERR_NOT_SUPPORTED, logged at the debug level, if the file cannot be opened or is a different one. Returns
 * MSCCLPP_ERR_NO_DESCRIPTORS if this process may open no more files, or the error of mapping the file.
 */
static mscclpp_status_t open_described(const mscclpp_shmseg_descriptor_t *descriptor, void **base_p)
{
    mscclpp_status_t status;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)descriptor->pid, (long long)descriptor->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        status = status_of_errno(errno);
        mscclpp_debug("cannot open the shared memory %s: %m", path);
        return MSCCLPP_ERR_NO_DESCRIPTORS == status ? status : MSCCLPP_ERR_NOT_SUPPORTED;
    }
    if (is_described(fd, descriptor)) {
        status = map_file(fd, (size_t)descriptor->length, base_p);
    } else {
        mscclpp_debug("%s is not the shared memory that was described", path);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
    }
    close(fd); /* the mapping keeps the memory */
    return status;
}

/* Finds a segment that this process has mapped already. The caller holds shmseg_lock. */
static mscclpp_shmseg_t *find_segment(const mscclpp_shmseg_descriptor_t *descriptor)
{
    mscclpp_shmseg_t *segment = shmseg_list;

    while (segment != NULL &&
           (segment->descriptor.id != descriptor->id || segment->descriptor.token != descriptor->token ||
            segment->descriptor.pid != descriptor->pid)) {
        segment = segment->next;
    }
    return segment;
}

/*
 * If this process has already mapped the segment, only takes another reference. A descriptor of this process that is
 * not in the list is that of a segment that has been freed, so the result is MSCCLPP_ERR_NOT_SUPPORTED.
 */
mscclpp_status_t mscclpp_shmseg_attach(const mscclpp_shmseg_descriptor_t *descriptor, mscclpp_shmseg_t **segment_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_shmseg_t *segment;

    /* Holds the lock while mapping, so that two threads cannot map one segment at two addresses. */
    pthread_mutex_lock(&shmseg_lock);
    segment = find_segment(descriptor);
    if (segment != NULL) {
        ++segment->references;
        goto out;
    }
    if (mscclpp_process_is_self(descriptor->pid, descriptor->token)) {
        mscclpp_debug("shared segment %llu of this process does not exist any more",
                      (unsigned long long)descriptor->id);
        status = MSCCLPP_ERR_NOT_SUPPORTED;
        goto out;
    }
    segment = calloc(1, sizeof(*segment));
    if (segment == NULL) {
        mscclpp_error("out of memory for the description of a shared segment");
        status = MSCCLPP_ERR_NO_MEMORY;
        goto out;
    }
    status = open_described(descriptor, &segment->base);
    if (MSCCLPP_OK != status) {
        free(segment);
        goto out;
    }
    segment->descriptor = *descriptor;
    segment->fd = -1;
    segment->references = 1;
    segment->next = shmseg_list;
    shmseg_list = segment;
out:
    pthread_mutex_unlock(&shmseg_lock);
    if (MSCCLPP_OK == status) {
        *segment_p = segment;
    }
    return status;
}

/*
 * Removes the segment's descriptor under the lock, because other threads search for segments that have one, and then
 * closes it. After that, no other process can attach the segment.
 */
void mscclpp_shmseg_hide(mscclpp_shmseg_t *segment)
{
    int fd;

    pthread_mutex_lock(&shmseg_lock);
    fd = segment->fd;
    segment->fd = -1;
    pthread_mutex_unlock(&shmseg_lock);
    if (fd >= 0) {
        close(fd); /* the mapping keeps the memory */
    }
}

/*
 * Unmaps the segment without the lock: it is no longer in the list then, so no other thread can use it.
 */
void mscclpp_shmseg_detach(mscclpp_shmseg_t *segment)
{
    mscclpp_shmseg_t **link = &shmseg_list;

    if (segment == NULL) {
        return;
    }
    pthread_mutex_lock(&shmseg_lock);
    if (0 != --segment->references) {
        pthread_mutex_unlock(&shmseg_lock);
        return;
    }
    while (*link != segment) {
        link = &(*link)->next;
    }
    *link = segment->next;
    pthread_mutex_unlock(&shmseg_lock);

    if (0 != munmap(segment->base, (size_t)segment->descriptor.length)) {
        mscclpp_warn("cannot unmap shared memory at %p: %m", segment->base);
    }
    if (segment->fd >= 0) {
        close(segment->fd);
    }
    free(segment);
}

void *mscclpp_shmseg_base(const mscclpp_shmseg_t *segment)
{
    return segment->base;
}

size_t mscclpp_shmseg_length(const mscclpp_shmseg_t *segment)
{
    return (size_t)segment->descriptor.length;
}
