#include "mca/common/transport/transport.h"

#include <string.h>

#include "mca/common/base/log.h"

extern const mscclpp_transport_ops_t mscclpp_transport_shm;
extern const mscclpp_transport_ops_t mscclpp_transport_cuda_ipc;
#if MSCCLPP_HAVE_VERBS
extern const mscclpp_transport_ops_t mscclpp_transport_verbs;
#endif
#if MSCCLPP_HAVE_UCX
extern const mscclpp_transport_ops_t mscclpp_transport_ucx;
#endif

const mscclpp_transport_ops_t *const mscclpp_transports[] = {
    &mscclpp_transport_shm,
    &mscclpp_transport_cuda_ipc,
#if MSCCLPP_HAVE_VERBS
    &mscclpp_transport_verbs,
#endif
#if MSCCLPP_HAVE_UCX
    &mscclpp_transport_ucx,
#endif
    NULL,
};
const int mscclpp_transport_count = (int)(sizeof(mscclpp_transports) / sizeof(mscclpp_transports[0])) - 1;

const mscclpp_transport_ops_t *mscclpp_transport_find(const char *name)
{
    int i;

    for (i = 0; i < mscclpp_transport_count; ++i) {
        if (strcmp(mscclpp_transports[i]->name, name) == 0) {
            return mscclpp_transports[i];
        }
    }
    return NULL;
}

/*
 * "auto" means all suitable transports, and "network" those that can connect to other nodes. A transport that cannot
 * reach other nodes is never allowed between real nodes.
 */
bool mscclpp_transport_may_take(const mscclpp_transport_ops_t *ops, const mscclpp_config_t *config, bool one_host)
{
    const char *setting = config->transport;

    if (!ops->between_nodes && !one_host) {
        return false;
    }
    if (strcmp(setting, "auto") == 0) {
        return ops->between_nodes || ops->within_host;
    }
    return strcmp(setting, "network") == 0 ? ops->between_nodes : strcmp(setting, ops->name) == 0;
}

bool mscclpp_transport_card_fits(const char *label, int peer, uint64_t key_length, uint64_t address_length,
                                 uint64_t address_room)
{
    const bool fits = key_length <= MSCCLPP_TRANSPORT_KEY_MAX && address_length <= address_room;

    if (!fits) {
        mscclpp_error("%s: the card of rank %d has a key of %llu bytes and an address of %llu; at most %d and %llu are "
                      "allowed",
                      label, peer, (unsigned long long)key_length, (unsigned long long)address_length,
                      MSCCLPP_TRANSPORT_KEY_MAX, (unsigned long long)address_room);
    }
    return fits;
}
