/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_TIMER_H
#define _SUPERP_KAPI_TIMER_H

#include <linux/types.h>

struct hrtimer;

bool superp_timer_queued(struct hrtimer *timer);

#endif /* _SUPERP_KAPI_TIMER_H */
