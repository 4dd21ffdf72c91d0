/*
 * A JSON text as a tree, parsed by yajl. yajl passes numbers as text, so unsigned 64-bit numbers stay exact. It can be
 * stopped at every value, so limits apply while the text is read.
 */
#ifndef MCA_COMMON_PLAN_JSON_H
#define MCA_COMMON_PLAN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"

/* Memory that is freed all at once. */
typedef struct mscclpp_plan_arena mscclpp_plan_arena_t;

mscclpp_plan_arena_t *mscclpp_plan_arena_new(void);        /* NULL if there is no memory */
void mscclpp_plan_arena_free(mscclpp_plan_arena_t *arena); /* NULL is allowed */

/*
 * Allocates zeroed memory for `count` objects of `size` bytes, aligned for any type. It lasts until the arena is freed.
 * Returns NULL if there is none, or if the size overflows. An allocation of 0 bytes also returns an address.
 */
void *mscclpp_plan_arena_get(mscclpp_plan_arena_t *arena, size_t count, size_t size);

typedef enum {
    MSCCLPP_JSON_NULL,
    MSCCLPP_JSON_BOOL,
    MSCCLPP_JSON_UNSIGNED, /* a whole number from 0 to 2^64-1 */
    MSCCLPP_JSON_NUMBER,   /* any other number, as text */
    MSCCLPP_JSON_STRING,
    MSCCLPP_JSON_ARRAY,
    MSCCLPP_JSON_OBJECT
} mscclpp_json_type_t;

typedef struct mscclpp_json {
    mscclpp_json_type_t type;
    uint32_t count;                    /* array, object: number of children */
    const char *key;                   /* key, for a member of an object; otherwise NULL */
    uint64_t number;                   /* unsigned; bool: 0 or 1 */
    const char *text;                  /* string; number other than unsigned: as it is in the file */
    struct mscclpp_json *first, *last; /* array, object: children */
    struct mscclpp_json *next;         /* next child of the same parent */
} mscclpp_json_t;

/*
 * Parses a text into a tree in the arena; `text` is not needed afterwards. The limits of plan.h on values and depth
 * apply. Also refused are an object that has a key twice or more than 64 keys, and a zero character in a string.
 *
 * Returns MSCCLPP_ERR_INVALID, with the fault and its place in `reason`, MSCCLPP_ERR_NO_MEMORY, or
 * MSCCLPP_ERR_NOT_SUPPORTED, with the reason in `reason`, if there is no yajl. After an error, *root_p is unchanged,
 * and parts of the tree may be left in the arena. Logs nothing.
 */
mscclpp_status_t mscclpp_json_parse(mscclpp_plan_arena_t *arena, const char *text, size_t size, char *reason,
                                    size_t reason_size, mscclpp_json_t **root_p);

/* Returns the member of an object with this key, or NULL if there is none. `object` may be NULL or not an object. */
const mscclpp_json_t *mscclpp_json_get(const mscclpp_json_t *object, const char *key);

/* Returns a type's name for messages: "a string", "an object", ... */
const char *mscclpp_json_type_name(mscclpp_json_type_t type);

#endif
