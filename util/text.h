/*
 * util/text.h - text from peers, files and programs that people read on a terminal.
 *
 * Such text must neither steer the terminal nor look like other text. These characters are masked
 * as '?': control characters (C0, DEL, C1), marks that change the direction of text, separators of
 * lines, and bytes that are not UTF-8.
 */
#ifndef CK_UTIL_TEXT_H
#define CK_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* The length in bytes of the UTF-8 character at @text, of which @size bytes are there; 0: it is not
 * one. */
size_t ck_text_character(const char *text, size_t size);

/* Can the character at @text, of @size bytes, be printed as it is? */
bool ck_text_prints(const char *text, size_t size);

/* Mask, in place, bytes that must not be printed in @text of @size bytes, without NUL at the end;
 * characters of @keep, such as "\t", stay. Returns the new size, which is at most the old one. */
size_t ck_text_mask(char *text, size_t size, const char *keep);

/* Copy @text, masked, and as much of it as @room bytes hold with a NUL; no character is divided. */
void ck_text_copy(char *out, size_t room, const char *text);

/* Mask the text in the array @text of @room bytes, in place. It ends with a NUL afterwards, if it
 * did not before. */
void ck_text_plain(char *text, size_t room);

/* --- lines of configuration files */

/* Cut white space off both ends of @text, in place. Returns where it begins. */
char *ck_text_trim(char *text);

/* Cut a comment off: # at the beginning of @line, or behind white space. */
void ck_text_cut_comment(char *line);

#endif
