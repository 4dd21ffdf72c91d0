# shellcheck shell=bash
# Faults in lingering kernels.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

# That a missed ring is seen takes a race that the twin hardly ever runs; contrib/models finds that fault.
linger=device/kern/linger.h
launch=mca/common/run/runner.c
plant linger-bell-acquire linger "$linger" "$launcher" 's/ld_acquire_sys_u64\(&bell/ld_relaxed_sys_u64(\&bell/'
plant linger-relay-release linger "$linger" "$launcher" \
    's/mscclpp_dev_st_relay_gpu_u64\((&.*relay\[index\])/mscclpp_dev_st_relaxed_sys_u64(\1/'
plant linger-cluster-release linger device/shim/host.h "$launcher" \
    '/void mscclpp_dev_st_relay_cluster/,/^}/s/__ATOMIC_RELEASE/__ATOMIC_RELAXED/'
plant linger-left-relaxed linger "$linger" "$launcher" \
    's/st_release_sys_u64\((&args->common.mailbox->left)/st_relaxed_sys_u64(\1/'
plant linger-await-sync linger "$linger" "$launcher" \
    '/bool mscclpp_dev_linger_await_bell\(/,/^}/s/^ +mscclpp_dev_block_sync\(ctx\);$//'
brief=device/kern/linger_brief.h
plant linger-brief-unpublished linger "$linger" "$launcher" 's/mscclpp_dev_block_sync\(&ctx\);//'
plant linger-brief-early-report linger "$brief" "$launcher" \
    's/ctx->failed = mscclpp_dev_block_sync_or\(ctx, ctx->failed\);//'
plant linger-brief-uncounted linger "$brief" "$launcher" 's/after\.epoch = brief->flag/after.epoch = brief->flag - 1/'
leavers='mscclpp_dev_atom_acq_rel_gpu_add_u32\(&state->leavers, 1\)'
plant linger-leavers-relaxed linger "$linger" "$launcher" \
    "s/$leavers/__atomic_fetch_add(\&state->leavers, 1, __ATOMIC_RELAXED)/"
plant linger-quit-over-words linger "$linger" "$launcher" \
    's/ && mscclpp_dev_linger_all_ended\(&ctx, args, block_state\)//'
plant linger-rung-at-once linger "$linger" "$launcher" 's/block_state->args.rung = 0;/block_state->args.rung = 1;/'
plant linger-epoch-of-all linger "$linger" "$launcher" 's/op_ctx\.block == 0 && op_ctx\.tid == 0/op_ctx.tid == 0/'
plant linger-bystander-sync storms "$linger" "$launcher" \
    '/the description of this operation may be overwritten/{n;s/.*//}'
plant linger-set-unknown linger mca/common/run/linger.c mca/common/run/linger.c \
    's/\(linger->new_sets >> variant & 1\) == 0/true/'
plant linger-few-blocks linger mca/common/run/linger.c mca/common/run/linger.c \
    's/min_blocks > 1 && min_blocks < runner->linger\.wide_blocks/min_blocks > 1/'
plant linger-first-word-alone linger mca/common/base/mailbox.h "$launch" \
    's/block = 0; block < blocks/block = 0; block < 1/'
plant linger-own-count linger "$barrier" "$launcher" 's/ctx->lingers \? args->(launches|epoch) : //'
bell=mca/common/run/bell.c
serve=device/kern/linger_serve.h
lists=test/unit/test_linger_lists.c # runs the body itself
plant linger-lists-unwritten collectives_rung mca/common/run/linger.c mca/common/run/linger.c \
    's/mscclpp_bell_write_lists\(runner->mailbox, launch\);//'
plant linger-lists-too-far collectives_rung "$bell" "$bell" \
    's/blocks, MSCCLPP_DEV_BELL_MAX_OFFSET, MSCCLPP_DEV_BELL_MAX_BYTES/blocks, UINT32_MAX, MSCCLPP_DEV_BELL_MAX_BYTES/'
plant linger-lists-beyond collectives_rung "$bell" "$bell" 's/are_within\(blocks, UINT32_MAX, UINT32_MAX\)/true/'
plant linger-lists-unrelayed collectives_rung_wide "$bell" "$bell" 's/nblocks == 1 && are_within/are_within/'
plant linger-lists-unawaited linger_lists "$linger" "$launcher" \
    's/return !mscclpp_dev_warp_or\(lacks_short \|\| .*$/return true;/'
plant linger-lists-half linger_lists "$linger" "$launcher" \
    's/lacks_short = \*words_end < short_end/lacks_short = false/'
plant linger-lists-rest linger_lists "$linger" "$launcher" 's/ \|\| \(wants_long && lacks_rest\)//'
plant linger-lists-stale linger_lists "$serve" "$lists" \
    's/\(uint32_t\)\(word >> 32\) != flag\)/(uint32_t)(word >> 32) == 0)/'
plant linger-lists-cleared linger_lists "$serve" "$lists" 's/\(uint32_t\)number \| 1u << 31/(uint32_t)number/'
plant linger-lists-kept linger_lists "$linger" "$launcher" \
    '/MSCCLPP_DEV void mscclpp_dev_linger_leave/,/^}/s/i < MSCCLPP_DEV_BELL_SIZE/i < MSCCLPP_DEV_RELAY_WORDS/'
colls=device/kern/linger_brief_coll.h
plant linger-brief-in-place linger_lists "$colls" "$launcher" \
    '/no thread stores before all threads have read/s/if \(.*\) \{/if (false) {/'
plant linger-brief-silent linger_lists "$colls" "$launcher" \
    's/if \(mscclpp_dev_brief_coll_warp_has_unit\(coll->lane, last_unit\)\) \{/if (block.bytes != 0) {/'
plant linger-brief-turns linger_lists "$colls" "$launcher" \
    's/max_units > 1 && first <= last_unit;/max_units > 1 \&\& first < last_unit;/'
