#include "mca/common/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_LINE_MAX 2048

static void log_to_stderr(void *context, mscclpp_log_level_t level, const char *line);

/* Written only by mscclpp_log_set, before other threads use the library. So it is read without a lock. */
static mscclpp_log_sink_fn_t log_sink = log_to_stderr;
static void *log_context;

mscclpp_log_level_t mscclpp_log_level = MSCCLPP_LOG_WARN;

/*
 * Writes a line to standard error, unless the program installs another sink. Writes each line with a single call, so
 * that lines of several processes on one terminal do not mix.
 */
static void log_to_stderr(void *context, mscclpp_log_level_t level, const char *line)
{
    static const char *const level_names[] = {"error", "warning", "info", "debug"};
    char text[LOG_LINE_MAX + 64];
    const char *name = (unsigned)level < sizeof(level_names) / sizeof(level_names[0]) ? level_names[level] : "message";
    int length = snprintf(text, sizeof(text), "[%ld] mscclpp %s: %s\n", (long)getpid(), name, line);

    (void)context;
    if (length > 0) {
        size_t remaining = (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
        const char *cursor = text;
        while (remaining > 0) {
            ssize_t written = write(STDERR_FILENO, cursor, remaining);
            if (written < 0 && EINTR == errno) {
                continue;
            }
            if (written <= 0) {
                break; /* a message that cannot be written has nowhere else to go */
            }
            cursor += written;
            remaining -= (size_t)written;
        }
    }
}

void mscclpp_log_set(mscclpp_log_sink_fn_t sink, void *context, mscclpp_log_level_t level)
{
    log_sink = sink != NULL ? sink : log_to_stderr;
    log_context = sink != NULL ? context : NULL;
    mscclpp_log_level = level;
}

/*
 * Turns a message into one printable line, because sinks expect a single line, and terminals interpret control
 * characters. Text from outside (driver messages, user values, names from the application) may contain any bytes. Bytes
 * of UTF-8 are kept, except those of its own control characters.
 */
static void make_printable(char *line)
{
    size_t length = strlen(line);
    char *cursor;

    while (length > 0 && ('\n' == line[length - 1] || '\r' == line[length - 1])) {
        line[--length] = '\0';
    }
    for (cursor = line; '\0' != *cursor; ++cursor) {
        const unsigned char byte = (unsigned char)cursor[0], next = (unsigned char)cursor[1];

        if ('\n' == byte || '\r' == byte || '\t' == byte) {
            *cursor = ' ';
        } else if (byte < 0x20 || 0x7f == byte) {
            *cursor = '?';
        } else if (0xc2 == byte && next >= 0x80 && next < 0xa0) {
            cursor[0] = '?';
            cursor[1] = '?';
        }
    }
}

/* Passes a message to the sink. Truncates a message that is too long, and marks it as truncated. Preserves errno. */
void mscclpp_log_print(mscclpp_log_level_t level, const char *format, ...)
{
    static const char ellipsis[] = " [...]";
    char line[LOG_LINE_MAX];
    int saved_errno = errno; /* callers report errno and then act on it */
    va_list arguments;
    int length;

    if (level > mscclpp_log_level) {
        return;
    }
    va_start(arguments, format);
    length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length < 0) {
        snprintf(line, sizeof(line), "%s", format);
    } else if ((size_t)length >= sizeof(line)) {
        memcpy(line + sizeof(line) - sizeof(ellipsis), ellipsis, sizeof(ellipsis));
    }

    make_printable(line);
    log_sink(log_context, level, line);
    errno = saved_errno;
}
