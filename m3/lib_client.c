/*
 * m3/lib_client.c - libm3's connection to the broker.
 *
 * After the broker has ended, the next call connects to a new one. Regions that were open in the
 * old one are not open in the new one: calls on them return M3_ESTALE, and their mappings stay.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "m3/lib.h"
#include "util/log.h"

CK_LOG_DEFINE("m3");

#define START_TRIES 3

/* --- one question and its answer; the client's lock is held */

static int exchange_local(m3_client *c, size_t size, int *fd)
{
	long n = ck_m3_send(c->sock, &c->question, size, NULL, 0, -1, 0);

	*fd = -1;
	if (n == 0)
		n = ck_m3_receive(c->sock, &c->answer, sizeof(c->answer), fd, 0);
	if (n <= 0) {
		close(c->sock);
		c->sock = -1;
		return -EPIPE;
	}
	return ck_m3_reply_check(&c->answer, (size_t)n, c->question.head.op);
}

static int exchange_remote(m3_client *c, size_t size, int *fd)
{
	size_t got = 0;
	int ret = c->shim->call(&c->question, size, &c->answer, sizeof(c->answer), &got);

	*fd = -1;
	if (ret < 0) {
		c->sock = -1;
		return -EPIPE;
	}
	return ck_m3_reply_check(&c->answer, got, c->question.head.op);
}

static int exchange_messages(m3_client *c, const struct ck_m3_request *q, const void *data, int *fd)
{
	c->question.head = *q;
	if (q->data_size)
		memcpy(c->question.data, data, q->data_size);
	return c->shim ? exchange_remote(c, sizeof(*q) + q->data_size, fd)
		       : exchange_local(c, sizeof(*q) + q->data_size, fd);
}

/* --- connecting */

static int send_hello(m3_client *c)
{
	int fd, ret = exchange_messages(c, &c->hello, NULL, &fd);

	if (fd >= 0)
		close(fd);
	if (ret == M3_OK)
		ret = c->answer.head.status;
	return ret == -EPIPE ? M3_EIO : ret;
}

static int dial_any(m3_client *c)
{
	char buffer[sizeof(c->path)];
	const char *path;

	if (c->fixed_path)
		return ck_m3_dial(c->path);
	for (unsigned int i = 0; (path = ck_m3_path(i, buffer, sizeof(buffer))) != NULL; i++) {
		int fd = strlen(path) < sizeof(c->path) ? ck_m3_dial(path) : -EINVAL;

		if (fd < 0)
			continue;
		snprintf(c->path, sizeof(c->path), "%s", path);
		return fd;
	}
	return -ENOENT;
}

static int connect_anew(m3_client *c)
{
	int status;

	if (c->closed || c->pid != getpid())
		return M3_ESTALE;
	c->sock = c->shim ? 0 : dial_any(c);
	if (c->sock < 0)
		return M3_EIO;
	c->generation++;
	status = send_hello(c);
	if (status != M3_OK && c->sock >= 0) {
		if (!c->shim)
			close(c->sock);
		c->sock = -1;
	}
	return status;
}

/* Once more where the connection broke and the question may be asked of another broker. */
static int request_with_retry(m3_client *c, const m3_region *r, const struct ck_m3_request *q,
			      const void *data, int *fd)
{
	int ret = -EPIPE;

	*fd = -1;
	for (int i = 0; i < 2 && ret == -EPIPE; i++) {
		if (c->closed || c->pid != getpid())
			return M3_ESTALE;
		ret = c->sock < 0 ? connect_anew(c) : M3_OK;
		if (r && r->generation != c->generation)
			return M3_ESTALE;
		if (ret == M3_OK)
			ret = exchange_messages(c, q, data, fd);
	}
	if (ret == -EPIPE)
		return r ? M3_ESTALE : M3_EIO;
	return ret;
}

int ck_m3_call(m3_client *c, const m3_region *r, struct ck_m3_request *q, const void *data,
	       struct ck_m3_reply *reply, struct ck_m3_back *back)
{
	int status, fd;

	if (r)
		q->region = r->rid;
	pthread_mutex_lock(&c->lock);
	status = request_with_retry(c, r, q, data, &fd);
	if (status == M3_OK)
		status = c->answer.head.status;
	if (status == M3_OK && back && back->data) {
		back->size = c->answer.head.data_size;
		if (back->size > back->room)
			status = M3_EPROTO;
		else
			memcpy(back->data, c->answer.data, back->size);
	}
	if (reply)
		*reply = c->answer.head;
	pthread_mutex_unlock(&c->lock);
	if (status == M3_OK && back)
		back->fd = fd;
	else if (fd >= 0)
		close(fd);
	return status;
}

/* --- devices */

int ck_m3_name_device(const m3_client *c, int device, struct ck_m3_request *q)
{
	if (device == M3_ANY_DEVICE || !c->has_driver) {
		q->device = device;
		return device >= M3_ANY_DEVICE && device < M3_DEVICES_MAX ? M3_OK : M3_EINVAL;
	}
	if (device < 0 || device >= c->driver.device_count ||
	    c->driver.cuDeviceGetUuid((CUuuid *)q->uuid, device) != CUDA_SUCCESS)
		return M3_EINVAL;
	return M3_OK;
}

int ck_m3_own_device(const m3_client *c, const unsigned char uuid[16], int broker_device)
{
	return c->has_driver ? ck_m3_driver_device(&c->driver, uuid) : broker_device;
}

/* --- the client */

/* The driver of this process, if it has one, and whether it is Cricket's client. */
static void find_driver(m3_client *c)
{
	static const CUuuid id = CK_M3_SHIM_UUID;
	const void *table = NULL;
	char why[256];

	if (ck_m3_driver_open(&c->driver, NULL, why, sizeof(why)) < 0)
		return;
	c->has_driver = true;
	if (!c->fixed_path && c->driver.cuGetExportTable &&
	    c->driver.cuGetExportTable(&table, &id) == CUDA_SUCCESS && table &&
	    ((const struct ck_m3_shim *)table)->size >= sizeof(struct ck_m3_shim))
		c->shim = table;
}

/* Another process may start one at the same time, or the one that was found may just end. */
static int connect_or_start(m3_client *c)
{
	int status = connect_anew(c);

	for (int i = 0; status == M3_EIO && !c->shim && i < START_TRIES; i++) {
		if (ck_m3_start_broker() < 0)
			return status;
		status = connect_anew(c);
	}
	if (status != M3_OK)
		ck_err("M3: no broker%s: %s", c->shim ? " behind the Cricket server" : "",
		       m3_strerror(status));
	return status;
}

static int connect_with(const m3_opts *opts, bool start, m3_client **client)
{
	m3_client *c;
	int status = M3_OK;

	if (!client || (opts && opts->path && strlen(opts->path) >= sizeof(c->path)) ||
	    (opts && opts->principal && !ck_m3_text_ok(opts->principal, M3_PRINCIPAL_MAX, 1)))
		return M3_EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return M3_ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	c->refs = 1;
	c->sock = c->event_sock = -1;
	c->pid = getpid();
	c->fixed_path = opts && opts->path;
	if (c->fixed_path)
		strcpy(c->path, opts->path);
	if (!opts || !opts->no_driver)
		find_driver(c);
	ck_m3_request_init(&c->hello, CK_M3_HELLO);
	if (opts && opts->principal)
		strcpy(c->hello.principal, opts->principal);
	/* the device of a zeroed m3_opts is the first, as it would be anyway */
	status = opts ? ck_m3_name_device(c, opts->device, &c->hello) : M3_OK;
	if (status == M3_OK)
		status = start ? connect_or_start(c) : connect_anew(c);
	if (status != M3_OK) {
		ck_m3_client_put(c);
		return status;
	}
	*client = c;
	return M3_OK;
}

int m3_connect(const m3_opts *opts, m3_client **client)
{
	return connect_with(opts, false, client);
}

int m3_boot(m3_client **client)
{
	return connect_with(NULL, true, client);
}

void ck_m3_client_put(m3_client *c)
{
	bool last;

	pthread_mutex_lock(&c->lock);
	last = --c->refs == 0;
	pthread_mutex_unlock(&c->lock);
	if (!last)
		return;
	if (c->sock >= 0 && !c->shim)
		close(c->sock);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/*
 * A session's connection to the broker stays open, so the references of this client are released
 * one by one.
 */
static void give_up(m3_client *c)
{
	struct ck_m3_request q;
	int fd;

	for (m3_region *r = c->regions; r && c->shim; r = r->next) {
		for (unsigned int i = 0; i < r->refs && c->sock >= 0; i++) {
			ck_m3_request_init(&q, CK_M3_RELEASE);
			q.region = r->rid;
			exchange_messages(c, &q, NULL, &fd);
		}
	}
}

void m3_disconnect(m3_client *c)
{
	if (!c)
		return;
	ck_m3_news_end(c);
	pthread_mutex_lock(&c->lock);
	if (c->pid == getpid())
		give_up(c);
	c->closed = true;
	if (c->sock >= 0 && !c->shim)
		close(c->sock);
	c->sock = -1;
	pthread_mutex_unlock(&c->lock);
	ck_m3_client_put(c);
}
