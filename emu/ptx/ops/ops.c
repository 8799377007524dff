/*
 * emu/ptx/ops/ops.c - look-ups in the table of opcodes, which leads to the executors.
 */
#include <string.h>

#include "emu/ptx/ops/ops.h"
#include "util/util.h"

static const struct ck_ptx_op_row rows[] = {
	{.name = ""},
#define CK_PTX_OP(id, name, kind, shape, types, types2, mods, pick)                                \
	{name, CK_PTX_##kind, shape, types, types2, mods, pick},
#include "emu/ptx/language/ops.def"
#undef CK_PTX_OP
};

const struct ck_ptx_op_row *ck_ptx_op_row(unsigned int op)
{
	return &rows[op];
}

unsigned int ck_ptx_op_find(const char *name, size_t size)
{
	for (unsigned int i = 1; i < CK_ARRAY_SIZE(rows); i++)
		if (!strncmp(rows[i].name, name, size) && rows[i].name[size] == '\0')
			return i;
	return CK_PTX_OP_NONE;
}

bool ck_ptx_op_extends(const char *name, size_t size)
{
	for (size_t i = 1; i < CK_ARRAY_SIZE(rows); i++)
		if (!strncmp(rows[i].name, name, size) &&
		    (rows[i].name[size] == '.' || rows[i].name[size] == '\0'))
			return true;
	return false;
}

bool ck_ptx_op_exists(const char *word, size_t size)
{
	static const char *const lacking[] = {"clusterlaunchcontrol",
					      "istypep",
					      "multimem",
					      "setmaxnreg",
					      "tcgen05",
					      "tensormap",
					      "wgmma"};

	for (size_t i = 0; i < CK_ARRAY_SIZE(lacking); i++)
		if (strlen(lacking[i]) == size && !memcmp(lacking[i], word, size))
			return true;
	return ck_ptx_op_extends(word, size);
}
