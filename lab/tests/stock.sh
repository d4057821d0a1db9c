#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What lab/tests/stock.py runs in a guest, in place of init. Lines that begin with
# "OK name", "FAIL name" or "STAT name ns {json}" are for it.

PATH=/usr/sbin:/usr/bin:/sbin:/bin
DEV=eth0
check() { # NAME COMMAND...
	name=$1; shift
	if "$@" > /tmp/out 2>&1; then echo "OK $name"; else cat /tmp/out; echo "FAIL $name"; fi
}
refused() { # WORDS COMMAND...: must fail and say so
	words=$1; shift
	if "$@" > /tmp/said 2>&1; then return 1; fi
	cat /tmp/said; grep -q "$words" /tmp/said
}
loaded() { test "$(cat /sys/module/sch_cake/version)" = "$(modinfo -F version sch_cake)"; }
to_queue() { # QUEUE: where $DEV sends what is for its port
	tc filter add dev $DEV egress protocol ip u32 match ip dport $((5200 + $1)) 0xffff \
		action skbedit queue_mapping "$1"
}
stat() { # NAME: statistics and their time
	json=$(cake-tc -s -j qdisc show dev $DEV | tr -d '\n')
	echo "STAT $1 $(date +%s%N) $json"
}
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
echo "KERNEL $(uname -r)"
# While an idle guest waits for the disk, which has the host's time, its clock jumps: that is
# no hang, and what a window needs is read before.
echo 0 > /proc/sys/kernel/hung_task_timeout_secs
cat "$(command -v iperf3)" "$(command -v perl)" > /dev/null
modprobe virtio_net 2> /dev/null && ip link set eth0 name nic0 2> /dev/null

# ---- the package's module is the one that is loaded
check "the package has built its module" test -e "$(modinfo -n sch_cake)"
check "it comes before the kernel's own" sh -c 'modinfo -n sch_cake | grep -q updates/dkms'

# ---- a device of four queues to another namespace; ports lead to queues
ip netns add peer
ip link add $DEV numtxqueues 4 numrxqueues 4 type veth peer name v1 netns peer
ip addr add 10.0.0.1/24 dev $DEV; ip -n peer addr add 10.0.0.2/24 dev v1
ip link set $DEV up; ip -n peer link set v1 up; ip -n peer link set lo up
tc qdisc add dev $DEV clsact
for queue in 0 1 2 3; do to_queue $queue; done
ping -q -c 1 10.0.0.2 > /dev/null
stat before > /dev/null

send() { # QUEUE MBIT [OPTION...]: in the background
	queue=$1 rate=$2; shift 2
	iperf3 -c 10.0.0.2 -p $((5200 + queue)) -t 20 -b "${rate}M" "$@" \
		> "/tmp/client$queue" 2>&1 &
}
window() { # NAME: two readings, 3 s apart (a dump may take 10 ms), after 1 s
	sleep 1; stat "$1 begin"; sleep 3; stat "$1 end"
}
serve() { for queue in 0 1 2 3; do ip netns exec peer iperf3 -s -D -p $((5200 + queue)); done; }
quiet() { pkill iperf3; sleep 0.2; serve; sleep 0.2; }

serve
check "cake_mq" cake-tc qdisc replace dev $DEV root handle 1: cake_mq bandwidth 20mbit besteffort
check "which loads the module of the package" loaded
check "four cakes" sh -c "test \$(cake-tc qdisc show dev $DEV | grep -c 'qdisc cake ') = 4"
for queue in 0 1 2 3; do send $queue 10 -u; done
sleep 3 # iperf3 comes from the disk now
window "four queues, 40 of 20 Mbit"
check "in use: not unloaded" refused "in use" rmmod sch_cake
quiet
send 1 16 -u; send 2 4 -u
window "16 and 4 of 20 Mbit"
quiet
send 0 100; send 3 100
window "two TCP flows of 20 Mbit"
quiet
check "diffserv4" cake-tc qdisc change dev $DEV root cake_mq diffserv4
for queue in 0 1 2; do send $queue 10 -u; done
send 3 4 -u --tos 0xb8
window "EF beside best effort"

# ---- 500 changes while packets go
i=0
while [ $i -lt 500 ]; do
	i=$((i + 1))
	case $((i * 7919 % 11)) in
	0) words="diffserv4 nat";; 1) words="diffserv3 nonat";; 2) words="diffserv8";;
	3) words="besteffort ingress";; 4) words="egress hosts";; 5) words="triple-isolate";;
	6) words="flowblind";; 7) words="unlimited";; 8) words="overhead 40 mpu 64";;
	9) words="dual-srchost ack-filter";; 10) words="precedence memlimit 1mb";;
	esac
	if [ $((i % 25)) = 0 ]; then
		echo "qdisc del dev $DEV root"; words="besteffort"; fi
	echo "qdisc replace dev $DEV root handle 1: cake_mq bandwidth $((i % 90 + 1))mbit $words"
done > /tmp/batch
check "500 changes" cake-tc -b /tmp/batch
check "the last one" cake-tc qdisc replace dev $DEV root handle 1: cake_mq bandwidth 20mbit \
	besteffort flows egress nonat raw no-ack-filter memlimit 4mb
window "after 500 changes"
pkill iperf3

# ---- a network card: virtio-net with four queues, two of which are busy; nobody answers
if [ -e /sys/class/net/nic0 ]; then
	DEV=nic0
	check "virtio-net: four queues" ethtool -L $DEV combined 4
	ip addr add 10.1.0.1/24 dev $DEV; ip link set $DEV up
	ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:02 dev $DEV
	tc qdisc add dev $DEV clsact
	check "virtio-net: cake_mq" cake-tc qdisc replace dev $DEV root cake_mq bandwidth 20mbit
	for queue in 1 2; do
		to_queue $queue
		perl -MIO::Socket -e '$s = IO::Socket::INET->new(Proto => "udp", PeerAddr => $ARGV[0])
			or die; send($s, "x" x 1400, 0) while 1' 10.1.0.2:$((5200 + queue)) &
	done
	sleep 3
	window "virtio-net: two queues of 20 Mbit"
	pkill perl
	tc qdisc del dev $DEV clsact; tc qdisc del dev $DEV root
	DEV=eth0
fi

# ---- what needs the patched kernel says so
ip link add d0 numtxqueues 4 type dummy; ip link set d0 up
tc qdisc add dev d0 root handle 2: mq
check "shared below mq is refused with the remedy" refused "needs a patched kernel" \
	cake-tc qdisc replace dev d0 parent 2:1 cake bandwidth 1mbit shared
check "cake below mq" cake-tc qdisc replace dev d0 parent 2:1 handle 3: cake bandwidth 1mbit
check "and changed to shared" refused "needs a patched kernel" \
	cake-tc qdisc change dev d0 handle 3: parent 2:1 cake shared
check "another child of cake_mq is refused" refused "can't replace" \
	cake-tc qdisc replace dev $DEV parent 1:1 pfifo
ip link set d0 down

# ---- the commands of module/README.md
tc qdisc del dev $DEV clsact
check "the guide" sh -e /guide.sh

# ---- sqm-scripts with use_mq=1, as its functions.sh and piece_of_cake.qos have it
for name in ifbtest ifb4v2; do ip link del $name 2> /dev/null; done
ip link add v2 numtxqueues 4 numrxqueues 4 type veth peer name v3; ip link set v2 up
check "sqm, use_mq: it tries cake_mq" sh -ec '
	ip link add name ifbtest numtxqueues 4 type ifb
	cake-tc qdisc replace dev ifbtest root cake_mq
	ip link set dev ifbtest down
	ip link delete ifbtest type ifb'
# shellcheck disable=SC2016 # the inner shell expands it
check "sqm, use_mq: upload" sh -ec '
	test "$(ls -d /sys/class/net/v2/queues/tx-* | wc -l)" -gt 1
	cake-tc qdisc del dev v2 root 2> /dev/null || true
	cake-tc qdisc add dev v2 root cake_mq bandwidth 92160kbit overhead 42 mpu 0 besteffort
	cake-tc -s qdisc show dev v2 | grep -q "group rate 92160Kbit"'
check "sqm, use_mq: download" sh -ec '
	ip link add name ifb4v2 numtxqueues 4 type ifb
	cake-tc qdisc add dev v2 handle ffff: ingress
	cake-tc qdisc add dev ifb4v2 root cake_mq bandwidth 92160kbit overhead 42 mpu 0 \
		besteffort wash
	ip link set dev ifb4v2 up
	cake-tc filter add dev v2 parent ffff: protocol all prio 10 u32 match u32 0 0 \
		flowid 1:1 action mirred egress redirect dev ifb4v2
	cake-tc -s qdisc show dev ifb4v2 | grep -q "group rate 92160Kbit"'
check "sqm, use_mq: stopped" sh -ec '
	cake-tc qdisc del dev v2 ingress
	cake-tc qdisc del dev v2 root
	ip link delete dev ifb4v2 type ifb'
ip link del v2

# ---- gone without a trace
ip link del d0; ip netns del peer; ip link del $DEV 2> /dev/null; sleep 0.3
check "module unloads" rmmod sch_cake
check "and loads again" modprobe sch_cake
rmmod sch_cake
check "packages are removed" dpkg -r cake-mq-dkms cake-mq-tc
check "the kernel's own module is back" sh -c 'modinfo -n sch_cake | grep -q kernel/net/sched'
check "it loads" modprobe sch_cake
dmesg
echo "END"
echo o > /proc/sysrq-trigger; sleep 60
