/*
 * What parameters say on one rank, in a form that travels, and which of them all ranks have to have in common. Those
 * are all but the ones that a rank may well have for itself, so a new parameter is one of them unless settings.c says
 * else.
 */
#ifndef MCA_COMMON_BASE_SETTINGS_H
#define MCA_COMMON_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/config.h"

#define MSCCLPP_SETTINGS_MAX 128

/* Plain bytes, to be sent as they are. Values stand in the order of the table; those of a rank's own are 0. */
typedef struct {
    uint64_t names; /* a digest of the table: only values of the same table can be compared */
    uint64_t values[MSCCLPP_SETTINGS_MAX];
} mscclpp_settings_t;

bool mscclpp_param_is_common(const mscclpp_param_t *param);

void mscclpp_settings_read(const mscclpp_config_t *config, mscclpp_settings_t *settings_p);

/* One value of them, which has to be from a table with the same digest. Strings are then words of the table. */
void mscclpp_settings_apply(mscclpp_config_t *config, const mscclpp_param_t *param, uint64_t value);

/* The value as a user writes it. */
void mscclpp_settings_text(const mscclpp_param_t *param, uint64_t value, char *text, size_t size);

/* Equal values have equal digests. */
uint64_t mscclpp_settings_digest(const mscclpp_settings_t *settings);

#endif
