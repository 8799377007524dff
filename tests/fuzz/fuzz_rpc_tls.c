/*
 * fuzz_rpc_tls.c - what a client reads of a server that it does not trust yet: the answer to its
 * probe.
 *
 * Only an answer that has STARTTLS as its verifier is one; OpenSSL reads all that follows.
 */
#include <string.h>

#include "rpc/tls.h"
#include "tests/fuzz/standalone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int ret = ck_tls_parse_answer(data, size);

	CK_FUZZ_CHECK(ret <= 0);
	if (ret == 0)
		CK_FUZZ_CHECK(size >= 32 && memcmp(data + 20, "STARTTLS", 8) == 0);
	return 0;
}
