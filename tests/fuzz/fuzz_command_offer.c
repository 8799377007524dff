/*
 * tests/fuzz/fuzz_command_offer.c - any bytes as what a server offers: refused, or within the
 * limits, and fit for a terminal.
 */
#include <string.h>

#include "command/servers/offer.h"
#include "tests/fuzz/standalone.h"

static void check_text(const char *text, size_t size)
{
	CK_FUZZ_CHECK(memchr(text, 0, size));
	for (; *text; text++)
		CK_FUZZ_CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ckx_offer offer;

	if (ckx_offer_decode(data, size, &offer) < 0)
		return 0;
	check_text(offer.why, sizeof(offer.why));
	check_text(offer.release, sizeof(offer.release));
	CK_FUZZ_CHECK(offer.count <= CKX_OFFER_GPUS && (offer.answers || offer.count == 0));
	for (unsigned int i = 0; i < offer.count; i++) {
		check_text(offer.gpus[i].name, sizeof(offer.gpus[i].name));
		CK_FUZZ_CHECK(offer.gpus[i].free <= offer.gpus[i].memory);
		CK_FUZZ_CHECK(offer.gpus[i].utilization >= -1 && offer.gpus[i].utilization <= 100);
	}
	return 0;
}
