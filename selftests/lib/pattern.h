/* SPDX-License-Identifier: GPL-2.0 */
/* Bytes that tests send, and their checksum. */
#ifndef PATTERN_H
#define PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that no two messages and no two places share by accident. */
static inline uint8_t pattern(size_t i, unsigned int seed)
{
	return (uint8_t)((i * 2654435761u) >> 13) + (uint8_t)(seed * 37);
}

static inline void pattern_fill(void *buffer, size_t len, unsigned int seed)
{
	uint8_t *bytes = buffer;
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = pattern(i, seed);
}

/* The first place that differs, or -1. */
static inline ssize_t pattern_check(const void *buffer, size_t len,
				    unsigned int seed)
{
	const uint8_t *bytes = buffer;
	size_t i;

	for (i = 0; i < len; i++)
		if (bytes[i] != pattern(i, seed))
			return i;
	return -1;
}

/* As everyone computes it. */
static inline uint32_t crc32(const uint8_t *bytes, size_t len)
{
	uint32_t crc = ~0u;
	int bit;

	while (len--) {
		crc ^= *bytes++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

#endif
