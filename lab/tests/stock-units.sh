#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Sets a system up as the guide says under "Across reboots"; it then runs booted.sh.
cat > /etc/systemd/system/booted.service <<END
[Service]
Type=oneshot
ExecStart=/bin/sh /booted.sh

[Install]
WantedBy=multi-user.target
END
cat > /usr/local/sbin/shape-eth0 <<END
#!/bin/sh
cake-tc qdisc replace dev eth0 root cake_mq bandwidth 900mbit
END
chmod 755 /usr/local/sbin/shape-eth0
systemctl enable shape-eth0 booted
