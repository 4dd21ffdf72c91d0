/* The twin's launcher: a queue of launches, each run by as many CPU threads as the grid has threads. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "device/kern/allreduce/allreduce_nodes.h"
#include "device/kern/allreduce/allreduce_nodes_packets.h"
#include "device/kern/allreduce/allreduce_oneshot.h"
#include "device/kern/allreduce/allreduce_oneshot_put.h"
#include "device/kern/allreduce/allreduce_scratch.h"
#include "device/kern/allreduce/allreduce_twophase.h"
#include "device/kern/allreduce/allreduce_twophase_ll128.h"
#include "device/kern/allreduce/allreduce_zerocopy.h"
#include "device/kern/coll/direct.h"
#include "device/kern/coll/nodes.h"
#include "device/kern/coll/nodes_packets.h"
#include "device/kern/coll/pack.h"
#include "device/kern/coll/packets.h"
#include "device/kern/coll/puts.h"
#include "device/kern/coll/strided.h"
#include "device/kern/coll/tiles.h"
#include "device/kern/coll/unsized.h"
#include "device/kern/probe/channel_ring.h"
#include "device/kern/probe/meet.h"
#include "device/kern/linger.h"
#include "device/kern/plan/run.h"
#include "device/kern/probe/ll128.h"
#include "device/kern/allreduce/reduce_chunk.h"
#include "device/kern/probe/port_pair.h"
#include "device/kern/probe/port_ring.h"
#include "device/launch/launch.h"
#include "device/launch/twin_queue.h"

/*
 * A thread's patience: the number of turns of a wait after which it yields its processor. A turn takes about 30 ns, and
 * more in a virtual machine. Where threads share processors, each turn delays the thread that is waited for.
 */
#define SHORT_PATIENCE 1u
#define LONG_PATIENCE 2048u

typedef mscclpp_dev_twin_shared_t block_t;
typedef mscclpp_dev_twin_job_t job_t;

/* Called by waits of kernels that run in their caller's thread, so that the caller's runtime makes progress. */
static _Thread_local struct {
    void (*call)(void *context);
    void *context;
} wait_progress;

void mscclpp_dev_twin_set_progress(void (*progress)(void *context), void *context)
{
    wait_progress.call = progress;
    wait_progress.context = context;
}

/*
 * Runs a kernel body in one CPU thread. `block_memory` is shared by the threads of the block. Only lingering kernels
 * and plans use it, and plans use only its `plan_copy`. `hot` is false in all bodies, because the twin looks up types
 * and operations at run time.
 */
static void run_body(mscclpp_dev_ctx_t *ctx, mscclpp_dev_kernel_t kernel, const void *args,
                     mscclpp_dev_linger_block_t *block_memory)
{
    const mscclpp_dev_args_t *common = args; /* all arguments begin with the common ones */
    const int dtype = (int)common->dtype, op = (int)common->op;

    switch (kernel) {
    case MSCCLPP_KERNEL_BARRIER:
        mscclpp_dev_barrier_only(ctx, args);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT:
        mscclpp_dev_allreduce_oneshot(ctx, args, false, dtype, op, MSCCLPP_DEV_LL16);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_LL8:
        mscclpp_dev_allreduce_oneshot(ctx, args, false, dtype, op, MSCCLPP_DEV_LL8);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE:
        mscclpp_dev_allreduce_twophase(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY:
        mscclpp_dev_allreduce_zerocopy(ctx, args, false, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_ZEROCOPY_SPLIT:
        mscclpp_dev_allreduce_zerocopy(ctx, args, true, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_SCRATCH:
        mscclpp_dev_allreduce_scratch(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_CHANNEL_RING:
        mscclpp_dev_channel_ring(ctx, args);
        break;
    case MSCCLPP_KERNEL_LINGER:
        mscclpp_dev_linger(ctx, args, block_memory);
        break;
    case MSCCLPP_KERNEL_REDUCE_CHUNK:
        mscclpp_dev_reduce_chunk(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_PORT_RING:
        mscclpp_dev_port_ring(ctx, args);
        break;
    case MSCCLPP_KERNEL_PORT_PAIR:
        mscclpp_dev_port_pair(ctx, args);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_NODES:
        mscclpp_dev_allreduce_nodes(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_NODES_PACKETS:
        mscclpp_dev_allreduce_nodes_packets(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_ONESHOT_PUT:
        mscclpp_dev_allreduce_oneshot_put(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_ALLREDUCE_TWOPHASE_LL128:
        mscclpp_dev_allreduce_twophase_ll128(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_LL128_PROBE:
        mscclpp_dev_ll128_probe(ctx, args);
        break;
    case MSCCLPP_KERNEL_COLL_MOVE_PACKETS:
        mscclpp_dev_coll_move_packets(ctx, args, NULL);
        break;
    case MSCCLPP_KERNEL_COLL_COMBINE_PACKETS:
        mscclpp_dev_coll_combine_packets(ctx, args, NULL, false, dtype, op, MSCCLPP_DEV_COLL_PACKET_BATCH);
        break;
    case MSCCLPP_KERNEL_COLL_MOVE_BLOCKS:
        mscclpp_dev_coll_move_packets(ctx, args, args);
        break;
    case MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS:
        mscclpp_dev_coll_combine_packets(ctx, args, args, false, dtype, op, MSCCLPP_DEV_COLL_PACKET_BATCH);
        break;
    case MSCCLPP_KERNEL_COLL_MOVE_UNSIZED:
        mscclpp_dev_coll_move_unsized(ctx, args);
        break;
    case MSCCLPP_KERNEL_COLL_TILES:
        mscclpp_dev_coll_tiles(ctx, args, dtype, op);
        break;
    case MSCCLPP_KERNEL_COLL_PUTS:
        mscclpp_dev_coll_puts(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_COLL_MOVE_DIRECT:
        mscclpp_dev_coll_move_direct(ctx, args);
        break;
    case MSCCLPP_KERNEL_COLL_COMBINE_DIRECT:
        mscclpp_dev_coll_combine_direct(ctx, args, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_COLL_MOVE_STRIDED:
        mscclpp_dev_coll_move_strided(ctx, args);
        break;
    case MSCCLPP_KERNEL_COLL_PACK:
        mscclpp_dev_coll_pack(ctx, args);
        break;
    case MSCCLPP_KERNEL_COLL_NODES:
        mscclpp_dev_coll_nodes(ctx, args, dtype, op);
        break;
    case MSCCLPP_KERNEL_COLL_NODES_PACKETS:
        mscclpp_dev_coll_nodes_packets(ctx, args, dtype, op);
        break;
    case MSCCLPP_KERNEL_PLAN:
    case MSCCLPP_KERNEL_PLAN_WIDE:
        mscclpp_dev_plan_load_program(ctx, args, &block_memory->plan_copy);
        mscclpp_dev_plan_run(ctx, args, &block_memory->plan_copy, MSCCLPP_KERNEL_PLAN_WIDE == kernel, false, dtype, op);
        break;
    case MSCCLPP_KERNEL_LAST:
        break;
    }
}

/*
 * Returns the patience of a launch's threads. Assumes that all ranks launch the same grid, on the processors that this
 * process may use. If every thread of every rank has its own processor, the event that a thread waits for comes soon,
 * and yielding might cost a time slice of another program. If threads share processors, the event may depend on a
 * thread that needs this thread's processor.
 */
static uint32_t find_patience(const mscclpp_dev_launch_t *launch)
{
    static uint32_t cached_processors;
    const mscclpp_dev_args_t *common = launch->args;
    uint32_t processors = __atomic_load_n(&cached_processors, __ATOMIC_RELAXED);

    if (processors == 0) {
        cpu_set_t allowed;

        processors = sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? (uint32_t)CPU_COUNT(&allowed) : 1;
        __atomic_store_n(&cached_processors, processors, __ATOMIC_RELAXED);
    }
    return (uint64_t)common->nranks * launch->nblocks * launch->nthreads <= processors ? LONG_PATIENCE : SHORT_PATIENCE;
}

/* Returns true if the launch's blocks have to form a cluster, which is then the whole grid. */
static bool forms_cluster(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_LINGER && ((const mscclpp_dev_linger_args_t *)launch->args)->cluster != 0;
}

/*
 * Runs thread `index` of a launch's grid: makes the thread's context, and then executes the body. `is_inline`: it runs
 * in an application's thread, and its waits call this thread's progress function.
 */
static void run_thread(const mscclpp_dev_launch_t *launch, uint32_t index, block_t *blocks, bool is_inline)
{
    mscclpp_dev_ctx_t ctx;

    memset(&ctx, 0, sizeof(ctx));
    ctx.tid = index % launch->nthreads;
    ctx.nthreads = launch->nthreads;
    ctx.block = index / launch->nthreads;
    ctx.nblocks = launch->nblocks;
    ctx.patience = find_patience(launch);
    ctx.meeting = &blocks[ctx.block].meeting;
    ctx.cluster = forms_cluster(launch) ? launch->nblocks : 1;
    ctx.block_size = sizeof(block_t);
    ctx.cluster_meeting = &blocks[0].cluster_meeting;
    if (is_inline) {
        ctx.progress = wait_progress.call;
        ctx.progress_context = wait_progress.context;
    }
    run_body(&ctx, launch->kernel, launch->args, &blocks[ctx.block].linger);
    if (ctx.cluster > 1 && ctx.tid == 0) {
        /* Overwritten, so that nothing can rely on its contents: on a GPU, the memory then belongs to another block. */
        memset(&blocks[ctx.block].linger, 0xa5, sizeof(blocks[ctx.block].linger));
    }
}

void mscclpp_dev_twin_free_job(job_t *job)
{
    job_t *body_job = job->body;

    while (body_job != NULL && body_job != job) {
        job_t *next = body_job->next;

        mscclpp_dev_twin_free_job(body_job);
        body_job = next;
    }
    if (job->keeper != NULL && __atomic_sub_fetch(&job->keeper->count, 1, __ATOMIC_ACQ_REL) == 0) {
        job->keeper->release(job->keeper->object);
        free(job->keeper);
    }
    free(job->blocks);
    free(job);
}

/*
 * Prepares a job for its first turn, or for the next one. Called with the lock held, before a job is queued and before
 * each turn of a loop.
 */
static void rewind_job(job_t *job)
{
    job->started = 0;
    job->unfinished = job->launch.nblocks * job->launch.nthreads;
}

/*
 * Ends the first job of the queue. Called when it has run, with the lock held.
 * - A loop whose condition still holds begins its next turn: the jobs of its body become the first ones, one after
 *   another. The last one's `next` is the loop, whose condition is then checked again.
 * - After any other job the queue continues with the next one. The ended job is freed, unless it is part of a loop's
 *   body, which the loop owns.
 */
static void end_first_job(mscclpp_dev_twin_queue_t *queue)
{
    job_t *job = queue->first;

    if (job->condition != NULL && __atomic_load_n(job->condition, __ATOMIC_ACQUIRE) != 0) {
        job_t *body_job;

        for (body_job = job->body; body_job != NULL && body_job != job; body_job = body_job->next) {
            rewind_job(body_job);
        }
        rewind_job(job);
        queue->first = job->body != NULL ? job->body : job;
        return;
    }
    queue->first = job->next;
    if (queue->first == NULL) {
        queue->last = NULL;
    }
    if (!job->is_part_of_loop) {
        ++queue->ended;
        mscclpp_dev_twin_free_job(job);
    }
}

/*
 * Runs threads of the first job's grid, one after another, as the main function of a worker, until the queue is closing
 * and empty. All threads of a grid run at the same time, because there are at least as many workers. The lock is not
 * held while a thread runs. The job is not freed meanwhile: it ends only when its last thread has ended.
 */
static void *worker_main(void *argument)
{
    mscclpp_dev_twin_queue_t *queue = argument;

    pthread_mutex_lock(&queue->lock);
    for (;;) {
        job_t *job = queue->first;
        uint32_t index;

        if (job == NULL || queue->runs_inline || job->started == job->launch.nblocks * job->launch.nthreads) {
            if (job == NULL && queue->is_closing) {
                break;
            }
            pthread_cond_wait(&queue->work, &queue->lock);
            continue;
        }
        index = job->started++;
        pthread_mutex_unlock(&queue->lock);
        if (job->condition != NULL) {
            (void)sched_yield(); /* there is nothing to run: end_first_job checks the condition */
        } else if (job->function != NULL) {
            job->function(job->argument);
        } else if (job->copy.to != NULL) {
            memcpy(job->copy.to, job->copy.from, job->copy.size);
        } else {
            run_thread(&job->launch, index, job->blocks, false);
        }
        pthread_mutex_lock(&queue->lock);
        if (--job->unfinished == 0) {
            end_first_job(queue);
            pthread_cond_broadcast(&queue->work);
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* Starts no worker: `append_job` starts as many as each job needs. */
int mscclpp_dev_twin_queue_create(mscclpp_dev_twin_queue_t **queue_p)
{
    mscclpp_dev_twin_queue_t *queue = calloc(1, sizeof(*queue));

    if (queue == NULL) {
        return ENOMEM;
    }
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->work, NULL);
    *queue_p = queue;
    return 0;
}

void mscclpp_dev_twin_graph_destroy(mscclpp_dev_twin_graph_t *graph)
{
    job_t *job;

    while (graph != NULL && (job = graph->first) != NULL) {
        graph->first = job->next;
        mscclpp_dev_twin_free_job(job);
    }
    free(graph);
}

/*
 * Workers end only when the queue is empty, so joining them waits for all jobs.
 */
void mscclpp_dev_twin_queue_destroy(mscclpp_dev_twin_queue_t *queue)
{
    uint32_t i;

    if (queue == NULL) {
        return;
    }
    pthread_mutex_lock(&queue->lock);
    queue->is_closing = true;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->lock);
    for (i = 0; i < queue->worker_count; ++i) {
        pthread_join(queue->workers[i], NULL);
    }
    mscclpp_dev_twin_graph_destroy(queue->graph);
    free(queue->workers);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/*
 * Starts workers until there are `count`, so that all threads of a grid can run at once. Returns 0 or an errno value.
 * After an error, the workers started so far remain. Called with the lock held.
 */
static int ensure_workers(mscclpp_dev_twin_queue_t *queue, uint32_t count)
{
    pthread_t *workers;
    int error;

    if (count <= queue->worker_count) {
        return 0;
    }
    workers = realloc(queue->workers, count * sizeof(*workers));
    if (workers == NULL) {
        return ENOMEM;
    }
    queue->workers = workers;
    while (queue->worker_count < count) {
        error = pthread_create(&queue->workers[queue->worker_count], NULL, worker_main, queue);
        if (error != 0) {
            return error;
        }
        ++queue->worker_count;
    }
    return 0;
}

/*
 * Puts a job at the end of the queue, which owns it then, or of the graph that is being recorded. Returns 0, or the
 * errno value of starting workers; the caller then still owns the job. Called with the lock held.
 */
static int append_job(mscclpp_dev_twin_queue_t *queue, job_t *job)
{
    int error;

    if (queue->graph != NULL) {
        *queue->graph->end = job;
        queue->graph->end = &job->next;
        return 0;
    }
    error = ensure_workers(queue, job->workers);
    if (error != 0) {
        return error;
    }
    rewind_job(job);
    if (queue->last != NULL) {
        queue->last->next = job;
    } else {
        queue->first = job;
    }
    queue->last = job;
    ++queue->queued;
    pthread_cond_broadcast(&queue->work);
    return 0;
}

/*
 * Returns true if the launch may run in the calling thread. A lingering kernel may not: that thread rings for it while
 * it runs.
 */
static bool may_run_inline(const mscclpp_dev_launch_t *launch)
{
    return launch->nblocks * launch->nthreads == 1 && launch->kernel != MSCCLPP_KERNEL_LINGER;
}

job_t *mscclpp_dev_twin_new_job(const mscclpp_dev_launch_t *launch)
{
    job_t *job = calloc(1, sizeof(*job));

    if (job == NULL) {
        return NULL;
    }
    job->launch = *launch;
    job->workers = launch->nblocks * launch->nthreads;
    if (launch->args == NULL) {
        return job;
    }
    job->blocks = calloc(launch->nblocks, sizeof(*job->blocks));
    if (job->blocks == NULL) {
        free(job);
        return NULL;
    }
    memcpy(&job->args, launch->args, mscclpp_dev_args_size(launch->kernel));
    job->launch.args = &job->args;
    return job;
}

int mscclpp_dev_twin_queue_job(mscclpp_dev_twin_queue_t *queue, job_t *job)
{
    int error;

    if (job == NULL) {
        return ENOMEM;
    }
    pthread_mutex_lock(&queue->lock);
    error = append_job(queue, job);
    pthread_mutex_unlock(&queue->lock);
    if (error != 0) {
        mscclpp_dev_twin_free_job(job);
    }
    return error;
}

/*
 * Runs a launch in the caller's thread if it may, and if the queue is empty. That cannot fail. While it runs, workers
 * wait, and launches of other threads are queued, because a queue runs one job at a time.
 */
int mscclpp_dev_twin_launch(mscclpp_dev_twin_queue_t *queue, const mscclpp_dev_launch_t *launch)
{
    pthread_mutex_lock(&queue->lock);
    if (may_run_inline(launch) && queue->first == NULL && !queue->runs_inline && !queue->is_apart &&
        queue->graph == NULL) {
        block_t block;

        /*
         * The rest of `block` may have any contents: lingering kernels never run here, and a plan writes its program
         * there before it uses it.
         */
        memset(&block.meeting, 0, sizeof(block.meeting));
        queue->runs_inline = true;
        pthread_mutex_unlock(&queue->lock);
        run_thread(launch, 0, &block, true);
        pthread_mutex_lock(&queue->lock);
        queue->runs_inline = false;
        pthread_cond_broadcast(&queue->work);
        pthread_mutex_unlock(&queue->lock);
        return 0;
    }
    pthread_mutex_unlock(&queue->lock);
    return mscclpp_dev_twin_queue_job(queue, mscclpp_dev_twin_new_job(launch));
}

const mscclpp_dev_launch_t mscclpp_dev_twin_single = {.kernel = MSCCLPP_KERNEL_LAST, .nblocks = 1, .nthreads = 1};

int mscclpp_dev_twin_copy(mscclpp_dev_twin_queue_t *queue, const mscclpp_dev_twin_copy_t *copy)
{
    job_t *job = mscclpp_dev_twin_new_job(&mscclpp_dev_twin_single);

    if (job != NULL) {
        job->copy = *copy;
    }
    return mscclpp_dev_twin_queue_job(queue, job);
}

int mscclpp_dev_twin_call(mscclpp_dev_twin_queue_t *queue, void (*function)(void *argument), void *argument)
{
    job_t *job = mscclpp_dev_twin_new_job(&mscclpp_dev_twin_single);

    if (job != NULL) {
        job->function = function;
        job->argument = argument;
    }
    return mscclpp_dev_twin_queue_job(queue, job);
}

void mscclpp_dev_twin_queue_set_apart(mscclpp_dev_twin_queue_t *queue)
{
    queue->is_apart = true;
}

bool mscclpp_dev_twin_queue_is_idle(mscclpp_dev_twin_queue_t *queue)
{
    bool is_idle;

    pthread_mutex_lock(&queue->lock);
    is_idle = queue->first == NULL && !queue->runs_inline;
    pthread_mutex_unlock(&queue->lock);
    return is_idle;
}

uint64_t mscclpp_dev_twin_queue_mark_end(mscclpp_dev_twin_queue_t *queue)
{
    uint64_t mark;

    pthread_mutex_lock(&queue->lock);
    mark = queue->queued;
    pthread_mutex_unlock(&queue->lock);
    return mark;
}

bool mscclpp_dev_twin_queue_has_passed(mscclpp_dev_twin_queue_t *queue, uint64_t mark)
{
    bool has_passed;

    pthread_mutex_lock(&queue->lock);
    has_passed = queue->ended >= mark;
    pthread_mutex_unlock(&queue->lock);
    return has_passed;
}
