/*
 * emu/ptx/parse/link.c - one module from the units of a joined text: which symbol a name means.
 *
 * A text may hold several translation units, one after the other, as nvcc -rdc=true leaves them;
 * each begins with its .version. A name without linkage belongs to its unit. Names with linkage
 * (.extern, .visible, .weak, .common) mean one symbol in all units, whichever comes first.
 */
#include <errno.h>

#include "emu/ptx/parse/parse.h"
#include "util/util.h"

void ck_ptx_unit_begin(struct ck_ptx_parser *p)
{
	p->unit++;
	ck_ptx_names_pop(&p->names, 0);
}

static int declare_name(struct ck_ptx_parser *p, struct ck_ptx_names *names,
			const struct ck_ptx_name *n, uint32_t index)
{
	struct ck_ptx_name *entry = ck_ptx_names_add(names, n->text, n->size, n->kind, n->depth);

	if (!entry)
		return ck_ptx_oom(p);
	entry->value = index;
	return 0;
}

int ck_ptx_symbol_find(struct ck_ptx_parser *p, const struct ck_ptx_name *n,
		       enum ck_ptx_linkage linkage, uint32_t *index)
{
	struct ck_ptx_name *own = ck_ptx_names_find(&p->names, n->text, n->size), *linked = NULL;
	int size = (int)ck_min(n->size, (size_t)60), ret = 0;

	/* The new name hides registers, and that name in outer scopes. */
	if (own && (own->depth != n->depth || (n->depth > 0 && own->kind != n->kind)))
		own = NULL;
	if (linkage != CK_PTX_LINK_NONE)
		linked = ck_ptx_names_find(&p->linked, n->text, n->size);
	if (!own && !linked)
		return 0;
	if ((own && own->kind != n->kind) || (linked && linked->kind != n->kind))
		return ck_ptx_fail(p, -EINVAL, "'%.*s' is a variable and a function", size,
				   n->text);
	if (own && linked && own->value != linked->value)
		return ck_ptx_fail(p, -EINVAL, "'%.*s' is declared with linkage and without", size,
				   n->text);
	*index = (uint32_t)(own ? own : linked)->value;
	if (!own)
		ret = declare_name(p, &p->names, n, *index);
	else if (linkage != CK_PTX_LINK_NONE && !linked)
		ret = declare_name(p, &p->linked, n, *index);
	return ret < 0 ? ret : 1;
}

int ck_ptx_symbol_add(struct ck_ptx_parser *p, const struct ck_ptx_name *n,
		      enum ck_ptx_linkage linkage, uint32_t index)
{
	int ret = declare_name(p, &p->names, n, index);

	if (ret == 0 && linkage != CK_PTX_LINK_NONE)
		ret = declare_name(p, &p->linked, n, index);
	return ret;
}

static bool gives_way(enum ck_ptx_linkage linkage)
{
	return linkage == CK_PTX_LINK_WEAK || linkage == CK_PTX_LINK_COMMON;
}

int ck_ptx_definition(struct ck_ptx_parser *p, const char *name, const struct ck_ptx_origin *old,
		      enum ck_ptx_linkage linkage)
{
	if (old->unit == 0)
		return CK_PTX_TAKE;
	/* Within one unit nothing is defined twice, weak or not. */
	if (old->unit != p->unit && gives_way(linkage) && old->linkage != CK_PTX_LINK_COMMON)
		return CK_PTX_KEEP;
	if (old->unit != p->unit && gives_way(old->linkage))
		return linkage == CK_PTX_LINK_COMMON ? CK_PTX_KEEP : CK_PTX_REPLACE;
	return ck_ptx_fail(p, -EINVAL, "'%.60s' is defined twice", name);
}
