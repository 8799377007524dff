/*
 * command/login/trust.c - see login.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/login/login.h"
#include "command/servers/connection.h"
#include "command/servers/fleet.h"
#include "util/address/address.h"

/* Ask a question on the terminal, until it is answered with yes or no. */
static bool ask_confirmation(const char *question)
{
	char answer[16];

	for (;;) {
		fprintf(stderr, "%s (yes/no)? ", question);
		if (!fgets(answer, sizeof(answer), stdin))
			return false;
		answer[strcspn(answer, "\r\n")] = '\0';
		if (strcasecmp(answer, "yes") == 0)
			return true;
		if (strcasecmp(answer, "no") == 0)
			return false;
	}
}

/* The command line comes before variables and files. */
static int take_pins(struct ckx_server *server, const char *pins)
{
	char *mode = server->tls.value[CKX_TLS_MODE], *pin = server->tls.value[CKX_TLS_PIN];

	if (!ck_tls_are_pins(pins) || strlen(pins) >= CKX_TLS_TEXT) {
		ckx_error("not a pin (sha256: and 64 digits), or pins and commas: %s", pins);
		return -EINVAL;
	}
	strcpy(pin, pins);
	if (strcmp(mode, "off") == 0 || strcmp(mode, "offer") == 0)
		strcpy(mode, "require");
	unsetenv(ckx_tls_variable(CKX_TLS_MODE));
	unsetenv(ckx_tls_variable(CKX_TLS_PIN));
	return 0;
}

/* Does a server answer, and with a key that these settings trust? -errno: @reach->why says why not.
 */
static int try_key(const struct ckx_server *server, struct ckx_connection *reach)
{
	struct ckx_server tried = *server;
	struct ck_chan *chan;
	int ret;

	explicit_bzero(tried.token, sizeof(tried.token));
	ret = ckx_connection_dial(&tried, reach, &chan);
	if (ret == 0)
		ck_chan_close(chan);
	return ret;
}

/* Has an authority of the system signed the server's certificate? */
static bool is_signed(const struct ckx_server *server)
{
	struct ckx_server strict = *server;
	struct ckx_connection reach;
	bool ok;

	strcpy(strict.tls.value[CKX_TLS_MODE], "require");
	ok = try_key(&strict, &reach) == 0;
	unsetenv(ckx_tls_variable(CKX_TLS_MODE));
	explicit_bzero(strict.token, sizeof(strict.token));
	return ok;
}

/* Before the user types a token, which would not be sent. Each of several servers has its check
 * when the token is there. */
static int check_key(const struct ckx_server *server, const char *text)
{
	struct ckx_connection reach;
	int ret = 0;

	if (!ckx_fleet_is(server->address) && ck_address_kind_of(server->address) == CK_ADDRESS_TCP)
		ret = try_key(server, &reach);
	if (ret < 0)
		ckx_error("%s: %s; nothing is stored", text, reach.why);
	return ret;
}

static int confirm_pin(struct ckx_server *server, const char *pin, const char *text)
{
	if (!isatty(STDIN_FILENO)) {
		ckx_error("%s: the server's key is not known here; if its administrator confirms "
			  "this pin, run: cricket login %s#%s",
			  text, server->name[0] ? server->name : server->address, pin);
		return -EKEYREJECTED;
	}
	fprintf(stderr,
		"The key of %s is not known here. The server shows the key with this pin:\n"
		"  %s\n"
		"Its administrator knows the pin: `cricket-rpc-server --setup` and the server's "
		"log print it.\n",
		text, pin);
	if (!ask_confirmation("Trust this key")) {
		ckx_error("%s: nothing is stored", text);
		return -EKEYREJECTED;
	}
	strcpy(server->tls.value[CKX_TLS_PIN], pin);
	return 0;
}

/* Nothing says whom to trust. */
static int look_at_server(struct ckx_server *server, const char *text, bool *changed)
{
	struct ckx_connection reach;
	char pin[CK_TLS_PIN];
	int ret = ckx_connection_pin(server, &reach, pin);

	if (ret < 0) {
		ckx_error("%s: %s", text, reach.why);
		return ret;
	}
	if (!pin[0] && !reach.near) {
		ckx_error("%s: the server has no TLS, and the token would cross the network in "
			  "plain text: give the server a certificate (cricket-rpc-server --setup), "
			  "or set CRICKET_TLS=off if no one else can read this network",
			  text);
		return -EKEYREJECTED;
	}
	if (!pin[0])
		return 0;
	*changed = true;
	if (!is_signed(server))
		return confirm_pin(server, pin, text);
	strcpy(server->tls.value[CKX_TLS_MODE], "require");
	return 0;
}

/* One of several servers. */
static int look_at_one(const struct ckx_server *whole, const char *address, const char *text)
{
	struct ckx_server one = *whole;
	struct ckx_connection reach = {.near = true};
	char pin[CK_TLS_PIN];
	int ret = 0;

	strcpy(one.address, address);
	if (ck_address_kind_of(address) == CK_ADDRESS_TCP)
		ret = ckx_connection_pin(&one, &reach, pin);
	explicit_bzero(one.token, sizeof(one.token));
	if (ret < 0)
		return ckx_error("%s: %s; nothing is stored", address, reach.why), ret;
	if (reach.near)
		return 0;
	ckx_error("%s: the key of %s is not known here: log in to each of the servers, as with: "
		  "cricket login %s",
		  text, address, address);
	return -EKEYREJECTED;
}

/* Nothing says whom to trust among several servers, and a section has one key: only those of this
 * host get the token. */
static int look_at_several(const struct ckx_server *server, const char *text)
{
	struct ckx_fleet *fleet = calloc(1, sizeof(*fleet));
	int ret = fleet ? ckx_fleet_find(server, fleet) : -ENOMEM;

	for (size_t i = 0; ret == 0 && i < fleet->count; i++)
		ret = look_at_one(server, fleet->list[i]->server.address, text);
	if (fleet)
		ckx_fleet_free(fleet);
	free(fleet);
	return ret;
}

int ckx_trust(struct ckx_server *server, const char *pins, const char *text, bool *changed)
{
	int ret = 0;

	*changed = pins[0] != '\0';
	if (*changed)
		ret = take_pins(server, pins);
	if (ret < 0)
		return ret;
	if (*changed || ckx_tls_configured(&server->tls))
		return check_key(server, text);
	if (ckx_fleet_is(server->address))
		return look_at_several(server, text);
	if (ck_address_kind_of(server->address) != CK_ADDRESS_TCP)
		return 0;
	return look_at_server(server, text, changed);
}
