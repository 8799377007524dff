/*
 * util/address/srv_lookup.c - ask DNS for SRV records by the C library's resolver; see srv.h.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/process/stack.h"
#include "util/address/srv.h"

#define ANSWER 65535 /* the longest */

struct resolver {
	int (*init)(struct __res_state *state);
	int (*query)(struct __res_state *state, const char *name, int class, int type,
		     unsigned char *answer, int size);
	void (*close)(struct __res_state *state);
};

static void *find_function(const char *name, const char *other)
{
	static const char *const libraries[] = {NULL, "libresolv.so.2"};
	void *function = NULL;

	for (size_t i = 0; !function && i < 2; i++) {
		void *library =
			libraries[i] ? dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL) : RTLD_DEFAULT;

		if (i > 0 && !library)
			break;
		function = dlsym(library, name);
		if (!function)
			function = dlsym(library, other);
	}
	return function;
}

static bool load_resolver(struct resolver *r)
{
	*(void **)&r->init = find_function("__res_ninit", "res_ninit");
	*(void **)&r->query = find_function("res_nquery", "__res_nquery");
	*(void **)&r->close = find_function("__res_nclose", "res_nclose");
	return r->init && r->query && r->close;
}

/* Ask the server in CRICKET_DEBUG=resolver=... alone: ADDRESS or ADDRESS:PORT. False: it is no IPv4
 * address. */
static bool set_name_server(struct __res_state *state)
{
	char address[64], *colon, *end = NULL;
	unsigned long port = NS_DEFAULTPORT;
	int ret = ck_env_word("CRICKET_DEBUG", "resolver", address, sizeof(address));

	if (ret == -ENOENT || (ret == 0 && !*address))
		return true;
	if (ret < 0)
		return false;
	colon = strchr(address, ':');
	if (colon) {
		*colon = '\0';
		port = strtoul(colon + 1, &end, 10);
	}
	state->nscount = 1;
	state->nsaddr_list[0] =
		(struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	return (!end || (*end == '\0' && end > colon + 1)) && port > 0 && port < 65536 &&
	       inet_pton(AF_INET, address, &state->nsaddr_list[0].sin_addr) == 1;
}

static int report_failure(char why[CK_SRV_WHY], int error, const char *name, const char *what)
{
	snprintf(why, CK_SRV_WHY, "%.100s: %s", name, what);
	return error;
}

static int explain_failure(const struct __res_state *state, const char *name, char why[CK_SRV_WHY])
{
	switch (state->res_h_errno) {
	case HOST_NOT_FOUND:
		return report_failure(why, -ENOENT, name, "DNS knows no such name");
	case NO_DATA:
		return report_failure(why, -ENOENT, name, "it has no SRV records");
	default:
		return report_failure(why, -EAGAIN, name, "no name server answers");
	}
}

/* @answer: room for ANSWER bytes. */
static int query_srv(const struct resolver *r, struct __res_state *state, const char *name,
		     unsigned char *answer, struct ck_srv_list *list, char why[CK_SRV_WHY])
{
	int size, ret;

	if (!set_name_server(state))
		return report_failure(why, -EINVAL, name,
				      "the resolver in CRICKET_DEBUG is not ADDRESS[:PORT]");
	size = r->query(state, name, ns_c_in, ns_t_srv, answer, ANSWER);
	if (size < 0)
		return explain_failure(state, name, why);
	ret = ck_srv_parse(answer, size < ANSWER ? (size_t)size : ANSWER, list);
	if (ret == -ENOENT)
		return report_failure(why, ret, name, "it has no SRV records");
	return ret < 0 ? report_failure(why, ret, name, "the reply of DNS is invalid") : 0;
}

static int look_up_srv(const char *name, struct ck_srv_list *list, char why[CK_SRV_WHY])
{
	unsigned char *answer = malloc(ANSWER);
	struct __res_state state;
	struct resolver resolver;
	char full[CK_SRV_HOST];
	int n = snprintf(full, sizeof(full), "%s%s", name[0] == '_' ? "" : CK_SRV_SERVICE, name);
	int ret;

	memset(&state, 0, sizeof(state));
	if (!answer)
		ret = report_failure(why, -ENOMEM, name, "out of memory");
	else if (!*name || n >= (int)sizeof(full))
		ret = report_failure(why, -EINVAL, name, "this is not a DNS name");
	else if (!load_resolver(&resolver))
		ret = report_failure(why, -ENOSYS, name, "this system's C library has no resolver");
	else if (resolver.init(&state) < 0)
		ret = report_failure(why, -EIO, name,
				     "the resolver cannot start: see /etc/resolv.conf");
	else {
		ret = query_srv(&resolver, &state, full, answer, list, why);
		resolver.close(&state);
	}
	free(answer);
	return ret;
}

struct lookup {
	const char *name;
	struct ck_srv_list *list;
	char *why;
	int ret;
};

static void run_lookup(void *lookup)
{
	struct lookup *l = lookup;

	l->ret = look_up_srv(l->name, l->list, l->why);
}

int ck_srv_lookup(const char *name, struct ck_srv_list *list, char why[CK_SRV_WHY])
{
	struct lookup l = {name, list, why, 0};

	list->count = 0;
	if (ck_stack_run(CK_NAMES_STACK, run_lookup, &l) < 0)
		return report_failure(why, -EAGAIN, name, "there is no thread for it");
	return l.ret;
}
