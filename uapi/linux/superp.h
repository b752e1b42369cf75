/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* SUPERp: the interface between the kernel module and user space. */
#ifndef _UAPI_LINUX_SUPERP_H
#define _UAPI_LINUX_SUPERP_H

/* The generic netlink family. */
#define SUPERP_GENL_NAME "superp"

#endif /* _UAPI_LINUX_SUPERP_H */
