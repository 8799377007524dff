/*
 * tests/fuzz/fuzz_command_trace.c - any line as one of a trace: each field lies inside of it.
 */
#include <string.h>

#include "command/trace/trace_line.h"
#include "tests/fuzz/standalone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *line = (const char *)data;
	struct ckx_trace_line l;

	if (!ckx_trace_line(line, size, &l))
		return 0;
	CK_FUZZ_CHECK(l.name[0] && memchr(l.name, 0, sizeof(l.name)));
	CK_FUZZ_CHECK(l.text > line && l.text + l.text_size < line + size);
	CK_FUZZ_CHECK(l.waits || l.error == 0);
	return 0;
}
