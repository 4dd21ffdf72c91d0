#include <pthread.h>

#include "mca/common/base/fiber.h"
#include "test/unit/unit.h"

#define FIBERS 100
#define TURNS 50
#define DEPTH 200

typedef struct {
    mscclpp_fiber_t *fiber;
    int turns;
    int sum;
    bool inside;
} walk_t;

/* Yields from deep in its stack, and finds there what it has left. */
static int dive(walk_t *walk, int depth)
{
    volatile int mark[16];
    int below = 0;

    mark[depth % 16] = depth;
    if (depth < DEPTH) {
        below = dive(walk, depth + 1);
    } else {
        walk->inside = mscclpp_fiber_inside() && mscclpp_fiber_yield();
    }
    return below + mark[depth % 16];
}

static void walk(void *argument)
{
    walk_t *self = argument;
    int i;

    for (i = 0; i < self->turns; ++i) {
        self->sum += i;
        (void)mscclpp_fiber_yield();
    }
    self->sum += dive(self, 0);
}

static int expected(int turns)
{
    return turns * (turns - 1) / 2 + DEPTH * (DEPTH + 1) / 2;
}

static void test_many(void)
{
    static walk_t walks[FIBERS];
    int left = FIBERS, i;

    for (i = 0; i < FIBERS; ++i) {
        walks[i] = (walk_t){.turns = i % TURNS};
        walks[i].fiber = mscclpp_fiber_create(walk, &walks[i]);
        CHECK(walks[i].fiber != NULL);
    }
    while (left > 0) {
        for (i = 0; i < FIBERS; ++i) {
            if (walks[i].fiber != NULL && mscclpp_fiber_resume(walks[i].fiber)) {
                walks[i].fiber = NULL;
                --left;
            }
        }
    }
    for (i = 0; i < FIBERS; ++i) {
        CHECK_EQ(walks[i].sum, expected(i % TURNS));
        CHECK(walks[i].inside);
    }
}

/* Threads take turns at going on with the same fibers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static walk_t shared[8];
static int ended;

static void *go_on(void *argument)
{
    bool over = false;
    unsigned next = *(const unsigned *)argument;

    while (!over) {
        walk_t *self = &shared[next++ % 8];

        pthread_mutex_lock(&lock);
        if (self->fiber != NULL && mscclpp_fiber_resume(self->fiber)) {
            self->fiber = NULL;
            ++ended;
        }
        over = ended == 8;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void test_threads(void)
{
    unsigned firsts[4];
    pthread_t threads[4];
    int i;

    for (i = 0; i < 8; ++i) {
        shared[i] = (walk_t){.turns = 1000 + i};
        shared[i].fiber = mscclpp_fiber_create(walk, &shared[i]);
    }
    for (i = 0; i < 4; ++i) {
        firsts[i] = (unsigned)(2 * i);
        CHECK_EQ(pthread_create(&threads[i], NULL, go_on, &firsts[i]), 0);
    }
    for (i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    for (i = 0; i < 8; ++i) {
        CHECK_EQ(shared[i].sum, expected(1000 + i));
    }
}

/* A fiber that a thread apart may continue in a part of its way. */
typedef struct {
    mscclpp_fiber_t *fiber;
    int steps;
    bool was_apart; /* between open and close */
    bool is_apart;  /* after close */
} open_walk_t;

static void walk_open(void *argument)
{
    open_walk_t *self = argument;

    mscclpp_fiber_open();
    (void)mscclpp_fiber_yield();
    self->was_apart = mscclpp_fiber_is_apart();
    ++self->steps;
    (void)mscclpp_fiber_yield();
    mscclpp_fiber_note_wait();
    (void)mscclpp_fiber_yield();
    mscclpp_fiber_relax();
    (void)mscclpp_fiber_yield();
    mscclpp_fiber_close();
    self->is_apart = mscclpp_fiber_is_apart();
    ++self->steps;
}

/* What a thread apart does with a fiber that has begun. */
static void *continue_apart(void *argument)
{
    open_walk_t *self = argument;

    CHECK(mscclpp_fiber_is_open(self->fiber));
    CHECK(mscclpp_fiber_is_urgent(self->fiber));
    CHECK_EQ(mscclpp_fiber_resume_apart(self->fiber), MSCCLPP_FIBER_WAITS);
    CHECK_EQ(self->steps, 1);
    CHECK_EQ(mscclpp_fiber_resume_apart(self->fiber), MSCCLPP_FIBER_MOVED);
    CHECK_EQ(mscclpp_fiber_resume_apart(self->fiber), MSCCLPP_FIBER_WAITS);
    CHECK(mscclpp_fiber_is_open(self->fiber));
    CHECK(!mscclpp_fiber_is_urgent(self->fiber));
    CHECK_EQ(mscclpp_fiber_resume_apart(self->fiber), MSCCLPP_FIBER_WAITS);
    CHECK_EQ(self->steps, 1);
    CHECK(!mscclpp_fiber_is_open(self->fiber));
    CHECK(!mscclpp_fiber_is_urgent(self->fiber));
    return NULL;
}

static void walk_apart(void *argument)
{
    open_walk_t *self = argument;

    self->was_apart = mscclpp_fiber_is_apart();
    (void)mscclpp_fiber_yield();
    ++self->steps;
}

/* Begins a new fiber, and runs it to its end. */
static void *run_apart(void *argument)
{
    open_walk_t *self = argument;

    self->fiber = mscclpp_fiber_create(walk_apart, self);
    CHECK(!mscclpp_fiber_is_open(self->fiber));
    mscclpp_fiber_open_new(self->fiber);
    CHECK(mscclpp_fiber_is_urgent(self->fiber));
    CHECK_EQ(mscclpp_fiber_resume_apart(self->fiber), MSCCLPP_FIBER_WAITS);
    CHECK_EQ(mscclpp_fiber_resume_apart(self->fiber), MSCCLPP_FIBER_ENDED);
    return NULL;
}

static void test_apart(void)
{
    open_walk_t self = {.steps = 0};
    pthread_t thread;

    self.fiber = mscclpp_fiber_create(walk_open, &self);
    CHECK(!mscclpp_fiber_is_open(self.fiber));
    CHECK(!mscclpp_fiber_resume(self.fiber));
    CHECK_EQ(pthread_create(&thread, NULL, continue_apart, &self), 0);
    pthread_join(thread, NULL);
    CHECK(self.was_apart);
    CHECK(mscclpp_fiber_resume(self.fiber));
    CHECK_EQ(self.steps, 2);
    CHECK(!self.is_apart);
    /* A thread of the usual kind may be the one that continues an open fiber. */
    self = (open_walk_t){.fiber = mscclpp_fiber_create(walk_open, &self)};
    for (int i = 0; i < 4; ++i) {
        CHECK(!mscclpp_fiber_resume(self.fiber));
    }
    CHECK(mscclpp_fiber_resume(self.fiber));
    CHECK(!self.was_apart);
    CHECK_EQ(self.steps, 2);
    self = (open_walk_t){.steps = 0};
    CHECK_EQ(pthread_create(&thread, NULL, run_apart, &self), 0);
    pthread_join(thread, NULL);
    CHECK(self.was_apart);
    CHECK_EQ(self.steps, 1);
}

int main(void)
{
    unit_begin();
    CHECK(!mscclpp_fiber_inside());
    CHECK(!mscclpp_fiber_yield());
    test_many();
    test_many(); /* on stacks that have been used */
    test_threads();
    test_apart();
    CHECK(!mscclpp_fiber_inside());
    mscclpp_fiber_drain();
    return unit_end();
}
