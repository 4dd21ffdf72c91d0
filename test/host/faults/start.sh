# shellcheck shell=bash
# Faults in what decides when a kernel may start: slots, early kernels, queued kernels and the renewal of flags.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

plant queue-mark-early engines "$launcher" "$launcher" 's/(passed = queue->ended) >= mark/\1 + 1 >= mark/'
plant queue-flags-not-cleared stale "$barrier" "$launcher" \
    's|(mscclpp_dev_st_relaxed_sys_u64\(&words\[i\], )0\);|if (0) \1 0);|'
plant queue-cleared-after-send stale "$barrier" "$launcher" \
    '/i < words && !ctx->failed/,/^    \}/{H;d};/before \+ 2\);/{G}'
plant queue-sent-too-early queue "$barrier" "$launcher" \
    's|^    mscclpp_dev_barrier\(ctx, args, barriers_before \+ 2\);||'
plant queue-gate-open queue "$barrier" "$launcher" \
    's|^    mscclpp_dev_gate\(ctx, args\);||'
plant queue-barrier-relaxed queue "$barrier" "$launcher" \
    's/st_release_sys_u64\((&mscclpp_dev_sync_of)/st_relaxed_sys_u64(\1/'
plant queue-busy-removed overlap "$barrier" "$launcher" \
    's/(return mscclpp_dev_atom_relaxed_gpu_add_u64\(&args->running.*) == 1;/\1 != 0;/'
plant queue-graph-freed-early outlived mca/common/run/launch.c mca/common/run/launch.c \
    's/if \(runner->gpu->retain\(/(void)__atomic_sub_fetch(\&runner->captured, 1, __ATOMIC_RELAXED);\n    &/'
plant queue-graph-goes-on outlived mca/common/run/launch.c mca/common/run/launch.c \
    's/uint64_t failed = 1;/uint64_t failed = 0;/'
larger=mca/common/team/larger.c
plant queue-scratch-given-up queue_grow "$larger" "$larger" \
    's/if \(larger->is_leased \|\| larger->is_queued\) \{/if (larger->is_leased) {/'
plant queue-grown-for-another queue_grow_kinds "$larger" "$larger" \
    's/larger->is_queued \? ~group->call_args : group->call_args/group->call_args/'
plant queue-old-reports-awaited queue_grow mca/common/team/queue.c mca/common/team/queue.c \
    's/bool has_ended = team->has_older_graphs/bool has_ended = false/'
plant queue-old-graph-goes-on queue_grow mca/common/team/team.c mca/common/team/team.c \
    's/if \(kept != NULL && kept->scratch != NULL\)/if (0)/'
plant queue-start-waits queue_grow mca/common/task/task.c mca/common/task/task.c \
    's/return task->args->may_wait &&/return/'
zerocopy=device/kern/allreduce/allreduce_zerocopy.h
plant mapped-operands-not-awaited mapped "$zerocopy" "$launcher" 's/mscclpp_dev_barrier\(ctx, common, barriers - 1\);//'
plant mapped-readers-not-awaited mapped "$zerocopy" "$launcher" 's/mscclpp_dev_barrier\(ctx, common, barriers\);//'
plant mapped-barrier-relaxed mapped "$barrier" "$launcher" \
    's/st_release_sys_u64\((&mscclpp_dev_sync_of)/st_relaxed_sys_u64(\1/'
plant mapped-not-entered mapped "$zerocopy" "$launcher" 's/mscclpp_dev_enter\(ctx, common\);//'
plant mapped-coll-not-entered mapped device/kern/coll/direct.h "$launcher" 's/mscclpp_dev_enter\(ctx, common\);//'
plant mapped-coll-kept-open mapped mca/common/task/coll_queued.c mca/common/task/coll_queued.c \
    's/mscclpp_mapped_drop\(task.mapped\);//'
plant mapped-closed-early mapped mca/common/run/launch.c mca/common/run/launch.c \
    's/\(void\)__atomic_add_fetch\(&mapped->users, 1, __ATOMIC_RELAXED\);//'
plant mapped-given-up-alone mapped mca/common/group/exchange.c mca/common/group/exchange.c \
    's/(own_end : current\)) != given_up;/\1 != UINT64_MAX;/'
known=mca/common/run/known.c
plant known-freed-used known "$known" "$known" 's/(id != 0) && runner->gpu->identify\(address\) == id/\1/'
plant known-differ known "$known" "$known" 's| && have_all_published\(group, own_word, number\)||'
plant known-slot-kept known "$known" "$known" 's/mscclpp_group_give_slot\(group\);//'
plant known-arrival-unawaited known mca/common/group/meeting.c mca/common/group/meeting.c \
    '/^mscclpp_status_t mscclpp_group_arrive/,/^\}/s/(2 \* group->arrivals) \+ 1\);/\1 + 1 + 100);/'
plant known-engines-slot known "$known" "$known" 's/launches_kernel \?/true ?/'
plant renewal-second-meeting renewal mca/common/team/renew.c mca/common/team/renew.c \
    '/status = meet_ranks\(team\);/{x;s/^/x/;/^xx$/{x;s/status = meet_ranks.*//;b};x}'
plant room-for-two room mca/common/group/admission.c mca/common/group/admission.c \
    's/may_take && !is_slot_taken\(admission\)/may_take/'
plant engines-without-slot shared mca/common/task/task_exchange.c mca/common/task/task_exchange.c \
    's/(usable && team->engine == NULL)\)/\1 \&\& 0)/'
plant early-without-slot early mca/common/group/meeting.c mca/common/group/meeting.c \
    's/needs_slot = early \|\| group->concurrent/needs_slot = group->concurrent/'
plant apart-closed-at-end apart mca/common/run/launch.c mca/common/run/launch.c \
    's/mscclpp_fiber_relax\(\)/mscclpp_fiber_close()/'
engines=mca/common/task/coll_engines.c
plant apart-engines-relaxed apart_engines "$engines" "$engines" \
    's/mscclpp_group_open_fiber\(&team->group, task->largest_block\);/&mscclpp_fiber_relax();/'
plant apart-engines-closed apart_engines "$engines" "$engines" \
    's/mscclpp_group_open_fiber\(&team->group, task->largest_block\);/mscclpp_fiber_close();/'
plant early-grant-revoked early mca/common/group/admission.c mca/common/group/admission.c \
    's/!(grant_or_revoke\(admission->pledge, [^)]*\))/(\1, true)/'
plant room-held-in-line room mca/common/group/meeting.c mca/common/group/meeting.c \
    '/^static mscclpp_status_t take_slots/,/^}/s/mscclpp_group_give_slot\(group\);//'
