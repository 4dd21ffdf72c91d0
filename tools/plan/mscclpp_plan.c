/* mscclpp_plan: reads, checks, shows, writes and measures execution plans. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan/plan_tool.h"

static const char help[] =
    "Usage: mscclpp_plan COMMAND [OPTION]... FILE...\n"
    "Execution plans are JSON files that say what each block of each GPU does in a collective call.\n"
    "\n"
    "  check FILE...        proves that each plan hangs, races and yields wrong results in no launch, or says why not\n"
    "  show FILE            tells what each rank does, in words and as a picture\n"
    "  diff FILE FILE       tells in which operations two plans differ\n"
    "  compile PROGRAM      writes the plan of a classic algorithm or of a program in Python\n"
    "  bench FILE           measures and verifies a plan with mscclpp_bench\n"
    "  help                 this text\n"
    "  version\n"
    "\n"
    "mscclpp_plan COMMAND --help tells of the options of a command.\n"
    "Exit status: 0 if no plan is refused, 1 if one is or cannot be read, 2 for wrong usage.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"check", plan_tool_check},
                {"show", plan_tool_show},
                {"diff", plan_tool_diff},
                {"compile", plan_tool_compile},
                {"bench", plan_tool_bench}};

/*
 * Parses the value of an option. strtoull accepts a sign and leading blanks, so the first character is checked to be a
 * digit.
 */
bool plan_tool_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *number_p)
{
    char *end = NULL;
    unsigned long long number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < min || number > max) {
        fprintf(stderr, "mscclpp_plan: %s is \"%s\"; allowed are whole numbers from %llu to %llu\n", option, text,
                (unsigned long long)min, (unsigned long long)max);
        return false;
    }
    *number_p = number;
    return true;
}

/*
 * Runs the command that the first argument names. Prints the help and returns PLAN_USAGE if there is no such command.
 */
int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); ++i) {
        if (strcmp(command, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        fputs(help, stdout);
        return PLAN_OK;
    }
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
        printf("mscclpp_plan %s\n", MSCCLPP_VERSION);
        return PLAN_OK;
    }
    if (*command == '\0') {
        fputs(help, stderr);
    } else {
        fprintf(stderr,
                "mscclpp_plan: unknown command \"%s\"; there are check, show, diff, compile, bench, help and "
                "version\n",
                command);
    }
    return PLAN_USAGE;
}
