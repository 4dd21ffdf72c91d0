/*
 * Memory for the small lists of a staged call. The peers are on their way into the call, so a rank that cannot have
 * them from malloc takes whole pages from the system.
 */
#ifndef MCA_COLL_MSCCLPP_STAGE_SPARE_H
#define MCA_COLL_MSCCLPP_STAGE_SPARE_H

#include <stddef.h>

/* NULL if there is neither. To be given back by the function below, which takes NULL, too. */
void *mca_coll_mscclpp_stage_spare_get(size_t size);
void mca_coll_mscclpp_stage_spare_put(void *memory);

#endif
