/*
 * Plans of which some cannot be written, at first or when they are saved again with the sizes of others: every size
 * still has a plan, and no size has two. A topology or a front of which a part was not written is an error.
 */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/lib/allreduce.h"
#include "tools/synth/synth_tool.h"

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

enum { MAX_PLANS = 32 };

static int passed, failed;
static int opened;     /* number of times that a plan was opened to be written */
static int first_fail; /* opening a plan fails this time, and `fails` - 1 times after it; 0: never */
static int fails;

static const char *lossy; /* a part of the path of a file whose first write fails, but not its close; NULL: none */

/* Writes nothing: fails the first time, as if there were no room, and succeeds later. */
static ssize_t lose_first(void *has_failed, const char *bytes, size_t size)
{
    bool *has_failed_p = has_failed;

    (void)bytes;
    if (!*has_failed_p) {
        *has_failed_p = true;
        errno = ENOSPC;
        return 0;
    }
    return (ssize_t)size;
}

/* Takes the place of fopen, by the linker. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
    static bool has_failed;

    if (lossy != NULL && strstr(path, lossy) != NULL) {
        FILE *file = fopencookie(&has_failed, mode, (cookie_io_functions_t){.write = lose_first});

        has_failed = false;
        if (file != NULL) {
            (void)setvbuf(file, NULL, _IONBF, 0);
        }
        return file;
    }
    if (strstr(path, "/synth_") != NULL && strcmp(mode, "w") == 0) {
        ++opened;
        if (first_fail != 0 && opened >= first_fail && opened < first_fail + fails) {
            return NULL;
        }
    }
    return __real_fopen(path, mode);
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *place)
{
    (void)status, (void)flag, (void)place;
    return remove(path);
}

/* The sizes that a plan in the folder is for. */
typedef struct {
    uint64_t least, most;
} sizes_t;

static sizes_t found[MAX_PLANS];
static int found_count;

static uint64_t number_behind(const char *text, const char *key)
{
    const char *place = strstr(text, key);

    return place == NULL ? 0 : strtoull(place + strlen(key) + strspn(place + strlen(key), "\": "), NULL, 10);
}

/* Notes the sizes of a plan's file. */
static int read_one(const char *path, const struct stat *status, int flag, struct FTW *place)
{
    char text[2000];
    FILE *file;

    (void)flag;
    if (place->level != 1 || strstr(path, "/synth_") == NULL || found_count == MAX_PLANS ||
        (file = fopen(path, "r")) == NULL) {
        return 0;
    }
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    (void)status;
    found[found_count++] =
        (sizes_t){number_behind(text, "\"min_message_size\""), number_behind(text, "\"max_message_size\"")};
    return 0;
}

static int by_least(const void *left, const void *right)
{
    const sizes_t *a = left, *b = right;

    return (a->least > b->least) - (a->least < b->least);
}

/* Whether the plans of the folder have each size once. */
static bool is_covered(const char *folder)
{
    uint64_t next = 0;
    int i;

    found_count = 0;
    (void)nftw(folder, read_one, 8, FTW_PHYS);
    qsort(found, (size_t)found_count, sizeof(found[0]), by_least);
    for (i = 0; i < found_count && found[i].least == next; ++i) {
        next = found[i].most + 1;
    }
    return i == found_count && found_count > 0 && found[found_count - 1].most == UINT64_MAX;
}

/* Saves the plans of a front. `count` plans cannot be opened, from the first-th on. */
static void save(const synth_topology_t *topology, const synth_options_t *options, const synth_front_t *front,
                 int first, int count)
{
    const synth_plan_options_t plan_options = {.instances = 1};
    char folder[] = "/tmp/plans_XXXXXX";
    FILE *messages = __real_fopen("/dev/null", "w");
    bool saved;

    if (messages == NULL || mkdtemp(folder) == NULL) {
        perror(folder);
        exit(1);
    }
    opened = 0;
    first_fail = first;
    fails = count;
    saved = synth_tool_save(folder, topology, SYNTH_ALLREDUCE, options, front, 0, &plan_options, messages);
    first_fail = 0;
    if (saved == (first == 0) && is_covered(folder)) {
        ++passed;
    } else {
        printf("FAIL  %d plans from number %d on cannot be opened: %s, and %d plans have the sizes", count, first,
               saved ? "all is well" : "a failure", found_count);
        for (int i = 0; i < found_count; ++i) {
            printf(" %" PRIu64 "-%" PRIu64, found[i].least, found[i].most);
        }
        printf("\n");
        ++failed;
    }
    (void)fclose(messages);
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Checks that saving fails if a part of the file whose path contains `part` was not written. */
static void save_lossy(const synth_topology_t *topology, const synth_options_t *options, const synth_front_t *front,
                       const char *part)
{
    const synth_plan_options_t plan_options = {.instances = 1};
    char folder[] = "/tmp/plans_XXXXXX";
    FILE *messages = __real_fopen("/dev/null", "w");

    if (messages == NULL || mkdtemp(folder) == NULL) {
        perror(folder);
        exit(1);
    }
    lossy = part;
    if (!synth_tool_save(folder, topology, SYNTH_ALLREDUCE, options, front, 0, &plan_options, messages)) {
        ++passed;
    } else {
        printf("FAIL  a part of %s was not written, and nothing says so\n", part);
        ++failed;
    }
    lossy = NULL;
    (void)fclose(messages);
    (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const synth_options_t options = {.max_chunks = 4, .tree_chunks = 16, .closed_chunks = 4, .seconds = 10};
    synth_topology_t *topology = NULL;
    synth_front_t front;
    char reason[SYNTH_REASON];
    int plans;

    if (synth_topology_named("line:4", reason, sizeof(reason), &topology) != MSCCLPP_OK ||
        synth_allreduce_find(topology, &options, &front, reason, sizeof(reason)) != MSCCLPP_OK) {
        printf("FAIL  %s\n", reason);
        return 1;
    }
    if (freopen("/dev/null", "w", stderr) == NULL) { /* of the messages of plans that cannot be written */
        printf("FAIL  no /dev/null\n");
        return 1;
    }
    save(topology, &options, &front, 0, 0);
    plans = opened;
    for (int first = 1; first <= plans; ++first) {
        for (int count = 1; count <= 3; ++count) {
            save(topology, &options, &front, first, count);
        }
    }
    if (plans < 4) {
        printf("FAIL  only %d plans are saved\n", plans);
        ++failed;
    }
    save_lossy(topology, &options, &front, "/found/topology_");
    save_lossy(topology, &options, &front, "/found/allreduce_");
    synth_front_free(&front);
    synth_topology_free(topology);
    printf("plans that cannot be written: %d passed, %d failed\n", passed, failed);
    return failed > 0;
}
