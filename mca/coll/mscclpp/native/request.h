/*
 * Nonblocking calls. A call becomes a request in its communicator's queue; the oldest one of each queue is carried out,
 * in a fiber, by the functions that serve blocking calls. Where these would wait the fiber goes back to MPI, whose
 * progress engine goes on with it. All ranks start the calls of a communicator in one order, so all carry out the same
 * one at a time; calls of other communicators go on beside it.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_REQUEST_H
#define MCA_COLL_MSCCLPP_NATIVE_REQUEST_H

#include "mca/coll/mscclpp/ompi/module.h"

/* What MPI passed to the call, by the names that the functions of all collectives give it. */
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
    mca_coll_mscclpp_request_t *next;
    mca_coll_mscclpp_module_t *module;
    mca_coll_mscclpp_queue_t *queue;                /* which it is, or is to be, in */
    mca_coll_mscclpp_lane_t *lane;                  /* of a persistent request; else NULL */
    void (*give_up)(mca_coll_mscclpp_lane_t *lane); /* what the request's end does with it */
    /*
     * Carries the call out, in a fiber, and returns an MPI error code. What another component is to end is left in
     * `inner`.
     */
    int (*serve)(mca_coll_mscclpp_request_t *request);
    mca_coll_mscclpp_passed_t passed;
    uint64_t call; /* its number on the communicator; 0: it has none */
    uint64_t most; /* of a persistent request: the size of the largest block of all ranks */
    mscclpp_fiber_t *fiber;
    ompi_request_t *inner;
    int result;
};

OBJ_CLASS_DECLARATION(mca_coll_mscclpp_request_t);

/*
 * For a list of up to eight arguments in parentheses: keeps them in `passed`, by their names; and yields what was kept,
 * as a list of arguments.
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
 * A request of the communicator, in which everything but `passed` is set; it is the caller's until it is submitted.
 * NULL, logged, without memory. `number`: the call counts among those of the communicator that kernels may serve.
 */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_request_new(mca_coll_mscclpp_module_t *module,
                                                         int (*serve)(mca_coll_mscclpp_request_t *request),
                                                         bool number);

/* A persistent one, inactive, with a queue of its own. */
mca_coll_mscclpp_request_t *mca_coll_mscclpp_request_new_persistent(mca_coll_mscclpp_module_t *module,
                                                                    mca_coll_mscclpp_queue_t *queue,
                                                                    int (*serve)(mca_coll_mscclpp_request_t *request));

/* Starts it, or has it follow those that are under way. An MPI error code. */
int mca_coll_mscclpp_request_submit(mca_coll_mscclpp_request_t *request, ompi_request_t **request_p);

/*
 * No call of the communicator is under way, so one that is for other components may go there at once. Else it has to
 * take its turn, since all ranks have to hand them over in the same order.
 */
static inline bool mca_coll_mscclpp_request_none(const mca_coll_mscclpp_module_t *module)
{
    return 0 == __atomic_load_n(&module->queue.count, __ATOMIC_ACQUIRE);
}

/* Waits until a queue is empty. */
void mca_coll_mscclpp_request_await_queue(const mca_coll_mscclpp_queue_t *queue);

/* A call that waits comes after all nonblocking ones that have been started. */
static inline void mca_coll_mscclpp_request_await(mca_coll_mscclpp_module_t *module)
{
    if (OPAL_UNLIKELY(!mca_coll_mscclpp_request_none(module))) {
        mca_coll_mscclpp_request_await_queue(&module->queue);
    }
}

/* The callback of opal_progress. */
int mca_coll_mscclpp_request_init(void);
void mca_coll_mscclpp_request_fini(void);

#endif
