# shellcheck shell=bash
# Faults in how the teams of a process take over one another's scratch for large messages.

lease=mca/common/team/lease.c
grow=mca/common/team/grow.c
larger=mca/common/team/larger.c
# A pause lets others begin a use where it matters.
pause='nanosleep(\&(struct timespec){.tv_nsec = 500000}, NULL)'
plant lease-flags leases_packets "$lease" "$lease" 's/\*epochs_p = chunk->epochs/*epochs_p = 0/'
plant lease-words leases "$larger" "$larger" 's/scratch, zeros, head\)/scratch, zeros, 0)/'
plant lease-small-scratch-flags leases_packets mca/common/team/renew.c mca/common/team/renew.c \
    's/team->kept->scratch != NULL\)/0)/'
plant lease-rest leases_together "$lease" "$lease" \
    's/!is_at_rest\(team, use\)/(!is_at_rest(team, use) \&\& 0)/;s/granted = is_at_rest\(team, use\);/granted = true;/'
plant lease-rest-once leases_together "$lease" "$lease" \
    "s/#include <stdlib.h>/&\n#include <time.h>/;s/if \(!is_at_rest\(team, use\)/& || $pause != 0/
        s/granted = is_at_rest\(team, use\);/granted = true;/"
plant lease-not-refused leases_together "$lease" "$lease" \
    "s/#include <stdlib.h>/&\n#include <time.h>/;s/granted = is_at_rest\(team, use\);/& $pause;/
        s/RECALL_WORD\(team->uses, REFUSED\)/RECALL_WORD(team->uses, PROPOSED)/"
plant lease-nodes-packets leases_nodes "$larger" "$larger" 's/status = clear_packets\(runner.*\);/(void)clear_packets;/'
plant lease-nodes-flags leases_nodes "$larger" "$larger" 's/!larger->is_reclaimed\) \{/true) {/'
plant lease-nodes-agreed leases_nodes "$larger" "$larger" 's/vote.max_number > larger->epochs/false/'
plant lease-nodes-layout leases_nodes "$grow" "$grow" 's/return team->has_lost \? &team->lost_layout :/return/'
plant lease-nodes-small leases_nodes "$grow" "$grow" 's/!team->has_lost\) \{/true) {/'
plant lease-nodes-choice leases_nodes mca/common/task/collective.c mca/common/task/collective.c \
    's/if \(!task->team->has_lost\)/if (true)/'
plant lease-nodes-ranks leases_small mca/common/setup/node.c mca/common/setup/node.c \
    's/nodes != NULL \? nodes->largest_node :/nodes != NULL ? params->oob.size :/'
