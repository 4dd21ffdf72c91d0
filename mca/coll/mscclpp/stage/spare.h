/*
 * Memory for the small lists of a staged call. If malloc fails, these functions take whole pages from the system. The
 * peers will be in the call, so this rank should not fail for a small list.
 */
#ifndef MCA_COLL_MSCCLPP_STAGE_SPARE_H
#define MCA_COLL_MSCCLPP_STAGE_SPARE_H

#include <stddef.h>

/* `get` returns NULL if neither malloc nor the system has memory. `put` frees what `get` returned; NULL is allowed. */
void *mca_coll_mscclpp_stage_spare_get(size_t size);
void mca_coll_mscclpp_stage_spare_put(void *memory);

#endif
