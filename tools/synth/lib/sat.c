/*
 * The encoding has two main kinds of variables: "a rank has a chunk before a step" and "a link carries a chunk in a
 * step". Variables that a symmetry maps onto one another form a class and are one variable of the solver.
 */
#include "tools/synth/lib/sat.h"

#ifdef MSCCLPP_HAVE_CADICAL

#include <ccadical.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"

/* Larger instances are not tried. */
enum {
    MAX_VARIABLES = 40000000,
    MAX_COUNTED = 512, /* most entries of a counter */
    MAX_EXTRAS = 500   /* most rounds beyond one for each step, plus 1 */
};

enum { SATISFIABLE = 10, UNSATISFIABLE = 20 }; /* answers of CaDiCaL */

typedef struct {
    const synth_topology_t *topology;
    const synth_demand_t *demand;
    const synth_symmetry_t *symmetry;
    int steps, rounds;
    CCaDiCaL *solver;
    int next_variable;              /* the number of the next new variable of the solver */
    int *have_class, *send_class;   /* [chunk * ranks + rank], [chunk * links + link]: the number of the class */
    int have_classes, send_classes; /* how many there are */
    int *have, *send;               /* [step * classes + class]: NEVER, ALWAYS, or the number of a variable */
    int *extra;                     /* [step * (rounds + 1) + j]: the variable "the step has more than j + 1 rounds" */
    int *earliest; /* [chunk * ranks + rank]: the first step before which the rank can have the chunk */
    int *latest;   /* likewise: the last step before which the chunk is still useful there */
    /* [chunk]: 1 for the first chunk of its class; clauses are written for first chunks only */
    unsigned char *is_representative;
    int distance[SYNTH_MAX_RANKS][SYNTH_MAX_RANKS]; /* in links */
    double deadline;                                /* by mscclpp_now */
    const volatile sig_atomic_t *stop;              /* NULL: never */
    bool lacks_memory;                              /* encode has failed because memory ran out */
} encoding_t;

/* Values of entries of `have` and `send` that are no variables. */
enum { NEVER = 0, ALWAYS = -1 };

bool synth_sat_available(void)
{
    return true;
}

/* Returns a value other than 0 if the time is over or the caller has asked to stop. The solver calls it. */
static int should_end(void *context)
{
    const encoding_t *encoding = context;

    return mscclpp_now() > encoding->deadline || (encoding->stop != NULL && *encoding->stop != 0);
}

/* Adds a clause to the solver: one of the literals has to be true. */
static void add_clause(encoding_t *encoding, int count, const int *literals)
{
    for (int i = 0; i < count; ++i) {
        ccadical_add(encoding->solver, literals[i]);
    }
    ccadical_add(encoding->solver, 0);
}

/*
 * Returns the image of a chunk under a symmetry. A rank's block becomes the block of the rank's image. In an
 * all-to-all, the part of the block for a receiver becomes the part for the receiver's image. The chunk's index in the
 * block or part does not change. A broadcast has only the root's block, and its symmetries map the root onto itself.
 */
static int chunk_image(const encoding_t *encoding, const unsigned char *map, int chunk)
{
    const synth_demand_t *demand = encoding->demand;
    int block = chunk / demand->chunks, index = chunk % demand->chunks;

    if (demand->collective == SYNTH_BROADCAST) {
        return chunk;
    }
    if (demand->collective == SYNTH_ALLTOALL) {
        int per_receiver = demand->chunks / demand->ranks;

        index = map[index / per_receiver] * per_receiver + index % per_receiver;
    }
    return map[block] * demand->chunks + index;
}

/* Returns the link that a symmetry maps the given link onto. */
static int link_image(const encoding_t *encoding, const unsigned char *map, int link)
{
    const synth_link_t *ends = &encoding->topology->links[link];

    return encoding->topology->link_between[map[ends->from]][map[ends->to]];
}

/*
 * Numbers the classes of pairs of a chunk and a rank, and of pairs of a chunk and a link. Marks the first chunk of each
 * class of chunks. The symmetries have to form a group: one pass over them then finds a whole class. Returns false if
 * memory runs out; the caller frees the arrays in either case.
 */
static bool classify(encoding_t *encoding)
{
    const synth_topology_t *topology = encoding->topology;
    int ranks = topology->ranks, links = topology->link_count, count = encoding->demand->total_chunks;

    encoding->have_class = malloc(sizeof(int) * (size_t)count * ranks);
    encoding->send_class = malloc(sizeof(int) * (size_t)count * links);
    encoding->is_representative = malloc((size_t)count);
    if (encoding->have_class == NULL || encoding->send_class == NULL || encoding->is_representative == NULL) {
        encoding->lacks_memory = true;
        return false;
    }
    memset(encoding->have_class, -1, sizeof(int) * (size_t)count * ranks);
    memset(encoding->send_class, -1, sizeof(int) * (size_t)count * links);
    memset(encoding->is_representative, 1, (size_t)count);
    for (int chunk = 0; chunk < count; ++chunk) {
        for (int symmetry = 0; symmetry < encoding->symmetry->count; ++symmetry) {
            const unsigned char *map = encoding->symmetry->map[symmetry];
            int image = chunk_image(encoding, map, chunk);

            if (image > chunk) {
                encoding->is_representative[image] = 0;
            }
        }
        for (int rank = 0; rank < ranks; ++rank) {
            bool is_new = encoding->have_class[chunk * ranks + rank] < 0;

            for (int symmetry = 0; is_new && symmetry < encoding->symmetry->count; ++symmetry) {
                const unsigned char *map = encoding->symmetry->map[symmetry];

                encoding->have_class[chunk_image(encoding, map, chunk) * ranks + map[rank]] = encoding->have_classes;
            }
            encoding->have_classes += is_new;
        }
        for (int link = 0; link < links; ++link) {
            bool is_new = encoding->send_class[chunk * links + link] < 0;

            for (int symmetry = 0; is_new && symmetry < encoding->symmetry->count; ++symmetry) {
                const unsigned char *map = encoding->symmetry->map[symmetry];

                encoding->send_class[chunk_image(encoding, map, chunk) * links + link_image(encoding, map, link)] =
                    encoding->send_classes;
            }
            encoding->send_classes += is_new;
        }
    }
    return true;
}

/*
 * Computes the window of steps in which a chunk can be at a rank and is of use there: from `earliest`, its distance
 * from the source, to `latest`, the last step from which it reaches the nearest rank that wants it in time. A negative
 * `latest` means that there is none. If a chunk cannot reach a rank that wants it in encoding->steps steps, makes the
 * instance unsatisfiable.
 */
static void find_windows(encoding_t *encoding)
{
    const synth_demand_t *demand = encoding->demand;
    int ranks = demand->ranks;

    for (int chunk = 0; chunk < demand->total_chunks; ++chunk) {
        for (int rank = 0; rank < ranks; ++rank) {
            const int entry = chunk * ranks + rank, arrival = encoding->distance[demand->source[chunk]][rank];
            int nearest = encoding->steps + 1;

            for (int receiver = 0; receiver < ranks; ++receiver) {
                if ((demand->wanted[chunk] >> receiver & 1) != 0 && encoding->distance[rank][receiver] < nearest) {
                    nearest = encoding->distance[rank][receiver];
                }
            }
            if ((demand->wanted[chunk] >> rank & 1) != 0 && arrival > encoding->steps) {
                add_clause(encoding, 0, NULL); /* an empty clause: the rank is too far away for so few steps */
            }
            encoding->earliest[entry] = arrival;
            encoding->latest[entry] = encoding->steps - nearest;
        }
    }
}

/* Returns the entry of `have` for "the rank has the chunk before the step". */
static int *have_entry(encoding_t *encoding, int step, int chunk, int rank)
{
    return &encoding
                ->have[step * encoding->have_classes + encoding->have_class[chunk * encoding->demand->ranks + rank]];
}

/* Returns the entry of `send` for "the link carries the chunk in the step". */
static int *send_entry(encoding_t *encoding, int step, int chunk, int link)
{
    return &encoding->send[step * encoding->send_classes +
                           encoding->send_class[chunk * encoding->topology->link_count + link]];
}

/*
 * Gives each entry its variable, step by step. Entries whose value is known become ALWAYS or remain NEVER, the value
 * that calloc gave them. A chunk is always at its source, and at the end at all ranks that want it. It is nowhere
 * before `earliest`, and it is not sent to its source or to a rank where it would be useless. The first chunk of a
 * class represents its class.
 */
static void number_variables(encoding_t *encoding)
{
    const synth_demand_t *demand = encoding->demand;
    int ranks = demand->ranks;

    for (int step = 0; step <= encoding->steps; ++step) {
        for (int chunk = 0; chunk < demand->total_chunks; ++chunk) {
            for (int rank = 0; encoding->is_representative[chunk] != 0 && rank < ranks; ++rank) {
                int *have = have_entry(encoding, step, chunk, rank);

                if (step >= encoding->earliest[chunk * ranks + rank] && *have == NEVER) {
                    bool is_certain = rank == demand->source[chunk] ||
                                      (step == encoding->steps && (demand->wanted[chunk] >> rank & 1) != 0);

                    *have = is_certain ? ALWAYS : encoding->next_variable++;
                }
            }
        }
        for (int chunk = 0; step < encoding->steps && chunk < demand->total_chunks; ++chunk) {
            for (int link_number = 0;
                 encoding->is_representative[chunk] != 0 && link_number < encoding->topology->link_count;
                 ++link_number) {
                const synth_link_t *link = &encoding->topology->links[link_number];

                if (link->to != demand->source[chunk] && step >= encoding->earliest[chunk * ranks + link->from] &&
                    step + 1 <= encoding->latest[chunk * ranks + link->to] &&
                    *send_entry(encoding, step, chunk, link_number) == NEVER) {
                    *send_entry(encoding, step, chunk, link_number) = encoding->next_variable++;
                }
            }
        }
        for (int j = 0; step < encoding->steps && j < encoding->rounds - encoding->steps; ++j) {
            encoding->extra[step * (encoding->rounds + 1) + j] = encoding->next_variable++;
        }
    }
}

/*
 * Adds the clause "if the condition holds, then the entry does", or "then the entry does not" if `sign` is -1. The
 * condition is a variable; the entry may also be NEVER or ALWAYS.
 */
static void add_implication(encoding_t *encoding, int condition, int entry, int sign)
{
    bool is_true = sign > 0 ? entry == ALWAYS : entry == NEVER, is_false = sign > 0 ? entry == NEVER : entry == ALWAYS;
    int literals[2] = {-condition, sign * entry};

    if (!is_true) {
        add_clause(encoding, is_false ? 1 : 2, literals);
    }
}

/*
 * Adds the clauses of one chunk at one rank in a step. Only a rank that has the chunk sends it. The chunk arrives at
 * most once, and only where it is missing. A chunk that has arrived stays. After the step it is there only if it was
 * there before or has arrived. A send is a variable or NEVER; `before` and `after` may also be ALWAYS, and then need no
 * literal.
 */
static void write_chunk(encoding_t *encoding, int chunk, int rank, int step)
{
    const synth_topology_t *topology = encoding->topology;
    int before = *have_entry(encoding, step, chunk, rank), after = *have_entry(encoding, step + 1, chunk, rank);
    int arrivals[SYNTH_MAX_RANKS + 2],
        count = 0; /* the sends that bring it; at last, a clause with two more literals */

    for (int from = 0; from < topology->ranks; ++from) {
        int link = from == rank ? -1 : topology->link_between[from][rank];
        int send = link < 0 ? NEVER : *send_entry(encoding, step, chunk, link);

        if (send != NEVER) {
            add_implication(encoding, send, *have_entry(encoding, step, chunk, from), 1);
            add_implication(encoding, send, after, 1);
            add_implication(encoding, send, before, -1);
            for (int i = 0; i < count; ++i) {
                add_clause(encoding, 2, (int[]){-arrivals[i], -send});
            }
            arrivals[count++] = send;
        }
    }
    if (before > 0) {
        add_implication(encoding, before, after, 1);
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

/*
 * Extends a sequential counter by one literal. Afterwards, for each j below *length: if more than j of the literals
 * counted so far are true, counter[j] is true (not the other way round). *length is their number, but at most
 * `max_length`, which must not exceed MAX_COUNTED, the room of a counter. The entries are replaced by new variables.
 */
static void extend_counter(encoding_t *encoding, int literal, int *counter, int *length, int max_length)
{
    int extended[MAX_COUNTED], extended_length = *length < max_length ? *length + 1 : max_length;

    for (int j = 0; j < extended_length; ++j) {
        extended[j] = encoding->next_variable++;
        if (j < *length) {
            add_clause(encoding, 2, (int[]){-counter[j], extended[j]});
        }
        if (j == 0) {
            add_clause(encoding, 2, (int[]){-literal, extended[0]});
        } else {
            add_clause(encoding, 3, (int[]){-literal, -counter[j - 1], extended[j]});
        }
    }
    memcpy(counter, extended, sizeof(int) * (size_t)extended_length);
    *length = extended_length;
}

/*
 * Adds the limit of a link or group in a step: a step that carries more than fits into some number of rounds has more
 * rounds than that. `links` contains the one link, or the links of the group. Returns false if the instance is too
 * large.
 */
static bool write_capacity(encoding_t *encoding, const int *links, int count, int capacity, int step)
{
    int extras = encoding->rounds - encoding->steps, max_counted = capacity * (extras + 1) + 1, length = 0;
    int counter[MAX_COUNTED];

    if (max_counted > MAX_COUNTED) { /* no clauses are needed if all chunks fit into one round; otherwise the instance
                                          is too large */
        return capacity >= encoding->demand->total_chunks;
    }
    for (int chunk = 0; chunk < encoding->demand->total_chunks; ++chunk) {
        for (int i = 0; i < count; ++i) {
            int send = *send_entry(encoding, step, chunk, links[i]);

            if (send != NEVER) {
                extend_counter(encoding, send, counter, &length, max_counted);
            }
        }
    }
    for (int j = 0; j <= extras; ++j) {
        int too_many = capacity * (j + 1); /* if this entry is true, the step needs more than j + 1 rounds */

        if (too_many < length && j < extras) {
            add_clause(encoding, 2, (int[]){-counter[too_many], encoding->extra[step * (encoding->rounds + 1) + j]});
        } else if (too_many < length) {
            add_clause(encoding, 1, (int[]){-counter[too_many]});
        }
    }
    return true;
}

/*
 * Adds the limits of all links and groups in all steps. Among the links that symmetries map onto one another, only the
 * first gets clauses, because their sends are the same variables. Returns false if the instance is too large.
 */
static bool write_capacities(encoding_t *encoding)
{
    const synth_topology_t *topology = encoding->topology;
    bool ok = true;

    for (int step = 0; ok && step < encoding->steps; ++step) {
        for (int link = 0; ok && link < topology->link_count; ++link) {
            bool is_representative = true;

            for (int symmetry = 0; symmetry < encoding->symmetry->count; ++symmetry) {
                is_representative =
                    is_representative && link_image(encoding, encoding->symmetry->map[symmetry], link) >= link;
            }
            ok = !is_representative || write_capacity(encoding, &link, 1, topology->links[link].capacity, step);
        }
        for (int i = 0; ok && i < topology->group_count; ++i) {
            const synth_group_t *group = &topology->groups[i];

            ok = write_capacity(encoding, group->links, group->count, group->capacity, step);
        }
    }
    return ok;
}

/*
 * Limits the total number of rounds. Each step has at least one round, so only the extra rounds are counted. Also adds
 * the clauses that a step with more than j + 1 rounds has more than j rounds. encode has checked that a counter has
 * room for the extra rounds.
 */
static void write_rounds(encoding_t *encoding)
{
    int extras = encoding->rounds - encoding->steps, length = 0, counter[MAX_COUNTED];

    for (int step = 0; step < encoding->steps; ++step) {
        const int *extra = &encoding->extra[step * (encoding->rounds + 1)];

        for (int j = 0; j < extras; ++j) {
            if (j > 0) {
                add_clause(encoding, 2, (int[]){-extra[j], extra[j - 1]});
            }
            extend_counter(encoding, extra[j], counter, &length, extras + 1);
        }
    }
    if (length > extras) {
        add_clause(encoding, 1, (int[]){-counter[extras]});
    }
}

/*
 * Writes the whole instance, which has at least as many rounds as steps. Classes come first, then windows, which
 * determine the entries that become variables, then the clauses. Returns false if the instance is too large, if the
 * time is over, if the caller has asked to stop, or if memory runs out. The caller frees the arrays in either case.
 */
static bool encode(encoding_t *encoding)
{
    size_t count = (size_t)encoding->demand->total_chunks, ranks = (size_t)encoding->demand->ranks;
    size_t steps = (size_t)encoding->steps;

    if (encoding->rounds - encoding->steps + 1 > MAX_EXTRAS || !classify(encoding)) {
        return false;
    }
    encoding->have = calloc((steps + 1) * (size_t)encoding->have_classes, sizeof(int));
    encoding->send = calloc(steps * (size_t)encoding->send_classes + 1, sizeof(int));
    encoding->extra = calloc(steps * (size_t)(encoding->rounds + 1) + 1, sizeof(int));
    encoding->earliest = malloc(sizeof(int) * count * ranks);
    encoding->latest = malloc(sizeof(int) * count * ranks);
    if (encoding->have == NULL || encoding->send == NULL || encoding->extra == NULL || encoding->earliest == NULL ||
        encoding->latest == NULL) {
        encoding->lacks_memory = true;
        return false;
    }
    synth_topology_distances(encoding->topology, encoding->distance);
    find_windows(encoding);
    encoding->next_variable = 1;
    number_variables(encoding);
    for (int step = 0; step < encoding->steps; ++step) {
        for (int chunk = 0; chunk < encoding->demand->total_chunks; ++chunk) {
            for (int rank = 0; encoding->is_representative[chunk] != 0 && rank < encoding->demand->ranks; ++rank) {
                write_chunk(encoding, chunk, rank, step);
            }
        }
        if (encoding->next_variable > MAX_VARIABLES || should_end(encoding)) {
            return false;
        }
    }
    write_rounds(encoding);
    return write_capacities(encoding);
}

/*
 * Returns the schedule that the solver found, without sends that no rank needs. Returns NULL if memory runs out. Sends
 * are read for all chunks, not only for the first one of each class: the chunks of one class share variables.
 */
static synth_schedule_t *decode(encoding_t *encoding)
{
    const synth_demand_t *demand = encoding->demand;
    synth_schedule_t *schedule = synth_schedule_new(demand->collective, demand->ranks, demand->root, demand->chunks);
    bool ok = schedule != NULL;

    for (int step = 0; ok && step < encoding->steps; ++step) {
        for (int chunk = 0; ok && chunk < demand->total_chunks; ++chunk) {
            for (int link = 0; ok && link < encoding->topology->link_count; ++link) {
                int send = *send_entry(encoding, step, chunk, link);

                if (send > 0 && ccadical_val(encoding->solver, send) > 0) {
                    ok = synth_schedule_add(schedule, chunk, encoding->topology->links[link].from,
                                            encoding->topology->links[link].to, step, false);
                }
            }
        }
    }
    if (ok) {
        schedule->steps = encoding->steps;
        ok = synth_schedule_prune(schedule);
        synth_schedule_set_rounds(encoding->topology, schedule);
    }
    if (!ok) {
        synth_schedule_free(schedule);
        return NULL;
    }
    return schedule;
}

/*
 * Encodes the question as a formula in conjunctive normal form, lets CaDiCaL solve it, and decodes the solution. There
 * is no schedule with fewer rounds than steps, because each step takes at least one round.
 */
synth_sat_answer_t synth_sat_search(const synth_topology_t *topology, const synth_demand_t *demand, int steps,
                                    int rounds, const synth_symmetry_t *symmetry, bool optimistic, double seconds,
                                    const volatile sig_atomic_t *stop, synth_schedule_t **schedule_p)
{
    encoding_t *encoding = calloc(1, sizeof(*encoding));
    synth_sat_answer_t answer = SYNTH_SAT_UNKNOWN;

    if (encoding == NULL) {
        return SYNTH_SAT_NO_MEMORY;
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
        answer = result == UNSATISFIABLE ? SYNTH_SAT_NONE : SYNTH_SAT_UNKNOWN;
        if (result == SATISFIABLE) {
            *schedule_p = decode(encoding);
            answer = *schedule_p != NULL ? SYNTH_SAT_FOUND : SYNTH_SAT_NO_MEMORY;
        }
    } else if (rounds < steps) {
        answer = SYNTH_SAT_NONE;
    } else if (encoding->solver == NULL || encoding->lacks_memory) {
        answer = SYNTH_SAT_NO_MEMORY;
    }
    if (encoding->solver != NULL) {
        ccadical_release(encoding->solver);
    }
    free(encoding->have_class);
    free(encoding->send_class);
    free(encoding->is_representative);
    free(encoding->have);
    free(encoding->send);
    free(encoding->extra);
    free(encoding->earliest);
    free(encoding->latest);
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
                                    const volatile sig_atomic_t *stop, synth_schedule_t **schedule_p)
{
    (void)topology, (void)demand, (void)steps, (void)rounds, (void)symmetry, (void)optimistic, (void)seconds,
        (void)stop;
    (void)schedule_p;
    return SYNTH_SAT_ABSENT;
}

#endif
