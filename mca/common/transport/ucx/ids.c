/* The numbers that peers use to name connections and regions. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/log.h"
#include "mca/common/transport/ucx/internal.h"

/*
 * Enters an object in the table and returns its number. The lower half of a number is the place in the table. The upper
 * half counts the numbers given before, and starts at 1.
 */
uint64_t mscclpp_transport_ucx_enter(ucx_table_t *table, void *object)
{
    size_t at = 0;

    while (at < table->size && table->entries[at].id != 0) {
        ++at;
    }
    if (at == table->size) {
        size_t size = table->size == 0 ? 16 : 2 * table->size;
        ucx_entry_t *entries = realloc(table->entries, size * sizeof(*entries));
        if (entries == NULL) {
            return 0;
        }
        memset(entries + table->size, 0, (size - table->size) * sizeof(*entries));
        table->entries = entries;
        table->size = size;
    }
    table->entries[at].id = ++table->generation << 32 | at;
    table->entries[at].object = object;
    return table->entries[at].id;
}

static ucx_entry_t *find_entry(const ucx_table_t *table, uint64_t id)
{
    size_t at = (uint32_t)id;

    return id != 0 && at < table->size && table->entries[at].id == id ? &table->entries[at] : NULL;
}

void *mscclpp_transport_ucx_find(const ucx_table_t *table, uint64_t id)
{
    const ucx_entry_t *entry = find_entry(table, id);

    return entry != NULL ? entry->object : NULL;
}

/* Takes an object out of the table. Its number is never used again. */
void mscclpp_transport_ucx_remove(ucx_table_t *table, uint64_t id)
{
    ucx_entry_t *entry = find_entry(table, id);

    if (entry != NULL) {
        entry->id = 0;
        entry->object = NULL;
    }
}
