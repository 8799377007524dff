/*
 * util/uuid.h - the UUID of a GPU as text, in the form of nvidia-smi: "GPU-" and 32 digits in five
 * groups.
 */
#ifndef CK_UTIL_UUID_H
#define CK_UTIL_UUID_H

#include <stdbool.h>

#define CK_UUID_TEXT 48 /* room for the text and its end */

void ck_uuid_print(const unsigned char uuid[16], char text[CK_UUID_TEXT]);

/* False: @text is not such a UUID, and @uuid may be partly written. */
bool ck_uuid_parse(const char *text, unsigned char uuid[16]);
/* The same of the groups of digits alone, to the end of @text. */
bool ck_uuid_parse_digits(const char *text, unsigned char uuid[16]);

#endif
