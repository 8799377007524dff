/*
 * command/exporter/serve.c - see serve.h.
 *
 * Nothing that a request says is used but its path, its password or token and the name of the host;
 * nothing can be changed by one. The page is static, and its script writes data as text only, so
 * that the names that programs give themselves are never markup.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/exporter/http_clients.h"
#include "command/exporter/page.h"
#include "command/exporter/serve.h"
#include "command/exporter/watch.h"
#include "command/sessions/metrics.h"
#include "util/util.h"

#define PATIENCE_S 10 /* without a byte */
#define JSON "application/json"

/* A daemon, and the certificate with which it has begun. */
struct service {
	struct ckx_serve *serve;
	struct MHD_Daemon *daemon;
	struct ckx_http_clients *guests;
};

struct ckx_serve {
	struct service *service;
	int fd; /* listens, for the next daemon */
	const struct ckx_serve_options *options;
	struct ckx_watch *watch;
};

struct page {
	const char *path, *type;
	const char *(*content)(void); /* a static one; or NULL: */
	/* malloc'ed; NULL: out of memory */
	char *(*make)(struct ckx_serve *s, const struct ckx_asker *asker, int *status);
};

/* The part of the server's state that @asker may see; NULL: it does not answer. */
static json_t *report_for(struct ckx_serve *s, const struct ckx_asker *asker)
{
	json_t *report = ckx_watch_report(s->watch), *shown = ckx_access_filter(report, asker);

	json_decref(report);
	return shown;
}

static char *make_status(struct ckx_serve *s, const struct ckx_asker *asker, int *status)
{
	json_t *report = report_for(s, asker);
	char *text = report ? json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(12))
			    : strdup("{\"error\":\"the server does not answer\"}");

	if (!report)
		*status = MHD_HTTP_SERVICE_UNAVAILABLE;
	json_decref(report);
	return text;
}

static char *make_history(struct ckx_serve *s, const struct ckx_asker *asker, int *status)
{
	(void)status;
	return ckx_watch_history(s->watch, asker->all);
}

static char *make_metrics(struct ckx_serve *s, const struct ckx_asker *asker, int *status)
{
	json_t *report = report_for(s, asker);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)status; /* without a server the metric `up` says so */
	if (out) {
		ckx_metrics_print(report, s->options->identities, out);
		fclose(out);
	}
	json_decref(report);
	return text;
}

/* Does the server answer, and the driver of its GPUs, if this host can ask one? */
static char *make_health(struct ckx_serve *s, const struct ckx_asker *asker, int *status)
{
	json_t *report = ckx_watch_report(s->watch), *gpus = json_object_get(report, "gpus");
	const char *text = !report				? "the server does not answer\n"
			   : gpus && json_array_size(gpus) == 0 ? "the driver finds no GPU\n"
								: "ok\n";

	(void)asker;
	if (strcmp(text, "ok\n") != 0)
		*status = MHD_HTTP_SERVICE_UNAVAILABLE;
	json_decref(report);
	return strdup(text);
}

/* It names all users. The page leaves it out if there is none. */
static char *make_log(struct ckx_serve *s, const struct ckx_asker *asker, int *status)
{
	const char *file = asker->all ? s->options->log_file : NULL;
	char *text = file ? ckx_tail_read(file) : NULL;

	if (text)
		return text;
	*status = file ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_NOT_FOUND;
	return strdup(file ? "the log cannot be read\n" : "there is no such page\n");
}

static const struct page pages[] = {
	{"/", "text/html; charset=utf-8", ckx_page_html, NULL},
	{"/page.css", "text/css; charset=utf-8", ckx_page_css, NULL},
	{"/page.js", "text/javascript; charset=utf-8", ckx_page_js, NULL},
	{"/page_gpus.js", "text/javascript; charset=utf-8", ckx_page_gpus_js, NULL},
	{"/status.json", JSON, NULL, make_status},
	{"/history.json", JSON, NULL, make_history},
	{"/log.txt", "text/plain; charset=utf-8", NULL, make_log},
	{"/metrics", "text/plain; version=0.0.4; charset=utf-8", NULL, make_metrics},
	{"/healthz", "text/plain; charset=utf-8", NULL, make_health},
};

static void add_headers(struct MHD_Response *r, const char *type)
{
	static const char *const headers[][2] = {
		{"Content-Security-Policy",
		 "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
		{"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "DENY"},
		{"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Resource-Policy", "same-origin"},
		{"Cross-Origin-Opener-Policy", "same-origin"},
		{"Cache-Control", "no-store"},
	};

	MHD_add_response_header(r, "Content-Type", type);
	for (size_t i = 0; i < CK_ARRAY_SIZE(headers); i++)
		MHD_add_response_header(r, headers[i][0], headers[i][1]);
}

static enum MHD_Result send_text(struct MHD_Connection *c, int status, const char *type, char *text,
				 enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r =
		text ? MHD_create_response_from_buffer(strlen(text), text, mode) : NULL;
	enum MHD_Result sent;

	if (!r) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(text);
		return MHD_NO; /* the connection is closed */
	}
	add_headers(r, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	sent = status == MHD_HTTP_UNAUTHORIZED ? MHD_queue_basic_auth_fail_response(c, "cricket", r)
					       : MHD_queue_response(c, (unsigned int)status, r);
	MHD_destroy_response(r);
	return sent;
}

static enum MHD_Result reject_request(struct MHD_Connection *c, int status, const char *text)
{
	return send_text(c, status, "text/plain; charset=utf-8", (char *)(uintptr_t)text,
			 MHD_RESPMEM_PERSISTENT);
}

/*
 * A web site can give its name the address of this host, and have a browser ask in its name. A
 * request for an address, or for localhost, does not come from such a site.
 */
static bool is_not_rebound(const char *host)
{
	struct in6_addr address;
	char name[64];
	size_t n;

	if (!host)
		return true; /* no browser's */
	if (host[0] == '[')
		return true; /* an IPv6 address */
	n = strcspn(host, ":");
	if (n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = '\0';
	return strcmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &address) == 1;
}

/* Who asks, by a password or a token: of the scheme Bearer, or Basic with any name, as browsers ask
 * for it. */
static bool find_asker(struct ckx_serve *s, struct MHD_Connection *c, struct ckx_asker *asker,
		       bool *tries)
{
	static const char bearer[] = "Bearer ";
	const char *header =
		MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
	char *given = NULL, *user = NULL;
	bool known;

	*tries = header != NULL;
	if (header && strncasecmp(header, bearer, sizeof(bearer) - 1) == 0)
		return ckx_access_find(&s->options->access, header + sizeof(bearer) - 1, asker);
	user = MHD_basic_auth_get_username_password(c, &given);
	known = ckx_access_find(&s->options->access, given, asker);
	MHD_free(user);
	MHD_free(given);
	return known;
}

static enum MHD_Result send_page(struct ckx_serve *s, struct MHD_Connection *c, const char *url,
				 const struct ckx_asker *asker)
{
	int status = MHD_HTTP_OK;
	char *text;

	for (size_t i = 0; i < CK_ARRAY_SIZE(pages); i++) {
		const struct page *p = &pages[i];

		if (strcmp(url, p->path) != 0)
			continue;
		if (p->content)
			return send_text(c, status, p->type, (char *)(uintptr_t)p->content(),
					 MHD_RESPMEM_PERSISTENT);
		text = p->make(s, asker, &status);
		return send_text(c, status, p->type, text, MHD_RESPMEM_MUST_FREE);
	}
	return reject_request(c, MHD_HTTP_NOT_FOUND, "there is no such page\n");
}

static enum MHD_Result handle_request(void *own, struct MHD_Connection *c, const char *url,
				      const char *method, const char *version, const char *data,
				      size_t *data_size, void **state)
{
	struct service *service = own;
	struct ckx_serve *s = service->serve;
	struct ckx_asker asker;
	bool tries;

	(void)version;
	(void)data;
	(void)data_size;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reject_request(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (!*state) { /* a reply to the head alone would end the connection */
		*state = service;
		return MHD_YES;
	}
	if (s->options->loopback &&
	    !is_not_rebound(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
		return reject_request(c, MHD_HTTP_FORBIDDEN,
				      "ask for localhost, or for an address\n");
	if (find_asker(s, c, &asker, &tries))
		return send_page(s, c, url, &asker);
	if (tries && *state == service && ckx_http_clients_pause(service->guests, c)) {
		*state = s; /* the next call is after the pause */
		return MHD_YES;
	}
	return reject_request(c, MHD_HTTP_UNAUTHORIZED, "a password or a token is required\n");
}

static enum MHD_Result admit(void *own, const struct sockaddr *address, socklen_t size)
{
	struct service *service = own;

	return ckx_http_clients_admit(service->guests, address, size) ? MHD_YES : MHD_NO;
}

static void note_connection(void *own, struct MHD_Connection *c, void **state,
			    enum MHD_ConnectionNotificationCode what)
{
	struct service *service = own;

	(void)state;
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		ckx_http_clients_begin(service->guests, c);
	else
		ckx_http_clients_end(service->guests, c);
}

static void note_reply(void *own, struct MHD_Connection *c, void **state,
		       enum MHD_RequestTerminationCode how)
{
	struct service *service = own;

	(void)state;
	(void)how;
	ckx_http_clients_next(service->guests, c);
}

/* NULL: it does not start. */
static struct MHD_Daemon *start_daemon(struct service *service, int fd, const struct ckx_pem *pem)
{
	unsigned int flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC |
			     MHD_ALLOW_SUSPEND_RESUME;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, pem ? (void *)(uintptr_t)pem->certificate : NULL},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, pem ? (void *)(uintptr_t)pem->key : NULL},
		{MHD_OPTION_HTTPS_PRIORITIES, 0,
		 (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3"},
		{MHD_OPTION_END, 0, NULL},
	};

	return MHD_start_daemon(flags | (pem ? MHD_USE_TLS : 0), 0, admit, service, handle_request,
				service, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				(unsigned int)CKX_HTTP_CLIENTS_MOST, MHD_OPTION_CONNECTION_TIMEOUT,
				(unsigned int)PATIENCE_S, MHD_OPTION_NOTIFY_CONNECTION,
				note_connection, service, MHD_OPTION_NOTIFY_COMPLETED, note_reply,
				service, MHD_OPTION_ARRAY, pem ? tls : tls + CK_ARRAY_SIZE(tls) - 1,
				MHD_OPTION_END);
}

/* Without touching the socket, at which the next one listens already. */
static void stop_daemon(struct service *service)
{
	int fd = service->daemon ? MHD_quiesce_daemon(service->daemon) : -1;

	if (service->guests)
		ckx_http_clients_resume(service->guests);
	if (service->daemon)
		MHD_stop_daemon(service->daemon);
	if (service->guests)
		ckx_http_clients_destroy(service->guests);
	if (fd >= 0)
		close(fd);
	free(service);
}

/* It listens at a copy of @s->fd. NULL: it does not start, with this certificate at least. */
static struct service *start(struct ckx_serve *s, const struct ckx_pem *pem)
{
	struct service *service = calloc(1, sizeof(*service));
	int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);

	if (service)
		*service = (struct service){.serve = s, .guests = ckx_http_clients_create()};
	if (service && service->guests && fd >= 0)
		service->daemon = start_daemon(service, fd, pem);
	if (service && service->daemon)
		return service;
	if (service)
		stop_daemon(service);
	if (fd >= 0)
		close(fd);
	return NULL;
}

struct ckx_serve *ckx_serve_begin(int fd, const struct ckx_serve_options *options,
				  struct ckx_watch *watch, const struct ckx_pem *pem)
{
	struct ckx_serve *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->options = options;
	s->watch = watch;
	s->fd = fd;
	s->service = start(s, pem);
	if (s->service)
		return s;
	ckx_error(pem ? "HTTPS does not start: do certificate and key match?"
		      : "the HTTP server does not start");
	free(s);
	return NULL;
}

int ckx_serve_renew(struct ckx_serve *s, const struct ckx_pem *pem)
{
	struct service *next = start(s, pem);

	if (!next) {
		ckx_error("certificate and key do not match: the old ones stay in use");
		return -EINVAL;
	}
	stop_daemon(s->service);
	s->service = next;
	return 0;
}

void ckx_serve_end(struct ckx_serve *s)
{
	stop_daemon(s->service);
	close(s->fd);
	free(s);
}
