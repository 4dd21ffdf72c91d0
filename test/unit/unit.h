/*
 * What every unit test needs: checks that print what failed and go on, a closing line, exit codes (0 passed, 1 failed,
 * 77 skipped), and a log sink that counts an unexpected error or warning as a failure. A program includes this file
 * once.
 */
#ifndef TEST_UNIT_UNIT_H
#define TEST_UNIT_UNIT_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mca/common/base/log.h"

#define UNIT_SKIPPED 77

/* Not 0 under a sanitizer with its own allocator and address space. gcc tells by macros, clang by features. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define UNIT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define UNIT_SANITIZED 1
#endif
#endif
#ifndef UNIT_SANITIZED
#define UNIT_SANITIZED 0
#endif

/* Changed with atomic operations, because tests check in threads, too. */
static int unit_passed;
static int unit_failed;
static int unit_expected; /* not 0 between unit_expect_log and unit_logged */
static pthread_mutex_t unit_log_lock = PTHREAD_MUTEX_INITIALIZER;
static int unit_lines;
static char unit_last_line[4096];

static inline void unit_result(int ok, const char *file, int line, const char *text)
{
    if (ok) {
        __atomic_add_fetch(&unit_passed, 1, __ATOMIC_RELAXED);
    } else {
        __atomic_add_fetch(&unit_failed, 1, __ATOMIC_RELAXED);
        fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    }
}

static inline void unit_compare(long long a, long long b, const char *file, int line, const char *text)
{
    unit_result(a == b, file, line, text);
    if (a != b) {
        fprintf(stderr, "    %lld is not %lld\n", a, b);
    }
}

static inline void unit_compare_text(const char *a, const char *b, const char *file, int line, const char *text)
{
    unit_result(strcmp(a, b) == 0, file, line, text);
    if (strcmp(a, b) != 0) {
        fprintf(stderr, "    \"%s\" is not \"%s\"\n", a, b);
    }
}

#define CHECK(expression_) unit_result(!!(expression_), __FILE__, __LINE__, #expression_)
#define CHECK_EQ(a_, b_) unit_compare((long long)(a_), (long long)(b_), __FILE__, __LINE__, #a_ " == " #b_)
#define CHECK_TEXT(a_, b_) unit_compare_text((a_), (b_), __FILE__, __LINE__, #a_ " is " #b_)

/* For conditions without which the rest of the program makes no sense. */
#define REQUIRE(expression_)                                                                                           \
    do {                                                                                                               \
        if (!(expression_)) {                                                                                          \
            unit_result(0, __FILE__, __LINE__, #expression_);                                                          \
            exit(unit_end());                                                                                          \
        }                                                                                                              \
        unit_result(1, __FILE__, __LINE__, #expression_);                                                              \
    } while (0)

/* A text that occurs in the warnings that a whole test may cause without a failure; NULL: none. */
static const char *unit_allowed;

static void unit_sink(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    if (unit_allowed != NULL && level == MSCCLPP_LOG_WARN && strstr(line, unit_allowed) != NULL) {
        return;
    }
    if (__atomic_load_n(&unit_expected, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&unit_log_lock);
        ++unit_lines;
        snprintf(unit_last_line, sizeof(unit_last_line), "%s", line);
        pthread_mutex_unlock(&unit_log_lock);
    } else if (level <= MSCCLPP_LOG_WARN) {
        unit_result(0, "log", (int)level, line);
    }
}

static inline void unit_begin(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    mscclpp_log_set(unit_sink, NULL, MSCCLPP_LOG_WARN);
}

/*
 * From here to unit_logged, messages are expected. unit_logged returns their number. For one thread, while no other
 * thread logs.
 */
static inline void unit_expect_log(void)
{
    unit_lines = 0;
    unit_last_line[0] = '\0';
    __atomic_store_n(&unit_expected, 1, __ATOMIC_RELEASE);
}

static inline int unit_logged(void)
{
    __atomic_store_n(&unit_expected, 0, __ATOMIC_RELEASE);
    return unit_lines;
}

static inline int unit_end(void)
{
    int failed = __atomic_load_n(&unit_failed, __ATOMIC_RELAXED);

    printf("%d passed, %d failed\n", __atomic_load_n(&unit_passed, __ATOMIC_RELAXED), failed);
    return failed > 0 ? 1 : 0;
}

static inline int unit_skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    return UNIT_SKIPPED;
}

/*
 * Runs a function in a child process, which reports its checks on its own and ends. Returns the process's id. The
 * function's results are the child's exit code: unit_join checks it.
 */
static inline pid_t unit_fork(void (*function)(void *), void *argument)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        unit_passed = unit_failed = 0;
        function(argument);
        fflush(NULL);
        _exit(unit_failed > 0 ? 1 : 0);
    }
    return pid;
}

static inline void unit_join(pid_t pid)
{
    int status = -1;

    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
