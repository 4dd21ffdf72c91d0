/* Asks Open MPI where the data of one element of a type are. */
#include "mca/coll/mscclpp/stage/segments.h"

bool mca_coll_mscclpp_stage_segments_read(const struct ompi_datatype_t *type, struct iovec *segments, uint32_t *used_p,
                                          size_t *length_p)
{
    opal_convertor_t convertor;
    bool has_all = false;

    *length_p = 0;
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    if (OPAL_SUCCESS ==
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, 1, NULL, 0, &convertor)) {
        /* The result is 1 if no segments are left. */
        has_all = 1 == opal_convertor_raw(&convertor, segments, used_p, length_p);
    }
    OBJ_DESTRUCT(&convertor);
    return has_all;
}

uint32_t mca_coll_mscclpp_stage_segments_merge(struct iovec *segments, uint32_t used)
{
    uint32_t kept = 0;

    for (uint32_t index = 0; index < used; ++index) {
        const struct iovec *segment = &segments[index];

        if (kept > 0 &&
            (uintptr_t)segments[kept - 1].iov_base + segments[kept - 1].iov_len == (uintptr_t)segment->iov_base) {
            segments[kept - 1].iov_len += segment->iov_len;
        } else if (segment->iov_len > 0) {
            segments[kept++] = *segment;
        }
    }
    return kept;
}
