/*
 * command/exporter/page.c - see page.h.
 */
#include "command/exporter/page.h"

/* The file @name of this folder, as a text in the program. */
#define FILE_TEXT(name)                                                                            \
	extern const char ckx_text_##name[];                                                       \
	__asm__(".pushsection .rodata\n"                                                           \
		".hidden ckx_text_" #name "\n"                                                     \
		".global ckx_text_" #name "\n"                                                     \
		"ckx_text_" #name ":\n"                                                            \
		".incbin \"command/exporter/page." #name "\"\n"                                    \
		".byte 0\n"                                                                        \
		".popsection");                                                                    \
	const char *ckx_page_##name(void)                                                          \
	{                                                                                          \
		return ckx_text_##name;                                                            \
	}

FILE_TEXT(html)
FILE_TEXT(css)
FILE_TEXT(js)
