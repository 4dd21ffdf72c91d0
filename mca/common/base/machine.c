#include "mca/common/base/machine.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The Fowler-Noll-Vo hash FNV-1a of 64 bits. */
#define HASH_BASIS UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

/* Adds bytes to a digest, which begins as HASH_BASIS. */
static void add_bytes(uint64_t *digest, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; ++i) {
        *digest = (*digest ^ ((const unsigned char *)bytes)[i]) * HASH_PRIME;
    }
}

/*
 * Adds the identity of this process's namespace of a kind ("pid", "net") to a digest. Adds nothing if the system does
 * not support namespaces of that kind, so that it has no file for them. Returns false if the system does not tell which
 * namespace it is.
 */
static bool add_namespace(uint64_t *digest, const char *kind)
{
    char path[32];
    struct stat info;

    snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    if (stat(path, &info) != 0) {
        return errno == ENOENT && access("/proc/self/ns", F_OK) == 0;
    }
    add_bytes(digest, &info.st_dev, sizeof(info.st_dev));
    add_bytes(digest, &info.st_ino, sizeof(info.st_ino));
    return true;
}

/* Returns a digest of the random id that the kernel creates at each start, or 0 if the id cannot be read. */
static uint64_t digest_boot_id(void)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    uint64_t digest = HASH_BASIS;
    char id[64];
    size_t length;

    if (file == NULL) {
        return 0;
    }
    length = fread(id, 1, sizeof(id), file);
    fclose(file);
    add_bytes(&digest, id, length);
    return length > 0 ? digest : 0;
}

/* Reads the random id that the kernel creates at each start only once, because each set-up asks for it. */
uint64_t mscclpp_machine_boot(void)
{
    static uint64_t known_digest;
    uint64_t digest = __atomic_load_n(&known_digest, __ATOMIC_RELAXED);

    if (digest == 0) {
        digest = digest_boot_id();
        __atomic_store_n(&known_digest, digest, __ATOMIC_RELAXED);
    }
    return digest;
}

uint64_t mscclpp_machine_pids(void)
{
    uint64_t digest = mscclpp_machine_boot();

    return digest != 0 && add_namespace(&digest, "pid") ? digest : 0;
}

/*
 * Each of these namespaces can keep two processes of one machine from sharing memory, sockets, files or process
 * entries.
 */
uint64_t mscclpp_machine_id(void)
{
    static const char *const kinds[] = {"ipc", "net", "mnt", "user"};
    uint64_t digest = mscclpp_machine_pids();
    char name[256] = "";

    if (digest == 0 || gethostname(name, sizeof(name) - 1) != 0) {
        return 0;
    }
    add_bytes(&digest, name, strlen(name));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
        if (!add_namespace(&digest, kinds[i])) {
            return 0;
        }
    }
    return digest;
}
