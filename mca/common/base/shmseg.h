/*
 * Zeroed memory that processes of one node share: control words of teams, what imitated nodes exchange, and the host
 * twin's device memory.
 */
#ifndef MCA_COMMON_BASE_SHMSEG_H
#define MCA_COMMON_BASE_SHMSEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"

typedef struct mscclpp_shmseg mscclpp_shmseg_t;

/*
 * How another process finds a segment. Plain bytes, to be sent as they are; valid as long as the creator holds it and
 * has not hidden it.
 */
typedef struct {
    int64_t pid;     /* of the creator */
    uint64_t token;  /* mscclpp_process_token of the creator */
    uint64_t id;     /* of the segment in its creator; never reused */
    uint64_t length; /* bytes */
    uint64_t dev;    /* of the file behind it */
    uint64_t ino;
    int64_t fd; /* in the creator */
} mscclpp_shmseg_descriptor_t;

/* Takes one file descriptor, until it is hidden, and no name that an aborted process could leave behind. */
mscclpp_status_t mscclpp_shmseg_create(size_t size, mscclpp_shmseg_t **segment_p);

void mscclpp_shmseg_describe(const mscclpp_shmseg_t *segment, mscclpp_shmseg_descriptor_t *descriptor_p);

/*
 * Describes the segment of this process's making, and not hidden, that holds all of [address, address + length), which
 * begins *offset_p bytes behind its start. False if there is none.
 */
bool mscclpp_shmseg_locate(const void *address, size_t length, mscclpp_shmseg_descriptor_t *descriptor_p,
                           uint64_t *offset_p);

/*
 * The same for one address, and for a segment that another copy of this library in the process has made. Asks the
 * kernel about all mappings and files of the process, which takes long.
 */
bool mscclpp_shmseg_recognise(const void *address, mscclpp_shmseg_descriptor_t *descriptor_p, uint64_t *offset_p);

/*
 * Maps a segment. All holders within one process share one mapping and so one address, the creator included.
 * MSCCLPP_ERR_NOT_SUPPORTED if the segment cannot be reached: its creator has dropped it, is gone, or belongs to
 * another user, container or node.
 */
mscclpp_status_t mscclpp_shmseg_attach(const mscclpp_shmseg_descriptor_t *descriptor, mscclpp_shmseg_t **segment_p);

/*
 * From now on no other process can attach the segment, and it takes no file descriptor of its creator's. Those that
 * have attached it keep it. Hiding what is hidden, or what another process made, does nothing.
 */
void mscclpp_shmseg_hide(mscclpp_shmseg_t *segment);

/* Ends one create or attach; the last one of a process unmaps. NULL is allowed. */
void mscclpp_shmseg_detach(mscclpp_shmseg_t *segment);

void *mscclpp_shmseg_base(const mscclpp_shmseg_t *segment);
size_t mscclpp_shmseg_length(const mscclpp_shmseg_t *segment);

#endif
