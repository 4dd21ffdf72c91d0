/*
 * The parameters of one rank in a form that can be sent, and which of them must be equal on all ranks. A new parameter
 * must be equal on all ranks unless settings.c lists it among those that each rank may set for itself.
 */
#ifndef MCA_COMMON_BASE_SETTINGS_H
#define MCA_COMMON_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/config.h"

#define MSCCLPP_SETTINGS_MAX 128

/*
 * The values of the parameters, in the order of the table of parameters. They are sent as plain bytes. Parameters that
 * may differ between ranks are 0.
 */
typedef struct {
    uint64_t names; /* a digest of the table; only values of the same table can be compared */
    uint64_t values[MSCCLPP_SETTINGS_MAX];
} mscclpp_settings_t;

/* Returns true if the parameter must be equal on all ranks. */
bool mscclpp_param_is_common(const mscclpp_param_t *param);

/* Reads the values from a configuration. */
void mscclpp_settings_read(const mscclpp_config_t *config, mscclpp_settings_t *settings_p);

/*
 * Sets one parameter to a value, which must come from a table with the same digest. A string field then points to a
 * word of the table, which lasts as long as the process; the number of a word that does not exist changes nothing.
 */
void mscclpp_settings_apply(mscclpp_config_t *config, const mscclpp_param_t *param, uint64_t value);

/* Writes a value in the form in which a user writes it: a number, or a word. Truncates the text to `size` bytes. */
void mscclpp_settings_text(const mscclpp_param_t *param, uint64_t value, char *text, size_t size);

/* Returns a digest of all values. Equal settings have equal digests. */
uint64_t mscclpp_settings_digest(const mscclpp_settings_t *settings);

#endif
