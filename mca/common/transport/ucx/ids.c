/* The numbers that peers use to name connections and regions. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

#define INITIAL_SIZE 16 /* entries of a table */

/*
 * The lower half of a number is the index in the table. The upper half counts the numbers that have been assigned,
 * starting from 1, so that no number is assigned twice: a late message must not find a newer object.
 */
uint64_t mscclpp_transport_ucx_enter(ucx_table_t *table, void *object)
{
    size_t index = 0;

    while (index < table->size && table->entries[index].id != 0) {
        ++index;
    }
    if (index == table->size) {
        size_t size = table->size == 0 ? INITIAL_SIZE : 2 * table->size;
        ucx_entry_t *entries = realloc(table->entries, size * sizeof(*entries));
        if (entries == NULL) {
            return 0;
        }
        memset(entries + table->size, 0, (size - table->size) * sizeof(*entries));
        table->entries = entries;
        table->size = size;
    }
    table->entries[index].id = ++table->generation << 32 | index;
    table->entries[index].object = object;
    return table->entries[index].id;
}

/* Returns the entry with this number, or NULL. Peers send numbers, so they may be anything. */
static ucx_entry_t *find_entry(const ucx_table_t *table, uint64_t id)
{
    size_t index = (uint32_t)id;

    return id != 0 && index < table->size && table->entries[index].id == id ? &table->entries[index] : NULL;
}

void *mscclpp_transport_ucx_find(const ucx_table_t *table, uint64_t id)
{
    const ucx_entry_t *entry = find_entry(table, id);

    return entry != NULL ? entry->object : NULL;
}

void mscclpp_transport_ucx_remove(ucx_table_t *table, uint64_t id)
{
    ucx_entry_t *entry = find_entry(table, id);

    if (entry != NULL) {
        entry->id = 0;
        entry->object = NULL;
    }
}
