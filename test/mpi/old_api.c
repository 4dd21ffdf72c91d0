/* A library to be preloaded: on its rank, a component of an older version seems to be loaded. */
#include <stdint.h>

#include "mca/coll/mscclpp/native/api.h"

struct old_api {
    uint32_t version;
    uint32_t size;
};

extern const struct old_api mca_coll_mscclpp_api __attribute__((visibility("default")));
const struct old_api mca_coll_mscclpp_api = {.version = MCA_COLL_MSCCLPP_API_VERSION - 1, .size = 4096};
