#include <string.h>

#include "mca/common/plan/reader.h"
#include "mca/common/plan/words.h"

/*
 * A function of this file that returns false has refused the file, with a finding in the report, or has run out of
 * memory (reader.h). What it has stored stays in the plan's arena. A parameter `list` is a list's name for messages.
 */

/*
 * Checks that the value is an object with allowed keys. `list` is the list of which the value is an entry. Keys of
 * other generations of the format are refused.
 */
static bool check_object(mscclpp_plan_reader_t *reader, const char *list, const mscclpp_json_t *value)
{
    return (value->type == MSCCLPP_JSON_OBJECT ||
            mscclpp_plan_refuse(reader, "type", "\"%s\" holds %s; allowed are objects", list,
                                mscclpp_json_type_name(value->type))) &&
           mscclpp_plan_check_keys(reader, value);
}

/*
 * Makes room for `more` further entries of `size` bytes in a table of `count` entries. `table_p` is the address of the
 * pointer to the table, which may have any type. The capacity is not stored, because it is the power of two that
 * follows from `count`. Old tables stay in the arena until the plan is freed. Returns false, with the table unchanged,
 * if there is no memory (reader->no_memory).
 */
static bool grow_table(mscclpp_plan_reader_t *reader, uint32_t count, uint32_t more, size_t size, void *table_p)
{
    uint32_t capacity = 1;
    void *table, *enlarged;

    while (capacity < count) {
        capacity *= 2;
    }
    if (count > 0 && count + more <= capacity) {
        return true;
    }
    while (capacity < count + more) {
        capacity *= 2;
    }
    memcpy(&table, table_p, sizeof(table));
    if (!mscclpp_plan_allocate(reader, capacity, size, &enlarged)) {
        return false;
    }
    if (count > 0) {
        memcpy(enlarged, table, count * size);
    }
    memcpy(table_p, &enlarged, sizeof(enlarged));
    return true;
}

/* Appends ids to a table, in memory of the plan. Refuses a table that would get too long. */
static bool append_ids(mscclpp_plan_reader_t *reader, mscclpp_plan_table_t *table, const uint32_t *ids, uint32_t count)
{
    if (table->count + count > MSCCLPP_PLAN_MAX_TABLE) {
        return mscclpp_plan_refuse(reader, "limit", "a table of more than %d entries", MSCCLPP_PLAN_MAX_TABLE);
    }
    if (!grow_table(reader, table->count, count, sizeof(*ids), &table->ids)) {
        return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        table->ids[table->count + i] = ids[i];
    }
    table->count += count;
    return true;
}

/*
 * Reads the list by which a block numbers its channels or remote buffers. Each entry names a channel type, under
 * `type_key`, and positions in the rank's list, under `numbers_key`. The positions are appended to the table of the
 * type. Only the first `type_count` channel types are allowed.
 */
static bool read_tables(mscclpp_plan_reader_t *reader, const mscclpp_json_t *array, const char *list,
                        const char *type_key, const char *numbers_key, int type_count, mscclpp_plan_table_t *tables)
{
    uint32_t *ids, count;
    int type = 0;

    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next) {
        if (!check_object(reader, list, value) ||
            !mscclpp_plan_read_choice(reader, value, list, type_key, mscclpp_plan_channel_words, &type)) {
            return false;
        }
        if (type >= type_count) {
            return mscclpp_plan_refuse(reader, "word", "\"%s\" of \"%s\" is \"%s\"", type_key, list,
                                       mscclpp_plan_channel_words[type]);
        }
        if (!mscclpp_plan_read_numbers(reader, value, list, numbers_key, MSCCLPP_PLAN_MAX_TABLE, MSCCLPP_PLAN_MAX_TABLE,
                                       true, &ids, &count) ||
            !append_ids(reader, &tables[type], ids, count)) {
            return false;
        }
    }
    return true;
}

/* Reads one block of a rank. The reader's place must be this block. */
static bool read_block(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_block_t *block)
{
    const mscclpp_json_t *ops, *channels, *remotes;
    uint32_t id = 0;
    bool is_valid = true;

    if (!check_object(reader, "threadblocks", object) ||
        !mscclpp_plan_read_number32(reader, object, "a block", "id", MSCCLPP_PLAN_MAX_TABLE, &id)) {
        return false;
    }
    if (id != (uint32_t)reader->place.block) {
        return mscclpp_plan_refuse(reader, "position", "its \"id\" is %u and has to be its position", id);
    }
    channels = mscclpp_plan_find_required(reader, object, "a block", "channels", MSCCLPP_JSON_ARRAY);
    if (channels == NULL || !read_tables(reader, channels, "channels", "channel_type", "channel_ids",
                                         MSCCLPP_PLAN_CHANNEL_TYPES, block->channels)) {
        return false;
    }
    remotes = mscclpp_plan_find_optional(reader, object, "remote_buffer_refs", MSCCLPP_JSON_ARRAY, &is_valid);
    if (!is_valid || (remotes != NULL && !read_tables(reader, remotes, "remote_buffer_refs", "access_channel_type",
                                                      "remote_buffer_ids", MSCCLPP_PLAN_SWITCH, block->remotes))) {
        return false;
    }
    ops = mscclpp_plan_find_required(reader, object, "a block", "ops", MSCCLPP_JSON_ARRAY);
    return ops != NULL && mscclpp_plan_read_ops(reader, ops, false, &block->ops, &block->op_count);
}

/*
 * Reads the ranks of one switch channel. All groups of the entry have the buffer type that the entry names. Whether the
 * ranks exist is checked later (check.c).
 */
static bool read_group(mscclpp_plan_reader_t *reader, const mscclpp_json_t *entry, const mscclpp_json_t *object,
                       mscclpp_plan_group_t *group)
{
    /* Older files have "buff" for "buffer_type". */
    const char *key = mscclpp_json_get(entry, "buffer_type") == NULL && mscclpp_json_get(entry, "buff") != NULL
                          ? "buff"
                          : "buffer_type";
    int type = 0;

    if (!check_object(reader, "rank_groups", object) ||
        !mscclpp_plan_read_choice(reader, entry, "a switch channel", key, mscclpp_plan_buffer_words, &type) ||
        !mscclpp_plan_read_numbers(reader, object, "a group of ranks", "ranks", MSCCLPP_PLAN_MAX_TABLE,
                                   MSCCLPP_PLAN_MAX_RANKS, true, &group->ranks, &group->count)) {
        return false;
    }
    group->type = (mscclpp_plan_buffer_t)type;
    return true;
}

/*
 * Reads the switch channels of one entry. Each group of ranks in the entry becomes one switch channel of the rank,
 * after the switch channels of earlier entries.
 */
static bool read_switch(mscclpp_plan_reader_t *reader, const mscclpp_json_t *entry, mscclpp_plan_rank_t *rank)
{
    const mscclpp_json_t *groups =
        mscclpp_plan_find_required(reader, entry, "a switch channel", "rank_groups", MSCCLPP_JSON_ARRAY);

    if (groups == NULL) {
        return false;
    }
    if (rank->group_count + groups->count > MSCCLPP_PLAN_MAX_ITEMS) {
        return mscclpp_plan_refuse(reader, "limit", "more than %d switch channels", MSCCLPP_PLAN_MAX_ITEMS);
    }
    if (!grow_table(reader, rank->group_count, groups->count, sizeof(*rank->groups), &rank->groups)) {
        return false;
    }
    for (const mscclpp_json_t *group = groups->first; group != NULL; group = group->next) {
        if (!read_group(reader, entry, group, &rank->groups[rank->group_count])) {
            return false;
        }
        ++rank->group_count;
    }
    return true;
}

/*
 * Reads the channels of a rank. Memory and port channels get their peers; their pairs are found later (check.c), so
 * they are -1 here. Each switch channel gets its group of ranks.
 */
static bool read_channels(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_rank_t *rank)
{
    const mscclpp_json_t *array = mscclpp_plan_find_required(reader, object, "a rank", "channels", MSCCLPP_JSON_ARRAY);
    mscclpp_plan_table_t peers[MSCCLPP_PLAN_SWITCH] = {{NULL, 0}};
    uint32_t *ids, count;
    int type = 0;

    if (array == NULL) {
        return false;
    }
    for (const mscclpp_json_t *entry = array->first; entry != NULL; entry = entry->next) {
        if (!check_object(reader, "channels", entry) ||
            !mscclpp_plan_read_choice(reader, entry, "a channel", "channel_type", mscclpp_plan_channel_words, &type)) {
            return false;
        }
        if (type == MSCCLPP_PLAN_NO_CHANNEL) {
            return mscclpp_plan_refuse(reader, "word", "\"channel_type\" of a channel is \"none\"");
        }
        if (type == MSCCLPP_PLAN_SWITCH) {
            if (!read_switch(reader, entry, rank)) {
                return false;
            }
        } else if (!mscclpp_plan_read_numbers(reader, entry, "a channel", "connected_to", MSCCLPP_PLAN_MAX_TABLE,
                                              MSCCLPP_PLAN_MAX_TABLE, true, &ids, &count) ||
                   !append_ids(reader, &peers[type], ids, count)) {
            return false;
        }
    }
    for (type = 0; type < MSCCLPP_PLAN_SWITCH; ++type) {
        rank->channel_count[type] = peers[type].count;
        if (!mscclpp_plan_allocate(reader, peers[type].count, sizeof(*rank->channels[type]), &rank->channels[type])) {
            return false;
        }
        for (uint32_t i = 0; i < peers[type].count; ++i) {
            rank->channels[type][i] = (mscclpp_plan_channel_t){peers[type].ids[i], -1};
        }
    }
    return true;
}

/* Reads one remote buffer. Whether the rank exists is checked later (check.c). */
static bool read_remote(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_remote_t *remote)
{
    const mscclpp_json_t *types;
    int type = 0;

    if (!check_object(reader, "remote_buffers", object) ||
        !mscclpp_plan_read_number32(reader, object, "a remote buffer", "rank", MSCCLPP_PLAN_MAX_TABLE, &remote->rank) ||
        !mscclpp_plan_read_choice(reader, object, "a remote buffer", "type", mscclpp_plan_buffer_words, &type)) {
        return false;
    }
    remote->type = (mscclpp_plan_buffer_t)type;
    types = mscclpp_plan_find_required(reader, object, "a remote buffer", "access_channel_types", MSCCLPP_JSON_ARRAY);
    if (types == NULL) {
        return false;
    }
    for (const mscclpp_json_t *value = types->first; value != NULL; value = value->next) {
        type =
            value->type == MSCCLPP_JSON_STRING ? mscclpp_plan_find_word(mscclpp_plan_channel_words, value->text) : -1;
        if (type < 0 || type >= MSCCLPP_PLAN_SWITCH) {
            return mscclpp_plan_refuse(reader, "word",
                                       "\"access_channel_types\" holds something else than memory, port");
        }
        remote->by[type] = true;
    }
    return true;
}

/* Reads the remote buffers of a rank from their list. */
static bool read_remotes(mscclpp_plan_reader_t *reader, const mscclpp_json_t *array, mscclpp_plan_rank_t *rank)
{
    uint32_t i = 0;

    if (array->count > MSCCLPP_PLAN_MAX_TABLE) {
        return mscclpp_plan_refuse(reader, "limit", "%u remote buffers; the most is %d", array->count,
                                   MSCCLPP_PLAN_MAX_TABLE);
    }
    if (!mscclpp_plan_allocate(reader, array->count, sizeof(*rank->remotes), &rank->remotes)) {
        return false;
    }
    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next) {
        if (!read_remote(reader, value, &rank->remotes[i++])) {
            return false;
        }
    }
    rank->remote_count = i;
    return true;
}

/* Reads the semaphores of a rank. The list is optional. */
static bool read_semaphores(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_rank_t *rank)
{
    bool is_valid = true;
    const mscclpp_json_t *array =
        mscclpp_plan_find_optional(reader, object, "semaphores", MSCCLPP_JSON_ARRAY, &is_valid);
    uint32_t i = 0;

    if (array == NULL) {
        return is_valid;
    }
    if (array->count > MSCCLPP_PLAN_MAX_TABLE) {
        return mscclpp_plan_refuse(reader, "limit", "%u semaphores; the most is %d", array->count,
                                   MSCCLPP_PLAN_MAX_TABLE);
    }
    if (!mscclpp_plan_allocate(reader, array->count, sizeof(*rank->semaphores), &rank->semaphores)) {
        return false;
    }
    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next) {
        if (!check_object(reader, "semaphores", value) ||
            !mscclpp_plan_read_number32(reader, value, "a semaphore", "init_value", INT32_MAX,
                                        &rank->semaphores[i++])) {
            return false;
        }
    }
    rank->semaphore_count = i;
    return true;
}

/* Reads the blocks of a rank. The reader's place is the rank at first, and then each of its blocks. */
static bool read_blocks(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_rank_t *rank)
{
    const mscclpp_json_t *array =
        mscclpp_plan_find_required(reader, object, "a rank", "threadblocks", MSCCLPP_JSON_ARRAY);
    int rank_number = reader->place.rank;

    if (array == NULL) {
        return false;
    }
    if (array->count > MSCCLPP_PLAN_MAX_BLOCKS) {
        return mscclpp_plan_refuse(reader, "limit", "%u blocks; the most is %d", array->count, MSCCLPP_PLAN_MAX_BLOCKS);
    }
    if (!mscclpp_plan_allocate(reader, array->count, sizeof(*rank->blocks), &rank->blocks)) {
        return false;
    }
    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next) {
        reader->place =
            (mscclpp_plan_place_t){.rank = rank_number, .block = (int)rank->block_count, .op = -1, .inner = -1};
        if (!read_block(reader, value, &rank->blocks[rank->block_count++])) {
            return false;
        }
    }
    return true;
}

/* Reads one rank. The reader's place must be the rank, and moves on to its blocks. */
static bool read_rank(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_rank_t *rank)
{
    static const char *const keys[] = {"input_chunks", "output_chunks", "scratch_chunks"};
    const mscclpp_json_t *remotes;
    uint32_t id = 0;

    if (!check_object(reader, "gpus", object) ||
        !mscclpp_plan_read_number32(reader, object, "a rank", "id", MSCCLPP_PLAN_MAX_TABLE, &id)) {
        return false;
    }
    if (id != (uint32_t)reader->place.rank) {
        return mscclpp_plan_refuse(reader, "position", "its \"id\" is %u and has to be its position", id);
    }
    for (int type = 0; type < MSCCLPP_PLAN_BUFFERS; ++type) {
        if (!mscclpp_plan_read_number32(reader, object, "a rank", keys[type], MSCCLPP_PLAN_MAX_CHUNKS,
                                        &rank->chunks[type])) {
            return false;
        }
    }
    remotes = mscclpp_plan_find_required(reader, object, "a rank", "remote_buffers", MSCCLPP_JSON_ARRAY);
    return remotes != NULL && read_channels(reader, object, rank) && read_semaphores(reader, object, rank) &&
           read_remotes(reader, remotes, rank) && read_blocks(reader, object, rank);
}

/* Reads a bool into *flag_p. If the key is absent and not required, *flag_p is unchanged. */
static bool read_flag(mscclpp_plan_reader_t *reader, const mscclpp_json_t *root, const char *key, bool is_needed,
                      bool *flag_p)
{
    bool is_valid = true;
    const mscclpp_json_t *value = is_needed
                                      ? mscclpp_plan_find_required(reader, root, "the plan", key, MSCCLPP_JSON_BOOL)
                                      : mscclpp_plan_find_optional(reader, root, key, MSCCLPP_JSON_BOOL, &is_valid);

    if (value == NULL) {
        return !is_needed && is_valid;
    }
    *flag_p = value->number != 0;
    return true;
}

/* Reads the name of the plan. */
static bool read_name(mscclpp_plan_reader_t *reader, const mscclpp_json_t *root, mscclpp_plan_t *plan)
{
    const mscclpp_json_t *name = mscclpp_plan_find_required(reader, root, "the plan", "name", MSCCLPP_JSON_STRING);

    if (name == NULL) {
        return false;
    }
    if (strlen(name->text) > MSCCLPP_PLAN_MAX_NAME) {
        return mscclpp_plan_refuse(reader, "limit", "a name of more than %d bytes", MSCCLPP_PLAN_MAX_NAME);
    }
    if (!mscclpp_plan_allocate(reader, strlen(name->text) + 1, 1, &plan->name)) {
        return false;
    }
    memcpy(plan->name, name->text, strlen(name->text)); /* the memory is zeroed, so the name ends with a zero byte */
    return true;
}

/*
 * Reads the values of the plan as a whole. Optional keys have these defaults:
 * - threads in a block: 1024, the most that a GPU allows;
 * - alignment of chunks: 16 bytes;
 * - messages: any size;
 * - "reuse_resources" and "use_double_scratch_buffer": false.
 */
static bool read_head(mscclpp_plan_reader_t *reader, const mscclpp_json_t *root, mscclpp_plan_t *plan)
{
    static const char *const protocols[] = {"Simple", "LL", NULL};
    int choice = 0;
    uint64_t threads = 0, alignment = 0;

    if (!read_name(reader, root, plan) ||
        !mscclpp_plan_read_choice(reader, root, "the plan", "collective", mscclpp_plan_collective_words, &choice)) {
        return false;
    }
    plan->collective = (mscclpp_plan_collective_t)choice;
    if (!mscclpp_plan_read_choice(reader, root, "the plan", "protocol", protocols, &choice)) {
        return false;
    }
    plan->uses_packets = choice == 1;
    if (!read_flag(reader, root, "inplace", true, &plan->in_place) ||
        !read_flag(reader, root, "reuse_resources", false, &plan->reuse) ||
        !read_flag(reader, root, "use_double_scratch_buffer", false, &plan->halves) ||
        !mscclpp_plan_read_number(reader, root, "the plan", "num_threads_per_block", 1024, false, 1024, &threads) ||
        !mscclpp_plan_read_number(reader, root, "the plan", "buffer_alignment", MSCCLPP_PLAN_MAX_ALIGNMENT, false, 16,
                                  &alignment) ||
        !mscclpp_plan_read_number(reader, root, "the plan", "min_message_size", UINT64_MAX, false, 0,
                                  &plan->min_bytes) ||
        !mscclpp_plan_read_number(reader, root, "the plan", "max_message_size", UINT64_MAX, false, UINT64_MAX,
                                  &plan->max_bytes)) {
        return false;
    }
    plan->threads = (uint32_t)threads;
    plan->alignment = (uint32_t)alignment;
    return true;
}

/*
 * Reads the bus addresses of the GPUs that the plan is for, one for each rank. The key is optional, and is an extension
 * that MSCCL++ does not know.
 */
static bool read_gpu_addresses(mscclpp_plan_reader_t *reader, const mscclpp_json_t *root, mscclpp_plan_t *plan)
{
    bool is_valid = true;
    const mscclpp_json_t *addresses =
        mscclpp_plan_find_optional(reader, root, "gpu_addresses", MSCCLPP_JSON_ARRAY, &is_valid);
    uint32_t rank = 0;

    if (addresses == NULL) {
        return is_valid;
    }
    if (addresses->count != plan->rank_count) {
        return mscclpp_plan_refuse(reader, "limit",
                                   "\"gpu_addresses\" has %u entries for %u ranks; it has to have one for each rank",
                                   addresses->count, plan->rank_count);
    }
    if (!mscclpp_plan_allocate(reader, addresses->count, sizeof(*plan->gpus), &plan->gpus)) {
        return false;
    }
    for (const mscclpp_json_t *address = addresses->first; address != NULL; address = address->next, ++rank) {
        if (address->type != MSCCLPP_JSON_STRING || strlen(address->text) >= MSCCLPP_PLAN_GPU) {
            return mscclpp_plan_refuse(reader, "type",
                                       "\"gpu_addresses\"[%u] has to be a string of at most %d characters", rank,
                                       MSCCLPP_PLAN_GPU - 1);
        }
        memcpy(plan->gpus[rank], address->text, strlen(address->text) + 1);
    }
    return true;
}

/* Reads the whole plan. The reader's place always names the current rank, block and operation for the findings. */
static bool read_plan(mscclpp_plan_reader_t *reader, const mscclpp_json_t *root, mscclpp_plan_t *plan)
{
    const mscclpp_json_t *gpus, *rank;

    if (root->type != MSCCLPP_JSON_OBJECT) {
        return mscclpp_plan_refuse(reader, "type", "it holds %s and has to hold an object",
                                   mscclpp_json_type_name(root->type));
    }
    gpus = mscclpp_json_get(root, "gpus");
    /*
     * A file of another version of the format would have many faults. The keys are checked first, so that an unknown
     * key is reported, and not a fault that follows from the unknown key.
     */
    if (!mscclpp_plan_check_keys(reader, root)) {
        return false;
    }
    for (rank = gpus != NULL ? gpus->first : NULL; rank != NULL; rank = rank->next) {
        if (!mscclpp_plan_check_keys(reader, rank)) {
            return false;
        }
    }
    if (!read_head(reader, root, plan)) {
        return false;
    }
    gpus = mscclpp_plan_find_required(reader, root, "the plan", "gpus", MSCCLPP_JSON_ARRAY);
    if (gpus == NULL) {
        return false;
    }
    if (gpus->count == 0 || gpus->count > MSCCLPP_PLAN_MAX_RANKS) {
        return mscclpp_plan_refuse(reader, "limit", "%u ranks; allowed are 1 to %d", gpus->count,
                                   MSCCLPP_PLAN_MAX_RANKS);
    }
    if (!mscclpp_plan_allocate(reader, gpus->count, sizeof(*plan->ranks), &plan->ranks)) {
        return false;
    }
    for (rank = gpus->first; rank != NULL; rank = rank->next) {
        reader->place = (mscclpp_plan_place_t){.rank = (int)plan->rank_count, .block = -1, .op = -1, .inner = -1};
        if (!read_rank(reader, rank, &plan->ranks[plan->rank_count++])) {
            return false;
        }
    }
    reader->place = mscclpp_plan_nowhere;
    return read_gpu_addresses(reader, root, plan);
}

/*
 * Returns a digest of the text. FNV-1a, with the high bits mixed in at the end, because proofs are named by the digest.
 */
static uint64_t compute_digest(const char *text, size_t size)
{
    uint64_t digest = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; ++i) {
        digest = (digest ^ (unsigned char)text[i]) * 0x100000001b3u;
    }
    digest ^= digest >> 32;
    return digest * 0x9e3779b97f4a7c15u;
}

/* The plan owns its arena, so mscclpp_plan_free frees everything at once. */
mscclpp_status_t mscclpp_plan_parse(const char *text, size_t size, mscclpp_plan_report_t *report,
                                    mscclpp_plan_t **plan_p)
{
    /* The arena of the JSON tree is freed as soon as the plan has been made. The other arena becomes the plan's. */
    mscclpp_plan_arena_t *tree_arena = mscclpp_plan_arena_new(), *arena = mscclpp_plan_arena_new();
    mscclpp_plan_reader_t reader = {.report = report, .arena = arena, .place = mscclpp_plan_nowhere};
    mscclpp_status_t status = tree_arena != NULL && arena != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    mscclpp_plan_t *plan = NULL;
    mscclpp_json_t *root = NULL;
    char reason[300] = "";

    if (status == MSCCLPP_OK) {
        status = mscclpp_json_parse(tree_arena, text, size, reason, sizeof(reason), &root);
    }
    if (status == MSCCLPP_ERR_INVALID || status == MSCCLPP_ERR_NOT_SUPPORTED) {
        mscclpp_plan_add_finding(report, MSCCLPP_PLAN_UNREAD, "json", mscclpp_plan_nowhere, "%s", reason);
    }
    if (status == MSCCLPP_OK && mscclpp_plan_allocate(&reader, 1, sizeof(*plan), &plan)) {
        plan->arena = arena;
        plan->digest = compute_digest(text, size);
        plan->file_bytes = size;
        status = read_plan(&reader, root, plan) ? MSCCLPP_OK : MSCCLPP_ERR_INVALID;
    }
    if (reader.no_memory || status == MSCCLPP_ERR_NO_MEMORY) {
        report->no_memory = true;
        status = MSCCLPP_ERR_NO_MEMORY;
    }
    mscclpp_plan_arena_free(tree_arena);
    if (status != MSCCLPP_OK) {
        mscclpp_plan_arena_free(arena);
        return status;
    }
    *plan_p = plan;
    return MSCCLPP_OK;
}

void mscclpp_plan_free(mscclpp_plan_t *plan)
{
    if (plan != NULL) {
        mscclpp_plan_arena_free(plan->arena);
    }
}
