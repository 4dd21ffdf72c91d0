/* The rules file: what it may hold, and that everything else is refused with its line and changes nothing. */
#include <sys/stat.h>
#include <unistd.h>

#include "mca/common/algo/algo.h"
#include "mca/common/algo/coll.h"
#include "mca/common/algo/rule_match.h"
#include "mca/common/algo/rules.h"
#include "mca/common/algo/schedule/cost.h"
#include "mca/common/team/parts.h"
#include "mca/common/team/plans.h"
#include "test/unit/unit.h"

static char path[] = "test_rules.XXXXXX";

static void put(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");

    REQUIRE(file != NULL);
    REQUIRE(fwrite(text, 1, length, file) == length);
    REQUIRE(fclose(file) == 0);
}

static mscclpp_rules_t *accept(const char *text)
{
    mscclpp_rules_t *rules = NULL;

    put(text, strlen(text));
    CHECK_EQ(mscclpp_rules_read(path, &rules), MSCCLPP_OK);
    REQUIRE(rules != NULL);
    return rules;
}

/* One line in the log, with the file, the number of the line, the value and what is allowed. */
static void refuse_bytes(const char *text, size_t length, int line, const char *value, const char *allowed)
{
    mscclpp_rules_t *rules = NULL;
    char where[64];

    put(text, length);
    unit_expect_log();
    CHECK_EQ(mscclpp_rules_read(path, &rules), MSCCLPP_ERR_INVALID);
    CHECK_EQ(unit_logged(), 1);
    CHECK(rules == NULL);
    snprintf(where, sizeof(where), "%s:%d: ", path, line);
    if (strstr(unit_last_line, where) == NULL || strstr(unit_last_line, value) == NULL ||
        strstr(unit_last_line, allowed) == NULL) {
        fprintf(stderr, "    \"%s\" has no \"%s\", no \"%s\" or no \"%s\"\n", unit_last_line, where, value, allowed);
        CHECK(!"the line says what is wrong");
    }
}

static void refuse(const char *text, int line, const char *value, const char *allowed)
{
    refuse_bytes(text, strlen(text), line, value, allowed);
}

static void test_accepted(void)
{
    mscclpp_rules_t *rules = accept("# a comment\n"
                                    "\n"
                                    "ranks=4 device=cuda bytes<=128k algorithm=oneshot # another\n"
                                    "  algorithm=scratch\tbytes<=1g device=cuda ranks=64  \r\n"
                                    "ranks=4 device=cuda bytes<=524288 algorithm=twophase\n"
                                    "ranks=4 device=host bytes<=1 algorithm=zerocopy\n"
                                    "ranks=4 device=cuda bytes<=1024g algorithm=engines"); /* no newline */
    const mscclpp_rule_set_t *set = mscclpp_rules_find(rules, 4, false);
    char longest[502] = ""; /* with a newline */

    CHECK_EQ(set->count, 3);
    CHECK_EQ(set->rules[0].bytes, 128 << 10);
    CHECK_EQ(set->rules[0].algorithm, mscclpp_algo_find("oneshot"));
    CHECK_EQ(set->rules[1].bytes, 524288);
    CHECK_EQ(set->rules[1].algorithm, mscclpp_algo_find("twophase"));
    CHECK_EQ(set->rules[2].bytes, (uint64_t)1 << 40);
    CHECK_EQ(set->rules[2].algorithm, mscclpp_algo_find("engines"));
    set = mscclpp_rules_find(rules, 4, true);
    CHECK_EQ(set->count, 1);
    CHECK_EQ(set->rules[0].bytes, 1);
    CHECK_EQ(mscclpp_rules_find(rules, 64, false)->count, 1);
    CHECK_EQ(mscclpp_rules_find(rules, 64, true)->count, 0);
    CHECK_EQ(mscclpp_rules_find(rules, 3, false)->count, 0);
    CHECK_EQ(mscclpp_rules_find(rules, 1, false)->count, 0);
    CHECK_EQ(mscclpp_rules_find(rules, 65, false)->count, 0);
    CHECK_EQ(mscclpp_rules_find(NULL, 4, false)->count, 0);
    mscclpp_rules_destroy(rules);

    memset(longest, '#', sizeof(longest) - 2);
    mscclpp_rules_destroy(accept(longest));
    longest[sizeof(longest) - 2] = '\n';
    mscclpp_rules_destroy(accept(longest));

    rules = accept("");
    CHECK_EQ(mscclpp_rules_find(rules, 2, true)->count, 0);
    mscclpp_rules_destroy(rules);
    mscclpp_rules_destroy(NULL);
}

static void test_collectives(void)
{
    mscclpp_rules_t *rules = accept("collective=bcast ranks=4 device=host bytes<=64k algorithm=packets\n"
                                    "ranks=4 device=host bytes<=1k algorithm=oneshot\n"
                                    "algorithm=scratch ranks=4 device=host bytes<=1k collective=scan\n"
                                    "collective=allreduce ranks=4 device=host bytes<=2k algorithm=scratch\n"
                                    "collective=bcast ranks=4 device=host bytes<=1g algorithm=engines\n");
    const mscclpp_coll_rule_set_t *set = mscclpp_rules_find_coll(rules, 4, true);
    mscclpp_rules_t *again = NULL;
    FILE *file;

    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->count, 2);
    CHECK_EQ(mscclpp_rules_find_coll(rules, 4, false)->count, 0);
    CHECK_EQ(mscclpp_rules_find_coll(NULL, 4, true)->count, 0);
    CHECK_EQ(set->count, 3);
    CHECK_EQ(set->rules[0].coll, MSCCLPP_COLL_BCAST);
    CHECK_EQ(set->rules[0].bytes, 64 << 10);
    CHECK_EQ(set->rules[0].algorithm, MSCCLPP_COLL_BY_PACKETS);
    CHECK_EQ(set->rules[1].coll, MSCCLPP_COLL_SCAN);
    CHECK_EQ(set->rules[1].algorithm, MSCCLPP_COLL_BY_SCRATCH);
    CHECK_EQ(set->rules[2].algorithm, MSCCLPP_COLL_BY_ENGINES);

    /* What is written is read again. */
    file = fopen(path, "w");
    REQUIRE(file != NULL);
    mscclpp_rules_write(rules, file);
    REQUIRE(fclose(file) == 0);
    CHECK_EQ(mscclpp_rules_read(path, &again), MSCCLPP_OK);
    REQUIRE(again != NULL);
    CHECK(memcmp(mscclpp_rules_find_coll(again, 4, true), set, sizeof(*set)) == 0);
    CHECK_EQ(mscclpp_rules_find(again, 4, true)->count, 2);
    mscclpp_rules_destroy(again);
    mscclpp_rules_destroy(rules);

    refuse("collective=barrier ranks=4 device=host bytes<=1k algorithm=packets\n", 1, "\"barrier\"",
           "allreduce|allgather");
    refuse("collective= ranks=4 device=host bytes<=1k algorithm=packets\n", 1, "\"\"", "allreduce|allgather");
    refuse("collective=bcast ranks=4 device=host bytes<=1k algorithm=oneshot\n", 1, "\"oneshot\"", "packets|zerocopy");
    refuse("collective=bcast ranks=4 device=host bytes<=1k algorithm=stage\n", 1, "\"stage\"", "packets|zerocopy");
    refuse("collective=scan ranks=4 device=host bytes<=1k algorithm=engines\n", 1, "\"engines\"",
           "packets|zerocopy|sc");
    refuse("collective=scan collective=scan\n", 1, ": collective= is given twice; use", "once");
    refuse("collective=scan ranks=4 device=host bytes<=1k\n", 1, ": algorithm= is missing; use", "algorithm=");
    refuse("collective=scan ranks=4 device=host bytes<=2k algorithm=packets\n"
           "collective=bcast ranks=4 device=host bytes<=1k algorithm=packets\n"
           "collective=scan ranks=4 device=host bytes<=1k algorithm=packets\n",
           3, "\"1024\"", "more than the 2048");
}

/* The rule decides, if no parameter does, and the built-in table where there is none. */
/* Lines with figures of a transport, which are written before the rules. */
static void test_figures(void)
{
    mscclpp_rules_t *rules = accept("ranks=4 device=host bytes<=1k algorithm=oneshot\n"
                                    "  transport=ucx latency=2.5 overhead=0.5 gap=0 bandwidth=25 # measured\n"
                                    "transport=shm gap=0.25 bandwidth=0.001 overhead=1000000 latency=1\n");
    const mscclpp_rule_figures_t *figures = mscclpp_rules_find_figures(rules);
    const int ucx = mscclpp_cost_find_transport("ucx"), verbs = mscclpp_cost_find_transport("verbs");
    mscclpp_rules_t *again = NULL;
    FILE *file;

    CHECK_EQ(figures[verbs].is_given, 0);
    CHECK_EQ(figures[ucx].is_given, 1);
    CHECK_EQ(figures[ucx].latency * 1e9, 2500);
    CHECK_EQ(figures[ucx].bandwidth, 25000000000);
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->count, 1);
    CHECK_EQ(mscclpp_rules_find_figures(NULL)[ucx].is_given, 0);
    file = fopen(path, "w");
    REQUIRE(file != NULL);
    mscclpp_rules_write(rules, file);
    REQUIRE(fclose(file) == 0);
    CHECK_EQ(mscclpp_rules_read(path, &again), MSCCLPP_OK);
    REQUIRE(again != NULL);
    CHECK(memcmp(mscclpp_rules_find_figures(again), figures, MSCCLPP_RULE_TRANSPORTS * sizeof(*figures)) == 0);
    CHECK_EQ(mscclpp_rules_find(again, 4, true)->count, 1);
    mscclpp_rules_destroy(again);
    mscclpp_rules_destroy(rules);

    refuse("\ntransport=tcp latency=1\n", 2, "\"tcp\"", "verbs|ucx");
    refuse("transport=ucx latency=1 overhead=1 gap=1\n", 1, "bandwidth=", "each once");
    refuse("transport=ucx latency=1 latency=1\n", 1, "\"latency=1\"", "each once");
    refuse("transport=ucx ranks=4\n", 1, "\"ranks=4\"", "each once");
    refuse("transport=ucx latency=-1 overhead=1 gap=1 bandwidth=1\n", 1, "\"-1\"", "from 0 to");
    refuse("transport=ucx latency=nan overhead=1 gap=1 bandwidth=1\n", 1, "\"nan\"", "from 0 to");
    refuse("transport=ucx latency=1 overhead=1us gap=1 bandwidth=1\n", 1, "\"1us\"", "from 0 to");
    refuse("transport=ucx latency=1 overhead=1 gap=1 bandwidth=0\n", 1, "\"0\"", "from 0.001 to");
    refuse("transport=ucx latency=1 overhead=1 gap=1 bandwidth=1\n"
           "transport=ucx latency=1 overhead=1 gap=1 bandwidth=1\n",
           2, "\"ucx\"", "one line of figures");
}

static void test_selection(void)
{
    static mscclpp_protocol_t protocol;
    mscclpp_select_input_t input;
    mscclpp_coll_choice_t choice;
    mscclpp_layout_t layout;
    int coll;

    memset(&input, 0, sizeof(input));
    memset(&protocol, 0, sizeof(protocol));
    mscclpp_layout_init(&layout, 16 << 20);
    protocol.algorithm = MSCCLPP_ALGO_AUTO;
    protocol.zerocopy = 1;
    protocol.twin_blocks = protocol.twin_threads = 1;
    for (coll = 0; coll < MSCCLPP_COLL_LAST; ++coll) {
        protocol.coll_algorithm[coll] = MSCCLPP_ALGO_AUTO;
    }
    protocol.coll_rules.count = 2;
    protocol.coll_rules.rules[0] = (mscclpp_coll_rule_t){100, MSCCLPP_COLL_BCAST, MSCCLPP_COLL_BY_SCRATCH, 0, 0};
    protocol.coll_rules.rules[1] = (mscclpp_coll_rule_t){1000, MSCCLPP_COLL_BCAST, MSCCLPP_COLL_BY_PACKETS, 0, 0};
    input.nodes = 1;
    input.nranks = 2;
    input.on_twin = true;
    input.protocol = &protocol;
    input.layout = &layout;
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_BCAST, 100, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_SCRATCH);
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_BCAST, 1000, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_PACKETS);
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_BCAST, 1001, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_ZEROCOPY);
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_GATHER, 100, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_PACKETS);
    protocol.coll_algorithm[MSCCLPP_COLL_BCAST] = MSCCLPP_COLL_BY_ZEROCOPY;
    CHECK_EQ(mscclpp_coll_select(&input, MSCCLPP_COLL_BCAST, 100, false, true, &choice), MSCCLPP_OK);
    CHECK_EQ(choice.algo, MSCCLPP_COLL_BY_ZEROCOPY);
}

/* What the rules say of a call; -1: nothing. */
static int64_t ruled(const mscclpp_protocol_t *protocol, mscclpp_coll_t coll, uint64_t bytes, bool in_place)
{
    int64_t algorithm = -1;

    return mscclpp_rule_match(protocol, coll, bytes, in_place, 1, &algorithm) ? algorithm : -1;
}

/* Rules that are for calls in place, or for the others, alone. */
static void test_places(void)
{
    const int64_t ring = mscclpp_rule_hash_plan("ring"), oneshot = mscclpp_algo_find("oneshot");
    mscclpp_rules_t *again = NULL,
                    *rules =
                        accept("ranks=4 device=host bytes<=4k in_place=yes algorithm=plan:ring\n"
                               "ranks=4 device=host bytes<=2k algorithm=oneshot\n"
                               "ranks=4 device=host bytes<=4k in_place=no algorithm=scratch\n"
                               "collective=alltoall ranks=4 device=host bytes<=1k in_place=no algorithm=plan:ring\n"
                               "collective=alltoall ranks=4 device=host bytes<=1k algorithm=scratch\n");
    static mscclpp_protocol_t protocol;
    FILE *file;

    for (int i = 0; i < 2; ++i) {
        protocol.rules = *mscclpp_rules_find(rules, 4, true);
        protocol.coll_rules = *mscclpp_rules_find_coll(rules, 4, true);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_LAST, 1, true), ring);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_LAST, 1, false), oneshot);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_LAST, 2049, true), ring);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_LAST, 2049, false), mscclpp_algo_find("scratch"));
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_LAST, 4097, true), -1);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_ALLTOALL, 1024, true), MSCCLPP_COLL_BY_SCRATCH);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_ALLTOALL, 1024, false), ring);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_ALLTOALL, 1025, false), -1);
        CHECK_EQ(ruled(&protocol, MSCCLPP_COLL_ALLGATHER, 1, false), -1);
        if (i == 0) {
            file = fopen(path, "w");
            REQUIRE(file != NULL);
            mscclpp_rules_write(rules, file);
            REQUIRE(fclose(file) == 0);
            mscclpp_rules_destroy(rules);
            CHECK_EQ(mscclpp_rules_read(path, &again), MSCCLPP_OK);
            REQUIRE(again != NULL);
            rules = again;
        }
    }
    mscclpp_rules_destroy(rules);

    refuse("ranks=4 device=host bytes<=4k in_place=maybe algorithm=oneshot\n", 1, "\"maybe\"", "yes|no");
    refuse("collective=gather ranks=4 device=host bytes<=4k in_place=yes algorithm=packets\n", 1,
           "in_place= is of a collective with a root", "other collectives");
    refuse("ranks=4 device=host bytes<=4k algorithm=oneshot\n"
           "ranks=4 device=host bytes<=4k in_place=yes algorithm=scratch\n",
           2, "\"4096\"", "more than the 4096");
    refuse("ranks=4 device=host bytes<=4k in_place=no algorithm=oneshot\n"
           "ranks=4 device=host bytes<=8k in_place=yes algorithm=oneshot\n"
           "ranks=4 device=host bytes<=2k in_place=no algorithm=scratch\n",
           3, "\"2048\"", "more than the 4096 of a rule");
}

/* Rules for several nodes name algorithms between nodes, or plans, for any number of ranks. */
static void test_nodes(void)
{
    static const char text[] = "ranks=4 device=host bytes<=1024 algorithm=oneshot\n"
                               "ranks=4 device=host bytes<=1024 nodes=2 algorithm=plan:ring\n"
                               "ranks=4 device=host bytes<=1024 in_place=no nodes=4 algorithm=plan:tree\n"
                               "collective=allgather ranks=4 device=host bytes<=64 nodes=2 algorithm=plan:ring\n"
                               "collective=bcast ranks=4 device=host bytes<=64 nodes=4 algorithm=nodes_trees\n"
                               "ranks=131072 device=host bytes<=64 nodes=16384 algorithm=nodes_doubling\n"
                               "collective=reduce_scatter ranks=131072 device=host bytes<=64 nodes=2 "
                               "algorithm=nodes_halving\n";
    mscclpp_rules_t *rules = accept(text);
    uint64_t before;
    const int64_t ring = mscclpp_rule_hash_plan("ring"), tree = mscclpp_rule_hash_plan("tree");
    const struct {
        mscclpp_coll_t coll;
        bool in_place;
        uint32_t nodes;
        int64_t algorithm;
    } cases[] = {{MSCCLPP_COLL_LAST, false, 1, mscclpp_algo_find("oneshot")},
                 {MSCCLPP_COLL_LAST, false, 2, ring},
                 {MSCCLPP_COLL_LAST, false, 3, -1},
                 {MSCCLPP_COLL_LAST, false, 4, tree},
                 {MSCCLPP_COLL_LAST, true, 4, -1},
                 {MSCCLPP_COLL_ALLGATHER, true, 1, -1},
                 {MSCCLPP_COLL_ALLGATHER, true, 2, ring},
                 {MSCCLPP_COLL_BCAST, true, 4, MSCCLPP_COLL_BY_NODES_TREES}};
    static mscclpp_protocol_t protocol;
    char read_back[sizeof(text) + 100] = "";
    mscclpp_rule_set_t set;
    int64_t algorithm;
    FILE *file;

    protocol.rules = *mscclpp_rules_find(rules, 4, true);
    protocol.coll_rules = *mscclpp_rules_find_coll(rules, 4, true);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        algorithm = -1;
        (void)mscclpp_rule_match(&protocol, cases[i].coll, 64, cases[i].in_place, cases[i].nodes, &algorithm);
        CHECK_EQ(algorithm, cases[i].algorithm);
    }
    file = fopen(path, "w+");
    REQUIRE(file != NULL);
    mscclpp_rules_write(rules, file);
    rewind(file);
    CHECK_EQ(fread(read_back, 1, sizeof(read_back) - 1, file), sizeof(text) - 1);
    CHECK_TEXT(read_back, text);
    CHECK_EQ(fclose(file), 0);

    /* What a tuner measures on one node leaves them alone. */
    memset(&set, 0, sizeof(set));
    set.count = MSCCLPP_RULES_MAX - 2;
    CHECK(mscclpp_rules_replace(rules, 4, 1, true, &set));
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->count, MSCCLPP_RULES_MAX);
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->rules[MSCCLPP_RULES_MAX - 1].algorithm, tree);
    ++set.count;
    CHECK(!mscclpp_rules_replace(rules, 4, 1, true, &set));
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->count, MSCCLPP_RULES_MAX);
    /* What it measures on several nodes replaces the rules for as many nodes alone. */
    memset(&set, 0, sizeof(set));
    set.count = 1;
    set.rules[0].bytes = 77;
    CHECK(mscclpp_rules_replace(rules, 4, 1, true, &set));
    before = mscclpp_rules_find(rules, 4, true)->count;
    CHECK(mscclpp_rules_replace(rules, 4, 3, true, &set));
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->count, before + 1);
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->rules[0].nodes, 3);
    CHECK(mscclpp_rules_replace(rules, 4, 3, true, &set));
    CHECK_EQ(mscclpp_rules_find(rules, 4, true)->count, before + 1);
    before = mscclpp_rules_find_coll(rules, 4, true)->count;
    CHECK(mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_BCAST, 4, 3, true, &set));
    CHECK(mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_BCAST, 4, 3, true, &set));
    CHECK_EQ(mscclpp_rules_find_coll(rules, 4, true)->count, before + 1);
    CHECK_EQ(mscclpp_rules_find_coll(rules, 4, true)->rules[before].nodes, 3);
    mscclpp_rules_destroy(rules);

    refuse("ranks=4 device=host bytes<=4k nodes=0 algorithm=plan:ring\n", 1, "\"0\"", "from 1 to 16384");
    refuse("ranks=4 device=host bytes<=4k nodes=8 algorithm=nodes\n", 1, "\"8\"", "at most as many nodes as ranks");
    refuse("ranks=65 device=host bytes<=4k nodes=1 algorithm=oneshot\n", 1, "\"65\"", "from 2 to 64, or with nodes=");
    refuse("ranks=131073 device=host bytes<=4k nodes=2 algorithm=nodes\n", 1, "\"131073\"", "to 131072");
    refuse("ranks=4 device=host bytes<=4k nodes=2 algorithm=oneshot\n", 1, "\"oneshot\"",
           "nodes|nodes_split|nodes_ring|");
    refuse("ranks=4 device=host bytes<=4k nodes=2 algorithm=nodes_rounds\n", 1, "\"nodes_rounds\"", "plan:NAME");
    refuse("collective=bcast ranks=4 device=host bytes<=4k nodes=2 algorithm=nodes_halving\n", 1, "\"nodes_halving\"",
           "nodes|nodes_packets|nodes_rounds|nodes_trees|plan:NAME");
    refuse("collective=scan ranks=4 device=host bytes<=4k nodes=2 algorithm=packets\n", 1, "\"packets\"",
           "nodes|nodes_packets|nodes_rounds|plan:NAME");
    refuse("collective=bcast ranks=4 device=host bytes<=4k algorithm=nodes_trees\n", 1, "\"nodes_trees\"",
           "packets|zerocopy|engines|scratch|puts|plan:NAME");
    refuse("ranks=4 device=host bytes<=4k nodes=2 algorithm=plan:ring\n"
           "ranks=4 device=host bytes<=2k nodes=2 algorithm=plan:tree\n",
           2, "\"2048\"", "more than the 4096");
}

static void test_refused(void)
{
    static const char ranks[] = "a whole number from 2 to 64";
    static const char bytes[] = "1 to 1024g";
    static const char *const bad_ranks[] = {"", "1", "0", "65", "-2", "4.0", "0x4", "four", "4,5", "99999999999999999"};
    static const char *const bad_bytes[] = {"", "0", "-1", "1.5k", "1kk", "k", "1025g", "18446744073709551616", "all"};
    static const char *const bad_names[] = {"",      "oneshoot", "Oneshot", "auto",
                                            "stage", "nodes",    "0",       "oneshot,scratch"};
    char text[2048], long_line[700];
    size_t i, length;

    for (i = 0; i < sizeof(bad_ranks) / sizeof(bad_ranks[0]); ++i) {
        snprintf(text, sizeof(text), "ranks=%s device=cuda bytes<=1k algorithm=oneshot\n", bad_ranks[i]);
        refuse(text, 1, bad_ranks[i], ranks);
    }
    for (i = 0; i < sizeof(bad_bytes) / sizeof(bad_bytes[0]); ++i) {
        snprintf(text, sizeof(text), "# one\nranks=4 device=cuda bytes<=%s algorithm=oneshot\n", bad_bytes[i]);
        refuse(text, 2, bad_bytes[i], bytes);
    }
    for (i = 0; i < sizeof(bad_names) / sizeof(bad_names[0]); ++i) {
        snprintf(text, sizeof(text), "\n\nranks=4 device=cuda bytes<=1 algorithm=%s\n", bad_names[i]);
        refuse(text, 3, bad_names[i], "oneshot|twophase|oneshot_put|zerocopy|engines|scratch");
    }
    refuse("ranks=4 device=gpu bytes<=1k algorithm=oneshot\n", 1, "\"gpu\"", "cuda|host");
    refuse("ranks=4 device= bytes<=1k algorithm=oneshot\n", 1, "\"\"", "cuda|host");
    refuse("ranks=4 device=cuda bytes=1k algorithm=oneshot\n", 1, "\"bytes=1k\"", "bytes<=SIZE");
    refuse("ranks = 4\n", 1, "\"ranks\"", "ranks=N");
    refuse("oneshot\n", 1, "\"oneshot\"", "ranks=N");
    refuse("{\"ranks\": 4}\n", 1, "{", "ranks=N");
    refuse("ranks=4 ranks=4 device=cuda bytes<=1k algorithm=oneshot\n", 1, ": ranks= is given twice; use", "once");
    refuse("device=cuda bytes<=1k algorithm=oneshot\n", 1, ": ranks= is missing; use", "ranks=N");
    refuse("ranks=4 bytes<=1k algorithm=oneshot\n", 1, ": device= is missing; use", "device=");
    refuse("ranks=4 device=host algorithm=oneshot\n", 1, ": bytes<= is missing; use", "bytes<=");
    refuse("ranks=4 device=host bytes<=4k # algorithm=oneshot\n", 1, ": algorithm= is missing; use", "algorithm=");
    refuse("ranks=4 device=host bytes<=4k algorithm=oneshot because\n", 1, "\"because\"", "#");

    /* Sizes ascend within a set, and sets do not mix. */
    refuse("ranks=4 device=host bytes<=4k algorithm=oneshot\nranks=4 device=host bytes<=4k algorithm=scratch\n", 2,
           "\"4096\"", "more than the 4096");
    refuse("ranks=4 device=host bytes<=4k algorithm=oneshot\nranks=2 device=host bytes<=1k algorithm=oneshot\n"
           "ranks=4 device=cuda bytes<=1k algorithm=oneshot\nranks=4 device=host bytes<=1k algorithm=scratch\n",
           4, "\"1024\"", "more than the 4096");
    for (i = 0, length = 0; i <= MSCCLPP_RULES_MAX; ++i) {
        length += (size_t)snprintf(text + length, sizeof(text) - length,
                                   "ranks=2 device=cuda bytes<=%zu algorithm=oneshot\n", i + 1);
    }
    refuse(text, MSCCLPP_RULES_MAX + 1, ": one more rule for ranks=2 device=cuda; use", "at most 24");

    /* What is no text at all. */
    memset(long_line, '#', sizeof(long_line));
    long_line[sizeof(long_line) - 1] = '\0';
    refuse(long_line, 1, ": this line is too long; use", "at most 500");
    refuse_bytes("# good\nranks=4 dev\0ice=cuda\n", 28, 2, "a zero byte in this line", "lines of text");
    refuse_bytes("\0\n", 2, 1, "a zero byte in this line", "lines of text");
    refuse_bytes("# a comment\0ranks=4", 19, 1, "a zero byte in this line", "lines of text");
    refuse_bytes("# good\n\0", 8, 2, "a zero byte in this line", "lines of text");
    refuse("\x7f\x45LF\n", 1, "\"?ELF\"", "ranks=N");
}

static void test_unreadable(void)
{
    mscclpp_rules_t *rules = NULL;

    unit_expect_log();
    CHECK_EQ(mscclpp_rules_read("no/such/file", &rules), MSCCLPP_ERR_SYSTEM);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, "no/such/file") != NULL && strstr(unit_last_line, "No such file") != NULL);
    unit_expect_log();
    CHECK_EQ(mscclpp_rules_read(".", &rules), MSCCLPP_ERR_SYSTEM);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, ".: cannot be opened: neither a regular file") != NULL);
    unit_expect_log();
    CHECK_EQ(mscclpp_rules_read("/dev/null", &rules), MSCCLPP_ERR_SYSTEM);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, "/dev/null: cannot be opened: neither a regular file") != NULL);
    CHECK(rules == NULL);
}

/* Where nobody writes, whoever opens a FIFO or reads from it would wait for ever. A link is as good as its file. */
static void test_kinds(void)
{
    static char link_path[sizeof(path) + 8];
    mscclpp_rules_t *rules = NULL;

    snprintf(link_path, sizeof(link_path), "%s.link", path);
    put("ranks=2 device=cuda bytes<=1k algorithm=oneshot\n", 48);
    REQUIRE(symlink(path, link_path) == 0);
    CHECK_EQ(mscclpp_rules_read(link_path, &rules), MSCCLPP_OK);
    CHECK_EQ(mscclpp_rules_find(rules, 2, false)->count, 1);
    mscclpp_rules_destroy(rules);
    rules = NULL;

    REQUIRE(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    alarm(20);
    unit_expect_log();
    CHECK_EQ(mscclpp_rules_read(link_path, &rules), MSCCLPP_ERR_SYSTEM);
    CHECK_EQ(unit_logged(), 1);
    CHECK(strstr(unit_last_line, link_path) != NULL && strstr(unit_last_line, "neither a regular file") != NULL);
    CHECK(rules == NULL);
    alarm(0);
    unlink(link_path);
}

/* What is written is what is read, and a set can be put in place of another. */
static void test_written(void)
{
    static const char text[] = "ranks=2 device=cuda bytes<=1024 algorithm=oneshot\n"
                               "ranks=2 device=cuda bytes<=4096 algorithm=engines\n"
                               "ranks=64 device=host bytes<=7 algorithm=scratch\n";
    mscclpp_rules_t *rules = accept(text);
    mscclpp_rule_set_t set;
    char read_back[sizeof(text) + 100] = "";
    FILE *file = fopen(path, "w+");

    REQUIRE(file != NULL);
    mscclpp_rules_write(rules, file);
    rewind(file);
    CHECK_EQ(fread(read_back, 1, sizeof(read_back) - 1, file), sizeof(text) - 1);
    CHECK_TEXT(read_back, text);
    CHECK_EQ(fclose(file), 0);

    memset(&set, 0, sizeof(set));
    set.count = 1;
    set.rules[0].bytes = 99;
    set.rules[0].algorithm = mscclpp_algo_find("twophase");
    CHECK(mscclpp_rules_replace(rules, 2, 1, false, &set));
    CHECK_EQ(mscclpp_rules_find(rules, 2, false)->count, 1);
    CHECK_EQ(mscclpp_rules_find(rules, 2, false)->rules[0].bytes, 99);
    CHECK_EQ(mscclpp_rules_find(rules, 64, true)->count, 1);
    mscclpp_rules_destroy(rules);
}

/* Rules of one collective take the place of those that there are of it, and of no others. */
static void test_replaced(void)
{
    mscclpp_rules_t *rules = mscclpp_rules_create();
    const mscclpp_coll_rule_set_t *all;
    mscclpp_rule_set_t set = {.count = 2,
                              .rules = {{10, MSCCLPP_COLL_BY_PACKETS, 0, 0}, {20, MSCCLPP_COLL_BY_SCRATCH, 0, 0}}};

    REQUIRE(rules != NULL);
    CHECK(mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_BCAST, 4, 1, true, &set));
    all = mscclpp_rules_find_coll(rules, 4, true);
    CHECK(mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_SCAN, 4, 1, true, &set));
    set.count = 1;
    set.rules[0].bytes = 5;
    CHECK(mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_BCAST, 4, 1, true, &set));
    CHECK_EQ(all->count, 3);
    CHECK_EQ(all->rules[0].coll, MSCCLPP_COLL_SCAN);
    CHECK_EQ(all->rules[2].coll, MSCCLPP_COLL_BCAST);
    CHECK_EQ(all->rules[2].bytes, 5);
    /* More than there is room for changes nothing. */
    set.count = MSCCLPP_RULES_MAX;
    for (int coll = MSCCLPP_COLL_ALLGATHER; coll < MSCCLPP_COLL_ALLGATHER + 3; ++coll) {
        CHECK(mscclpp_rules_replace_coll(rules, (mscclpp_coll_t)coll, 4, 1, true, &set));
    }
    CHECK(!mscclpp_rules_replace_coll(rules, MSCCLPP_COLL_ALLTOALLV, 4, 1, true, &set));
    CHECK_EQ(all->count, 3 + 3 * MSCCLPP_RULES_MAX);
    mscclpp_rules_destroy(rules);
}

/* A rule names several plans of one name: the one whose range has the message serves, and else the first of them. */
static void test_plans_of_one_name(void)
{
    static mscclpp_team_t team;
    mscclpp_plan_t definitions[3] = {{.min_bytes = 1, .max_bytes = 1000},
                                     {.min_bytes = 2000, .max_bytes = 9000},
                                     {.min_bytes = 2000, .max_bytes = 4000}};
    mscclpp_plan_file_t files[3] = {{.plan = NULL}};
    mscclpp_team_plan_t plans[3] = {{.file = NULL}};
    mscclpp_plan_query_t query = {.coll = MSCCLPP_COLL_LAST, .dtype = MSCCLPP_DTYPE_INT32, .op = MSCCLPP_OP_SUM};
    const struct {
        uint64_t bytes;
        int plan;
    } cases[] = {{500, 0}, {1500, 0}, {2000, 2}, {4000, 2}, {5000, 1}, {9001, 0}};

    for (int i = 0; i < 3; ++i) {
        definitions[i].collective = MSCCLPP_PLAN_ALLREDUCE;
        files[i].plan = &definitions[i];
        plans[i].file = &files[i];
        plans[i].rule = mscclpp_rule_hash_plan("twins");
    }
    team.plans = plans;
    team.plan_count = 3;
    team.protocol.algorithm = MSCCLPP_ALGO_AUTO;
    team.protocol.rules.count = 1;
    team.protocol.rules.rules[0].bytes = 1 << 20;
    team.protocol.rules.rules[0].algorithm = mscclpp_rule_hash_plan("twins");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        query.bytes = cases[i].bytes;
        CHECK(mscclpp_plans_choose(&team, &query) == &plans[cases[i].plan]);
    }
}

int main(void)
{
    int descriptor = mkstemp(path);

    unit_begin();
    REQUIRE(descriptor >= 0);
    close(descriptor);
    test_accepted();
    test_collectives();
    test_figures();
    test_selection();
    test_places();
    test_nodes();
    test_refused();
    test_unreadable();
    test_written();
    test_replaced();
    test_plans_of_one_name();
    test_kinds();
    unlink(path);
    return unit_end();
}
