#include "test/host/process_state.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* gcc tells sanitizers by macros, and clang by features. gcc may not have __has_feature. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define TSAN 1
#endif
#ifdef __SANITIZE_ADDRESS__
#define ASAN 1
#endif

bool process_state_tsan(void)
{
#ifdef TSAN
    return true;
#else
    return false;
#endif
}

bool process_state_sanitized(void)
{
#ifdef ASAN
    return true;
#else
    return process_state_tsan();
#endif
}

bool process_state_slow(void)
{
    return process_state_sanitized() || getenv("MSCCLPP_TEST_SLOW") != NULL;
}

static bool long_wanted(void)
{
    const char *value = getenv("MSCCLPP_TEST_LONG");

    return value != NULL && strcmp(value, "1") == 0;
}

bool process_state_long(void)
{
    return long_wanted() && !process_state_slow();
}

int process_state_calls(int calls)
{
    const int part = long_wanted() ? 1 : process_state_sanitized() ? 8 : 2;

    return (calls + part - 1) / part;
}

bool process_state_whole(void)
{
    return long_wanted() || !process_state_sanitized();
}

/* The number of entries of a folder. */
static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;

    while (folder != NULL && readdir(folder) != NULL) {
        ++count;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

/* The number of lines of a file. */
static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int c, count = 0;

    while (file != NULL && (c = getc(file)) != EOF) {
        count += c == '\n';
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

void process_state_read(process_state_t *state)
{
    long size = 0, resident = 0;
    FILE *file;

    /*
     * Memory that free keeps for later is not in use. A sanitizer replaces the library's allocator by its own. This
     * would then be the first use of the library's allocator, by several threads at once, and that crashes.
     */
    if (!process_state_sanitized()) {
        malloc_trim(0);
    }
    state->descriptors = count_entries("/proc/self/fd");
    state->threads = count_entries("/proc/self/task");
    state->mappings = count_lines("/proc/self/maps");
    file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &size, &resident) != 2) {
        perror("/proc/self/statm");
    }
    if (file != NULL) {
        fclose(file);
    }
    state->resident = resident * sysconf(_SC_PAGESIZE);
}
