// SPDX-License-Identifier: GPL-2.0
#include <linux/errno.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "kapi_defer.h"

/* Runs in process context what other contexts defer. */
struct workqueue_struct *superp_wq;

/**
 * superp_defer_init - allocate the workqueue
 *
 * Context: process; before anything can be deferred.
 * Return: 0 or -ENOMEM.
 */
int superp_defer_init(void)
{
	superp_wq = alloc_workqueue("superp", WQ_UNBOUND, 0);
	return superp_wq ? 0 : -ENOMEM;
}

/**
 * superp_defer_flush - wait for all work that has been deferred so far
 *
 * Context: process; no lock held that deferred work takes.
 */
void superp_defer_flush(void)
{
	/* An rcu_work enters the workqueue only after its grace period. */
	rcu_barrier();
	flush_workqueue(superp_wq);
}

/**
 * superp_defer_exit - wait until nothing executes the module's code any more
 *
 * Waits for deferred work, and for softirqs: a timer or a callback of the network stack may still
 * be returning from the module's code when the object that it used is gone.
 *
 * Context: process; after everything that defers work, starts timers or registers callbacks.
 */
void superp_defer_exit(void)
{
	/* An rcu_work enters the workqueue only after its grace period. */
	rcu_barrier();
	destroy_workqueue(superp_wq);
	synchronize_rcu();
}

/**
 * superp_defer_resched - let others run between two steps of a long loop
 *
 * Context: process, no lock held.
 */
void superp_defer_resched(void)
{
	cond_resched();
}
