/* SPDX-License-Identifier: GPL-2.0 */
/* A clock that is never set. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds. */
static inline uint64_t clock_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static inline long now_ms(void)
{
	return clock_now() / 1000000;
}

#endif /* CLOCK_H */
