/* A record of what the process has logged, for tests that look at it. Several threads may log at once. */
#ifndef TEST_HOST_LOG_RECORD_H
#define TEST_HOST_LOG_RECORD_H

#include "mca/common/base/log.h"

/* A sink for mscclpp_log_set. */
void log_record_sink(void *context, mscclpp_log_level_t level, const char *line);
void log_record_clear(void);

/* All lines since the last clear. Each begins with the digit of its level and a space. Call it while nobody logs. */
const char *log_record_text(void);

/* The number of lines of a level that contain both texts. */
int log_record_count(mscclpp_log_level_t level, const char *first, const char *second);

#endif
