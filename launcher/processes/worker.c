/*
 * launcher/processes/worker.c - start workers, and the main loop of a worker; see worker.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/compile/cache.h"
#include "launcher/launch/run.h"
#include "launcher/processes/block.h"
#include "launcher/processes/worker.h"
#include "launcher/text/frame.h"
#include "util/log.h"
#include "util/spin.h"

CK_LOG_DEFINE("launcher");

#define WORKER_SOCK 3
#define BLOCKS_MAX 64 /* blocks of a session that a worker keeps mapped */

/* A worker's state. */
struct work {
	struct ckl_runner runner;
	struct ckl_fail start; /* why there is no driver, if so */
	struct ckl_cache *cache;
	/*
	 * A block is mapped twice: a reply can outgrow its map, which then moves, while the request
	 * is still read.
	 */
	struct ckl_block in[BLOCKS_MAX], out[BLOCKS_MAX];
};

/*
 * A reply takes the place of its message, which is used up when the first byte of a result is
 * written: pages that are there are faster than new ones. An error does, too.
 */
struct block_out {
	struct ckl_out out;
	struct ckl_block *block;
	size_t at;
};

static int block_grow(struct ckl_out *out, size_t capacity)
{
	struct block_out *own = container_of(out, struct block_out, out);
	int ret = ckl_block_map(own->block, own->at + capacity, 1);

	if (ret < 0)
		return ret;
	out->base = own->block->map + own->at;
	out->capacity = own->block->capacity - own->at;
	return 0;
}

/* Both maps of the ticket's block, as large as the session has it. -errno. */
static int block_open(struct work *work, const struct ckl_ticket *ticket, int fd)
{
	struct ckl_block *in = &work->in[ticket->number % BLOCKS_MAX];
	struct ckl_block *out = &work->out[ticket->number % BLOCKS_MAX];
	int ret;

	if (fd >= 0) {
		ckl_block_free(in);
		ckl_block_free(out);
		*in = (struct ckl_block){.number = ticket->number, .fd = fd};
		*out = (struct ckl_block){.number = ticket->number, .fd = dup(fd)};
	}
	ret = ckl_block_map(in, ticket->capacity, 0);
	return ret < 0 ? ret : ckl_block_map(out, ticket->capacity, 0);
}

/* Carry out the ticket's message; the ticket then tells the reply. */
static void carry_out(struct work *work, struct ckl_ticket *ticket)
{
	size_t at = CK_BLOCK_ALIGN(ticket->defaults);
	const char *in = work->in[ticket->number % BLOCKS_MAX].map;
	struct block_out own = {.out = {.grow = block_grow},
				.block = &work->out[ticket->number % BLOCKS_MAX],
				.at = at};
	struct ckl_fail fail = {0};
	struct ckl_request request = {0};
	bool frame = (unsigned char)in[at] == CK_FRAME_FIRST;
	json_t *defaults = NULL;

	if (ticket->defaults)
		defaults = json_loadb(in, ticket->defaults, 0, NULL);
	if (work->start.exit)
		fail = work->start;
	else
		ckl_request_read(&request, in + at, ticket->message, NULL, defaults, &fail);
	ticket->exit = ckl_run(&work->runner, &request, frame, ticket->id, &own.out, &fail);
	ticket->reply_at = own.at;
	ticket->reply = own.out.size;
	ticket->capacity = own.block->capacity;
	ticket->lost = work->runner.lost;
	if (!work->start.exit)
		ckl_fail_clear(&fail);
	ckl_request_free(&request);
	json_decref(defaults);
}

/* Wait for a ticket or the socket's end: spin for a while, then sleep. */
static void await_ticket(struct ck_spin *spin)
{
	struct ck_spin_turn turn = ck_spin_begin(spin);
	struct pollfd p = {.fd = WORKER_SOCK, .events = POLLIN};

	while (poll(&p, 1, 0) == 0 && ck_spin_again(&turn))
		;
	poll(&p, 1, -1);
	ck_spin_end(&turn);
}

static int serve_tickets(struct work *work)
{
	struct ckl_ticket ticket = {.what = CK_TICKET_READY, .exit = work->start.exit};
	struct ck_spin spin;
	int fd, ret;

	ck_spin_init(&spin, CK_SESSION_SPIN_US);
	ret = ckl_ticket_send(WORKER_SOCK, &ticket, -1);
	while (ret == 0 && !work->runner.lost) {
		await_ticket(&spin);
		ret = ckl_ticket_receive(WORKER_SOCK, &ticket, &fd);
		if (ret < 0)
			return ret;
		ret = block_open(work, &ticket, fd);
		if (ret < 0)
			return ret;
		carry_out(work, &ticket);
		ticket.what = CK_TICKET_DONE;
		ret = ckl_ticket_send(WORKER_SOCK, &ticket, -1);
	}
	return ret;
}

/*
 * Keep only the socket of the session's descriptors. Output of a driver or a kernel goes to stderr.
 */
static void leave_session(int sock, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "gpu_worker");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (sock == WORKER_SOCK)
		fcntl(sock, F_SETFD, FD_CLOEXEC);
	else
		dup3(sock, WORKER_SOCK, O_CLOEXEC);
	close_range(WORKER_SOCK + 1, ~0U, 0);
}

static void work_for(const struct ckl_options *options)
{
	struct work *work = calloc(1, sizeof(*work));

	if (!work)
		_exit(1);
	for (size_t i = 0; i < BLOCKS_MAX; i++)
		work->in[i].fd = work->out[i].fd = -1;
	work->cache = ckl_cache_open(options->cache_dir, options->cache_size);
	work->runner.modules.driver = &work->runner.driver;
	work->runner.modules.cache = work->cache;
	work->runner.modules.compiler = options->compiler;
	work->runner.kept = ck_map_create();
	if (!work->runner.kept)
		_exit(1);
	ckl_driver_start(&work->runner.driver, options->driver, options->device, &work->start);
	serve_tickets(work);
	/* The driver's own handlers: a remote session ends in good order. */
	exit(0);
}

int ckl_worker_start(struct ckl_worker *worker, const struct ckl_options *options)
{
	pid_t parent = getpid(), pid;
	int pair[2], ret;

	*worker = (struct ckl_worker){.sock = -1, .pidfd = -1};
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		leave_session(pair[1], parent);
		work_for(options);
	}
	ret = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (ret < 0) {
		ck_err("fork: %m");
		close(pair[0]);
		return ret;
	}
	worker->sock = pair[0];
	worker->pid = pid;
	worker->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

void ckl_worker_end(struct ckl_worker *worker)
{
	if (worker->pidfd >= 0) {
		syscall(SYS_pidfd_send_signal, worker->pidfd, SIGKILL, NULL, 0);
		close(worker->pidfd);
	} else if (worker->sock >= 0) {
		kill(worker->pid, SIGKILL);
	}
	if (worker->sock >= 0)
		close(worker->sock);
	*worker = (struct ckl_worker){.sock = -1, .pidfd = -1};
}
