/* Requests of staged nonblocking and persistent operations, and the callback of opal_progress that ends them. */
#include "mca/coll/mscclpp/stage/stage.h"

#include <stdatomic.h>

#include "mca/coll/mscclpp/stage/pool.h"
#include "mca/common/base/log.h"

/*
 * After this many tests, advance_request waits for the copy back. All calls share a device's staging stream, so copies
 * of other threads could prevent tests from ever finding the stream idle.
 */
#define POLLS_MAX 1000

/*
 * The free list of requests. Their memory is not given back before the component is closed. Open MPI reads a request
 * after its own free function has run, to release the types and operations that it retained in it.
 */
static opal_free_list_t requests;
static bool is_ready; /* mca_coll_mscclpp_stage_init has succeeded */

/*
 * Requests under way. Any thread pushes new ones on `arrived`, from which the holder of `is_busy` moves them to
 * `active`. Nobody else looks at `active`.
 */
static _Atomic(mca_coll_mscclpp_stage_request_t *) arrived;
static mca_coll_mscclpp_stage_request_t *active;
static atomic_flag is_busy = ATOMIC_FLAG_INIT;
static atomic_int request_count; /* number of requests in both lists */

/*
 * Pushes a request to the list of those that progress takes up. Any thread may call this. The request is written before
 * it is pushed with release, and taken with acquire.
 */
static void submit(mca_coll_mscclpp_stage_request_t *request)
{
    request->is_copying = false;
    request->polls = 0;
    /* The request is counted before it is in a list, so that the count is never 0 while a list holds a request. */
    atomic_fetch_add_explicit(&request_count, 1, memory_order_relaxed);
    request->next = atomic_load_explicit(&arrived, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&arrived, &request->next, request, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

/*
 * Retires an inner request that has completed: makes a persistent one inactive, and frees any other. Returns the MPI
 * error code of the inner operation.
 */
static int retire_inner(mca_coll_mscclpp_stage_request_t *request)
{
    int error = request->inner->req_status.MPI_ERROR;

    if (request->super.super.req_persistent) {
        request->inner->req_state = OMPI_REQUEST_INACTIVE;
    } else {
        ompi_request_free(&request->inner);
        request->inner = NULL;
    }
    return error;
}

/*
 * Takes the next step of one request. Starts the copy back once the inner request has ended, and then tests whether the
 * copy has ended. After POLLS_MAX tests it waits for the copy, so it may block.
 *
 * Returns true if the operation has ended, with its result, an MPI error code, in *error_p. No copy is in progress
 * then, even after an error.
 */
static bool advance_request(mca_coll_mscclpp_stage_request_t *request, int *error_p)
{
    bool have_ended = false;
    int error;

    if (!request->is_copying) {
        if (!REQUEST_COMPLETE(request->inner)) {
            return false;
        }
        opal_atomic_rmb(); /* the result was written before the request became complete */
        error = retire_inner(request);
        if (OMPI_SUCCESS == error) {
            error = mca_coll_mscclpp_stage_copy_out(&request->stage);
        }
        if (OMPI_SUCCESS != error) {
            *error_p = error;
            return true;
        }
        request->is_copying = true;
    }
    *error_p = mca_coll_mscclpp_stage_end_copy_out(&request->stage, ++request->polls > POLLS_MAX, &have_ended);
    return have_ended || OMPI_SUCCESS != *error_p;
}

/*
 * Completes a request with an MPI error code, and gives back the memory of one that is not persistent. Its owner may
 * free it in another thread before this function returns.
 */
static void complete_request(mca_coll_mscclpp_stage_request_t *request, int error)
{
    if (!request->super.super.req_persistent) {
        mca_coll_mscclpp_stage_release(&request->stage);
    }
    request->super.super.req_status.MPI_ERROR = error;
    ompi_request_complete(&request->super.super, true);
}

/*
 * Takes the next step of all requests, as a callback of opal_progress. Completes those whose operations have ended, and
 * returns their number. May block, as advance_request does. Does nothing if it is called from within itself or by a
 * second thread.
 */
static int progress(void)
{
    mca_coll_mscclpp_stage_request_t **link;
    int ended_count = 0;

    if (0 == atomic_load_explicit(&request_count, memory_order_relaxed)) {
        return 0;
    }
    if (atomic_flag_test_and_set_explicit(&is_busy, memory_order_acquire)) {
        return 0;
    }
    /* Moves the requests that have arrived to the end of the active ones. */
    for (link = &active; *link != NULL; link = &(*link)->next) {
    }
    *link = atomic_exchange_explicit(&arrived, NULL, memory_order_acquire);

    link = &active;
    while (*link != NULL) {
        mca_coll_mscclpp_stage_request_t *request = *link;
        int error;

        if (!advance_request(request, &error)) {
            link = &request->next;
            continue;
        }
        *link = request->next;
        atomic_fetch_sub_explicit(&request_count, 1, memory_order_relaxed);
        complete_request(request, error);
        ++ended_count;
    }
    atomic_flag_clear_explicit(&is_busy, memory_order_release);
    return ended_count;
}

/*
 * Starts persistent requests, for MPI_Start and MPI_Startall. MPI_Startall passes only requests that have this start
 * function; for any other, returns MPI_ERR_REQUEST. A start that fails completes its request with the error, and the
 * following requests are started nevertheless. Returns the last error.
 */
static int start_requests(size_t count, ompi_request_t **outers)
{
    int result = OMPI_SUCCESS;

    for (size_t index = 0; index < count; ++index) {
        mca_coll_mscclpp_stage_request_t *request = (mca_coll_mscclpp_stage_request_t *)outers[index];
        ompi_request_t *inner;
        int rc;

        if (start_requests != outers[index]->req_start) {
            return MPI_ERR_REQUEST;
        }
        inner = request->inner;
        outers[index]->req_status.MPI_ERROR = OMPI_SUCCESS;
        outers[index]->req_complete = REQUEST_PENDING;
        outers[index]->req_state = OMPI_REQUEST_ACTIVE;
        rc = mca_coll_mscclpp_stage_copy_in(&request->stage);
        if (OMPI_SUCCESS == rc) {
            if (request->is_staged) {
                mca_coll_mscclpp_count_staged(request->module, request->counted, request->reason);
            }
            /* An inner request that has nothing to communicate has no start function and is always complete. */
            rc = inner->req_start == NULL ? OMPI_SUCCESS : inner->req_start(1, &request->inner);
        }
        if (OMPI_SUCCESS == rc) {
            submit(request);
        } else {
            /* The request has the error, too, because MPI_Startall ignores this function's result. */
            complete_request(request, rc);
            result = rc;
        }
    }
    return result;
}

/* Gives a request back to the free list. */
static void give_back(mca_coll_mscclpp_stage_request_t *request)
{
    OMPI_REQUEST_FINI(&request->super.super);
    opal_free_list_return(&requests, (opal_free_list_item_t *)request);
}

/*
 * Keeps the communicator alive while the request exists. Open MPI's inner operation uses the communicator, but does not
 * keep it alive. MPI allows the application to free it while the operation is under way, and the program would crash.
 * The reference is dropped where the request is freed and not where the operation ends, because that may happen within
 * any other call.
 */
static void hold_communicator(mca_coll_mscclpp_stage_request_t *request)
{
    OBJ_RETAIN(request->super.super.req_mpi_object.comm);
}

/* Drops the reference that hold_communicator took. The request may have been given back before. */
static void drop_communicator(struct ompi_communicator_t *comm)
{
    OBJ_RELEASE(comm);
}

/*
 * Frees a request (req_free). Returns MPI_ERR_REQUEST if the operation is in progress: its buffers are in use, and MPI
 * forbids this. Otherwise returns the result of freeing the inner request.
 */
static int free_request(ompi_request_t **outer)
{
    mca_coll_mscclpp_stage_request_t *request = (mca_coll_mscclpp_stage_request_t *)*outer;
    struct ompi_communicator_t *comm = request->super.super.req_mpi_object.comm;
    int rc = OMPI_SUCCESS;

    if (!REQUEST_COMPLETE(*outer)) {
        return MPI_ERR_REQUEST;
    }
    if (request->super.super.req_persistent) {
        rc = ompi_request_free(&request->inner);
        mca_coll_mscclpp_hold_end(&request->held);
        mca_coll_mscclpp_stage_release(&request->stage);
        OBJ_RELEASE(request->module);
    }
    give_back(request);
    drop_communicator(comm);
    *outer = MPI_REQUEST_NULL;
    return rc;
}

/* Returns the most types that a layout has. */
static size_t count_types(const mca_coll_mscclpp_stage_layout_t *layout)
{
    switch (layout->kind) {
    case MCA_COLL_MSCCLPP_STAGE_TYPES:
    case MCA_COLL_MSCCLPP_STAGE_OFFSETS:
        return (size_t)layout->blocks;
    default:
        return 1;
    }
}

/* Holds the types of a layout, also those of empty blocks, for which Open MPI may send empty messages. */
static void hold_layout(mca_coll_mscclpp_held_t *held, const mca_coll_mscclpp_stage_layout_t *layout)
{
    switch (layout->kind) {
    case MCA_COLL_MSCCLPP_STAGE_NOTHING:
        return;
    case MCA_COLL_MSCCLPP_STAGE_REGULAR:
    case MCA_COLL_MSCCLPP_STAGE_VECTOR:
        mca_coll_mscclpp_hold_type(held, layout->type);
        return;
    case MCA_COLL_MSCCLPP_STAGE_TYPES:
    case MCA_COLL_MSCCLPP_STAGE_OFFSETS:
        for (int i = 0; i < layout->blocks; ++i) {
            mca_coll_mscclpp_hold_type(held, layout->types[layout->first + i]);
        }
    }
}

/*
 * Holds the types and the operation of a persistent operation, whose inner request refers to them. Returns an MPI error
 * code; after an error nothing is held. Otherwise the caller drops them with mca_coll_mscclpp_hold_end.
 */
static int hold_arguments(mca_coll_mscclpp_held_t *held, const mca_coll_mscclpp_stage_call_t *call)
{
    const mca_coll_mscclpp_stage_layout_t *layouts[] = {&call->send.read, &call->send.write, &call->recv.read,
                                                        &call->recv.write};
    size_t types = 0;
    int rc;

    for (int i = 0; i < 4; ++i) {
        types += count_types(layouts[i]);
    }
    rc = mca_coll_mscclpp_hold_begin(held, types);
    for (int i = 0; i < 4 && OMPI_SUCCESS == rc; ++i) {
        hold_layout(held, layouts[i]);
    }
    if (OMPI_SUCCESS == rc) {
        mca_coll_mscclpp_hold_op(held, call->op);
    }
    return rc;
}

bool mca_coll_mscclpp_stage_needs_hold(const mca_coll_mscclpp_stage_call_t *call)
{
    mca_coll_mscclpp_held_t held;
    bool holds;

    if (OMPI_SUCCESS != hold_arguments(&held, call)) {
        return false;
    }
    holds = held.count > 0 || held.op != NULL;
    mca_coll_mscclpp_hold_end(&held);
    return holds;
}

/* Copies in only for a nonblocking call, since a persistent request copies at each start. */
int mca_coll_mscclpp_stage_request_new(const mca_coll_mscclpp_stage_call_t *call, mca_coll_mscclpp_module_t *module,
                                       struct ompi_communicator_t *comm, bool persistent,
                                       mca_coll_mscclpp_stage_request_t **request_p)
{
    mca_coll_mscclpp_stage_request_t *request =
        (mca_coll_mscclpp_stage_request_t *)(void *)opal_free_list_get(&requests);
    ompi_request_t *outer;
    int rc;

    if (request == NULL) {
        mscclpp_error("out of memory for the request of a staged operation");
        return MPI_ERR_NO_MEM;
    }
    outer = &request->super.super;
    OMPI_REQUEST_INIT(outer, persistent);
    outer->req_mpi_object.comm = comm;
    outer->req_status = ompi_request_empty.req_status;
    outer->req_free = free_request;
    request->inner = NULL;
    request->module = NULL;

    rc = mca_coll_mscclpp_stage_prepare(&request->stage, call);
    if (OMPI_SUCCESS != rc) {
        goto err_request;
    }
    if (persistent) {
        rc = hold_arguments(&request->held, call);
        if (OMPI_SUCCESS != rc) {
            goto err_stage;
        }
        request->module = module;
        request->counted = call->counted;
        request->reason = call->reason;
        request->is_staged = mca_coll_mscclpp_stage_needed(call);
        OBJ_RETAIN(module);
    } else {
        outer->req_state = OMPI_REQUEST_ACTIVE;
        rc = mca_coll_mscclpp_stage_copy_in(&request->stage);
        if (OMPI_SUCCESS != rc) {
            goto err_stage;
        }
        mca_coll_mscclpp_count_staged(module, call->counted, call->reason);
    }
    hold_communicator(request); /* last, so that no failure in this function has to drop the reference */
    *request_p = request;
    return OMPI_SUCCESS;

err_stage:
    mca_coll_mscclpp_stage_release(&request->stage);

err_request:
    give_back(request);
    return rc;
}

/*
 * If `result` is an error, the previous component has made no inner request, so only what
 * mca_coll_mscclpp_stage_request_new has taken is given back.
 */
int mca_coll_mscclpp_stage_request_post(mca_coll_mscclpp_stage_request_t *request, int result,
                                        ompi_request_t **request_p)
{
    if (OMPI_SUCCESS != result) {
        mca_coll_mscclpp_stage_release(&request->stage);
        if (request->module != NULL) {
            mca_coll_mscclpp_hold_end(&request->held);
            OBJ_RELEASE(request->module);
        }
        drop_communicator(request->super.super.req_mpi_object.comm);
        give_back(request);
        return result;
    }
    *request_p = &request->super.super;
    if (!request->super.super.req_persistent) {
        submit(request);
    }
    return OMPI_SUCCESS;
}

/* Sets the fields of a new request that never change. */
static void request_construct(mca_coll_mscclpp_stage_request_t *request)
{
    request->super.super.req_type = OMPI_REQUEST_COLL;
    request->super.super.req_start = start_requests;
    request->super.super.req_free = free_request;
    request->super.super.req_cancel = NULL;
}

OBJ_CLASS_INSTANCE(mca_coll_mscclpp_stage_request_t, ompi_coll_base_nbc_request_t, request_construct, NULL);

int mca_coll_mscclpp_stage_init(void)
{
    int rc;

    OBJ_CONSTRUCT(&requests, opal_free_list_t);
    /* Without payload buffers; empty at first, grows by 8 requests at a time, and has no limit. */
    rc = opal_free_list_init(&requests, sizeof(mca_coll_mscclpp_stage_request_t), opal_cache_line_size,
                             OBJ_CLASS(mca_coll_mscclpp_stage_request_t), 0, 0, 0, -1, 8, NULL, 0, NULL, NULL, NULL);
    if (OPAL_SUCCESS != rc) {
        goto err_requests;
    }
    rc = opal_progress_register(progress);
    if (OPAL_SUCCESS != rc) {
        goto err_requests;
    }
    mca_coll_mscclpp_stage_op_init();
    is_ready = true;
    return OMPI_SUCCESS;

err_requests:
    OBJ_DESTRUCT(&requests);
    return rc;
}

void mca_coll_mscclpp_stage_fini(void)
{
    if (!is_ready) {
        return;
    }
    is_ready = false;
    opal_progress_unregister(progress);
    OBJ_DESTRUCT(&requests);
    mca_coll_mscclpp_stage_close();
}
