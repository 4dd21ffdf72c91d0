/* One of the steps of setup/create.c. */
#ifndef MCA_COMMON_SETUP_COMMON_H
#define MCA_COMMON_SETUP_COMMON_H

#include "mca/common/base/settings.h"
#include "mca/common/oob/oob.h"

/* What a rank says of its settings before they are compared: equal on ranks that have nothing to compare. */
typedef struct {
    uint64_t names; /* the digest of the table */
    uint64_t digest;
} mscclpp_settings_card_t;

/* `own`: as the user has set them on this rank; `config`: as they are in force here. */
void mscclpp_settings_fill_card(const mscclpp_config_t *own, const mscclpp_config_t *config,
                                mscclpp_settings_card_t *card_p);

/*
 * Where cards differ, by all ranks alike: puts rank 0's settings in force on all, and lets rank 0 name what was set
 * otherwise, once a process. Takes no memory. The error of the exchange.
 */
mscclpp_status_t mscclpp_settings_agree(const mscclpp_oob_t *oob, const mscclpp_config_t *own,
                                        mscclpp_config_t *config);

#endif
