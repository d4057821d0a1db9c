/* SPDX-License-Identifier: GPL-2.0 */
/* 6.5: what is in net/gso.h was in linux/netdevice.h before */
#include <linux/netdevice.h>
