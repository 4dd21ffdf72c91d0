# Layers side by side, and the table of their times; contrib/check reads this file in.
# shellcheck shell=bash disable=SC2034,SC2154 # what contrib/check and the other files set and read

# Layers that keep one core busy or wait, in lanes. With the third one beside them, the cores are busy while the others
# wait; verbs, whose emulated guest is slow and has deadlines, begins about when dist has ended.
lanes=('mpi4py verbs' 'ompi5' 'dist')

# run_lane LAYER...: runs layers in the background, one after the other. Each can be joined as soon as it has ended.
run_lane() {
    local layer
    wanted_jobs=$((($(jobs) + 1) / 2))
    export OMPI_MCA_mpi_yield_when_idle=1 # ranks that wait leave the cores to the other lanes
    for layer in "$@"; do
        echo $((SECONDS - start)) >"$top/build/log/$layer.aside.began"
        in_aside "$layer" "layer_$layer"
    done
}

# begin_lanes: begins the lanes in the background, once, if there are layers for more than one of them.
begin_lanes() {
    local -a lane_layers begun=()
    local lane
    [ -z "${began_lanes:-}" ] || return
    began_lanes=yes
    for lane in "${lanes[@]}"; do
        read -r -a lane_layers <<<"$lane"
        mapfile -t lane_layers < <(chosen_of "${lane_layers[@]}")
        [ ${#lane_layers[@]} -eq 0 ] || begun+=("${lane_layers[*]}")
    done
    { [ "$(jobs)" -gt 1 ] && [ ${#begun[@]} -gt 1 ] && need_main; } || return
    for lane in "${begun[@]}"; do
        read -r -a lane_layers <<<"$lane"
        begin_asides run_lane "${lane_layers[@]}"
    done
}

# add_row NAME "BEGAN SECONDS USED": adds a row to the table of times. Adds USED, processor seconds, to `apart` as well:
# a layer that waits for a build or another layer does not count what that has used.
rows=()
apart=0
add_row() {
    local took
    read -r -a took <<<"$2"
    [ ${#took[@]} -eq 3 ] || return 0
    apart=$((apart + took[2]))
    rows+=("$(printf '%-15s %8d %8d %10d' "$1" "${took[@]}")")
}

tell_rows() {
    say "layer           began at  seconds  processor"
    printf '%s\n' "${rows[@]}"
}

# run_layer LAYER: runs a layer, or if it runs in a lane already, waits for its end. Adds its row to the table.
run_layer() {
    local began=$SECONDS used=0 before
    [[ " ${lanes[*]} " != *" $1 "* ]] || begin_lanes
    if [ -z "${asides[$1]:-}" ]; then
        say "---- $1 ($((SECONDS - start)) s)"
        apart=0
        read_used
        before=$used
        "layer_$1"
        read_used
        add_row "$1" "$((began - start)) $((SECONDS - began)) $((used - before - apart))"
        return
    fi
    while [ ! -e "$top/build/log/$1.aside.began" ] && kill -0 "${asides[$1]}" 2>/dev/null; do
        sleep 0.2
    done
    say "---- $1 ($(cat "$top/build/log/$1.aside.began") s, side by side with others)"
    joined "$1"
    add_row "$1" "$(cat "$top/build/log/$1.aside.took" 2>/dev/null)"
}
