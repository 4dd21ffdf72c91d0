/* Schedules that are right, and the same with a fault planted: the replay has to name each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/base/clock.h"
#include "tools/synth/lib/direct.h"
#include "tools/synth/lib/lower.h"

static int passed, failed;

static void check(bool fine, const char *what, const char *topology, const char *collective, const synth_fault_t *fault)
{
    if (fine) {
        ++passed;
    } else {
        ++failed;
        printf("FAIL  %s, %s on %s: %s %s\n", what, collective, topology,
               fault->name != NULL ? fault->name : "no fault", fault->text);
    }
}

static bool is(const synth_fault_t *fault, const char *one, const char *other)
{
    return fault->name != NULL && (strcmp(fault->name, one) == 0 || strcmp(fault->name, other) == 0);
}

/* Each send left out, each made twice over another way, and each step with a round too few. */
static void plant(const synth_topology_t *topology, const synth_schedule_t *right)
{
    const char *collective = synth_collective_names[right->collective];
    synth_fault_t fault;

    check(synth_schedule_verify(topology, right, &fault), "a right schedule", topology->name, collective, &fault);
    for (int i = 0; i < right->send_count; ++i) {
        synth_schedule_t *wrong = synth_schedule_copy(right);

        memmove(&wrong->sends[i], &wrong->sends[i + 1], sizeof(wrong->sends[0]) * (size_t)(wrong->send_count - i - 1));
        --wrong->send_count;
        check(!synth_schedule_verify(topology, wrong, &fault) && is(&fault, "lost", "absent"), "a lost send",
              topology->name, collective, &fault);
        synth_schedule_free(wrong);
    }
    for (int i = 0; i < right->send_count; ++i) {
        synth_schedule_t *wrong = synth_schedule_copy(right);
        synth_send_t again = right->sends[i];

        /* In a step of its own with many rounds, so that nothing else is wrong. */
        again.step = wrong->steps++;
        wrong->rounds[again.step] = 9;
        synth_schedule_add(wrong, again.chunk, again.from, again.to, again.step, again.adds);
        check(!synth_schedule_verify(topology, wrong, &fault) && is(&fault, "doubled", "doubled"),
              "a doubled contribution", topology->name, collective, &fault);
        synth_schedule_free(wrong);
    }
    for (int s = 0; s < right->steps; ++s) {
        if (right->rounds[s] > 1) {
            synth_schedule_t *wrong = synth_schedule_copy(right);

            --wrong->rounds[s];
            check(!synth_schedule_verify(topology, wrong, &fault) && is(&fault, "overfull", "overfull"),
                  "an overfull link", topology->name, collective, &fault);
            synth_schedule_free(wrong);
        }
    }
    for (int from = 0; from < topology->ranks; ++from) {
        for (int to = 0; to < topology->ranks; ++to) {
            if (from != to && topology->link_between[from][to] < 0) {
                synth_schedule_t *wrong = synth_schedule_copy(right);

                synth_schedule_add(wrong, 0, from, to, wrong->steps - 1, false);
                check(!synth_schedule_verify(topology, wrong, &fault) && is(&fault, "link", "link"),
                      "a link that is not there", topology->name, collective, &fault);
                synth_schedule_free(wrong);
            }
        }
    }
}

/* A plan is proven, and is not once one of its operations is another. */
static void plant_in_plan(const synth_topology_t *topology, const synth_schedule_t *right)
{
    static const char *const changes[][2] = {{"\"name\": \"wait\"", "\"name\": \"rlxwai\""},
                                             {"\"name\": \"put\"", "\"name\": \"get\""},
                                             {"\"name\": \"rlxsignal\"", "\"name\": \"nop\"      "},
                                             {"\"name\": \"wait\"", "\"name\": \"nop\" "}};
    char reason[512] = "";
    bool checked;
    size_t size;
    synth_lowering_t lowering = {"right", SYNTH_SIGNALS, false, 2, {true, 0, UINT64_MAX}};
    char *text = synth_lower(topology, right, &lowering, &size);
    synth_fault_t fault = {NULL, ""};

    check(text != NULL && synth_prove(text, size, &checked, reason, sizeof(reason)), "a right plan", topology->name,
          synth_collective_names[right->collective], &fault);
    free(text);
    lowering.name = "wrong";
    lowering.instances = 1;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); ++i) {
        char *at;

        text = synth_lower(topology, right, &lowering, &size);
        at = text != NULL ? strstr(text, changes[i][0]) : NULL;
        if (at != NULL) {
            memcpy(at, changes[i][1], strlen(changes[i][1]));
        }
        check(at != NULL && !synth_prove(text, size, &checked, reason, sizeof(reason)), changes[i][1], topology->name,
              synth_collective_names[right->collective], &fault);
        free(text);
    }
}

static void plant_all(const char *name)
{
    static const synth_collective_t collectives[] = {SYNTH_ALLGATHER, SYNTH_BROADCAST, SYNTH_GATHER, SYNTH_SCATTER,
                                                     SYNTH_ALLTOALL};
    synth_topology_t *topology = NULL;
    synth_schedule_t *gather, *scatter, *joined;
    char reason[SYNTH_REASON];

    if (synth_topology_named(name, reason, sizeof(reason), &topology) != MSCCLPP_OK) {
        printf("FAIL  %s: %s\n", name, reason);
        ++failed;
        return;
    }
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); ++i) {
        int chunks = 2 * synth_min_chunks(collectives[i], topology->ranks);
        synth_schedule_t *schedule = synth_shortest(topology, collectives[i], 1, chunks);

        plant(topology, schedule);
        plant_in_plan(topology, schedule);
        synth_schedule_free(schedule);
    }
    gather = synth_shortest(topology, SYNTH_ALLGATHER, 0, 2); /* the topologies are the same both ways */
    scatter = synth_schedule_invert(gather, SYNTH_REDUCESCATTER);
    plant(topology, scatter);
    joined = synth_schedule_join(scatter, gather);
    plant(topology, joined);
    plant_in_plan(topology, scatter);
    plant_in_plan(topology, joined);
    synth_schedule_free(joined);
    synth_schedule_free(scatter);
    synth_schedule_free(gather);
    synth_topology_free(topology);
}

/* A search by flows that finds a scatter, and gives up where it is told to stop or its time is over. */
static void stop_flows(void)
{
    static const volatile sig_atomic_t stops = 1, goes_on = 0;
    const double late = mscclpp_now() + 1e6;
    const synth_fault_t fault = {NULL, ""};
    synth_topology_t *topology = NULL;
    synth_schedule_t *found, *stopped, *timed_out;
    char reason[SYNTH_REASON];

    if (synth_topology_named("dgx1", reason, sizeof(reason), &topology) != MSCCLPP_OK) {
        printf("FAIL  dgx1: %s\n", reason);
        ++failed;
        return;
    }
    found = synth_find_by_flow(topology, SYNTH_SCATTER, 0, 6, 2, 7, late, &goes_on);
    stopped = synth_find_by_flow(topology, SYNTH_SCATTER, 0, 6, 2, 7, late, &stops);
    timed_out = synth_find_by_flow(topology, SYNTH_SCATTER, 0, 6, 2, 7, mscclpp_now() - 1, NULL);
    check(found != NULL && stopped == NULL && timed_out == NULL, "a search by flows", "dgx1", "scatter", &fault);
    synth_schedule_free(found);
    synth_schedule_free(stopped);
    synth_schedule_free(timed_out);
    synth_topology_free(topology);
}

int main(void)
{
    plant_all("ring:5");
    plant_all("dgx1");
    plant_all("switch:4");
    plant_all("nodes:2x3");
    stop_flows();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
