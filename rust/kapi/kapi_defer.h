/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_DEFER_H
#define _SUPERP_KAPI_DEFER_H

#include <linux/types.h>

struct workqueue_struct;

extern struct workqueue_struct *superp_wq;

int superp_defer_init(void);
void superp_defer_exit(void);
void superp_defer_flush(void);
void superp_defer_resched(void);

#endif /* _SUPERP_KAPI_DEFER_H */
