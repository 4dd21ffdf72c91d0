/*
 * A rank that completes an agreement goes on to the set-up or the call, and waits there for the same ranks as those
 * that are still in the agreement: a rank may die after it has sent what some of them need. Those there ask for whom
 * they wait, and this rank has to answer, too.
 */
#include "mca/coll/mscclpp/oob/waits.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/call.h"
#include "mca/common/base/clock.h"

/* Seconds between two looks for messages. */
#define LOOK_SECONDS 0.1

void mca_coll_mscclpp_waits_note_sent(mca_coll_mscclpp_module_t *module, int count)
{
    mscclpp_count_messages(count);
    mca_coll_mscclpp_oob_break_off(module); /* because a late rank may never receive them */
    module->told_waits = true;
}

/* Answers the messages that have arrived. Called with the lock held. */
static void answer_all(mca_coll_mscclpp_oob_t *oob)
{
    const mca_coll_mscclpp_waits_t answer = {.kind = MCA_COLL_MSCCLPP_WAITS_PASSED, .deadline_rank = -1};
    const uint64_t call = oob->module->current_call;
    mca_coll_mscclpp_oob_message_t *message;

    while ((message = mca_coll_mscclpp_oob_take(oob, MCA_COLL_MSCCLPP_OOB_WAITS, call)) != NULL) {
        mca_coll_mscclpp_waits_t question = {.kind = MCA_COLL_MSCCLPP_WAITS_TELLS};

        if (sizeof(question) == message->header.length) {
            memcpy(&question, message->data, sizeof(question));
        }
        if (MCA_COLL_MSCCLPP_WAITS_PASSED != question.kind &&
            MSCCLPP_OK == mca_coll_mscclpp_oob_post(oob, message->peer, MCA_COLL_MSCCLPP_OOB_WAITS, call, call, &answer,
                                                    sizeof(answer))) {
            mca_coll_mscclpp_waits_note_sent(oob->module, 1);
        }
        free(message);
    }
}

/* Does not wait for the lock, because a later turn can do it. An error of the messages shows where they are needed. */
void mca_coll_mscclpp_waits_answer(mca_coll_mscclpp_oob_t *oob)
{
    const double now = mscclpp_now();
    const uint64_t agreed = __atomic_load_n(&oob->module->agreed, __ATOMIC_RELAXED);

    /* Another thread may change both numbers. A wrong guess only delays the answer. */
    if (agreed != __atomic_load_n(&oob->module->current_call, __ATOMIC_RELAXED) + 1 ||
        0 != pthread_mutex_trylock(&oob->lock)) {
        return;
    }
    if (now - oob->answered_at >= LOOK_SECONDS) {
        oob->answered_at = now;
        if (MSCCLPP_OK == mca_coll_mscclpp_oob_advance(oob, MCA_COLL_MSCCLPP_OOB_ANY)) {
            answer_all(oob);
        }
    }
    pthread_mutex_unlock(&oob->lock);
}
