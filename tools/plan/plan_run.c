/* mscclpp_plan compile and bench: start the programs that do the work, Python and mscclpp_bench. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/plan/plan_tool.h"

static const char compile_help[] =
    "Usage: mscclpp_plan compile ALGORITHM|PROGRAM.py [OPTION]... [-o FILE]\n"
    "Writes the plan of a classic algorithm, or of a program in the language of docs/plans.md, once it is proven.\n"
    "It starts python3 -m mscclpp_plans, whose options follow:\n\n";

static const char bench_help[] =
    "Usage: mscclpp_plan bench FILE [OPTION]...\n"
    "Measures and verifies a plan: starts mpirun -n RANKS mscclpp_bench --plan FILE OPTION..., with as many ranks as "
    "the\n"
    "plan has. The variable MPIRUN names the launcher, with its options (default: mpirun).\n";

/* Writes the path of the folder that holds this program; "" if it is unknown. */
static void find_folder(char *folder, size_t size)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[length > 0 ? length : 0] = '\0';
    (void)snprintf(folder, size, "%s", length > 0 ? dirname(path) : "");
}

/* Replaces this process by another program, which is looked for in PATH unless its name has a slash. Returns only if
 * that cannot be started, after a message, with the exit status. */
static int exec_program(char **argv)
{
    execvp(argv[0], argv);
    fprintf(stderr, "mscclpp_plan: cannot start %s: %s\n", argv[0], strerror(errno));
    return PLAN_REFUSED;
}

int plan_tool_compile(int argc, char **argv)
{
    static char tool_option[] = "--tool", python[] = "python3", module[] = "-m", package[] = "mscclpp_plans";
    char folder[PATH_MAX], program[PATH_MAX + 16], python_path[2 * PATH_MAX];
    const char *inherited = getenv("PYTHONPATH");
    char **arguments = calloc((size_t)argc + 8, sizeof(*arguments)); /* those of argv, fewer than 8 more, and NULL */
    int count = 0, status;

    if (argc < 2) {
        fputs(compile_help, stderr);
        free(arguments);
        return PLAN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        /* The Python program is still started, and prints the rest. */
        fputs(compile_help, stdout);
        fflush(stdout);
    }
    find_folder(folder, sizeof(folder));
    (void)snprintf(program, sizeof(program), "%s/mscclpp_plan", folder);
    /* The user's folders come before that of mscclpp_plans. */
    (void)snprintf(python_path, sizeof(python_path), "%s%s%s", inherited != NULL ? inherited : "",
                   inherited != NULL ? ":" : "", PLAN_PYTHON_FOLDER);
    if (arguments == NULL || setenv("PYTHONPATH", python_path, 1) != 0) {
        fprintf(stderr, "mscclpp_plan: no memory\n");
        free(arguments);
        return PLAN_REFUSED;
    }
    arguments[count++] = python;
    arguments[count++] = module;
    arguments[count++] = package;
    for (int i = 1; i < argc; ++i) {
        arguments[count++] = argv[i];
    }
    arguments[count++] = tool_option; /* after all others, so that this very program proves the plan */
    arguments[count++] = program;
    status = exec_program(arguments);
    free(arguments);
    return status;
}

/*
 * Splits the launcher's line at blanks, in place: the words lie in `line`. Writes at most `max_words` words, and
 * returns how many. Further ones are left out.
 */
static int split_words(char *line, char **words, int max_words)
{
    int count = 0;

    for (char *position = NULL, *word = strtok_r(line, " ", &position); word != NULL && count < max_words;
         word = strtok_r(NULL, " ", &position)) {
        words[count++] = word;
    }
    return count;
}

int plan_tool_bench(int argc, char **argv)
{
    enum { LAUNCHER_WORDS = 64 };
    static char ranks_option[] = "-n", plan_option[] = "--plan", fallback[] = "mscclpp_bench";
    const char *launcher = getenv("MPIRUN");
    char folder[PATH_MAX], program[PATH_MAX + 16], ranks[16], line[PATH_MAX];
    /* The launcher's words, those of argv, fewer than 8 more, and NULL. */
    char **arguments = calloc((size_t)argc + LAUNCHER_WORDS + 8, sizeof(*arguments));
    mscclpp_plan_t *plan;
    int count, status;

    if (argc < 2 || arguments == NULL) {
        fputs(bench_help, stderr);
        free(arguments);
        return PLAN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(bench_help, stdout);
        free(arguments);
        return PLAN_OK;
    }
    plan = plan_tool_load(argv[1]);
    if (plan == NULL) {
        free(arguments);
        return PLAN_REFUSED;
    }
    (void)snprintf(ranks, sizeof(ranks), "%u", plan->rank_count);
    mscclpp_plan_free(plan);
    find_folder(folder, sizeof(folder));
    (void)snprintf(program, sizeof(program), "%s/mscclpp_bench", folder);
    (void)snprintf(line, sizeof(line), "%s", launcher != NULL && *launcher != '\0' ? launcher : "mpirun");
    count = split_words(line, arguments, LAUNCHER_WORDS);
    arguments[count++] = ranks_option;
    arguments[count++] = ranks;
    arguments[count++] = access(program, X_OK) == 0 ? program : fallback; /* the one beside this program, or in PATH */
    arguments[count++] = plan_option;
    for (int i = 1; i < argc; ++i) {
        arguments[count++] = argv[i];
    }
    status = exec_program(arguments);
    free(arguments);
    return status;
}
