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
 * True for parameters that decide whether there is ever a set-up exchange. That exchange reports differences in all
 * other parameters.
 */
static bool decides(const mscclpp_param_t *param)
{
    return 0 == strcmp(param->name, "enable") || 0 == strcmp(param->name, "priority") ||
           0 == strcmp(param->name, "device");
}

/* Warns that this rank was started with another value than rank 0. */
static void report_difference(const mscclpp_param_t *param, uint64_t mine, uint64_t theirs)
{
    char set[64], value[64];

    mscclpp_settings_text(param, mine, set, sizeof(set));
    mscclpp_settings_text(param, theirs, value, sizeof(value));
    mscclpp_warn("parameter %s is %s on rank %d of this job and %s on rank 0, whose value counts on all ranks",
                 param->name, set, (int)OPAL_PROC_MY_NAME.vpid, value);
}

void mca_coll_mscclpp_adopt_settings(void)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    opal_process_name_t first = OPAL_PROC_MY_NAME;
    mscclpp_settings_t mine, theirs;
    uint8_t *bytes = NULL;
    size_t size = 0;
    int rc = OMPI_SUCCESS;

    if (0 == first.vpid || !MCA_COLL_MSCCLPP_HAVE_MODEX) {
        return;
    }
    first.vpid = 0;
    OPAL_MODEX_RECV(rc, state->version, &first, &bytes, &size);
    if (OPAL_SUCCESS != rc || bytes == NULL) {
        mscclpp_info("rank 0 says nothing of its parameters (Open MPI error %d)", rc);
        return;
    }
    mscclpp_settings_read(&state->config, &mine);
    memset(&theirs, 0, sizeof(theirs));
    memcpy(&theirs, bytes, size < sizeof(theirs) ? size : sizeof(theirs));
    free(bytes);
    if (sizeof(theirs) == size && mine.names == theirs.names) {
        for (int i = 0; i < mscclpp_param_count; ++i) {
            const mscclpp_param_t *param = &mscclpp_params[i];

            if (!mscclpp_param_is_common(param) || mine.values[i] == theirs.values[i]) {
                continue;
            }
            mscclpp_settings_apply(&state->config, param, theirs.values[i]);
            if (decides(param)) {
                report_difference(param, mine.values[i], theirs.values[i]);
                /* So that the set-up does not report the difference once more. */
                mscclpp_settings_apply(&state->own, param, theirs.values[i]);
            }
        }
    } else {
        mscclpp_warn("rank %d of this job has other parameters than rank 0, as another version of the component has",
                     (int)OPAL_PROC_MY_NAME.vpid);
    }
}
