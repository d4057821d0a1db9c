#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# First process of a guest. The host's root file system is there, read-only; the
# job's own folder is mounted read-write at /run/job. Runs /run/job/command and
# leaves its exit code there: a missing code is a failure.

# mount a folder of the host: -r or -w, its name with QEMU, its path there, where to
share()
{
	case $SHARE in
	9p) mount "$1" -t 9p -o trans=virtio,version=9p2000.L,msize=262144 "$2" "$4" ;;
	# mount(8) before 2.39 hands on the options as they are, later ones by name
	*) mount "$1" -t hostfs -o "$3" "$2" "$4" 2>/dev/null ||
		mount "$1" -t hostfs -o "hostfs=$3" "$2" "$4" ;;
	esac
}

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
	share -r checkout "$CHECKOUT" "$CHECKOUT"
}
mkdir /run/job /run/netns
share -w job "$JOB" /run/job
: >/run/job/started
ip link set lo up
leaks=/sys/kernel/debug/kmemleak # of a kernel that looks for them, at the end
[ -e $leaks ] && echo scan=off >$leaks
. /run/job/environment
sh /run/job/command
echo $? >/run/job/rc
# what is younger than 5 s does not count
[ -e $leaks ] && echo scan >$leaks && sleep 6 && echo scan >$leaks &&
	cat $leaks >/run/job/kmemleak
dmesg >/run/job/dmesg
# of a kernel that counts which lines run
find /sys/kernel/debug/gcov -name '*.gcda' 2>/dev/null | while read -r counts; do
	cat "$counts" >"/run/job/$(basename "$counts")"
done
[ "$SHARE" = 9p ] && busybox reboot -f # which ends QEMU; UML would begin again
busybox poweroff -f
