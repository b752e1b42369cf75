// SPDX-License-Identifier: GPL-2.0
/* Identities of processes, so that users can see which process owns an object. */
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
 * superp_process_current - identity of the calling process
 *
 * Unlike its number, the identity is not reused.
 *
 * Context: process.
 * Return: the identity, to be released by superp_process_put().
 */
struct pid *superp_process_current(void)
{
	return get_pid(task_tgid(current));
}

/**
 * superp_process_get - take a reference
 * @process: what superp_process_current() returned
 *
 * Context: any.
 * Return: @process.
 */
struct pid *superp_process_get(struct pid *process)
{
	return get_pid(process);
}

/**
 * superp_process_put - drop a reference
 * @process: what superp_process_current() returned
 *
 * Context: any.
 */
void superp_process_put(struct pid *process)
{
	put_pid(process);
}

/**
 * superp_process_look - number and command name of a process, as the calling process may see them
 * @process: what superp_process_current() returned
 * @command: returns the command name, zero-terminated; unchanged if the number is 0
 *
 * Context: process.
 * Return: number of @process in the pid namespace of the calling process; 0 if it has none there or
 * has ended.
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
