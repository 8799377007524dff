/*
 * command/run/ptxas.h - a stand-in for NVIDIA's assembler, for frameworks that run one.
 */
#ifndef CK_COMMAND_RUN_PTXAS_H
#define CK_COMMAND_RUN_PTXAS_H

#include <stdbool.h>

#define CKX_PTXAS "ptxas"
#define CKX_PTXAS_VARIABLE "TRITON_PTXAS_PATH"
#define CKX_PTX_VARIABLES 3

/* Variables of frameworks that otherwise produce machine code; docs/emulator.md. The value NULL is
 * the path of this assembler. */
extern const struct ckx_ptx_variable {
	const char *name, *value;
} ckx_ptx_variables[CKX_PTX_VARIABLES];

/* Whether this program was executed by that name, as @path. */
bool ckx_ptxas_called(const char *path);

/* `ptxas [OPTION]... INPUT -o OUTPUT`: OUTPUT gets the PTX itself, which the emulated GPU runs.
 * CKX_OK, or CKX_FAILED and a line. */
int ckx_ptxas(int argc, char **argv);

#endif
