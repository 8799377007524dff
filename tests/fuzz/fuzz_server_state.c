/*
 * tests/fuzz/fuzz_server_state.c - the state that a server passes to its successor: with any text,
 * it is read or refused, and what was read can be written and read again.
 */
#include <string.h>

#include "server/processes/state.h"
#include "standalone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_state state, again;
	char *text, *same;

	if (cks_state_parse((const char *)data, size, &state) < 0)
		return 0;
	text = cks_state_print(&state);
	CK_FUZZ_CHECK(text);
	CK_FUZZ_CHECK(cks_state_parse(text, strlen(text), &again) == 0);
	same = cks_state_print(&again);
	CK_FUZZ_CHECK(same && strcmp(text, same) == 0);
	free(same);
	free(text);
	cks_state_free(&again);
	cks_state_free(&state);
	return 0;
}
