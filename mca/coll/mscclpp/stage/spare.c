#include "mca/coll/mscclpp/stage/spare.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The header before each piece of memory that is returned. It has the alignment that malloc guarantees. */
typedef union {
    size_t mapped; /* bytes mapped, this header included; 0: the memory is from malloc */
    max_align_t align;
} head_t;

/*
 * Takes memory from malloc or, if that has none, maps it. A header before the memory tells
 * mca_coll_mscclpp_stage_spare_put which of the two it was.
 */
void *mca_coll_mscclpp_stage_spare_get(size_t size)
{
    head_t *head;
    size_t total;

    if (size > SIZE_MAX - sizeof(*head)) {
        return NULL;
    }
    total = size + sizeof(*head);
    head = malloc(total);
    if (head != NULL) {
        head->mapped = 0;
        return head + 1;
    }
    head = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *)head) {
        return NULL;
    }
    head->mapped = total;
    return head + 1;
}

void mca_coll_mscclpp_stage_spare_put(void *memory)
{
    head_t *head = memory;

    if (memory == NULL) {
        return;
    }
    --head;
    if (0 == head->mapped) {
        free(head);
    } else {
        (void)munmap(head, head->mapped);
    }
}
