#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "mca/common/base/log.h"
#include "test/unit/unit.h"

typedef struct {
    int lines;
    mscclpp_log_level_t level;
    char last[8192];
} record_t;

static void sink(void *context, mscclpp_log_level_t level, const char *line)
{
    record_t *record = context;

    ++record->lines;
    record->level = level;
    snprintf(record->last, sizeof(record->last), "%s", line);
    errno = EDOM; /* sinks call what they like */
}

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

static void test_levels(void)
{
    record_t record = {0};

    mscclpp_log_set(sink, &record, MSCCLPP_LOG_ERROR);
    mscclpp_warn("%d", evaluate());
    mscclpp_info("%d", evaluate());
    mscclpp_debug("%d", evaluate());
    CHECK_EQ(record.lines, 0);
    CHECK_EQ(evaluated, 0);
    mscclpp_log_print(MSCCLPP_LOG_WARN, "not through the macro");
    CHECK_EQ(record.lines, 0);

    mscclpp_error("value %d of %s", 42, "thing");
    CHECK_EQ(record.lines, 1);
    CHECK_EQ(record.level, MSCCLPP_LOG_ERROR);
    CHECK_TEXT(record.last, "value 42 of thing");

    mscclpp_log_set(sink, &record, MSCCLPP_LOG_DEBUG);
    mscclpp_warn("w");
    CHECK_EQ(record.level, MSCCLPP_LOG_WARN);
    mscclpp_info("i");
    CHECK_EQ(record.level, MSCCLPP_LOG_INFO);
    mscclpp_debug("d");
    CHECK_EQ(record.level, MSCCLPP_LOG_DEBUG);
    CHECK_EQ(record.lines, 4);
}

static void test_text(void)
{
    record_t record = {0};
    char big[6000];

    mscclpp_log_set(sink, &record, MSCCLPP_LOG_WARN);
    mscclpp_error("ends here\n");
    CHECK_TEXT(record.last, "ends here");
    mscclpp_error("two\nlines");
    CHECK_TEXT(record.last, "two lines");
    mscclpp_error("break %s", "\r\n");
    CHECK_TEXT(record.last, "break ");
    mscclpp_error("\x1b[31mred\x1b[0m\ttab\x01\x7f\n\x08");
    CHECK_TEXT(record.last, "?[31mred?[0m tab?? ?");
    mscclpp_error("\xc3\xa9\xc2\xa0\xe2\x82\xac \xc2\x9b"
                  "31m \xc2");
    CHECK_TEXT(record.last, "\xc3\xa9\xc2\xa0\xe2\x82\xac ??31m \xc2");
    mscclpp_error("%s", "");
    CHECK_TEXT(record.last, "");

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    mscclpp_error("%s", big);
    CHECK(strlen(record.last) > 500 && strlen(record.last) < sizeof(big) - 1);
    CHECK_TEXT(record.last + strlen(record.last) - 5, "[...]");

    errno = ENOENT;
    mscclpp_error("why: %m");
    CHECK_EQ(errno, ENOENT);
    CHECK(strstr(record.last, "No such file") != NULL);
}

/* The default sink: whole lines on standard error, from several threads at once. */
#define THREADS 4
#define LINES 200

static void *print_lines(void *argument)
{
    for (int i = 0; i < LINES; ++i) {
        mscclpp_warn("thread %d line %d abcdefghijklmnopqrstuvwxyz end", *(int *)argument, i);
    }
    return NULL;
}

static void test_default_sink(void)
{
    char path[] = "test_log.XXXXXX";
    int file = mkstemp(path);
    int saved = dup(STDERR_FILENO);
    pthread_t threads[THREADS];
    int numbers[THREADS];
    char line[512];
    int lines = 0;
    FILE *stream;

    REQUIRE(file >= 0 && saved >= 0);
    unlink(path);
    mscclpp_log_set(NULL, NULL, MSCCLPP_LOG_WARN);
    fcntl(file, F_SETFL, O_APPEND);
    dup2(file, STDERR_FILENO);
    for (int i = 0; i < THREADS; ++i) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, print_lines, &numbers[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
    }
    mscclpp_info("below the level");
    dup2(saved, STDERR_FILENO);
    close(saved);

    stream = fdopen(file, "r");
    REQUIRE(stream != NULL);
    rewind(stream);
    while (fgets(line, sizeof(line), stream) != NULL) {
        size_t length = strlen(line);
        ++lines;
        CHECK(strstr(line, "mscclpp warning: thread ") != NULL);
        CHECK(length > 5 && strcmp(line + length - 5, " end\n") == 0);
    }
    CHECK_EQ(lines, THREADS * LINES);
    fclose(stream);
}

int main(void)
{
    test_levels();
    test_text();
    test_default_sink();
    return unit_end();
}
