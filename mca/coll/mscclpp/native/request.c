/*
 * Runs the requests of request.h. One thread at a time runs them, the holder of the turn: a thread of MPI, or the
 * starter. Only a thread of MPI may complete requests.
 */
#include "mca/coll/mscclpp/native/request.h"

#include <sched.h>
#include <stdatomic.h>

#include "mca/coll/mscclpp/native/starter.h"
#include "mca/common/base/log.h"

/*
 * The free list of requests. Their memory is never given back to the system, because Open MPI reads a request even
 * after the request's free function has run.
 */
static opal_free_list_t requests;
static bool is_ready; /* mca_coll_mscclpp_request_init has succeeded */

/*
 * Guards all queues and their list. New queues are put at the head of the list. The holder of the turn reads a queue's
 * first call, and the queue's `next_item`, without the lock. Nobody else removes calls, or the queue with its last
 * call.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mca_coll_mscclpp_queue_t *active_queues; /* the queues that hold calls; atomic */

/* Which thread has the turn to run calls. The holder of the turn alone uses the next three variables. */
enum { NOBODY, THREAD_OF_MPI, STARTER };
static atomic_int turn = NOBODY;
static mca_coll_mscclpp_request_t *handed_over_requests; /* requests that other components complete */
static mca_coll_mscclpp_request_t *ended_requests;       /* those that a thread of MPI has to complete, in any order */
static bool has_relaxed; /* a call is in progress that the starter may continue, but only once there is another call */

static atomic_int incomplete_count; /* number of requests that are not complete */

/* Puts a request at the end of its queue. If the queue was empty, puts the queue into the list of active queues. */
static void append_request(mca_coll_mscclpp_request_t *request)
{
    mca_coll_mscclpp_queue_t *queue = request->queue;

    /* The call is counted before it is in the queue, so that `incomplete_count` is never 0 while there is work. */
    atomic_fetch_add_explicit(&incomplete_count, 1, memory_order_relaxed);
    request->next = NULL;
    pthread_mutex_lock(&lock);
    if (queue->first == NULL) {
        __atomic_store_n(&queue->first, request, __ATOMIC_RELEASE);
        queue->next = active_queues;
        __atomic_store_n(&active_queues, queue, __ATOMIC_RELEASE);
    } else {
        *queue->end = request;
    }
    queue->end = &request->next;
    __atomic_store_n(&queue->count, queue->count + 1, __ATOMIC_RELEASE); /* the lock keeps other writers out */
    pthread_mutex_unlock(&lock);
}

/*
 * Removes the oldest call of a queue, which is over, and returns the next call. If there is none, removes the queue
 * from the list and returns NULL; the queue's owner may then free the queue. Called by the holder of the turn, which
 * alone removes calls: so the oldest call is still the one that the caller has run.
 */
static mca_coll_mscclpp_request_t *remove_first(mca_coll_mscclpp_queue_t *queue)
{
    mca_coll_mscclpp_request_t *next_item;

    pthread_mutex_lock(&lock);
    next_item = queue->first->next;
    __atomic_store_n(&queue->first, next_item, __ATOMIC_RELEASE);
    if (next_item == NULL) {
        mca_coll_mscclpp_queue_t **link = &active_queues;

        while (queue != *link) {
            link = &(*link)->next;
        }
        __atomic_store_n(link, queue->next, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&queue->count, queue->count - 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return next_item;
}

/*
 * Returns the first request of the queue, or NULL if there is none. Reads with acquire, because the holder of the turn
 * does not take the lock.
 */
static mca_coll_mscclpp_request_t *oldest_of(const mca_coll_mscclpp_queue_t *queue)
{
    return __atomic_load_n(&queue->first, __ATOMIC_ACQUIRE);
}

/* Completes a request for MPI. The owner may free the request in another thread before this function returns. */
static void complete_request(mca_coll_mscclpp_request_t *request)
{
    request->super.super.req_status.MPI_ERROR = request->result;
    atomic_fetch_sub_explicit(&incomplete_count, 1, memory_order_relaxed);
    (void)ompi_request_complete(&request->super.super, true);
}

/* Carries out a call: the body of its fiber. */
static void run_call(void *argument)
{
    mca_coll_mscclpp_request_t *request = argument;

    if (0 != request->call) { /* 0: it is for another component, or its lane numbers it */
        __atomic_store_n(&request->module->current_call, request->call, __ATOMIC_RELAXED);
    }
    request->result = request->serve(request);
}

/* Takes the turn to run calls, for `thread`. Returns false if another thread has it. */
static bool take_turn(int thread)
{
    int expected = NOBODY;

    return atomic_compare_exchange_strong_explicit(&turn, &expected, thread, memory_order_acquire,
                                                   memory_order_relaxed);
}

/*
 * Takes the turn for a thread of MPI. Returns false if another thread has it, or the code that resumed the caller's
 * fiber.
 */
static bool take_turn_for_mpi(void)
{
    return !mscclpp_fiber_inside() && take_turn(THREAD_OF_MPI);
}

/* Takes the turn for a new call (take_turn_for_mpi). Waits for the starter, which never has the turn for long. */
static bool take_turn_for_new_call(void)
{
    bool has_turn = take_turn_for_mpi();

    while (!has_turn && !mscclpp_fiber_inside() && THREAD_OF_MPI != atomic_load_explicit(&turn, memory_order_relaxed)) {
        sched_yield();
        has_turn = take_turn_for_mpi();
    }
    return has_turn;
}

/*
 * Gives the turn back. Stores with release, so that the next holder sees what this one has written to the queues and
 * the lists.
 */
static void end_turn(void)
{
    atomic_store_explicit(&turn, NOBODY, memory_order_release);
}

static mca_coll_mscclpp_queue_t *first_queue(void)
{
    return __atomic_load_n(&active_queues, __ATOMIC_ACQUIRE);
}

/*
 * Returns true if the starter is to continue a call that has begun. What follows a kernel is left to MPI unless another
 * call may wait for it. That is the next one of the queue, or one of any queue that needs the slot for its kernel.
 */
static bool is_for_starter(const mca_coll_mscclpp_request_t *request)
{
    return mscclpp_fiber_is_urgent(request->fiber) ||
           (mscclpp_fiber_is_open(request->fiber) && atomic_load_explicit(&incomplete_count, memory_order_relaxed) > 1);
}

/*
 * Runs the calls of a queue in the starter, oldest first, until a call has to wait or may only be run by a thread of
 * MPI. Calls that end here go to the list `ended_requests`, since only a thread of MPI may complete their requests.
 * Returns BUSY if a call has advanced, WAITING if the first call still waits, or IDLE if no call is for the starter. If
 * there is no memory for a fiber, the call is left to a thread of MPI.
 */
static mca_coll_mscclpp_starter_look_t run_in_starter(mca_coll_mscclpp_queue_t *queue)
{
    mca_coll_mscclpp_starter_look_t most_active = MCA_COLL_MSCCLPP_STARTER_IDLE;
    mca_coll_mscclpp_request_t *request = oldest_of(queue), *next_item;

    while (request != NULL) {
        if (request->fiber == NULL && request->is_for_kernels) {
            request->fiber = mscclpp_fiber_create(run_call, request);
            if (request->fiber != NULL) {
                mscclpp_fiber_open_new(request->fiber);
            }
        }
        if (request->fiber == NULL || !is_for_starter(request)) {
            has_relaxed = has_relaxed || (request->fiber != NULL && mscclpp_fiber_is_open(request->fiber));
            request->told_starter = false;
            return most_active;
        }
        switch (mscclpp_fiber_resume_apart(request->fiber)) {
        case MSCCLPP_FIBER_WAITS:
            return MCA_COLL_MSCCLPP_STARTER_IDLE == most_active ? MCA_COLL_MSCCLPP_STARTER_WAITING : most_active;
        case MSCCLPP_FIBER_MOVED:
            return MCA_COLL_MSCCLPP_STARTER_BUSY;
        case MSCCLPP_FIBER_ENDED:
            most_active = MCA_COLL_MSCCLPP_STARTER_BUSY;
            next_item = remove_first(queue);
            request->next = ended_requests;
            ended_requests = request;
            request = next_item;
        }
    }
    return most_active;
}

/*
 * Runs the calls that may continue while no thread is in MPI. This is the function that the starter calls repeatedly
 * (starter.h). Returns the most active result of all queues.
 */
static mca_coll_mscclpp_starter_look_t run_open_calls(void)
{
    mca_coll_mscclpp_starter_look_t most_active = MCA_COLL_MSCCLPP_STARTER_IDLE;
    mca_coll_mscclpp_queue_t *queue, *next_item;

    if (0 == atomic_load_explicit(&incomplete_count, memory_order_relaxed)) {
        return MCA_COLL_MSCCLPP_STARTER_IDLE;
    }
    if (!take_turn(STARTER)) {
        return MCA_COLL_MSCCLPP_STARTER_WAITING; /* a thread of MPI runs calls, and may leave one open */
    }
    for (queue = first_queue(); queue != NULL; queue = next_item) {
        mca_coll_mscclpp_starter_look_t result;

        next_item = queue->next; /* the queue leaves the list once it is empty */
        result = run_in_starter(queue);
        most_active = result > most_active ? result : most_active;
    }
    end_turn();
    return most_active;
}

/*
 * Runs a call until it waits or ends. Returns true if it waits. Returns false if it is over, with its MPI error code in
 * `result`. If there is no memory for a fiber, which mscclpp_fiber_create logs, this is MPI_ERR_NO_MEM. If the starter
 * may continue the call, wakes the starter once.
 */
static bool resume_call(mca_coll_mscclpp_request_t *request)
{
    if (request->fiber == NULL) {
        request->fiber = mscclpp_fiber_create(run_call, request);
    }
    if (request->fiber == NULL) {
        request->result = MPI_ERR_NO_MEM;
        return false;
    }
    if (mscclpp_fiber_resume(request->fiber)) {
        return false;
    }
    if (!is_for_starter(request)) {
        has_relaxed = has_relaxed || mscclpp_fiber_is_open(request->fiber);
    } else if (!request->told_starter) {
        request->told_starter = true;
        mca_coll_mscclpp_starter_wake(run_open_calls);
    }
    return true;
}

/*
 * Runs the calls of a queue, oldest first, until a call has to wait. A call that another component completes leaves the
 * queue, too, and its request is kept in `handed_over_requests`. Returns the number of requests that were completed.
 * Called, like the next function, by the holder of the turn.
 */
static int advance_queue(mca_coll_mscclpp_queue_t *queue)
{
    mca_coll_mscclpp_request_t *request = oldest_of(queue), *next_item;
    int completed = 0;

    for (; request != NULL && !resume_call(request); request = next_item) {
        next_item = remove_first(queue);
        if (OMPI_SUCCESS == request->result && request->inner != NULL) {
            request->next = handed_over_requests;
            handed_over_requests = request;
        } else {
            complete_request(request);
            ++completed;
        }
    }
    return completed;
}

/*
 * Completes the requests whose inner requests, which belong to other components, are complete. The result of the inner
 * request becomes the result of the call. Returns the number of requests that were completed.
 */
static int advance_handed_over(void)
{
    mca_coll_mscclpp_request_t **link = &handed_over_requests, *request;
    int completed = 0;

    while ((request = *link) != NULL) {
        if (!REQUEST_COMPLETE(request->inner)) {
            link = &request->next;
            continue;
        }
        opal_atomic_rmb(); /* the result was written before the request became complete */
        *link = request->next;
        request->result = request->inner->req_status.MPI_ERROR;
        (void)ompi_request_free(&request->inner);
        complete_request(request);
        ++completed;
    }
    return completed;
}

/*
 * Completes the requests of the calls that the starter has ended. Called by a thread of MPI that holds the turn.
 * Returns the number of requests.
 */
static int complete_ended(void)
{
    mca_coll_mscclpp_request_t *request;
    int completed = 0;

    while ((request = ended_requests) != NULL) {
        ended_requests = request->next;
        complete_request(request);
        ++completed;
    }
    return completed;
}

/*
 * Advances all queues, as a callback of opal_progress. Returns the number of requests that were completed; 0 if another
 * thread has the turn.
 */
static int progress(void)
{
    mca_coll_mscclpp_queue_t *queue, *next_item;
    int completed = 0;

    if (0 == atomic_load_explicit(&incomplete_count, memory_order_relaxed) || !take_turn_for_mpi()) {
        return 0;
    }
    for (queue = first_queue(); queue != NULL; queue = next_item) {
        next_item = queue->next; /* the queue leaves the list once it is empty */
        completed += advance_queue(queue);
    }
    completed += advance_handed_over();
    completed += complete_ended();
    end_turn();
    return completed;
}

void mca_coll_mscclpp_request_await_queue(const mca_coll_mscclpp_queue_t *queue)
{
    /* Code in a fiber serves a call that has its turn, so it must not wait for the queue. */
    while (0 != __atomic_load_n(&queue->count, __ATOMIC_ACQUIRE) && !mscclpp_fiber_inside()) {
        opal_progress();
    }
}

/*
 * Queues a request. If this thread can take the turn, runs the oldest call of the queue, which is this one unless
 * others wait before it. If this call now waits behind a call that the starter may continue, wakes the starter.
 */
static void begin_request(mca_coll_mscclpp_request_t *request)
{
    mca_coll_mscclpp_queue_t *queue = request->queue;

    request->fiber = NULL;
    request->inner = NULL;
    request->told_starter = false;
    append_request(request);
    if (take_turn_for_new_call()) {
        (void)advance_queue(queue);
        if (has_relaxed && atomic_load_explicit(&incomplete_count, memory_order_relaxed) > 1) {
            has_relaxed = false;
            mca_coll_mscclpp_starter_wake(run_open_calls);
        }
        end_turn();
    }
}

/*
 * Frees a request (req_free). Returns MPI_ERR_REQUEST if the request is active: MPI forbids this, because its buffers
 * are in use.
 */
static int free_request(ompi_request_t **outer)
{
    mca_coll_mscclpp_request_t *request = (mca_coll_mscclpp_request_t *)*outer;

    if (!REQUEST_COMPLETE(*outer)) {
        return MPI_ERR_REQUEST;
    }
    if (request->lane != NULL) { /* a persistent request, which has kept its module alive for its lane */
        request->free_lane(request->lane);
        OBJ_RELEASE(request->module);
    }
    OMPI_REQUEST_FINI(*outer);
    opal_free_list_return(&requests, (opal_free_list_item_t *)(void *)*outer);
    *outer = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

/*
 * Starts persistent requests (req_start). MPI_Startall passes groups of requests that have this function, so all of
 * them are this component's; MPI_ERR_REQUEST otherwise. The requests before the invalid one have then been started. A
 * start itself cannot fail here: an error becomes the result of the request.
 */
static int start_requests(size_t count, ompi_request_t **outers)
{
    for (size_t index = 0; index < count; ++index) {
        mca_coll_mscclpp_request_t *request = (mca_coll_mscclpp_request_t *)outers[index];

        if (start_requests != outers[index]->req_start) {
            return MPI_ERR_REQUEST;
        }
        outers[index]->req_status.MPI_ERROR = OMPI_SUCCESS;
        outers[index]->req_complete = REQUEST_PENDING;
        outers[index]->req_state = OMPI_REQUEST_ACTIVE;
        begin_request(request);
    }
    return OMPI_SUCCESS;
}

/*
 * Makes a request for a call that `serve` carries out. Returns NULL if there is no memory. Does not set `fiber` and
 * `inner`: begin_request sets them at each start.
 */
static mca_coll_mscclpp_request_t *make_request(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_queue_t *queue,
                                                int (*serve)(mca_coll_mscclpp_request_t *request), bool persistent)
{
    mca_coll_mscclpp_request_t *request = (mca_coll_mscclpp_request_t *)(void *)opal_free_list_get(&requests);
    ompi_request_t *outer;

    if (request == NULL) {
        mscclpp_error("%s: no memory for the request of a call", mca_coll_mscclpp_comm_name(module->comm));
        return NULL;
    }
    outer = &request->super.super;
    OMPI_REQUEST_INIT(outer, persistent);
    outer->req_mpi_object.comm = module->comm;
    outer->req_status = ompi_request_empty.req_status;
    outer->req_free = free_request;
    outer->req_start = persistent ? start_requests : NULL;
    request->module = module;
    request->queue = queue;
    request->serve = serve;
    request->is_for_kernels = false;
    request->lane = NULL;
    request->call = 0;
    return request;
}

/*
 * A communicator's collective calls are made one at a time, so `calls` has one writer. Its store is atomic because
 * threads that look for mixtures read it (native/mixture.c).
 */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_request_new(mca_coll_mscclpp_module_t *module,
                                                         int (*serve)(mca_coll_mscclpp_request_t *request),
                                                         bool is_numbered)
{
    mca_coll_mscclpp_request_t *request = make_request(module, &module->queue, serve, false);

    if (request == NULL) {
        return NULL;
    }
    request->super.super.req_state = OMPI_REQUEST_ACTIVE;
    request->is_for_kernels = is_numbered;
    if (is_numbered) {
        request->call = module->calls + 1;
        __atomic_store_n(&module->calls, request->call, __ATOMIC_RELAXED);
    }
    return request;
}

mca_coll_mscclpp_request_t *mca_coll_mscclpp_request_new_persistent(mca_coll_mscclpp_module_t *module,
                                                                    mca_coll_mscclpp_queue_t *queue,
                                                                    int (*serve)(mca_coll_mscclpp_request_t *request))
{
    mca_coll_mscclpp_request_t *request = make_request(module, queue, serve, true);

    if (request != NULL) {
        request->is_for_kernels = true;
        OBJ_RETAIN(module);
    }
    return request;
}

int mca_coll_mscclpp_request_submit(mca_coll_mscclpp_request_t *request, ompi_request_t **request_p)
{
    *request_p = &request->super.super;
    begin_request(request);
    return OMPI_SUCCESS;
}

/* Sets the fields of a new request that never change. */
static void request_construct(mca_coll_mscclpp_request_t *request)
{
    request->super.super.req_type = OMPI_REQUEST_COLL;
    request->super.super.req_cancel = NULL;
}

OBJ_CLASS_INSTANCE(mca_coll_mscclpp_request_t, ompi_coll_base_nbc_request_t, request_construct, NULL);

int mca_coll_mscclpp_request_init(void)
{
    int rc;

    OBJ_CONSTRUCT(&requests, opal_free_list_t);
    /* No payload buffers. The list is empty at first, grows by 8 requests at a time, and has no limit. */
    rc = opal_free_list_init(&requests, sizeof(mca_coll_mscclpp_request_t), opal_cache_line_size,
                             OBJ_CLASS(mca_coll_mscclpp_request_t), 0, 0, 0, -1, 8, NULL, 0, NULL, NULL, NULL);
    if (OPAL_SUCCESS == rc) {
        rc = opal_progress_register(progress);
    }
    if (OPAL_SUCCESS != rc) {
        OBJ_DESTRUCT(&requests);
        return rc;
    }
    is_ready = true;
    return OMPI_SUCCESS;
}

void mca_coll_mscclpp_request_fini(void)
{
    if (!is_ready) {
        return;
    }
    is_ready = false;
    mca_coll_mscclpp_starter_fini();
    (void)opal_progress_unregister(progress);
    OBJ_DESTRUCT(&requests);
    mscclpp_fiber_drain();
}
