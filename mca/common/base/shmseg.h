/*
 * Shared memory segments: zeroed memory that processes of one node share. Teams use it for control words, for the data
 * that imitated nodes exchange, and for the host twin's device memory.
 */
#ifndef MCA_COMMON_BASE_SHMSEG_H
#define MCA_COMMON_BASE_SHMSEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"

typedef struct mscclpp_shmseg mscclpp_shmseg_t;

/*
 * A descriptor, by which another process finds a segment. It is sent as plain bytes. Valid while the creator has the
 * segment and has not hidden it.
 */
typedef struct {
    int64_t pid;     /* process id of the creator */
    uint64_t token;  /* mscclpp_process_token of the creator */
    uint64_t id;     /* number of the segment in its creator; never reused */
    uint64_t length; /* size of the segment in bytes */
    uint64_t dev;    /* device and inode of the file behind the segment */
    uint64_t ino;
    int64_t fd; /* the file's descriptor in the creator */
} mscclpp_shmseg_descriptor_t;

/*
 * Creates a segment of at least 1 byte, which the caller has to detach. It takes one file descriptor until it is
 * hidden. No name remains if the process aborts. After a failure, nothing is left. Logs failures as errors, with two
 * exceptions: a lack of file descriptors is logged at the debug level only, and a lack of memory for the mapping as
 * information.
 */
mscclpp_status_t mscclpp_shmseg_create(size_t size, mscclpp_shmseg_t **segment_p);

/* Fills in the descriptor of a segment that this process has not hidden. */
void mscclpp_shmseg_describe(const mscclpp_shmseg_t *segment, mscclpp_shmseg_descriptor_t *descriptor_p);

/*
 * Describes the segment that contains all of [address, address + length). Finds only segments that this process has
 * created and not hidden. *offset_p is the distance of `address` from the start of the segment, in bytes. Returns
 * false, with nothing set, if there is no such segment.
 */
bool mscclpp_shmseg_locate(const void *address, size_t length, mscclpp_shmseg_descriptor_t *descriptor_p,
                           uint64_t *offset_p);

/*
 * Describes the segment that contains an address. Unlike mscclpp_shmseg_locate, also finds segments that another copy
 * of this library in the process has created. Slow: asks the kernel about all mappings and files of the process. May
 * change *offset_p even if it returns false.
 */
bool mscclpp_shmseg_recognise(const void *address, mscclpp_shmseg_descriptor_t *descriptor_p, uint64_t *offset_p);

/*
 * Maps a segment that another process has created. All holders within one process, including the creator, share one
 * mapping and so one address. The caller has to detach it. Returns MSCCLPP_ERR_NOT_SUPPORTED, logged at the debug
 * level, if the segment cannot be accessed: its creator has dropped it or is gone, or belongs to another user,
 * container or node. Returns MSCCLPP_ERR_NO_DESCRIPTORS or MSCCLPP_ERR_NO_MEMORY if this process lacks what it needs.
 */
mscclpp_status_t mscclpp_shmseg_attach(const mscclpp_shmseg_descriptor_t *descriptor, mscclpp_shmseg_t **segment_p);

/*
 * Hides a segment: from now on no other process can attach it, and its creator needs no file descriptor for it.
 * Processes that have attached it keep it. Does nothing for a segment that is hidden already or that another process
 * has created.
 */
void mscclpp_shmseg_hide(mscclpp_shmseg_t *segment);

/* Undoes one create or attach. The last one in a process unmaps the segment. NULL is allowed. */
void mscclpp_shmseg_detach(mscclpp_shmseg_t *segment);

/* Return the address at which a segment is mapped in this process, and its size in bytes. */
void *mscclpp_shmseg_base(const mscclpp_shmseg_t *segment);
size_t mscclpp_shmseg_length(const mscclpp_shmseg_t *segment);

#endif
