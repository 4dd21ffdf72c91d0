#include "mca/common/plan/proofs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The version of the checks. It must change whenever the checks begin to refuse plans that they accepted before. */
#define CHECKER 1

#define LINE 128 /* room for the line in a proof's file, bytes */

/*
 * Finds the folder of this user's proofs. The folder may not exist yet. Returns false if the environment names no
 * folder, or if the path is too long. In a program with raised privileges, secure_getenv treats the environment as
 * empty.
 */
static bool find_folder(char *folder, size_t size)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length = -1;

    if (cache != NULL && cache[0] == '/') {
        length = snprintf(folder, size, "%s/coll-mscclpp/proofs", cache);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(folder, size, "%s/.cache/coll-mscclpp/proofs", home);
    }
    return length > 0 && (size_t)length < size;
}

/*
 * Makes the path of a plan's proof, and the line that it has to contain. `path` has room for `size` bytes, and `line`
 * for LINE bytes. Returns false if there is no folder for proofs, or if the path is too long.
 */
static bool make_path_and_line(const mscclpp_plan_t *plan, const char *kind, char *path, size_t size, char *line)
{
    char folder[PATH_MAX];
    int length;

    if (!find_folder(folder, sizeof(folder))) {
        return false;
    }
    length = snprintf(path, size, "%s/%016llx-%llu.%s", folder, (unsigned long long)plan->digest,
                      (unsigned long long)plan->file_bytes, kind);
    (void)snprintf(line, LINE, "coll-mscclpp proof %d %s %016llx %llu\n", CHECKER, kind,
                   (unsigned long long)plan->digest, (unsigned long long)plan->file_bytes);
    return length > 0 && (size_t)length < size;
}

/* Takes any failure as "not kept": the plan is then simulated again. Nothing is logged. */
bool mscclpp_plan_proof_is_kept(const mscclpp_plan_t *plan, const char *kind)
{
    char path[PATH_MAX], expected_line[LINE], kept_line[LINE] = "";
    struct stat status;
    bool is_kept = false;
    ssize_t length;
    int fd;

    if (!make_path_and_line(plan, kind, path, sizeof(path), expected_line)) {
        return false;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    /*
     * Only a regular file of this user that nobody else can write is trusted. fstat examines the open file, so it
     * cannot be replaced between the check and the read. O_NONBLOCK and O_NOFOLLOW prevent harm from pipes and symbolic
     * links.
     */
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
        length = read(fd, kept_line, sizeof(kept_line) - 1);
        is_kept = length > 0 && strcmp(kept_line, expected_line) == 0;
    }
    close(fd);
    return is_kept;
}

/*
 * Makes the folders of a path. The folders are for this user alone. Failures show when the file is opened. Writes to
 * `path` meanwhile; it is the same afterwards.
 */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, S_IRWXU);
        *slash = '/';
    }
}

/* Writes a temporary file and renames it, so that other processes see either the whole proof or none. */
void mscclpp_plan_proof_keep(const mscclpp_plan_t *plan, const char *kind)
{
    char path[PATH_MAX], temporary[PATH_MAX + 8], line[LINE];
    size_t length;
    bool is_written;
    int fd;

    if (!make_path_and_line(plan, kind, path, sizeof(path), line)) {
        return;
    }
    make_folders(path);
    (void)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    length = strlen(line);
    is_written = write(fd, line, length) == (ssize_t)length;
    is_written = close(fd) == 0 && is_written;
    if (!is_written || rename(temporary, path) != 0) {
        (void)unlink(temporary);
    }
}
