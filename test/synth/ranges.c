/* Who gets the sizes of a plan that cannot be used, and that no size is then without a plan or with two. */
#include <stdio.h>

#include "tools/synth/lib/ranges.h"

enum { CANDIDATES = 4 };

static int failures;

/* Three neighbours, not in the order of their sizes, and one that is the fastest for no size. */
static void fill(synth_candidate_t *candidates)
{
    for (int i = 0; i < CANDIDATES; ++i) {
        candidates[i] = (synth_candidate_t){.range = {false, 0, 0}};
    }
    candidates[2].range = (synth_range_t){true, 0, 99};
    candidates[0].range = (synth_range_t){true, 100, 4999};
    candidates[3].range = (synth_range_t){true, 5000, UINT64_MAX};
}

static void check(int unusable, int wanted, uint64_t least, uint64_t most)
{
    synth_candidate_t candidates[CANDIDATES];
    int heir;

    fill(candidates);
    heir = synth_reassign_range(candidates, CANDIDATES, unusable);
    if (heir != wanted || candidates[unusable].range.is_used ||
        (heir >= 0 && (candidates[heir].range.min_bytes != least || candidates[heir].range.max_bytes != most))) {
        printf("FAIL  without candidate %d: candidate %d got its sizes, wanted %d\n", unusable, heir, wanted);
        ++failures;
    }
}

/* The last one that can be used gets everything; without it nobody does. */
static void check_all(void)
{
    synth_candidate_t candidates[CANDIDATES];
    int first, second, last;

    fill(candidates);
    first = synth_reassign_range(candidates, CANDIDATES, 3);
    second = synth_reassign_range(candidates, CANDIDATES, 2);
    if (first != 0 || second != 0 || candidates[0].range.min_bytes != 0 ||
        candidates[0].range.max_bytes != UINT64_MAX) {
        printf("FAIL  one candidate is left and does not have all sizes\n");
        ++failures;
    }
    last = synth_reassign_range(candidates, CANDIDATES, 0);
    if (last != -1 || candidates[0].range.is_used) {
        printf("FAIL  no candidate is left, and %d got sizes\n", last);
        ++failures;
    }
}

int main(void)
{
    check(2, 0, 0, 4999);
    check(0, 3, 100, UINT64_MAX);
    check(3, 0, 100, UINT64_MAX);
    check_all();
    printf("sizes of plans that cannot be used: %d failures\n", failures);
    return failures > 0;
}
