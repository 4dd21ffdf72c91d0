# shellcheck shell=bash
# Faults in the all-reduce kernels of one node, in barriers and in packets.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

plant barrier-release barriers "$barrier" "$launcher" \
    's/st_release_sys_u64\((&mscclpp_dev_sync_of)/st_relaxed_sys_u64(\1/'
plant barrier-acquire barriers "$barrier" "$launcher" \
    's/ld_acquire_sys_u64\((&own_sync->arrived)/ld_relaxed_sys_u64(\1/'
plant barrier-head-sync barriers "$barrier" "$launcher" \
    '/void mscclpp_dev_barrier\(/,/^}/s/^    mscclpp_dev_block_sync\(ctx\);$//'
plant finish-head-sync barriers "$barrier" "$launcher" \
    '/void mscclpp_dev_finish\(/,/^}/s/mscclpp_dev_block_sync_or\(ctx, ctx->failed\)/false/'
plant finish-packets-head-sync lines "$barrier" "$launcher" \
    '/void mscclpp_dev_finish\(/,/^}/s/mscclpp_dev_block_sync_or\(ctx, ctx->failed\)/ctx->failed/'
plant failure-forgotten late "$barrier" "$launcher" 's/mscclpp_dev_st_relaxed_sys_u64\(&state->failed, 1\)//'
plant failure-not-recalled late "$barrier" "$launcher" \
    '/uint32_t mscclpp_dev_last_epoch\(/,/^}/s/mscclpp_dev_recall_failure\(ctx, args\);//'
plant progress-of-others barriers "$barrier" "$launcher" 's/step = is_rung \? 1 : ctx->nblocks/step = 1/'
plant done-relaxed barriers "$barrier" "$launcher" \
    's/st_release_(home|sys)_u64\(word/st_relaxed_sys_u64(word/'
plant oneshot-one-half schedule device/kern/allreduce/allreduce_oneshot.h "$schedule" \
    's/\(epoch->flag & 1\)/(epoch->flag \& 0)/'
plant twophase-one-half schedule device/kern/allreduce/allreduce_twophase.h "$schedule" 's/\(flag & 1\)/(flag \& 0)/'
plant ll128-one-slot schedule device/lib/packet.h "$schedule" 's/\(uint64_t\)phase \* \(/(uint64_t)(phase * 0) * (/'
# The second half of each line first, with its flag, and the rest once others have run.
plant ll128-torn lines device/shim/host.h "$launcher" \
    '/mscclpp_dev_bundle_st\(/,/^}/s/for \(i = line; .*/__atomic_store_n(\&to[line + 15], \
            mscclpp_dev_bundle_word(bundle, line + 15), __ATOMIC_RELEASE);\
        sched_yield();\
        &/'
plant ll128-untried lines mca/common/setup/ll128.c mca/common/setup/ll128.c \
    's/!links_promise\(team, uuids, stride\)/false/'
# In the memory of the other formats.
plant ll128-area-shared lines device/types/launch.h "$launcher" \
    's/(define MSCCLPP_DEV_LL128_OFFSET\(packet_half_\)) .*/\1 (MSCCLPP_DEV_PACKET_OFFSET + 0 * (packet_half_))/'
plant ll128-no-clearing lines mca/common/team/renew.c mca/common/team/renew.c \
    's/packet_bytes\(&team->runner\.layout\)/& - team->runner.layout.packet_half/'
plant oneshot-last-epoch-short schedule device/kern/allreduce/allreduce_oneshot.h "$schedule" \
    's/(t|d) (<|>=) epoch->units/\1 \2 (epoch->units * 16ull < epoch->bytes ? epoch->units : epoch->bytes \/ 16)/'
plant twophase-last-epoch-short schedule device/kern/allreduce/allreduce_twophase.h "$schedule" \
    's/unit < epoch_units/unit < epoch_units \&\& epoch->base + unit < epoch->shard_units/'
plant scratch-first-barrier scratch device/kern/allreduce/allreduce_scratch.h "$launcher" \
    '0,/mscclpp_dev_barrier\(ctx, args, \+\+barriers\);/s///'
plant scratch-second-barrier scratch device/kern/allreduce/allreduce_scratch.h "$launcher" \
    '/mscclpp_dev_barrier\(ctx, args, \+\+barriers\);/{x;s/^/x/;/^xx$/{x;s/mscclpp_dev_barrier.*//;b};x}'
put=device/kern/allreduce/allreduce_oneshot_put.h
put_lib=device/lib/put.h
plant put-few-slots put "$put_lib" "$launcher" 's/% MSCCLPP_DEV_PUT_SLOTS/% 3/'
plant put-one-place put "$put_lib" "$launcher" \
    's/\(place \* MSCCLPP_DEV_PUT_BLOCKS/(0 * place * MSCCLPP_DEV_PUT_BLOCKS/'
plant put-release put "$put_lib" "$launcher" 's/st_release_sys_u64\((&peer_sync->arrived)/st_relaxed_sys_u64(\1/'
plant put-acquire put "$put_lib" "$launcher" 's/ld_acquire_sys_u64\((&own_sync->arrived)/ld_relaxed_sys_u64(\1/'
plant put-no-sync put "$put_lib" "$launcher" 's/^    ctx->failed = mscclpp_dev_block_sync_or\(.*//'
plant put-count-lost put "$put" "$launcher" 's/^( +)count\);/\1count_before);/'
plant put-looks-at-one put "$put_lib" "$launcher" '/mscclpp_dev_put_await\(/,/^}/s/i < nranks/i < 2/'
plant zerocopy-first-barrier chains device/kern/allreduce/allreduce_zerocopy.h "$launcher" \
    's/mscclpp_dev_barrier\(ctx, common, barriers - 1\);//'
plant zerocopy-second-barrier zerocopy device/kern/allreduce/allreduce_zerocopy.h "$launcher" \
    's/mscclpp_dev_barrier\(ctx, common, barriers\);//'
plant handles-relaxed zerocopy mca/common/group/board.h mca/common/group/exchange.c \
    's/__ATOMIC_RELEASE/__ATOMIC_RELAXED/'
