/*
 * A JSON text as a tree, parsed by yajl. yajl hands numbers over as text, so unsigned 64-bit numbers stay exact. It can
 * be stopped at every value, so limits apply while the text is read.
 */
#ifndef MCA_COMMON_PLAN_JSON_H
#define MCA_COMMON_PLAN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"

/* Memory that is freed all at once. */
typedef struct mscclpp_plan_arena mscclpp_plan_arena_t;

mscclpp_plan_arena_t *mscclpp_plan_arena_new(void);
void mscclpp_plan_arena_free(mscclpp_plan_arena_t *arena);

/* Zeroed memory for any type; NULL without memory. 0 bytes also yield an address. */
void *mscclpp_plan_arena_get(mscclpp_plan_arena_t *arena, size_t count, size_t size);

typedef enum {
    MSCCLPP_JSON_NULL,
    MSCCLPP_JSON_BOOL,
    MSCCLPP_JSON_UNSIGNED, /* a whole number from 0 to 2^64-1 */
    MSCCLPP_JSON_NUMBER,   /* any other one, as text */
    MSCCLPP_JSON_STRING,
    MSCCLPP_JSON_ARRAY,
    MSCCLPP_JSON_OBJECT
} mscclpp_json_type_t;

typedef struct mscclpp_json {
    mscclpp_json_type_t type;
    uint32_t count;   /* children */
    const char *key;  /* of a member of an object */
    uint64_t number;  /* unsigned, bool */
    const char *text; /* string, number */
    struct mscclpp_json *first, *last, *next;
} mscclpp_json_t;

/*
 * MSCCLPP_ERR_INVALID with the fault and its place in `why`, MSCCLPP_ERR_NO_MEMORY, or MSCCLPP_ERR_NOT_SUPPORTED if the
 * library was built without yajl. An object that has the same key twice is refused.
 */
mscclpp_status_t mscclpp_json_parse(mscclpp_plan_arena_t *arena, const char *text, size_t size, char *why,
                                    size_t why_size, mscclpp_json_t **root_p);

/* NULL if there is no such member. */
const mscclpp_json_t *mscclpp_json_get(const mscclpp_json_t *object, const char *key);

/* "a string", "an object", ... */
const char *mscclpp_json_type_name(mscclpp_json_type_t type);

#endif
