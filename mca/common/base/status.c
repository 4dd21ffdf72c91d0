#include "mca/common/base/status.h"

/*
 * Returns the text for messages. There is no default case, so that compilers warn about a status without a text. The
 * last line is for numbers that are not a status, which a peer may have sent.
 */
const char *mscclpp_status_string(mscclpp_status_t status)
{
    switch (status) {
    case MSCCLPP_OK:
        return "success";
    case MSCCLPP_IN_PROGRESS:
        return "in progress";
    case MSCCLPP_ERR_NOT_SUPPORTED:
        return "not supported";
    case MSCCLPP_ERR_INVALID:
        return "invalid value";
    case MSCCLPP_ERR_NO_MEMORY:
        return "out of memory";
    case MSCCLPP_ERR_SYSTEM:
        return "a system call failed";
    case MSCCLPP_ERR_DEVICE:
        return "the GPU runtime reported an error";
    case MSCCLPP_ERR_TIMEOUT:
        return "a peer did not arrive in time";
    case MSCCLPP_ERR_PEER:
        return "a peer reported a failure";
    case MSCCLPP_ERR_MIXED:
        return "device buffers on some ranks and host buffers on others";
    case MSCCLPP_ERR_REVOKED:
        return "the operation was called off";
    case MSCCLPP_ERR_NO_DESCRIPTORS:
        return "too few file descriptors (ulimit -n)";
    }
    return "unknown status";
}

bool mscclpp_status_is_shortage(mscclpp_status_t status)
{
    return status == MSCCLPP_ERR_NO_DESCRIPTORS || status == MSCCLPP_ERR_NO_MEMORY || status == MSCCLPP_ERR_SYSTEM;
}
