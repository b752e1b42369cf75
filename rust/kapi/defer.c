// SPDX-License-Identifier: GPL-2.0
#include <linux/errno.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "kapi_defer.h"

/* For what has to happen in process context and comes up elsewhere. */
struct workqueue_struct *superp_wq;

/**
 * superp_defer_init - make the workqueue
 *
 * Context: process; before anything can be put off.
 * Return: 0 or -ENOMEM.
 */
int superp_defer_init(void)
{
	superp_wq = alloc_workqueue("superp", WQ_UNBOUND, 0);
	return superp_wq ? 0 : -ENOMEM;
}

/**
 * superp_defer_flush - wait for all that was put off so far
 *
 * Context: process, no lock held that what was put off takes.
 */
void superp_defer_flush(void)
{
	/* What waits for a grace period gets onto the workqueue. */
	rcu_barrier();
	flush_workqueue(superp_wq);
}

/**
 * superp_defer_exit - wait until nothing executes the module's code any more
 *
 * That is work that was put off, and softirqs: timers and the network stack's callbacks may still
 * be returning from the module when what they used is gone.
 *
 * Context: process; after everything that puts off, starts timers or registers callbacks.
 */
void superp_defer_exit(void)
{
	/* What waits for a grace period gets onto the workqueue. */
	rcu_barrier();
	destroy_workqueue(superp_wq);
	synchronize_rcu();
}

/**
 * superp_defer_resched - let others run, between two of many steps
 *
 * Context: process, no lock held.
 */
void superp_defer_resched(void)
{
	cond_resched();
}
