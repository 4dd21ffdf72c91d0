#!/usr/bin/env bash
# Programs of the mpi layer on two network namespaces with host names of their own: a real mpirun that starts a daemon
# on each, and ranks that Open MPI itself takes for ranks of two nodes. The twin, over UCX and TCP.
# Usage: namespaces.sh; variables as in run.sh. Needs root, ip and unshare; exit status 77 where something is missing.
set -u

component_dir=$(cd "${MSCCLPP_COMPONENT_DIR:-components}" 2>/dev/null && pwd)
bindir=$(cd "${MSCCLPP_TEST_BINDIR:-test/mpi}" 2>/dev/null && pwd)
mpirun=${MPIRUN:-mpirun}
passed=0
failed=0

skip() {
    echo "SKIP namespaces: $1"
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip "only root makes network namespaces"
for tool in ip unshare hostname "$mpirun"; do
    command -v "$tool" >/dev/null || skip "no $tool"
done
[ -e "${component_dir:-/nonexistent}/mca_coll_mscclpp.so" ] || skip "no mca_coll_mscclpp.so in MSCCLPP_COMPONENT_DIR"
[ -x "${bindir:-/nonexistent}/test_counts" ] || skip "no test programs in MSCCLPP_TEST_BINDIR"

work=$(mktemp -d)
a=msa$$
b=msb$$
had_etc_netns=no
[ -d /etc/netns ] && had_etc_netns=yes
cleanup() {
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
    rm -rf "$work" "/etc/netns/$a" "/etc/netns/$b"
    [ "$had_etc_netns" = yes ] || rmdir /etc/netns 2>/dev/null
}
trap cleanup EXIT

for host in "$a" "$b"; do
    ip netns add "$host" 2>"$work/log" || skip "ip netns add: $(tail -n 1 "$work/log")"
done
ip link add v0 netns "$a" type veth peer name v0 netns "$b" || skip "no veth"
for host in "$a:1" "$b:2"; do
    ip -n "${host%:*}" addr add "10.77.0.${host#*:}/24" dev v0
    ip -n "${host%:*}" link set lo up
    ip -n "${host%:*}" link set v0 up
    mkdir -p "/etc/netns/${host%:*}"
    printf '127.0.0.1 localhost\n10.77.0.1 %s\n10.77.0.2 %s\n' "$a" "$b" >"/etc/netns/${host%:*}/hosts"
done

# UCX passes over an interface that is not up yet.
for host in "$a" "$b"; do
    for _ in $(seq 50); do
        ip -n "$host" link show v0 | grep -q 'state UP' && break
        sleep 0.1
    done
done

# What mpirun starts its daemon on the other host with.
cat >"$work/agent" <<'AGENT'
#!/usr/bin/env bash
host=$1
shift
exec ip netns exec "$host" unshare -u bash -c "hostname $host; $*"
AGENT
chmod +x "$work/agent"

ompi_info=$(dirname "$(command -v "$mpirun")")/ompi_info
pkglibdir=$("$ompi_info" --path pkglibdir --parsable 2>/dev/null | sed 's/^path:pkglibdir://')
export MSCCLPP_TEST_DEVICE=host UCX_TLS=tcp,self UCX_NET_DEVICES=v0
launch=("$mpirun" --allow-run-as-root --oversubscribe --bind-to none --host "$a:4,$b:4"
    --mca plm rsh --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include 10.77.0.0/24
    --mca pml ob1 --mca btl 'tcp,vader,self' --mca btl_tcp_if_include 10.77.0.0/24
    -x MSCCLPP_TEST_DEVICE -x UCX_TLS -x UCX_NET_DEVICES
    --mca op '^avx' --mca mca_base_component_path "$component_dir:$pkglibdir"
    --mca coll mscclpp --mca coll_mscclpp_device host --mca coll_mscclpp_verbose 2)

# run NAME ARGUMENT...: must pass, and with so many nodes as it has.
run() {
    local name=$1 start=$SECONDS
    shift
    # shellcheck disable=SC2016 # the inner shell expands it
    if timeout -k 10 180 ip netns exec "$a" unshare -u bash -c 'hostname "$0"; exec "$@"' "$a" "${launch[@]}" "$@" \
        >"$work/log" 2>&1 </dev/null && grep -q 'inter-node transport ucx: 2 nodes' "$work/log"; then
        passed=$((passed + 1))
        echo "ok   namespaces:$name ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL namespaces:$name"
        tail -n 25 "$work/log" | sed 's/^/     /'
    fi
}

run counts:2 -n 2 --map-by node "$bindir/test_counts"
run counts:4 -n 4 --map-by node "$bindir/test_counts"
run types_ops:3 -n 3 --map-by node "$bindir/test_types_ops"
run counts:uneven -n 6 --map-by slot "$bindir/test_counts" quick
run collectives:3 -n 3 --map-by node "$bindir/test_stage"
run collectives:uneven -n 5 --map-by slot "$bindir/test_silent" 150
run comms:3 -n 3 --map-by node "$bindir/test_comms"
run threads:4 -n 4 --map-by node "$bindir/test_threads"
run late:4 -n 4 --map-by node --mca coll_mscclpp_timeout 8 "$bindir/test_late" timeout 20 later
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
