// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU's TCG that counts how often each instruction of the guest's kernel
 * is executed between two calls of one function: the from-th and the to-th.
 *
 *	-plugin count.so,out=FILE,text=ADDR,etext=ADDR,at=ADDR,from=N,to=N
 *
 * ADDR: hexadecimal; text and etext: of the kernel, at: of the function. When the
 * to-th call is made, FILE gets lines "address count", with address 0 for all that is
 * not in the kernel's text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu-plugin.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static const char *out;
static uint64_t text, etext, at, from, to;
static uint64_t *count;		/* of each byte's address from text on */
static uint64_t other, calls;

static void report(void)
{
	FILE *file = fopen(out, "w");
	uint64_t i;

	if (!file) {
		perror(out);
		exit(1);
	}
	fprintf(file, "0 %lu\n", other);
	for (i = 0; i < etext - text; i++)
		if (count[i])
			fprintf(file, "%lx %lu\n", text + i, count[i]);
	fclose(file);
}

static void called(unsigned int vcpu, void *data)
{
	calls++;
	if (calls == from) {
		memset(count, 0, (etext - text) * sizeof(*count));
		other = 0;
	} else if (calls == to) {
		report();
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), i;

	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t addr = qemu_plugin_insn_vaddr(insn);
		bool ours = addr >= text && addr < etext;

		if (addr == at)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, called,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
							   ours ? &count[addr - text] : &other,
							   1);
	}
}

static bool argument(char *arg)
{
	static const struct {
		const char *name;
		uint64_t *value;
		int base;
	} numbers[] = {
		{ "text", &text, 16 }, { "etext", &etext, 16 }, { "at", &at, 16 },
		{ "from", &from, 10 }, { "to", &to, 10 },
	};
	char *value = strchr(arg, '=');
	size_t i;

	if (!value)
		return false;
	*value++ = '\0';
	if (!strcmp(arg, "out")) {
		out = strdup(value);
		return true;
	}
	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(arg, numbers[i].name)) {
			*numbers[i].value = strtoull(value, NULL, numbers[i].base);
			return true;
		}
	return false;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
					   int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++)
		if (!argument(argv[i]))
			return -1;
	if (!out || !text || etext <= text || !at || !from || to <= from)
		return -1;
	count = calloc(etext - text, sizeof(*count));
	if (!count)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
