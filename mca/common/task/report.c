#include "mca/common/task/report.h"

#include <string.h>

#include "mca/common/algo/select.h"
#include "mca/common/base/log.h"

/* Bytes that hold the text of any estimate. */
#define COST_TEXT 512

/* Returns the largest power of two that is at most `bytes`, or 1. */
static uint64_t size_class_of(uint64_t bytes)
{
    return (uint64_t)1 << (63 - __builtin_clzll(bytes | 1));
}

/*
 * Returns true if this rank logs what is equal on all ranks: the first rank of the communicator, except during a trial
 * at set-up.
 */
static bool logs_for_all(const mscclpp_team_t *team)
{
    return team->group.rank == 0 && team->group.members[0] == 0 && !team->group.probing;
}

/* `warned` is shared by all threads, so that exactly one of them sets it by an exchange and warns. */
void mscclpp_report_choice(const mscclpp_team_t *team, uint64_t call, const char *served_by)
{
    static bool warned[64]; /* by number of the algorithm; more than there are */
    const int32_t asked = team->protocol.algorithm;

    if (asked >= 0 && team->group.oob.size > 1 && logs_for_all(team) &&
        strcmp(mscclpp_algos[asked]->name, served_by) != 0 &&
        !__atomic_exchange_n(&warned[(size_t)asked % (sizeof(warned) / sizeof(warned[0]))], true, __ATOMIC_RELAXED)) {
        mscclpp_warn("%s: coll_mscclpp_algorithm is %s, which cannot serve all-reduce call %llu: %s does",
                     team->group.oob.label, mscclpp_algos[asked]->name, (unsigned long long)call, served_by);
    }
}

void mscclpp_report_costs(mscclpp_team_t *team, const mscclpp_select_input_t *input, const mscclpp_choice_t *choice)
{
    uint64_t *logged = &team->logged_costs[MSCCLPP_COLL_LAST];
    char text[COST_TEXT];

    if ((*logged & size_class_of(input->bytes)) == 0 && logs_for_all(team)) {
        *logged |= size_class_of(input->bytes);
        mscclpp_select_explain(input, choice, text, sizeof(text));
        mscclpp_info("%s: %s", team->group.oob.label, text);
    }
}

void mscclpp_report_coll_costs(mscclpp_team_t *team, mscclpp_coll_t coll, uint64_t bytes,
                               const mscclpp_select_input_t *input, const mscclpp_coll_choice_t *choice)
{
    uint64_t *logged = &team->logged_costs[coll];
    char text[COST_TEXT];

    if (choice->algo >= MSCCLPP_COLL_BY_NODES && (*logged & size_class_of(bytes)) == 0 && logs_for_all(team)) {
        *logged |= size_class_of(bytes);
        if (mscclpp_coll_explain(input, coll, bytes, choice, text, sizeof(text))) {
            mscclpp_info("%s: %s", team->group.oob.label, text);
        }
    }
}
