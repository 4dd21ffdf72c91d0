#include "test/host/log_record.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 16];
static size_t log_used;

void log_record_sink(void *context, mscclpp_log_level_t level, const char *line)
{
    (void)context;
    pthread_mutex_lock(&log_lock);
    if (log_used + strlen(line) + 4 < sizeof(log_text)) {
        log_used += (size_t)snprintf(log_text + log_used, sizeof(log_text) - log_used, "%d %s\n", (int)level, line);
    }
    pthread_mutex_unlock(&log_lock);
}

void log_record_clear(void)
{
    pthread_mutex_lock(&log_lock);
    log_used = 0;
    log_text[0] = '\0';
    pthread_mutex_unlock(&log_lock);
}

const char *log_record_text(void)
{
    return log_text;
}

int log_record_count(mscclpp_log_level_t level, const char *first, const char *second)
{
    const char *at, *end;
    int count = 0;

    pthread_mutex_lock(&log_lock);
    for (at = log_text; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        char line[2100];

        snprintf(line, sizeof(line), "%.*s", (int)(end - at), at);
        count += line[0] == '0' + (int)level && strstr(line, first) != NULL && strstr(line, second) != NULL;
    }
    pthread_mutex_unlock(&log_lock);
    return count;
}
