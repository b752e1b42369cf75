// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin for QEMU that counts instructions: those of the kernel, by where they are, and those of programs. The
 * guest asks by a file in the folder that both share:
 *
 *	-plugin count.so,folder=FOLDER
 *
 * When there is FOLDER/ask, it is removed, and in FOLDER/told is "KERNEL PROGRAMS". In FOLDER/places then is a line
 * "ADDRESS COUNT" for each place in the kernel, or several for one.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is needed of qemu-plugin.h, which Debian has in no package. */
#define EXPORT __attribute__((visibility("default")))
struct qemu_info;
struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
typedef void (*tb_callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_callback)(unsigned int cpu, void *data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_callback call);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_callback call, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

/* -DAPI=…: the interface that QEMU has. */
EXPORT int qemu_plugin_version = API;

/* Each processor of the guest is a thread, which has a counter of its own; boot-qemu makes two. */
#define CPUS 2

/* Instructions that follow one another, and how often they were run. */
struct block {
	struct block *next;
	uint64_t address, instructions, times[CPUS];
};

static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char ask[4096], told[4096], making[4096], places[4096];

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	block->times[cpu % CPUS]++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	block->address = qemu_plugin_tb_vaddr(tb);
	block->instructions = qemu_plugin_tb_n_insns(tb);
	pthread_mutex_lock(&lock);
	block->next = blocks;
	blocks = block;
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, block);
}

static uint64_t of(const struct block *block)
{
	uint64_t times = 0;
	int cpu;

	for (cpu = 0; cpu < CPUS; cpu++)
		times += block->times[cpu];
	return times * block->instructions;
}

/* The half of the addresses that is the kernel's. */
static int is_kernel(const struct block *block)
{
	return block->address >> 63;
}

/* Writes where the kernel spent how much; the sums go to @sums: of programs, and of the kernel. */
static int list_places(uint64_t sums[2])
{
	const struct block *block;
	FILE *file = fopen(places, "w");

	if (!file)
		return -1;
	pthread_mutex_lock(&lock);
	block = blocks;
	pthread_mutex_unlock(&lock);
	for (; block; block = block->next) {
		sums[is_kernel(block)] += of(block);
		if (is_kernel(block))
			fprintf(file, "%" PRIx64 " %" PRIu64 "\n", block->address, of(block));
	}
	return fclose(file);
}

static void tell(void)
{
	uint64_t sums[2] = { 0 };
	FILE *file;

	if (list_places(sums))
		return;
	file = fopen(making, "w");
	if (!file)
		return;
	fprintf(file, "%" PRIu64 " %" PRIu64 "\n", sums[1], sums[0]);
	fclose(file);
	rename(making, told);
}

static void *answer(void *unused)
{
	for (;;) {
		usleep(5000);
		if (!unlink(ask))
			tell();
	}
	return NULL;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	static const char option[] = "folder=";
	const char *folder;
	pthread_t thread;

	if (argc != 1 || strncmp(argv[0], option, strlen(option))) {
		fprintf(stderr, "count.so: wants folder=FOLDER and nothing else\n");
		return -1;
	}
	folder = argv[0] + strlen(option);
	snprintf(ask, sizeof(ask), "%s/ask", folder);
	snprintf(told, sizeof(told), "%s/told", folder);
	snprintf(making, sizeof(making), "%s/making", folder);
	snprintf(places, sizeof(places), "%s/places", folder);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return pthread_create(&thread, NULL, answer, NULL) ? -1 : 0;
}
