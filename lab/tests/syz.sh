# SPDX-License-Identifier: GPL-2.0
# Run in the guest: the fuzzer, whose command line the arguments are, with allocations that fail.
cd /sys/kernel
[ ! -w rcu_expedited ] || echo 1 >rcu_expedited
cd debug
echo N >failslab/ignore-gfp-wait
echo Y >failslab/cache-filter
echo 0 >failslab/verbose
# Not those that kmemleak makes for itself
for cache in /sys/kernel/slab/kmalloc-* /sys/kernel/slab/radix_tree_node; do
	echo 1 >"$cache/failslab"
done
echo N >fail_page_alloc/ignore-gfp-wait
echo 0 >fail_page_alloc/verbose
echo 1 >/proc/sys/kernel/panic_on_rcu_stall # a kernel that hangs ends
"$@"
code=$?
cp lab_blocks /run/job/blocks
exit $code
