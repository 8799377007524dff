/*
 * tests/unit/test_client_program.c - what a program is called, by its command line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/link/program.h"
#include "util/util.h"

/* The name by a command line whose arguments are divided by "|". */
static const char *name_of(const char *line, const char *notebook)
{
	static char out[CKC_PROGRAM];
	size_t size = strlen(line) + 1;
	char *arguments = malloc(size);
	int named;

	memcpy(arguments, line, size);
	for (char *c = arguments; *c; c++)
		*c = *c == '|' ? '\0' : *c;
	named = ckc_program_of(arguments, size, notebook, out);
	free(arguments);
	assert_int_equal(named, out[0] != '\0');
	return out;
}

static const struct {
	const char *line, *name;
} cases[] = {
	{"python3|train.py|--lr|0.1", "train.py"},
	{"/venv/bin/python3.12|-u|/home/alice/models/train.py|secret", "train.py"},
	{"python|-W|ignore|-X|dev|-Ximporttime|-bE|train.py", "train.py"},
	{"python3|--check-hash-based-pycs|always|a.py", "a.py"},
	{"python3|-m|torch.distributed.run|train.py", "python -m torch.distributed.run"},
	{"python3|-umtorch.distributed.run|train.py", "python -m torch.distributed.run"},
	{"python3|-Im|mod|secret", "python -m mod"},
	{"python3|-m|cProfile|-o|out|-s|time|train.py|x", "train.py"},
	{"python3|-m|cProfile|--sort=time|-m|mod|x", "python -m mod"},
	{"python3|-um|pdb|-c|continue|models/train.py|secret", "train.py"},
	{"python3|-m|trace|--count|-C|folder|train.py", "train.py"},
	{"python3|-m|debugpy|--listen|0:5678|--wait-for-client|train.py", "train.py"},
	{"python3|-m|debugpy|-c|secret", "python -m debugpy"},
	{"python3|-m|cProfile", "python -m cProfile"},
	{"python3|-m|profiler|secret", "python -m profiler"},
	{"python3|/venv/bin/ipython3|--pdb|train.py|x", "train.py"},
	{"python3|/venv/bin/ipython", "ipython"},
	{"python3|/venv/bin/kernprof|-l|-o|out|train.py", "train.py"},
	{"perl|ipython|secret", "ipython"},
	{"python3|-c|import torch|secret", ""},
	{"python3|-Wignore|-uc|code|train.py", ""},
	{"python3|-", ""},
	{"python3", ""},
	{"python3|-m", ""},
	{"python3|", ""},
	{"python3.13t|package/|x", "package"},
	{"python3|//", ""},
	{"python3|-u|package/__main__.py", "__main__.py"}, /* there is no such folder */
	{"python3|/usr/lib/__main__.py|x", "lib"},
	{"python3|/usr/lib/.", "lib"},
	{"python3|/usr/lib/../lib/", "lib"},
	{"python3|/usr/lib/..", "usr"},
	{"python3|/.", "."},
	{"pypy3|a.py", "a.py"},
	{"python3-config|a.py", ""},
	{"pythonista|a.py", ""},
	{"python3|/usr/local/bin/torchrun|--nproc|2|train.py", "torchrun"},
	{"perl|-w|-I|lib|-Mstrict|run.pl|x", "run.pl"},
	{"perl5.36.0|-lane|print $token", ""},
	{"perl|-i.bak|-0777|run.pl", "run.pl"},
	{"ruby|-I|lib|-r|json|-W1|run.rb", "run.rb"},
	{"ruby3.1|-e|puts 1|secret", ""},
	{"node|--require|./hook.js|--max-old-space-size=4096|server.js|x", "server.js"},
	{"node|-pe|1+1", ""},
	{"node|--eval|1|secret", ""},
	{"node|--unknown|secret", ""},
	{"node|--unknown|secret|/proc/self/stat", "stat"},
	{"java|-Xmx4g|-Dpassword=x|-cp|a.jar:b.jar|com.example.Main|secret", "com.example.Main"},
	{"/usr/lib/jvm/bin/java|-ea|-jar|/opt/app/app.jar|secret", "app.jar"},
	{"java|--module|mod/com.example.Main|x", "java -m com.example.Main"},
	{"bash|-eu|-o|pipefail|run.sh|x", "run.sh"},
	{"bash|-c|secret|x", ""},
	{"-bash", ""},
	{"sh|./configure", "configure"},
	{"R|--no-echo|--no-restore|--file=model.R|--args|secret", "model.R"},
	{"R|--no-save|secret", ""},
	{"Rscript|--vanilla|model.R", "model.R"},
	{"julia|--project=.|-t|4|fit.jl", "fit.jl"},
	{"php|-d|memory_limit=1G|-f|a.php", "a.php"},
	{"lua5.4|-l|mod|a.lua", "a.lua"},
	{"dotnet|app.dll|x", "app.dll"},
	{"python3|--|-odd.py", "-odd.py"},
	{"vector_add|train.py", ""},
	{"python3|a\033[31m\xc2\x9b.py", "a?[31m?.py"},
};

static void a_program_is_called_by_what_its_interpreter_runs(void **state)
{
	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++)
		assert_string_equal(name_of(cases[i].line, NULL), cases[i].name);
}

static void a_kernel_is_called_by_its_notebook(void **state)
{
	static const char kernel[] = "python3|-m|ipykernel_launcher|-f|/run/user/1/kernel-3f.json";

	(void)state;
	assert_string_equal(name_of(kernel, "/home/alice/analysis.ipynb"), "analysis.ipynb");
	assert_string_equal(name_of(kernel, NULL), "python -m ipykernel_launcher");
	assert_string_equal(name_of(kernel, ""), "python -m ipykernel_launcher");
	/* a child of a kernel */
	assert_string_equal(name_of("python3|train.py", "/home/alice/analysis.ipynb"), "train.py");
	assert_string_equal(name_of("julia|kernel.jl|/x/kernel-1.json", "fit.ipynb"), "fit.ipynb");
}

static void a_name_has_a_bound(void **state)
{
	char line[1000] = "python3|";

	(void)state;
	memset(line + strlen(line), 'x', 600);
	assert_int_equal(strlen(name_of(line, NULL)), CKC_PROGRAM - 1);
	strcpy(line, "python3|-m|");
	memset(line + strlen(line), 'y', 600);
	assert_int_equal(strlen(name_of(line, NULL)), CKC_PROGRAM - 1);
}

static void any_bytes_are_read_safely(void **state)
{
	static const char pieces[] =
		"python3\0-\0--\0-m\0-X\0-cW\0x\0/\0//\0=\0--file=\0\0-jar\0java\0R\0+\0";
	char line[32], out[CKC_PROGRAM];

	(void)state;
	srand(7);
	for (int i = 0; i < 200000; i++) {
		size_t size = (size_t)rand() % sizeof(line);
		char *exact = malloc(size + 1);

		for (size_t k = 0; k < size; k++)
			exact[k] = pieces[(size_t)rand() % sizeof(pieces)];
		memcpy(exact, "python3", size < 7 ? size : 7);
		exact[size] = '\0'; /* as read_arguments leaves it */
		ckc_program_of(exact, size, NULL, out);
		assert_true(strlen(out) < CKC_PROGRAM);
		free(exact);
	}
}

static void without_an_interpreter_the_program_names_itself(void **state)
{
	char out[CKC_PROGRAM];

	(void)state;
	ckc_program_name(out);
	assert_string_equal(out, "test_client_program");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_is_called_by_what_its_interpreter_runs),
		cmocka_unit_test(a_kernel_is_called_by_its_notebook),
		cmocka_unit_test(a_name_has_a_bound),
		cmocka_unit_test(any_bytes_are_read_safely),
		cmocka_unit_test(without_an_interpreter_the_program_names_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
