/*
 * emu/ptx/parse/parse_call.c - calls, returns, branches and branch tables.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/ops/ops.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

static int fixup_add(struct ck_ptx_parser *p, struct ck_ptx_fixup fixup)
{
	if (p->tok.kind != CK_PTX_WORD)
		return ck_ptx_unexpected(p, "a label");
	if (ck_ptx_room(&p->fixups, &p->fixup_room, p->fixup_count, sizeof(*p->fixups)) < 0)
		return ck_ptx_oom(p);
	fixup.text = p->tok.text;
	fixup.size = p->tok.size;
	fixup.depth = p->depth;
	fixup.line = p->line;
	p->fixups[p->fixup_count++] = fixup;
	ck_ptx_advance(p);
	return 0;
}

int ck_ptx_branch_to(struct ck_ptx_parser *p, uint32_t insn)
{
	return fixup_add(p, (struct ck_ptx_fixup){.insn = insn});
}

int ck_ptx_parse_branch_targets(struct ck_ptx_parser *p, const char *label, size_t size)
{
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_name *entry;
	struct ck_ptx_table *table;
	uint32_t room = 0, index = m->table_count;
	int ret;

	if (ck_ptx_room(&m->tables, &m->table_room, index, sizeof(*m->tables)) < 0)
		return ck_ptx_oom(p);
	table = &m->tables[m->table_count++];
	memset(table, 0, sizeof(*table));
	entry = ck_ptx_names_add(&p->names, label, size, CK_PTX_NAME_TABLE, p->depth);
	if (!entry)
		return ck_ptx_oom(p);
	entry->value = index;
	ck_ptx_advance(p);
	do {
		if (ck_ptx_at(p, ';'))
			break;
		if (ck_ptx_room(&table->targets, &room, table->count, sizeof(uint32_t)) < 0)
			return ck_ptx_oom(p);
		table->targets[table->count] = 0;
		ret = fixup_add(p, (struct ck_ptx_fixup){.insn = CK_PTX_NONE,
							 .table = index,
							 .entry = table->count++});
		if (ret < 0)
			return ret;
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ';');
}

/* "%r, table;" */
int ck_ptx_parse_brx(struct ck_ptx_parser *p)
{
	struct ck_ptx_operand o;
	struct ck_ptx_insn *in;
	struct ck_ptx_name *n;
	int32_t row;
	int ret = ck_ptx_parse_operand(p, &o);

	if (ret < 0 || (ret = ck_ptx_operand_row(p, &o, CK_PTX_U32, &row)) < 0 ||
	    (ret = ck_ptx_expect(p, ',')) < 0)
		return ret;
	n = p->tok.kind == CK_PTX_WORD ? ck_ptx_names_find(&p->names, p->tok.text, p->tok.size)
				       : NULL;
	if (!n || n->kind != CK_PTX_NAME_TABLE)
		return ck_ptx_unexpected(p, "a label of .branchtargets");
	ck_ptx_advance(p);
	in = ck_ptx_emit(p, "brx");
	if (!in)
		return ck_ptx_oom(p);
	in->s[0] = row;
	in->target = (uint32_t)n->value;
	return ck_ptx_expect(p, ';');
}

/* A load or store between @row and the frame's local memory at @offset. */
int ck_ptx_copy_slot(struct ck_ptx_parser *p, bool store, uint64_t offset, unsigned int type,
		     int32_t row, bool guarded)
{
	struct ck_ptx_insn *in = ck_ptx_emit(p, store ? "st" : "ld");

	if (!in)
		return ck_ptx_oom(p);
	if (!guarded)
		in->guard = CK_PTX_NO_GUARD;
	if (type == CK_PTX_PRED)
		return ck_ptx_fail(p, -EOPNOTSUPP, "a predicate as a parameter");
	in->type = (uint8_t)type;
	in->space = CK_PTX_LOCAL;
	in->s[0] = CK_PTX_ROW_LOCAL;
	in->imm = (int64_t)offset;
	if (store)
		in->s[1] = row;
	else
		in->d[0] = row;
	in->fn = store ? ck_ptx_pick_st(in, 2) : ck_ptx_pick_ld(in, 2);
	return in->fn ? 0 : ck_ptx_fail(p, -EOPNOTSUPP, "a parameter of this type");
}

int ck_ptx_store_results(struct ck_ptx_parser *p)
{
	const struct ck_ptx_func *func = &p->module->funcs[p->func];

	for (uint32_t i = 0; !p->entry && i < func->ret_count; i++) {
		struct ck_ptx_name *n = p->params[1][i];
		int ret;

		if (!n)
			continue;
		ret = ck_ptx_copy_slot(p, true, func->params[func->param_count + i].offset, n->type,
				       (int32_t)n->value, false);
		if (ret < 0)
			return ret;
		func = &p->module->funcs[p->func];
	}
	return 0;
}

/* One argument or result: a .param of this function, or a register that gets a slot of its own. */
struct argument {
	struct ck_ptx_slot slot;
	int32_t row; /* of a register result, else -1 */
	unsigned int type;
};

static int parse_argument(struct ck_ptx_parser *p, bool result, struct argument *a)
{
	struct ck_ptx_operand o;
	uint64_t offset;
	int32_t row;
	int ret = ck_ptx_parse_operand(p, &o);

	a->row = -1;
	if (ret < 0)
		return ret;
	if (o.kind == CK_PTX_OP_NAME && o.name->kind == CK_PTX_NAME_SLOT && o.integer == 0) {
		a->slot.offset = (uint32_t)o.name->value;
		a->slot.size = (uint32_t)o.name->bytes;
		return 0;
	}
	if (o.kind == CK_PTX_OP_SINK && result) {
		a->slot.size = 0;
		return 0;
	}
	if (o.kind != CK_PTX_OP_REG)
		return ck_ptx_fail(p, -EOPNOTSUPP,
				   "an argument that is neither .param nor register");
	/* its slot has 8 bytes, and no parameter in a register can have more */
	if (o.type == CK_PTX_B128)
		return ck_ptx_fail(p, -EOPNOTSUPP, "a register of 128 bits as an argument");
	ret = ck_ptx_slot(p, 8, 8, &offset);
	if (ret < 0)
		return ret;
	a->slot.offset = (uint32_t)offset;
	a->slot.size = ck_ptx_type_bytes(o.type);
	a->type = o.type;
	if (result) {
		a->row = o.row;
		return 0;
	}
	ret = ck_ptx_operand_row(p, &o, o.type, &row);
	return ret < 0 ? ret : ck_ptx_copy_slot(p, true, offset, o.type, row, true);
}

static int parse_arguments(struct ck_ptx_parser *p, bool result, struct argument *list,
			   uint32_t *count)
{
	int ret = 0;

	*count = 0;
	if (ck_ptx_accept(p, ')'))
		return 0;
	do {
		if (*count >= 256)
			return ck_ptx_fail(p, -EINVAL, "more than 256 arguments");
		ret = parse_argument(p, result, &list[(*count)++]);
		if (ret < 0)
			return ret;
	} while (ck_ptx_accept(p, ','));
	return ck_ptx_expect(p, ')');
}

/* The function's name, or the register that holds its address. */
static int parse_callee(struct ck_ptx_parser *p, uint32_t *callee, int32_t *row)
{
	struct ck_ptx_func *func = &p->module->funcs[p->func];
	struct ck_ptx_operand o;
	int ret = ck_ptx_parse_operand(p, &o);

	if (ret < 0)
		return ret;
	*callee = CK_PTX_NONE;
	*row = o.row;
	if (o.kind == CK_PTX_OP_REG) {
		func->indirect = true;
		return 0;
	}
	if (o.kind != CK_PTX_OP_NAME || o.name->kind != CK_PTX_NAME_FUNC || o.integer)
		return ck_ptx_fail(p, -EINVAL, "a call of a name that is not a function");
	*callee = (uint32_t)o.name->value;
	*row = CK_PTX_ROW_SINK;
	if (ck_ptx_room(&func->calls, &func->call_room, func->call_count, sizeof(uint32_t)) < 0)
		return ck_ptx_oom(p);
	func->calls[func->call_count++] = *callee;
	return 0;
}

static int emit_call(struct ck_ptx_parser *p, uint32_t callee, int32_t row,
		     const struct argument *args, uint32_t arg_count, const struct argument *rets,
		     uint32_t ret_count)
{
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_call *call;
	struct ck_ptx_insn *in;
	int ret = 0;

	if (ck_ptx_room(&m->calls, &m->call_room, m->call_count, sizeof(*m->calls)) < 0)
		return ck_ptx_oom(p);
	call = &m->calls[m->call_count];
	call->args = calloc(arg_count + ret_count + 1, sizeof(*call->args));
	if (!call->args)
		return ck_ptx_oom(p);
	m->call_count++;
	call->caller = p->func;
	call->callee = callee;
	call->arg_count = arg_count;
	call->ret_count = ret_count;
	for (uint32_t i = 0; i < arg_count; i++)
		call->args[i] = args[i].slot;
	for (uint32_t i = 0; i < ret_count; i++)
		call->args[arg_count + i] = rets[i].slot;
	in = ck_ptx_emit(p, "call");
	if (!in)
		return ck_ptx_oom(p);
	in->s[0] = row;
	in->target = m->call_count - 1;
	for (uint32_t i = 0; ret == 0 && i < ret_count; i++)
		if (rets[i].row >= 0)
			ret = ck_ptx_copy_slot(p, false, rets[i].slot.offset, rets[i].type,
					       rets[i].row, true);
	return ret;
}

/* "(results), callee, (arguments), prototype;" of which all but the callee may be missing. */
int ck_ptx_parse_call(struct ck_ptx_parser *p)
{
	struct argument *list = calloc(512, sizeof(*list));
	uint32_t args = 0, rets = 0, callee = 0;
	int32_t row = 0;
	int ret = 0;

	if (!list)
		return ck_ptx_oom(p);
	if (ck_ptx_accept(p, '(')) {
		ret = parse_arguments(p, true, list + 256, &rets);
		if (ret == 0)
			ret = ck_ptx_expect(p, ',');
	}
	if (ret == 0)
		ret = parse_callee(p, &callee, &row);
	while (ret == 0 && ck_ptx_accept(p, ',')) {
		if (ck_ptx_accept(p, '('))
			ret = parse_arguments(p, false, list, &args);
		else if (p->tok.kind == CK_PTX_WORD)
			ck_ptx_advance(p); /* the prototype, or the list of targets */
		else
			ret = ck_ptx_unexpected(p, "arguments");
	}
	if (ret == 0)
		ret = emit_call(p, callee, row, list, args, list + 256, rets);
	free(list);
	return ret < 0 ? ret : ck_ptx_expect(p, ';');
}
