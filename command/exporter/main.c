/*
 * command/exporter/main.c - cricket-exporter: the state of a server on this host over HTTP, for
 * Prometheus and for browsers. It asks the status socket as any user does, so that no server has an
 * HTTP parser in it.
 */
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/token_store.h"
#include "command/exporter/serve.h"
#include "command/exporter/watch.h"
#include "rpc/chan.h"
#include "util/process/fd.h"
#include "util/process/output.h"

#define USAGE "cricket-exporter [OPTION]... [SERVER]"

static const char help[] =
	"Usage: " USAGE "\n"
	"Serve metrics at /metrics and a web page at /, about a server on this host.\n\n"
	"  -s, --server SERVER        a name of `cricket servers`, or an address\n"
	"  -l, --listen ADDRESS       HOST:PORT (default 127.0.0.1:9400), or unix:/PATH\n"
	"  -i, --identities           include sessions and memory of each identity\n"
	"  -p, --password-file FILE   require the password in the first line of FILE\n"
	"  -t, --token-file FILE      the server's list of tokens: users see their own sessions\n"
	"      --tls-cert FILE        HTTPS, with this certificate and its chain (PEM)\n"
	"      --tls-key FILE         the key of that certificate\n"
	"  -L, --log-file FILE        show the end of the server's log; needs a password\n"
	"      --insecure             admit other hosts without a password, or without TLS\n"
	"      --help, --version\n";

#define PORT "9400"

struct options {
	const char *server, *listen, *password_file, *tls_cert, *tls_key;
	bool insecure;
	struct ckx_serve_options serve;
	char whole[CK_ADDRESS_MAX]; /* @listen with a port */
};

static int print_usage(void)
{
	ckx_error("usage: " USAGE "; see `cricket-exporter --help`");
	return CKX_USAGE;
}

/* -1: go on; else the exit status. */
static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option options[] = {{"server", required_argument, NULL, 's'},
						{"listen", required_argument, NULL, 'l'},
						{"identities", no_argument, NULL, 'i'},
						{"password-file", required_argument, NULL, 'p'},
						{"token-file", required_argument, NULL, 't'},
						{"tls-cert", required_argument, NULL, 'C'},
						{"tls-key", required_argument, NULL, 'K'},
						{"log-file", required_argument, NULL, 'L'},
						{"insecure", no_argument, NULL, 'I'},
						{"help", no_argument, NULL, 'h'},
						{"version", no_argument, NULL, 'V'},
						{NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "s:l:ip:t:L:h", options, NULL)) != -1) {
		if (option == '?')
			return print_usage();
		if (optarg && !*optarg) {
			ckx_error("an option has an empty value");
			return print_usage();
		}
		if (option == 'h' || option == 'V') {
			fputs(option == 'h' ? help : "cricket-exporter " CK_RELEASE "\n", stdout);
			return CKX_OK;
		}
		o->server = option == 's' ? optarg : o->server;
		o->listen = option == 'l' ? optarg : o->listen;
		o->password_file = option == 'p' ? optarg : o->password_file;
		o->serve.log_file = option == 'L' ? optarg : o->serve.log_file;
		o->serve.access.token_file = option == 't' ? optarg : o->serve.access.token_file;
		o->tls_cert = option == 'C' ? optarg : o->tls_cert;
		o->tls_key = option == 'K' ? optarg : o->tls_key;
		o->serve.identities |= option == 'i';
		o->insecure |= option == 'I';
	}
	if (!o->tls_cert != !o->tls_key)
		ckx_error("--tls-cert and --tls-key must be given together");
	if (argc - optind > (o->server ? 0 : 1) || !o->tls_cert != !o->tls_key)
		return print_usage();
	o->server = o->server ? o->server : argv[optind];
	return -1;
}

/* Without a port, it is not that of a server. */
static int complete_address(struct options *o)
{
	const char *scheme = strstr(o->listen, "://"), *host = scheme ? scheme + 3 : o->listen;
	const char *bracket = strchr(host, ']');

	if (ck_address_kind_of(o->listen) != CK_ADDRESS_TCP ||
	    strchr(bracket ? bracket : host, ':'))
		return 0;
	if (snprintf(o->whole, sizeof(o->whole), "%s:" PORT, o->listen) >= (int)sizeof(o->whole)) {
		ckx_error("the address is too long: %s", o->listen);
		return -EINVAL;
	}
	o->listen = o->whole;
	return 0;
}

/* Say where it listens, with the number that the kernel has chosen for port 0. */
static void say_address(const struct options *o, int fd)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof(at);
	int port = 0;

	if (!ck_address_path(o->listen) && getsockname(fd, (struct sockaddr *)&at, &size) == 0)
		port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
						      : ((struct sockaddr_in *)&at)->sin_port);
	size = (socklen_t)(strrchr(o->listen, ':') - o->listen);
	if (port)
		ckx_error("listening on %s%.*s:%d", o->tls_cert ? "https://" : "", (int)size,
			  o->listen, port);
	else
		ckx_error("listening on %s%s", o->tls_cert ? "https://" : "", o->listen);
}

/* The listening socket, or -errno, printed. */
static int open_socket(struct options *o)
{
	int fd = ck_chan_listen(o->listen);

	if (fd < 0) {
		ckx_error("--listen %s: %s", o->listen,
			  fd == -EAGAIN || fd == -ENXIO
				  ? "no name server knows this name, or none answers"
			  : fd == -EINVAL ? "not HOST:PORT, [IPV6]:PORT or unix:/PATH"
					  : strerror(-fd));
		return fd;
	}
	o->serve.loopback = !ck_address_path(o->listen) && !ck_fd_exposed(fd);
	if (!ck_fd_exposed(fd) || o->insecure)
		return fd;
	if (!o->serve.access.password && !o->serve.access.token_file) {
		ckx_error("other hosts can reach %s, and there is no password: give "
			  "--password-file FILE or --token-file FILE, or --insecure to show "
			  "everyone who can connect",
			  o->listen);
	} else if (!o->tls_cert) {
		ckx_error("other hosts can reach %s, and would send passwords and tokens in plain "
			  "text: give --tls-cert FILE and --tls-key FILE, or --insecure",
			  o->listen);
	} else {
		return fd;
	}
	close(fd);
	return -EPERM;
}

/* The files of TLS, to be freed. *@out is NULL without TLS. -errno, printed. */
static int read_pem(const struct options *o, struct ckx_pem **out)
{
	int ret = 0;

	*out = NULL;
	if (!o->tls_cert)
		return 0;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	ret = ckx_pem_supported();
	if (ret == 0)
		ret = ckx_pem_read(o->tls_cert, o->tls_key, *out);
	return ret;
}

static void forget_pem(struct ckx_pem *pem)
{
	if (pem)
		explicit_bzero(pem, sizeof(*pem));
	free(pem);
}

/* SIGHUP: the files may be new. */
static void renew_certificate(const struct options *o, struct ckx_serve *s)
{
	struct ckx_pem *pem;

	if (read_pem(o, &pem) == 0 && pem && ckx_serve_renew(s, pem) == 0)
		ckx_error("the certificate has been read again");
	forget_pem(pem);
}

/* Until a signal ends the program. */
static void watch_server(const struct options *o, struct ckx_watch *w, struct ckx_serve *s,
			 const sigset_t *signals)
{
	const struct timespec step = {.tv_sec = CKX_STEP_S};
	int signal;

	do {
		ckx_watch_step(w);
		signal = sigtimedwait(signals, NULL, &step);
		if (signal == SIGHUP)
			renew_certificate(o, s);
	} while (signal < 0 || signal == SIGHUP);
}

/* Begin to answer at @fd, which it takes. NULL, printed: it cannot. */
static struct ckx_serve *begin_serve(const struct options *o, int fd, struct ckx_watch *w)
{
	struct ckx_serve *s = NULL;
	struct ckx_pem *pem;

	if (read_pem(o, &pem) == 0 && w)
		s = ckx_serve_begin(fd, &o->serve, w, pem);
	forget_pem(pem);
	if (!s)
		close(fd);
	return s;
}

static int serve_metrics(struct options *o, int fd)
{
	struct ckx_watch *w = ckx_watch_create(o->server);
	struct ckx_serve *s;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL); /* the threads inherit it */
	signal(SIGPIPE, SIG_IGN);
	ckx_watch_step(w); /* before there are threads: command/sessions/gpu.h */
	s = begin_serve(o, fd, w);
	if (!s) {
		ckx_watch_destroy(w);
		return CKX_FAILED;
	}
	say_address(o, fd);
	watch_server(o, w, s, &signals);
	ckx_serve_end(s);
	ckx_watch_destroy(w);
	if (ck_address_path(o->listen))
		unlink(ck_address_path(o->listen));
	return CKX_OK;
}

int main(int argc, char **argv)
{
	static char password[CKX_TOKEN];
	struct options o = {.listen = "127.0.0.1"};
	int status, fd;

	ck_output_begin();
	status = parse_options(argc, argv, &o);
	if (status >= 0)
		return ck_output_end("cricket-exporter") || status != CKX_OK ? status : CKX_FAILED;
	if (o.password_file) {
		if (ckx_token_read(o.password_file, password) < 0)
			return CKX_FAILED;
		o.serve.access.password = password;
	}
	if (o.serve.access.token_file && ckx_access_check(o.serve.access.token_file) < 0)
		return CKX_FAILED;
	/* it names all users and their programs; a web server at a unix socket has rules of its
	 * own */
	if (o.serve.log_file && !o.serve.access.password && !ck_address_path(o.listen)) {
		ckx_error("--log-file shows what all users do: give --password-file too");
		return CKX_USAGE;
	}
	if (complete_address(&o) < 0)
		return CKX_FAILED;
	fd = open_socket(&o);
	return fd < 0 ? CKX_FAILED : serve_metrics(&o, fd);
}
