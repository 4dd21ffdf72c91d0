#include "mca/common/group/admission.h"

#include <stddef.h>

static mscclpp_admission_t process_admission = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mscclpp_admission_init(mscclpp_admission_t *admission)
{
    pthread_mutex_init(&admission->lock, NULL);
}

mscclpp_admission_t *mscclpp_admission_process(void)
{
    return &process_admission;
}

void mscclpp_admission_add(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate, uint64_t key)
{
    pthread_mutex_lock(&admission->lock);
    candidate->key = key;
    candidate->next = admission->candidates;
    admission->candidates = candidate;
    pthread_mutex_unlock(&admission->lock);
}

void mscclpp_admission_remove(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate)
{
    mscclpp_admission_candidate_t **link = &admission->candidates;

    pthread_mutex_lock(&admission->lock);
    while (*link != candidate) {
        link = &(*link)->next;
    }
    *link = candidate->next;
    pthread_mutex_unlock(&admission->lock);
}

void mscclpp_admission_change_key(mscclpp_admission_t *admission, mscclpp_admission_candidate_t *candidate,
                                  uint64_t key)
{
    pthread_mutex_lock(&admission->lock);
    candidate->key = key;
    pthread_mutex_unlock(&admission->lock);
}

/* With the lock held. */
static bool is_first(const mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate)
{
    const mscclpp_admission_candidate_t *other = admission->candidates;

    while (other != NULL && other->key >= candidate->key) {
        other = other->next;
    }
    return other == NULL;
}

bool mscclpp_admission_is_first(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate)
{
    bool first;

    pthread_mutex_lock(&admission->lock);
    first = is_first(admission, candidate);
    pthread_mutex_unlock(&admission->lock);
    return first;
}

bool mscclpp_admission_take_slot(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate)
{
    bool took;

    pthread_mutex_lock(&admission->lock);
    took = !admission->slot_taken && is_first(admission, candidate);
    admission->slot_taken = admission->slot_taken || took;
    pthread_mutex_unlock(&admission->lock);
    return took;
}

bool mscclpp_admission_take_extra_slot(mscclpp_admission_t *admission)
{
    bool took;

    pthread_mutex_lock(&admission->lock);
    took = !admission->extra_slot_taken && admission->reserved_blocks == 0;
    admission->extra_slot_taken = admission->extra_slot_taken || took;
    pthread_mutex_unlock(&admission->lock);
    return took;
}

void mscclpp_admission_give_extra_slot(mscclpp_admission_t *admission)
{
    pthread_mutex_lock(&admission->lock);
    admission->extra_slot_taken = false;
    pthread_mutex_unlock(&admission->lock);
}

bool mscclpp_admission_reserve_blocks(mscclpp_admission_t *admission, uint32_t blocks, uint32_t limit)
{
    bool reserved;

    pthread_mutex_lock(&admission->lock);
    reserved = admission->reserved_blocks + blocks <= limit;
    admission->reserved_blocks += reserved ? blocks : 0;
    pthread_mutex_unlock(&admission->lock);
    return reserved;
}

void mscclpp_admission_release_blocks(mscclpp_admission_t *admission, uint32_t blocks)
{
    pthread_mutex_lock(&admission->lock);
    admission->reserved_blocks -= blocks;
    pthread_mutex_unlock(&admission->lock);
}

void mscclpp_admission_give_slot(mscclpp_admission_t *admission)
{
    pthread_mutex_lock(&admission->lock);
    admission->slot_taken = false;
    pthread_mutex_unlock(&admission->lock);
}
