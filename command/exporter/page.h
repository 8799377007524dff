/*
 * command/exporter/page.h - the web page: the files page.html, page.css, page.js and page_gpus.js
 * of this folder.
 */
#ifndef CK_COMMAND_EXPORTER_PAGE_H
#define CK_COMMAND_EXPORTER_PAGE_H

const char *ckx_page_html(void);
const char *ckx_page_css(void);
const char *ckx_page_js(void);
const char *ckx_page_gpus_js(void);

#endif
