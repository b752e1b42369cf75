// SPDX-License-Identifier: GPL-2.0
#include <linux/hrtimer.h>

#include "kapi_timer.h"

/**
 * superp_timer_queued - will this timer expire?
 * @timer: an initialised timer
 *
 * Context: any; the answer lasts only while nothing else can start or stop the timer.
 */
bool superp_timer_queued(struct hrtimer *timer)
{
	return hrtimer_is_queued(timer);
}
