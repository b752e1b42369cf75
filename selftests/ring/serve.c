// SPDX-License-Identifier: GPL-2.0
/* A thread that is lent to a context: entries are taken in without doorbells. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "superp_ring.h"

#define AREA 4096
#define ENTRIES 32
#define WAIT_MS 20000

FIXTURE(serve)
{
	int cid;
	struct ring_side a, b;
};

FIXTURE_SETUP(serve)
{
	const struct conn_options options = { .encap = SUPERP_ENCAP_SUNH };

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	ASSERT_EQ(0, ring_side_up(&self->a, &node_a, ENTRIES, AREA));
	ASSERT_EQ(0, ring_side_up(&self->b, &node_b, ENTRIES, AREA));
	ASSERT_EQ(0, qp_connect(&self->a.context, &self->a.qp, &node_b, SUPERP_ENCAP_SUNH, self->b.qp.qpn));
	ASSERT_EQ(0, qp_connect(&self->b.context, &self->b.qp, &node_a, SUPERP_ENCAP_SUNH, self->a.qp.qpn));
}

FIXTURE_TEARDOWN(serve)
{
	context_close(&self->a.context);
	context_close(&self->b.context);
	conn_down(self->cid);
}

static int serve(const struct context *context, uint32_t usec)
{
	struct superp_serve serve = { .usec = usec };

	return ioctl(context->fd, SUPERP_IOC_SERVE, &serve) ? errno : 0;
}

/* A thread that serves again and again, each time for @usec. */
struct server {
	const struct context *context;
	uint32_t usec;
	bool stop, ended;
	int error;
	pthread_t thread;
};

static void *server_run(void *arg)
{
	struct server *server = arg;

	while (!__atomic_load_n(&server->stop, __ATOMIC_RELAXED) && !server->error) {
		server->error = serve(server->context, server->usec);
		if (server->error == ENOBUFS)
			server->error = 0;
	}
	return NULL;
}

static void *server_once(void *arg)
{
	struct server *server = arg;

	server->error = serve(server->context, server->usec);
	__atomic_store_n(&server->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static int server_end(struct server *server)
{
	__atomic_store_n(&server->stop, true, __ATOMIC_RELAXED);
	return pthread_join(server->thread, NULL) ?: server->error;
}

static bool needs_doorbell(const struct qp *qp)
{
	return __atomic_load_n(qp->sq.flags, __ATOMIC_RELAXED) & SUPERP_RING_NEED_WAKEUP;
}

static bool served_within(const struct qp *qp, int ms)
{
	while (needs_doorbell(qp)) {
		if (!ms--)
			return false;
		usleep(1000);
	}
	return true;
}

static struct superp_sqe write_of(FIXTURE_DATA(serve) *self, uint64_t token)
{
	struct superp_sqe entry = sqe_of(SUPERP_OP_WRITE, &self->a.mr, 0, &self->b.mr, 0, 64);

	entry.token = token;
	return entry;
}

TEST_F(serve, takes_in_what_comes_without_doorbells)
{
	struct server server = { .context = &self->a.context, .usec = 20000 };
	uint64_t i, *words = (void *)self->a.memory;
	struct superp_cqe completion;

	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	for (i = 0; i < 2000; i++) {
		struct superp_sqe entry = write_of(self, i);

		words[0] = i;
		ASSERT_TRUE(sq_put(&self->a.qp, &entry));
		ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		ASSERT_EQ(i, completion.token);
		ASSERT_EQ(i, ((uint64_t *)self->b.memory)[0]);
	}
	EXPECT_EQ(0, server_end(&server));
	EXPECT_TRUE(needs_doorbell(&self->a.qp));
}

TEST_F(serve, says_that_no_doorbell_is_needed)
{
	struct server server = { .context = &self->a.context, .usec = SUPERP_MAX_SERVE };

	EXPECT_TRUE(needs_doorbell(&self->a.qp));
	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	EXPECT_TRUE(served_within(&self->a.qp, WAIT_MS));
	EXPECT_EQ(EBUSY, serve(&self->a.context, 1000));
	/* Another context is another matter. */
	EXPECT_EQ(0, serve(&self->b.context, 1000));
	EXPECT_EQ(0, server_end(&server));
	EXPECT_TRUE(needs_doorbell(&self->a.qp));
}

/* Nothing that was put in while no doorbell was needed is left lying when the thread has gone. */
TEST_F(serve, loses_no_entry_at_its_end)
{
	uint64_t put = 0, taken = 0;
	int i;

	for (i = 0; i < 300; i++) {
		struct server server = { .context = &self->a.context, .usec = 200 };
		struct superp_cqe completion;

		ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_once, &server));
		while (!__atomic_load_n(&server.ended, __ATOMIC_RELAXED)) {
			struct superp_sqe entry = write_of(self, put);

			/* As many as have room for their completions. */
			if (put - taken < ENTRIES) {
				ASSERT_EQ(0, post(&self->a.context, &self->a.qp, &entry));
				put++;
			}
			while (cq_take(&self->a.send_cq, &completion))
				taken++;
		}
		ASSERT_EQ(0, pthread_join(server.thread, NULL));
		ASSERT_EQ(0, server.error);
		for (; taken < put; taken++) {
			ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS)) {
				TH_LOG("round %d: entry %llu of %llu was left", i, (unsigned long long)taken,
				       (unsigned long long)put);
			}
		}
	}
}

TEST_F(serve, refuses_times_that_are_none)
{
	struct superp_serve odd = { .usec = 1, .rsvd = 1 };

	EXPECT_EQ(EINVAL, serve(&self->a.context, 0));
	EXPECT_EQ(EINVAL, serve(&self->a.context, SUPERP_MAX_SERVE + 1));
	EXPECT_EQ(-1, ioctl(self->a.context.fd, SUPERP_IOC_SERVE, &odd));
	EXPECT_EQ(EINVAL, errno);
}

static void nothing(int number)
{
}

TEST_F(serve, ends_when_a_signal_comes)
{
	struct server server = { .context = &self->a.context, .usec = SUPERP_MAX_SERVE };
	struct sigaction action = { .sa_handler = nothing };

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	ASSERT_TRUE(served_within(&self->a.qp, WAIT_MS));
	ASSERT_EQ(0, pthread_kill(server.thread, SIGUSR1));
	ASSERT_EQ(0, pthread_join(server.thread, NULL));
	EXPECT_EQ(EINTR, server.error);
	EXPECT_TRUE(needs_doorbell(&self->a.qp));
}

TEST_F(serve, ends_with_its_process)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		while (!serve(&self->a.context, SUPERP_MAX_SERVE))
			;
		_exit(1);
	}
	ASSERT_TRUE(served_within(&self->a.qp, WAIT_MS));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	EXPECT_TRUE(needs_doorbell(&self->a.qp));
}

/* More than the completion queue holds. */
TEST_F(serve, goes_on_when_there_is_room)
{
	struct server server = { .context = &self->a.context, .usec = 20000 };
	struct superp_cqe completion;
	struct cq small;
	struct qp qp;
	uint64_t i;

	ASSERT_EQ(0, cq_create(&self->a.context, &small, 4));
	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &small, ENTRIES, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, SUPERP_ENCAP_SUNH, 0));
	for (i = 0; i < ENTRIES; i++) {
		struct superp_sqe entry = write_of(self, i);

		ASSERT_TRUE(sq_put(&qp, &entry));
	}
	/* The time is over, and some are left. */
	EXPECT_EQ(ENOBUFS, serve(&self->a.context, 1000));
	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	for (i = 0; i < ENTRIES; i++) {
		ASSERT_TRUE(cq_wait(&small, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		ASSERT_EQ(i, completion.token);
	}
	EXPECT_EQ(0, server_end(&server));
}

TEST_F(serve, finds_queue_pairs_that_are_made_meanwhile)
{
	struct server server = { .context = &self->a.context, .usec = SUPERP_MAX_SERVE };
	struct superp_cqe completion;
	int i;

	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	for (i = 0; i < 20; i++) {
		struct superp_sqe entry = write_of(self, i);
		struct qp qp;

		ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.send_cq, ENTRIES, NULL, 0));
		ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, SUPERP_ENCAP_SUNH, 0));
		ASSERT_TRUE(served_within(&qp, WAIT_MS));
		ASSERT_TRUE(sq_put(&qp, &entry));
		ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
		ASSERT_EQ(0, completion.major);
		ASSERT_EQ(0, ring_destroy(&self->a.context, SUPERP_IOC_RQP_DESTROY, qp.id));
		munmap(qp.map, qp.size);
	}
	EXPECT_EQ(0, server_end(&server));
}

TEST_F(serve, flushes_in_the_error_state)
{
	struct server server = { .context = &self->a.context, .usec = 20000 };
	struct superp_sqe entry = write_of(self, 1);
	struct superp_cqe completion;

	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	entry.remote_addr += 1ull << 40;
	ASSERT_TRUE(sq_put(&self->a.qp, &entry));
	ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_ACCESS, completion.major);
	entry = write_of(self, 2);
	ASSERT_TRUE(sq_put(&self->a.qp, &entry));
	ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(SUPERP_ERR_ABORTED, completion.major);
	EXPECT_EQ(2, completion.token);
	EXPECT_EQ(0, server_end(&server));
}

/* A producer out of bounds ends the queue pair, and disturbs nobody else. */
TEST_F(serve, ends_a_queue_pair_with_an_impossible_producer)
{
	struct server server = { .context = &self->a.context, .usec = 20000 };
	struct superp_sqe entry = write_of(self, 1);
	struct superp_cqe completion;
	struct qp qp;
	int ms = WAIT_MS;

	ASSERT_EQ(0, qp_create(&self->a.context, &qp, &self->a.send_cq, ENTRIES, NULL, 0));
	ASSERT_EQ(0, qp_connect(&self->a.context, &qp, &node_b, SUPERP_ENCAP_SUNH, 0));
	ASSERT_EQ(0, pthread_create(&server.thread, NULL, server_run, &server));
	__atomic_store_n(qp.sq.producer, ENTRIES + 1, __ATOMIC_RELEASE);
	while (!qp_failed(&qp) && ms--)
		usleep(1000);
	EXPECT_TRUE(qp_failed(&qp));
	ASSERT_TRUE(sq_put(&self->a.qp, &entry));
	ASSERT_TRUE(cq_wait(&self->a.send_cq, &completion, WAIT_MS));
	EXPECT_EQ(0, completion.major);
	EXPECT_EQ(self->a.qp.id, completion.qp);
	EXPECT_EQ(0, server_end(&server));
}

SUPERP_TEST_MAIN
