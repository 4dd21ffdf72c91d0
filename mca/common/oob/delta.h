/*
 * Packs the parts of an all-gather for a message. Ranks mostly say the same at set-up, and much of what they say is
 * zero. So only those words of a part are sent that differ from the part before it; the first part is compared with
 * zeros. A part that equals the one before it takes a bit for each word. Then what all ranks are told stays a short
 * message that Open MPI sends at once, without asking the receiver first.
 */
#ifndef MCA_COMMON_OOB_DELTA_H
#define MCA_COMMON_OOB_DELTA_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the most bytes that `count` parts of `length` bytes can take. */
size_t mscclpp_delta_max(size_t count, size_t length);

/* Packs `count` parts of `length` bytes each. Returns the number of bytes written. */
size_t mscclpp_delta_pack(const char *parts, size_t count, size_t length, char *packed);

/*
 * Unpacks `count` parts of `length` bytes each. Returns false if the message does not contain exactly these; then
 * `parts` is undefined. Reads no byte outside of the message, whatever it contains.
 */
bool mscclpp_delta_unpack(const char *packed, size_t packed_length, size_t count, size_t length, char *parts);

#endif
