#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# The guest's first program: sets up what /tc.batch says, does what /hop.txt says, and
# ends with a line DONE, or without one.
export PATH=/bin
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb sleep 2	# guest's time: until the clock is the one that stays

run() {
	/bin/tc -batch /tc.batch || return
	while read -r line; do
		echo "$line" >/proc/hop || return
	done </hop.txt
	echo "CLOCK $($bb cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
	$bb head -c 400 /proc/hop
	echo
	echo DONE
}

$bb ip link set hop0 up && run
$bb reboot -f
