#include "mca/coll/mscclpp/stage/spare.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The header in front of memory that is handed out. Its alignment is the one that malloc promises. */
typedef union {
    size_t mapped; /* bytes mapped, this header included; 0: the memory is from malloc */
    max_align_t align;
} head_t;

/* Puts a header in front of the memory. It tells mca_coll_mscclpp_stage_spare_put how the memory was got. */
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

/* Steps back to the header, and frees the memory as that says. */
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
