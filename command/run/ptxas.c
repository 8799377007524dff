/*
 * command/run/ptxas.c - see ptxas.h.
 *
 * Triton assembles its kernels with a program of its own (TRITON_PTXAS_PATH), and loads what that
 * has written with cuModuleLoadData(), which takes PTX as well as machine code.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "command/config/command.h"
#include "command/run/ptxas.h"
#include "util/util.h"

/* Frameworks choose the version of the PTX by the release, and keep results by the whole text. */
#define VERSION                                                                                    \
	"ptxas of Cricket's emulated GPU: it passes the PTX on\n"                                  \
	"Cuda compilation tools, release 12.8, V12.8.93\n"

/* Options whose value is a word of its own. */
static const char *const with_value[] = {
	"-o", "--output-file", "-arch",		"--gpu-name",	 "-m", "--machine",
	"-O", "--opt-level",   "-maxrregcount", "--maxrregcount"};

const struct ckx_ptx_variable ckx_ptx_variables[CKX_PTX_VARIABLES] = {
	{CKX_PTXAS_VARIABLE, NULL}, {"CUPY_COMPILE_WITH_PTX", "1"}, {"CUPY_ACCELERATORS", ""}};

bool ckx_ptxas_called(const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;

	return path && strcmp(name ? name + 1 : path, CKX_PTXAS) == 0;
}

static bool takes_value(const char *option)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(with_value); i++) {
		if (strcmp(option, with_value[i]) == 0)
			return true;
	}
	return false;
}

static int copy_file(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
	char piece[65536];
	size_t n;
	bool bad;

	if (!in || !out) {
		ckx_error("ptxas: %s: %s", in ? to : from, strerror(errno));
		if (in)
			fclose(in);
		return CKX_FAILED;
	}
	while ((n = fread(piece, 1, sizeof(piece), in)) > 0 && fwrite(piece, 1, n, out) == n)
		;
	bad = ferror(in) || ferror(out);
	fclose(in);
	bad = fclose(out) != 0 || bad;
	if (bad)
		ckx_error("ptxas: %s: the PTX cannot be written", to);
	return bad ? CKX_FAILED : CKX_OK;
}

int ckx_ptxas(int argc, char **argv)
{
	const char *from = NULL, *to = "elf.o";

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0)
			return fputs(VERSION, stdout) < 0 ? CKX_FAILED : CKX_OK;
		if (takes_value(argv[i]) && i + 1 < argc) {
			i++;
			if (strcmp(argv[i - 1], "-o") == 0 ||
			    strcmp(argv[i - 1], "--output-file") == 0)
				to = argv[i];
		} else if (argv[i][0] != '-') {
			from = argv[i];
		}
	}
	if (from)
		return copy_file(from, to);
	ckx_error("ptxas: no file with PTX is given");
	return CKX_FAILED;
}
