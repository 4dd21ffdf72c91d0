/* Memory and channels for kernels of the application, on a team of the communicator's that serves nothing else. */
#ifndef MCA_COLL_MSCCLPP_NATIVE_CHANNELS_H
#define MCA_COLL_MSCCLPP_NATIVE_CHANNELS_H

#include "mca/coll/mscclpp/native/channel_api.h"
#include "mca/coll/mscclpp/ompi/module.h"

extern const mca_coll_mscclpp_channel_api_t mca_coll_mscclpp_channel_api;

/* Returns what kernels have reported: MSCCLPP_OK, or an error and its text. Never waits. */
mscclpp_status_t mca_coll_mscclpp_channels_find_failure(const mca_coll_mscclpp_module_t *module, char *text,
                                                        size_t size);

/* Called when the communicator is freed, before its lanes are ended. */
void mca_coll_mscclpp_channels_end(mca_coll_mscclpp_module_t *module);

#endif
