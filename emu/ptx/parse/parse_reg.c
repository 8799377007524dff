/*
 * emu/ptx/parse/parse_reg.c - declarations of registers, and local memory of a function.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/ptx/parse/parse.h"
#include "util/util.h"

int ck_ptx_slot(struct ck_ptx_parser *p, uint64_t size, uint64_t align, uint64_t *offset)
{
	*offset = CK_ALIGN_UP(p->slot_top, align);
	if (!ck_ptx_fits(*offset, size, CK_PTX_MAX_LOCAL))
		return ck_ptx_fail(p, -EINVAL, "more than %u bytes of local memory in a function",
				   CK_PTX_MAX_LOCAL);
	p->slot_top = *offset + size;
	p->slot_max = ck_max(p->slot_max, p->slot_top);
	return 0;
}

static int add_register(struct ck_ptx_parser *p, const struct ck_ptx_token *name, unsigned int type)
{
	struct ck_ptx_name *entry;
	int32_t row;
	int ret = ck_ptx_register_rows(p, type, &row);

	if (ret < 0)
		return ret;
	entry = ck_ptx_names_add(&p->names, name->text, name->size, CK_PTX_NAME_REG, p->depth);
	if (!entry)
		return ck_ptx_oom(p);
	entry->value = row;
	entry->type = type;
	return 0;
}

/* "b<4>" after the '<'. A register of it gets its rows when it is first used. */
static int add_family(struct ck_ptx_parser *p, const struct ck_ptx_token *name, unsigned int type)
{
	struct ck_ptx_name *entry;
	int64_t count = 0;
	int ret = ck_ptx_integer(p, &count);

	if (ret < 0 || (ret = ck_ptx_expect(p, '>')) < 0)
		return ret;
	if (count < 0 || count > CK_PTX_MAX_ROWS ||
	    (p->family_total += (uint64_t)count) > (64u << 20))
		return ck_ptx_fail(p, -EINVAL, "too many registers");
	entry = ck_ptx_names_add(&p->names, name->text, name->size, CK_PTX_NAME_FAMILY, p->depth);
	if (!entry)
		return ck_ptx_oom(p);
	entry->bytes = (uint64_t)count;
	entry->rows = calloc((size_t)count + 1, sizeof(*entry->rows));
	if (!entry->rows)
		return ck_ptx_oom(p);
	entry->type = type;
	return 0;
}

/* ".reg .type a, b<4>;" after the .reg. */
int ck_ptx_parse_regs(struct ck_ptx_parser *p)
{
	unsigned int type;
	int ret;

	if (p->func == CK_PTX_NONE)
		return ck_ptx_fail(p, -EOPNOTSUPP, ".reg outside a function");
	if (p->tok.kind != CK_PTX_DOT)
		return ck_ptx_unexpected(p, "a type");
	type = ck_ptx_type_find(p->tok.text, p->tok.size);
	if (type == CK_PTX_NOTYPE)
		return ck_ptx_fail(p, -EOPNOTSUPP, ".reg .%.*s is not supported",
				   (int)ck_min(p->tok.size, (size_t)40), p->tok.text);
	ck_ptx_advance(p);
	do {
		struct ck_ptx_token name = p->tok;

		if (name.kind != CK_PTX_WORD)
			return ck_ptx_unexpected(p, "a register's name");
		ck_ptx_advance(p);
		ret = ck_ptx_accept(p, '<') ? add_family(p, &name, type)
					    : add_register(p, &name, type);
		if (ret < 0)
			return ret;
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ';');
}
