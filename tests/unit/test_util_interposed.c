/*
 * tests/unit/test_util_interposed.c - system calls on memory that the kernel cannot access
 * (util/process/interposed_code.def): a file that is mapped twice, for the program without access.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE ((size_t)6 << 20)

static char *theirs, *alias; /* of the same memory */
static bool lost;
static int ends[2];

static void *behind_us(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static bool tracked(void)
{
	return true;
}

static bool held(uintptr_t at, size_t size)
{
	(void)size;
	return at >= (uintptr_t)theirs && at < (uintptr_t)theirs + SIZE;
}

static const void *source(uintptr_t at, size_t size)
{
	(void)size;
	return alias + (at - (uintptr_t)theirs);
}

#define SOURCE_STAYS true
#define get(at, bytes, size) false

static bool put(uintptr_t at, const void *bytes, size_t size)
{
	assert_true(held(at, size) && at + size <= (uintptr_t)theirs + SIZE);
	if (!lost)
		memcpy(alias + (at - (uintptr_t)theirs), bytes, size);
	return !lost;
}

static void need(uintptr_t at, size_t size, bool write)
{
	(void)at, (void)size, (void)write;
}

#define EXPORT
#include "util/process/interposed_code.def"

static int map_twice(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	(void)state;
	if (fd < 0 || ftruncate(fd, (off_t)SIZE) < 0)
		return -1;
	theirs = mmap(NULL, SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	alias = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return theirs == MAP_FAILED || alias == MAP_FAILED;
}

static int connect_pair(void **state)
{
	(void)state;
	lost = false;
	memset(alias, '.', SIZE);
	return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
}

static int close_pair(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void send_text(const char *text)
{
	assert_int_equal(send(ends[1], text, strlen(text), 0), strlen(text));
}

static void assert_memory(size_t at, const char *text)
{
	assert_memory_equal(alias + at, text, strlen(text));
}

/* --- one buffer */

static void a_message_is_stored_and_nothing_behind_it(void **state)
{
	(void)state;
	send_text("message");
	assert_int_equal(recv(ends[0], theirs + 5, 100, 0), 7);
	assert_memory(0, ".....message..");
}

static void a_longer_message_is_cut_and_its_length_reported(void **state)
{
	(void)state;
	send_text("message");
	assert_int_equal(recv(ends[0], theirs, 3, MSG_TRUNC), 7);
	assert_memory(0, "mes...");
}

static void an_error_is_the_calls(void **state)
{
	(void)state;
	assert_int_equal(recv(ends[0], theirs, 3, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(read(-1, theirs, 3), -1);
	assert_int_equal(errno, EBADF);
}

static void bytes_that_cannot_be_stored_are_an_error(void **state)
{
	(void)state;
	lost = true;
	send_text("message");
	assert_int_equal(read(ends[0], theirs, 10), -1);
	assert_int_equal(errno, EFAULT);
}

static void the_kernel_reads_what_the_program_cannot(void **state)
{
	char got[8] = "";

	(void)state;
	memcpy(alias + 10, "message", 7);
	assert_int_equal(write(ends[0], theirs + 10, 7), 7);
	assert_int_equal(recv(ends[1], got, 8, 0), 7);
	assert_string_equal(got, "message");
}

static void names_are_stored_too(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0cricket interposed"};
	socklen_t length = sizeof(name), *their_length = (socklen_t *)(void *)theirs;

	(void)state;
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "cricket %d", (int)getpid());
	assert_int_equal(bind(ends[1], (struct sockaddr *)&name, length), 0);
	memcpy(alias, &length, sizeof(length));
	send_text("message");
	assert_int_equal(recvfrom(ends[0], theirs + 1000, 100, 0,
				  (struct sockaddr *)(void *)(theirs + 104), their_length),
			 7);
	assert_memory(1000, "message.");
	assert_memory_equal(alias + 104, &name, sizeof(name));
	assert_memory_equal(alias, &length, sizeof(length));
}

/* --- several */

static void parts_may_be_of_both_kinds(void **state)
{
	char plain[4] = "";
	struct iovec iov[] = {{theirs, 2}, {plain, 3}, {NULL, 0}, {theirs + 10, 9}};

	(void)state;
	memcpy(alias + 104, iov, sizeof(iov));
	send_text("message");
	assert_int_equal(readv(ends[0], iov, 4), 7);
	assert_string_equal(plain, "ssa");
	assert_memory(0, "me........ge..");
	assert_int_equal(writev(ends[0], (struct iovec *)(void *)(theirs + 104), 4), 14);
	assert_int_equal(recv(ends[1], plain, 3, MSG_TRUNC), 14);
	assert_memory_equal(plain, "mes", 3);
}

static void a_header_in_the_memory_is_changed(void **state)
{
	struct msghdr msg = {.msg_iovlen = 2};
	struct iovec iov[] = {{theirs, 2}, {theirs + 10, 3}};

	(void)state;
	msg.msg_iov = memcpy(alias + 200, iov, sizeof(iov));
	msg.msg_iov = (struct iovec *)(void *)(theirs + 200);
	memcpy(alias + 104, &msg, sizeof(msg));
	send_text("message");
	assert_int_equal(recvmsg(ends[0], (struct msghdr *)(void *)(theirs + 104), 0), 5);
	assert_memory(0, "me........ssa.");
	memcpy(&msg, alias + 104, sizeof(msg));
	assert_int_equal(msg.msg_flags, MSG_TRUNC);
	assert_ptr_equal(msg.msg_iov, theirs + 200);
}

static void several_messages_are_received_with_their_lengths(void **state)
{
	struct iovec iov[] = {{theirs, 10}, {theirs + 10, 10}, {theirs + 20, 10}};
	struct mmsghdr msgs[3] = {0};

	(void)state;
	for (int i = 0; i < 3; i++)
		msgs[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	send_text("one");
	send_text("second");
	assert_int_equal(recvmmsg(ends[0], msgs, 3, MSG_DONTWAIT, NULL), 2);
	assert_memory(0, "one.......second......");
	assert_int_equal(msgs[0].msg_len, 3);
	assert_int_equal(msgs[1].msg_len, 6);
	assert_int_equal(sendmmsg(ends[0], msgs, 2, 0), 2);
	assert_int_equal(msgs[1].msg_len, 10);
}

static void descriptors_arrive(void **state)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec byte = {(char[]){"b"}, 1}, into = {theirs, 10};
	struct msghdr msg = {NULL, 0, &byte, 1, &control, sizeof(control), 0};
	int fd;

	(void)state;
	memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(int));
	assert_int_equal(sendmsg(ends[1], &msg, 0), 1);
	msg = (struct msghdr){NULL, 0, &into, 1, theirs + 64, sizeof(control), 0};
	assert_int_equal(recvmsg(ends[0], &msg, 0), 1);
	memcpy(&control, alias + 64, sizeof(control));
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(int));
	assert_int_equal(close(fd), 0);
	assert_memory(0, "b.");
}

/* --- files, in pieces */

static char letter_of(size_t i)
{
	return (char)('a' + (i / 4096 + i) % 26);
}

static FILE *file_of(size_t size)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	for (size_t i = 0; i < size; i++)
		putc(letter_of(i), file);
	assert_int_equal(fflush(file), 0);
	rewind(file);
	return file;
}

static void assert_letters(size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (alias[i] != letter_of(i))
			fail_msg("byte %zu", i);
	}
	if (size < SIZE)
		assert_int_equal(alias[size], '.');
	memset(alias, '.', SIZE);
}

static void a_large_file_is_read_as_a_whole(void **state)
{
	size_t size = SIZE - 4097;
	struct iovec iov[] = {{theirs, 3000}, {theirs + 3000, SIZE - 3000}};
	FILE *file = file_of(size);

	(void)state;
	assert_int_equal(read(fileno(file), theirs, SIZE), size);
	assert_letters(size);
	assert_int_equal(pread(fileno(file), theirs, SIZE - 4098, 0), SIZE - 4098);
	assert_letters(SIZE - 4098);
	assert_int_equal(preadv(fileno(file), iov, 2, 0), size);
	assert_letters(size);
	assert_int_equal(lseek(fileno(file), 0, SEEK_SET), 0);
	assert_int_equal(preadv2(fileno(file), iov, 2, -1, 0), size);
	assert_letters(size);
	rewind(file);
	assert_int_equal(fread(theirs, 10, SIZE / 10, file), size / 10);
	assert_letters(size);
	fclose(file);
}

/* --- a thread that ends in the call */

static void *read_stream(void *stream)
{
	return (void *)fread(theirs, 1, 100, stream);
}

static void a_cancelled_read_leaves_the_stream(void **state)
{
	pthread_t thread;
	void *result;
	FILE *file;
	int tube[2];

	(void)state;
#ifdef __SANITIZE_THREAD__ /* counts a thread that is cancelled in a read as a fault */
	skip();
#endif
	assert_int_equal(pipe(tube), 0);
	file = fdopen(tube[0], "r");
	assert_int_equal(pthread_create(&thread, NULL, read_stream, file), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(ftrylockfile(file), 0);
	funlockfile(file);
	fclose(file);
	close(tube[1]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_pair, close_pair)
	const struct CMUnitTest tests[] = {
		TEST(a_message_is_stored_and_nothing_behind_it),
		TEST(a_longer_message_is_cut_and_its_length_reported),
		TEST(an_error_is_the_calls),
		TEST(bytes_that_cannot_be_stored_are_an_error),
		TEST(the_kernel_reads_what_the_program_cannot),
		TEST(names_are_stored_too),
		TEST(parts_may_be_of_both_kinds),
		TEST(a_header_in_the_memory_is_changed),
		TEST(several_messages_are_received_with_their_lengths),
		TEST(descriptors_arrive),
		TEST(a_large_file_is_read_as_a_whole),
		TEST(a_cancelled_read_leaves_the_stream),
	};

	return cmocka_run_group_tests_name("interposed calls", tests, map_twice, NULL);
}
