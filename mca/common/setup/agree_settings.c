#include "mca/common/setup/agree_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"

/* More than the bytes that a rank takes in the text of a list, with the comma and the blank before it. */
#define RANK_TEXT_BYTES 16

/* A rank's values of one parameter. */
typedef struct {
    uint64_t user_value;     /* the value that the user has set on this rank */
    uint64_t value_in_force; /* the value in force on this rank */
} setting_t;

/*
 * A digest in place of all values keeps the card short. `names` is the same in both settings, because both have the
 * same table of parameters.
 */
void mscclpp_settings_fill_card(const mscclpp_config_t *user_config, const mscclpp_config_t *config,
                                mscclpp_settings_card_t *card_p)
{
    mscclpp_settings_t user_values, values_in_force;

    mscclpp_settings_read(user_config, &user_values);
    mscclpp_settings_read(config, &values_in_force);
    card_p->names = user_values.names;
    /*
     * The digest covers both values, because a setting that rank 0's value has already replaced still counts as a
     * difference. The factor makes the two count differently.
     */
    card_p->digest = 31 * mscclpp_settings_digest(&user_values) + mscclpp_settings_digest(&values_in_force);
}

/* Writes into `text` the ranks, from `first` on, that have set the same value as `first`: as many as fit. */
static void list_ranks(const setting_t *settings, int size, int first, char *text, size_t length)
{
    size_t used = 0;
    int rank;

    for (rank = first; rank < size && used + RANK_TEXT_BYTES < length; ++rank) {
        if (settings[rank].user_value == settings[first].user_value) {
            used += (size_t)snprintf(text + used, length - used, "%s%d", used == 0 ? "" : ", ", rank);
        }
    }
}

/*
 * Warns, on rank 0, about a parameter that ranks have set to different values, with one line for each value. Each
 * parameter is reported once in a process.
 */
static void report_difference(const mscclpp_oob_t *oob, const mscclpp_param_t *param, const setting_t *settings)
{
    static bool has_reported[MSCCLPP_SETTINGS_MAX];
    char other_value[64], value_of_0[64], ranks[128];
    int rank, earlier;

    if (__atomic_exchange_n(&has_reported[param - mscclpp_params], true, __ATOMIC_RELAXED)) {
        return; /* reported for an earlier communicator already */
    }
    mscclpp_settings_text(param, settings[0].value_in_force, value_of_0, sizeof(value_of_0));
    for (rank = 0; rank < oob->size; ++rank) {
        for (earlier = 0; earlier < rank && settings[earlier].user_value != settings[rank].user_value; ++earlier) {
        }
        if (earlier == rank && settings[rank].user_value != settings[0].value_in_force) {
            list_ranks(settings, oob->size, rank, ranks, sizeof(ranks));
            mscclpp_settings_text(param, settings[rank].user_value, other_value, sizeof(other_value));
            mscclpp_warn("%s: parameter %s is %s on rank %s and %s on rank 0, whose value all ranks use", oob->label,
                         param->name, other_value, ranks, value_of_0);
        }
    }
}

/*
 * Exchanges one parameter, and applies rank 0's value to `config`. `settings` is memory for the settings of all ranks.
 * If it is NULL, the rank still takes part, and the exchange fails on all ranks. Returns the error of the exchange.
 */
static mscclpp_status_t agree_on(const mscclpp_oob_t *oob, const mscclpp_param_t *param, const setting_t *own_setting,
                                 setting_t *settings, mscclpp_config_t *config)
{
    const mscclpp_status_t status = oob->allgather(oob->context, own_setting, settings, sizeof(*own_setting));
    bool differs = false;
    int rank;

    if (status != MSCCLPP_OK || settings == NULL) {
        return status;
    }
    for (rank = 0; rank < oob->size; ++rank) {
        differs = differs || settings[rank].user_value != settings[0].value_in_force;
    }
    if (differs && oob->rank == 0) {
        report_difference(oob, param, settings);
    }
    if (own_setting->value_in_force != settings[0].value_in_force) {
        mscclpp_settings_apply(config, param, settings[0].value_in_force);
    }
    return MSCCLPP_OK;
}

/* If this rank has no memory for the values, the first exchange fails on all ranks. */
mscclpp_status_t mscclpp_settings_agree(const mscclpp_oob_t *oob, const mscclpp_config_t *user_config,
                                        mscclpp_config_t *config)
{
    setting_t *settings = malloc((size_t)oob->size * sizeof(*settings));
    mscclpp_settings_t user_values, values_in_force;
    mscclpp_status_t status = MSCCLPP_OK;
    int i;

    mscclpp_settings_read(user_config, &user_values);
    mscclpp_settings_read(config, &values_in_force);
    /* One parameter at a time, so that the memory needed does not grow with the number of parameters. */
    for (i = 0; i < mscclpp_param_count && i < MSCCLPP_SETTINGS_MAX && status == MSCCLPP_OK; ++i) {
        const setting_t own_setting = {.user_value = user_values.values[i],
                                       .value_in_force = values_in_force.values[i]};

        if (mscclpp_param_is_common(&mscclpp_params[i])) {
            status = agree_on(oob, &mscclpp_params[i], &own_setting, settings, config);
        }
    }
    free(settings);
    return status;
}
