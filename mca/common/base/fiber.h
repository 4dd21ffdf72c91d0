/*
 * Fibers. A fiber is a function on a separate stack. When the function has to wait, it returns to the code that runs
 * the fiber, and any thread may continue it later. So code written as a sequence of blocking calls can also serve a
 * nonblocking collective, for which no thread waits.
 */
#ifndef MCA_COMMON_BASE_FIBER_H
#define MCA_COMMON_BASE_FIBER_H

#include <stdbool.h>

typedef struct mscclpp_fiber mscclpp_fiber_t;

/*
 * Creates a fiber that will call run(argument), but does not start it. A fiber frees itself when `run` has returned, so
 * each one must be run to its end. Returns NULL, which is logged, if there is no memory.
 */
mscclpp_fiber_t *mscclpp_fiber_create(void (*run)(void *argument), void *argument);

/*
 * Runs the fiber until it yields or returns. Returns true once it has returned, and then the fiber no longer exists.
 * Only one thread at a time may run a fiber, and no thread may do so from inside a fiber.
 */
bool mscclpp_fiber_resume(mscclpp_fiber_t *fiber);

/*
 * Returns to the code that runs this fiber. Returns true once the fiber is continued, perhaps by another thread. So the
 * caller must not hold a lock that belongs to a thread, or keep the address of a thread-local variable. Outside a
 * fiber, returns false immediately.
 */
bool mscclpp_fiber_yield(void);

/* Returns true if the caller is in a fiber. */
bool mscclpp_fiber_inside(void);

/*
 * Open, relax and close a fiber for threads apart, which may not do everything that a fiber does. Such threads may
 * continue a fiber while it is open, from mscclpp_fiber_open to mscclpp_fiber_close. In between the fiber must do
 * nothing that a thread apart may not do. mscclpp_fiber_close returns once a thread of the usual kind continues the
 * fiber.
 *
 * An open fiber is urgent until it calls mscclpp_fiber_relax. That call says that no one waits for the next steps of
 * this fiber, except for fibers that wait for their turn after it. Outside a fiber these functions do nothing, and
 * mscclpp_fiber_relax also does nothing in a closed fiber.
 */
void mscclpp_fiber_open(void);
void mscclpp_fiber_relax(void);
void mscclpp_fiber_close(void);

/* Returns true if the caller is in a fiber that a thread apart has continued. */
bool mscclpp_fiber_is_apart(void);

/* Notes that a fiber begins another wait. A thread apart that continues the fiber then runs it again soon. */
void mscclpp_fiber_note_wait(void);

/* Opens a fiber that has not been started, so that a thread apart may start it. */
void mscclpp_fiber_open_new(mscclpp_fiber_t *fiber);

/* Return true if this fiber, which does not run, is open, and if it is open and urgent. */
bool mscclpp_fiber_is_open(const mscclpp_fiber_t *fiber);
bool mscclpp_fiber_is_urgent(const mscclpp_fiber_t *fiber);

typedef enum {
    MSCCLPP_FIBER_WAITS, /* the fiber still waits as before */
    MSCCLPP_FIBER_MOVED, /* the fiber has begun another wait */
    MSCCLPP_FIBER_ENDED  /* the fiber has returned, and no longer exists */
} mscclpp_fiber_moved_t;

/* Runs an open fiber, in a thread apart, until it yields or returns. */
mscclpp_fiber_moved_t mscclpp_fiber_resume_apart(mscclpp_fiber_t *fiber);

/* Frees the stacks that are kept for later fibers. */
void mscclpp_fiber_drain(void);

#endif
