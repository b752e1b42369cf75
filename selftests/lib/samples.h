/* SPDX-License-Identifier: GPL-2.0 */
/* Times of round trips, in nanoseconds, and what is told of them. */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "clock.h"

#define MOST_SAMPLES (1u << 22)
#define CALIBRATION_NS 50000000

static uint64_t samples[MOST_SAMPLES];

/* The processor's counter, if it ticks evenly; else 0. */
static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	static int even = -1;
	unsigned int a, b, c, d;

	if (even < 0)
		even = __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1 << 8;
	if (even)
		return __rdtsc();
#endif
	return 0;
}

/*
 * Nanoseconds, by that counter where there is one, as superp perf takes them and perftest does: a clock that is a
 * system call, as in User Mode Linux, would be a good part of a round trip. Not for several threads.
 */
static inline uint64_t now(void)
{
	static uint64_t first;
	static double ns_per_tick;
	uint64_t start, time;

	if (!first && ticks()) {
		start = clock_now();
		first = ticks();
		do {
			time = clock_now() - start;
		} while (time < CALIBRATION_NS);
		ns_per_tick = (double)time / (ticks() - first);
	}
	return first ? (ticks() - first) * ns_per_tick : clock_now();
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
