/*
 * A shortage of memory, for tests: functions that the linker puts in place of the C library's (the Makefile's `wraps`)
 * count what is allocated, and let an allocation fail.
 */
#ifndef TEST_UNIT_SHORTAGE_H
#define TEST_UNIT_SHORTAGE_H

#include <stdbool.h>

/* The nth allocation of this thread from now on fails. 0: none fails. */
extern _Thread_local long shortage_left;

/* An allocation of this thread has failed. Set here, and cleared by the test. */
extern _Thread_local bool shortage_happened;

/* The number of allocations of all threads that are not freed. Changed by atomic operations. */
extern long shortage_held;

#endif
