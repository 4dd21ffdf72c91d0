/*
 * Mappings of peers' memory, shared by all teams of the process. Opening a mapping costs as much as a large transfer,
 * so unused mappings stay open up to limits; the least recently used ones are closed first. Thread-safe.
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
    int count;
    uint64_t bytes; /* of the mapped allocations, as freed memory stays taken until its mapping closes; 0: any */
} mscclpp_mapping_limit_t;

/* As the parameters have it. */
mscclpp_mapping_limit_t mscclpp_mapping_limit(const mscclpp_config_t *config);

/*
 * Maps the allocation of a handle for kernels of `device`, unless it is mapped already: a device has at most one
 * mapping of an allocation, whoever asks for it. The limit given last applies. If memory is short, or unused mappings
 * may be in the way, they are closed and the import is tried again. Fails as `ops->import_memory` does.
 */
mscclpp_status_t mscclpp_mapping_get(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                     mscclpp_mapping_limit_t limit, mscclpp_mapping_t **mapping_p);

/*
 * `ops->import_memory` for memory that is not shared with other teams, and is closed by `ops->close_memory`. Makes room
 * for it as the function above does.
 */
mscclpp_status_t mscclpp_mapping_import(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                        void **base_p);

/* First byte of the allocation; valid until the put that matches the get. */
void *mscclpp_mapping_base(const mscclpp_mapping_t *mapping);

/* Ends one get. NULL is allowed. */
void mscclpp_mapping_put(mscclpp_mapping_t *mapping);

/* Closes all mappings that are not in use. Returns how many are left: 0 once all teams are destroyed. */
int mscclpp_mapping_drain(void);

/* How many mappings are open. */
int mscclpp_mapping_count(void);

#endif
