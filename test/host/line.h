/* A team for queued operations with a stream of an application, for tests in which ranks are threads. */
#ifndef TEST_HOST_LINE_H
#define TEST_HOST_LINE_H

#include "mca/common/gpu/gpu.h"
#include "mca/common/run/runner.h"
#include "mca/common/team/queue.h"
#include "mca/common/team/team.h"
#include "test/host/rank_threads.h"

typedef struct {
    mscclpp_team_t *team;
    mscclpp_dev_twin_queue_t *native; /* the application's stream, with a thread of its own */
    mscclpp_gpu_stream_t *stream;     /* the team's for it */
    uint64_t calls;                   /* for the caller, who numbers the calls */
} line_t;

/* Makes the team and the stream; collective. False, after a failed check, if there is no stream. */
bool line_open(rank_t *rank, line_t *line);

/* Destroys the team, then, when all ranks have come, the stream. All operations must have ended. */
void line_close(rank_t *rank, line_t *line);

/* Waits until a stream is empty, also after the end of its team. */
void line_await_idle(mscclpp_dev_twin_queue_t *queue);

/*
 * Looks until the team has failed, for so many seconds at most; a kernel takes as long as its deadline. Returns the
 * failure, with its message in `text`, or MSCCLPP_OK.
 */
mscclpp_status_t line_await_failure(line_t *line, double seconds, char text[MSCCLPP_TEAM_FAILURE_TEXT]);

#endif
