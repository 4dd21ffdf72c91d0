/* What was logged, kept for tests that look at it. Of the process; several threads may log at once. */
#ifndef TEST_HOST_LOG_RECORD_H
#define TEST_HOST_LOG_RECORD_H

#include "mca/common/base/log.h"

/* A sink for mscclpp_log_set. */
void log_record_sink(void *context, mscclpp_log_level_t level, const char *line);
void log_record_clear(void);

/* Everything since the last clear: lines that begin with the digit of their level and a space. While nobody logs. */
const char *log_record_text(void);

/* Lines of a level that hold both texts. */
int log_record_count(mscclpp_log_level_t level, const char *first, const char *second);

#endif
