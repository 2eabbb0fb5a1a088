#!/usr/bin/env bash
# Guess:   who listens to RTMGRP_LINK (`ip monitor link`) hears of each loss of a carrier: the kernel
#          sends a message for it and one for its return.
# Version: Linux 6.18.44; iproute2 6.1.0 (Debian 12, package 6.1.0-3).
# Seen:    a veth whose carrier is away for 0.4 s: two messages on a quiet machine, and none at all if
#          any interface, of any network namespace, has changed within the second before. The kernel
#          handles such changes once a second for the whole machine and reports the state that it finds
#          then. carrier_down_count of the interface counts each loss.
# For:     a monitor of link flaps on a host that starts containers, which change interfaces all the
#          time: read carrier_down_count as well (sysfs, or IFLA_CARRIER_DOWN_COUNT of RTM_GETLINK).
#
# As root. The interfaces are veths in network namespaces of this script.
set -euo pipefail

dir=$(mktemp -d)
a=flap-a-$$ b=flap-b-$$ other=flap-c-$$
clean() {
    for ns in $a $b $other; do ip netns del "$ns" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap clean EXIT
cd "$dir"
apt-get -q -o APT::Sandbox::User=root download iproute2=6.1.0-3 >/dev/null
dpkg-deb -x iproute2_*.deb root
PATH=$dir/root/bin:$dir/root/sbin:$PATH
ip -V

for ns in $a $b $other; do ip netns add "$ns"; done
ip -n $a link add va type veth peer name vb netns $b
ip -n $a link set va up
ip -n $b link set vb up
ip -n $other link add na type veth peer name nb
ip -n $other link set na up

losses() { ip netns exec $a cat /sys/class/net/va/carrier_down_count; }
# flap prints how many messages say that va has no carrier, and how many losses are counted.
flap() {
    local before monitor
    sleep 2.5
    before=$(losses)
    timeout 3 ip -n $a monitor link >monitor & monitor=$!
    sleep 0.5
    if [[ $1 == busy ]]; then
        ip -n $other link set nb up # another interface has a carrier
        sleep 0.05
    fi
    ip -n $b link set vb down
    sleep 0.4
    ip -n $b link set vb up
    wait $monitor || true
    ip -n $other link set nb down
    echo "$(grep -c NO-CARRIER monitor || true) $(($(losses) - before))"
}

declare -A heard=([quiet]=0 [busy]=0) counted=([quiet]=0 [busy]=0)
for _ in 1 2 3 4 5; do
    for how in quiet busy; do
        read -r messages losses <<<"$(flap $how)"
        heard[$how]=$((heard[$how] + messages)) counted[$how]=$((counted[$how] + losses))
    done
done
echo "5 flaps each: quiet: ${heard[quiet]} heard of, ${counted[quiet]} counted; beside another interface: ${heard[busy]} heard of, ${counted[busy]} counted"
((counted[quiet] == 5 && counted[busy] == 5 && heard[quiet] >= 3 && heard[busy] <= 2)) || {
    echo "this is not what was seen (other changes of interfaces on this machine disturb the quiet ones)"
    exit 1
}
