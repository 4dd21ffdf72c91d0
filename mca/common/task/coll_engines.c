/*
 * Moves large blocks by copy engines. The host of each rank starts copies and waits for them. No kernel runs, so the
 * application keeps all multiprocessors.
 *
 * Copies may start at once, because the exchange of buffers, or the meeting in its place, has shown that all ranks have
 * come to the call. At the end all ranks meet once more. After that no engine uses any rank's buffers.
 *
 * In an early call, a separate thread may start the copies. It also tells the other ranks when the copies have ended,
 * because these may already wait for the call while this rank's application does not call MPI.
 */
#include <string.h>

#include "mca/common/base/clock.h"
#include "mca/common/base/fiber.h"
#include "mca/common/base/log.h"
#include "mca/common/base/numbers.h"
#include "mca/common/gpu/streams.h"
#include "mca/common/task/coll_task.h"

/*
 * The maximum number of streams of a call. If there are more copies, several share a stream. On the twin, where each
 * stream is a thread, the limit is lower.
 */
#define MAX_STREAMS 8
#define TWIN_MAX_STREAMS 2

/* The time in seconds that copies in flight get to end after a failure. After that the team counts as stuck. */
#define SETTLE_SECONDS 10.0

/*
 * The size in bytes of the pieces of a broadcast. A rank passes one piece on while it reads the next. Pieces are small
 * enough that the first and the last one add little time, and large enough that engines move them at their full rate.
 */
#define PIECE_BYTES ((uint64_t)4 << 20)

/* The copies of one call. */
typedef struct {
    mscclpp_coll_task_t *task;
    mscclpp_gpu_stream_t *streams[MAX_STREAMS]; /* lent to the call until give_streams */
    int count;                                  /* number of streams */
} engines_t;

/*
 * Takes `wanted` streams, but at least one and at most the limit. The caller calls give_streams, even after an error.
 */
static mscclpp_status_t take_streams(engines_t *engines, int wanted)
{
    const mscclpp_team_t *team = engines->task->team;
    const int limit = team->group.on_twin ? TWIN_MAX_STREAMS : MAX_STREAMS;
    mscclpp_status_t status = MSCCLPP_OK;

    engines->count = 0;
    do {
        status = mscclpp_stream_get(team->runner.gpu, team->runner.device, &engines->streams[engines->count]);
        engines->count += status == MSCCLPP_OK ? 1 : 0;
    } while (engines->count < wanted && engines->count < limit && status == MSCCLPP_OK);
    return status;
}

/* Gives the streams back. If the team is stuck, leaks them, because work in them may never end. */
static void give_streams(engines_t *engines)
{
    const mscclpp_team_t *team = engines->task->team;

    while (engines->count > 0 && !team->runner.stuck) {
        mscclpp_stream_put(team->runner.gpu, team->runner.device, engines->streams[--engines->count], false);
    }
}

/*
 * Takes streams, and starts the copies of all pairs of source and target in them, in turn, so that several engines work
 * at the same time. Does not wait. The caller calls give_streams, even after an error; some copies may then have
 * started.
 */
static mscclpp_status_t start_pairs(engines_t *engines, const mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_team_t *team = engines->task->team;
    mscclpp_status_t status = take_streams(engines, (int)direct->count);
    uint32_t i;

    for (i = 0; i < direct->count && status == MSCCLPP_OK; ++i) {
        status = team->runner.gpu->put(engines->streams[i % (uint32_t)engines->count], direct->to[i], direct->from[i],
                                       direct->bytes[i]);
    }
    return status;
}

/*
 * Takes streams, and starts the copies of a broadcast: each rank but the root reads its part from the root and passes
 * it on to the others, piece by piece. The copies of one piece are in one stream and so run in order: a piece is passed
 * on only after it has arrived. Pieces in other streams are copied at the same time. The root has no copies. Does not
 * wait. The caller calls give_streams, even after an error; some copies may then have started.
 */
static mscclpp_status_t start_bcast(engines_t *engines, const mscclpp_dev_direct_args_t *direct)
{
    const mscclpp_coll_task_t *task = engines->task;
    const mscclpp_team_t *team = task->team;
    const uint64_t bytes = direct->common.bytes;
    const int own_index = team->group.rank - (team->group.rank > task->root); /* among all ranks but the root */
    mscclpp_status_t status = take_streams(engines, (int)mscclpp_divide_up(bytes, PIECE_BYTES));
    uint64_t begin;
    uint32_t i;

    for (begin = 0; begin < bytes && status == MSCCLPP_OK; begin += PIECE_BYTES) {
        const uint64_t size = mscclpp_min(bytes - begin, PIECE_BYTES);
        mscclpp_gpu_stream_t *stream = engines->streams[begin / PIECE_BYTES % (uint64_t)engines->count];
        char *arrived = direct->to[own_index] + begin;

        status = team->runner.gpu->put(stream, arrived, direct->from[0] + begin, size);
        for (i = 1; i < direct->count && status == MSCCLPP_OK; ++i) {
            status = team->runner.gpu->put(stream, direct->to[((uint32_t)own_index + i) % direct->count] + begin,
                                           arrived, size);
        }
    }
    return status;
}

/* Waits for the end of this rank's copies. After an error, copies may still be in progress (settle_copies). */
static mscclpp_status_t await_copies(const engines_t *engines)
{
    mscclpp_team_t *team = engines->task->team;
    mscclpp_status_t status = MSCCLPP_OK;
    mscclpp_group_wait_t wait;
    int i;

    mscclpp_group_wait_init(&wait, &team->group, "copies", engines->task->largest_block);
    for (i = 0; i < engines->count && status == MSCCLPP_OK; ++i) {
        while ((status = team->runner.gpu->stream_query(engines->streams[i])) == MSCCLPP_IN_PROGRESS) {
            status = mscclpp_group_wait_turn(&wait);
            if (status != MSCCLPP_OK) {
                return status;
            }
        }
    }
    mscclpp_group_wait_end(&wait);
    return status;
}

/*
 * Waits for copies in progress after a failure, because buffers must not be freed or unmapped while an engine uses
 * them. If a copy fails or does not end within SETTLE_SECONDS, marks the team as stuck, so that its buffers are kept.
 */
static void settle_copies(const engines_t *engines)
{
    mscclpp_team_t *team = engines->task->team;
    const double deadline = mscclpp_now() + SETTLE_SECONDS;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    for (i = 0; i < engines->count; ++i) {
        while ((status = team->runner.gpu->stream_query(engines->streams[i])) == MSCCLPP_IN_PROGRESS &&
               mscclpp_now() < deadline) {
            mscclpp_group_progress(&team->group);
        }
        team->runner.stuck = team->runner.stuck || status != MSCCLPP_OK;
    }
}

/*
 * Meets the other ranks at the end, because their engines write to this rank's output.
 *
 * A fiber is closed here if it has just mapped its buffers. It is opened when the copies have begun, because the
 * streams for them may have to be created. It stays urgent until this rank's copies have ended. After that it publishes
 * their end, and then only waits for the other ranks.
 */
mscclpp_status_t mscclpp_coll_run_engines(mscclpp_coll_task_t *task)
{
    mscclpp_team_t *team = task->team;
    engines_t engines = {.task = task};
    mscclpp_dev_direct_args_t direct;
    mscclpp_status_t status;

    memset(&direct, 0, sizeof(direct));
    mscclpp_coll_fill_direct(task, &direct);
    /* The end of a launch releases mappings. Engines use them until the end of the copies, so they are kept until then.
     */
    mscclpp_runner_keep_mappings(&team->runner, true);
    status = direct.mode == MSCCLPP_DEV_DIRECT_FAN ? start_bcast(&engines, &direct) : start_pairs(&engines, &direct);
    if (status == MSCCLPP_OK) {
        mscclpp_group_open_fiber(&team->group, task->largest_block);
        status = await_copies(&engines);
    }
    if (status == MSCCLPP_OK) {
        mscclpp_fiber_relax();
        status = mscclpp_coll_meet(task, "end of copies");
    }
    if (status != MSCCLPP_OK) {
        settle_copies(&engines);
    }
    /* If the team is stuck, engines may still use the mappings, so they are kept. */
    mscclpp_runner_keep_mappings(&team->runner, team->runner.stuck);
    give_streams(&engines);
    return status;
}
