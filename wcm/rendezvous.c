/*
 * wcm/rendezvous.c - the meeting place of a group; see rendezvous.h and message.h.
 *
 * It never waits for a rank: a packet is received and sent whole or not at all, and a rank whose
 * socket is full is taken for lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/log.h"
#include "util/until.h"
#include "util/wait.h"
#include "wcm/rendezvous.h"
#include "wcm/rendezvous_state.h"
#include "wcm/wcm.h"

CK_LOG_DEFINE("wcm");

#define REST_MS 20 /* out of descriptors: new ranks wait, and the thread does not spin */

/* --- ranks come and go */

static void drop_rank(struct ck_wcm_rendezvous *m, int rank)
{
	struct ck_wcm_message head;

	close(m->ranks[rank].sock);
	m->ranks[rank].sock = -1;
	m->here &= ~(1u << rank);
	ck_wcm_message_init(&head, CK_WCM_LOST);
	head.mask = 1u << rank;
	for (int i = 0; i < m->size; i++)
		ck_wcm_rendezvous_notify(m, i, &head, NULL, 0, NULL, 0);
	ck_wcm_rendezvous_without(m, rank);
}

/* Receive from a rank; false: it broke the protocol. */
static bool handle_packet(struct ck_wcm_rendezvous *m, int rank, const struct ck_wcm_packet *p,
			  const int *fds, unsigned int fd_count)
{
	const struct ck_wcm_message *head = &p->head;
	struct ck_wcm_rendezvous_rank *r = &m->ranks[rank];
	bool of_mine = head->mask & (1u << rank) && !(head->mask & ~ck_wcm_rendezvous_all(m));

	if (head->op == CK_WCM_EXCHANGE && of_mine && !r->waiting && fd_count <= 1) {
		ck_wcm_rendezvous_exchange(m, rank, p, fd_count ? fds[0] : -1);
		return true;
	}
	for (unsigned int i = 0; i < fd_count; i++)
		close(fds[i]);
	if (head->op == CK_WCM_CANCEL) {
		ck_wcm_rendezvous_cancel(m, rank, head->serial);
		return true;
	}
	if (head->op != CK_WCM_DONE || !of_mine)
		return false;
	ck_wcm_rendezvous_done(m, rank, head->number, head->mask);
	return true;
}

static void read_rank(struct ck_wcm_rendezvous *m, int rank)
{
	struct ck_wcm_packet *p = &m->packet;
	int fds[WCM_RANKS_MAX], ret;
	unsigned int count = 0;

	ret = ck_wcm_receive(m->ranks[rank].sock, p, fds, &count, MSG_DONTWAIT);
	if (ret == -EAGAIN)
		return;
	if (ret < 0 || p->head.version != CK_WCM_VERSION ||
	    !handle_packet(m, rank, p, fds, count)) {
		if (ret != -ECONNRESET)
			ck_warn("rank %d violates the protocol", rank);
		drop_rank(m, rank);
	}
}

static bool is_local(int sock)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == getpid();
}

static int admit_rank(struct ck_wcm_rendezvous *m, int sock, const struct ck_wcm_message *head)
{
	if (head->version != CK_WCM_VERSION)
		return WCM_EVERSION;
	if (head->op != CK_WCM_HELLO || head->count != (unsigned int)m->size ||
	    head->rank >= (unsigned int)m->size)
		return WCM_EMISMATCH;
	if (m->came >> head->rank & 1)
		return WCM_EBUSY;
	m->ranks[head->rank].sock = sock;
	m->ranks[head->rank].local = is_local(sock);
	m->came |= 1u << head->rank;
	m->here |= 1u << head->rank;
	return WCM_OK;
}

/* Who a stranger is. */
static void read_stranger(struct ck_wcm_rendezvous *m, int index)
{
	int sock = m->strangers[index], fds[WCM_RANKS_MAX], ret;
	struct ck_wcm_packet *p = &m->packet;
	struct ck_wcm_message welcome;
	unsigned int count = 0;

	ret = ck_wcm_receive(sock, p, fds, &count, MSG_DONTWAIT);
	if (ret == -EAGAIN)
		return;
	m->strangers[index] = m->strangers[--m->stranger_count];
	while (count > 0)
		close(fds[--count]);
	ck_wcm_message_init(&welcome, CK_WCM_WELCOME);
	welcome.status = ret < 0 ? WCM_EVERSION : admit_rank(m, sock, &p->head);
	ck_wcm_send(sock, &welcome, NULL, 0, NULL, 0, MSG_DONTWAIT);
	if (welcome.status != WCM_OK)
		close(sock);
	if (m->came == ck_wcm_rendezvous_all(m) && m->listener >= 0) {
		close(m->listener); /* the name is free for the next group */
		m->listener = -1;
	}
}

static void take_stranger(struct ck_wcm_rendezvous *m)
{
	int sock = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	m->rests = sock < 0;
	if (sock < 0)
		return;
	if (m->stranger_count == CK_WCM_STRANGERS_MAX || ck_wcm_check_user(sock) < 0)
		close(sock);
	else
		m->strangers[m->stranger_count++] = sock;
}

/* --- the thread */

/* The process's meeting places: each thread takes its own out when it ends. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ck_cond all_changed;
static struct ck_wcm_rendezvous *all;
static pid_t all_pid; /* whose they are: a fork has only their memory */

/* The descriptors to poll; entry 0 is the pipe, 1 the listener, then strangers, then ranks. */
static nfds_t collect_pollfds(const struct ck_wcm_rendezvous *m, struct pollfd *fds)
{
	nfds_t n = 2;

	fds[0] = (struct pollfd){.fd = m->orders[0], .events = POLLIN};
	fds[1] = (struct pollfd){.fd = m->rests ? -1 : m->listener, .events = POLLIN};
	for (int i = 0; i < m->stranger_count; i++)
		fds[n++] = (struct pollfd){.fd = m->strangers[i], .events = POLLIN};
	for (int i = 0; i < m->size; i++)
		fds[n++] = (struct pollfd){.fd = m->ranks[i].sock, .events = POLLIN};
	return n;
}

/* False: to end at once. */
static bool handle_order(struct ck_wcm_rendezvous *m)
{
	char order = CK_WCM_STOP;

	if (read(m->orders[0], &order, 1) != 1)
		return true;
	if (order == CK_WCM_STOP)
		return false;
	m->left = true;
	for (int i = 0; i < m->size && order == CK_WCM_EXIT; i++) {
		if (m->ranks[i].sock >= 0 && m->ranks[i].local)
			drop_rank(m, i);
	}
	return true;
}

static void serve_ranks(struct ck_wcm_rendezvous *m)
{
	struct pollfd fds[2 + CK_WCM_STRANGERS_MAX + WCM_RANKS_MAX];

	while (!m->left || m->here) {
		nfds_t n = collect_pollfds(m, fds);
		int strangers = m->stranger_count, ret = poll(fds, n, m->rests ? REST_MS : -1);

		m->rests = false;
		if (ret < 0)
			continue;
		if (fds[0].revents && !handle_order(m))
			return;
		if (fds[1].revents)
			take_stranger(m);
		for (int i = strangers - 1; i >= 0; i--) {
			if (fds[2 + i].revents)
				read_stranger(m, i);
		}
		for (int i = 0; i < m->size; i++) {
			if (fds[2 + strangers + i].revents && m->ranks[i].sock >= 0)
				read_rank(m, i);
		}
	}
}

/* With all_lock held. */
static void meet_end(struct ck_wcm_rendezvous *m)
{
	if (m->listener >= 0)
		close(m->listener);
	for (int i = 0; i < m->stranger_count; i++)
		close(m->strangers[i]);
	for (int i = 0; i < m->size; i++) {
		if (m->ranks[i].sock >= 0)
			close(m->ranks[i].sock);
	}
	ck_wcm_rendezvous_forget(m);
	close(m->orders[0]);
	close(m->orders[1]);
	m->ended = true;
	if (!m->awaited)
		free(m);
}

static void *meet_main(void *data)
{
	struct ck_wcm_rendezvous *m = data, **at = &all;

	serve_ranks(m);
	pthread_mutex_lock(&all_lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	meet_end(m);
	ck_cond_broadcast(&all_changed);
	pthread_mutex_unlock(&all_lock);
	return NULL;
}

static int start_thread(struct ck_wcm_rendezvous *m)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (pipe2(m->orders, O_CLOEXEC) < 0)
		return -errno;
	pthread_mutex_lock(&all_lock);
	if (all_pid != getpid())
		all = NULL;
	all_pid = getpid();
	m->next = all;
	all = m;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, meet_main, m);
	pthread_attr_destroy(&attr);
	if (ret) {
		all = m->next;
		close(m->orders[0]);
		close(m->orders[1]);
	}
	pthread_mutex_unlock(&all_lock);
	return -ret;
}

int ck_wcm_rendezvous_open(const char *name, int size, unsigned int patience_ms,
			   struct ck_wcm_rendezvous **meet)
{
	struct ck_wcm_rendezvous *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return -ENOMEM;
	m->size = size;
	m->patience_ms = patience_ms;
	for (int i = 0; i < WCM_RANKS_MAX; i++)
		m->ranks[i].sock = m->ranks[i].fd = -1;
	m->listener = ck_wcm_listen(name);
	if (m->listener < 0) {
		ret = m->listener;
		free(m);
		return ret;
	}
	ret = start_thread(m);
	if (ret < 0) {
		close(m->listener);
		free(m);
		return ret;
	}
	*meet = m;
	return 0;
}

static void send_order(struct ck_wcm_rendezvous *m, char what)
{
	while (write(m->orders[1], &what, 1) < 0 && errno == EINTR)
		;
}

void ck_wcm_rendezvous_stop(struct ck_wcm_rendezvous *m)
{
	pthread_mutex_lock(&all_lock);
	m->awaited = true;
	send_order(m, CK_WCM_STOP);
	while (!m->ended)
		ck_cond_wait_with(&all_changed, &all_lock);
	pthread_mutex_unlock(&all_lock);
	free(m);
}

void ck_wcm_rendezvous_leave(struct ck_wcm_rendezvous *m)
{
	send_order(m, CK_WCM_LEAVE);
}

/* The process exits: other processes' ranks may yet finish their work among themselves. */
static __attribute__((destructor)) void wait_for_others(void)
{
	struct timespec until;
	unsigned int patience = 0;

	if (all_pid != getpid())
		return;
	pthread_mutex_lock(&all_lock);
	for (struct ck_wcm_rendezvous *m = all; m; m = m->next) {
		send_order(m, CK_WCM_EXIT);
		patience = m->patience_ms > patience ? m->patience_ms : patience;
	}
	until = ck_until((patience / 1000 + 1) * (1000 * CK_NS_PER_MS));
	while (all) {
		if (ck_cond_timedwait_with(&all_changed, &all_lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&all_lock);
}
