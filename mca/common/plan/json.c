#include "mca/common/plan/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/plan.h"

#ifdef MSCCLPP_HAVE_YAJL
#include "mca/common/plan/libyajl.h"
#endif

enum {
    PIECE = 256 << 10, /* bytes that an arena allocates at once, unless an object is larger */
    ALIGN = 16         /* alignment of objects, bytes */
};

/* One malloc'ed piece of an arena. Its memory follows the struct, and is handed out from the front. */
typedef struct piece {
    struct piece *next;
    size_t used, size; /* bytes handed out, bytes allocated; both include the struct */
} piece_t;

struct mscclpp_plan_arena {
    piece_t *pieces;
};

mscclpp_plan_arena_t *mscclpp_plan_arena_new(void)
{
    return calloc(1, sizeof(mscclpp_plan_arena_t));
}

void mscclpp_plan_arena_free(mscclpp_plan_arena_t *arena)
{
    piece_t *piece, *next;

    if (arena == NULL) {
        return;
    }
    for (piece = arena->pieces; piece != NULL; piece = next) {
        next = piece->next;
        free(piece);
    }
    free(arena);
}

/* Takes memory from the newest piece only. The rest of older pieces stays unused, which keeps an allocation short. */
void *mscclpp_plan_arena_get(mscclpp_plan_arena_t *arena, size_t count, size_t size)
{
    const size_t head_size = (sizeof(piece_t) + ALIGN - 1) / ALIGN * ALIGN;
    piece_t *piece = arena->pieces;
    size_t bytes, piece_size;
    void *memory;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (piece == NULL || piece->size - piece->used < bytes) {
        piece_size = head_size + (bytes > PIECE ? bytes : PIECE);
        piece = malloc(piece_size);
        if (piece == NULL) {
            return NULL;
        }
        *piece = (piece_t){.next = arena->pieces, .used = head_size, .size = piece_size};
        arena->pieces = piece;
    }
    memory = (char *)piece + piece->used;
    piece->used += bytes;
    return memset(memory, 0, bytes);
}

const mscclpp_json_t *mscclpp_json_get(const mscclpp_json_t *object, const char *key)
{
    if (object == NULL || object->type != MSCCLPP_JSON_OBJECT) {
        return NULL;
    }
    for (const mscclpp_json_t *member = object->first; member != NULL; member = member->next) {
        if (strcmp(member->key, key) == 0) {
            return member;
        }
    }
    return NULL;
}

const char *mscclpp_json_type_name(mscclpp_json_type_t type)
{
    static const char *const names[] = {
        "null",     "true or false", "a whole number", "a number that is not whole or too large",
        "a string", "an array",      "an object"};

    return names[type];
}

#ifdef MSCCLPP_HAVE_YAJL

/*
 * The state of a parse. yajl calls the on_* functions, with the state as `context`, and they build the tree. Each of
 * them returns 1 to go on, or 0 to stop the parse, with the reason in `reason` or `no_memory`.
 */
typedef struct {
    mscclpp_plan_arena_t *arena;
    mscclpp_json_t *open[MSCCLPP_PLAN_MAX_DEPTH]; /* arrays and objects around the next value, outermost first */
    int depth;                                    /* number of entries in `open` */
    const char *key;                              /* of the next value, if that is a member of an object */
    mscclpp_json_t *root;
    uint32_t values; /* number of values so far */
    bool no_memory;
    char reason[160]; /* why the text is refused */
} builder_t;

/*
 * Copies a string, with a terminating zero. Returns NULL if there is no memory (builder->no_memory), or if the string
 * contains a zero byte (builder->reason): later code takes the string for a C string.
 */
static const char *keep_string(builder_t *builder, const void *text, size_t length)
{
    char *copy;

    if (memchr(text, '\0', length) != NULL) {
        snprintf(builder->reason, sizeof(builder->reason), "a zero character in a string");
        return NULL;
    }
    copy = mscclpp_plan_arena_get(builder->arena, length + 1, 1);
    if (copy == NULL) {
        builder->no_memory = true;
        return NULL;
    }
    memcpy(copy, text, length); /* the arena's memory is zeroed, so the copy ends with a zero byte */
    return copy;
}

/*
 * Appends a value to the array or object that is open. If no array or object is open, the value is the root. Returns
 * NULL if there is no memory (builder->no_memory), or if there are too many values (builder->reason).
 */
static mscclpp_json_t *add_value(builder_t *builder, mscclpp_json_type_t type)
{
    mscclpp_json_t *value, *parent = builder->depth > 0 ? builder->open[builder->depth - 1] : NULL;

    if (++builder->values > MSCCLPP_PLAN_MAX_VALUES) {
        snprintf(builder->reason, sizeof(builder->reason), "more than %d values", MSCCLPP_PLAN_MAX_VALUES);
        return NULL;
    }
    value = mscclpp_plan_arena_get(builder->arena, 1, sizeof(*value));
    if (value == NULL) {
        builder->no_memory = true;
        return NULL;
    }
    value->type = type;
    if (parent == NULL) {
        builder->root = value;
        return value;
    }
    value->key = builder->key;
    builder->key = NULL;
    if (parent->last != NULL) {
        parent->last->next = value;
    } else {
        parent->first = value;
    }
    parent->last = value;
    ++parent->count;
    return value;
}

/* Adds a null value. */
static int on_null(void *context)
{
    return add_value(context, MSCCLPP_JSON_NULL) != NULL;
}

/* Adds true or false: value->number is 1 or 0. */
static int on_bool(void *context, int yes)
{
    mscclpp_json_t *value = add_value(context, MSCCLPP_JSON_BOOL);

    if (value == NULL) {
        return 0;
    }
    value->number = yes != 0;
    return 1;
}

/*
 * Parses an unsigned whole number. Returns false, with *number_p unchanged, for a number with a sign, a fraction or an
 * exponent, or of more than 64 bits.
 */
static bool parse_unsigned(const char *text, size_t length, uint64_t *number_p)
{
    uint64_t number = 0;

    for (size_t i = 0; i < length; ++i) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number)) {
            return false;
        }
    }
    *number_p = number;
    return true;
}

/* Adds a number. Keeps the text of a number that is not an unsigned whole number, for messages. */
static int on_number(void *context, const char *text, size_t length)
{
    uint64_t number = 0;
    bool is_whole = parse_unsigned(text, length, &number);
    mscclpp_json_t *value = add_value(context, is_whole ? MSCCLPP_JSON_UNSIGNED : MSCCLPP_JSON_NUMBER);

    if (value == NULL) {
        return 0;
    }
    value->number = number;
    value->text = is_whole ? "" : keep_string(context, text, length);
    return value->text != NULL;
}

/* Adds a string, of which the tree keeps a copy. */
static int on_string(void *context, const unsigned char *text, size_t length)
{
    mscclpp_json_t *value = add_value(context, MSCCLPP_JSON_STRING);

    if (value == NULL) {
        return 0;
    }
    value->text = keep_string(context, text, length);
    return value->text != NULL;
}

/*
 * Adds an array or object, and opens it for the values that follow. Refuses one that is nested too deeply for
 * builder->open. Returns 1 or 0, as the on_* functions do.
 */
static int open_value(builder_t *builder, mscclpp_json_type_t type)
{
    mscclpp_json_t *value = add_value(builder, type);

    if (value == NULL) {
        return 0;
    }
    if (builder->depth == MSCCLPP_PLAN_MAX_DEPTH) {
        snprintf(builder->reason, sizeof(builder->reason), "arrays and objects more than %d deep",
                 MSCCLPP_PLAN_MAX_DEPTH);
        return 0;
    }
    builder->open[builder->depth++] = value;
    return 1;
}

/* Adds an object, and opens it for the entries that follow. */
static int on_map(void *context)
{
    return open_value(context, MSCCLPP_JSON_OBJECT);
}

/* Adds an array, and opens it for the values that follow. */
static int on_array(void *context)
{
    return open_value(context, MSCCLPP_JSON_ARRAY);
}

/* Closes the innermost open array or object. */
static int on_end_of_container(void *context)
{
    --((builder_t *)context)->depth;
    return 1;
}

/*
 * Begins an entry of the innermost object. Keeps the key for the next value. Stops if the object already has the key,
 * because only one of the two values could count. The innermost open value is always an object here, because yajl
 * reports keys only within objects.
 */
static int on_key(void *context, const unsigned char *text, size_t length)
{
    enum { MAX_KEYS = 64 }; /* keeps the search for each key short; objects of a plan have far fewer keys */
    builder_t *builder = context;
    const mscclpp_json_t *object = builder->open[builder->depth - 1];

    builder->key = keep_string(builder, text, length);
    if (builder->key == NULL) {
        return 0;
    }
    if (mscclpp_json_get(object, builder->key) != NULL) {
        snprintf(builder->reason, sizeof(builder->reason), "the key \"%.40s\" twice in one object", builder->key);
        return 0;
    }
    if (object->count == MAX_KEYS) {
        snprintf(builder->reason, sizeof(builder->reason), "more than %d keys in one object", MAX_KEYS);
        return 0;
    }
    return 1;
}

static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                         .yajl_boolean = on_bool,
                                         .yajl_number = on_number,
                                         .yajl_string = on_string,
                                         .yajl_start_map = on_map,
                                         .yajl_map_key = on_key,
                                         .yajl_end_map = on_end_of_container,
                                         .yajl_start_array = on_array,
                                         .yajl_end_array = on_end_of_container};

/*
 * Writes into `reason` where and why the parser stopped. `error_offset` is the byte at which the parser stopped;
 * lines and columns count from 1. The reason is the builder's if the builder has stopped the parser. Otherwise it is
 * the first line of yajl's error text.
 */
static void describe_error(const mscclpp_yajl_t *yajl, yajl_handle parser, const builder_t *builder, const char *text,
                           size_t error_offset, char *reason, size_t reason_size)
{
    size_t line = 1, column = 1;
    unsigned char *yajl_text = NULL;
    char *end;

    for (size_t i = 0; i < error_offset; ++i) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    if (builder->reason[0] == '\0') {
        yajl_text = yajl->get_error(parser, 0, NULL, 0);
        end = yajl_text != NULL ? strpbrk((char *)yajl_text, "\r\n") : NULL;
        if (end != NULL) {
            *end = '\0';
        }
    }
    snprintf(reason, reason_size, "line %zu, column %zu: %s", line, column,
             yajl_text != NULL ? (const char *)yajl_text : builder->reason);
    if (yajl_text != NULL) {
        yajl->free_error(parser, yajl_text);
    }
}

/* Checks `no_memory` first, because a lack of memory stops the parser in the same way as invalid text. */
mscclpp_status_t mscclpp_json_parse(mscclpp_plan_arena_t *arena, const char *text, size_t size, char *reason,
                                    size_t reason_size, mscclpp_json_t **root_p)
{
    mscclpp_status_t status = MSCCLPP_OK;
    const mscclpp_yajl_t *yajl = mscclpp_yajl_open(reason, reason_size);
    builder_t *builder = calloc(1, sizeof(*builder));
    yajl_handle parser = builder != NULL && yajl != NULL ? yajl->alloc(&callbacks, NULL, builder) : NULL;
    yajl_status parse_status;
    size_t error_offset;

    if (parser == NULL) {
        free(builder);
        return yajl != NULL ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_NOT_SUPPORTED;
    }
    builder->arena = arena;
    parse_status = yajl->parse(parser, (const unsigned char *)text, size);
    error_offset = parse_status == yajl_status_ok ? size : yajl->get_bytes_consumed(parser);
    if (parse_status == yajl_status_ok) {
        parse_status = yajl->complete_parse(parser);
    }
    if (builder->no_memory) {
        status = MSCCLPP_ERR_NO_MEMORY;
    } else if (parse_status != yajl_status_ok || builder->root == NULL) {
        describe_error(yajl, parser, builder, text, error_offset < size ? error_offset : size, reason, reason_size);
        status = MSCCLPP_ERR_INVALID;
    } else {
        *root_p = builder->root;
    }
    yajl->free(parser);
    free(builder);
    return status;
}

#else

mscclpp_status_t mscclpp_json_parse(mscclpp_plan_arena_t *arena, const char *text, size_t size, char *reason,
                                    size_t reason_size, mscclpp_json_t **root_p)
{
    (void)arena, (void)text, (void)size, (void)root_p;
    snprintf(reason, reason_size, "built without yajl (Debian: libyajl-dev), so no plan can be read");
    return MSCCLPP_ERR_NOT_SUPPORTED;
}

#endif
