/*
 * emu/ptx/parse/emit.c - what the parser adds to a function: rows of registers, constants,
 * instructions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/ptx/ops/ops.h"
#include "emu/ptx/parse/parse.h"
#include "util/util.h"

int ck_ptx_new_row(struct ck_ptx_parser *p, int32_t *row)
{
	if (p->rows >= CK_PTX_MAX_ROWS)
		return ck_ptx_fail(p, -EINVAL, "more than %u registers in a function",
				   CK_PTX_MAX_ROWS);
	*row = (int32_t)p->rows++;
	return 0;
}

int ck_ptx_register_rows(struct ck_ptx_parser *p, unsigned int type, int32_t *row)
{
	int32_t upper;
	int ret = ck_ptx_new_row(p, row);

	return ret == 0 && type == CK_PTX_B128 ? ck_ptx_new_row(p, &upper) : ret;
}

static int temp_row(struct ck_ptx_parser *p, int32_t *row)
{
	if (p->temp_used >= CK_PTX_MAX_OPERANDS)
		return ck_ptx_fail(p, -EINVAL, "too many operands");
	if (p->temps[p->temp_used] == 0) {
		int ret = ck_ptx_new_row(p, &p->temps[p->temp_used]);

		if (ret < 0)
			return ret;
	}
	*row = p->temps[p->temp_used++];
	return 0;
}

int ck_ptx_pool_add(struct ck_ptx_parser *p, uint64_t value, uint32_t *index)
{
	struct ck_ptx_module *m = p->module;

	if (m->pool_count >= (uint32_t)INT32_MAX ||
	    ck_ptx_room(&m->pool, &m->pool_room, m->pool_count, CK_PTX_LANES * sizeof(*m->pool)) <
		    0)
		return ck_ptx_oom(p);
	for (int lane = 0; lane < CK_PTX_LANES; lane++)
		m->pool[(size_t)m->pool_count * CK_PTX_LANES + (size_t)lane] = value;
	*index = m->pool_count++;
	return 0;
}

/* Double the table that finds a constant by its value. */
static int constants_grow(struct ck_ptx_parser *p)
{
	uint32_t room = p->constant_room ? p->constant_room * 2 : 256;
	uint32_t *table = calloc(room, sizeof(*table));

	if (!table)
		return ck_ptx_oom(p);
	for (uint32_t i = 0; i < p->constant_room; i++) {
		uint64_t hash, value;

		if (!p->constants[i])
			continue;
		value = p->module->pool[(size_t)(p->constants[i] - 1) * CK_PTX_LANES];
		hash = value * 0x9e3779b97f4a7c15ull >> 32;
		while (table[hash & (room - 1)])
			hash++;
		table[hash & (room - 1)] = p->constants[i];
	}
	free(p->constants);
	p->constants = table;
	p->constant_room = room;
	return 0;
}

int ck_ptx_constant(struct ck_ptx_parser *p, uint64_t value, int32_t *row)
{
	uint64_t hash = value * 0x9e3779b97f4a7c15ull >> 32;
	uint32_t index;
	int ret;

	if (p->constant_count * 2 >= p->constant_room && (ret = constants_grow(p)) < 0)
		return ret;
	for (;; hash++) {
		uint32_t *at = &p->constants[hash & (p->constant_room - 1)];

		if (!*at) {
			ret = ck_ptx_pool_add(p, value, &index);
			if (ret < 0)
				return ret;
			*at = index + 1;
			p->constant_count++;
		}
		if (p->module->pool[(size_t)(*at - 1) * CK_PTX_LANES] == value) {
			*row = ~(int32_t)(*at - 1);
			return 0;
		}
	}
}

struct ck_ptx_insn *ck_ptx_emit(struct ck_ptx_parser *p, const char *opcode)
{
	struct ck_ptx_module *m = p->module;
	struct ck_ptx_insn *in;

	if (m->code_count >= (uint32_t)INT32_MAX ||
	    ck_ptx_room(&m->code, &m->code_room, m->code_count, sizeof(*m->code)) < 0 ||
	    ck_ptx_source_add(m, (struct ck_ptx_source){.insn = m->code_count,
							.unit = p->unit,
							.at = p->stmt_source,
							.caller = p->stmt_caller}) < 0)
		return NULL;
	in = &m->code[m->code_count++];
	memset(in, 0, sizeof(*in));
	in->guard = p->guard;
	in->guard_not = p->guard_not;
	in->line = p->stmt_line ? p->stmt_line : p->line;
	in->vec = 1;
	for (size_t i = 0; i < CK_ARRAY_SIZE(in->d); i++)
		in->d[i] = CK_PTX_ROW_SINK;
	for (size_t i = 0; i < CK_ARRAY_SIZE(in->s); i++)
		in->s[i] = CK_PTX_ROW_SINK;
	in->op = (uint16_t)ck_ptx_op_find(opcode, strlen(opcode));
	in->kind = (uint8_t)ck_ptx_op_row(in->op)->kind;
	in->target = p->func;
	in->fn = ck_ptx_op_row(in->op)->pick(in, 0);
	return in;
}

int ck_ptx_emit_hidden(struct ck_ptx_parser *p, const char *opcode, int64_t imm, int32_t *row)
{
	struct ck_ptx_insn *in;
	int ret = temp_row(p, row);

	if (ret < 0)
		return ret;
	in = ck_ptx_emit(p, opcode);
	if (!in)
		return ck_ptx_oom(p);
	in->guard = CK_PTX_NO_GUARD;
	in->d[0] = *row;
	in->imm = imm;
	return 0;
}
