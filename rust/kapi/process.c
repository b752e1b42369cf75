// SPDX-License-Identifier: GPL-2.0
/* Processes, for people who look whose an object is. */
#include <linux/cleanup.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "kapi_process.h"

static_assert(SUPERP_COMMAND_LEN == TASK_COMM_LEN);

/**
 * superp_process_current - the calling process
 *
 * Context: process.
 * Return: its identity, which is not reused, unlike its number; put it.
 */
struct pid *superp_process_current(void)
{
	return get_pid(task_tgid(current));
}

/**
 * superp_process_get - take a reference
 * @process: from superp_process_current()
 *
 * Context: any.
 * Return: @process.
 */
struct pid *superp_process_get(struct pid *process)
{
	return get_pid(process);
}

/**
 * superp_process_put - give a reference back
 * @process: from superp_process_current()
 *
 * Context: any.
 */
void superp_process_put(struct pid *process)
{
	put_pid(process);
}

/**
 * superp_process_look - what the current process may know of a process
 * @process: from superp_process_current()
 * @command: out, its command name, ended by a zero byte; unchanged without a number
 *
 * Context: process.
 * Return: its number in the pid namespace of the current process; 0 when it has
 * none there, or has ended.
 */
u32 superp_process_look(struct pid *process, u8 command[SUPERP_COMMAND_LEN])
{
	struct task_struct *task;
	pid_t number;

	guard(rcu)();
	task = pid_task(process, PIDTYPE_TGID);
	if (!task)
		return 0;
	number = pid_nr_ns(process, task_active_pid_ns(current));
	if (number)
		strscpy((char *)command, task->comm, SUPERP_COMMAND_LEN);
	return number;
}
