// SPDX-License-Identifier: GPL-2.0
/* Make a scenario that fails a check smaller, as long as it fails the same */
#include "fuzz.h"

#define MOST_RUNS	600

static struct scenario try;
static struct outcome result;
static u32 runs;

/* Keep what is in `try` if it fails in the same way */
static bool keep(struct scenario *s)
{
	if (runs++ >= MOST_RUNS)
		return false;
	simulate(&try, &result);
	if (!result.failed)
		return false;
	*s = try;
	/* What comes after the failure is of no use */
	if (result.at < s->ns)
		s->ns = min(s->ns, result.at + 1);
	return true;
}

static bool drop_member(struct scenario *s, u32 i)
{
	try = *s;
	memmove(&try.m[i], &try.m[i + 1], (s->n - i - 1) * sizeof(try.m[0]));
	try.n--;
	return keep(s);
}

static bool drop_change(struct scenario *s, u32 i)
{
	try = *s;
	memmove(&try.change[i], &try.change[i + 1],
		(s->changes - i - 1) * sizeof(try.change[0]));
	try.changes--;
	return keep(s);
}

#define without(s, field, value) ({					\
	bool _less = false;						\
									\
	if ((s)->field != (value)) {					\
		try = *(s);						\
		try.field = (value);					\
		_less = keep(s);					\
	}								\
	_less; })

static bool plainer_member(struct scenario *s, u32 i)
{
	static const struct source none;
	bool less = false;
	u32 j;

	less |= without(s, m[i].late, 0);
	less |= without(s, m[i].stop_every, 0);
	less |= without(s, m[i].together, false);
	less |= without(s, m[i].bql, 0);
	less |= without(s, m[i].hang, NEVER);
	less |= without(s, m[i].reset_every, 0);
	less |= without(s, m[i].leave_every, 0);
	less |= without(s, m[i].leave_after, 0);
	less |= without(s, m[i].skew, 0);
	less |= without(s, m[i].overhead, 0);
	less |= without(s, m[i].atm, false);
	less |= without(s, m[i].burst, 0);
	less |= without(s, m[i].tins, 0);
	for (j = 0; j < SOURCES; j++) {
		if (!s->m[i].src[j].kind)
			continue;
		try = *s;
		try.m[i].src[j] = none;
		if (keep(s)) {
			less = true;
			continue;
		}
		less |= without(s, m[i].src[j].sparse, false);
		less |= without(s, m[i].src[j].size, FIXED);
		less |= without(s, m[i].src[j].lo, MTU);
		less |= without(s, m[i].src[j].from, 0);
	}

	return less;
}

/* Return: how many runs it took */
u32 shrink(struct scenario *s, const struct outcome *was)
{
	bool less = true;
	u32 i;

	only = was->check;
	stop_at_failure = true;
	runs = 0;
	while (less && runs < MOST_RUNS) {
		less = false;
		for (i = s->n; i-- && s->n > 1;)
			less |= drop_member(s, i);
		for (i = s->changes; i--;)
			less |= drop_change(s, i);
		less |= without(s, start, 1);
		less |= without(s, race, 0);
		less |= without(s, mtu, MTU);
		for (i = 0; i < s->n; i++)
			less |= plainer_member(s, i);
		for (i = 0; i < s->changes; i++)
			less |= without(s, change[i].gap, 0);
	}
	only = CHECKS;
	stop_at_failure = false;

	return runs;
}
