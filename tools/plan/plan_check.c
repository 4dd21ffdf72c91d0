/* mscclpp_plan check: proves that plans are right, or prints what is wrong with them. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/simulate.h"
#include "mca/common/plan/words.h"
#include "tools/plan/plan_tool.h"

static const char help[] = "Usage: mscclpp_plan check [OPTION]... FILE...\n"
                           "Proves that plans hang, race and yield wrong results in no launch, or says why not.\n"
                           "\n"
                           "      --static           check the rules of the format only; simulate nothing\n"
                           "      --launches N       simulate N launches back to back, 1 to 100 (default 3)\n"
                           "      --seed N           take another order of steps and other inputs (default 1)\n"
                           "      --json             print an array of objects, one for each file\n"
                           "  -q, --quiet            print refused plans only\n"
                           "  -h, --help             print this text\n"
                           "\n"
                           "Exit status: 0 if no plan is refused, 1 if one is or cannot be read, 2 for wrong usage.\n";

enum { JSON = 256, STATIC, LAUNCHES, SEED }; /* options without a letter: values above those of all letters */

static const struct option option_table[] = {{"static", no_argument, NULL, STATIC},
                                             {"launches", required_argument, NULL, LAUNCHES},
                                             {"seed", required_argument, NULL, SEED},
                                             {"json", no_argument, NULL, JSON},
                                             {"quiet", no_argument, NULL, 'q'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

typedef struct {
    bool prints_json;
    bool is_quiet;       /* print nothing of plans that are right */
    bool is_static_only; /* do not simulate */
    mscclpp_plan_sim_options_t sim;
} options_t;

/* Prints a text as a string of JSON, within quotes. */
static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; ++text) {
        unsigned char character = (unsigned char)*text;

        if (character == '"' || character == '\\') {
            printf("\\%c", character);
        } else if (character < 0x20) {
            printf("\\u%04x", character);
        } else {
            putchar(character);
        }
    }
    putchar('"');
}

/* Prints a comma and a key with a number. A negative number means that none is known, and nothing is printed. */
static void print_json_number(const char *key, int value)
{
    if (value >= 0) {
        printf(", \"%s\": %d", key, value);
    }
}

/* Prints the verdict and all findings of a file as JSON. `plan` is NULL if the file could not be read as a plan. */
static void print_json(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_report_t *report,
                       const mscclpp_plan_sim_stats_t *stats)
{
    printf("  {\"file\": ");
    print_json_string(path);
    printf(", \"verdict\": \"%s\", \"faults\": %d", mscclpp_plan_verdict(report), report->faults);
    if (plan != NULL) {
        printf(", \"name\": ");
        print_json_string(plan->name);
        printf(", \"collective\": \"%s\", \"ranks\": %u, \"digest\": \"%016llx\"",
               mscclpp_plan_collective_name(plan->collective), plan->rank_count, (unsigned long long)plan->digest);
    }
    printf(", \"simulated\": {\"runs\": %d, \"sizes\": %d, \"steps\": %llu, \"results\": %s}", stats->runs,
           stats->sizes, (unsigned long long)stats->steps, stats->runs > 0 && stats->has_result ? "true" : "false");
    printf(", \"findings\": [");
    for (int i = 0; i < report->count; ++i) {
        const mscclpp_plan_finding_t *finding = &report->findings[i];

        printf("%s\n    {\"kind\": \"%s\", \"rule\": \"%s\"", i > 0 ? "," : "", mscclpp_plan_kind_name(finding->kind),
               finding->rule);
        print_json_number("rank", finding->place.rank);
        print_json_number("block", finding->place.block);
        print_json_number("op", finding->place.op);
        print_json_number("inner", finding->place.inner);
        if (finding->place.name != NULL) {
            printf(", \"name\": ");
            print_json_string(finding->place.name);
        }
        printf(", \"text\": ");
        print_json_string(finding->text != NULL ? finding->text : "");
        if (finding->schedule != NULL) {
            printf(", \"schedule\": ");
            print_json_string(finding->schedule);
        }
        putchar('}');
    }
    printf("]}");
}

/* Prints each line of a schedule, indented. The last one has to end with a newline, too. */
static void print_schedule(const char *schedule)
{
    const char *line_end;

    for (; *schedule != '\0'; schedule = line_end + 1) {
        line_end = strchr(schedule, '\n');
        printf("      %.*s\n", (int)(line_end - schedule), schedule);
    }
}

/* Prints the verdict of a file in one line. `plan` may be NULL if the plan was not simulated. */
static void print_verdict(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_report_t *report,
                          const mscclpp_plan_sim_stats_t *stats, const options_t *options)
{
    printf("%s: %s", path, mscclpp_plan_verdict(report));
    if (report->faults == 0 && stats->runs > 0) {
        printf(" (%s%s on %u rank%s, %d launches, %d sizes, %d runs)", mscclpp_plan_collective_name(plan->collective),
               stats->has_result ? "" : ", results not known,", plan->rank_count, plan->rank_count == 1 ? "" : "s",
               options->sim.launches, stats->sizes, stats->runs);
    } else if (report->faults == 0) {
        printf(" (static checks only)");
    }
    putchar('\n');
}

/*
 * Prints the verdict and all findings of a file as text. The report holds a limited number of findings; a last line
 * says how many more faults there are. With --quiet, the function prints nothing for a plan that is right. `plan` may
 * be NULL if the plan was not simulated.
 */
static void print_text(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_report_t *report,
                       const mscclpp_plan_sim_stats_t *stats, const options_t *options)
{
    char place[80];
    int faults_printed = 0;

    if (options->is_quiet && report->faults == 0) {
        return;
    }
    print_verdict(path, plan, report, stats, options);
    for (int i = 0; i < report->count; ++i) {
        const mscclpp_plan_finding_t *finding = &report->findings[i];

        faults_printed += finding->kind != MSCCLPP_PLAN_NOTE;
        printf("  %s%s: %s [%s]\n", finding->kind == MSCCLPP_PLAN_NOTE ? "note: " : "",
               mscclpp_plan_place_text(finding->place, place, sizeof(place)),
               finding->text != NULL ? finding->text : "no memory for the text", finding->rule);
        if (finding->schedule != NULL) {
            print_schedule(finding->schedule);
        }
    }
    if (report->faults > faults_printed) {
        printf("  and %d more\n", report->faults - faults_printed);
    }
}

/*
 * Checks the plan in a file and prints the verdict and all findings, in the format that the options ask for. There are
 * three checks: reading the file, the static rules, and the simulation. Each check runs only if the checks before it
 * found no fault. Returns false if the plan is refused, if the file cannot be read, or if memory runs out. A lack of
 * memory is printed as a finding, too.
 */
static bool check_file(const char *path, const options_t *options)
{
    mscclpp_plan_report_t report;
    mscclpp_plan_sim_stats_t stats = {0, 0, false, 0};
    mscclpp_plan_t *plan = NULL;
    bool is_right;

    mscclpp_plan_report_init(&report);
    is_right = mscclpp_plan_read(path, &report, &plan) == MSCCLPP_OK && mscclpp_plan_check(plan, &report) &&
               (options->is_static_only || mscclpp_plan_simulate(plan, &options->sim, &report, &stats));
    if (report.no_memory) {
        mscclpp_plan_add_finding(&report, MSCCLPP_PLAN_UNREAD, "memory", mscclpp_plan_nowhere, "no memory");
    }
    if (options->prints_json) {
        print_json(path, plan, &report, &stats);
    } else {
        print_text(path, plan, &report, &stats, options);
    }
    mscclpp_plan_free(plan);
    mscclpp_plan_report_destroy(&report);
    return is_right;
}

/*
 * Parses the options of the command. Returns -1 if files are to be checked, and otherwise the exit status: PLAN_OK
 * after printing the help, and PLAN_USAGE, with a message printed, for a wrong option or if no file is named.
 */
static int parse_options(int argc, char **argv, options_t *options)
{
    uint64_t number = 0;
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "qh", option_table, NULL)) != -1) {
        switch (option) {
        case JSON:
            options->prints_json = true;
            break;
        case STATIC:
            options->is_static_only = true;
            break;
        case LAUNCHES:
            if (!plan_tool_number("--launches", optarg, 1, MSCCLPP_PLAN_MAX_LAUNCHES, &number)) {
                return PLAN_USAGE;
            }
            options->sim.launches = (int)number;
            break;
        case SEED:
            if (!plan_tool_number("--seed", optarg, 1, UINT32_MAX, &options->sim.seed)) {
                return PLAN_USAGE;
            }
            break;
        case 'q':
            options->is_quiet = true;
            break;
        case 'h':
            fputs(help, stdout);
            return PLAN_OK;
        default:
            return PLAN_USAGE;
        }
    }
    if (optind == argc) {
        fprintf(stderr, "mscclpp_plan check: at least one FILE is needed\n");
        return PLAN_USAGE;
    }
    return -1;
}

/*
 * Checks all files, even after a file was refused. Returns PLAN_REFUSED if a plan is refused or cannot be read, or if
 * the output cannot be written, and PLAN_USAGE for a wrong option or if no file is named.
 */
int plan_tool_check(int argc, char **argv)
{
    options_t options = {.sim = {.launches = MSCCLPP_PLAN_LAUNCHES, .seed = 1}};
    int status = parse_options(argc, argv, &options);

    if (status >= 0) {
        return status;
    }
    status = PLAN_OK;
    if (options.prints_json) {
        printf("[\n");
    }
    for (int i = optind; i < argc; ++i) {
        if (!check_file(argv[i], &options)) {
            status = PLAN_REFUSED;
        }
        if (options.prints_json) {
            printf("%s\n", i + 1 < argc ? "," : "\n]");
        }
    }
    if (fflush(stdout) != 0) {
        perror("mscclpp_plan");
        return PLAN_REFUSED;
    }
    return status;
}
