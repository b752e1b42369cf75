// SPDX-License-Identifier: GPL-2.0
#include <linux/err.h>
#include <linux/eventfd.h>

#include "kapi_event.h"

/**
 * superp_event_get - take a reference to an eventfd of a program
 * @fd: descriptor in the calling process
 * @err: returns 0, -EBADF, or -EINVAL if the file is no eventfd
 *
 * Context: process.
 * Return: the eventfd, to be released by superp_event_put(), or NULL.
 */
struct eventfd_ctx *superp_event_get(int fd, int *err)
{
	struct eventfd_ctx *event = eventfd_ctx_fdget(fd);

	*err = PTR_ERR_OR_ZERO(event);
	return IS_ERR(event) ? NULL : event;
}

/**
 * superp_event_signal - add 1 to the counter of an eventfd and wake its waiters
 * @event: what superp_event_get() returned
 *
 * Context: any up to softirq.
 */
void superp_event_signal(struct eventfd_ctx *event)
{
	eventfd_signal(event);
}

/**
 * superp_event_put - drop the reference to an eventfd
 * @event: what superp_event_get() returned
 *
 * Context: any up to softirq.
 */
void superp_event_put(struct eventfd_ctx *event)
{
	eventfd_ctx_put(event);
}
