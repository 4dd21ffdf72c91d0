/*
 * The encoding: have(c, n, s) says that rank n has chunk c before step s, x(c, l, s) that link l carries it in step s.
 * A symmetry maps variables onto each other; each class has one number.
 */
#include "tools/synth/lib/sat.h"

#ifdef MSCCLPP_HAVE_CADICAL

#include <ccadical.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"

enum { MOST_VARIABLES = 40000000 };

typedef struct {
    const synth_topology_t *topology;
    const synth_demand_t *demand;
    const synth_symmetry_t *symmetry;
    int steps, rounds;
    CCaDiCaL *solver;
    int next;                     /* number of the next variable */
    int *have_class, *send_class; /* [chunk][rank], [chunk][link] */
    int have_classes, send_classes;
    int *have, *send;  /* [step][class]: 0 never, -1 always, else a variable */
    int *extra;        /* [step][j]: the step has more than j + 1 rounds */
    int *early, *late; /* [chunk][rank]: the step from which it can be there, and by which it has to be, to be of use */
    unsigned char *first; /* [chunk]: it is the first of its class; clauses are written for these alone */
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS];
    double deadline;
    const volatile int *stop;
} encoding_t;

enum { NEVER = 0, ALWAYS = -1 };

bool synth_sat_available(void)
{
    return true;
}

/* For the solver: whether the time is up or the caller has asked to stop. */
static int should_end(void *context)
{
    const encoding_t *encoding = context;

    return mscclpp_now() > encoding->deadline || (encoding->stop != NULL && *encoding->stop != 0);
}

/* Adds a clause to the solver. */
static void add_clause(encoding_t *encoding, int count, const int *literals)
{
    for (int i = 0; i < count; ++i) {
        ccadical_add(encoding->solver, literals[i]);
    }
    ccadical_add(encoding->solver, 0);
}

/* The chunk that a symmetry maps a chunk onto. */
static int chunk_image(const encoding_t *encoding, const unsigned char *map, int chunk)
{
    const synth_demand_t *demand = encoding->demand;
    int block = chunk / demand->chunks, within = chunk % demand->chunks;

    if (demand->collective == SYNTH_BROADCAST) {
        return chunk;
    }
    if (demand->collective == SYNTH_ALLTOALL) {
        int each = demand->chunks / demand->ranks;

        within = map[within / each] * each + within % each;
    }
    return map[block] * demand->chunks + within;
}

/* The link that a symmetry maps a link onto. */
static int link_image(const encoding_t *encoding, const unsigned char *map, int link)
{
    const synth_link_t *from = &encoding->topology->links[link];

    return encoding->topology->link_between[map[from->from]][map[from->to]];
}

/* Numbers the classes of (chunk, rank) and (chunk, link) that symmetries map onto each other. False without memory. */
static bool classify(encoding_t *encoding)
{
    const synth_topology_t *topology = encoding->topology;
    int n = topology->ranks, e = topology->link_count, count = encoding->demand->count;

    encoding->have_class = malloc(sizeof(int) * (size_t)count * n);
    encoding->send_class = malloc(sizeof(int) * (size_t)count * e);
    encoding->first = malloc((size_t)count);
    if (encoding->have_class == NULL || encoding->send_class == NULL || encoding->first == NULL) {
        return false;
    }
    memset(encoding->have_class, -1, sizeof(int) * (size_t)count * n);
    memset(encoding->send_class, -1, sizeof(int) * (size_t)count * e);
    memset(encoding->first, 1, (size_t)count);
    for (int c = 0; c < count; ++c) {
        for (int g = 0; g < encoding->symmetry->count; ++g) {
            const unsigned char *map = encoding->symmetry->map[g];
            int image = chunk_image(encoding, map, c);

            if (image > c) {
                encoding->first[image] = 0;
            }
        }
        for (int r = 0; r < n; ++r) {
            bool fresh = encoding->have_class[c * n + r] < 0;

            for (int g = 0; fresh && g < encoding->symmetry->count; ++g) {
                const unsigned char *map = encoding->symmetry->map[g];

                encoding->have_class[chunk_image(encoding, map, c) * n + map[r]] = encoding->have_classes;
            }
            encoding->have_classes += fresh;
        }
        for (int l = 0; l < e; ++l) {
            bool fresh = encoding->send_class[c * e + l] < 0;

            for (int g = 0; fresh && g < encoding->symmetry->count; ++g) {
                const unsigned char *map = encoding->symmetry->map[g];

                encoding->send_class[chunk_image(encoding, map, c) * e + link_image(encoding, map, l)] =
                    encoding->send_classes;
            }
            encoding->send_classes += fresh;
        }
    }
    return true;
}

/* Computes, for each chunk and rank, the earliest step that the chunk can be there and the latest at which it is
 * still of use. */
static void find_windows(encoding_t *encoding)
{
    const synth_demand_t *demand = encoding->demand;
    int n = demand->ranks;

    for (int c = 0; c < demand->count; ++c) {
        for (int r = 0; r < n; ++r) {
            int nearest = encoding->steps + 1;

            for (int t = 0; t < n; ++t) {
                if ((demand->wanted[c] >> t & 1) != 0 && encoding->distance[r][t] < nearest) {
                    nearest = encoding->distance[r][t];
                }
            }
            encoding->early[c * n + r] = encoding->distance[demand->source[c]][r];
            if ((demand->wanted[c] >> r & 1) != 0 && encoding->early[c * n + r] > encoding->steps) {
                add_clause(encoding, 0, NULL); /* too far away for so few steps */
            }
            encoding->late[c * n + r] = encoding->steps - nearest;
        }
    }
}

/* The variable "rank has chunk before step". */
static int *have_at(encoding_t *encoding, int step, int chunk, int rank)
{
    return &encoding
                ->have[step * encoding->have_classes + encoding->have_class[chunk * encoding->demand->ranks + rank]];
}

/* The variable "link carries chunk in step". */
static int *send_at(encoding_t *encoding, int step, int chunk, int link)
{
    return &encoding->send[step * encoding->send_classes +
                           encoding->send_class[chunk * encoding->topology->link_count + link]];
}

/* Gives each variable a number, step by step, in the order in which the clauses name them. */
static void number_variables(encoding_t *encoding)
{
    const synth_demand_t *demand = encoding->demand;
    int n = demand->ranks;

    for (int s = 0; s <= encoding->steps; ++s) {
        for (int c = 0; c < demand->count; ++c) {
            for (int r = 0; encoding->first[c] != 0 && r < n; ++r) {
                int *have = have_at(encoding, s, c, r);

                if (s >= encoding->early[c * n + r] && *have == NEVER) {
                    bool sure = r == demand->source[c] || (s == encoding->steps && (demand->wanted[c] >> r & 1) != 0);

                    *have = sure ? ALWAYS : encoding->next++;
                }
            }
        }
        for (int c = 0; s < encoding->steps && c < demand->count; ++c) {
            for (int l = 0; encoding->first[c] != 0 && l < encoding->topology->link_count; ++l) {
                const synth_link_t *link = &encoding->topology->links[l];

                if (link->to != demand->source[c] && s >= encoding->early[c * n + link->from] &&
                    s + 1 <= encoding->late[c * n + link->to] && *send_at(encoding, s, c, l) == NEVER) {
                    *send_at(encoding, s, c, l) = encoding->next++;
                }
            }
        }
        for (int j = 0; s < encoding->steps && j < encoding->rounds - encoding->steps; ++j) {
            encoding->extra[s * (encoding->rounds + 1) + j] = encoding->next++;
        }
    }
}

/* Adds "if a then b", where b may be a constant. `sign` -1 negates b. */
static void implies(encoding_t *encoding, int a, int b, int sign)
{
    bool holds = sign > 0 ? b == ALWAYS : b == NEVER, fails = sign > 0 ? b == NEVER : b == ALWAYS;
    int literals[2] = {-a, sign * b};

    if (!holds) {
        add_clause(encoding, fails ? 1 : 2, literals);
    }
}

/* Adds the clauses of one chunk at one rank in a step: it is sent by who has it, arrives once at most, stays, and is
 * there only if it came. */
static void write_chunk(encoding_t *encoding, int chunk, int rank, int step)
{
    const synth_topology_t *topology = encoding->topology;
    int before = *have_at(encoding, step, chunk, rank), after = *have_at(encoding, step + 1, chunk, rank);
    int arrivals[SYNTH_MAX_RANKS + 2], count = 0;

    for (int from = 0; from < topology->ranks; ++from) {
        int link = from == rank ? -1 : topology->link_between[from][rank];
        int send = link < 0 ? NEVER : *send_at(encoding, step, chunk, link);

        if (send != NEVER) {
            implies(encoding, send, *have_at(encoding, step, chunk, from), 1);
            implies(encoding, send, after, 1);
            implies(encoding, send, before, -1);
            for (int i = 0; i < count; ++i) {
                add_clause(encoding, 2, (int[]){-arrivals[i], -send});
            }
            arrivals[count++] = send;
        }
    }
    if (before > 0) {
        implies(encoding, before, after, 1);
    }
    if (after == NEVER || before == ALWAYS) {
        return;
    }
    if (after > 0) {
        arrivals[count++] = -after;
    }
    if (before > 0) {
        arrivals[count++] = before;
    }
    add_clause(encoding, count, arrivals);
}

/* Extends a counter by one literal. counter[j] says that more than j of the literals so far are true, for j below
 * `most`. */
static void count_up(encoding_t *encoding, int literal, int *counter, int *length, int most)
{
    int next[512], grown = *length < most ? *length + 1 : most;

    for (int j = 0; j < grown; ++j) {
        next[j] = encoding->next++;
        if (j < *length) {
            add_clause(encoding, 2, (int[]){-counter[j], next[j]});
        }
        if (j == 0) {
            add_clause(encoding, 2, (int[]){-literal, next[0]});
        } else {
            add_clause(encoding, 3, (int[]){-literal, -counter[j - 1], next[j]});
        }
    }
    memcpy(counter, next, sizeof(int) * (size_t)grown);
    *length = grown;
}

/* Adds the limit of a link or group in a step: it carries more than j + 1 rounds' worth only if the step has that
 * many rounds. False if the instance is too large. */
static bool write_capacity(encoding_t *encoding, const int *links, int count, int capacity, int step)
{
    int extras = encoding->rounds - encoding->steps, most = capacity * (extras + 1) + 1, length = 0;
    int counter[512];

    if (most > 512) { /* as many as there are chunks fit anyway, or the instance is too large */
        return capacity >= encoding->demand->count;
    }
    for (int c = 0; c < encoding->demand->count; ++c) {
        for (int k = 0; k < count; ++k) {
            int send = *send_at(encoding, step, c, links[k]);

            if (send != NEVER) {
                count_up(encoding, send, counter, &length, most);
            }
        }
    }
    for (int j = 0; j <= extras; ++j) {
        int more = capacity * (j + 1); /* counter[more]: the step needs more than j + 1 rounds */

        if (more < length && j < extras) {
            add_clause(encoding, 2, (int[]){-counter[more], encoding->extra[step * (encoding->rounds + 1) + j]});
        } else if (more < length) {
            add_clause(encoding, 1, (int[]){-counter[more]});
        }
    }
    return true;
}

/* Adds the limits of all links and groups in all steps. False if the instance is too large. */
static bool write_capacities(encoding_t *encoding)
{
    const synth_topology_t *topology = encoding->topology;
    bool fine = true;

    for (int s = 0; fine && s < encoding->steps; ++s) {
        for (int l = 0; fine && l < topology->link_count; ++l) {
            bool first = true;

            for (int g = 0; g < encoding->symmetry->count; ++g) {
                first = first && link_image(encoding, encoding->symmetry->map[g], l) >= l;
            }
            fine = !first || write_capacity(encoding, &l, 1, topology->links[l].capacity, s);
        }
        for (int i = 0; fine && i < topology->group_count; ++i) {
            const synth_group_t *group = &topology->groups[i];

            fine = write_capacity(encoding, group->links, group->count, group->capacity, s);
        }
    }
    return fine;
}

/* Adds the limit of the sum of all steps' rounds. */
static void write_rounds(encoding_t *encoding)
{
    int extras = encoding->rounds - encoding->steps, length = 0, counter[512];

    for (int s = 0; s < encoding->steps; ++s) {
        const int *extra = &encoding->extra[s * (encoding->rounds + 1)];

        for (int j = 0; j < extras; ++j) {
            if (j > 0) {
                add_clause(encoding, 2, (int[]){-extra[j], extra[j - 1]});
            }
            count_up(encoding, extra[j], counter, &length, extras + 1);
        }
    }
    if (length > extras) {
        add_clause(encoding, 1, (int[]){-counter[extras]});
    }
}

/* Writes the whole instance. False if it is too large, or without time or memory. */
static bool encode(encoding_t *encoding)
{
    size_t count = (size_t)encoding->demand->count, n = (size_t)encoding->demand->ranks;
    size_t steps = (size_t)encoding->steps;

    if (encoding->rounds - encoding->steps + 1 > 500 || !classify(encoding)) {
        return false;
    }
    encoding->have = calloc((steps + 1) * (size_t)encoding->have_classes, sizeof(int));
    encoding->send = calloc(steps * (size_t)encoding->send_classes + 1, sizeof(int));
    encoding->extra = calloc(steps * (size_t)(encoding->rounds + 1) + 1, sizeof(int));
    encoding->early = malloc(sizeof(int) * count * n);
    encoding->late = malloc(sizeof(int) * count * n);
    if (encoding->have == NULL || encoding->send == NULL || encoding->extra == NULL || encoding->early == NULL ||
        encoding->late == NULL) {
        return false;
    }
    synth_topology_distances(encoding->topology, encoding->distance);
    find_windows(encoding);
    encoding->next = 1;
    number_variables(encoding);
    for (int s = 0; s < encoding->steps; ++s) {
        for (int c = 0; c < encoding->demand->count; ++c) {
            for (int r = 0; encoding->first[c] != 0 && r < encoding->demand->ranks; ++r) {
                write_chunk(encoding, c, r, s);
            }
        }
        if (encoding->next > MOST_VARIABLES || should_end(encoding)) {
            return false;
        }
    }
    write_rounds(encoding);
    return write_capacities(encoding);
}

/* The schedule that the solver found. NULL without memory. */
static synth_schedule_t *decode(encoding_t *encoding)
{
    const synth_demand_t *demand = encoding->demand;
    synth_schedule_t *schedule = synth_schedule_new(demand->collective, demand->ranks, demand->root, demand->chunks);
    bool fine = schedule != NULL;

    for (int s = 0; fine && s < encoding->steps; ++s) {
        for (int c = 0; fine && c < demand->count; ++c) {
            for (int l = 0; fine && l < encoding->topology->link_count; ++l) {
                int send = *send_at(encoding, s, c, l);

                if (send > 0 && ccadical_val(encoding->solver, send) > 0) {
                    fine = synth_schedule_add(schedule, c, encoding->topology->links[l].from,
                                              encoding->topology->links[l].to, s, false);
                }
            }
        }
    }
    if (fine) {
        schedule->steps = encoding->steps;
        fine = synth_schedule_prune(schedule);
        synth_schedule_fit(encoding->topology, schedule);
    }
    if (!fine) {
        synth_schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

synth_sat_answer_t synth_sat_search(const synth_topology_t *topology, const synth_demand_t *demand, int steps,
                                    int rounds, const synth_symmetry_t *symmetry, bool optimistic, double seconds,
                                    const volatile int *stop, synth_schedule_t **schedule_p)
{
    encoding_t *encoding = calloc(1, sizeof(*encoding));
    synth_sat_answer_t answer = SYNTH_SAT_UNKNOWN;

    if (encoding == NULL) {
        return answer;
    }
    encoding->topology = topology;
    encoding->demand = demand;
    encoding->symmetry = symmetry;
    encoding->steps = steps;
    encoding->rounds = rounds;
    encoding->stop = stop;
    encoding->deadline = mscclpp_now() + seconds;
    encoding->solver = ccadical_init();
    if (encoding->solver != NULL) {
        ccadical_set_option(encoding->solver, "quiet", 1);
        ccadical_set_option(encoding->solver, "phase", optimistic);
    }
    if (rounds >= steps && encoding->solver != NULL && encode(encoding)) {
        int result;

        ccadical_set_terminate(encoding->solver, encoding, should_end);
        result = ccadical_solve(encoding->solver);
        answer = result == 20 ? SYNTH_SAT_NONE : SYNTH_SAT_UNKNOWN;
        if (result == 10) {
            *schedule_p = decode(encoding);
            answer = *schedule_p != NULL ? SYNTH_SAT_FOUND : SYNTH_SAT_UNKNOWN;
        }
    } else if (rounds < steps) {
        answer = SYNTH_SAT_NONE;
    }
    if (encoding->solver != NULL) {
        ccadical_release(encoding->solver);
    }
    free(encoding->have_class);
    free(encoding->send_class);
    free(encoding->first);
    free(encoding->have);
    free(encoding->send);
    free(encoding->extra);
    free(encoding->early);
    free(encoding->late);
    free(encoding);
    return answer;
}

#else

bool synth_sat_available(void)
{
    return false;
}

synth_sat_answer_t synth_sat_search(const synth_topology_t *topology, const synth_demand_t *demand, int steps,
                                    int rounds, const synth_symmetry_t *symmetry, bool optimistic, double seconds,
                                    const volatile int *stop, synth_schedule_t **schedule_p)
{
    (void)topology, (void)demand, (void)steps, (void)rounds, (void)symmetry, (void)optimistic, (void)seconds,
        (void)stop;
    (void)schedule_p;
    return SYNTH_SAT_ABSENT;
}

#endif
