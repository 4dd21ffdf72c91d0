/* The segments of one element of a type: ranges of bytes, in the order of its type map. Private to layout.c. */
#ifndef MCA_COLL_MSCCLPP_STAGE_SEGMENTS_H
#define MCA_COLL_MSCCLPP_STAGE_SEGMENTS_H

#include <sys/uio.h>

#include "mca/coll/mscclpp/ompi/module.h"

/*
 * Asks Open MPI for the segments of one element. *used_p is first the number of entries in `segments`, and then the
 * number of segments in it. The bases of segments are offsets from the element's address. Returns true if there are no
 * more segments; *length_p is then the total length in bytes. Returns false, too, if Open MPI reports an error.
 */
bool mca_coll_mscclpp_stage_segments_read(const struct ompi_datatype_t *type, struct iovec *segments, uint32_t *used_p,
                                          size_t *length_p);

/*
 * Merges adjacent segments in place, which Open MPI does not always do, and removes empty ones. Returns the number of
 * segments that are left.
 */
uint32_t mca_coll_mscclpp_stage_segments_merge(struct iovec *segments, uint32_t used);

#endif
