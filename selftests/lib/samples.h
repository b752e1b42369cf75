/* SPDX-License-Identifier: GPL-2.0 */
/* Times of round trips, in nanoseconds, and what is told of them. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_SAMPLES (1u << 22)

static uint64_t samples[MOST_SAMPLES];

static inline uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static int samples_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Prints how many there are, the least, the median and the 99th percentile. */
static inline void samples_print(uint64_t count)
{
	qsort(samples, count, sizeof(*samples), samples_compare);
	printf("%llu %llu %llu %llu\n", (unsigned long long)count, (unsigned long long)samples[0],
	       (unsigned long long)samples[count / 2], (unsigned long long)samples[count * 99 / 100]);
}

#endif /* SAMPLES_H */
