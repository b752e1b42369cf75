// SPDX-License-Identifier: GPL-2.0
/* Sockets of the family before any data: creation, names, refusals. */
#include <sys/resource.h>
#include <sys/syscall.h>

#include "superp_test.h"

#define UNUSED_IOCTL _IO(SUPERP_IOC_MAGIC, 99)

static struct sockaddr_superp any_name(uint32_t qpn)
{
	return superp_name(NULL, 0, qpn);
}

static int bind_to(int fd, const struct sockaddr_superp *name)
{
	return bind(fd, (const struct sockaddr *)name, sizeof(*name));
}

static int connect_to(int fd, const struct sockaddr_superp *name)
{
	return connect(fd, (const struct sockaddr *)name, sizeof(*name));
}

TEST(socket__only_seqpacket_and_rdm_without_protocol)
{
	int family = superp_family();

	EXPECT_EQ(-1, socket(family, SOCK_STREAM, 0));
	EXPECT_EQ(ESOCKTNOSUPPORT, errno);
	EXPECT_EQ(-1, socket(family, SOCK_DGRAM, 0));
	EXPECT_EQ(ESOCKTNOSUPPORT, errno);
	EXPECT_EQ(-1, socket(family, SOCK_RDM, 1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
	EXPECT_EQ(-1, socket(family, SOCK_SEQPACKET, 1));
	EXPECT_EQ(EPROTONOSUPPORT, errno);
}

TEST(socket__needs_no_privilege)
{
	ASSERT_EQ(0, node_enter(&node_a));
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_LE(0, socket(superp_family(), SOCK_SEQPACKET, 0));
}

/* Who may lock no memory has no rings. Kernels that check what the network does tell of what is left behind. */
TEST(socket__refused_for_want_of_memory)
{
	struct rlimit none = {};

	ASSERT_EQ(0, node_enter(&node_a));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
	ASSERT_EQ(0, setresuid(54324, 54324, 54324));
	EXPECT_EQ(-1, socket(superp_family(), SOCK_RDM, 0));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_LE(0, socket(superp_family(), SOCK_SEQPACKET, 0));
}

TEST(socket__keeps_the_module)
{
	int fd = superp_socket(&node_a);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, syscall(SYS_delete_module, "superp", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
}

TEST(socket__has_no_options_and_does_not_listen)
{
	int value = 0, fd = superp_socket(&node_a);
	socklen_t len = sizeof(value);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, setsockopt(fd, SOL_SUPERP, 1, &value, sizeof(value)));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, getsockopt(fd, SOL_SUPERP, 1, &value, &len));
	EXPECT_EQ(ENOPROTOOPT, errno);
	EXPECT_EQ(-1, listen(fd, 1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, accept(fd, NULL, NULL));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, ioctl(fd, UNUSED_IOCTL, NULL));
	EXPECT_EQ(ENOTTY, errno);
	EXPECT_EQ(-1, socketpair(superp_family(), SOCK_SEQPACKET, 0, (int[2]){}));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

TEST(bind__refuses_malformed_names)
{
	struct sockaddr_superp name = any_name(0);
	int fd = superp_socket(&node_a);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, bind(fd, (struct sockaddr *)&name, sizeof(name) - 1));
	EXPECT_EQ(EINVAL, errno);
	name.ssp_family = AF_INET6;
	EXPECT_EQ(-1, bind_to(fd, &name));
	EXPECT_EQ(EAFNOSUPPORT, errno);
	name = any_name(0);
	name.ssp_flags = 1;
	EXPECT_EQ(-1, bind_to(fd, &name));
	EXPECT_EQ(EINVAL, errno);
	name = any_name(SUPERP_QPN_MAX + 1);
	EXPECT_EQ(-1, bind_to(fd, &name));
	EXPECT_EQ(EINVAL, errno);
	name = any_name(0);
	name.ssp_cid = 1;
	EXPECT_EQ(-1, bind_to(fd, &name));
	EXPECT_EQ(EINVAL, errno);
	/* Of the other node. */
	name = superp_name(&node_b, SUPERP_ENCAP_UDP4, 0);
	EXPECT_EQ(-1, bind_to(fd, &name));
	EXPECT_EQ(EADDRNOTAVAIL, errno);
	/* After all this it can still be bound. */
	name = superp_name(&node_a, SUPERP_ENCAP_UDP6, SUPERP_QPN_MAX);
	EXPECT_EQ(0, bind_to(fd, &name));
}

TEST(bind__getsockname_tells_the_name)
{
	struct sockaddr_superp name = superp_name(&node_a, SUPERP_ENCAP_UDP4, 77);
	struct sockaddr_superp found = {};
	socklen_t len = sizeof(found);
	int fd = superp_socket(&node_a);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, getsockname(fd, (struct sockaddr *)&found, &len));
	EXPECT_EQ(sizeof(found), len);
	EXPECT_EQ(superp_family(), found.ssp_family);
	EXPECT_EQ(0, found.ssp_qpn);
	EXPECT_EQ(SUPERP_CID_ANY, found.ssp_cid);
	ASSERT_EQ(0, bind_to(fd, &name));
	ASSERT_EQ(0, getsockname(fd, (struct sockaddr *)&found, &len));
	EXPECT_EQ(0, memcmp(&name, &found, sizeof(name)));
	EXPECT_EQ(-1, getpeername(fd, (struct sockaddr *)&found, &len));
	EXPECT_EQ(ENOTCONN, errno);
}

TEST(bind__zero_chooses_from_the_upper_half)
{
	struct sockaddr_superp first = {}, second = {};
	int a = superp_socket(&node_a), b = superp_socket(&node_a);
	socklen_t len = sizeof(first);

	ASSERT_EQ(0, superp_bind(a, 0));
	ASSERT_EQ(0, superp_bind(b, 0));
	ASSERT_EQ(0, getsockname(a, (struct sockaddr *)&first, &len));
	ASSERT_EQ(0, getsockname(b, (struct sockaddr *)&second, &len));
	EXPECT_LE(1u << 23, first.ssp_qpn);
	EXPECT_GE(SUPERP_QPN_MAX, first.ssp_qpn);
	EXPECT_LE(1u << 23, second.ssp_qpn);
	EXPECT_NE(first.ssp_qpn, second.ssp_qpn);
}

TEST(bind__a_number_has_one_socket_per_node)
{
	int a = superp_socket(&node_a), b = superp_socket(&node_a);
	int other = superp_socket(&node_b);

	ASSERT_EQ(0, superp_bind(a, 5));
	EXPECT_EQ(-1, superp_bind(a, 6));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, superp_bind(b, 5));
	EXPECT_EQ(EADDRINUSE, errno);
	EXPECT_EQ(0, superp_bind(other, 5));
	close(a);
	EXPECT_EQ(0, superp_bind(b, 5));
}

TEST(unbound__recv_and_poll_say_so)
{
	char byte;
	int fd = superp_socket(&node_a);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, recv(fd, &byte, 1, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_TRUE(superp_poll(fd, POLLIN, 0) & POLLHUP);
	ASSERT_EQ(0, superp_bind(fd, 0));
	EXPECT_EQ(0, superp_poll(fd, POLLIN, 0));
	EXPECT_EQ(POLLOUT, superp_poll(fd, POLLIN | POLLOUT, 0));
	EXPECT_EQ(-1, recv(fd, &byte, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
}

TEST(unconnected__send_is_refused)
{
	struct sockaddr_superp name = superp_name(&node_b, SUPERP_ENCAP_UDP4, 9);
	int fd = superp_socket(&node_a);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, send(fd, "x", 1, 0));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, (struct sockaddr *)&name, sizeof(name)));
	EXPECT_EQ(EHOSTUNREACH, errno);
	EXPECT_EQ(-1, sendto(fd, "x", 1, 0, (struct sockaddr *)&name, sizeof(name) - 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, connect_to(fd, &name));
	EXPECT_EQ(EHOSTUNREACH, errno);
}

FIXTURE(connection)
{
	int cid;
	int fd;
};

FIXTURE_SETUP(connection)
{
	struct conn_options options = { .encap = SUPERP_ENCAP_UDP4 };

	self->cid = conn_id();
	ASSERT_EQ(0, conn_up(self->cid, &options));
	self->fd = superp_socket(&node_a);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(connection)
{
	close(self->fd);
	conn_down(self->cid);
}

TEST_F(connection, connect__names_and_numbers)
{
	struct sockaddr_superp name = superp_name(&node_b, SUPERP_ENCAP_UDP4, 9);
	struct sockaddr_superp found = {};
	struct superp_qp_info info = {};
	socklen_t len = sizeof(found);

	ASSERT_EQ(0, ioctl(self->fd, SUPERP_IOC_QP_INFO, &info));
	EXPECT_EQ(0, info.qpn);
	EXPECT_EQ(SUPERP_CID_ANY, info.cid);
	EXPECT_EQ(0, info.max_message);
	EXPECT_EQ(-1, ioctl(self->fd, SUPERP_IOC_QP_INFO, NULL));
	EXPECT_EQ(EFAULT, errno);

	ASSERT_EQ(0, connect_to(self->fd, &name));
	ASSERT_EQ(0, getpeername(self->fd, (struct sockaddr *)&found, &len));
	EXPECT_EQ(9, found.ssp_qpn);
	EXPECT_EQ((uint32_t)self->cid, found.ssp_cid);
	EXPECT_EQ(0, memcmp(name.ssp_addr, found.ssp_addr, 16));

	/* It has been given a number of its own. */
	ASSERT_EQ(0, getsockname(self->fd, (struct sockaddr *)&found, &len));
	EXPECT_LE(1u << 23, found.ssp_qpn);
	ASSERT_EQ(0, ioctl(self->fd, SUPERP_IOC_QP_INFO, &info));
	EXPECT_EQ(found.ssp_qpn, info.qpn);
	EXPECT_EQ((uint32_t)self->cid, info.cid);
	EXPECT_EQ(SUPERP_QP_F_EXT | SUPERP_QP_F_ORDERED, info.flags);
	EXPECT_EQ(SUPERP_MAX_MESSAGE, info.max_message);
	EXPECT_EQ(0, info.min_message);
}

TEST_F(connection, connect__by_connection_id)
{
	struct sockaddr_superp name = superp_name(&node_b, SUPERP_ENCAP_UDP4, 9);

	name.ssp_cid = self->cid + 1000;
	EXPECT_EQ(-1, connect_to(self->fd, &name));
	EXPECT_EQ(EHOSTUNREACH, errno);
	name.ssp_cid = self->cid;
	EXPECT_EQ(0, connect_to(self->fd, &name));
	/* The right id with the wrong address. */
	name = superp_name(&node_b, SUPERP_ENCAP_UDP6, 9);
	name.ssp_cid = self->cid;
	EXPECT_EQ(-1, connect_to(self->fd, &name));
	EXPECT_EQ(EHOSTUNREACH, errno);
}

TEST_F(connection, connect__of_a_socket_bound_to_another_address)
{
	struct sockaddr_superp local = superp_name(&node_a, SUPERP_ENCAP_UDP6, 9);
	struct sockaddr_superp name = superp_name(&node_b, SUPERP_ENCAP_UDP4, 9);

	ASSERT_EQ(0, bind_to(self->fd, &local));
	EXPECT_EQ(-1, connect_to(self->fd, &name));
	EXPECT_EQ(EHOSTUNREACH, errno);
}

TEST_F(connection, connect__unspec_dissolves)
{
	struct sockaddr unspec = { .sa_family = AF_UNSPEC };
	struct sockaddr_superp found;
	socklen_t len = sizeof(found);

	ASSERT_EQ(0, superp_bind(self->fd, 321));
	ASSERT_EQ(0, superp_connect(self->fd, &node_b, SUPERP_ENCAP_UDP4, 9));
	ASSERT_EQ(0, connect(self->fd, &unspec, sizeof(unspec)));
	EXPECT_EQ(-1, getpeername(self->fd, (struct sockaddr *)&found, &len));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, send(self->fd, "x", 1, 0));
	EXPECT_EQ(ENOTCONN, errno);
	ASSERT_EQ(0, getsockname(self->fd, (struct sockaddr *)&found, &len));
	EXPECT_EQ(321, found.ssp_qpn);
	EXPECT_EQ(-1, connect(self->fd, &unspec, 1));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(connection, connect__without_a_number_cannot_send)
{
	ASSERT_EQ(0, superp_connect(self->fd, &node_b, SUPERP_ENCAP_UDP4, 0));
	EXPECT_EQ(-1, send(self->fd, "x", 1, 0));
	EXPECT_EQ(EDESTADDRREQ, errno);
}

TEST_F(connection, connect__needs_a_started_connection)
{
	struct conn_options options = {
		.encap = SUPERP_ENCAP_UDP6,
		.created = true,
	};
	int cid = self->cid + 2;

	ASSERT_EQ(0, conn_up(cid, &options));
	EXPECT_EQ(-1, superp_connect(self->fd, &node_b, SUPERP_ENCAP_UDP6, 9));
	EXPECT_EQ(EHOSTUNREACH, errno);
	ASSERT_EQ(0, conn_command(&node_a, SUPERP_CMD_CONN_START, cid));
	EXPECT_EQ(0, superp_connect(self->fd, &node_b, SUPERP_ENCAP_UDP6, 9));
	conn_down(cid);
}

TEST_F(connection, connection_is_removed__send_and_recv_say_so)
{
	char byte;

	ASSERT_EQ(0, superp_connect(self->fd, &node_b, SUPERP_ENCAP_UDP4, 9));
	ASSERT_EQ(0, conn_command(&node_a, SUPERP_CMD_CONN_DEL, self->cid));
	/* Once by itself, to those who only receive. */
	EXPECT_TRUE(superp_poll(self->fd, POLLIN, 1000) & POLLERR);
	EXPECT_EQ(-1, recv(self->fd, &byte, 1, MSG_DONTWAIT));
	EXPECT_EQ(ECONNRESET, errno);
	EXPECT_EQ(-1, recv(self->fd, &byte, 1, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-1, send(self->fd, "x", 1, 0));
	EXPECT_EQ(EHOSTUNREACH, errno);
}

TEST_F(connection, send__unknown_flags_and_control_messages)
{
	struct superp_rma rma = { .op = SUPERP_RMA_WRITE };
	int value = 0;

	ASSERT_EQ(0, superp_connect(self->fd, &node_b, SUPERP_ENCAP_UDP4, 9));
	EXPECT_EQ(-1, send(self->fd, "x", 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, send(self->fd, "x", 1, MSG_MORE));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(-1, recv(self->fd, &value, 1, MSG_OOB));
	EXPECT_EQ(EOPNOTSUPP, errno);
	/* A control message that would be ignored is refused. */
	EXPECT_EQ(-1, send_control(self->fd, SOL_SOCKET, SCM_RIGHTS, &value,
				   sizeof(value), "x", 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, send_control(self->fd, SOL_SUPERP, SUPERP_CMSG_COMPLETION,
				   &rma, sizeof(rma), NULL, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, send_control(self->fd, SOL_SUPERP, SUPERP_CMSG_RMA,
				   &rma, sizeof(rma) - 1, NULL, 0));
	EXPECT_EQ(EINVAL, errno);
}

SUPERP_TEST_MAIN
