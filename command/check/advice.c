/*
 * command/check/advice.c - see check.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "command/check/check.h"
#include "cuda/types.h"
#include "util/util.h"

enum place { HERE, SERVERS };

static const struct ckx_advice table[] = {
#define ADVICE(step, error, seen, advice, where, next)                                             \
	{#step, error, seen, advice, where == SERVERS, next},
#include "command/check/advice.def"
#undef ADVICE
};

const struct ckx_advice *ckx_advice_find(const char *step, int error, const char *message)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(table); i++) {
		const struct ckx_advice *a = &table[i];

		if (strcmp(a->step, step) == 0 && (!a->error || a->error == error) &&
		    strcasestr(message, a->seen))
			return a;
	}
	return NULL;
}

void ckx_advice_expand(const char *text, const struct ckx_advice_words *words, char *out,
		       size_t size)
{
	const struct {
		const char *word, *value;
	} all[] = {{"PIN-OF-THE-ADMINISTRATOR", NULL},
		   {"SERVER", words->server},
		   {"HOST", words->host},
		   {"PIN", words->pin[0] ? words->pin : "sha256:..."}};
	size_t used = 0;

	out[0] = '\0';
	while (*text && used + 1 < size) {
		const char *value = NULL;
		size_t length = 1;

		for (size_t i = 0; length == 1 && i < CK_ARRAY_SIZE(all); i++) {
			if (strncmp(text, all[i].word, strlen(all[i].word)) != 0)
				continue;
			length = strlen(all[i].word);
			value = all[i].value;
		}
		snprintf(out + used, size - used, "%.*s", value ? (int)strlen(value) : (int)length,
			 value ? value : text);
		used += strlen(out + used);
		text += length;
	}
}
