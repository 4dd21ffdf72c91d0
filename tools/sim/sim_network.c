/*
 * Networks. A plane consists of one rail of each node; planes share no links. A link carries one message after another
 * at its rate, in the order in which their first bytes arrive. A link forwards a message while the rest of the message
 * still arrives, so the slowest link on the way determines how long a message takes. Latency is counted once for a
 * message, not once for each link.
 *
 * In `full`, only the links of the nodes themselves are modelled, no links between them.
 *
 * In `fat-tree`, the nodes of a group share a leaf switch. The switch spreads messages over its uplinks, so these are
 * modelled as one link whose rate is the sum of their rates. The downlinks are modelled in the same way.
 *
 * In `dragonfly`, each group has a link to each other group. A message takes the direct link, or a detour over one of
 * two groups chosen at random if the detour saves enough time.
 */
#include <math.h>
#include <stdlib.h>

#include "tools/sim/sim.h"

const char *const sim_network_names[SIM_NETWORKS] = {"full", "fat-tree", "dragonfly"};
const char *const sim_class_names[SIM_CLASSES] = {"sending", "receiving", "up", "down", "global"};

enum { DETOURS = 2 }; /* how many random detours are considered for each message */

typedef struct {
    double free_at; /* when the link can begin to carry the next message, seconds */
    double bytes;   /* carried so far */
} link_t;

struct sim_links {
    const sim_run_t *run;
    /* nodes: how many nodes have links; 1 if node 0 is simulated for all and receives its own messages */
    uint32_t nodes, groups;
    double rate;                 /* of a rail, bytes a second */
    double middle_rate;          /* the rate of a link between groups, up or down, in bytes a second */
    link_t *sending, *receiving; /* [node] */
    link_t *up, *down;           /* [group], of a fat tree */
    link_t *global;              /* [from group][to group], of a dragonfly */
    uint64_t random_state;
};

/* Returns the next random number of 64 bits, by S. Vigna's splitmix64. */
static uint64_t draw_random(sim_links_t *links)
{
    uint64_t mixed = (links->random_state += 0x9e3779b97f4a7c15u);

    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* Allocates the links of all classes, even those that this network does not have. */
sim_links_t *sim_links_create(const sim_run_t *run, uint32_t nodes, uint64_t seed)
{
    sim_links_t *links = calloc(1, sizeof(*links));
    /*
     * The rate at which a group can send to all other groups. In a dragonfly this rate is divided among the links to
     * the other groups.
     */
    const double group_rate = run->figures.bandwidth * run->group / run->taper;

    if (links == NULL) {
        return NULL;
    }
    *links = (sim_links_t){.run = run,
                           .nodes = nodes,
                           .groups = (run->schedule.nodes + run->group - 1) / run->group,
                           .rate = run->figures.bandwidth,
                           .random_state = seed};
    links->middle_rate =
        run->network == SIM_DRAGONFLY && links->groups > 1 ? group_rate / (links->groups - 1) : group_rate;
    links->sending = calloc(nodes, sizeof(link_t));
    links->receiving = calloc(nodes, sizeof(link_t));
    links->up = calloc(links->groups, sizeof(link_t));
    links->down = calloc(links->groups, sizeof(link_t));
    links->global = calloc((size_t)links->groups * links->groups, sizeof(link_t));
    if (links->sending == NULL || links->receiving == NULL || links->up == NULL || links->down == NULL ||
        links->global == NULL) {
        sim_links_destroy(links);
        return NULL;
    }
    return links;
}

void sim_links_destroy(sim_links_t *links)
{
    if (links != NULL) {
        free(links->sending);
        free(links->receiving);
        free(links->up);
        free(links->down);
        free(links->global);
        free(links);
    }
}

/*
 * Puts a message whose first byte arrives at `now` on a link of `rate` bytes a second. Returns when the link begins to
 * carry it.
 */
static double carry(link_t *link, sim_message_t *message, double now, double rate)
{
    const double begin = fmax(now, link->free_at), end = begin + message->bytes / rate;

    link->free_at = end;
    link->bytes += message->bytes;
    message->end = fmax(message->end, end);
    return begin;
}

double sim_links_send(sim_links_t *links, sim_message_t *message, double now)
{
    link_t *link = &links->sending[message->from % links->nodes];
    double begin;

    message->end = 0;
    begin = carry(link, message, now, links->rate);
    link->free_at = fmax(link->free_at, begin + links->run->figures.gap);
    return begin;
}

double sim_links_draw_delay(sim_links_t *links)
{
    const double uniform = (double)(draw_random(links) >> 11) * 0x1p-53; /* at least 0, below 1 */

    return links->run->jitter > 0 ? -links->run->jitter * log1p(-uniform) : 0;
}

/* Returns the link of a dragonfly from one group to another. */
static link_t *global_link(sim_links_t *links, uint32_t from, uint32_t to)
{
    return &links->global[(size_t)from * links->groups + to];
}

/*
 * Sends a message from one group to another. Takes a detour over a third group if this is faster by at least the time
 * that a link needs for the message. Returns the time at which the first byte of the message has passed.
 */
static double cross_dragonfly(sim_links_t *links, sim_message_t *message, double now, uint32_t from, uint32_t to)
{
    const double link_seconds = message->bytes / links->middle_rate;
    double best_end = fmax(now, global_link(links, from, to)->free_at) + link_seconds;
    uint32_t via = to, i;

    for (i = 0; i < DETOURS; ++i) {
        const uint32_t group = (uint32_t)(draw_random(links) % links->groups);

        if (group != from && group != to) {
            const double via_begin = fmax(now, global_link(links, from, group)->free_at);
            const double end = fmax(via_begin, global_link(links, group, to)->free_at) + link_seconds;

            /* A detour occupies two links, so it has to save at least the time for which it occupies the second one. */
            if (end + link_seconds < best_end) {
                best_end = end;
                via = group;
            }
        }
    }
    now = carry(global_link(links, from, via), message, now, links->middle_rate);
    return via == to ? now : carry(global_link(links, via, to), message, now, links->middle_rate);
}

/* Does nothing for two nodes of one group, and in a full network: there are no links between groups. */
double sim_links_cross_groups(sim_links_t *links, sim_message_t *message, double now)
{
    const uint32_t from = message->from / links->run->group, to = message->to / links->run->group;

    if (from == to || links->run->network == SIM_FULL) {
        return now;
    }
    if (links->run->network == SIM_DRAGONFLY) {
        return cross_dragonfly(links, message, now, from, to);
    }
    now = carry(&links->up[from], message, now, links->middle_rate);
    return carry(&links->down[to], message, now, links->middle_rate);
}

double sim_links_receive(sim_links_t *links, sim_message_t *message, double now)
{
    link_t *link = &links->receiving[message->to % links->nodes];
    const double begin = carry(link, message, now, links->rate);

    link->free_at = fmax(link->free_at, begin + links->run->figures.gap);
    return message->end;
}

/*
 * Adds the traffic of `count` links during `time` seconds to the statistics of their class. `time` is above 0, and
 * `rate` is in bytes a second.
 */
static void add_class_traffic(sim_traffic_t *traffic, const link_t *link, size_t count, double rate, double time)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        const double total = traffic->mean_bytes * (double)traffic->links + link[i].bytes,
                     busy = link[i].bytes / rate / time;

        traffic->min_bytes =
            traffic->links == 0 || link[i].bytes < traffic->min_bytes ? link[i].bytes : traffic->min_bytes;
        traffic->max_bytes = fmax(traffic->max_bytes, link[i].bytes);
        traffic->mean_bytes = total / (double)++traffic->links;
        traffic->busy_fraction = fmax(traffic->busy_fraction, busy);
    }
}

/*
 * Adds the traffic of a run of `time` seconds. Counts only the classes that this network has. A dragonfly's array also
 * has an entry for each group to itself, which is no link.
 */
void sim_links_add_traffic(const sim_links_t *links, double time, sim_result_t *result)
{
    const bool is_tree = links->run->network == SIM_FAT_TREE;
    uint32_t from, to;

    if (!(time > 0)) {
        return;
    }
    add_class_traffic(&result->traffic[SIM_SENDING], links->sending, links->nodes, links->rate, time);
    add_class_traffic(&result->traffic[SIM_RECEIVING], links->receiving, links->nodes, links->rate, time);
    add_class_traffic(&result->traffic[SIM_UP], links->up, is_tree ? links->groups : 0, links->middle_rate, time);
    add_class_traffic(&result->traffic[SIM_DOWN], links->down, is_tree ? links->groups : 0, links->middle_rate, time);
    for (from = 0; from < links->groups && links->run->network == SIM_DRAGONFLY; ++from) {
        for (to = 0; to < links->groups; ++to) {
            add_class_traffic(&result->traffic[SIM_GLOBAL], &links->global[(size_t)from * links->groups + to],
                              from != to, links->middle_rate, time);
        }
    }
}
