/* What calls that come in bursts, one by one or in turns do to lingering kernels. */
#include "mca/common/run/linger_history.h"
#include "test/unit/unit.h"

typedef struct {
    mscclpp_linger_history_t history;
    bool there;      /* a kernel has stayed after the last call */
    uint64_t rings;  /* of that kernel */
    unsigned stayed; /* kernels that did */
    unsigned vain;   /* of these, those that were rung for not even once */
    unsigned rung;
} application_t;

static void leave(application_t *application)
{
    if (application->there) {
        mscclpp_linger_history_note_kernel(&application->history, application->rings);
        application->vain += application->rings == 0;
        application->there = false;
    }
}

/* `pause`: the application did something else before, such as a kernel of its own. */
static void call(application_t *application, bool pause)
{
    mscclpp_linger_history_note_call(&application->history, !pause);
    if (application->there && !pause) {
        ++application->rings;
        ++application->rung;
        return;
    }
    leave(application);
    if (mscclpp_linger_history_says_stay(&application->history)) {
        application->there = true;
        application->rings = 0;
        ++application->stayed;
    }
}

static application_t begin(void)
{
    application_t application = {.there = false};

    mscclpp_linger_history_init(&application.history);
    return application;
}

static void burst(application_t *application, unsigned calls)
{
    unsigned i;

    for (i = 0; i < calls; ++i) {
        call(application, i == 0);
    }
}

int main(void)
{
    application_t application = begin();
    unsigned i, length;

    unit_begin();

    /* Back to back: all but the first few are rung for. */
    burst(&application, 1000);
    CHECK_EQ(application.stayed, 1);
    CHECK(application.rung >= 996);

    /* A solver, with a kernel of its own after each call: none stays. */
    application = begin();
    for (i = 0; i < 1000; ++i) {
        burst(&application, 1);
    }
    CHECK_EQ(application.stayed, 0);

    /* After a long burst, too. */
    application = begin();
    burst(&application, 1000);
    for (i = 0; i < 1000; ++i) {
        burst(&application, 1);
    }
    CHECK(application.stayed <= 1);

    /* Bursts of any length: kernels that stay in vain become few, and most calls of long ones are rung for. */
    for (length = 1; length <= 100; ++length) {
        application = begin();
        for (i = 0; i < 200; ++i) {
            burst(&application, length);
        }
        CHECK(application.vain <= 6);
        CHECK(length < 10 || application.rung >= 200 * (length - 8) / 2);
    }

    /* Short bursts for long, and then a long one: it is not lost. */
    application = begin();
    for (i = 0; i < 1000; ++i) {
        burst(&application, 3);
    }
    application.rung = 0;
    burst(&application, 1000);
    CHECK(application.rung >= 900);
    return unit_end();
}
