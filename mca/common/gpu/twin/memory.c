/* Memory of the host twin. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/gpu/twin/internal.h"

#define TWIN_ALIGNMENT 4096

mscclpp_status_t mscclpp_twin_check_device(int device)
{
    if (TWIN_DEVICE != device) {
        mscclpp_error("device %d does not exist: the host twin has device %d only", device, TWIN_DEVICE);
        return MSCCLPP_ERR_INVALID;
    }
    return MSCCLPP_OK;
}

mscclpp_status_t mscclpp_twin_alloc_zeroed(size_t size, void **address_p)
{
    void *address;

    if (0 == size) {
        mscclpp_error("cannot allocate 0 bytes");
        return MSCCLPP_ERR_INVALID;
    }
    if (0 != posix_memalign(&address, TWIN_ALIGNMENT, size)) {
        mscclpp_error("out of memory for %zu bytes", size);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    memset(address, 0, size);
    *address_p = address;
    return MSCCLPP_OK;
}
