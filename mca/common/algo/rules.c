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

/* The maximum number of characters of a line. No rule is longer, so a file with a longer line is no rules file. */
#define LINE_MAX_LENGTH 500

/* The largest size that a rule may give, in bytes. */
#define BYTES_MAX ((uint64_t)1 << 40)

/*
 * The maximum numbers of ranks and nodes of a rule. A rule for more than MSCCLPP_DEV_MAX_RANKS ranks, which is the most
 * that a node can have, needs nodes=.
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

/* The keys of a rule. The keys up to KEY_ALGORITHM must be given; the others may be left out. */
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

/* The texts of the keys, each with the sign between key and value. */
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
 * Logs that the value of a word is not allowed, and which values are. Shows at most 63 characters of the value, and "?"
 * for a character that cannot be printed. Always returns false, so that callers can return the result.
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

/* Logs the fault of a line as a whole, and what is allowed. Always returns false, so that callers can return it. */
static bool refuse_line(const source_t *source, const char *fault, const char *allowed)
{
    mscclpp_error("rules %s:%d: %s; use %s", source->path, source->line, fault, allowed);
    return false;
}

/*
 * Reads a plan, "plan:NAME", as the algorithm of a rule, and adds the name to `rules`. Logs the fault and returns false
 * if the name is empty or too long, or if the file already names the maximum number of plans.
 */
static bool parse_plan(const source_t *source, const char *text, mscclpp_rules_t *rules, mscclpp_rule_t *rule)
{
    const char *name = text + strlen(PLAN_PREFIX);

    if ('\0' == *name || strlen(name) >= MSCCLPP_RULE_PLAN_NAME_MAX) {
        return refuse(source, "algorithm", text, "plan: and a plan's name of 1 to 127 characters");
    }
    if (!mscclpp_rules_add_plan(rules, name)) {
        return refuse_line(source, "one more plan", "at most 256 plans");
    }
    rule->algorithm = mscclpp_rule_hash_plan(name);
    return true;
}

/*
 * Reads the algorithm of a rule whose other words have been read, because they decide which names are allowed. A rule
 * for any collective and any number of nodes may name a plan. Logs a name that is not allowed, and returns false.
 */
static bool parse_algorithm(const source_t *source, mscclpp_rules_t *rules, line_t *line)
{
    char allowed[256];

    if (0 == strncmp(line->algorithm, PLAN_PREFIX, strlen(PLAN_PREFIX))) {
        return parse_plan(source, line->algorithm, rules, &line->rule);
    }
    return mscclpp_rule_find_name(line->coll, line->rule.nodes != 0, line->algorithm, &line->rule.algorithm, allowed,
                                  sizeof(allowed)) ||
           refuse(source, "algorithm", line->algorithm, allowed);
}

/* Returns the name of the plan whose hash is `algorithm`, or "?" if no rule of this file names that plan. */
static const char *find_plan_name(const mscclpp_rules_t *rules, int64_t algorithm)
{
    int i;

    for (i = 0; i < MSCCLPP_RULE_PLANS_MAX && '\0' != rules->plan[i][0]; ++i) {
        if (mscclpp_rule_hash_plan(rules->plan[i]) == algorithm) {
            return rules->plan[i];
        }
    }
    return "?";
}

/*
 * Reads the name of a collective into *coll_p; MSCCLPP_COLL_LAST stands for all-reduce. Logs any other text, and
 * returns false.
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

/* Reads a number of ranks. Logs a value that is not allowed, and returns false. */
static bool parse_ranks(const source_t *source, const char *text, uint32_t *nranks_p)
{
    int nranks;

    if (!mscclpp_config_parse_int(text, &nranks) || nranks < 2 || nranks > RANKS_MAX) {
        return refuse(source, "ranks", text, RANKS_ALLOWED);
    }
    *nranks_p = (uint32_t)nranks;
    return true;
}

/* Reads a number of nodes; a rule has 0 for one node. Logs a value that is not allowed, and returns false. */
static bool parse_nodes(const source_t *source, const char *text, uint64_t *nodes_p)
{
    char allowed[64];
    int nodes;

    if (!mscclpp_config_parse_int(text, &nodes) || nodes < 1 || nodes > NODES_MAX) {
        (void)snprintf(allowed, sizeof(allowed), "a whole number from 1 to %d", NODES_MAX);
        return refuse(source, "nodes", text, allowed);
    }
    *nodes_p = nodes > 1 ? (uint64_t)nodes : 0;
    return true;
}

/* Reads the size of a rule. Logs a value that is not allowed, and returns false. */
static bool parse_bytes(const source_t *source, const char *text, uint64_t *bytes_p)
{
    size_t bytes;

    if (!mscclpp_config_parse_size(text, &bytes) || 0 == bytes || bytes > BYTES_MAX) {
        return refuse(source, "bytes", text, "1 to 1024g, with a suffix k, m or g if wanted");
    }
    *bytes_p = bytes;
    return true;
}

/*
 * Reads the value of one key of a rule. Logs a value that is not allowed, and returns false. Keeps the name of the
 * algorithm as text, because the names that are allowed depend on the collective, which may follow later in the line.
 */
static bool parse_value(const source_t *source, rule_key_t key, const char *text, line_t *line)
{
    switch (key) {
    case KEY_RANKS:
        return parse_ranks(source, text, &line->nranks);
    case KEY_DEVICE:
        line->on_twin = 0 == strcmp(text, "host");
        return line->on_twin || 0 == strcmp(text, "cuda") || refuse(source, "device", text, "one of cuda|host");
    case KEY_BYTES:
        return parse_bytes(source, text, &line->rule.bytes);
    case KEY_COLLECTIVE:
        return parse_collective(source, text, &line->coll);
    case KEY_PLACE:
        line->rule.place = 0 == strcmp(text, "yes") ? MSCCLPP_RULE_IN_PLACE : MSCCLPP_RULE_OUT_OF_PLACE;
        return MSCCLPP_RULE_IN_PLACE == line->rule.place || 0 == strcmp(text, "no") ||
               refuse(source, "in_place", text, "one of yes|no");
    case KEY_NODES:
        return parse_nodes(source, text, &line->rule.nodes);
    default:
        line->algorithm = text;
        return true;
    }
}

/* Reads one word of a rule, a key with its value. Logs a fault, and returns false. */
static bool parse_word(const source_t *source, const char *word, line_t *line)
{
    char fault[32];
    int key = 0;

    while (key < KEY_COUNT && 0 != strncmp(word, keys[key], strlen(keys[key]))) {
        ++key;
    }
    if (KEY_COUNT == key) {
        return refuse(source, "word", word,
                      "ranks=N device=cuda|host bytes<=SIZE algorithm=NAME collective=NAME in_place=yes|no nodes=N, or "
                      "# before a comment");
    }
    if (line->is_given[key]) {
        (void)snprintf(fault, sizeof(fault), "%s is given twice", keys[key]);
        return refuse_line(source, fault,
                           "each of ranks=, device=, bytes<=, algorithm=, collective=, in_place= and nodes= once");
    }
    line->is_given[key] = true;
    return parse_value(source, (rule_key_t)key, word + strlen(keys[key]), line);
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
 * Logs that an earlier rule for up to `earlier_bytes` takes all calls of this line's rule. `earlier` is "a rule" or, if
 * it is the last one, "the rule". Always returns false.
 */
static bool refuse_useless(const source_t *source, const line_t *line, uint64_t earlier_bytes, const char *earlier)
{
    char value[48], allowed[64];

    (void)snprintf(value, sizeof(value), "%" PRIu64, line->rule.bytes);
    (void)snprintf(allowed, sizeof(allowed), "more than the %" PRIu64 " of %s before it", earlier_bytes, earlier);
    return refuse(source, "bytes", value, allowed);
}

/* Logs that there are too many rules for the number of ranks of this line. Always returns false. */
static bool refuse_one_more(const source_t *source, const line_t *line, const char *allowed)
{
    char fault[48];

    (void)snprintf(fault, sizeof(fault), "one more rule for ranks=%u device=%s", line->nranks,
                   line->on_twin ? "host" : "cuda");
    return refuse_line(source, fault, allowed);
}

/*
 * Adds the rule of a line for a collective other than all-reduce. Logs the fault and returns false if one earlier rule
 * takes all calls of this rule, or if there are too many rules for this number of ranks.
 */
static bool add_coll(const source_t *source, const line_t *line, mscclpp_coll_rule_set_t *set)
{
    char allowed[64];
    uint64_t i;

    for (i = 0; i < set->count; ++i) {
        if (set->rules[i].coll == (int64_t)line->coll &&
            takes_all_calls_of(set->rules[i].bytes, set->rules[i].place, set->rules[i].nodes, &line->rule)) {
            return refuse_useless(source, line, set->rules[i].bytes, "a rule");
        }
    }
    if (MSCCLPP_COLL_RULES_MAX == set->count) {
        (void)snprintf(allowed, sizeof(allowed), "at most %d rules of all these collectives", MSCCLPP_COLL_RULES_MAX);
        return refuse_one_more(source, line, allowed);
    }
    set->rules[set->count++] = (mscclpp_coll_rule_t){.bytes = line->rule.bytes,
                                                     .coll = (int64_t)line->coll,
                                                     .algorithm = line->rule.algorithm,
                                                     .place = line->rule.place,
                                                     .nodes = line->rule.nodes};
    return true;
}

/*
 * Adds the rule of a line for all-reduce. Fails for the same reasons as add_coll. If several earlier rules take all
 * calls of this rule, the message names the last of them.
 */
static bool add_allreduce(const source_t *source, const line_t *line, mscclpp_rule_set_t *set)
{
    char allowed[64];
    uint64_t i;

    for (i = set->count; i > 0; --i) {
        const mscclpp_rule_t *earlier = &set->rules[i - 1];

        if (takes_all_calls_of(earlier->bytes, earlier->place, earlier->nodes, &line->rule)) {
            return refuse_useless(source, line, earlier->bytes, i == set->count ? "the rule" : "a rule");
        }
    }
    if (MSCCLPP_RULES_MAX == set->count) {
        (void)snprintf(allowed, sizeof(allowed), "at most %d rules for each number of ranks", MSCCLPP_RULES_MAX);
        return refuse_one_more(source, line, allowed);
    }
    set->rules[set->count++] = line->rule;
    return true;
}

/* Adds the rule of a line. Returns false, which is logged, if the rule is refused, or if there is no memory. */
static bool add_rule(const source_t *source, const line_t *line, mscclpp_rules_t *rules)
{
    mscclpp_rule_sets_t *sets = mscclpp_rules_ensure_sets(rules, line->nranks, line->on_twin);

    if (sets == NULL) {
        return false;
    }
    return line->coll != MSCCLPP_COLL_LAST ? add_coll(source, line, &sets->colls)
                                           : add_allreduce(source, line, &sets->allreduce);
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
 * Checks whether the words of a rule go together, and whether none is missing. Logs a fault, and returns false. The
 * algorithm is checked later, by parse_algorithm.
 */
static bool check_words(const source_t *source, const line_t *line)
{
    char text[32];
    int key;

    for (key = 0; key <= KEY_ALGORITHM; ++key) {
        if (!line->is_given[key]) {
            (void)snprintf(text, sizeof(text), "%s is missing", keys[key]);
            return refuse_line(source, text, "ranks=N device=cuda|host bytes<=SIZE algorithm=NAME");
        }
    }
    if (line->is_given[KEY_PLACE] && is_rooted(line->coll)) {
        return refuse_line(source, "in_place= is of a collective with a root, where it may differ between ranks",
                           "it with other collectives");
    }
    if (line->nranks > (line->rule.nodes != 0 ? RANKS_MAX : MSCCLPP_DEV_MAX_RANKS)) {
        (void)snprintf(text, sizeof(text), "%u", line->nranks);
        return refuse(source, "ranks", text, RANKS_ALLOWED);
    }
    if (line->rule.nodes > line->nranks) {
        (void)snprintf(text, sizeof(text), "%" PRIu64, line->rule.nodes);
        return refuse(source, "nodes", text, "at most as many nodes as ranks");
    }
    return true;
}

/*
 * Adds the rule or the figures in one line of the file. A line may be empty or have only a comment. Logs a fault, and
 * returns false. Changes the text.
 */
static bool parse_line(const source_t *source, char *text, mscclpp_rules_t *rules)
{
    static const char separators[] = " \t\r";
    line_t line;
    char *remaining = NULL, *word;

    memset(&line, 0, sizeof(line));
    line.coll = MSCCLPP_COLL_LAST;
    text[strcspn(text, "#\n")] = '\0';
    if (mscclpp_figures_is_line(text)) {
        return parse_figures(source, text, rules);
    }
    word = strtok_r(text, separators, &remaining);
    if (word == NULL) {
        return true;
    }
    for (; word != NULL; word = strtok_r(NULL, separators, &remaining)) {
        if (!parse_word(source, word, &line)) {
            return false;
        }
    }
    return check_words(source, &line) && parse_algorithm(source, rules, &line) && add_rule(source, &line, rules);
}

/*
 * Adds the rules in all lines of the file. Logs the first fault, and returns false. A read error counts as the end of
 * the file, so the caller must check for one (ferror).
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

/* Writes the end of a rule's line, after its size. `coll` is MSCCLPP_COLL_LAST for all-reduce. */
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
            const mscclpp_coll_rule_t *coll_rule = &sets->colls.rules[i];
            const mscclpp_coll_t coll = (mscclpp_coll_t)coll_rule->coll;
            const mscclpp_rule_t rule = {
                .algorithm = coll_rule->algorithm, .place = coll_rule->place, .nodes = coll_rule->nodes};

            (void)fprintf(file, "collective=%s ranks=%u device=%s bytes<=%" PRIu64 " ", mscclpp_coll_name(coll),
                          sets->nranks, sets->on_twin ? "host" : "cuda", coll_rule->bytes);
            write_rule_end(rules, coll, &rule, file);
        }
    }
}
