/* The fortified jump functions compare the target with the current stack, but here the target lies on another stack. */
#undef _FORTIFY_SOURCE

#include "mca/common/base/fiber.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "mca/common/base/log.h"

/*
 * The size of a fiber's stack: a GPU's runtime may load and compile modules on it. Pages that are never touched take no
 * memory. The lowest page is a guard, so that an overflow crashes instead of silently damaging memory.
 */
#define STACK_BYTES ((size_t)4 << 20)

/* The most ended fibers whose stacks are kept for later ones; further stacks are freed. */
#define KEPT_MAX 32

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif

#if defined(FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

/*
 * A place to jump to. Sanitizers understand only contexts, which are slower, since each switch makes a system call for
 * the signal mask.
 */
#if defined(FIBER_TSAN) || defined(FIBER_ASAN)
#define FIBER_BY_CONTEXT 1
typedef ucontext_t place_t;
#else
typedef jmp_buf place_t;
#endif

struct mscclpp_fiber {
    mscclpp_fiber_t *next; /* the next one in the list of kept fibers */
    void (*run)(void *argument);
    void *argument;
    char *stack;
    bool has_begun; /* the stack is in use, perhaps only by run_functions, which waits for its next function */
    bool has_ended; /* the function has returned */
    bool is_apart;  /* a thread apart has continued the fiber last */
    bool is_open;
    bool is_urgent; /* while it is open */
    bool has_moved; /* it has begun another wait since it was continued */
    place_t inner;  /* where the fiber continues */
    place_t outer;  /* where the thread that runs it continues */
#if defined(FIBER_TSAN)
    void *inner_fiber;
    void *outer_fiber;
#endif
#if defined(FIBER_ASAN)
    void *fake_stack;
    const void *outer_stack; /* of the thread that runs the fiber */
    size_t outer_size;       /* bytes */
#endif
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_fiber_t *kept;
static int kept_count;

/* One more kept fiber, atomic: calls that come one at a time take it and give it back without the lock. */
static mscclpp_fiber_t *spare;

static _Thread_local mscclpp_fiber_t *current;

/*
 * Returns the current fiber. Not inlined: a function that yields may continue in another thread, where the variable has
 * another address.
 */
__attribute__((noinline)) static mscclpp_fiber_t *get_current(void)
{
    return current;
}

/* Sets the current fiber of the calling thread; NULL: none. Not inlined, for the same reason. */
__attribute__((noinline)) static void set_current(mscclpp_fiber_t *fiber)
{
    current = fiber;
}

/*
 * Switches from the thread's stack to the fiber's stack. Returns when the fiber has yielded or ended. At the first
 * switch, `first` is the context to begin with; later it is NULL. Without sanitizers, later switches use longjmp, but
 * the first switch needs a context, because there is no target of a jump yet.
 */
static void switch_to_fiber(mscclpp_fiber_t *fiber, const ucontext_t *first)
{
#if defined(FIBER_TSAN)
    fiber->outer_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->inner_fiber, 0);
#endif
#if defined(FIBER_ASAN)
    void *fake_stack = NULL;

    __sanitizer_start_switch_fiber(&fake_stack, fiber->stack, STACK_BYTES);
#endif
#if defined(FIBER_BY_CONTEXT)
    (void)swapcontext(&fiber->outer, first != NULL ? first : &fiber->inner);
#else
    if (_setjmp(fiber->outer) == 0) {
        if (first != NULL) {
            (void)setcontext(first);
        }
        _longjmp(fiber->inner, 1);
    }
#endif
#if defined(FIBER_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
}

/*
 * Tells AddressSanitizer that the fiber now runs on its own stack, and notes the thread's stack, to which
 * switch_to_thread returns. Must be called after each switch to the fiber.
 */
#if defined(FIBER_ASAN)
static void note_arrival(mscclpp_fiber_t *fiber)
{
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fiber->outer_stack, &fiber->outer_size);
}
#else
static void note_arrival(mscclpp_fiber_t *fiber)
{
    (void)fiber;
}
#endif

/*
 * Switches from the fiber's stack to the stack of the thread that runs the fiber. Returns when the fiber is continued,
 * perhaps by another thread.
 */
static void switch_to_thread(mscclpp_fiber_t *fiber)
{
#if defined(FIBER_TSAN)
    __tsan_switch_to_fiber(fiber->outer_fiber, 0);
#endif
#if defined(FIBER_ASAN)
    __sanitizer_start_switch_fiber(&fiber->fake_stack, fiber->outer_stack, fiber->outer_size);
#endif
#if defined(FIBER_BY_CONTEXT)
    (void)swapcontext(&fiber->inner, &fiber->outer);
#else
    if (_setjmp(fiber->inner) == 0) {
        _longjmp(fiber->outer, 1);
    }
#endif
    note_arrival(fiber);
}

/*
 * Runs the functions of a fiber, one after the other, on the fiber's stack. Never returns: after each function it waits
 * for the next. makecontext passes only integers, so the fiber's address comes in two halves.
 */
static void run_functions(unsigned high, unsigned low)
{
    mscclpp_fiber_t *fiber = (mscclpp_fiber_t *)(((uintptr_t)high << 16 << 16) | (uintptr_t)low);

    note_arrival(fiber);
    for (;;) {
        fiber->run(fiber->argument);
        fiber->has_ended = true;
        switch_to_thread(fiber);
    }
}

/* Switches to a new fiber for the first time. Returns when the fiber has yielded or ended. */
static void begin_fiber(mscclpp_fiber_t *fiber)
{
    const uintptr_t address = (uintptr_t)fiber;
    ucontext_t first;

    (void)getcontext(&first);
    first.uc_stack.ss_sp = fiber->stack;
    first.uc_stack.ss_size = STACK_BYTES;
    first.uc_link = NULL;
    makecontext(&first, (void (*)(void))run_functions, 2, (unsigned)(address >> 16 >> 16), (unsigned)address);
    fiber->has_begun = true;
    switch_to_fiber(fiber, &first);
}

/* Frees a fiber that has ended, with its stack. */
static void destroy_fiber(mscclpp_fiber_t *fiber)
{
#if defined(FIBER_TSAN)
    __tsan_destroy_fiber(fiber->inner_fiber);
#endif
    (void)munmap(fiber->stack, STACK_BYTES);
    free(fiber);
}

/*
 * Makes a fiber with a stack. Returns NULL, without a log line, if there is no memory. If the guard page cannot be
 * protected, the fiber works without it.
 */
static mscclpp_fiber_t *make_fiber(void)
{
    mscclpp_fiber_t *fiber = calloc(1, sizeof(*fiber));

    if (fiber == NULL) {
        return NULL;
    }
    fiber->stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (fiber->stack == MAP_FAILED) {
        free(fiber);
        return NULL;
    }
    (void)mprotect(fiber->stack, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE);
#if defined(FIBER_TSAN)
    fiber->inner_fiber = __tsan_create_fiber(0);
#endif
    return fiber;
}

/* Takes a fiber from the list of kept ones. Returns NULL if there is none. */
static mscclpp_fiber_t *take_kept(void)
{
    mscclpp_fiber_t *fiber;

    pthread_mutex_lock(&lock);
    fiber = kept;
    if (fiber != NULL) {
        kept = fiber->next;
        --kept_count;
    }
    pthread_mutex_unlock(&lock);
    return fiber;
}

/* Keeps an ended fiber for a later function, or frees it if KEPT_MAX fibers are in the list. NULL is allowed. */
static void keep_or_destroy(mscclpp_fiber_t *fiber)
{
    bool is_kept;

    if (fiber == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    is_kept = kept_count < KEPT_MAX;
    if (is_kept) {
        fiber->next = kept;
        kept = fiber;
        ++kept_count;
    }
    pthread_mutex_unlock(&lock);
    if (!is_kept) {
        destroy_fiber(fiber);
    }
}

/*
 * Reuses a kept fiber with its stack if there is one. Such a fiber is still in the loop of run_functions, which then
 * runs the new function.
 */
mscclpp_fiber_t *mscclpp_fiber_create(void (*run)(void *argument), void *argument)
{
    mscclpp_fiber_t *fiber = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

    fiber = fiber != NULL ? fiber : take_kept();
    fiber = fiber != NULL ? fiber : make_fiber();
    if (fiber == NULL) {
        mscclpp_error("no memory for the stack of a call that nobody waits for");
        return NULL;
    }
    fiber->run = run;
    fiber->argument = argument;
    fiber->has_ended = false;
    fiber->is_open = false;
    return fiber;
}

/*
 * Runs the fiber until it yields or ends. Returns true if it has ended. The fiber is then kept for a later function, or
 * freed if KEPT_MAX fibers are already kept.
 */
static bool run_on(mscclpp_fiber_t *fiber, bool is_apart)
{
    fiber->is_apart = is_apart;
    fiber->has_moved = false;
    set_current(fiber);
    if (fiber->has_begun) {
        switch_to_fiber(fiber, NULL);
    } else {
        begin_fiber(fiber);
    }
    set_current(NULL);
    if (!fiber->has_ended) {
        return false;
    }
    /* The last fiber to end is the next one to be used, because its stack is in the caches. */
    keep_or_destroy(__atomic_exchange_n(&spare, fiber, __ATOMIC_ACQ_REL));
    return true;
}

bool mscclpp_fiber_resume(mscclpp_fiber_t *fiber)
{
    return run_on(fiber, false);
}

mscclpp_fiber_moved_t mscclpp_fiber_resume_apart(mscclpp_fiber_t *fiber)
{
    if (run_on(fiber, true)) {
        return MSCCLPP_FIBER_ENDED;
    }
    return fiber->has_moved ? MSCCLPP_FIBER_MOVED : MSCCLPP_FIBER_WAITS;
}

bool mscclpp_fiber_yield(void)
{
    mscclpp_fiber_t *fiber = get_current();

    if (fiber == NULL) {
        return false;
    }
    switch_to_thread(fiber);
    return true;
}

bool mscclpp_fiber_inside(void)
{
    return get_current() != NULL;
}

void mscclpp_fiber_open(void)
{
    mscclpp_fiber_t *fiber = get_current();

    if (fiber != NULL) {
        mscclpp_fiber_open_new(fiber);
    }
}

void mscclpp_fiber_relax(void)
{
    mscclpp_fiber_t *fiber = get_current();

    if (fiber != NULL) {
        fiber->is_urgent = false;
    }
}

/*
 * Clears is_open, so that no further thread apart continues the fiber. If such a thread runs it now, the fiber leaves
 * that thread. It continues when a thread of the usual kind runs it, which clears is_apart.
 */
void mscclpp_fiber_close(void)
{
    mscclpp_fiber_t *fiber = get_current();

    if (fiber == NULL) {
        return;
    }
    fiber->is_open = false;
    while (fiber->is_apart) {
        switch_to_thread(fiber);
    }
}

bool mscclpp_fiber_is_apart(void)
{
    const mscclpp_fiber_t *fiber = get_current();

    return fiber != NULL && fiber->is_apart;
}

void mscclpp_fiber_note_wait(void)
{
    mscclpp_fiber_t *fiber = get_current();

    if (fiber != NULL) {
        fiber->has_moved = true;
    }
}

void mscclpp_fiber_open_new(mscclpp_fiber_t *fiber)
{
    fiber->is_open = true;
    fiber->is_urgent = true;
}

bool mscclpp_fiber_is_open(const mscclpp_fiber_t *fiber)
{
    return fiber->is_open;
}

bool mscclpp_fiber_is_urgent(const mscclpp_fiber_t *fiber)
{
    return fiber->is_open && fiber->is_urgent;
}

void mscclpp_fiber_drain(void)
{
    mscclpp_fiber_t *fiber = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

    if (fiber != NULL) {
        destroy_fiber(fiber);
    }
    while ((fiber = take_kept()) != NULL) {
        destroy_fiber(fiber);
    }
}
