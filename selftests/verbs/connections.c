// SPDX-License-Identifier: GPL-2.0
/*
 * A program for RDMA CM (librdmacm), which connections.sh runs: both ends of each connection, on a node's
 * connection with itself.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "clock.h"
#include "kselftest_harness.h"
#include "superp_preloaded.h"

#define WAIT_MS 20000
/* Within this nobody would notice; what waits for a peer that does not answer takes a minute. */
#define SOON_MS 10000
#define SIZE 4096
#define ENTRIES 4

FIXTURE(connections)
{
	/* Of the listener, and of those who connect. */
	struct rdma_event_channel *passive, *active;
	struct rdma_cm_id *listener;
	uint16_t port;
};

static struct sockaddr_in name_of(const char *address, uint16_t port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, address, &name.sin_addr);
	return name;
}

static int bind_to(struct rdma_cm_id *id, uint16_t port)
{
	struct sockaddr_in name = name_of("0.0.0.0", port);

	return rdma_bind_addr(id, (struct sockaddr *)&name);
}

static int resolve(struct rdma_cm_id *id, const char *address, uint16_t port)
{
	struct sockaddr_in name = name_of(address, port);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&name, 1000);
}

static bool readable(struct rdma_event_channel *channel, int ms)
{
	struct pollfd one = { .fd = channel->fd, .events = POLLIN };

	return poll(&one, 1, ms) == 1;
}

/* The next event of the channel, not acknowledged; NULL: there is none, or another than expected. */
static struct rdma_cm_event *next(struct rdma_event_channel *channel, enum rdma_cm_event_type expected)
{
	struct rdma_cm_event *event;

	if (!readable(channel, WAIT_MS) || rdma_get_cm_event(channel, &event)) {
		ksft_print_msg("no event, instead of %s\n", rdma_event_str(expected));
		return NULL;
	}
	if (event->event == expected)
		return event;
	ksft_print_msg("%s (%d) instead of %s\n", rdma_event_str(event->event), event->status,
		       rdma_event_str(expected));
	rdma_ack_cm_event(event);
	return NULL;
}

/* The status of the next event, which is of that identifier; -1000: another one, or none. */
static int status_of(struct rdma_event_channel *channel, struct rdma_cm_id *id, enum rdma_cm_event_type expected)
{
	struct rdma_cm_event *event = next(channel, expected);
	int status = -1000;

	if (!event)
		return status;
	if (event->id == id)
		status = event->status;
	else
		ksft_print_msg("%s of another identifier\n", rdma_event_str(expected));
	rdma_ack_cm_event(event);
	return status;
}

static struct rdma_cm_id *id_on(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	return rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ? NULL : id;
}

static int create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .cap = { ENTRIES, ENTRIES, 1, 1, 0 }, .sq_sig_all = 1,
	};

	return rdma_create_qp(id, NULL, &init);
}

/* An identifier that is ready to connect to the port, with a queue pair or without. */
static struct rdma_cm_id *resolved(FIXTURE_DATA(connections) *self, uint16_t port, bool with_qp)
{
	struct rdma_cm_id *id = id_on(self->active);

	if (!id || resolve(id, "127.0.0.1", port) ||
	    status_of(self->active, id, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, 1000) ||
	    status_of(self->active, id, RDMA_CM_EVENT_ROUTE_RESOLVED) || (with_qp && create_qp(id)))
		return NULL;
	return id;
}

/* The next request that the listener is told of; its event stays, to be acknowledged. */
static struct rdma_cm_id *requested(FIXTURE_DATA(connections) *self, struct rdma_cm_event **event)
{
	*event = next(self->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (!*event || (*event)->listen_id != self->listener)
		return NULL;
	return (*event)->id;
}

/* Connects both ends; false: it was not possible. */
static bool connect_both(FIXTURE_DATA(connections) *self, struct rdma_cm_id **active, struct rdma_cm_id **passive)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_event *event;

	*active = resolved(self, self->port, true);
	if (!*active || rdma_connect(*active, &param))
		return false;
	*passive = requested(self, &event);
	if (!*passive)
		return false;
	rdma_ack_cm_event(event);
	return !create_qp(*passive) && !rdma_accept(*passive, &param) &&
		!status_of(self->active, *active, RDMA_CM_EVENT_ESTABLISHED) &&
		!status_of(self->passive, *passive, RDMA_CM_EVENT_ESTABLISHED);
}

static void destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

FIXTURE_SETUP(connections)
{
	ASSERT_EQ(0, connection_up());
	self->passive = rdma_create_event_channel();
	self->active = rdma_create_event_channel();
	ASSERT_NE(NULL, self->passive);
	ASSERT_NE(NULL, self->active);
	self->listener = id_on(self->passive);
	ASSERT_NE(NULL, self->listener);
	ASSERT_EQ(0, bind_to(self->listener, 0));
	ASSERT_EQ(0, rdma_listen(self->listener, 8));
	self->port = ntohs(rdma_get_src_port(self->listener));
	ASSERT_LE(32768, self->port);
}

FIXTURE_TEARDOWN(connections)
{
	if (self->listener)
		EXPECT_EQ(0, rdma_destroy_id(self->listener));
	EXPECT_EQ(false, readable(self->passive, 0));
	EXPECT_EQ(false, readable(self->active, 0));
	rdma_destroy_event_channel(self->passive);
	rdma_destroy_event_channel(self->active);
	connection_down();
}

/* Sends a message from one end to the other, and compares it. */
static bool transfer(struct rdma_cm_id *from, struct rdma_cm_id *to, int fill)
{
	uint8_t *source = malloc(SIZE), *target = calloc(1, SIZE);
	struct ibv_mr *source_mr = rdma_reg_msgs(from, source, SIZE);
	struct ibv_mr *target_mr = rdma_reg_msgs(to, target, SIZE);
	struct ibv_wc wc = {};
	bool same = false;

	memset(source, fill, SIZE);
	if (source_mr && target_mr && !rdma_post_recv(to, (void *)7, target, SIZE, target_mr) &&
	    !rdma_post_send(from, (void *)8, source, SIZE, source_mr, IBV_SEND_SIGNALED) &&
	    rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.wr_id == 7 &&
	    wc.byte_len == SIZE && rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
		same = !memcmp(source, target, SIZE);
	if (source_mr)
		rdma_dereg_mr(source_mr);
	if (target_mr)
		rdma_dereg_mr(target_mr);
	free(source);
	free(target);
	return same;
}

TEST_F(connections, private_data_and_messages__arrive_both_ways)
{
	char question[56], answer[196];
	struct rdma_conn_param ask = {
		.private_data = question, .private_data_len = sizeof(question),
		.responder_resources = 3, .initiator_depth = 5, .retry_count = 6, .rnr_retry_count = 4,
	};
	struct rdma_conn_param agree = {
		.private_data = answer, .private_data_len = sizeof(answer),
		.responder_resources = 2, .initiator_depth = 1,
	};
	struct rdma_cm_event *event;
	struct rdma_cm_id *active = resolved(self, self->port, true), *passive;
	struct rdma_conn_param *said;

	memset(question, 'q', sizeof(question));
	memset(answer, 'a', sizeof(answer));
	self->listener->context = self;
	ASSERT_NE(NULL, active);
	EXPECT_EQ(htons(self->port), rdma_get_dst_port(active));
	EXPECT_EQ(1, active->port_num);
	EXPECT_EQ(1, active->route.num_paths);
	ASSERT_EQ(0, rdma_connect(active, &ask));

	passive = requested(self, &event);
	ASSERT_NE(NULL, passive);
	said = &event->param.conn;
	ASSERT_EQ(sizeof(question), said->private_data_len);
	EXPECT_EQ(0, memcmp(question, said->private_data, sizeof(question)));
	/* What one end answers at a time, the other may have under way. */
	EXPECT_EQ(5, said->responder_resources);
	EXPECT_EQ(3, said->initiator_depth);
	EXPECT_EQ(6, said->retry_count);
	EXPECT_EQ(4, said->rnr_retry_count);
	EXPECT_EQ(active->qp->qp_num, said->qp_num);
	EXPECT_EQ(self->listener->context, passive->context);
	EXPECT_EQ(self->passive, passive->channel);
	EXPECT_EQ(active->verbs, passive->verbs);
	EXPECT_EQ(htons(self->port), rdma_get_src_port(passive));
	EXPECT_EQ(rdma_get_src_port(active), rdma_get_dst_port(passive));
	EXPECT_EQ(htonl(INADDR_LOOPBACK), ((struct sockaddr_in *)rdma_get_peer_addr(passive))->sin_addr.s_addr);
	EXPECT_EQ(htonl(INADDR_LOOPBACK), ((struct sockaddr_in *)rdma_get_local_addr(active))->sin_addr.s_addr);
	ASSERT_EQ(0, create_qp(passive));
	ASSERT_EQ(0, rdma_accept(passive, &agree));
	EXPECT_EQ(0, rdma_ack_cm_event(event));

	event = next(self->active, RDMA_CM_EVENT_ESTABLISHED);
	ASSERT_NE(NULL, event);
	said = &event->param.conn;
	ASSERT_EQ(sizeof(answer), said->private_data_len);
	EXPECT_EQ(0, memcmp(answer, said->private_data, sizeof(answer)));
	EXPECT_EQ(1, said->responder_resources);
	EXPECT_EQ(2, said->initiator_depth);
	EXPECT_EQ(passive->qp->qp_num, said->qp_num);
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	EXPECT_EQ(0, status_of(self->passive, passive, RDMA_CM_EVENT_ESTABLISHED));
	EXPECT_EQ(true, transfer(active, passive, 0x5a));
	EXPECT_EQ(true, transfer(passive, active, 0xa5));
	destroy(active);
	EXPECT_EQ(0, status_of(self->passive, passive, RDMA_CM_EVENT_DISCONNECTED));
	destroy(passive);
}

TEST_F(connections, reject__tells_why)
{
	struct rdma_conn_param param = {};
	struct rdma_cm_event *event;
	struct rdma_cm_id *active = resolved(self, self->port, true), *passive;

	ASSERT_NE(NULL, active);
	ASSERT_EQ(0, rdma_connect(active, &param));
	passive = requested(self, &event);
	ASSERT_NE(NULL, passive);
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	EXPECT_EQ(-1, rdma_reject(passive, "no", 149));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_EQ(0, rdma_reject(passive, "not today", 9));
	EXPECT_EQ(0, rdma_destroy_id(passive));
	event = next(self->active, RDMA_CM_EVENT_REJECTED);
	ASSERT_NE(NULL, event);
	/* "Consumer defined", as InfiniBand has it. */
	EXPECT_EQ(28, event->status);
	EXPECT_EQ(9, event->param.conn.private_data_len);
	EXPECT_EQ(0, memcmp("not today", event->param.conn.private_data, 9));
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	destroy(active);
}

TEST_F(connections, without_a_listener__is_rejected_at_once)
{
	struct rdma_conn_param param = {};
	struct rdma_cm_id *active = resolved(self, 1, true);
	long begin = now_ms();

	ASSERT_NE(NULL, active);
	ASSERT_EQ(0, rdma_connect(active, &param));
	/* "Invalid service id". */
	EXPECT_EQ(8, status_of(self->active, active, RDMA_CM_EVENT_REJECTED));
	EXPECT_LT(now_ms() - begin, SOON_MS);
	destroy(active);

	/* The port is there, and nobody listens. */
	EXPECT_EQ(0, rdma_destroy_id(self->listener));
	self->listener = id_on(self->passive);
	ASSERT_EQ(0, bind_to(self->listener, self->port));
	active = resolved(self, self->port, true);
	ASSERT_NE(NULL, active);
	ASSERT_EQ(0, rdma_connect(active, &param));
	EXPECT_EQ(8, status_of(self->active, active, RDMA_CM_EVENT_REJECTED));
	destroy(active);
}

TEST_F(connections, port__is_had_once)
{
	struct rdma_cm_id *other = id_on(self->passive);

	ASSERT_NE(NULL, other);
	EXPECT_EQ(-1, bind_to(other, self->port));
	EXPECT_EQ(EADDRINUSE, errno);
	EXPECT_EQ(0, rdma_destroy_id(self->listener));
	/* Not before it is free; then it is. */
	self->listener = other;
	EXPECT_EQ(0, bind_to(other, self->port));
}

TEST_F(connections, disconnect__is_seen_by_both)
{
	struct rdma_cm_id *active, *passive;
	uint8_t *memory = calloc(1, SIZE);
	struct ibv_mr *mr;
	struct ibv_wc wc;

	ASSERT_EQ(true, connect_both(self, &active, &passive));
	mr = rdma_reg_msgs(active, memory, SIZE);
	ASSERT_NE(NULL, mr);
	ASSERT_EQ(0, rdma_post_recv(active, (void *)3, memory, SIZE, mr));
	ASSERT_EQ(0, rdma_disconnect(active));
	EXPECT_EQ(0, status_of(self->active, active, RDMA_CM_EVENT_DISCONNECTED));
	EXPECT_EQ(0, status_of(self->active, active, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	ASSERT_EQ(1, rdma_get_recv_comp(active, &wc));
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);

	EXPECT_EQ(0, status_of(self->passive, passive, RDMA_CM_EVENT_DISCONNECTED));
	EXPECT_EQ(false, readable(self->passive, 0));
	EXPECT_EQ(0, rdma_disconnect(passive));
	EXPECT_EQ(0, status_of(self->passive, passive, RDMA_CM_EVENT_TIMEWAIT_EXIT));
	rdma_dereg_mr(mr);
	free(memory);
	destroy(active);
	destroy(passive);
}

struct late {
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	bool acked, readable;
};

static void *acknowledge_late(void *argument)
{
	struct late *late = argument;

	usleep(300000);
	/* Nobody gets an event of an identifier that is about to go. */
	late->readable = readable(late->channel, 0);
	__atomic_store_n(&late->acked, true, __ATOMIC_SEQ_CST);
	rdma_ack_cm_event(late->event);
	return NULL;
}

TEST_F(connections, destroy__waits_for_acknowledgements_and_takes_events_away)
{
	struct rdma_cm_id *id = id_on(self->active);
	struct late late = { .channel = self->active };
	pthread_t thread;

	ASSERT_NE(NULL, id);
	ASSERT_EQ(0, resolve(id, "127.0.0.1", self->port));
	late.event = next(self->active, RDMA_CM_EVENT_ADDR_RESOLVED);
	ASSERT_NE(NULL, late.event);
	ASSERT_EQ(0, rdma_resolve_route(id, 1000));
	ASSERT_EQ(true, readable(self->active, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, acknowledge_late, &late));
	EXPECT_EQ(0, rdma_destroy_id(id));
	EXPECT_EQ(true, __atomic_load_n(&late.acked, __ATOMIC_SEQ_CST));
	EXPECT_EQ(false, readable(self->active, 0));
	pthread_join(thread, NULL);
	EXPECT_EQ(false, late.readable);
}

TEST_F(connections, channel__need_not_wait)
{
	struct rdma_cm_event *event;

	ASSERT_EQ(0, fcntl(self->active->fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, rdma_get_cm_event(self->active, &event));
	EXPECT_EQ(EAGAIN, errno);
}

TEST_F(connections, listener__has_many)
{
	struct rdma_cm_id *active[5], *passive[5];

	for (int i = 0; i < 5; i++)
		ASSERT_EQ(true, connect_both(self, &active[i], &passive[i]));
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(true, transfer(active[i], passive[i], 0x10 + i));
	/* They stay when the listener goes. */
	EXPECT_EQ(0, rdma_destroy_id(self->listener));
	self->listener = NULL;
	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(true, transfer(passive[i], active[i], 0x20 + i));
		destroy(passive[i]);
		EXPECT_EQ(0, status_of(self->active, active[i], RDMA_CM_EVENT_DISCONNECTED));
		destroy(active[i]);
	}
}

TEST_F(connections, backlog__is_a_limit)
{
	struct rdma_conn_param param = {};
	struct rdma_cm_id *ids[9];
	struct rdma_cm_event *event;

	for (int i = 0; i < 9; i++) {
		ids[i] = resolved(self, self->port, true);
		ASSERT_NE(NULL, ids[i]);
		ASSERT_EQ(0, rdma_connect(ids[i], &param));
	}
	/* "No resources", of the one for which there was no room. */
	event = next(self->active, RDMA_CM_EVENT_REJECTED);
	ASSERT_NE(NULL, event);
	EXPECT_EQ(3, event->status);
	EXPECT_EQ(ids[8], event->id);
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	for (int i = 0; i < 9; i++)
		destroy(ids[i]);
}

TEST_F(connections, migrated__events_come_to_the_other_channel)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_conn_param param = {};
	struct rdma_cm_event *event;
	struct rdma_cm_id *active = resolved(self, self->port, true), *passive;

	ASSERT_NE(NULL, other);
	ASSERT_NE(NULL, active);
	ASSERT_EQ(0, rdma_connect(active, &param));
	/* What waits goes along. */
	ASSERT_EQ(true, readable(self->passive, WAIT_MS));
	ASSERT_EQ(0, rdma_migrate_id(self->listener, other));
	EXPECT_EQ(other, self->listener->channel);
	EXPECT_EQ(false, readable(self->passive, 0));
	event = next(other, RDMA_CM_EVENT_CONNECT_REQUEST);
	ASSERT_NE(NULL, event);
	passive = event->id;
	EXPECT_EQ(other, passive->channel);
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	ASSERT_EQ(0, rdma_migrate_id(passive, self->passive));
	ASSERT_EQ(0, create_qp(passive));
	ASSERT_EQ(0, rdma_accept(passive, &param));
	EXPECT_EQ(0, status_of(self->active, active, RDMA_CM_EVENT_ESTABLISHED));
	EXPECT_EQ(0, status_of(self->passive, passive, RDMA_CM_EVENT_ESTABLISHED));
	EXPECT_EQ(false, readable(other, 0));
	destroy(passive);
	EXPECT_EQ(0, status_of(self->active, active, RDMA_CM_EVENT_DISCONNECTED));
	destroy(active);
	ASSERT_EQ(0, rdma_migrate_id(self->listener, self->passive));
	rdma_destroy_event_channel(other);
}

static const struct ibv_qp_init_attr endpoint_init = {
	.qp_type = IBV_QPT_RC, .cap = { ENTRIES, ENTRIES, 1, 1, 0 }, .sq_sig_all = 1,
};

/* A client whose calls wait; NULL: it failed, and errno says why. */
static void *endpoint_client(void *service)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr init = endpoint_init;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo("127.0.0.1", service, &hints, &info))
		return NULL;
	if (rdma_create_ep(&id, info, NULL, &init))
		id = NULL;
	rdma_freeaddrinfo(info);
	if (id && rdma_connect(id, NULL)) {
		int error = errno;

		rdma_destroy_ep(id);
		errno = error;
		return NULL;
	}
	return id;
}

TEST_F(connections, endpoints__wait)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr init = endpoint_init;
	struct rdma_cm_id *listener, *passive, *active;
	char service[8];
	pthread_t thread;
	void *made;

	ASSERT_EQ(0, rdma_destroy_id(self->listener));
	self->listener = NULL;
	snprintf(service, sizeof(service), "%u", self->port);
	ASSERT_EQ(0, rdma_getaddrinfo(NULL, service, &hints, &info));
	ASSERT_EQ(0, rdma_create_ep(&listener, info, NULL, &init));
	rdma_freeaddrinfo(info);
	ASSERT_EQ(0, rdma_listen(listener, 0));

	ASSERT_EQ(0, pthread_create(&thread, NULL, endpoint_client, service));
	ASSERT_EQ(0, rdma_get_request(listener, &passive));
	ASSERT_NE(NULL, passive->qp);
	ASSERT_NE(NULL, passive->pd);
	ASSERT_EQ(0, rdma_accept(passive, NULL));
	pthread_join(thread, &made);
	active = made;
	ASSERT_NE(NULL, active);
	EXPECT_EQ(true, transfer(active, passive, 0x77));
	EXPECT_EQ(true, transfer(passive, active, 0x78));
	EXPECT_EQ(0, rdma_disconnect(active));
	EXPECT_EQ(0, rdma_disconnect(passive));
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);

	/* Nobody listens any more. */
	rdma_destroy_ep(listener);
	errno = 0;
	EXPECT_EQ(NULL, endpoint_client(service));
	EXPECT_EQ(ECONNREFUSED, errno);
}

TEST_F(connections, listener_that_goes__rejects_those_who_wait)
{
	struct rdma_conn_param param = {};
	struct rdma_cm_id *ids[3];
	long begin;

	for (int i = 0; i < 3; i++) {
		ids[i] = resolved(self, self->port, true);
		ASSERT_NE(NULL, ids[i]);
	}
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, rdma_connect(ids[i], &param));
	/* Some are told of already, others perhaps not. */
	ASSERT_EQ(true, readable(self->passive, WAIT_MS));
	begin = now_ms();
	ASSERT_EQ(0, rdma_destroy_id(self->listener));
	self->listener = NULL;
	EXPECT_EQ(false, readable(self->passive, 0));
	for (int i = 0; i < 3; i++) {
		struct rdma_cm_event *event = next(self->active, RDMA_CM_EVENT_REJECTED);

		ASSERT_NE(NULL, event);
		EXPECT_EQ(8, event->status);
		EXPECT_EQ(0, rdma_ack_cm_event(event));
	}
	EXPECT_LT(now_ms() - begin, SOON_MS);
	for (int i = 0; i < 3; i++)
		destroy(ids[i]);
}

struct comer {
	uint16_t port;
	bool stop, failed;
};

/* Listens and goes, and looks at no request. */
static void *come_and_go(void *argument)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct comer *comer = argument;

	for (int i = 0; !__atomic_load_n(&comer->stop, __ATOMIC_SEQ_CST); i++) {
		struct rdma_cm_id *id = id_on(channel);

		if (!id || bind_to(id, comer->port) || rdma_listen(id, 8))
			comer->failed = true;
		usleep(i % 8 * 250);
		if (!id || rdma_destroy_id(id) || comer->failed)
			break;
	}
	rdma_destroy_event_channel(channel);
	return NULL;
}

TEST_F(connections, listener_that_comes_and_goes__leaves_nobody_waiting)
{
	struct comer comer = { .port = self->port };
	struct rdma_conn_param param = {};
	pthread_t thread;

	ASSERT_EQ(0, rdma_destroy_id(self->listener));
	self->listener = NULL;
	ASSERT_EQ(0, pthread_create(&thread, NULL, come_and_go, &comer));
	for (int i = 0; i < 100; i++) {
		struct rdma_cm_id *id = resolved(self, self->port, true);
		long begin = now_ms();

		ASSERT_NE(NULL, id);
		ASSERT_EQ(0, rdma_connect(id, &param));
		EXPECT_EQ(8, status_of(self->active, id, RDMA_CM_EVENT_REJECTED));
		ASSERT_LT(now_ms() - begin, SOON_MS);
		destroy(id);
	}
	__atomic_store_n(&comer.stop, true, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	EXPECT_EQ(false, comer.failed);
}

/* A queue pair that the program makes itself, by the attributes that RDMA CM tells. */
static int change(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	return rdma_init_qp_attr(id, &attr, &mask) ?: ibv_modify_qp(qp, &attr, mask);
}

TEST_F(connections, own_queue_pair__is_the_programs_business)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { ENTRIES, ENTRIES, 1, 1, 0 } };
	struct rdma_cm_id *ids[2] = { resolved(self, self->port, false), NULL };
	struct rdma_conn_param param = {};
	struct rdma_cm_event *event;
	struct ibv_qp *qps[2];
	struct ibv_qp_attr attr;
	uint8_t timeout = 21;
	struct ibv_cq *cq;

	ASSERT_NE(NULL, ids[0]);
	cq = ibv_create_cq(ids[0]->verbs, 16, NULL, NULL, 0);
	ASSERT_NE(NULL, cq);
	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < 2; i++) {
		qps[i] = ibv_create_qp(ids[0]->pd, &init);
		ASSERT_NE(NULL, qps[i]);
	}
	/* Without a queue pair there is nothing to connect. */
	EXPECT_EQ(-1, rdma_connect(ids[0], NULL));
	EXPECT_EQ(EINVAL, errno);
	param.qp_num = qps[0]->qp_num;
	ASSERT_EQ(0, change(ids[0], qps[0], IBV_QPS_INIT));
	EXPECT_EQ(-1, change(ids[0], qps[0], IBV_QPS_RTR));
	ASSERT_EQ(0, rdma_set_option(ids[0], RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1));
	ASSERT_EQ(0, rdma_connect(ids[0], &param));

	ids[1] = requested(self, &event);
	ASSERT_NE(NULL, ids[1]);
	EXPECT_EQ(qps[0]->qp_num, event->param.conn.qp_num);
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	ASSERT_EQ(0, change(ids[1], qps[1], IBV_QPS_INIT));
	ASSERT_EQ(0, change(ids[1], qps[1], IBV_QPS_RTR));
	ASSERT_EQ(0, change(ids[1], qps[1], IBV_QPS_RTS));
	param.qp_num = qps[1]->qp_num;
	ASSERT_EQ(0, rdma_accept(ids[1], &param));

	event = next(self->active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	ASSERT_NE(NULL, event);
	EXPECT_EQ(qps[1]->qp_num, event->param.conn.qp_num);
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	ASSERT_EQ(0, change(ids[0], qps[0], IBV_QPS_RTR));
	ASSERT_EQ(0, change(ids[0], qps[0], IBV_QPS_RTS));
	ASSERT_EQ(0, ibv_query_qp(qps[0], &attr, IBV_QP_TIMEOUT, &init));
	EXPECT_EQ(timeout, attr.timeout);
	EXPECT_EQ(false, readable(self->passive, 100));
	ASSERT_EQ(0, rdma_establish(ids[0]));
	EXPECT_EQ(0, status_of(self->passive, ids[1], RDMA_CM_EVENT_ESTABLISHED));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, ibv_destroy_qp(qps[i]));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
	destroy(ids[0]);
	EXPECT_EQ(0, status_of(self->passive, ids[1], RDMA_CM_EVENT_DISCONNECTED));
	destroy(ids[1]);
}

TEST_F(connections, lost_connection__is_told_to_both)
{
	struct rdma_cm_id *active, *passive;

	ASSERT_EQ(true, connect_both(self, &active, &passive));
	ASSERT_EQ(0, connection_down());
	EXPECT_GT(0, status_of(self->active, active, RDMA_CM_EVENT_DISCONNECTED));
	EXPECT_GT(0, status_of(self->passive, passive, RDMA_CM_EVENT_DISCONNECTED));
	destroy(active);
	destroy(passive);
	/* Nothing leads there now. */
	active = id_on(self->active);
	ASSERT_EQ(0, resolve(active, "127.0.0.1", self->port));
	EXPECT_EQ(-EHOSTUNREACH, status_of(self->active, active, RDMA_CM_EVENT_ADDR_ERROR));
	/* It can be tried again. */
	ASSERT_EQ(0, connection_up());
	ASSERT_EQ(0, resolve(active, "127.0.0.1", self->port));
	EXPECT_EQ(0, status_of(self->active, active, RDMA_CM_EVENT_ADDR_RESOLVED));
	destroy(active);
}

TEST_F(connections, wrong_arguments__are_refused)
{
	struct rdma_conn_param param = { .private_data = self, .private_data_len = 57 };
	struct sockaddr_in name = name_of("10.99.99.99", 0);
	struct sockaddr none = { .sa_family = AF_UNIX };
	struct rdma_cm_event *event, nothing = {};
	struct rdma_cm_id *id = NULL, unknown = {};
	int value = 1;

#define REFUSED(error, call) do { \
		errno = 0; \
		EXPECT_EQ(-1, call); \
		EXPECT_EQ(error, errno); \
	} while (0)
	REFUSED(EOPNOTSUPP, rdma_create_id(self->active, &id, NULL, RDMA_PS_UDP));
	REFUSED(EINVAL, rdma_create_id(self->active, NULL, NULL, RDMA_PS_TCP));
	REFUSED(EINVAL, rdma_destroy_id(&unknown));
	REFUSED(EINVAL, rdma_ack_cm_event(NULL));
	REFUSED(EINVAL, rdma_ack_cm_event(&nothing));
	REFUSED(EINVAL, rdma_get_cm_event(self->active, NULL));
	REFUSED(EINVAL, rdma_listen(self->listener, 1));
	REFUSED(EINVAL, bind_to(self->listener, 0));

	id = id_on(self->active);
	ASSERT_NE(NULL, id);
	REFUSED(EINVAL, rdma_bind_addr(id, NULL));
	REFUSED(EINVAL, rdma_bind_addr(id, &none));
	REFUSED(EADDRNOTAVAIL, rdma_bind_addr(id, (struct sockaddr *)&name));
	REFUSED(EINVAL, rdma_resolve_addr(id, NULL, NULL, 1));
	REFUSED(EINVAL, rdma_resolve_route(id, 1));
	REFUSED(EINVAL, rdma_connect(id, &param));
	REFUSED(EINVAL, rdma_accept(id, &param));
	REFUSED(EINVAL, rdma_reject(id, NULL, 0));
	REFUSED(EINVAL, rdma_disconnect(id));
	REFUSED(EINVAL, rdma_establish(id));
	REFUSED(EINVAL, create_qp(id));
	REFUSED(EINVAL, rdma_get_request(self->listener, &id));
	REFUSED(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 4));
	REFUSED(ENOSYS, rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &value, 4));
	REFUSED(EOPNOTSUPP, rdma_join_multicast(id, &none, NULL));
	EXPECT_EQ(0, rdma_destroy_id(id));
	REFUSED(EINVAL, rdma_destroy_id(id));

	id = resolved(self, self->port, true);
	ASSERT_NE(NULL, id);
	REFUSED(EINVAL, create_qp(id));
	REFUSED(EINVAL, rdma_connect(id, &param));
	param.private_data_len = 0;
	param.initiator_depth = 129;
	REFUSED(EINVAL, rdma_connect(id, &param));
	/* As many as there are. */
	param.initiator_depth = param.responder_resources = 255;
	ASSERT_EQ(0, rdma_connect(id, &param));
	event = next(self->passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	ASSERT_NE(NULL, event);
	EXPECT_EQ(128, event->param.conn.initiator_depth);
	EXPECT_EQ(0, rdma_destroy_id(event->id));
	EXPECT_EQ(0, rdma_ack_cm_event(event));
	EXPECT_EQ(28, status_of(self->active, id, RDMA_CM_EVENT_REJECTED));
	destroy(id);
}

TEST_HARNESS_MAIN
