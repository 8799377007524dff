/*
 * server/checkpoint/stream.c - see stream.h.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/checkpoint/compress.h"
#include "server/checkpoint/stream.h"
#include "util/process/fd.h"
#include "util/until.h"
#include "util/util.h"

#define CK_OBJECT_MAX (16u << 20) /* a manifest may list many threads */
#define CK_BLOCK ((size_t)1 << 20)

void cks_stream_limit(int fd, int ms)
{
	const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

/* --- a watch */

#define LOOK_MS 500

/* Nothing waits on its way, or it becomes less, unless the other end stands still. */
static void *run_watch(void *data)
{
	struct cks_stream_watch *w = data;
	struct pollfd end = {.fd = w->end, .events = POLLIN};
	int64_t moved = ck_now_ms();
	int waits = 0, now;

	while (!w->still && poll(&end, 1, ck_min(w->ms, LOOK_MS)) == 0) {
		if (ioctl(w->fd, SIOCOUTQ, &now) < 0)
			break;
		if (now == 0 || now != waits)
			moved = ck_now_ms();
		waits = now;
		w->still = ck_now_ms() - moved >= w->ms;
		if (w->still)
			shutdown(w->fd, SHUT_RDWR);
	}
	return NULL;
}

int cks_stream_watch_begin(struct cks_stream_watch *w, int fd, int ms)
{
	int ret;

	*w = (struct cks_stream_watch){.fd = fd, .ms = ms, .end = eventfd(0, EFD_CLOEXEC)};
	if (w->end < 0)
		return -errno;
	ret = -pthread_create(&w->thread, NULL, run_watch, w);
	if (ret < 0)
		close(w->end);
	return ret;
}

bool cks_stream_watch_end(struct cks_stream_watch *w)
{
	const uint64_t one = 1;

	ck_fd_write_full(w->end, &one, sizeof(one));
	pthread_join(w->thread, NULL);
	close(w->end);
	return w->still;
}

/* --- a receiver at work */

void cks_stream_alive_begin(struct cks_alive *alive, int stream, const json_t *json)
{
	*alive = (struct cks_alive){.stream = json_is_true(json_object_get(json, "alive")) ? stream
											   : -1};
}

void cks_stream_alive(struct cks_alive *alive)
{
	int64_t now = ck_now_ms();

	if (alive->stream < 0 || (alive->said > 0 && now - alive->said < CK_STREAM_ALIVE_MS))
		return;
	cks_stream_write(alive->stream, json_pack("{s:b}", "alive", 1));
	alive->said = now;
}

/* --- objects */

int cks_stream_write(int fd, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	size_t size = text ? strlen(text) : 0;
	uint32_t head = htonl((uint32_t)size);
	struct iovec parts[] = {{.iov_base = &head, .iov_len = sizeof(head)},
				{.iov_base = text, .iov_len = size}};
	int ret = !text			 ? -ENOMEM
		  : size > CK_OBJECT_MAX ? -EMSGSIZE
					 : ck_fd_writev_full(fd, parts, CK_ARRAY_SIZE(parts));

	free(text);
	json_decref(json);
	return ret;
}

json_t *cks_stream_read(int fd, struct cks_why *why)
{
	uint32_t size = 0;
	char *text = NULL;
	json_t *json = NULL;
	int ret = ck_fd_read_full(fd, &size, sizeof(size));

	size = ntohl(size);
	if (ret == 0 && size > CK_OBJECT_MAX)
		ret = -EBADMSG;
	if (ret == 0 && (text = malloc(size + 1)) == NULL)
		ret = -ENOMEM;
	if (ret == 0)
		ret = ck_fd_read_full(fd, text, size);
	if (ret == 0)
		json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	if (ret == 0 && !json_is_object(json)) {
		json_decref(json);
		json = NULL;
		ret = -EBADMSG;
	}
	free(text);
	if (ret == -ENODATA)
		cks_why_set(why, EPIPE, "the other server has ended the connection");
	else if (ret < 0)
		cks_stream_broken(ret, why);
	return json;
}

bool cks_stream_waits(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

int cks_stream_result(int fd, struct cks_why *why)
{
	json_t *result = cks_stream_read(fd, why);
	const char *error;
	int ret;

	while (json_object_get(result, "alive")) {
		json_decref(result);
		result = cks_stream_read(fd, why);
	}
	error = json_string_value(json_object_get(result, "error"));
	ret = result ? 0 : -EPIPE;
	if (result && !json_is_true(json_object_get(result, "ok")))
		ret = cks_why_set(why, EREMOTEIO, "the other server: %s",
				  error ? error : "it failed");
	json_decref(result);
	return ret;
}

int cks_stream_failed(int fd, int error, struct cks_why *why)
{
	int ret = error == -EPIPE || error == -ECONNRESET ? cks_stream_result(fd, why) : 0;

	return ret < 0 ? ret : cks_stream_broken(error, why);
}

int cks_stream_broken(int error, struct cks_why *why)
{
	if (error == -ETIMEDOUT)
		return cks_why_set(why, ETIMEDOUT, "the other server has stood still for %d s",
				   CK_STREAM_QUIET_MS / 1000);
	return cks_why_set(why, -error, "the connection to the other server: %m");
}

/* Up to @size bytes from one descriptor to another; the count, or -errno. */
static int copy_bytes(int from, int to, unsigned char *buffer, uint64_t size)
{
	int ret = 0;

	for (uint64_t rest = size; rest > 0 && ret == 0;) {
		size_t n = (size_t)ck_min(rest, (uint64_t)CK_BLOCK);

		ret = ck_fd_read_full(from, buffer, n);
		if (ret == 0)
			ret = ck_fd_write_full(to, buffer, n);
		rest -= n;
	}
	return ret;
}

static int copy_file(int from, int to, uint64_t size, const char *name, struct cks_why *why)
{
	unsigned char *buffer = malloc(CK_BLOCK);
	int ret = buffer ? copy_bytes(from, to, buffer, size) : -ENOMEM;

	free(buffer);
	return ret < 0 ? cks_why_set(why, -ret, "%s: %m", name) : 0;
}

int cks_stream_send_file(int fd, int dir, const char *name, struct cks_why *why)
{
	int file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), ret;
	struct stat st;

	if (file < 0 || fstat(file, &st) < 0) {
		ret = cks_why_set(why, errno, "%s: %m", name);
	} else {
		ret = cks_stream_write(
			fd, json_pack("{s:s, s:I}", "file", name, "size", (json_int_t)st.st_size));
		ret = ret < 0 ? cks_why_set(why, -ret, "%s: %m", name)
			      : copy_file(file, fd, (uint64_t)st.st_size, name, why);
	}
	if (file >= 0)
		close(file);
	return ret;
}

int cks_stream_take_file(int fd, int dir, const json_t *json, struct cks_why *why)
{
	const char *name = json_string_value(json_object_get(json, "file"));
	json_int_t size = json_integer_value(json_object_get(json, "size"));
	int file, ret;

	if (!name || !cks_pack_name_valid(name) || size < 0)
		return cks_why_set(why, EBADMSG, "the other server sends a file without a name");
	file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return cks_why_set(why, errno, "%s: %m", name);
	ret = copy_file(fd, file, (uint64_t)size, name, why);
	close(file);
	return ret;
}
