/*
 * tests/fuzz/fuzz_server_policy.c - any text as the policy file: refused with file and line, or
 * with terms within their bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "server/policy/policy.h"
#include "tests/fuzz/standalone.h"

/* libconfig's lexer loses the text that it has begun if the text has no end. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:strbuf_append\nleak:libconfig\nleak:scanctx\n";
}

static void check(const struct cks_terms *t)
{
	CK_FUZZ_CHECK(t->sessions <= 100000 && t->percent <= 100 && !(t->percent && t->memory));
	CK_FUZZ_CHECK(t->resume >= -1 && t->resume <= 7 * 86400 && t->idle >= -1 &&
		      t->idle <= 7 * 86400);
	CK_FUZZ_CHECK(t->priority >= -1000 && t->priority <= 1000);
	CK_FUZZ_CHECK(t->weight >= 1 && t->weight <= 1000);
	CK_FUZZ_CHECK(!(t->features & ~CK_FEATURES_ALL) && memchr(t->gpus, 0, sizeof(t->gpus)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[CK_POLICY_WHY], *text = malloc(size + 1);
	const struct cks_prefix *prefix;
	struct cks_policy *policy;
	struct ck_hash key;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	/* a file that it includes is not of this test */
	if (!strstr(text, "@include")) {
		if (cks_policy_parse(text, "p", &policy, why) < 0) {
			CK_FUZZ_CHECK(!policy && strncmp(why, "p:", 2) == 0);
		} else {
			memset(&key, 0, sizeof(key));
			check(cks_policy_find(policy, &key));
			cks_identity_key_of_holder("a", &key);
			check(cks_policy_find(policy, &key));
			prefix = cks_policy_prefix(policy, &key, "p");
			CK_FUZZ_CHECK(!prefix || prefix->command[0][0] == '/');
			cks_policy_free(policy);
		}
	}
	free(text);
	return 0;
}
