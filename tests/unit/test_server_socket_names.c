/*
 * tests/unit/test_server_socket_names.c - names of abstract sockets in CRIU's images.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/checkpoint/socket_names.h"

#define IMAGE 1000
#define TAG 0x5a			   /* of the field with a name */
#define FOLDER "/tmp/cricket-names-XXXXXX" /* of mkdtemp */

static char folder[] = FOLDER, file[64];
static unsigned char image[IMAGE], now[IMAGE];
static struct cks_why why;

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(file, sizeof(file), "%s/files.img", folder);
	memset(image, 7, sizeof(image));
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(file);
	rmdir(folder);
	strcpy(folder, FOLDER);
	return 0;
}

/* An abstract name of @size bytes, which it has for itself. */
static void make_name(char *name, size_t size, const char *text)
{
	memset(name, 0, size);
	snprintf(name + 1, size - 1, "%s-%d", text, (int)getpid());
}

static int bind_name(const char *name, size_t size)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, name, size);
	assert_int_equal(bind(fd, (struct sockaddr *)&at,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
			 0);
	return fd;
}

static void place(size_t at, const char *name, size_t size)
{
	image[at - 2] = TAG;
	image[at - 1] = (unsigned char)size;
	memcpy(image + at, name, size);
}

static int change(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), ret;

	assert_int_equal(write(fd, image, sizeof(image)), sizeof(image));
	ret = cks_socket_names_free(folder, &why);
	assert_int_equal(pread(fd, now, sizeof(now), 0), sizeof(now));
	close(fd);
	return ret;
}

static void names_in_use_get_other_digits(void **state)
{
	char used[40], free[40], longer[41];
	int fd;

	(void)state;
	make_name(used, sizeof(used), "cricket-test-used-4026531836");
	make_name(free, sizeof(free), "cricket-test-free-4026531836");
	make_name(longer, sizeof(longer), "cricket-test-used-4026531836");
	fd = bind_name(used, sizeof(used));
	place(100, used, sizeof(used));
	place(200, free, sizeof(free));
	place(300, longer, sizeof(longer));
	place(IMAGE - sizeof(used), used, sizeof(used)); /* the last bytes */
	assert_int_equal(change(), 0);
	close(fd);
	assert_memory_not_equal(now + 100, used, sizeof(used));
	assert_memory_not_equal(now + IMAGE - sizeof(used), used, sizeof(used));
	close(bind_name((char *)now + 100, sizeof(used)));
	for (size_t i = 0; i < IMAGE; i++) {
		if (now[i] != image[i])
			assert_true(image[i] >= '0' && image[i] <= '9' && now[i] >= '0' &&
				    now[i] <= '9');
	}
	assert_memory_equal(now + 150, image + 150, 400);
}

static void a_name_without_digits_is_an_error(void **state)
{
	const char name[] = "\0cricket-test-name-of-words";
	int fd = bind_name(name, sizeof(name) - 1);

	(void)state;
	place(500, name, sizeof(name) - 1);
	assert_int_equal(change(), -EADDRINUSE);
	assert_non_null(strstr(why.text, "sockets"));
	close(fd);
}

/* A user binds a name that is equal to a part of another entry: its digits are other fields. */
static void other_bytes_of_the_image_are_not_a_name(void **state)
{
	static const char entry[] = "\x08\0\x10\0\x18\0 \0(\0002\x1f/usr/lib/x86_64";
	const char *name = entry + 3;
	int fd = bind_name(name, entry[2]);

	(void)state;
	memcpy(image + 300, entry, sizeof(entry));
	assert_int_equal(change(), 0);
	assert_memory_equal(now, image, IMAGE);
	close(fd);
}

static void images_that_are_short_or_missing_are_no_danger(void **state)
{
	char used[40];
	int fd;

	(void)state;
	assert_int_equal(cks_socket_names_free(folder, &why), -ENOENT);
	close(open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	assert_int_equal(cks_socket_names_free(folder, &why), 0);
	make_name(used, sizeof(used), "cricket-test-used-4026531836");
	fd = bind_name(used, sizeof(used));
	image[IMAGE - 12] = TAG;
	image[IMAGE - 11] = sizeof(used); /* more than the image has */
	memcpy(image + IMAGE - 10, used, 10);
	assert_int_equal(change(), 0);
	assert_memory_equal(now, image, IMAGE);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_in_use_get_other_digits),
		TEST(a_name_without_digits_is_an_error),
		TEST(other_bytes_of_the_image_are_not_a_name),
		TEST(images_that_are_short_or_missing_are_no_danger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
