# shellcheck shell=bash
# Channels in kernels of the application: cases of run.sh, which sets what these read.
# shellcheck disable=SC2154 # these

cases_channels() {
    local n
    for n in 2 3 4; do
        run "channels:$n" 120 -n "$n" "${forced[@]}" "$bindir/test_channels"
    done
    # Packets that the device clears after every few all-reduces; a ring of two triggers.
    run "channels:renewal" 120 -n 3 "${forced[@]}" --mca coll_mscclpp_epoch_limit 16 \
        --mca coll_mscclpp_fifo_size 2 "$bindir/test_channels"
}
