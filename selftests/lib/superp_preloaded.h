/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_PRELOADED_H
#define _SUPERP_PRELOADED_H

/* For tests that run by "superp run": two ends of a connection in one namespace. */

#include <stdio.h>
#include <stdlib.h>

static int shell(const char *command)
{
	/* The command is not for libibverbs. */
	char line[256];

	snprintf(line, sizeof(line), "env -u LD_PRELOAD sh -c '%s'", command);
	return system(line);
}

static int connection_up(void)
{
	return shell("superp conn add 1 peer 127.0.0.1 peer-cid 2 encap udp4 dev lo local 127.0.0.1 ext on && "
		     "superp conn add 2 peer 127.0.0.1 peer-cid 1 encap udp4 dev lo local 127.0.0.1 ext on") ||
		shell("superp conn start 1 2");
}

static int connection_down(void)
{
	return shell("superp conn del 1 && superp conn del 2");
}

#endif /* _SUPERP_PRELOADED_H */
