/*
 * server/helpers/helper.c - the request and the reply of a helper process; see helper.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server/helpers/helper.h"
#include "server/processes/json_line.h"
#include "util/process/fd.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_REQUEST_MAX 16384

json_t *cks_helper_request(void)
{
	char text[CK_REQUEST_MAX];
	size_t size = 0;
	ssize_t n = 1;
	json_t *request;

	ck_fd_set_cloexec(CK_HELPER_SOCKET, true);
	while (size < sizeof(text) && !memchr(text, '\n', size) && n > 0) {
		n = read(CK_HELPER_SOCKET, text + size, sizeof(text) - size);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			size += (size_t)n;
	}
	request = json_loadb(text, size, JSON_DISABLE_EOF_CHECK, NULL);
	if (!request)
		ck_err("a helper process without a request");
	return request;
}

static void send_news(const char *name, json_t *value)
{
	json_t *news = json_pack("{s:o}", name, value);

	cks_json_line_write(CK_HELPER_SOCKET, news);
	json_decref(news);
}

void cks_helper_began(const char *folder)
{
	send_news("folder", json_string(folder));
}

void cks_helper_filed(void)
{
	send_news("filed", json_true());
}

void cks_helper_goes_on(void)
{
	send_news("goes_on", json_true());
}

void cks_helper_round(bool more)
{
	send_news("round", json_boolean(more));
}

void cks_helper_memory(const char *hash)
{
	send_news("memory", json_string(hash));
}

void cks_helper_answer(json_t *reply)
{
	/* the supervisor may have ended; the work is done all the same */
	cks_json_line_write(CK_HELPER_SOCKET, reply);
	json_decref(reply);
	close(CK_HELPER_SOCKET);
}
