/*
 * A cache of mappings of peers' memory, which all teams of the process share. Opening a mapping costs as much as a
 * large transfer, so unused mappings stay open, up to limits; the least recently used ones are closed first.
 * Thread-safe.
 */
#ifndef MCA_COMMON_GPU_MAPPING_H
#define MCA_COMMON_GPU_MAPPING_H

#include <stdint.h>

#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_mapping mscclpp_mapping_t;

/* Limits of the mappings that a process keeps. Mappings in use may exceed them. */
typedef struct {
    int count;      /* maximum number of mappings */
    uint64_t bytes; /* maximum size of the mapped allocations; 0: any size. Memory that a peer has freed is still
                       allocated until its mapping is closed. */
} mscclpp_mapping_limit_t;

/* Returns the limits that the parameters set. */
mscclpp_mapping_limit_t mscclpp_mapping_limit(const mscclpp_config_t *config);

/*
 * Maps the allocation of a handle for kernels of `device`, unless it is mapped already: a device has at most one
 * mapping of an allocation. The limit of the last call applies. If memory is short, or unused mappings may be in the
 * way, they are closed and the import is repeated. Fails as `ops->import_memory` does, or with MSCCLPP_ERR_NO_MEMORY,
 * which is logged; *mapping_p is then not set. May wait for another thread that opens or closes the same mapping.
 */
mscclpp_status_t mscclpp_mapping_get(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                     mscclpp_mapping_limit_t limit, mscclpp_mapping_t **mapping_p);

/*
 * Returns the mapping of an allocation if it is open, as mscclpp_mapping_get does; NULL: it is not, or another thread
 * is opening or closing it. Never calls the GPU runtime.
 */
mscclpp_mapping_t *mscclpp_mapping_find(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle);

/*
 * Maps memory for one team only, outside the cache: calls `ops->import_memory`, with the same attempts to make room as
 * above. The caller closes the mapping by `ops->close_memory`.
 */
mscclpp_status_t mscclpp_mapping_import(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                        void **base_p);

/*
 * Maps memory that teams share (mca/common/gpu/pool.h), as mscclpp_mapping_get does. But such a mapping is not limited,
 * and is closed as soon as it is no longer in use, so that the owner can free the memory.
 */
mscclpp_status_t mscclpp_mapping_share(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                       mscclpp_mapping_t **mapping_p);

/* Returns the first byte of the allocation; valid until the put that matches the get. */
void *mscclpp_mapping_base(const mscclpp_mapping_t *mapping);

/*
 * Undoes one mscclpp_mapping_get, mscclpp_mapping_share or mscclpp_mapping_find. May close mappings. NULL is allowed.
 */
void mscclpp_mapping_put(mscclpp_mapping_t *mapping);

/*
 * Closes all mappings that are not in use. Returns the number of mappings that stay open, without mappings of shared
 * memory; 0 if there are no teams.
 */
int mscclpp_mapping_drain(void);

/* Returns the number of open mappings, without mappings of shared memory. */
int mscclpp_mapping_count(void);

#endif
