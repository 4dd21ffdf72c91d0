/*
 * Nonblocking calls. Each call becomes a request in the queue of its communicator. The oldest request of each queue
 * runs in a fiber, in the functions that serve blocking calls. Where these would wait, the fiber yields to MPI, whose
 * progress engine resumes it later. All ranks start the calls of a communicator in the same order, so they all carry
 * out the same call at a time. Calls of other communicators run independently.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_REQUEST_H
#define MCA_COLL_MSCCLPP_NATIVE_REQUEST_H

#include "mca/coll/mscclpp/ompi/module.h"

/* The call's arguments, under the names that the functions of all collectives use. */
typedef struct {
    const void *sbuf;
    void *rbuf;
    void *buf;
    mca_coll_mscclpp_count_t scount;
    mca_coll_mscclpp_count_t rcount;
    mca_coll_mscclpp_count_t count;
    mca_coll_mscclpp_counts_t scounts;
    mca_coll_mscclpp_counts_t rcounts;
    mca_coll_mscclpp_displs_t sdispls;
    mca_coll_mscclpp_displs_t rdispls;
    mca_coll_mscclpp_displs_t displs;
    const MPI_Aint *soffsets;
    const MPI_Aint *roffsets;
    struct ompi_datatype_t *stype;
    struct ompi_datatype_t *rtype;
    struct ompi_datatype_t *type;
    struct ompi_datatype_t *const *stypes;
    struct ompi_datatype_t *const *rtypes;
    struct ompi_op_t *op;
    int root;
} mca_coll_mscclpp_passed_t;

struct mca_coll_mscclpp_request_t {
    ompi_coll_base_nbc_request_t super;
    mca_coll_mscclpp_request_t
        *next; /* the next request in the queue, in `handed_over_requests` or in `ended_requests` */
    mca_coll_mscclpp_module_t *module;
    mca_coll_mscclpp_queue_t *queue; /* the queue that the request's starts are put into */
    mca_coll_mscclpp_lane_t *lane;   /* the lane of a persistent request; NULL for a nonblocking call */
    void (*free_lane)(mca_coll_mscclpp_lane_t *lane); /* called with the lane when the request is freed */
    /*
     * Carries out the call, in a fiber, and returns an MPI error code. If another component has to complete the call,
     * `serve` leaves that component's request in `inner`.
     */
    int (*serve)(mca_coll_mscclpp_request_t *request);
    mca_coll_mscclpp_passed_t passed; /* of most persistent requests the lane keeps them (kept.h) */
    uint64_t allocation;    /* of a nonblocking all-reduce's output, as `is_device` in mca/common/gpu/gpu.h sets it */
    uint64_t call;          /* number of the call on the communicator; 0: it has none */
    mscclpp_fiber_t *fiber; /* runs the call; NULL: not started yet */
    bool is_for_kernels;    /* `serve` first tries kernels, so that a thread apart (fiber.h) may begin it */
    bool told_starter;      /* the starter knows that it may continue the call (starter.h) */
    ompi_request_t *inner;  /* the request of the component that completes the call; NULL: none */
    int result;             /* MPI error code of the call */
};

OBJ_CLASS_DECLARATION(mca_coll_mscclpp_request_t);

/*
 * Both take the names of up to eight arguments, in parentheses. KEEP stores the arguments in `passed`. KEPT yields the
 * stored ones as a list of arguments.
 */
#define MCA_COLL_MSCCLPP_KEEP(request_, names_) (EACH(KEEP_ONE, request_, EACH_NAME names_))
#define MCA_COLL_MSCCLPP_KEPT(request_, names_) EACH(KEPT_ONE, request_, EACH_NAME names_)
#define KEEP_ONE(request_, name_) (request_)->passed.name_ = (name_)
#define KEPT_ONE(request_, name_) (request_)->passed.name_
#define EACH_NAME(...) __VA_ARGS__
#define EACH(do_, request_, ...) EACH_OF(EACH_COUNT(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0), do_, request_, __VA_ARGS__)
#define EACH_COUNT(a_, b_, c_, d_, e_, f_, g_, h_, count_, ...) count_
#define EACH_OF(count_, ...) EACH_JOIN(EACH_, count_)(__VA_ARGS__)
#define EACH_JOIN(a_, b_) a_##b_
#define EACH_1(do_, request_, name_) do_(request_, name_)
#define EACH_2(do_, request_, name_, ...) do_(request_, name_), EACH_1(do_, request_, __VA_ARGS__)
#define EACH_3(do_, request_, name_, ...) do_(request_, name_), EACH_2(do_, request_, __VA_ARGS__)
#define EACH_4(do_, request_, name_, ...) do_(request_, name_), EACH_3(do_, request_, __VA_ARGS__)
#define EACH_5(do_, request_, name_, ...) do_(request_, name_), EACH_4(do_, request_, __VA_ARGS__)
#define EACH_6(do_, request_, name_, ...) do_(request_, name_), EACH_5(do_, request_, __VA_ARGS__)
#define EACH_7(do_, request_, name_, ...) do_(request_, name_), EACH_6(do_, request_, __VA_ARGS__)
#define EACH_8(do_, request_, name_, ...) do_(request_, name_), EACH_7(do_, request_, __VA_ARGS__)

/*
 * Makes the request of a nonblocking call. The caller sets `passed`. `is_numbered`: the call is numbered as one that
 * kernels may serve. The caller owns the request until it is submitted. Returns NULL without memory.
 */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_request_new(mca_coll_mscclpp_module_t *module,
                                                         int (*serve)(mca_coll_mscclpp_request_t *request),
                                                         bool is_numbered);

/* Makes a persistent request, which is inactive. Its starts go to `queue`. Returns NULL without memory. */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_request_new_persistent(mca_coll_mscclpp_module_t *module,
                                                                    mca_coll_mscclpp_queue_t *queue,
                                                                    int (*serve)(mca_coll_mscclpp_request_t *request));

/* Starts the request, or queues it behind those in progress, and passes it to the application. Never fails. */
int mca_coll_mscclpp_request_submit(mca_coll_mscclpp_request_t *request, ompi_request_t **request_p);

/*
 * Returns true if the communicator's queue is empty; calls that were handed over have left it. A call for another
 * component may then go there at once. Otherwise it has to take its turn, since all ranks have to hand over calls in
 * the same order.
 */
static inline bool mca_coll_mscclpp_request_is_idle(const mca_coll_mscclpp_module_t *module)
{
    return 0 == __atomic_load_n(&module->queue.count, __ATOMIC_ACQUIRE);
}

/* Waits until a queue is empty. Does not wait in a fiber, because its code serves a call that has its turn. */
void mca_coll_mscclpp_request_await_queue(const mca_coll_mscclpp_queue_t *queue);

/* Waits until all nonblocking calls that have been started are over. Blocking calls use it, which run after them. */
static inline void mca_coll_mscclpp_request_await(mca_coll_mscclpp_module_t *module)
{
    if (OPAL_UNLIKELY(!mca_coll_mscclpp_request_is_idle(module))) {
        mca_coll_mscclpp_request_await_queue(&module->queue);
    }
}

/* Registers and removes the callback of opal_progress that runs calls. `init` returns an Open MPI error code. */
int mca_coll_mscclpp_request_init(void);
void mca_coll_mscclpp_request_fini(void);

#endif
