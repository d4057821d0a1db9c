# SPDX-License-Identifier: GPL-2.0
# Run in the guest: tc-testing of the folder SUITE, the suites FILES, JOBS at a time.
mkdir /tmp/tdc && cp -r "$SUITE/." /tmp/tdc && cd /tmp/tdc || exit 1
cat >tdc_config_local.py <<END
import os
import pyroute2.config as patience
patience.default_communicate_timeout = patience.default_create_socket_timeout = 300
ENVIR = dict(os.environ)
EXTRA_NAMES = {"TC": "$(command -v tc)", "IP": "$(command -v ip)", "TIMEOUT": 300}
END
sysctl -q net.core.default_qdisc=pfifo_fast 2>/dev/null
python tdc.py -J "$JOBS" --outfile /run/job/tap -f $FILES >/run/job/tdc.log 2>&1
true
