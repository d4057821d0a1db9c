// SPDX-License-Identifier: GPL-2.0-only
///
/// Find misuse of the state that sibling qdiscs share: operations that do not
/// go together, a block that is used by a qdisc which has left it, and private
/// data of a qdisc that was found on some queue and may be of any kind. See
/// Documentation/networking/qdisc-shared-state.rst.
///
//# A detach operation that lets a helper forget the block is reported wrongly.
//# A look at the ops of a qdisc anywhere before its private data is used counts
//# as knowing its kind.
//
// Confidence: Moderate
// Options: --no-includes --include-headers
// Keywords: Qdisc_ops, shared_size, shared_assign, shared_detach, qdisc_priv

virtual context
virtual org
virtual report

// Operations that do not go together. register_qdisc() refuses them, but only
// when it is called.

@sized@
identifier s;
expression E;
position size;
@@

 struct Qdisc_ops s@size = { .shared_size = E, };

@assigned@
identifier s, f;
position assign;
@@

 struct Qdisc_ops s@assign = { .shared_assign = f, };

@detached@
identifier s, f;
position detach;
@@

 struct Qdisc_ops s@detach = { .shared_detach = f, };

@no_assign@
identifier s;
expression E;
position p != assigned.assign;
@@

*struct Qdisc_ops s@p = { .shared_size = E, };

@no_detach@
identifier s;
expression E;
position p != detached.detach;
@@

*struct Qdisc_ops s@p = { .shared_size = E, };

@no_size@
identifier s, f;
position p != sized.size;
@@

(
*struct Qdisc_ops s@p = { .shared_assign = f, };
|
*struct Qdisc_ops s@p = { .shared_detach = f, };
|
*struct Qdisc_ops s@p = { .shared_init = f, };
|
*struct Qdisc_ops s@p = { .shared_exit = f, };
|
*struct Qdisc_ops s@p = { .shared_check = f, };
)

// Where a kind keeps the pointer to the block: the field that its assign
// operation sets.

@kind@
identifier s, assign, detach;
@@

 struct Qdisc_ops s = {
	.shared_assign = assign,
	.shared_detach = detach,
 };

@keeps exists@
identifier kind.assign, sch, block, b, f;
expression Q;
type T;
@@

 assign(struct Qdisc *sch, void *block)
 {
 ... when any
(
 Q->f = block;
|
 rcu_assign_pointer(Q->f, block);
|
 T b = block;
 ... when any
 Q->f = b;
|
 T b = block;
 ... when any
 rcu_assign_pointer(Q->f, b);
)
 ... when any
 }

// The detach operation must make the qdisc forget it.

@kept exists@
identifier kind.detach, keeps.f;
expression Q;
position p;
@@

*detach@p(...)
 {
 ... when != Q->f = NULL
     when != RCU_INIT_POINTER(Q->f, NULL)
     when != rcu_assign_pointer(Q->f, NULL)
 }

// From then on the qdisc must not use it ...

@forgotten exists@
identifier keeps.f, g;
expression Q, E;
position p;
@@

(
 Q->f = NULL;
|
 RCU_INIT_POINTER(Q->f, NULL);
|
 rcu_assign_pointer(Q->f, NULL);
)
 ... when != Q->f = E
     when != rcu_assign_pointer(Q->f, E)
     when != Q = E
(
*Q->f@p->g
|
*\(rcu_dereference\|rcu_dereference_bh\|rtnl_dereference\)(Q->f@p)
)

// ... nor by a copy of the pointer that was made before.

@left exists@
identifier keeps.f, kind.detach, b, g;
expression Q, E;
type T;
position p;
@@

(
 T b = \(rcu_dereference\|rcu_dereference_bh\|rtnl_dereference\)(Q->f);
|
 b = \(rcu_dereference\|rcu_dereference_bh\|rtnl_dereference\)(Q->f);
|
 T b = Q->f;
|
 b = Q->f;
)
 ... when any
 \(qdisc_shared_leave\|qdisc_shared_destroy\|detach\)(...);
 ... when != b = E
*b@p->g

// A multiqueue parent that lets nobody replace its children knows them.

@grafts exists@
identifier f;
position p;
@@

 f@p(...) { <+... dev_graft_qdisc(...) ...+> }

@refuses@
identifier f, sch, cl, new, old, extack;
position p != grafts.p;
@@

 f@p(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
     struct Qdisc **old, struct netlink_ext_ack *extack) {...}

@refusing@
identifier refuses.f, c;
@@

 struct Qdisc_class_ops c = { .graft = f, };

@parent@
identifier refusing.c, s, f, h;
@@

 struct Qdisc_ops s = {
	.cl_ops = &c,
	.attach = h,
	.change = f,
 };

@known exists@
identifier parent.f;
expression E;
position p;
@@

 f(...) { <+... qdisc_priv@p(E) ...+> }

// Private data of any other qdisc that was found on some queue.

@cast exists@
expression X, E;
identifier sch, q, g;
type T1, T2;
position p != known.p;
@@

(
 sch = <+... \(X->qdisc\|X->qdisc_sleeping\) ...+>;
|
 T1 sch = <+... \(X->qdisc\|X->qdisc_sleeping\) ...+>;
|
 sch = \(qdisc_root\|qdisc_root_bh\|qdisc_root_sleeping\|qdisc_lookup\|qdisc_lookup_rcu\|mq_leaf\)(...);
|
 T1 sch = \(qdisc_root\|qdisc_root_bh\|qdisc_root_sleeping\|qdisc_lookup\|qdisc_lookup_rcu\|mq_leaf\)(...);
)
 ... when != sch->ops
     when != sch = E
(
 q = qdisc_priv@p(sch);
|
 T2 q = qdisc_priv@p(sch);
)
 ... when != sch->ops
     when != q = E
*q->g

@script:python depends on org@
p << no_assign.p;
s << no_assign.s;
@@

coccilib.org.print_todo(p[0], "%s has shared_size, but no shared_assign" % s)

@script:python depends on org@
p << no_detach.p;
s << no_detach.s;
@@

coccilib.org.print_todo(p[0], "%s has shared_size, but no shared_detach" % s)

@script:python depends on org@
p << no_size.p;
s << no_size.s;
@@

coccilib.org.print_todo(p[0], "%s has operations for sharing, but no shared_size" % s)

@script:python depends on org@
p << kept.p;
detach << kind.detach;
@@

coccilib.org.print_todo(p[0], "%s leaves a pointer to the block behind" % detach)

@script:python depends on org@
p << forgotten.p;
f << keeps.f;
@@

coccilib.org.print_todo(p[0], "%s is used after it was cleared" % f)

@script:python depends on org@
p << left.p;
b << left.b;
@@

coccilib.org.print_todo(p[0], "%s is used after its block was left" % b)

@script:python depends on org@
p << cast.p;
sch << cast.sch;
@@

coccilib.org.print_todo(p[0], "private data of %s is used, which may be of any kind" % sch)

@script:python depends on report@
p << no_assign.p;
s << no_assign.s;
@@

coccilib.report.print_report(p[0], "ERROR: %s has shared_size, but no shared_assign" % s)

@script:python depends on report@
p << no_detach.p;
s << no_detach.s;
@@

coccilib.report.print_report(p[0], "ERROR: %s has shared_size, but no shared_detach" % s)

@script:python depends on report@
p << no_size.p;
s << no_size.s;
@@

coccilib.report.print_report(p[0], "ERROR: %s has operations for sharing, but no shared_size" % s)

@script:python depends on report@
p << kept.p;
detach << kind.detach;
@@

coccilib.report.print_report(p[0], "ERROR: %s leaves a pointer to the block behind" % detach)

@script:python depends on report@
p << forgotten.p;
f << keeps.f;
@@

coccilib.report.print_report(p[0], "ERROR: %s is used after it was cleared" % f)

@script:python depends on report@
p << left.p;
b << left.b;
@@

coccilib.report.print_report(p[0], "ERROR: %s is used after its block was left" % b)

@script:python depends on report@
p << cast.p;
sch << cast.sch;
@@

coccilib.report.print_report(p[0], "ERROR: private data of %s is used, which may be of any kind" % sch)
