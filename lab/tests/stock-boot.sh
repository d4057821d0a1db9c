#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# After a boot with systemd: the unit of the guide has shaped eth0. Then so does ifup.
check() { if sh -c "$2" > /tmp/out 2>&1; then echo "OK $1"; else cat /tmp/out; echo "FAIL $1"; fi; }
exec > /dev/console 2>&1
echo  # the console may be in the middle of a line
shaped="cake-tc qdisc show dev eth0 | grep -q 'cake_mq.*bandwidth 900Mbit'"
for _ in $(seq 30); do sh -c "$shaped" && break; sleep 1; done
check "systemd: the unit of the guide shapes at boot" "$shaped"
check "systemd: it is stopped" "systemctl disable --now shape-eth0 && tc qdisc del dev eth0 root"
check "ifupdown: the line of the guide shapes" "ifdown --force eth0; ifup eth0 && $shaped"
dmesg
echo END
poweroff -ff
