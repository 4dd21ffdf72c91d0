#include "mca/common/team/kin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/team/parts.h"

/* Added to a team's number to make its kin's, so that no kin has the number of a team. */
#define KIN_ID UINT64_C(0x6b696e006b696e00)

/* All kin of the process, the youngest first. */
static pthread_mutex_t kin_lock = PTHREAD_MUTEX_INITIALIZER;
static mscclpp_kin_t *first_kin;

/* Frees a kin. The kin is in no list. NULL is allowed. */
static void free_kin(mscclpp_kin_t *kin)
{
    if (kin != NULL) {
        mscclpp_ctrl_destroy(kin->ctrl);
        mscclpp_nodes_fini(&kin->nodes);
        free(kin->hint.peers);
        free(kin);
    }
}

/* The list holds no reference, so kin live only as long as teams that were made with them. */
void mscclpp_kin_found(mscclpp_team_t *team, uint64_t exchange_size, uint64_t key)
{
    const mscclpp_nodes_t *nodes = mscclpp_fabric_nodes(team->fabric);
    mscclpp_kin_t *kin = calloc(1, sizeof(*kin));

    if (kin == NULL || mscclpp_fabric_take_hint(team->fabric, &kin->hint) != MSCCLPP_OK ||
        (nodes->largest_node == 1 && mscclpp_nodes_copy(nodes, team->group.oob.size, &kin->nodes) != MSCCLPP_OK) ||
        (team->group.ctrl != NULL && mscclpp_ctrl_copy(team->group.ctrl, &team->group.oob, &kin->ctrl) != MSCCLPP_OK)) {
        free_kin(kin);
        return;
    }
    kin->references = 1;
    kin->key = key;
    kin->id = team->group.id ^ KIN_ID;
    kin->protocol = team->protocol;
    kin->exchange_size = exchange_size;
    kin->block_limit = team->runner.block_limit;
    kin->meet_first = team->group.meet_first;
    kin->any_concurrent = team->group.any_concurrent;
    kin->shares_gpu = team->runner.shares_gpu;
    kin->takes_turns = team->runner.takes_turns;
    team->kin = kin;
    pthread_mutex_lock(&kin_lock);
    kin->next = first_kin;
    first_kin = kin;
    pthread_mutex_unlock(&kin_lock);
}

void mscclpp_kin_join(mscclpp_team_t *team, mscclpp_kin_t *kin)
{
    team->kin = kin;
}

/* Takes a reference to each kin, so that none is freed before the ranks have agreed on one. */
void mscclpp_kin_claim(uint64_t key, mscclpp_kin_t *offers[MSCCLPP_KIN_OFFERS])
{
    int claimed = 0;

    memset(offers, 0, sizeof(offers[0]) * MSCCLPP_KIN_OFFERS);
    pthread_mutex_lock(&kin_lock);
    for (mscclpp_kin_t *candidate = first_kin; candidate != NULL && claimed < MSCCLPP_KIN_OFFERS;
         candidate = candidate->next) {
        if (candidate->key == key && !candidate->is_spoilt) {
            ++candidate->references;
            offers[claimed++] = candidate;
        }
    }
    pthread_mutex_unlock(&kin_lock);
}

/* Leaves the list under the lock, so that no other thread can claim the kin between its last release and its end. */
void mscclpp_kin_release(mscclpp_kin_t *kin)
{
    mscclpp_kin_t **link = &first_kin;
    bool is_last;

    if (kin == NULL) {
        return;
    }
    pthread_mutex_lock(&kin_lock);
    is_last = --kin->references == 0;
    if (is_last) {
        while (*link != kin) {
            link = &(*link)->next;
        }
        *link = kin->next;
    }
    pthread_mutex_unlock(&kin_lock);
    if (is_last) {
        free_kin(kin);
    }
}

void mscclpp_kin_spoil(mscclpp_kin_t *kin)
{
    if (kin != NULL) {
        pthread_mutex_lock(&kin_lock);
        kin->is_spoilt = true;
        pthread_mutex_unlock(&kin_lock);
    }
}
