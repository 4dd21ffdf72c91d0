#include "mca/common/algo/rules.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/algo/algo.h"
#include "mca/common/algo/coll.h"
#include "mca/common/algo/rule_figures.h"
#include "mca/common/algo/rule_names.h"
#include "mca/common/algo/rule_sets.h"
#include "mca/common/base/config.h"
#include "mca/common/base/file.h"
#include "mca/common/base/log.h"

/* No rule is longer. A longer line may be too large for memory, and means that this is no rules file: reading ends. */
#define LINE_MAX_LENGTH 500

/* The largest size that a rule may give, in bytes. */
#define BYTES_MAX ((uint64_t)1 << 40)

/*
 * The most ranks and nodes that a rule may be for. More ranks than a node can have need nodes=. Their number is that of
 * MSCCLPP_DEV_MAX_RANKS.
 */
#define RANKS_MAX 131072
#define NODES_MAX 16384
#define RANKS_ALLOWED "a whole number from 2 to 64, or with nodes=2 or more to 131072"
_Static_assert(MSCCLPP_DEV_MAX_RANKS == 64, "the text above says how many ranks a node can have");

#define PLAN_PREFIX "plan:"

/* The place of the line that is being read, for messages. */
typedef struct {
    const char *path;
    int line;
} source_t;

/* The words of a rule. All up to KEY_ALGORITHM must be given; the others may be left out. */
typedef enum {
    KEY_RANKS,
    KEY_DEVICE,
    KEY_BYTES,
    KEY_ALGORITHM,
    KEY_COLLECTIVE,
    KEY_PLACE,
    KEY_NODES,
    KEY_COUNT
} rule_key_t;

/* The keys, each with the sign between key and value. */
static const char *const keys[KEY_COUNT] = {
    "ranks=", "device=", "bytes<=", "algorithm=", "collective=", "in_place=", "nodes="};

/* The parsed values of one line. */
typedef struct {
    bool is_given[KEY_COUNT]; /* the line has the key */
    uint32_t nranks;
    bool on_twin;
    mscclpp_coll_t coll;   /* MSCCLPP_COLL_LAST: all-reduce */
    const char *algorithm; /* the name in the line, of an algorithm or a plan */
    mscclpp_rule_t rule;
} line_t;

/*
 * Logs that the value of a word is not allowed, and what is. Shows a character that cannot be printed as "?", and at
 * most 63 characters. Always returns false, so that callers can return the result.
 */
static bool refuse(const source_t *source, const char *subject, const char *value, const char *allowed)
{
    char shown[64];
    size_t i;

    (void)snprintf(shown, sizeof(shown), "%s", value);
    for (i = 0; '\0' != shown[i]; ++i) {
        shown[i] = isprint((unsigned char)shown[i]) ? shown[i] : '?';
    }
    mscclpp_error("rules %s:%d: %s: \"%s\" is not allowed; use %s", source->path, source->line, subject, shown,
                  allowed);
    return false;
}

/* Logs what is wrong with a line, and what is allowed. For a single value, `refuse` is used. Always returns false. */
static bool refuse_line(const source_t *source, const char *fault, const char *allowed)
{
    mscclpp_error("rules %s:%d: %s; use %s", source->path, source->line, fault, allowed);
    return false;
}

/*
 * Reads "plan:NAME" as the algorithm of a rule, and makes the name known to `rules`. Returns false, with nothing logged
 * or changed, if the text is something else. Otherwise returns true, and *accepted_p tells whether the name is
 * accepted. It is refused, which is logged, if it is empty or too long, or if the file already names the largest number
 * of plans.
 */
static bool parse_plan(const source_t *source, const char *text, mscclpp_rules_t *rules, mscclpp_rule_t *rule,
                       bool *accepted_p)
{
    const char *name = text + strlen(PLAN_PREFIX);

    if (0 != strncmp(text, PLAN_PREFIX, strlen(PLAN_PREFIX))) {
        return false;
    }
    *accepted_p = '\0' != *name && strlen(name) < MSCCLPP_RULE_PLAN_NAME_MAX;
    if (!*accepted_p) {
        (void)refuse(source, "algorithm", text, "plan: and a plan's name of 1 to 127 characters");
        return true;
    }
    *accepted_p = mscclpp_rules_name_plan(rules, name);
    if (!*accepted_p) {
        (void)refuse_line(source, "one more plan", "at most 256 plans");
        return true;
    }
    rule->algorithm = mscclpp_rule_by_plan(name);
    return true;
}

/* Returns the name of the plan that has the number `algorithm`; "?" if no rule of this file names it. */
static const char *find_plan_name(const mscclpp_rules_t *rules, int64_t algorithm)
{
    int i;

    for (i = 0; i < MSCCLPP_RULE_PLANS_MAX && '\0' != rules->plan[i][0]; ++i) {
        if (mscclpp_rule_by_plan(rules->plan[i]) == algorithm) {
            return rules->plan[i];
        }
    }
    return "?";
}

/*
 * Reads the name of a collective into *coll_p. MSCCLPP_COLL_LAST: all-reduce. Logs any other text, and returns false.
 */
static bool parse_collective(const source_t *source, const char *text, mscclpp_coll_t *coll_p)
{
    char allowed[256] = "one of allreduce";
    int coll;

    for (coll = 0; coll < MSCCLPP_COLL_LAST && 0 != strcmp(text, mscclpp_coll_name((mscclpp_coll_t)coll)); ++coll) {
        size_t length = strlen(allowed);
        (void)snprintf(allowed + length, sizeof(allowed) - length, "|%s", mscclpp_coll_name((mscclpp_coll_t)coll));
    }
    *coll_p = (mscclpp_coll_t)coll;
    return coll < MSCCLPP_COLL_LAST || 0 == strcmp(text, "allreduce") || refuse(source, "collective", text, allowed);
}

/*
 * Reads the value of one key of a rule. Logs a value that is not allowed, and returns false. Keeps the name of the
 * algorithm as text, because the names that are allowed depend on the collective, which may follow later in the line.
 */
static bool parse_value(const source_t *source, rule_key_t key, const char *text, line_t *line)
{
    char allowed[64];
    size_t bytes;
    int nranks, nodes;

    switch (key) {
    case KEY_RANKS:
        if (!mscclpp_config_parse_int(text, &nranks) || nranks < 2 || nranks > RANKS_MAX) {
            return refuse(source, "ranks", text, RANKS_ALLOWED);
        }
        line->nranks = (uint32_t)nranks;
        return true;
    case KEY_DEVICE:
        line->on_twin = 0 == strcmp(text, "host");
        return line->on_twin || 0 == strcmp(text, "cuda") || refuse(source, "device", text, "one of cuda|host");
    case KEY_BYTES:
        if (!mscclpp_config_parse_size(text, &bytes) || 0 == bytes || bytes > BYTES_MAX) {
            return refuse(source, "bytes", text, "1 to 1024g, with a suffix k, m or g if wanted");
        }
        line->rule.bytes = bytes;
        return true;
    case KEY_COLLECTIVE:
        return parse_collective(source, text, &line->coll);
    case KEY_PLACE:
        line->rule.place = 0 == strcmp(text, "yes") ? MSCCLPP_RULE_IN_PLACE : MSCCLPP_RULE_OUT_OF_PLACE;
        return MSCCLPP_RULE_IN_PLACE == line->rule.place || 0 == strcmp(text, "no") ||
               refuse(source, "in_place", text, "one of yes|no");
    case KEY_NODES:
        if (!mscclpp_config_parse_int(text, &nodes) || nodes < 1 || nodes > NODES_MAX) {
            (void)snprintf(allowed, sizeof(allowed), "a whole number from 1 to %d", NODES_MAX);
            return refuse(source, "nodes", text, allowed);
        }
        line->rule.nodes = nodes > 1 ? (uint64_t)nodes : 0;
        return true;
    default:
        line->algorithm = text; /* parsed when the whole line has been read */
        return true;
    }
}

/* Reads one word of a rule, a key with its value. Logs a fault, and returns false. */
static bool parse_word(const source_t *source, const char *word, line_t *line)
{
    char fault[32];
    int key;

    for (key = 0; key < KEY_COUNT; ++key) {
        size_t length = strlen(keys[key]);
        if (0 == strncmp(word, keys[key], length)) {
            if (line->is_given[key]) {
                (void)snprintf(fault, sizeof(fault), "%s is given twice", keys[key]);
                return refuse_line(
                    source, fault,
                    "each of ranks=, device=, bytes<=, algorithm=, collective=, in_place= and nodes= once");
            }
            line->is_given[key] = true;
            return parse_value(source, (rule_key_t)key, word + length, line);
        }
    }
    return refuse(
        source, "word", word,
        "ranks=N device=cuda|host bytes<=SIZE algorithm=NAME collective=NAME in_place=yes|no nodes=N, or # before "
        "a comment");
}

/*
 * Returns true if a rule for up to `bytes`, for `place` and for `nodes` takes every call that the later rule is for.
 * The later one would then never be used.
 */
static bool takes_all_calls_of(uint64_t bytes, uint64_t place, uint64_t nodes, const mscclpp_rule_t *later)
{
    return later->bytes <= bytes && nodes == later->nodes && (MSCCLPP_RULE_ANY_PLACE == place || place == later->place);
}

/*
 * Adds the rule of a line for a collective other than all-reduce. Returns false, which is logged, if one earlier rule
 * takes all calls of this rule, if there are too many rules for these ranks, or if there is no memory.
 */
static bool add_coll(const source_t *source, const line_t *line, mscclpp_rules_t *rules)
{
    mscclpp_rule_sets_t *sets = mscclpp_rules_have_sets(rules, line->nranks, line->on_twin);
    mscclpp_coll_rule_set_t *set = sets != NULL ? &sets->colls : NULL;
    char value[48], allowed[64];
    uint64_t i;

    for (i = 0; set != NULL && i < set->count; ++i) {
        if (set->rules[i].coll == (int64_t)line->coll &&
            takes_all_calls_of(set->rules[i].bytes, set->rules[i].place, set->rules[i].nodes, &line->rule)) {
            (void)snprintf(value, sizeof(value), "%" PRIu64, line->rule.bytes);
            (void)snprintf(allowed, sizeof(allowed), "more than the %" PRIu64 " of a rule before it",
                           set->rules[i].bytes);
            return refuse(source, "bytes", value, allowed);
        }
    }
    if (set == NULL) {
        return false;
    }
    if (MSCCLPP_COLL_RULES_MAX == set->count) {
        (void)snprintf(value, sizeof(value), "one more rule for ranks=%u device=%s", line->nranks,
                       line->on_twin ? "host" : "cuda");
        (void)snprintf(allowed, sizeof(allowed), "at most %d rules of all these collectives", MSCCLPP_COLL_RULES_MAX);
        return refuse_line(source, value, allowed);
    }
    set->rules[set->count++] = (mscclpp_coll_rule_t){.bytes = line->rule.bytes,
                                                     .coll = (int64_t)line->coll,
                                                     .algorithm = line->rule.algorithm,
                                                     .place = line->rule.place,
                                                     .nodes = line->rule.nodes};
    return true;
}

/*
 * Adds the rule of a line for all-reduce. Returns false for the same reasons as add_coll. If several earlier rules take
 * all calls of this rule, the message names the last of them.
 */
static bool add_allreduce(const source_t *source, const line_t *line, mscclpp_rules_t *rules)
{
    mscclpp_rule_sets_t *sets = mscclpp_rules_have_sets(rules, line->nranks, line->on_twin);
    mscclpp_rule_set_t *set = sets != NULL ? &sets->allreduce : NULL;
    char value[48], allowed[64];
    uint64_t i;

    for (i = set == NULL ? 0 : set->count; i > 0; --i) {
        if (takes_all_calls_of(set->rules[i - 1].bytes, set->rules[i - 1].place, set->rules[i - 1].nodes,
                               &line->rule)) {
            (void)snprintf(value, sizeof(value), "%" PRIu64, line->rule.bytes);
            (void)snprintf(allowed, sizeof(allowed), "more than the %" PRIu64 " of %s before it",
                           set->rules[i - 1].bytes, i == set->count ? "the rule" : "a rule");
            return refuse(source, "bytes", value, allowed);
        }
    }
    if (set == NULL) {
        return false;
    }
    if (MSCCLPP_RULES_MAX == set->count) {
        (void)snprintf(value, sizeof(value), "one more rule for ranks=%u device=%s", line->nranks,
                       line->on_twin ? "host" : "cuda");
        (void)snprintf(allowed, sizeof(allowed), "at most %d rules for each number of ranks", MSCCLPP_RULES_MAX);
        return refuse_line(source, value, allowed);
    }
    set->rules[set->count++] = line->rule;
    return true;
}

/* Returns true for a collective with a root. All-reduce (MSCCLPP_COLL_LAST) has none. */
static bool is_rooted(mscclpp_coll_t coll)
{
    return coll != MSCCLPP_COLL_LAST && MSCCLPP_DEV_COLL_ROOTED(mscclpp_coll_pattern(coll));
}

/* Reads a line of measured figures. Logs a fault, and returns false. Changes the text. */
static bool parse_figures(const source_t *source, char *text, mscclpp_rules_t *rules)
{
    mscclpp_figures_fault_t fault;

    return mscclpp_figures_parse(text, rules->figures, &fault) ||
           refuse(source, fault.subject, fault.value, fault.allowed);
}

/*
 * Adds the rule or the figures in one line of the file. A line may be empty or have only a comment. Logs a fault, and
 * returns false. Changes the text.
 */
static bool parse_line(const source_t *source, char *text, mscclpp_rules_t *rules)
{
    line_t line;
    char *remaining = NULL, *word;
    char fault[32], allowed[256];
    bool has_words = false, is_accepted = true;
    int key;

    memset(&line, 0, sizeof(line));
    line.coll = MSCCLPP_COLL_LAST;
    text[strcspn(text, "#\n")] = '\0';
    if (mscclpp_figures_begin(text)) {
        return parse_figures(source, text, rules);
    }
    for (word = strtok_r(text, " \t\r", &remaining); word != NULL; word = strtok_r(NULL, " \t\r", &remaining)) {
        has_words = true;
        if (!parse_word(source, word, &line)) {
            return false;
        }
    }
    for (key = 0; has_words && key <= KEY_ALGORITHM; ++key) {
        if (!line.is_given[key]) {
            (void)snprintf(fault, sizeof(fault), "%s is missing", keys[key]);
            return refuse_line(source, fault, "ranks=N device=cuda|host bytes<=SIZE algorithm=NAME");
        }
    }
    if (!has_words) {
        return true;
    }
    if (line.is_given[KEY_PLACE] && is_rooted(line.coll)) {
        return refuse_line(source, "in_place= is of a collective with a root, where it may differ between ranks",
                           "it with other collectives");
    }
    if (line.nranks > (line.rule.nodes != 0 ? RANKS_MAX : MSCCLPP_DEV_MAX_RANKS)) {
        (void)snprintf(fault, sizeof(fault), "%u", line.nranks);
        return refuse(source, "ranks", fault, RANKS_ALLOWED);
    }
    if (line.rule.nodes > line.nranks) {
        (void)snprintf(fault, sizeof(fault), "%" PRIu64, line.rule.nodes);
        return refuse(source, "nodes", fault, "at most as many nodes as ranks");
    }
    /*
     * Which algorithms are allowed depends on the other words, so the algorithm is parsed last. A rule for any
     * collective and any number of nodes may name a plan.
     */
    if (parse_plan(source, line.algorithm, rules, &line.rule, &is_accepted)) {
        return is_accepted &&
               (line.coll != MSCCLPP_COLL_LAST ? add_coll(source, &line, rules) : add_allreduce(source, &line, rules));
    }
    if (!mscclpp_rule_find_name(line.coll, line.rule.nodes != 0, line.algorithm, &line.rule.algorithm, allowed,
                                sizeof(allowed))) {
        return refuse(source, "algorithm", line.algorithm, allowed);
    }
    return line.coll != MSCCLPP_COLL_LAST ? add_coll(source, &line, rules) : add_allreduce(source, &line, rules);
}

/*
 * Adds the rules in all lines of the file. Stops at the first fault, which is logged, and returns false. The caller
 * must check for a read error, which looks like the end of the file here.
 */
static bool parse_file(source_t *source, FILE *file, mscclpp_rules_t *rules)
{
    static const char allowed[] = "lines of text of at most 500 characters";
    char text[LINE_MAX_LENGTH + 2];
    size_t length;
    bool is_accepted = true;

    for (source->line = 1; is_accepted && 0 != (length = mscclpp_file_line(file, text, sizeof(text))); ++source->line) {
        if (strlen(text) != length) {
            is_accepted = refuse_line(source, "there is a zero byte in this line", allowed);
        } else if (length > LINE_MAX_LENGTH && '\n' != text[length - 1]) {
            is_accepted = refuse_line(source, "this line is too long", allowed);
        } else {
            is_accepted = parse_line(source, text, rules);
        }
    }
    return is_accepted;
}

/* To parse_file, a read error looks like the end of the file, so ferror is called after it. */
mscclpp_status_t mscclpp_rules_read(const char *path, mscclpp_rules_t **rules_p)
{
    mscclpp_rules_t *rules = mscclpp_rules_create();
    mscclpp_status_t status = MSCCLPP_OK;
    source_t source = {path, 0};
    const char *reason;
    FILE *file;

    if (rules == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    file = mscclpp_file_open(path, O_RDONLY, &reason);
    if (file == NULL) {
        mscclpp_error("rules %s: cannot be opened: %s", path, reason);
        mscclpp_rules_destroy(rules);
        return MSCCLPP_ERR_SYSTEM;
    }
    if (!parse_file(&source, file, rules)) {
        status = MSCCLPP_ERR_INVALID;
    } else if (ferror(file)) {
        mscclpp_error("rules %s: cannot be read: %s", path, strerror(errno));
        status = MSCCLPP_ERR_SYSTEM;
    }
    (void)fclose(file);
    if (MSCCLPP_OK != status) {
        mscclpp_rules_destroy(rules);
        return status;
    }
    *rules_p = rules;
    return MSCCLPP_OK;
}

/* Writes the end of a rule's line, which comes after its bytes. `coll` is MSCCLPP_COLL_LAST for all-reduce. */
static void write_rule_end(const mscclpp_rules_t *rules, mscclpp_coll_t coll, const mscclpp_rule_t *rule, FILE *file)
{
    const bool is_plan = rule->algorithm >= MSCCLPP_RULE_PLANS;

    if (MSCCLPP_RULE_ANY_PLACE != rule->place) {
        (void)fprintf(file, "in_place=%s ", MSCCLPP_RULE_IN_PLACE == rule->place ? "yes" : "no");
    }
    if (rule->nodes != 0) {
        (void)fprintf(file, "nodes=%" PRIu64 " ", rule->nodes);
    }
    (void)fprintf(file, "algorithm=%s%s\n", is_plan ? PLAN_PREFIX : "",
                  is_plan ? find_plan_name(rules, rule->algorithm) : mscclpp_rule_name(coll, rule->algorithm));
}

/* Writes the rules in the order in which they are tried, because the first rule that matches a call wins. */
void mscclpp_rules_write(const mscclpp_rules_t *rules, FILE *file)
{
    const mscclpp_rule_sets_t *sets;
    uint64_t i;

    mscclpp_figures_write(rules->figures, file);
    for (sets = rules->first; sets != NULL; sets = sets->next) {
        for (i = 0; i < sets->allreduce.count; ++i) {
            const mscclpp_rule_t *rule = &sets->allreduce.rules[i];

            (void)fprintf(file, "ranks=%u device=%s bytes<=%" PRIu64 " ", sets->nranks, sets->on_twin ? "host" : "cuda",
                          rule->bytes);
            write_rule_end(rules, MSCCLPP_COLL_LAST, rule, file);
        }
        for (i = 0; i < sets->colls.count; ++i) {
            const mscclpp_coll_rule_t *of_coll = &sets->colls.rules[i];
            const mscclpp_coll_t coll = (mscclpp_coll_t)of_coll->coll;
            const mscclpp_rule_t rule = {
                .algorithm = of_coll->algorithm, .place = of_coll->place, .nodes = of_coll->nodes};

            (void)fprintf(file, "collective=%s ranks=%u device=%s bytes<=%" PRIu64 " ", mscclpp_coll_name(coll),
                          sets->nranks, sets->on_twin ? "host" : "cuda", of_coll->bytes);
            write_rule_end(rules, coll, &rule, file);
        }
    }
}
