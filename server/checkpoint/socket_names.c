/*
 * server/checkpoint/socket_names.c - see socket_names.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/checkpoint/socket_names.h"

#define CK_FILES_IMAGE "files.img" /* of CRIU 3.13 and later: all open files */
#define CK_NAME_TAG 0x5a	   /* field 11 of unix_sk_entry, of bytes */
#define CK_TRIES 100
#define CK_NAME sizeof(((struct sockaddr_un *)NULL)->sun_path)

/* As the kernel prints it: each zero byte is an @, so also the first one. */
struct name {
	char text[CK_NAME + 1];
};

struct names {
	struct name *list;
	size_t count;
};

/* The name at the end of a line of /proc/net/unix, if it is abstract. */
static bool read_name(char *line, struct name *name)
{
	char *at = strstr(line, " @");
	size_t length;

	if (!at)
		return false;
	length = strcspn(++at, "\n");
	if (length > CK_NAME)
		return false;
	memcpy(name->text, at, length);
	name->text[length] = '\0';
	return true;
}

/* Without the kernel's table there are none: CRIU reports a name that is in use. */
static int list_names(struct names *names)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256];
	struct name name;
	int ret = 0;

	if (!f)
		return 0;
	while (ret == 0 && fgets(line, sizeof(line), f)) {
		struct name *more;

		if (!read_name(line, &name))
			continue;
		more = reallocarray(names->list, names->count + 1, sizeof(*more));
		if (!more) {
			ret = -ENOMEM;
			break;
		}
		names->list = more;
		names->list[names->count++] = name;
	}
	fclose(f);
	return ret;
}

/* Whether @size bytes at @bytes are such a name, as the kernel prints it. */
static bool is_name(const unsigned char *bytes, size_t size, const char *text)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != (unsigned char)text[i] && !(bytes[i] == 0 && text[i] == '@'))
			return false;
	}
	return bytes[0] == 0;
}

static bool in_use(const struct names *names, const unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < names->count; i++) {
		if (strlen(names->list[i].text) == size &&
		    is_name(bytes, size, names->list[i].text))
			return true;
	}
	return false;
}

/* Other digits, until the name is not in use. */
static int change_name(const struct names *names, unsigned char *bytes, size_t size)
{
	unsigned char random[CK_NAME];

	for (int try = 0; try < CK_TRIES && in_use(names, bytes, size); try++) {
		if (getrandom(random, size, 0) != (ssize_t)size)
			return -EIO;
		for (size_t i = 0; i < size; i++) {
			if (isdigit(bytes[i]))
				bytes[i] = (unsigned char)('0' + random[i] % 10);
		}
	}
	return in_use(names, bytes, size) ? -EADDRINUSE : 0;
}

/*
 * The image has each name as a field of a message of protobuf: a byte for the field, one for its
 * length, its bytes. Any user can bind names that are equal to other bytes of the image, but no
 * others come behind these two.
 */
static int change_names(const struct names *names, unsigned char *image, size_t size)
{
	int ret = 0;

	for (size_t at = 2; at < size && ret == 0; at++) {
		size_t length = image[at - 1];

		if (image[at - 2] == CK_NAME_TAG && image[at] == 0 && length > 1 &&
		    length <= CK_NAME && length <= size - at && in_use(names, image + at, length))
			ret = change_name(names, image + at, length);
	}
	return ret;
}

static int change_image(const struct names *names, int fd)
{
	struct stat st;
	unsigned char *image;
	int ret;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size == 0)
		return 0;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (image == MAP_FAILED)
		return -errno;
	ret = change_names(names, image, (size_t)st.st_size);
	munmap(image, (size_t)st.st_size);
	return ret;
}

int cks_socket_names_free(const char *images, struct cks_why *why)
{
	struct names names = {.count = 0};
	char path[512];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/" CK_FILES_IMAGE, images);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return cks_why_set(why, errno, "%s: %m", path);
	ret = list_names(&names);
	if (ret == 0)
		ret = change_image(&names, fd);
	free(names.list);
	close(fd);
	return ret < 0 ? cks_why_set(why, -ret, "names of the worker's sockets: %m") : 0;
}
