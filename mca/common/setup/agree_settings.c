#include "mca/common/setup/agree_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* A rank's values of one parameter. */
typedef struct {
    uint64_t set;   /* the value that the user has set on this rank */
    uint64_t value; /* the value in force on this rank */
} setting_t;

void mscclpp_settings_fill_card(const mscclpp_config_t *own, const mscclpp_config_t *config,
                                mscclpp_settings_card_t *card_p)
{
    mscclpp_settings_t set, in_force;

    mscclpp_settings_read(own, &set);
    mscclpp_settings_read(config, &in_force);
    card_p->names = set.names;
    /*
     * The digest covers both values, because a setting that rank 0's value has already replaced still counts as a
     * difference.
     */
    card_p->digest = 31 * mscclpp_settings_digest(&set) + mscclpp_settings_digest(&in_force);
}

/* Lists the ranks from `first` on that have set the same value as `first`. */
static void list_ranks(const setting_t *settings, int size, int first, char *text, size_t length)
{
    size_t used = 0;
    int rank;

    for (rank = first; rank < size && used + 16 < length; ++rank) {
        if (settings[rank].set == settings[first].set) {
            used += (size_t)snprintf(text + used, length - used, "%s%d", used == 0 ? "" : ", ", rank);
        }
    }
}

/* Reports a parameter that ranks have set differently: one line for each value, once in this process. */
static void report_difference(const mscclpp_oob_t *oob, const mscclpp_param_t *param, const setting_t *settings)
{
    static bool told[MSCCLPP_SETTINGS_MAX];
    char theirs[64], mine[64], ranks[128];
    int rank, earlier;

    if (__atomic_exchange_n(&told[param - mscclpp_params], true, __ATOMIC_RELAXED)) {
        return; /* reported for an earlier communicator already */
    }
    mscclpp_settings_text(param, settings[0].value, mine, sizeof(mine));
    for (rank = 0; rank < oob->size; ++rank) {
        for (earlier = 0; earlier < rank && settings[earlier].set != settings[rank].set; ++earlier) {
        }
        if (earlier == rank && settings[rank].set != settings[0].value) {
            list_ranks(settings, oob->size, rank, ranks, sizeof(ranks));
            mscclpp_settings_text(param, settings[rank].set, theirs, sizeof(theirs));
            mscclpp_warn("%s: parameter %s is %s on rank %s and %s on rank 0, whose value counts on all ranks",
                         oob->label, param->name, theirs, ranks, mine);
        }
    }
}

/* Exchanges one parameter and puts rank 0's value in force. */
static mscclpp_status_t agree_on(const mscclpp_oob_t *oob, const mscclpp_param_t *param, const setting_t *mine,
                                 setting_t *settings, mscclpp_config_t *config)
{
    const mscclpp_status_t status = oob->allgather(oob->context, mine, settings, sizeof(*mine));
    bool differs = false;
    int rank;

    if (status != MSCCLPP_OK || settings == NULL) {
        return status;
    }
    for (rank = 0; rank < oob->size; ++rank) {
        differs = differs || settings[rank].set != settings[0].value;
    }
    if (differs && oob->rank == 0) {
        report_difference(oob, param, settings);
    }
    if (mine->value != settings[0].value) {
        mscclpp_settings_apply(config, param, settings[0].value);
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_settings_agree(const mscclpp_oob_t *oob, const mscclpp_config_t *own, mscclpp_config_t *config)
{
    setting_t *settings = malloc((size_t)oob->size * sizeof(*settings));
    mscclpp_settings_t set, in_force;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    mscclpp_settings_read(own, &set);
    mscclpp_settings_read(config, &in_force);
    /* One parameter at a time, so that the memory needed does not grow with the number of parameters. */
    for (i = 0; i < mscclpp_param_count && i < MSCCLPP_SETTINGS_MAX && status == MSCCLPP_OK; ++i) {
        const setting_t mine = {set.values[i], in_force.values[i]};

        if (mscclpp_param_is_common(&mscclpp_params[i])) {
            status = agree_on(oob, &mscclpp_params[i], &mine, settings, config);
        }
    }
    free(settings);
    return status;
}
