/* Reads topologies in JSON, in this tool's own format or in that of msccl-tools. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/json.h"
#include "tools/synth/lib/topology.h"

/* The state of reading one file. Functions that return bool return false after they have put a message into `reason`.
 */
typedef struct {
    char *reason;
    size_t reason_size;
    synth_topology_t *topology;
    const mscclpp_json_t *groups;        /* the value of "groups" */
    signed char state[SYNTH_MAX_GROUPS]; /* [group]: its state while one group is added: 0, RESOLVING or RESOLVED */
    int links[SYNTH_MAX_LINKS];          /* the links of the group that is added, as indices in the topology */
    int link_count;
    bool has_no_memory;
} reader_t;

/* RESOLVING: its links are being collected, so a group that finds it contains itself; RESOLVED: its links are known */
enum { RESOLVING = 1, RESOLVED = 2 };

static bool refuse(reader_t *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes the message. Returns false, so that the caller can return it. */
static bool refuse(reader_t *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->reason, reader->reason_size, format, arguments);
    va_end(arguments);
    return false;
}

static bool end_without_memory(reader_t *reader)
{
    reader->has_no_memory = true;
    return refuse(reader, "no memory");
}

/*
 * Returns the text of a value for a message: a number, or the name of its type. The function may write the text into
 * `text`.
 */
static const char *value_text(const mscclpp_json_t *value, char *text, size_t size)
{
    if (value == NULL) {
        return "missing";
    }
    if (value->type == MSCCLPP_JSON_UNSIGNED) {
        snprintf(text, size, "%llu", (unsigned long long)value->number);
    } else if (value->type == MSCCLPP_JSON_NUMBER) {
        snprintf(text, size, "%.40s", value->text);
    } else {
        snprintf(text, size, "%s", mscclpp_json_type_name(value->type));
    }
    return text;
}

/* Reads a whole number from `min` to `max`. `subject` names it in messages. */
static bool read_whole(reader_t *reader, const mscclpp_json_t *value, const char *subject, int min, int max,
                       int *number_p)
{
    char text[64];

    if (value == NULL || value->type != MSCCLPP_JSON_UNSIGNED || value->number < (uint64_t)min ||
        value->number > (uint64_t)max) {
        return refuse(reader, "%s is %s; allowed are whole numbers from %d to %d", subject,
                      value_text(value, text, sizeof(text)), min, max);
    }
    *number_p = (int)value->number;
    return true;
}

/* Refuses a value that is missing or no array. `subject` names it in the message. */
static bool expect_array(reader_t *reader, const mscclpp_json_t *value, const char *subject)
{
    char text[64];

    if (value == NULL || value->type != MSCCLPP_JSON_ARRAY) {
        return refuse(reader, "%s is %s; it has to be an array", subject, value_text(value, text, sizeof(text)));
    }
    return true;
}

/* Refuses an object that has any key that is not in `keys`, which ends with NULL. `subject` names the object. */
static bool expect_known_keys(reader_t *reader, const mscclpp_json_t *object, const char *subject,
                              const char *const *keys)
{
    for (const mscclpp_json_t *member = object->first; member != NULL; member = member->next) {
        size_t i = 0;

        while (keys[i] != NULL && strcmp(keys[i], member->key) != 0) {
            ++i;
        }
        if (keys[i] == NULL) {
            return refuse(reader, "%s has the unknown key \"%.40s\"", subject, member->key);
        }
    }
    return true;
}

/*
 * Reads the ranks of a link, [from, to] or [from, to, capacity]. The two ranks must differ. The caller reads the
 * capacity.
 */
static bool read_ends(reader_t *reader, const mscclpp_json_t *value, const char *subject, int *from, int *to)
{
    int last_rank = reader->topology->ranks - 1;

    if (!expect_array(reader, value, subject)) {
        return false;
    }
    if (value->count < 2 || value->count > 3) {
        return refuse(reader, "%s has %u numbers; a link is [from, to] or [from, to, count]", subject, value->count);
    }
    if (!read_whole(reader, value->first, subject, 0, last_rank, from) ||
        !read_whole(reader, value->first->next, subject, 0, last_rank, to)) {
        return false;
    }
    return *from != *to || refuse(reader, "%s joins rank %d to itself", subject, *from);
}

/* Adds a link. Refuses it if its capacity becomes too large. */
static bool add_link(reader_t *reader, const char *subject, int from, int to, int capacity)
{
    synth_topology_add_link(reader->topology, from, to, capacity);
    return reader->topology->links[reader->topology->link_between[from][to]].capacity <= SYNTH_MAX_CAPACITY ||
           refuse(reader, "%s makes the link %d to %d larger than %d", subject, from, to, SYNTH_MAX_CAPACITY);
}

/*
 * Reads and adds the links, if there are any. No link may occur twice. If `both_ways` is true, each entry means a link
 * in both directions.
 */
static bool read_links(reader_t *reader, const mscclpp_json_t *links, bool both_ways)
{
    int i = 0;

    if (links == NULL) {
        return true;
    }
    if (!expect_array(reader, links, "\"links\"")) {
        return false;
    }
    for (const mscclpp_json_t *link = links->first; link != NULL; link = link->next, ++i) {
        char subject[32];
        int from, to, capacity = 1;

        snprintf(subject, sizeof(subject), "link %d", i);
        if (!read_ends(reader, link, subject, &from, &to) ||
            (link->count == 3 && !read_whole(reader, link->last, subject, 1, SYNTH_MAX_CAPACITY, &capacity))) {
            return false;
        }
        if (reader->topology->link_between[from][to] >= 0 ||
            (both_ways && reader->topology->link_between[to][from] >= 0)) {
            return refuse(reader, "%s joins %d to %d a second time", subject, from, to);
        }
        if (!add_link(reader, subject, from, to, capacity) ||
            (both_ways && !add_link(reader, subject, to, from, capacity))) {
            return false;
        }
    }
    return true;
}

/* Reads an array of ranks as a set. Refuses an empty set, and a rank that occurs twice. */
static bool read_set(reader_t *reader, const mscclpp_json_t *value, const char *subject, uint64_t *set_p)
{
    *set_p = 0;
    if (!expect_array(reader, value, subject)) {
        return false;
    }
    for (const mscclpp_json_t *item = value->first; item != NULL; item = item->next) {
        int rank;

        if (!read_whole(reader, item, subject, 0, reader->topology->ranks - 1, &rank)) {
            return false;
        }
        if ((*set_p >> rank & 1) != 0) {
            return refuse(reader, "%s names rank %d twice", subject, rank);
        }
        *set_p |= UINT64_C(1) << rank;
    }
    return *set_p != 0 || refuse(reader, "%s is empty", subject);
}

/* Adds a link to the list of links, unless the list has it. */
static void add_to_group(reader_t *reader, int link)
{
    for (int i = 0; i < reader->link_count; ++i) {
        if (reader->links[i] == link) {
            return;
        }
    }
    reader->links[reader->link_count++] = link; /* no link comes twice, so there is room */
}

/* Returns the first group with this name, or NULL. *position_p is its position in "groups". */
static const mscclpp_json_t *find_group(const reader_t *reader, const char *name, int *position_p)
{
    int position = 0;

    for (const mscclpp_json_t *group = reader->groups->first; group != NULL; group = group->next, ++position) {
        const mscclpp_json_t *key = mscclpp_json_get(group, "name");

        if (key != NULL && key->type == MSCCLPP_JSON_STRING && strcmp(key->text, name) == 0) {
            *position_p = position;
            return group;
        }
    }
    return NULL;
}

/*
 * Adds links to the list of links: those from each rank of the group's "from" to each rank of its "to". If such a link
 * does not exist, it is added to the topology with `capacity`.
 */
static bool add_product(reader_t *reader, const mscclpp_json_t *group, const char *subject, int capacity)
{
    uint64_t senders, receivers;

    if (!read_set(reader, mscclpp_json_get(group, "from"), subject, &senders) ||
        !read_set(reader, mscclpp_json_get(group, "to"), subject, &receivers)) {
        return false;
    }
    for (int sender = 0; sender < reader->topology->ranks; ++sender) {
        for (int receiver = 0; receiver < reader->topology->ranks; ++receiver) {
            if (sender != receiver && (senders >> sender & 1) != 0 && (receivers >> receiver & 1) != 0) {
                if (reader->topology->link_between[sender][receiver] < 0) {
                    synth_topology_add_link(reader->topology, sender, receiver, capacity);
                }
                add_to_group(reader, reader->topology->link_between[sender][receiver]);
            }
        }
    }
    return true;
}

/*
 * Adds the links of a group, and of the groups that it contains, to the list of links. Refuses a group that contains
 * itself.
 */
static bool collect_links(reader_t *reader, const mscclpp_json_t *group, int position)
{
    const mscclpp_json_t *links = mscclpp_json_get(group, "links"), *inner_names = mscclpp_json_get(group, "groups");
    char subject[SYNTH_NAME + 16];
    int from, to, capacity;

    snprintf(subject, sizeof(subject), "group \"%.60s\"", mscclpp_json_get(group, "name")->text);
    if (reader->state[position] == RESOLVING) {
        return refuse(reader, "%s holds itself, directly or through other groups", subject);
    }
    reader->state[position] = RESOLVING;
    if (!read_whole(reader, mscclpp_json_get(group, "cap"), subject, 1, SYNTH_MAX_CAPACITY, &capacity)) {
        return false;
    }
    if (links != NULL && !expect_array(reader, links, subject)) {
        return false;
    }
    for (const mscclpp_json_t *link = links != NULL ? links->first : NULL; link != NULL; link = link->next) {
        if (!read_ends(reader, link, subject, &from, &to)) {
            return false;
        }
        if (reader->topology->link_between[from][to] < 0) {
            return refuse(reader, "%s names a link %d to %d, which is not in \"links\"", subject, from, to);
        }
        add_to_group(reader, reader->topology->link_between[from][to]);
    }
    if ((mscclpp_json_get(group, "from") != NULL || mscclpp_json_get(group, "to") != NULL) &&
        !add_product(reader, group, subject, capacity)) {
        return false;
    }
    if (inner_names != NULL && !expect_array(reader, inner_names, subject)) {
        return false;
    }
    for (const mscclpp_json_t *name = inner_names != NULL ? inner_names->first : NULL; name != NULL;
         name = name->next) {
        const mscclpp_json_t *inner;
        int inner_position = 0;

        inner = name->type == MSCCLPP_JSON_STRING ? find_group(reader, name->text, &inner_position) : NULL;
        if (inner == NULL) {
            return refuse(reader, "%s holds a group that is not there", subject);
        }
        if (reader->state[inner_position] != RESOLVED && !collect_links(reader, inner, inner_position)) {
            return false;
        }
    }
    reader->state[position] = RESOLVED;
    return true;
}

/*
 * Adds all groups, if there are any. The form of all groups is checked first, because a group may contain groups that
 * come later in the file.
 */
static bool read_groups(reader_t *reader, const mscclpp_json_t *groups)
{
    static const char *const keys[] = {"name", "links", "from", "to", "groups", "cap", NULL};
    int position = 0, capacity = 0, first_position = 0;

    if (groups == NULL) {
        return true;
    }
    if (!expect_array(reader, groups, "\"groups\"")) {
        return false;
    }
    if (groups->count > SYNTH_MAX_GROUPS) {
        return refuse(reader, "\"groups\" has %u groups; %d are allowed", groups->count, SYNTH_MAX_GROUPS);
    }
    reader->groups = groups;
    for (const mscclpp_json_t *group = groups->first; group != NULL; group = group->next) {
        const mscclpp_json_t *name;

        if (group->type != MSCCLPP_JSON_OBJECT) {
            return refuse(reader, "a group is %s; it has to be an object", mscclpp_json_type_name(group->type));
        }
        name = mscclpp_json_get(group, "name");
        if (!expect_known_keys(reader, group, "a group", keys)) {
            return false;
        }
        if (name == NULL || name->type != MSCCLPP_JSON_STRING || strlen(name->text) >= SYNTH_NAME) {
            return refuse(reader, "a group has no \"name\" of at most %d letters", SYNTH_NAME - 1);
        }
    }
    for (const mscclpp_json_t *group = groups->first; group != NULL; group = group->next, ++position) {
        const char *name = mscclpp_json_get(group, "name")->text;

        find_group(reader, name, &first_position); /* finds this group, or a group before it with the same name */
        if (first_position != position) {
            return refuse(reader, "there are two groups \"%.60s\"", name);
        }
        memset(reader->state, 0, sizeof(reader->state));
        reader->link_count = 0;
        if (!collect_links(reader, group, position)) {
            return false;
        }
        if (reader->link_count == 0) {
            return refuse(reader, "group \"%.60s\" has no links", name);
        }
        capacity = (int)mscclpp_json_get(group, "cap")->number; /* collect_links has checked it */
        if (!synth_topology_add_group(reader->topology, name, capacity, reader->links, reader->link_count)) {
            return end_without_memory(reader);
        }
    }
    return true;
}

/* Reads the ranks of each node, if the file has them. Every rank has to be in exactly one node. */
static bool read_nodes(reader_t *reader, const mscclpp_json_t *nodes)
{
    uint64_t placed = 0, set;
    int node = 0;

    if (nodes == NULL) {
        return true;
    }
    if (!expect_array(reader, nodes, "\"nodes\"")) {
        return false;
    }
    for (const mscclpp_json_t *item = nodes->first; item != NULL; item = item->next, ++node) {
        if (!read_set(reader, item, "a node", &set)) {
            return false;
        }
        if ((placed & set) != 0) {
            return refuse(reader, "a rank stands in two nodes");
        }
        placed |= set;
        for (int rank = 0; rank < reader->topology->ranks; ++rank) {
            if ((set >> rank & 1) != 0) {
                reader->topology->node_of[rank] = node;
            }
        }
    }
    reader->topology->node_count = node;
    return placed == UINT64_MAX >> (64 - reader->topology->ranks) || refuse(reader, "a rank stands in no node");
}

/* Reads the PCI addresses of the ranks' GPUs, if they are given. */
static bool read_gpus(reader_t *reader, const mscclpp_json_t *gpus)
{
    int rank = 0;

    if (gpus == NULL) {
        return true;
    }
    if (!expect_array(reader, gpus, "\"gpus\"")) {
        return false;
    }
    if ((int)gpus->count != reader->topology->ranks) {
        return refuse(reader, "\"gpus\" has %d entries; each of %d ranks has one", (int)gpus->count,
                      reader->topology->ranks);
    }
    for (const mscclpp_json_t *item = gpus->first; item != NULL; item = item->next, ++rank) {
        if (item->type != MSCCLPP_JSON_STRING || strlen(item->text) >= SYNTH_GPU ||
            strpbrk(item->text, "\"\\") != NULL) {
            return refuse(reader, "entry %d of \"gpus\" has to be an address such as \"0000:1b:00.0\"", rank);
        }
        memcpy(reader->topology->gpu[rank], item->text, strlen(item->text) + 1);
    }
    return true;
}

/*
 * Reads a positive number into *rate_p, which has to be 0 before the call. Without a value it remains 0, which means
 * unknown.
 */
static bool read_rate(reader_t *reader, const mscclpp_json_t *value, const char *subject, double *rate_p)
{
    char text[64];

    if (value == NULL) {
        return true;
    }
    if (value->type == MSCCLPP_JSON_UNSIGNED) {
        *rate_p = (double)value->number;
    } else if (value->type == MSCCLPP_JSON_NUMBER) {
        *rate_p = strtod(value->text, NULL);
    }
    return (*rate_p > 0 && *rate_p < 1e6) || refuse(reader, "%s is %s; allowed are numbers above 0 and below 1000000",
                                                    subject, value_text(value, text, sizeof(text)));
}

/* Makes the topology with the name that the file gives, and without links. */
static bool make_topology(reader_t *reader, const mscclpp_json_t *root, int ranks)
{
    const mscclpp_json_t *name = mscclpp_json_get(root, "name");

    if (name == NULL || name->type != MSCCLPP_JSON_STRING || name->text[0] == '\0' ||
        strlen(name->text) >= SYNTH_NAME) {
        return refuse(reader, "\"name\" has to be a text of 1 to %d letters", SYNTH_NAME - 1);
    }
    reader->topology = synth_topology_new(name->text, ranks);
    return reader->topology != NULL || end_without_memory(reader);
}

/* Reads a topology in this tool's own JSON format (docs/synthesis.md). */
static bool read_own(reader_t *reader, const mscclpp_json_t *root)
{
    static const char *const keys[] = {"version",       "name",   "ranks", "unit_GBps", "alpha_us", "links",
                                       "bidirectional", "groups", "nodes", "gpus",      NULL};
    const mscclpp_json_t *both = mscclpp_json_get(root, "bidirectional");
    int version, ranks;

    if (!expect_known_keys(reader, root, "the topology", keys) ||
        !read_whole(reader, mscclpp_json_get(root, "version"), "\"version\"", 1, 1, &version) ||
        !read_whole(reader, mscclpp_json_get(root, "ranks"), "\"ranks\"", 2, SYNTH_MAX_RANKS, &ranks) ||
        !make_topology(reader, root, ranks)) {
        return false;
    }
    if (both != NULL && both->type != MSCCLPP_JSON_BOOL) {
        return refuse(reader, "\"bidirectional\" is %s; allowed are true and false",
                      mscclpp_json_type_name(both->type));
    }
    return read_links(reader, mscclpp_json_get(root, "links"), both != NULL && both->number != 0) &&
           read_groups(reader, mscclpp_json_get(root, "groups")) &&
           read_nodes(reader, mscclpp_json_get(root, "nodes")) && read_gpus(reader, mscclpp_json_get(root, "gpus")) &&
           read_rate(reader, mscclpp_json_get(root, "unit_GBps"), "\"unit_GBps\"", &reader->topology->unit_gbps) &&
           read_rate(reader, mscclpp_json_get(root, "alpha_us"), "\"alpha_us\"", &reader->topology->alpha_us);
}

/*
 * Reads a switch of msccl-tools, [sources, targets, capacity, name]: it becomes a group of the links from sources to
 * targets, if there are any.
 */
static bool read_switch(reader_t *reader, const mscclpp_json_t *item)
{
    uint64_t from, to;
    int capacity, links[SYNTH_MAX_LINKS], count = 0;
    char name[SYNTH_NAME];

    if (!expect_array(reader, item, "a switch")) {
        return false;
    }
    if (item->count != 4 || item->last->type != MSCCLPP_JSON_STRING) {
        return refuse(reader, "a switch has to be [sources, targets, capacity, name]");
    }
    if (!read_set(reader, item->first, "the sources of a switch", &from) ||
        !read_set(reader, item->first->next, "the targets of a switch", &to) ||
        !read_whole(reader, item->first->next->next, "the capacity of a switch", 1, SYNTH_MAX_CAPACITY, &capacity)) {
        return false;
    }
    for (int i = 0; i < reader->topology->link_count; ++i) {
        const synth_link_t *link = &reader->topology->links[i];

        if ((from >> link->from & 1) != 0 && (to >> link->to & 1) != 0) {
            links[count++] = i;
        }
    }
    snprintf(name, sizeof(name), "%.60s", item->last->text);
    if (reader->topology->group_count == SYNTH_MAX_GROUPS) {
        return refuse(reader, "more than %d switches", SYNTH_MAX_GROUPS);
    }
    return count == 0 || synth_topology_add_group(reader->topology, name, capacity, links, count) ||
           end_without_memory(reader);
}

/* Reads a topology of msccl-tools. Row i of "links" contains the capacities of the links into rank i. */
static bool read_msccl(reader_t *reader, const mscclpp_json_t *root)
{
    static const char *const keys[] = {"msccl_type", "name", "links", "switches", NULL};
    const mscclpp_json_t *links = mscclpp_json_get(root, "links"), *switches = mscclpp_json_get(root, "switches");
    int to = 0;

    if (!expect_known_keys(reader, root, "the topology", keys) || !expect_array(reader, links, "\"links\"")) {
        return false;
    }
    if (links->count < 2 || links->count > SYNTH_MAX_RANKS) {
        return refuse(reader, "\"links\" has %u rows; allowed are 2 to %d", links->count, SYNTH_MAX_RANKS);
    }
    if (!make_topology(reader, root, (int)links->count)) {
        return false;
    }
    for (const mscclpp_json_t *row = links->first; row != NULL; row = row->next, ++to) {
        int from = 0, capacity;

        if (!expect_array(reader, row, "a row of \"links\"")) {
            return false;
        }
        if (row->count != links->count) {
            return refuse(reader, "row %d of \"links\" has %u numbers; it has to have %u", to, row->count,
                          links->count);
        }
        for (const mscclpp_json_t *item = row->first; item != NULL; item = item->next, ++from) {
            if (!read_whole(reader, item, "a number of \"links\"", 0, SYNTH_MAX_CAPACITY, &capacity)) {
                return false;
            }
            if (capacity > 0 && from == to) {
                return refuse(reader, "\"links\" joins rank %d to itself", to);
            }
            if (capacity > 0) {
                synth_topology_add_link(reader->topology, from, to, capacity);
            }
        }
    }
    /* Switches are read after all links, because they refer to links. */
    if (switches != NULL && !expect_array(reader, switches, "\"switches\"")) {
        return false;
    }
    for (const mscclpp_json_t *item = switches != NULL ? switches->first : NULL; item != NULL; item = item->next) {
        if (!read_switch(reader, item)) {
            return false;
        }
    }
    return true;
}

/*
 * Returns the status of mscclpp_json_parse if that fails, MSCCLPP_ERR_INVALID if the JSON is no topology, and
 * MSCCLPP_ERR_NO_MEMORY. Except for MSCCLPP_ERR_NO_MEMORY, a text is in `reason`.
 */
mscclpp_status_t synth_topology_parse(const char *text, size_t size, char *reason, size_t reason_size,
                                      synth_topology_t **topology_p)
{
    mscclpp_plan_arena_t *arena = mscclpp_plan_arena_new();
    reader_t *reader = calloc(1, sizeof(*reader));
    mscclpp_json_t *root = NULL;
    mscclpp_status_t status = arena != NULL && reader != NULL ? MSCCLPP_OK : MSCCLPP_ERR_NO_MEMORY;
    bool ok = false;

    if (status == MSCCLPP_OK) {
        status = mscclpp_json_parse(arena, text, size, reason, reason_size, &root);
    }
    if (status == MSCCLPP_OK) {
        reader->reason = reason;
        reader->reason_size = reason_size;
        if (root->type != MSCCLPP_JSON_OBJECT) {
            ok = refuse(reader, "a topology is %s; it has to be an object", mscclpp_json_type_name(root->type));
        } else if (mscclpp_json_get(root, "msccl_type") != NULL) {
            ok = read_msccl(reader, root);
        } else {
            ok = read_own(reader, root);
        }
        ok = ok && synth_topology_connected(reader->topology, reason, reason_size);
        status = ok ? MSCCLPP_OK : reader->has_no_memory ? MSCCLPP_ERR_NO_MEMORY : MSCCLPP_ERR_INVALID;
    }
    /* The message may quote the file: control characters are replaced. */
    for (char *cursor = reason; status == MSCCLPP_ERR_INVALID && *cursor != '\0'; ++cursor) {
        if ((unsigned char)*cursor < ' ' || *cursor == 0x7f) {
            *cursor = '?';
        }
    }
    if (status == MSCCLPP_OK) {
        *topology_p = reader->topology;
    } else if (reader != NULL) {
        synth_topology_free(reader->topology);
    }
    free(reader);
    mscclpp_plan_arena_free(arena);
    return status;
}
