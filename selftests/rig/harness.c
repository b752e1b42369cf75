// SPDX-License-Identifier: GPL-2.0
/* Tests in C are compiled against the kernel's harness and this module's header. */
#include <stdio.h>
#include <string.h>
#include <linux/superp.h>

#include "kselftest_harness.h"

TEST(proc_modules__names_superp)
{
	char line[256];
	bool found = false;
	FILE *modules = fopen("/proc/modules", "r");

	ASSERT_NE(NULL, modules);
	while (fgets(line, sizeof(line), modules))
		found |= !strncmp(line, "superp ", 7);
	fclose(modules);
	EXPECT_TRUE(found);
}

TEST_HARNESS_MAIN
