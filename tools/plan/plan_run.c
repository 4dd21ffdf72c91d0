/* mscclpp_plan compile and bench: start the programs that do the work, Python and mscclpp_bench. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
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

/*
 * Replaces this process by another program, which is looked for in PATH unless its name has a slash. Returns only if
 * that cannot be started, after a message, with the exit status.
 */
static int exec_program(char **argv)
{
    execvp(argv[0], argv);
    fprintf(stderr, "mscclpp_plan: cannot start %s: %s\n", argv[0], strerror(errno));
    return PLAN_REFUSED;
}

/*
 * Appends the folder of the Python package mscclpp_plans to the environment variable PYTHONPATH, after the folders of
 * the user. Returns false if memory runs out.
 */
static bool add_python_folder(void)
{
    const char *inherited = getenv("PYTHONPATH");
    const size_t size = sizeof(PLAN_PYTHON_FOLDER) + (inherited != NULL ? strlen(inherited) + 1 : 0);
    char *path = malloc(size);
    bool ok;

    if (path == NULL) {
        return false;
    }
    (void)snprintf(path, size, "%s%s%s", inherited != NULL ? inherited : "", inherited != NULL ? ":" : "",
                   PLAN_PYTHON_FOLDER);
    ok = setenv("PYTHONPATH", path, 1) == 0;
    free(path);
    return ok;
}

/* Prints that memory has run out, and returns the exit status. */
static int refuse_without_memory(void)
{
    fprintf(stderr, "mscclpp_plan: no memory\n");
    return PLAN_REFUSED;
}

/*
 * Replaces this process by python3 -m mscclpp_plans with the same arguments. For --help, the function prints the help
 * of this command first. Returns PLAN_USAGE if there is no argument. Otherwise it returns only if memory runs out or
 * Python cannot be started.
 */
int plan_tool_compile(int argc, char **argv)
{
    static char tool_option[] = "--tool", python[] = "python3", module[] = "-m", package[] = "mscclpp_plans";
    char folder[PATH_MAX], program[PATH_MAX + 16];
    char **arguments;
    int count = 0, status;

    if (argc < 2) {
        fputs(compile_help, stderr);
        return PLAN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        /* The Python program is started nevertheless, and prints the help for its own options. */
        fputs(compile_help, stdout);
        fflush(stdout);
    }
    find_folder(folder, sizeof(folder));
    (void)snprintf(program, sizeof(program), "%s/mscclpp_plan", folder);
    arguments = calloc((size_t)argc + 8, sizeof(*arguments)); /* the arguments of argv, fewer than 8 more, and NULL */
    if (arguments == NULL || !add_python_folder()) {
        free(arguments);
        return refuse_without_memory();
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
 * Splits the launcher's command line at blanks into words. The function writes zero bytes into `line`, and the words
 * point into it. Returns the number of words. The caller provides `words` with room for strlen(line) / 2 + 1 pointers,
 * because a word and the blank after it take at least two characters.
 */
static int split_words(char *line, char **words)
{
    int count = 0;

    for (char *position = NULL, *word = strtok_r(line, " ", &position); word != NULL;
         word = strtok_r(NULL, " ", &position)) {
        words[count++] = word;
    }
    return count;
}

/*
 * Replaces this process by the launcher, which starts `rank_count` ranks of mscclpp_bench. argv[0] is not used, argv[1]
 * is the plan's file, and options of mscclpp_bench follow. `line` is the command line of the launcher. It contains at
 * least one word, and the function splits it in place. The function returns only if memory runs out or the launcher
 * cannot be started. It then prints a message and returns the exit status.
 */
static int launch_bench(char *line, unsigned rank_count, int argc, char **argv)
{
    static char ranks_option[] = "-n", plan_option[] = "--plan", fallback[] = "mscclpp_bench";
    char folder[PATH_MAX], program[PATH_MAX + 16], ranks[16];
    /* The launcher's words, the arguments of argv, fewer than 8 more, and NULL. */
    char **arguments = calloc(strlen(line) / 2 + 1 + (size_t)argc + 8, sizeof(*arguments));
    int count, status;

    if (arguments == NULL) {
        return refuse_without_memory();
    }
    (void)snprintf(ranks, sizeof(ranks), "%u", rank_count);
    find_folder(folder, sizeof(folder));
    (void)snprintf(program, sizeof(program), "%s/mscclpp_bench", folder);
    count = split_words(line, arguments);
    arguments[count++] = ranks_option;
    arguments[count++] = ranks;
    /* Prefer the mscclpp_bench in the folder of this program to the one in PATH. */
    arguments[count++] = access(program, X_OK) == 0 ? program : fallback;
    arguments[count++] = plan_option;
    for (int i = 1; i < argc; ++i) {
        arguments[count++] = argv[i];
    }
    status = exec_program(arguments);
    free(arguments);
    return status;
}

/*
 * Runs mscclpp_bench with a plan. Loads the plan only to learn its number of ranks, and then starts the launcher. The
 * environment variable MPIRUN names it; mpirun is used if the variable is not set or blank. Returns PLAN_USAGE if there
 * is no argument, and PLAN_REFUSED if the plan cannot be loaded.
 */
int plan_tool_bench(int argc, char **argv)
{
    const char *launcher = getenv("MPIRUN");
    mscclpp_plan_t *plan;
    unsigned rank_count;
    char *line;
    int status;

    if (argc < 2) {
        fputs(bench_help, stderr);
        return PLAN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(bench_help, stdout);
        return PLAN_OK;
    }
    plan = plan_tool_load(argv[1]);
    if (plan == NULL) {
        return PLAN_REFUSED;
    }
    rank_count = plan->rank_count;
    mscclpp_plan_free(plan);
    line = strdup(launcher != NULL && launcher[strspn(launcher, " ")] != '\0' ? launcher : "mpirun");
    if (line == NULL) {
        return refuse_without_memory();
    }
    status = launch_bench(line, rank_count, argc, argv);
    free(line);
    return status;
}
