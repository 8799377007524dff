/*
 * tests/fuzz/fuzz_command_lan.c - any text as the output of avahi-browse: names have their bounds
 * and can be printed on a terminal, and each address can be parsed.
 */
#include <string.h>

#include "command/servers/lan.h"
#include "tests/fuzz/standalone.h"
#include "util/address/address.h"

static void check_text(const char *text, size_t size)
{
	CK_FUZZ_CHECK(memchr(text, 0, size));
	for (; *text; text++)
		CK_FUZZ_CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ckx_lan lan;
	struct ck_address address;
	char why[CK_ADDRESS_WHY], *text = malloc(size + 1);

	CK_FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	ckx_lan_parse(text, &lan);
	CK_FUZZ_CHECK(lan.count <= CKX_LAN_SERVERS);
	for (size_t i = 0; i < lan.count; i++) {
		const struct ckx_lan_server *s = &lan.servers[i];

		check_text(s->name, sizeof(s->name));
		check_text(s->interface, sizeof(s->interface));
		check_text(s->address, sizeof(s->address));
		CK_FUZZ_CHECK(s->name[0] && ck_address_parse(s->address, &address, why) == 0);
		CK_FUZZ_CHECK(!s->pin[0] || ck_tls_is_pin(s->pin));
	}
	free(text);
	return 0;
}
