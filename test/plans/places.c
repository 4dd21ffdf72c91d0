/*
 * Folders of plans that cannot be read as they should be: each is refused with a reason, and none is left out. Usage:
 * places EMPTY_FOLDER, in which the program makes folders.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mca/common/plan/library.h"

/* Bytes of one folder's name. */
enum { NAME = 200 };

/* Checks that a library of `place` has one file, which is refused for this reason. Returns the number of failures. */
static int check(const char *what, const char *place, const char *reason)
{
    mscclpp_plan_library_t *library = mscclpp_plan_library_create(place);
    mscclpp_plan_file_t *files = NULL;
    const int count = mscclpp_plan_library_load(library, &files);
    const char *refusal = count == 1 && files[0].refusal != NULL ? files[0].refusal : "";
    const int failures = count != 1 || strstr(refusal, reason) == NULL;

    if (failures > 0) {
        printf("FAIL  %s: %d files; '%s' does not contain '%s'\n", what, count, refusal, reason);
    }
    mscclpp_plan_library_destroy(library);
    return failures;
}

/* Makes a folder as deep as a path allows, with one plan, which a path cannot name. The path is relative. */
static int make_deep_folder(char *path, size_t size)
{
    char name[NAME + 1];
    size_t used = 0;
    int file;

    memset(name, 'd', NAME);
    name[NAME] = '\0';
    while (used + NAME + 1 < size) {
        if (mkdir(name, 0700) != 0 || chdir(name) != 0) {
            return -1;
        }
        used += (size_t)snprintf(path + used, size - used, "%s%s", used == 0 ? "" : "/", name);
    }
    memcpy(&name[NAME - 5], ".json", 5);
    file = open(name, O_CREAT | O_WRONLY, 0600);
    return file >= 0 ? close(file) : -1;
}

int main(int argc, char **argv)
{
    struct rlimit files, none;
    char path[PATH_MAX];
    int failures, top = open(argc == 2 ? argv[1] : "", O_DIRECTORY);

    if (top < 0 || fchdir(top) != 0 || make_deep_folder(path, sizeof(path)) != 0 || fchdir(top) != 0) {
        fprintf(stderr, "places: '%s' is not an empty folder: %s\n", argc == 2 ? argv[1] : "", strerror(errno));
        return 2;
    }
    failures = check("a path that is too long", path, "File name too long");
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        perror("places: getrlimit");
        return 2;
    }
    none = files;
    none.rlim_cur = 0; /* so that no folder can be opened */
    (void)setrlimit(RLIMIT_NOFILE, &none);
    failures += check("a folder that cannot be opened", ".", "the folder cannot be read: Too many open files");
    (void)setrlimit(RLIMIT_NOFILE, &files); /* the sanitizers open files at the end */
    printf("%d failures\n", failures);
    return failures > 0;
}
