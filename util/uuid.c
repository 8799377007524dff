/*
 * util/uuid.c - see util/uuid.h.
 */
#include <stdio.h>
#include <string.h>

#include "util/uuid.h"

void ck_uuid_print(const unsigned char b[16], char text[CK_UUID_TEXT])
{
	snprintf(text, CK_UUID_TEXT,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

bool ck_uuid_parse_digits(const char *text, unsigned char uuid[16])
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t digits = 0;

	if (strlen(text) != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		unsigned int value;

		if (form[i] != 'x') {
			if (text[i] != form[i])
				return false;
			continue;
		}
		if (!strchr("0123456789abcdefABCDEF", text[i]))
			return false;
		sscanf((char[]){text[i], '\0'}, "%x", &value);
		uuid[digits / 2] =
			(unsigned char)(digits % 2 ? uuid[digits / 2] | value : value << 4);
		digits++;
	}
	return true;
}

bool ck_uuid_parse(const char *text, unsigned char uuid[16])
{
	return strncmp(text, "GPU-", 4) == 0 && ck_uuid_parse_digits(text + 4, uuid);
}
