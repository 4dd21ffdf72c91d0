#include "mca/coll/mscclpp/stage/spare.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The header before each piece of memory that is returned. It has the alignment that malloc guarantees. */
typedef union {
    size_t mapped_bytes; /* bytes mapped, this header included; 0: the memory is from malloc */
    max_align_t align;
} head_t;

/*
 * Takes memory from malloc or, if that has none, maps it. A header before the memory tells
 * mca_coll_mscclpp_stage_spare_put which of the two it was.
 */
void *mca_coll_mscclpp_stage_spare_get(size_t size)
{
    head_t *head;
    size_t total_bytes;

    if (size > SIZE_MAX - sizeof(*head)) {
        return NULL;
    }
    total_bytes = size + sizeof(*head);
    head = malloc(total_bytes);
    if (head != NULL) {
        head->mapped_bytes = 0;
        return head + 1;
    }
    head = mmap(NULL, total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *)head) {
        return NULL;
    }
    head->mapped_bytes = total_bytes;
    return head + 1;
}

void mca_coll_mscclpp_stage_spare_put(void *memory)
{
    head_t *head = memory;

    if (memory == NULL) {
        return;
    }
    --head;
    if (0 == head->mapped_bytes) {
        free(head);
    } else {
        (void)munmap(head, head->mapped_bytes);
    }
}
