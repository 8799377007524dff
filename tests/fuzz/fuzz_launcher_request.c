/*
 * tests/fuzz/fuzz_launcher_request.c - messages of the launcher: JSON in pieces, frames, arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/request/request.h"
#include "launcher/text/frame.h"
#include "tests/fuzz/standalone.h"

/* What the code that fills arguments relies on. */
static void check_request(const struct ckl_request *request, const char *message, size_t size)
{
	for (size_t i = 0; i < request->argc; i++) {
		const struct ckl_arg *arg = &request->args[i];

		CK_FUZZ_CHECK(!arg->array || arg->name);
		CK_FUZZ_CHECK(arg->source != CK_FROM_BYTES ||
			      ((const char *)arg->data >= message &&
			       arg->size <= size - (size_t)((const char *)arg->data - message)));
		CK_FUZZ_CHECK(arg->source != CK_FROM_TEXT || arg->text || arg->text_size <= 36);
		if (arg->array && arg->source != CK_FROM_GPU)
			CK_FUZZ_CHECK(arg->size == arg->count * ckl_type_size(arg->type));
	}
}

/* Its lists into memory, as the worker would. */
static void read_lists(const struct ckl_request *request)
{
	for (size_t i = 0; i < request->argc; i++) {
		const struct ckl_arg *arg = &request->args[i];
		struct ckl_fail fail = {0};
		void *out;

		if (!arg->array || arg->source != CK_FROM_TEXT)
			continue;
		out = malloc(arg->size + 1);
		ckl_type_read_all(arg->type, arg->text, arg->text_size, arg->count, out, "a",
				  &fail);
		ckl_fail_clear(&fail);
		free(out);
	}
}

/* A text that is fed in two pieces ends where it ends in one. */
static void check_scan(const char *text, size_t size)
{
	struct ckl_scan whole = {0}, pieces = {0};
	int ret = ckl_scan(&whole, text, size), first = ckl_scan(&pieces, text, size / 2);

	if (first == 0)
		first = ckl_scan(&pieces, text, size);
	CK_FUZZ_CHECK(first == ret);
	CK_FUZZ_CHECK(ret != 1 || (whole.at == pieces.at && whole.count == pieces.count));
	ckl_scan_free(&whole);
	ckl_scan_free(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *defaults = json_pack("{ssss s[iii] s[iii]}", "module", "m", "kernel", "k", "grid",
				     1, 1, 1, "block", 1, 1, 1);
	struct ckl_request request;
	struct ckl_fail fail = {0};
	/* Exactly its bytes, so that a read beyond is seen. */
	char *exact = malloc(size ? size : 1);

	memcpy(exact, data, size);
	check_scan(exact, size);
	if (ckl_request_read(&request, exact, size, NULL, defaults, &fail) == 0) {
		check_request(&request, exact, size);
		read_lists(&request);
		ckl_request_free(&request);
	} else {
		CK_FUZZ_CHECK(fail.exit == CK_EXIT_INPUT && fail.message[0]);
	}
	ckl_fail_clear(&fail);
	json_decref(defaults);
	free(exact);
	return 0;
}
