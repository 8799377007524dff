/*
 * m3/tool_words.c - the arguments of the command m3. A wrong word is refused: a mode that is no
 * number would be 0, which takes the region from its owner.
 */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "m3/tool.h"
#include "util/env.h"

#define OWNER_READS 0400
#define MODE_MOST 0777

static int reject(const char *what, const char *text)
{
	fprintf(stderr, "m3: not %s: %s\n", what, text);
	return 2;
}

int ck_m3_tool_number(const char *text, uint64_t *number)
{
	return ck_env_number(text, number) == 0 ? 0 : reject("a number", text);
}

int ck_m3_tool_byte(const char *text, unsigned char *byte)
{
	uint64_t number;

	if (ck_env_number(text, &number) < 0 || number > UINT8_MAX)
		return reject("a byte from 0 to 255", text);
	*byte = (unsigned char)number;
	return 0;
}

int ck_m3_tool_mode(const char *text, unsigned int *mode)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 8);
	if (errno || *end || !isdigit((unsigned char)*text) || number > MODE_MOST ||
	    !(number & OWNER_READS))
		return reject("an octal mode with which the owner can read, as in 0600 or 0604",
			      text);
	*mode = (unsigned int)number;
	return 0;
}

int ck_m3_tool_principal(const char *text)
{
	char *end = NULL, back[32] = "";
	unsigned long user;

	errno = 0;
	if (strncmp(text, "uid:", 4) == 0) {
		user = strtoul(text + 4, &end, 10);
		snprintf(back, sizeof(back), "uid:%lu", user);
	}
	/* The broker compares names. */
	return !errno && end && strcmp(back, text) == 0 ? 0
							: reject("a user, as in uid:1000", text);
}

int ck_m3_tool_access(const char *text, int *access)
{
	static const struct {
		const char *word;
		int access;
	} all[] = {{"none", 0}, {"r", M3_READ}, {"rw", M3_READWRITE}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(text, all[i].word) == 0) {
			*access = all[i].access;
			return 0;
		}
	}
	return reject("r, rw or none", text);
}
