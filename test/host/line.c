#include "test/host/line.h"

#include <string.h>
#include <time.h>

#include "mca/common/base/clock.h"
#include "mca/common/team/queue.h"
#include "test/unit/unit.h"

bool line_open(rank_t *rank, line_t *line)
{
    memset(line, 0, sizeof(*line));
    line->team = create_team(rank);
    CHECK_EQ(mscclpp_team_open_queue(line->team), MSCCLPP_OK);
    CHECK_EQ(mscclpp_dev_twin_queue_create(&line->native), 0);
    mscclpp_dev_twin_queue_set_apart(line->native);
    CHECK_EQ(mscclpp_team_find_stream(line->team, line->native, &line->stream), MSCCLPP_OK);
    return line->stream != NULL;
}

void line_close(rank_t *rank, line_t *line)
{
    mscclpp_team_destroy(line->team);
    meet(rank);
    mscclpp_dev_twin_queue_destroy(line->native);
}

void line_await_idle(mscclpp_dev_twin_queue_t *queue)
{
    while (!mscclpp_dev_twin_queue_is_idle(queue)) {
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
}

mscclpp_status_t line_await_failure(line_t *line, double seconds, char text[MSCCLPP_TEAM_FAILURE_TEXT])
{
    const double until = mscclpp_now() + seconds;
    mscclpp_status_t status = MSCCLPP_OK;

    while (status == MSCCLPP_OK && mscclpp_now() < until) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        status = mscclpp_team_find_failure(line->team, text, MSCCLPP_TEAM_FAILURE_TEXT);
    }
    return status;
}
