/*
 * command/exporter/page.c - see page.h.
 */
#include "command/exporter/page.h"

/* The file @file of this folder, as a text in the program. */
#define FILE_TEXT(name, file)                                                                      \
	extern const char ckx_text_##name[];                                                       \
	__asm__(".pushsection .rodata\n"                                                           \
		".hidden ckx_text_" #name "\n"                                                     \
		".global ckx_text_" #name "\n"                                                     \
		"ckx_text_" #name ":\n"                                                            \
		".incbin \"command/exporter/" file "\"\n"                                          \
		".byte 0\n"                                                                        \
		".popsection");                                                                    \
	const char *ckx_page_##name(void)                                                          \
	{                                                                                          \
		return ckx_text_##name;                                                            \
	}

FILE_TEXT(html, "page.html")
FILE_TEXT(css, "page.css")
FILE_TEXT(js, "page.js")
FILE_TEXT(gpus_js, "page_gpus.js")
