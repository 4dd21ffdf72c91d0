/*
 * Mappings of peers' memory, shared by all teams of the process. Opening one costs as much as a large transfer, so
 * those that nobody uses at the moment stay open, the most recently used ones up to limits. Thread-safe.
 */
#ifndef MCA_COMMON_GPU_MAPPING_H
#define MCA_COMMON_GPU_MAPPING_H

#include <stdint.h>

#include "mca/common/base/config.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_mapping mscclpp_mapping_t;

/* What the mappings that a process keeps may come to; what is in use may exceed it. */
typedef struct {
    int count;
    uint64_t bytes; /* of the allocations that are mapped, as a peer gets back what it frees only then; 0: any */
} mscclpp_mapping_limit_t;

/* As the parameters have it. */
mscclpp_mapping_limit_t mscclpp_mapping_limit(const mscclpp_config_t *config);

/*
 * Maps the allocation of a handle for kernels of `device`, unless it is mapped already: one allocation is mapped at
 * most once a device, whoever asks for it. The limit last given counts. Where memory is short, mappings that nobody
 * uses are closed and it is tried again; fails as `ops->import_memory` does.
 */
mscclpp_status_t mscclpp_mapping_get(const mscclpp_gpu_ops_t *ops, int device, const mscclpp_gpu_handle_t *handle,
                                     mscclpp_mapping_limit_t limit, mscclpp_mapping_t **mapping_p);

/* First byte of the allocation; valid until the put that matches the get. */
void *mscclpp_mapping_base(const mscclpp_mapping_t *mapping);

/* Ends one get. NULL is allowed. */
void mscclpp_mapping_put(mscclpp_mapping_t *mapping);

/* Closes whatever is not in use. Returns how many mappings are left, which is none once all teams are destroyed. */
int mscclpp_mapping_drain(void);

/* How many mappings are open. */
int mscclpp_mapping_count(void);

#endif
