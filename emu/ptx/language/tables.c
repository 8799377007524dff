/*
 * emu/ptx/language/tables.c - look-ups in the tables of modifiers, types, special registers, and
 * the names of opcodes. Executors use them too.
 */
#include <string.h>

#include "emu/ptx/language/sregs.h"
#include "emu/ptx/language/opcodes.h"
#include "util/util.h"

const char *ck_ptx_op_name(unsigned int op)
{
	static const char *const names[] = {
		"",
#define CK_PTX_OP(id, name, kind, shape, types, types2, mods, pick) name,
#include "emu/ptx/language/ops.def"
#undef CK_PTX_OP
	};

	return names[op];
}

static const struct mod_row {
	const char *keyword;
	uint8_t category, value;
} mods_table[] = {
#define CK_PTX_MOD(keyword, category, value) {keyword, CK_PTX_MOD_##category, value},
#include "emu/ptx/language/mods.def"
#undef CK_PTX_MOD
};

bool ck_ptx_mod_find(const char *text, size_t size, uint64_t mods, unsigned int *category,
		     unsigned int *value)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(mods_table); i++) {
		const struct mod_row *row = &mods_table[i];

		if (!(mods >> row->category & 1) || strncmp(row->keyword, text, size) ||
		    row->keyword[size] != '\0')
			continue;
		*category = row->category;
		*value = row->value;
		return true;
	}
	return false;
}

unsigned int ck_ptx_type_bytes(unsigned int type)
{
	static const uint8_t sizes[] = {
		0,
#define CK_PTX_TYPE(id, keyword, size, class) size,
#include "emu/ptx/language/types.def"
#undef CK_PTX_TYPE
	};

	return sizes[type];
}

enum ck_ptx_class ck_ptx_type_class(unsigned int type)
{
	static const uint8_t classes[] = {
		CK_PTX_CLASS_NONE,
#define CK_PTX_TYPE(id, keyword, size, class) CK_PTX_CLASS_##class,
#include "emu/ptx/language/types.def"
#undef CK_PTX_TYPE
	};

	return classes[type];
}

static const struct {
	const char *name;
	bool vector;
} sregs[] = {
#define CK_PTX_SREG(id, name, vector) {name, vector},
#include "emu/ptx/language/sregs.def"
#undef CK_PTX_SREG
};

int ck_ptx_sreg_find(const char *name, size_t size)
{
	int number = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(sregs); i++)
		if (i != CK_PTX_SREG_ENVREG && !strncmp(sregs[i].name, name, size) &&
		    sregs[i].name[size] == '\0')
			return (int)i;
	if (size < 8 || size > 9 || strncmp(name, "%envreg", 7) != 0)
		return -1;
	for (size_t i = 7; i < size; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -1;
		number = number * 10 + name[i] - '0';
	}
	return number < 32 ? CK_PTX_SREG_ENVREG + CK_PTX_SREG_STRIDE * number : -1;
}

bool ck_ptx_sreg_is_vector(unsigned int id)
{
	return id < CK_ARRAY_SIZE(sregs) && sregs[id].vector;
}
