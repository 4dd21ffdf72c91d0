/* Graphs of the twin: recording the work that is put into a queue, repeating it, and loops. */
#include <errno.h>
#include <stdlib.h>

#include "device/launch/launch.h"
#include "device/launch/twin_queue.h"

typedef mscclpp_dev_twin_job_t job_t;

int mscclpp_dev_twin_begin_record(mscclpp_dev_twin_queue_t *queue)
{
    mscclpp_dev_twin_graph_t *graph = calloc(1, sizeof(*graph));
    int error = 0;

    if (graph == NULL) {
        return ENOMEM;
    }
    graph->end = &graph->first;
    pthread_mutex_lock(&queue->lock);
    if (queue->graph != NULL) { /* the queue is already being recorded */
        error = EBUSY;
    } else {
        queue->graph = graph;
    }
    pthread_mutex_unlock(&queue->lock);
    if (error != 0) {
        free(graph);
    }
    return error;
}

int mscclpp_dev_twin_end_record(mscclpp_dev_twin_queue_t *queue, mscclpp_dev_twin_graph_t **graph_p)
{
    pthread_mutex_lock(&queue->lock);
    *graph_p = queue->graph;
    queue->graph = NULL;
    pthread_mutex_unlock(&queue->lock);
    return *graph_p != NULL ? 0 : EINVAL;
}

static job_t *copy_job(const job_t *job);

/*
 * Makes `loop` a loop over copies of the jobs from `first` up to, but not including, `end`. `end` is NULL for the jobs
 * of a graph, and the loop itself for the jobs of a loop's body. Raises loop->workers to the largest number of workers
 * that a job needs. Returns false if there is no memory; the loop then owns the jobs that have been copied.
 */
static bool copy_body(job_t *loop, const job_t *first, const job_t *end)
{
    job_t **link = &loop->body;

    for (; first != end; first = first->next) {
        job_t *copied = copy_job(first);

        if (copied == NULL) {
            return false;
        }
        copied->is_part_of_loop = true;
        copied->next = loop;
        *link = copied;
        link = &copied->next;
        loop->workers = copied->workers > loop->workers ? copied->workers : loop->workers;
    }
    return true;
}

/*
 * Copies a job and, if it is a loop, its body. The copy keeps alive the same object as the job. Returns NULL if there
 * is no memory.
 */
static job_t *copy_job(const job_t *job)
{
    job_t *copied = mscclpp_dev_twin_new_job(&job->launch);

    if (copied == NULL) {
        return NULL;
    }
    copied->copy = job->copy;
    copied->function = job->function;
    copied->argument = job->argument;
    copied->condition = job->condition;
    copied->keeper = job->keeper;
    if (copied->keeper != NULL) {
        (void)__atomic_add_fetch(&copied->keeper->count, 1, __ATOMIC_RELAXED);
    }
    if (job->body != NULL && !copy_body(copied, job->body, job)) {
        mscclpp_dev_twin_free_job(copied);
        return NULL;
    }
    return copied;
}

int mscclpp_dev_twin_replay(const mscclpp_dev_twin_graph_t *graph, mscclpp_dev_twin_queue_t *queue)
{
    const job_t *recorded;
    int error = 0;

    for (recorded = graph->first; recorded != NULL && error == 0; recorded = recorded->next) {
        error = mscclpp_dev_twin_queue_job(queue, copy_job(recorded));
    }
    return error;
}

/* The loop's own job launches nothing: when it is the first job and has ended, its condition is checked (twin.c). */
int mscclpp_dev_twin_loop(mscclpp_dev_twin_queue_t *queue, const mscclpp_dev_twin_graph_t *body,
                          const uint64_t *condition)
{
    job_t *loop = mscclpp_dev_twin_new_job(&mscclpp_dev_twin_single);

    if (loop == NULL) {
        return ENOMEM;
    }
    loop->condition = condition;
    if (!copy_body(loop, body->first, NULL)) {
        mscclpp_dev_twin_free_job(loop);
        return ENOMEM;
    }
    return mscclpp_dev_twin_queue_job(queue, loop);
}

int mscclpp_dev_twin_append(mscclpp_dev_twin_graph_t *graph, const mscclpp_dev_twin_graph_t *added)
{
    const job_t *recorded;

    for (recorded = added->first; recorded != NULL; recorded = recorded->next) {
        *graph->end = copy_job(recorded);
        if (*graph->end == NULL) {
            return ENOMEM;
        }
        graph->end = &(*graph->end)->next;
    }
    return 0;
}

int mscclpp_dev_twin_keep(mscclpp_dev_twin_queue_t *queue, void (*release)(void *object), void *object)
{
    mscclpp_dev_twin_keeper_t *keeper = calloc(1, sizeof(*keeper));
    job_t *last = NULL;

    if (keeper == NULL) {
        return ENOMEM;
    }
    *keeper = (mscclpp_dev_twin_keeper_t){.count = 1, .release = release, .object = object};
    pthread_mutex_lock(&queue->lock);
    /* The job that was recorded last keeps the object alive. */
    for (job_t *job = queue->graph != NULL ? queue->graph->first : NULL; job != NULL; job = job->next) {
        last = job;
    }
    if (last != NULL && last->keeper == NULL) {
        last->keeper = keeper;
        keeper = NULL;
    }
    pthread_mutex_unlock(&queue->lock);
    free(keeper);
    return keeper == NULL ? 0 : EINVAL;
}

bool mscclpp_dev_twin_queue_is_recorded(mscclpp_dev_twin_queue_t *queue)
{
    bool is_recorded;

    pthread_mutex_lock(&queue->lock);
    is_recorded = queue->graph != NULL;
    pthread_mutex_unlock(&queue->lock);
    return is_recorded;
}
