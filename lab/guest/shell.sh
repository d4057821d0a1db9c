# SPDX-License-Identifier: GPL-2.0
# What make shell begins with in its guest.
ip link add eth0 numtxqueues 4 numrxqueues 4 type dummy
ip link set eth0 up
exec </dev/console >/dev/console 2>&1
cat <<'END'

The patched kernel, the tc that fits it, and eth0 with 4 TX queues. Try:

  tc qdisc add dev eth0 root handle 1: mq
  for q in 1 2 3; do tc qdisc add dev eth0 parent 1:$q cake bandwidth 100mbit shared; done
  tc qdisc add dev eth0 parent 1:4 tbf rate 100mbit burst 16kb limit 1mb shared
  tc qdisc change dev eth0 parent 1:1 cake bandwidth 500mbit; tc qdisc show dev eth0

'exit' ends it.
END
PS1='patched# ' setsid -c sh -i
