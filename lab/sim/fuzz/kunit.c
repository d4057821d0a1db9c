// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the KUnit cases of the rate group in user space, so that sanitizers look at them.
 * The last line is as that of fuzz.
 */
#include <kunit.h>

extern struct kunit_suite *shim_suite;

const char *shim_case;
const atomic64_t *shim_watched;
bool shim_racing;

void shim_moved(s64 from, s64 to)
{
	(void)from, (void)to;
}

void shim_race(void)
{
}

void shim_overflow(const char *what)
{
	printf("overflow in %s: %s\n", shim_case, what);
	abort();
}

static bool run(const struct kunit_case *one, const void *param)
{
	struct kunit test = { .param_value = param };

	shim_case = one->name;
	shim_suite->init(&test);
	one->run(&test);
	shim_suite->exit(&test);
	free(test.priv);
	return !test.failed;
}

int main(void)
{
	const struct kunit_case *one;
	u32 count = 0, ok = 0;
	const void *param;
	char desc[128];

	for (one = shim_suite->test_cases; one->run; one++) {
		param = one->next ? one->next(NULL, desc) : NULL;
		do {
			ok += run(one, param);
			count++;
		} while (param && (param = one->next(param, desc)));
	}
	printf("%u ok, %u failed, 0 packets\n", ok, count - ok);
	return ok < count;
}
