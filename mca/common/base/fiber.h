/*
 * Fibers. A fiber is a function on its own stack. Where the function would wait, it returns to whoever runs the fiber,
 * and any thread may continue it later. So code that is written as a sequence of blocking calls can also serve a
 * request that nobody waits for (nonblocking collectives).
 */
#ifndef MCA_COMMON_BASE_FIBER_H
#define MCA_COMMON_BASE_FIBER_H

#include <stdbool.h>

typedef struct mscclpp_fiber mscclpp_fiber_t;

/* Makes a fiber that will call run(argument) and has not begun. NULL, logged, without memory. */
mscclpp_fiber_t *mscclpp_fiber_create(void (*run)(void *argument), void *argument);

/*
 * Runs the fiber until it yields or returns. True once it has returned: the fiber no longer exists then. Only one
 * thread at a time may run a fiber, and no thread may do so from inside a fiber.
 */
bool mscclpp_fiber_resume(mscclpp_fiber_t *fiber);

/*
 * Returns to whoever runs this fiber. Comes back with true once somebody continues it, perhaps in another thread. So
 * the caller must hold no lock owned by a thread, and keep no address of a thread-local variable. Outside a fiber it
 * returns false at once.
 */
bool mscclpp_fiber_yield(void);

/* The caller is in a fiber. */
bool mscclpp_fiber_inside(void);

/* Frees the stacks that are kept for later fibers. */
void mscclpp_fiber_drain(void);

#endif
