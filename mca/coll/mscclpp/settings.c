/*
 * Makes rank 0's settings valid on all ranks of a job.
 *
 * Some settings are needed before a communicator's set-up exchange. They decide whether this component serves the
 * communicator at all, and what a call does before that exchange. A rank with other values would leave its peers
 * waiting. Therefore the settings travel with the data that Open MPI exchanges in MPI_Init. Ranks keep their own
 * settings if there is no such exchange, or if rank 0 lacks this component.
 */
#include "mca/coll/mscclpp/component.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/base/settings.h"

/* Does nothing on ranks other than 0. If rank 0 cannot send its settings, the other ranks keep their own. */
void mca_coll_mscclpp_publish_settings(void)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mscclpp_settings_t settings;
    int rc = OMPI_SUCCESS;

    if (0 != OPAL_PROC_MY_NAME.vpid || !MCA_COLL_MSCCLPP_HAVE_MODEX) {
        return;
    }
    mscclpp_settings_read(&state->config, &settings);
    OPAL_MODEX_SEND(rc, MCA_COLL_MSCCLPP_MODEX_GLOBAL, state->version, &settings, sizeof(settings));
    if (OPAL_SUCCESS != rc) {
        mscclpp_warn("cannot tell the other ranks the parameters of rank 0 (Open MPI error %d); they must be equal",
                     rc);
    }
}

/*
 * Returns true for a parameter that decides whether there is ever a set-up exchange. That exchange reports differences
 * in all other parameters.
 */
static bool decides_setup(const mscclpp_param_t *param)
{
    return 0 == strcmp(param->name, "enable") || 0 == strcmp(param->name, "priority") ||
           0 == strcmp(param->name, "device");
}

/* Warns that a parameter has another value on this rank than on rank 0, whose value replaces this rank's. */
static void report_difference(const mscclpp_param_t *param, uint64_t local, uint64_t rank_0)
{
    char local_text[64], rank_0_text[64];

    mscclpp_settings_text(param, local, local_text, sizeof(local_text));
    mscclpp_settings_text(param, rank_0, rank_0_text, sizeof(rank_0_text));
    mscclpp_warn("parameter %s is %s on rank %d of this job and %s on rank 0, whose value all ranks use", param->name,
                 local_text, (int)OPAL_PROC_MY_NAME.vpid, rank_0_text);
}

/*
 * Sets *rank_0 to the settings that rank 0 has sent. Returns false, after a log, if rank 0 has sent none, or if it has
 * other parameters than this rank, whose settings are `local`: values can be compared only if both have the same
 * parameters.
 */
static bool receive_settings(const mscclpp_settings_t *local, mscclpp_settings_t *rank_0)
{
    opal_process_name_t first_process = OPAL_PROC_MY_NAME;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int rc = OMPI_SUCCESS;

    first_process.vpid = 0;
    OPAL_MODEX_RECV(rc, mca_coll_mscclpp_state.version, &first_process, &bytes, &size);
    if (OPAL_SUCCESS != rc || bytes == NULL) {
        mscclpp_info("rank 0 sent no parameters (Open MPI error %d)", rc);
        return false;
    }
    memset(rank_0, 0, sizeof(*rank_0));
    memcpy(rank_0, bytes, size < sizeof(*rank_0) ? size : sizeof(*rank_0));
    free(bytes);
    if (sizeof(*rank_0) != size || local->names != rank_0->names) {
        mscclpp_warn("rank %d of this job has other parameters than rank 0, as another version of the component has",
                     (int)OPAL_PROC_MY_NAME.vpid);
        return false;
    }
    return true;
}

/*
 * Replaces the settings that must be equal on all ranks by those of rank 0. If rank 0 has sent nothing, or has other
 * parameters, this rank keeps its own.
 *
 * own_config keeps the values that this rank was started with, so that the set-up can report differences. A difference
 * that is reported here is removed from own_config, so that it is reported once.
 */
void mca_coll_mscclpp_adopt_settings(void)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mscclpp_settings_t local, rank_0;

    if (0 == OPAL_PROC_MY_NAME.vpid || !MCA_COLL_MSCCLPP_HAVE_MODEX) {
        return;
    }
    mscclpp_settings_read(&state->config, &local);
    if (!receive_settings(&local, &rank_0)) {
        return;
    }
    for (int i = 0; i < mscclpp_param_count; ++i) {
        const mscclpp_param_t *param = &mscclpp_params[i];

        if (!mscclpp_param_is_common(param) || local.values[i] == rank_0.values[i]) {
            continue;
        }
        mscclpp_settings_apply(&state->config, param, rank_0.values[i]);
        if (decides_setup(param)) {
            report_difference(param, local.values[i], rank_0.values[i]);
            mscclpp_settings_apply(&state->own_config, param, rank_0.values[i]);
        }
    }
}
