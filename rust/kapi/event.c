// SPDX-License-Identifier: GPL-2.0
#include <linux/err.h>
#include <linux/eventfd.h>

#include "kapi_event.h"

/**
 * superp_event_get - the eventfd of a program
 * @fd: its descriptor in the calling process
 * @err: where a negative errno goes: -EBADF, -EINVAL (no eventfd)
 *
 * Context: process.
 * Return: the eventfd, to be given to superp_event_put(), or NULL.
 */
struct eventfd_ctx *superp_event_get(int fd, int *err)
{
	struct eventfd_ctx *event = eventfd_ctx_fdget(fd);

	*err = PTR_ERR_OR_ZERO(event);
	return IS_ERR(event) ? NULL : event;
}

/**
 * superp_event_signal - add one to an eventfd, and wake who waits
 * @event: what superp_event_get() returned
 *
 * Context: any up to softirq.
 */
void superp_event_signal(struct eventfd_ctx *event)
{
	eventfd_signal(event);
}

/**
 * superp_event_put - the eventfd is not used any more
 * @event: what superp_event_get() returned
 *
 * Context: any up to softirq.
 */
void superp_event_put(struct eventfd_ctx *event)
{
	eventfd_ctx_put(event);
}
