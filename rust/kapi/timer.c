// SPDX-License-Identifier: GPL-2.0
#include <linux/hrtimer.h>

#include "kapi_timer.h"

/**
 * superp_timer_queued - whether a timer is queued, and so will expire
 * @timer: an initialised timer
 *
 * Context: any. The answer is valid only while nothing else can start or stop the timer.
 * Return: whether it is queued.
 */
bool superp_timer_queued(struct hrtimer *timer)
{
	return hrtimer_is_queued(timer);
}
