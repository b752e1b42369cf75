/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's C half, as Rust sees it: bindgen reads this file. Types of the kernel are only
 * declared here, never included, so that they stay opaque.
 */
#ifndef _SUPERP_KAPI_H
#define _SUPERP_KAPI_H

#include <linux/types.h>
#include <linux/superp.h>

bool superp_udp_tunnel_available(void);

#endif /* _SUPERP_KAPI_H */
