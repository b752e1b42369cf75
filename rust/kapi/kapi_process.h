/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SUPERP_KAPI_PROCESS_H
#define _SUPERP_KAPI_PROCESS_H

#include <linux/types.h>

/* Size of a command name in bytes, terminating zero included: TASK_COMM_LEN. */
#define SUPERP_COMMAND_LEN	16

struct pid;

struct pid *superp_process_current(void);
struct pid *superp_process_get(struct pid *process);
void superp_process_put(struct pid *process);
u32 superp_process_look(struct pid *process, u8 command[SUPERP_COMMAND_LEN]);

#endif /* _SUPERP_KAPI_PROCESS_H */
