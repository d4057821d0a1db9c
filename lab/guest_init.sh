#!/bin/sh
# First process of a guest. The host's root file system is there, read-only; the
# job's own folder is mounted read-write at /run/job. Runs /run/job/command and
# leaves its exit code there: a missing code is a failure.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm 2>/dev/null || {
	mkdir -p /dev/shm
	mount -t tmpfs shm /dev/shm
}
# a checkout below one of these is hidden now
[ -e "$CHECKOUT/lab" ] || {
	mkdir -p "$CHECKOUT"
	mount -r -t hostfs -o "$CHECKOUT" checkout "$CHECKOUT"
}
mkdir /run/job /run/netns
mount -t hostfs -o "$JOB" job /run/job
ip link set lo up
. /run/job/environment
sh /run/job/command
echo $? >/run/job/rc
dmesg >/run/job/dmesg
# of a kernel that counts which lines run
find /sys/kernel/debug/gcov -name '*.gcda' 2>/dev/null | while read -r counts; do
	cat "$counts" >"/run/job/$(basename "$counts")"
done
busybox poweroff -f
