/*
 * command/main.c - `cricket COMMAND ...`: the list of subcommands; see command.h.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command/config/command.h"
#include "command/run/ptxas.h"
#include "util/process/output.h"
#include "util/spelling.h"
#include "util/util.h"

#define SERVER_OPTION "  -s, --server SERVER   a name of `cricket servers`, or an address\n"
#define GPU_OPTIONS                                                                                \
	SERVER_OPTION                                                                              \
	"  -g, --gpus N          use the first N GPUs of the server; with several servers\n"       \
	"                        (a list, srv:NAME, file:/PATH), choose N free GPUs\n"             \
	"  -d, --devices LIST    use these GPUs, as in 0,2; none: no GPU\n"                        \
	"  -m, --mem SIZE        limit the program to this memory on each GPU, as in 20G\n"        \
	"      --sm PART         use this part of each GPU's multiprocessors, as in 25%\n"         \
	"  -w, --wait TIME       wait for a session if the server is full, as in 10m\n"            \
	"  -W, --worker-prefix NAME\n"                                                             \
	"                        start the worker through a command of the policy\n"               \
	"  -n, --nccl WHERE      run NCCL on the servers (workers), in the program\n"              \
	"                        (program), or on the servers if there are several\n"              \
	"                        (auto, the default)\n"

static const struct ckx_command programs[] = {
	{"run", "[OPTION]... [--] PROGRAM [ARGUMENT]... | --from NAME",
	 "Run a program on the GPUs of a server.",
	 GPU_OPTIONS
	 "  -p, --profile FILE    write a timeline of calls, messages and GPU work\n"
	 "  -c, --check           with `-s emu`: report races, uninitialised reads and\n"
	 "                        wrong accesses of kernels; exit status 99 if any\n"
	 "      --from NAME       run a copy of the program of `cricket snapshot NAME`\n"
	 "With `-s emu`, the program has an emulated GPU of its own, and needs no server.\n",
	 ckx_run_any},
	{"snapshot", "NAME [OPTION]... [--] PROGRAM [ARGUMENT]...",
	 "Start a program, and write it and its session into files.",
	 GPU_OPTIONS
	 "      --at WHEN         signal (SIGUSR1 to this command, the default), or when\n"
	 "                        file:PATH exists or http://HOST[:PORT][/PATH] answers\n"
	 "The program ends then; `cricket run --from NAME` continues copies of it.\n",
	 ckx_snapshot},
	{"snapshots", "[rm NAME...]", "List or remove snapshots of programs.", NULL, ckx_snapshots},
	{"env", "[OPTION]...", "Print the variables that `cricket run` sets.",
	 GPU_OPTIONS
	 "  -f, --format FORMAT   sh (default), fish, or plain (NAME=VALUE, for files)\n",
	 ckx_env},
	{"jupyter", "[OPTION]...",
	 "Make a Jupyter kernel whose notebooks use the GPUs of a server.",
	 GPU_OPTIONS
	 "      --name NAME       the kernel's name (default cricket)\n"
	 "      --python PROGRAM  the Python that has ipykernel (default python3)\n"
	 "      --prefix DIR      install below DIR/share/jupyter, as for an environment\n",
	 ckx_jupyter},
	{"cdi", "[OPTION]...", "Write a specification of a device for containers (CDI).",
	 GPU_OPTIONS "      --name NAME       name of the device (default: the server's in the\n"
		     "                        configuration, else all)\n"
		     "      --kind KIND       kind of the device (default cricket/gpu)\n"
		     "      --output FILE     write FILE, as /etc/cdi/cricket.json\n",
	 ckx_cdi},
	{"docker", "[OPTION]... run|create [ARGUMENT]...",
	 "Start a container of Docker on the GPUs.", GPU_OPTIONS, ckx_engine},
	{"podman", "[OPTION]... run|create [ARGUMENT]...",
	 "Start a container of podman on the GPUs.", GPU_OPTIONS, ckx_engine},
	{NULL, NULL, NULL, NULL, NULL},
};

static const struct ckx_command connection[] = {
	{"login", "[OPTION]... [SERVER[#PIN]]",
	 "Store key and token of a server, after a check of the token.",
	 "  -r, --remove          remove the token\n"
	 "  -i, --install[=PREFIX]\n"
	 "                        install the client of the server's release, below\n"
	 "                        ~/.local or PREFIX\n",
	 ckx_login},
	{"check", "[--json] [SERVER]",
	 "Test a server step by step; if one fails, explain what to do.",
	 SERVER_OPTION "  -j, --json            as JSON\n", ckx_check},
	{"put", "SERVER FILE...", "Send files that programs will upload, as models, in advance.",
	 NULL, ckx_put},
	{"store", "[-s SERVER] [list | empty]",
	 "Show or empty what a server keeps of your programs' uploads.", SERVER_OPTION, ckx_store},
	{"servers", "[--json] [--state | --lan] [SERVER]",
	 "List the configured servers, or show the state of servers.",
	 "  -s, --server SERVER   show the state of these servers: names, addresses,\n"
	 "                        a list, srv:NAME or file:/PATH\n"
	 "  -t, --state           show the state of all configured servers\n"
	 "      --lan             list servers that announce themselves on this network\n"
	 "  -j, --json            as JSON\n",
	 ckx_servers},
	{NULL, NULL, NULL, NULL, NULL},
};

static const struct ckx_command sessions[] = {
	{"status", "[--json | --watch] [SERVER]", "List the sessions of a server on this host.",
	 SERVER_OPTION "  -j, --json            as JSON\n"
		       "  -w, --watch           repeat every second, with rates\n",
	 ckx_status},
	{"top", "[SERVER]", "Show the sessions of a server on this host live.", SERVER_OPTION,
	 ckx_top},
	{"suspend", "[-s SERVER] SESSION", "Move a session's GPU memory into host memory.",
	 SERVER_OPTION, ckx_session},
	{"park", "[-s SERVER] SESSION",
	 "Suspend a session, but keep its contexts: it resumes faster.", SERVER_OPTION,
	 ckx_session},
	{"resume", "[-s SERVER] SESSION [DEVICE]",
	 "Move a suspended session back to its GPU, or to another one.", SERVER_OPTION,
	 ckx_session},
	{"end", "[-s SERVER] SESSION", "End a session: its program's CUDA calls fail.",
	 SERVER_OPTION, ckx_session},
	{"checkpoint", "[-s SERVER] [-e TIME] SESSION DIR [ADDRESS]", "Write a session into files.",
	 SERVER_OPTION
	 "  -e, --every TIME      let it continue, and write what has changed again\n",
	 ckx_session},
	{"restore", "[-s SERVER] DIR", "Continue a session from files.", SERVER_OPTION,
	 ckx_session},
	{"reap", "[-s SERVER]", "End the sessions of programs of this machine that have ended.",
	 SERVER_OPTION, ckx_ended_programs},
	{"move", "[-s SERVER] SESSION ADDRESS [VIA]", "Move a session to another server, over ssh.",
	 SERVER_OPTION, ckx_move},
	{NULL, NULL, NULL, NULL, NULL},
};

static const struct ckx_command service[] = {
	{"token", "[OPTION]... add NAME | list | revoke NAME",
	 "Make, list and revoke the tokens of a server on this host.",
	 "  -e, --expires DATE    add: valid until the end of this day, as in 2027-01-31\n"
	 "  -f, --file FILE       the server's list (default: that of the server's setup)\n",
	 ckx_token},
	{"drain", "[-s SERVER] [TIME]", "Let a server stop when its sessions have ended.",
	 SERVER_OPTION, ckx_session},
	{"metrics", "[--identities] [SERVER]",
	 "Print the state of a server on this host, for Prometheus.",
	 SERVER_OPTION "  -i, --identities      include sessions and memory of each identity\n",
	 ckx_metrics},
	{NULL, NULL, NULL, NULL, NULL},
};

static const struct ckx_command files[] = {
	{"trace", "FILE", "Convert a file of CRICKET_TRACE for Perfetto.", NULL, ckx_trace},
	{NULL, NULL, NULL, NULL, NULL},
};

static const struct {
	const char *title;
	const struct ckx_command *commands;
} groups[] = {
	{"Programs on the GPUs of a server", programs},
	{"Connecting to a server", connection},
	{"Sessions of a server on this host", sessions},
	{"The service", service},
	{"Files", files},
};

/* The command called @name, or NULL. */
static const struct ckx_command *find_command(const char *name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(groups); i++) {
		for (const struct ckx_command *c = groups[i].commands; c->name; c++) {
			if (strcmp(c->name, name) == 0)
				return c;
		}
	}
	return NULL;
}

/* The command that somebody who wrote @name may have meant, or NULL. */
static const struct ckx_command *find_nearest_command(const char *name)
{
	const struct ckx_command *best = NULL;
	size_t least = strlen(name) > 4 ? CK_SPELLING_NEAR + 1 : CK_SPELLING_NEAR;

	for (size_t i = 0; i < CK_ARRAY_SIZE(groups); i++) {
		for (const struct ckx_command *c = groups[i].commands; c->name; c++) {
			size_t distance = ck_spelling_distance(name, c->name);

			if (distance < least) {
				least = distance;
				best = c;
			}
		}
	}
	return best;
}

static int reject_command(const char *name)
{
	const struct ckx_command *meant = find_nearest_command(name);

	if (name[0] == '-')
		ckx_error("options come behind a command, as in `cricket run %s ...`; "
			  "`cricket --help` lists all",
			  name);
	else if (meant)
		ckx_error("there is no command %s; did you mean %s? `cricket --help` lists all",
			  name, meant->name);
	else
		ckx_error("there is no command %s; `cricket --help` lists all", name);
	return CKX_USAGE;
}

static int help_all(void)
{
	printf("Usage: cricket COMMAND [ARGUMENT]...\n"
	       "Use the GPUs of another machine.\n");
	for (size_t i = 0; i < CK_ARRAY_SIZE(groups); i++) {
		printf("\n%s:\n", groups[i].title);
		for (const struct ckx_command *c = groups[i].commands; c->name; c++)
			printf("  %-11s %s\n", c->name, c->purpose);
	}
	printf("\nSee `cricket help COMMAND` and cricket(1) for details.\n");
	return CKX_OK;
}

static int show_help(const char *name)
{
	const struct ckx_command *c = name ? find_command(name) : NULL;

	return !name ? help_all() : c ? ckx_help(c) : reject_command(name);
}

static bool word_matches(const char *word, const char *full, const char *letter)
{
	return word && (strcmp(word, full) == 0 || strcmp(word, letter) == 0);
}

/* Is --help anywhere among the @words of a command, none of which are those of a program? */
static bool asks_for_help(const struct ckx_command *c, char *const *words)
{
	static const char *const runs[] = {"run", "snapshot", "docker", "podman"};

	for (size_t i = 0; i < CK_ARRAY_SIZE(runs); i++) {
		if (strcmp(c->name, runs[i]) == 0)
			return false;
	}
	while (*words && strcmp(*words, "--") != 0 && strcmp(*words, "--help") != 0)
		words++;
	return *words && strcmp(*words, "--help") == 0;
}

static int run_command(int argc, char **argv)
{
	const struct ckx_command *c;
	char own[32];

	if (argc < 2)
		return help_all(), CKX_USAGE;
	if (word_matches(argv[1], "--help", "-h"))
		return help_all();
	if (strcmp(argv[1], "help") == 0)
		return show_help(argv[2]);
	if (word_matches(argv[1], "--version", "-V")) {
		printf("cricket %s\n", CK_RELEASE);
		return CKX_OK;
	}
	c = find_command(argv[1]);
	if (!c)
		return reject_command(argv[1]);
	if (word_matches(argv[2], "--help", "-h") || asks_for_help(c, argv + 2))
		return ckx_help(c);
	snprintf(own, sizeof(own), "cricket: %s", c->name); /* getopt's lines begin with it */
	argv[1] = own;
	return c->run(c, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status;

	ck_output_begin();
	status = ckx_ptxas_called(argv[0]) ? ckx_ptxas(argc, argv) : run_command(argc, argv);
	return ck_output_end("cricket") || status != CKX_OK ? status : CKX_FAILED;
}
