/* mscclpp_plan: reads, checks and shows execution plans. */
#include <stdio.h>
#include <string.h>

#include "tools/plan/plan_tool.h"

static const char help[] =
    "Usage: mscclpp_plan COMMAND [OPTION]... FILE...\n"
    "Execution plans are JSON files that say what each block of each GPU does in a collective call.\n"
    "\n"
    "  check FILE...        says of each plan whether it keeps the rules of the format\n"
    "  help                 this text\n"
    "  version\n"
    "\n"
    "mscclpp_plan COMMAND --help tells of the options of a command.\n"
    "Exit status: 0 if no plan is refused, 1 if one is or cannot be read, 2 for wrong usage.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"check", plan_tool_check}};

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
        fprintf(stderr, "mscclpp_plan: unknown command \"%s\"; there are check, help and version\n", command);
    }
    return PLAN_USAGE;
}
