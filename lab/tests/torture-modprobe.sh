#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The modprobe of a guest of make torture: the modules that its kernel was built with, in a folder.
for module in sch_rate_group sch_rate_group_qdisc; do
	[ -e /sys/module/$module ] || insmod @FOLDER@/$module.ko
done
case $3 in
*cake*) insmod @FOLDER@/sch_cake.ko ;;
*tbf) insmod @FOLDER@/sch_tbf.ko ;;
*mqprio) insmod @FOLDER@/sch_mqprio.ko ;;
esac
