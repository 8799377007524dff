/*
 * tests/fuzz/fuzz_rpc_pipe.c - a pipe in shared memory whose other end writes anything into the
 * words that both share: an end reads and writes its own memory only, and reports what cannot be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/pipe.h"
#include "tests/fuzz/standalone.h"

#define SIZE 4096

/* Mapped twice in a row, with nothing before and behind. */
static unsigned char *map_ring(void)
{
	unsigned char *at = mmap(NULL, 4 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("ring", MFD_CLOEXEC);

	CK_FUZZ_CHECK(at != MAP_FAILED && fd >= 0 && ftruncate(fd, SIZE) == 0);
	for (int i = 1; i <= 2; i++)
		CK_FUZZ_CHECK(mmap(at + i * SIZE, SIZE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	close(fd);
	return at + SIZE;
}

/* As much as there is, or as the input wants. */
static void use(struct ck_pipe *pipe, bool reads, size_t wanted)
{
	static unsigned char bytes[SIZE];
	long n = reads ? ck_pipe_filled(pipe) : ck_pipe_room(pipe);

	CK_FUZZ_CHECK(n == -EPROTO || (n >= 0 && n <= SIZE));
	if (n <= 0)
		return;
	wanted = wanted < (size_t)n ? wanted : (size_t)n;
	if (reads) {
		ck_pipe_take(pipe, bytes, wanted);
	} else {
		ck_pipe_put(pipe, bytes, wanted);
		ck_pipe_publish(pipe);
	}
}

/* What the other end may do at any time. */
static void disturb(struct ck_pipe_control *control, uint8_t which, uint64_t value)
{
	switch (which & 7) {
	case 0:
		control->written = value;
		break;
	case 1:
		control->taken = value;
		break;
	case 2:
		control->reader_sleeps = (uint32_t)value;
		break;
	case 3:
		control->writer_sleeps = (uint32_t)value;
		break;
	case 4: /* small steps, which an honest end takes */
		control->written += value % (SIZE + 1);
		break;
	default:
		control->taken += value % (SIZE + 1);
	}
}

/* Whether the end reads; then steps of ten bytes: what happens, a size, a value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char *ring;
	static struct ck_pipe_control control;
	struct ck_pipe pipe;
	uint64_t value;
	bool reads;

	if (!ring)
		ring = map_ring();
	if (size == 0)
		return 0;
	memset(&control, 0, sizeof(control));
	pipe = (struct ck_pipe){.control = &control, .data = ring, .size = SIZE};
	reads = data[0] & 1;
	for (data++, size--; size >= 10; data += 10, size -= 10) {
		memcpy(&value, data + 2, sizeof(value));
		if (data[0] & 8)
			disturb(&control, data[0], value);
		use(&pipe, reads, (size_t)data[1] * 17);
		ck_pipe_holds(&pipe);
	}
	return 0;
}
