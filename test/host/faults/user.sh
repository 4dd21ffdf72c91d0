# shellcheck shell=bash
# Faults in the channels and partitions that kernels of the application use.
# shellcheck disable=SC2154 # faults/runs.sh sets the names of files

# Channels in kernels of the application.
user=mpix/include/mpix_mscclpp
user_test=test/host/test_user.c
plant user-signal-relaxed user "$user/shim.h" "$user_test" \
    's/(__atomic_fetch_add\(word, value, __ATOMIC_)RELEASE/\1RELAXED/'
plant user-wait-relaxed user "$user/shim.h" "$user_test" 's/(__atomic_load_n\(word, __ATOMIC_)ACQUIRE/\1RELAXED/'
plant user-barrier-relaxed user "$user/shim.h" "$user_test" \
    's/(__atomic_store_n\(word, value, __ATOMIC_)RELEASE/\1RELAXED/'
plant user-signal-too-early user "$user/memory.h" "$user_test" \
    '/^MPIX_DEVICE int mpix_signal/,/^}/s/^    mpix_sync\(group\);//'
plant user-push-too-early user "$user/port.h" "$user_test" \
    '/^MPIX_DEVICE int mpix_port_push\(/,/^}/s/^    mpix_sync\(group\);//'
plant user-one-half user "$user/room.h" "$user_test" 's/\(epoch & 1\)/(epoch \& 0)/'
plant user-not-cleared user "$user/room.h" "$user_test" \
    's/^        mpix_store_relaxed\(&words\[i\], 0\);/        (void)words;/'
plant user-cleared-too-late user "$user/room.h" "$user_test" \
    '/^MPIX_DEVICE int mpix_room_renew/,/^}/s/^    return mpix_barrier\(block, room\);/    return 0;/'
# Marks of partitions.
partitions_test=test/host/test_partitions.c
plant partitions-ready-relaxed partitions "$user/partitions.h" "$partitions_test" \
    's/mpix_store_release\(mark/mpix_store_relaxed(mark/'
plant partitions-ready-too-early partitions "$user/partitions.h" "$partitions_test" \
    '/^MPIX_DEVICE void mpix_pready/,/^}/s/^    mpix_sync\(group\);//'
plant partitions-await-relaxed partitions "$user/partitions.h" "$partitions_test" \
    's/mpix_load_acquire\(&request->done/mpix_load_relaxed(\&request->done/'
