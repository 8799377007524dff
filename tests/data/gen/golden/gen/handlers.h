/* Made by tools/apigen.py from rpc/driver.api: change those, not this file. */
#ifndef CK_GEN_HANDLERS_H
#define CK_GEN_HANDLERS_H

#include "cricket.h"
#include "cuda/types.h"
#include "gen/numbers.h"

struct cks_request;

/* Bodies by hand; @res is NULL for one-way messages. */
CUresult ck_serve_put(struct cks_request *q, ck_put_args *a, void *res);
CUresult ck_serve_get(struct cks_request *q, ck_get_args *a, ck_get_res *res);

typedef CUresult (*ck_handler)(struct cks_request *q, void *args, void *res);
extern const ck_handler ck_handlers[CK_PROC_END];

#endif
