/*
 * command/exporter/page.h - the web page: the files page.html, page.css, page.js and page_gpus.js
 * of this folder, and the end of the log that it shows.
 */
#ifndef CK_COMMAND_EXPORTER_PAGE_H
#define CK_COMMAND_EXPORTER_PAGE_H

const char *ckx_page_html(void);
const char *ckx_page_css(void);
const char *ckx_page_js(void);
const char *ckx_page_gpus_js(void);

#define CKX_TAIL_BYTES 32768 /* at most */

/* The end of the file @path, from the beginning of a line on, to be freed; other bytes than text
 * read as '?'. NULL: it cannot be read, or errno is ENOMEM. */
char *ckx_tail_read(const char *path);

#endif
