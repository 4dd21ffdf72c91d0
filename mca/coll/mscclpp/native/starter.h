/*
 * The starter: a thread that starts the kernels of nonblocking calls, or their copies by engines, once all ranks have
 * come to them, also while this rank makes no MPI call. It tells the other ranks of the end of copies. When a kernel or
 * the copies have ended and other calls are under way, it ends the call, and begins the next one of the communicator.
 * It must not call MPI, which may serve one thread only. So it runs a call only where the call's fiber is open
 * (mca/common/base/fiber.h), and leaves it to MPI to complete the request.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_STARTER_H
#define MCA_COLL_MSCCLPP_NATIVE_STARTER_H

typedef enum {
    MCA_COLL_MSCCLPP_STARTER_IDLE,    /* no call is for the starter */
    MCA_COLL_MSCCLPP_STARTER_WAITING, /* there are such calls, and they wait: for ranks, kernels or the network */
    MCA_COLL_MSCCLPP_STARTER_BUSY     /* a call has advanced */
} mca_coll_mscclpp_starter_look_t;

/*
 * Wakes the starter, which then calls `look` until it finds no call. The first call makes the thread. `look` must be
 * the same function in all calls. Costs little while the thread is awake. A thread that naps is not woken: it looks at
 * the end of its nap. Call this after a fiber has been left open. If no thread can be made, this is logged, and MPI's
 * progress starts the kernels.
 */
void mca_coll_mscclpp_starter_wake(mca_coll_mscclpp_starter_look_t (*look)(void));

/* Ends the thread. No call is under way. */
void mca_coll_mscclpp_starter_fini(void);

#endif
