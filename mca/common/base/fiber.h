/*
 * Fibers: a function on a stack of its own that goes back to whoever runs it wherever it would wait, and is gone on
 * with later, by any thread. So what is written as one blocking call after the other serves a request that nobody waits
 * for.
 */
#ifndef MCA_COMMON_BASE_FIBER_H
#define MCA_COMMON_BASE_FIBER_H

#include <stdbool.h>

typedef struct mscclpp_fiber mscclpp_fiber_t;

/* One that is to call run(argument), and has not begun. NULL, logged, without memory. */
mscclpp_fiber_t *mscclpp_fiber_create(void (*run)(void *argument), void *argument);

/*
 * Runs it until it yields or returns. True once it has returned: it is no more. By one thread at a time, and by none
 * that is in a fiber.
 */
bool mscclpp_fiber_resume(mscclpp_fiber_t *fiber);

/*
 * Goes back to whoever runs this fiber; returns true once somebody goes on with it, perhaps in another thread. Locks of
 * a thread must not be held, nor addresses of its own variables be kept. False, at once, outside a fiber.
 */
bool mscclpp_fiber_yield(void);

/* The caller is in a fiber. */
bool mscclpp_fiber_inside(void);

/* Frees the stacks that are kept for the next ones. */
void mscclpp_fiber_drain(void);

#endif
