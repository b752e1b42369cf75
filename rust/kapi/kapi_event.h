/* SPDX-License-Identifier: GPL-2.0 */
/* Eventfds of programs. Rust side: event.rs. */
#ifndef _SUPERP_KAPI_EVENT_H
#define _SUPERP_KAPI_EVENT_H

struct eventfd_ctx;

struct eventfd_ctx *superp_event_get(int fd, int *err);
void superp_event_signal(struct eventfd_ctx *event);
void superp_event_put(struct eventfd_ctx *event);

#endif /* _SUPERP_KAPI_EVENT_H */
