/* The host library without lingering kernels, as a rival: it launches a kernel for each call. */
#include "tools/bench/bench.h"

/* Makes the contender, with a team of its own, in which kernels do not linger. */
bool bench_launched_open(bench_env_t *env, bench_contender_t *contender_p)
{
    mscclpp_config_t config = env->config;
    mscclpp_team_t *team;

    config.linger = "off";
    if (!bench_team_open(env, &config, NULL, &team)) {
        return false;
    }
    *contender_p = bench_contender_library(env, team, &bench_colls[0], false);
    contender_p->name = "launched";
    return true;
}

void bench_launched_close(bench_contender_t *contender)
{
    mscclpp_team_destroy(contender->team);
    contender->team = NULL;
}
