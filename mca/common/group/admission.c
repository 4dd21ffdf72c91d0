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

/* Returns true if the candidate is the first of those that wait. The caller holds the lock. */
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
    bool has_lowest_key;

    pthread_mutex_lock(&admission->lock);
    has_lowest_key = is_first(admission, candidate);
    pthread_mutex_unlock(&admission->lock);
    return has_lowest_key;
}

/*
 * Grants or revokes the pledges of a meeting in one atomic step, so that all ranks see one outcome. A decision that
 * another thread or rank has made remains. Returns true if the pledges are granted, whoever decided.
 */
static bool grant_or_revoke(uint64_t *decision, uint64_t meeting, bool grant)
{
    const uint64_t own_decision = 2 * meeting + grant;
    uint64_t current = __atomic_load_n(decision, __ATOMIC_ACQUIRE);
    bool is_ours = false;

    while (current < 2 * meeting && !is_ours) {
        is_ours =
            __atomic_compare_exchange_n(decision, &current, own_decision, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    return (is_ours ? own_decision : current) == 2 * meeting + 1;
}

/* Returns true if a team holds or has pledged the slot. Acquired, since the holder gives it back without the lock. */
static bool is_slot_taken(const mscclpp_admission_t *admission)
{
    return __atomic_load_n(&admission->is_slot_taken, __ATOMIC_ACQUIRE);
}

/* Ends the pledge. `is_taken` is true if the team that has pledged the slot now holds it. The caller holds the lock. */
static void end_pledge(mscclpp_admission_t *admission, bool is_taken)
{
    admission->pledge = NULL;
    __atomic_store_n(&admission->is_slot_taken, is_taken, __ATOMIC_RELEASE);
}

/*
 * A candidate without a rival also revokes a pledge of the slot, because a pledge must not keep other calls waiting. If
 * the pledge has been granted already, the slot is taken.
 */
bool mscclpp_admission_take_slot(mscclpp_admission_t *admission, const mscclpp_admission_candidate_t *candidate)
{
    bool may_take;

    pthread_mutex_lock(&admission->lock);
    may_take = is_first(admission, candidate);
    if (may_take && admission->pledge != NULL && !grant_or_revoke(admission->pledge, admission->pledge_number, false)) {
        end_pledge(admission, false);
    }
    may_take = may_take && !is_slot_taken(admission);
    if (may_take) {
        __atomic_store_n(&admission->is_slot_taken, true, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&admission->lock);
    return may_take;
}

/* A pledged slot counts as taken until the pledge is redeemed, revoked or given up. */
bool mscclpp_admission_pledge(mscclpp_admission_t *admission, uint64_t *decision, uint64_t meeting)
{
    bool has_pledged;

    pthread_mutex_lock(&admission->lock);
    has_pledged = !is_slot_taken(admission) && admission->candidates == NULL;
    if (has_pledged) {
        __atomic_store_n(&admission->is_slot_taken, true, __ATOMIC_RELAXED);
        admission->pledge = decision;
        admission->pledge_number = meeting;
    }
    pthread_mutex_unlock(&admission->lock);
    return has_pledged;
}

bool mscclpp_admission_redeem(mscclpp_admission_t *admission, uint64_t *decision, uint64_t meeting)
{
    const bool are_granted = grant_or_revoke(decision, meeting, true);

    pthread_mutex_lock(&admission->lock);
    if (admission->pledge == decision) {
        end_pledge(admission, are_granted);
    }
    pthread_mutex_unlock(&admission->lock);
    return are_granted;
}

void mscclpp_admission_give_up(mscclpp_admission_t *admission, const uint64_t *decision)
{
    pthread_mutex_lock(&admission->lock);
    if (admission->pledge == decision) {
        end_pledge(admission, false);
    }
    pthread_mutex_unlock(&admission->lock);
}

bool mscclpp_admission_reserve_blocks(mscclpp_admission_t *admission, uint32_t blocks, uint32_t limit)
{
    bool is_reserved;

    pthread_mutex_lock(&admission->lock);
    is_reserved = admission->reserved_blocks + blocks <= limit;
    admission->reserved_blocks += is_reserved ? blocks : 0;
    pthread_mutex_unlock(&admission->lock);
    return is_reserved;
}

void mscclpp_admission_release_blocks(mscclpp_admission_t *admission, uint32_t blocks)
{
    pthread_mutex_lock(&admission->lock);
    admission->reserved_blocks -= blocks;
    pthread_mutex_unlock(&admission->lock);
}

/*
 * Takes no lock, because it ends every nonblocking call. Under the lock, others only take a slot that is not taken, so
 * nobody but its holder changes a taken one.
 */
void mscclpp_admission_give_slot(mscclpp_admission_t *admission)
{
    __atomic_store_n(&admission->is_slot_taken, false, __ATOMIC_RELEASE);
}
