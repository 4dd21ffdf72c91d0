/*
 * Shared memory of fabrics, in slabs. A slab is one pinned segment, of which several communicators of a thread get
 * pieces. A peer on the host maps a slab once for all of them. So a further communicator of the same ranks needs no new
 * mapping. Pieces are zeroed, because no piece is used twice. A slab is freed with its last piece. Thread-safe.
 */
#ifndef MCA_COMMON_FABRIC_SLABS_H
#define MCA_COMMON_FABRIC_SLABS_H

#include <stdbool.h>
#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/gpu/gpu.h"

typedef struct mscclpp_slab mscclpp_slab_t;

/*
 * Takes a piece of `size` bytes, which are above 0, aligned to pages. *host_p and *device_p are its addresses for hosts
 * and for kernels of all devices. Fails as mscclpp_shmseg_create or the pinning does, or with MSCCLPP_ERR_NO_MEMORY,
 * unlogged, for the slab's description; then nothing is left. `label` names the communicator in a log line about the
 * pinning.
 */
mscclpp_status_t mscclpp_slab_take(const mscclpp_gpu_ops_t *gpu, const char *label, uint64_t size,
                                   mscclpp_slab_t **slab_p, void **host_p, void **device_p);

/*
 * Notes, once for a piece, that all of its peers have mapped it. A slab whose pieces are all mapped or given back takes
 * no file descriptor any more.
 */
void mscclpp_slab_hide_piece(mscclpp_slab_t *slab);

/*
 * Gives back a piece, which this rank does not use any more; peers may still have it mapped. `was_hidden` says whether
 * mscclpp_slab_hide_piece has been called for it.
 */
void mscclpp_slab_give(mscclpp_slab_t *slab, bool was_hidden);

#endif
