# SPDX-License-Identifier: GPL-2.0
# What iproute2's configure would find out: tc without programs and libraries of others.
YACC:=bison
TC_CONFIG_NO_XT:=y
IP_CONFIG_SETNS:=y
CFLAGS += -DHAVE_SETNS -DHAVE_HANDLE_AT
CONF_COLOR:=COLOR_OPT_NEVER
%.o: %.c
	$(QUIET_CC)$(CC) $(CFLAGS) $(EXTRA_CFLAGS) $(CPPFLAGS) -c -o $@ $<
