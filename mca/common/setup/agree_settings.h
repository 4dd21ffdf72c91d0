/* Agreement on the settings that must be equal on all ranks; a step of setup/create.c. */
#ifndef MCA_COMMON_SETUP_AGREE_SETTINGS_H
#define MCA_COMMON_SETUP_AGREE_SETTINGS_H

#include "mca/common/base/settings.h"
#include "mca/common/oob/oob.h"

/* A digest of a rank's settings. If the digests of all ranks are equal, the settings need not be compared. */
typedef struct {
    uint64_t names; /* a digest of the table of parameters */
    uint64_t digest;
} mscclpp_settings_card_t;

/*
 * Fills in the digest. `user_config` are the settings of the user on this rank, `config` the settings in force on this
 * rank.
 */
void mscclpp_settings_fill_card(const mscclpp_config_t *user_config, const mscclpp_config_t *config,
                                mscclpp_settings_card_t *card_p);

/*
 * Makes all ranks use rank 0's settings, which replace those in `config`. Collective; all ranks call it if their
 * digests differ. Rank 0 warns about each parameter that was set differently in `user_config`, once in a process.
 * Returns the status of the exchange.
 */
mscclpp_status_t mscclpp_settings_agree(const mscclpp_oob_t *oob, const mscclpp_config_t *user_config,
                                        mscclpp_config_t *config);

#endif
