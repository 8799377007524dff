/*
 * loader/code.c - instructions between the one that sets a system call's number and the call.
 * Compilers place some there to set arguments. Instructions that this file does not know are not
 * moved.
 */
#include "loader/code.h"

#define REX_B 1
#define REX_R 4
#define REX_W 8
#define NO_REGISTER 16

/* An instruction's operands. */
struct operands {
	size_t size; /* of the bytes that name them; 0: by an address relative to the code */
	bool memory; /* rm is memory */
	unsigned int reg, rm;
};

static struct operands read_operands(const uint8_t *p, size_t left, uint8_t rex)
{
	struct operands o = {.size = 1};
	unsigned int mod, rm;

	if (!left)
		return (struct operands){0};
	mod = *p >> 6;
	rm = *p & 7;
	o.reg = (*p >> 3 & 7) | (rex & REX_R ? 8 : 0);
	o.rm = rm | (rex & REX_B ? 8 : 0);
	o.memory = mod != 3;
	if (!o.memory)
		return o;
	if (!mod && rm == 5)
		return (struct operands){0};
	if (rm == 4) {
		if (left < 2)
			return (struct operands){0};
		o.size += 1 + (!mod && (p[1] & 7) == 5 ? 4 : 0);
	}
	o.size += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	return o;
}

static void copy_register(uint32_t *holding, unsigned int to, unsigned int from)
{
	*holding = (*holding & ~(1u << to)) | (from < NO_REGISTER && *holding >> from & 1) << to;
}

/* The opcodes behind 0f. */
static size_t step_second(const uint8_t *p, size_t left, uint8_t rex, uint32_t *holding)
{
	struct operands o;

	if (!left)
		return 0;
	o = read_operands(p + 1, left - 1, rex);
	if (!o.size)
		return 0;
	switch (*p) {
	case 0x10:
	case 0x11:
	case 0x28:
	case 0x29: /* vector registers and memory */
	case 0x1f: /* nothing at all */
		return 1 + o.size;
	case 0xb6:
	case 0xb7:
	case 0xbe:
	case 0xbf: /* extend */
		copy_register(holding, o.reg, NO_REGISTER);
		return 1 + o.size;
	default:
		return 0;
	}
}

/* add, or, adc, sbb, and, sub, xor, cmp of two operands. */
static bool is_arithmetic(uint8_t op)
{
	return op < 0x40 && ((op & 7) == 1 || (op & 7) == 3);
}

/* Instructions with one operand that names a register, or memory: how many bytes follow it; -1: no
 * such. */
static int immediate_of(uint8_t op)
{
	switch (op) {
	case 0x81:
	case 0xc7:
		return 4;
	case 0x83:
	case 0xc1:
		return 1;
	case 0x63:
	case 0x85:
	case 0x89:
	case 0x8b:
	case 0x8d:
	case 0xd1:
		return 0;
	default:
		return is_arithmetic(op) ? 0 : -1;
	}
}

static void apply_instruction(uint8_t op, const struct operands *o, uint32_t *holding)
{
	if (op == 0x85 || (op & 0xfd) == 0x39)
		return; /* test and cmp */
	if (op == 0x89 && !o->memory)
		copy_register(holding, o->rm, o->reg);
	else if (op == 0x8b)
		copy_register(holding, o->reg, o->memory ? NO_REGISTER : o->rm);
	else if (op == 0x63 || op == 0x8d || (is_arithmetic(op) && (op & 7) == 3))
		copy_register(holding, o->reg, NO_REGISTER);
	else if (!o->memory)
		copy_register(holding, o->rm, NO_REGISTER);
}

size_t ck_code_step(const uint8_t *code, size_t left, uint32_t *holding)
{
	const uint8_t *p = code, *end = code + left;
	struct operands o;
	uint8_t rex = 0;
	int immediate;
	size_t size;

	if (p < end && (*p & 0xf0) == 0x40)
		rex = *p++;
	if (p == end)
		return 0;
	if (*p == 0x90 && !rex)
		return 1;
	if ((*p & 0xf8) == 0xb8) { /* mov $constant */
		size = (size_t)(p - code) + (rex & REX_W ? 9 : 5);
		copy_register(holding, (*p & 7) | (rex & REX_B ? 8 : 0), NO_REGISTER);
		return size <= left ? size : 0;
	}
	if (*p == 0x0f) {
		size = step_second(p + 1, (size_t)(end - p - 1), rex, holding);
		size += size ? (size_t)(p + 1 - code) : 0;
		return size <= left ? size : 0;
	}
	immediate = immediate_of(*p);
	o = read_operands(p + 1, (size_t)(end - p - 1), rex);
	if (immediate < 0 || !o.size || (*p == 0xc7 && o.reg & 7))
		return 0;
	size = (size_t)(p + 1 - code) + o.size + (size_t)immediate;
	if (size > left)
		return 0;
	apply_instruction(*p, &o, holding);
	return size;
}

size_t ck_code_constant(const uint8_t *code, size_t left, uint32_t *value, uint32_t *holding)
{
	size_t prefix = left && *code == (0x40 | REX_B);

	if (left < prefix + 5 || (code[prefix] & 0xf8) != 0xb8)
		return 0;
	memcpy(value, code + prefix + 1, 4);
	*holding = 1u << ((code[prefix] & 7) | (prefix ? 8 : 0));
	return prefix + 5;
}
