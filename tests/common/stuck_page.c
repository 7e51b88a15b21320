/* SPDX-License-Identifier: Apache-2.0 */
/* stuck_page.c - see stuck_page.h. The mount point is a file, so the root of the
 * file system is the only file there is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/order.h"
#include "tests/common/raw.h"
#include "tests/common/stuck_page.h"

#define FILE_SIZE 65536u

static void answer(int fd, uint64_t unique, int error, const void *body, size_t size)
{
	struct fuse_out_header h = { .len = (uint32_t)(sizeof(h) + size), .error = error,
				     .unique = unique };
	struct iovec v[2] = { { &h, sizeof(h) }, { (void *)(uintptr_t)body, size } };

	need(writev(fd, v, size ? 2 : 1) >= 0 || errno == ENOENT);
}

static void answer_attr(int fd, uint64_t unique)
{
	struct fuse_attr_out o = {
		.attr_valid = 1000,
		.attr = { .ino = 1, .size = FILE_SIZE, .mode = S_IFREG | 0666, .nlink = 1,
			  .blksize = 4096 },
	};

	answer(fd, unique, 0, &o, sizeof(o));
}

static void answer_init(int fd, uint64_t unique, const struct fuse_init_in *in)
{
	struct fuse_init_out o = { .major = FUSE_KERNEL_VERSION,
				   .minor = FUSE_KERNEL_MINOR_VERSION,
				   .max_readahead = 0, .max_write = 4096,
				   .max_background = 16, .congestion_threshold = 12 };

	(void)in;
	answer(fd, unique, 0, &o, sizeof(o));
}

static void serve_one(int fd, struct stuck_board *board)
{
	static _Alignas(8) uint8_t request[1 << 17];
	const struct fuse_in_header *h = (const void *)request;
	struct fuse_open_out opened = { .fh = 1 };

	if (read(fd, request, sizeof(request)) < 0) {
		need(errno == EINTR || errno == ENOENT || errno == EAGAIN);
		return;
	}
	switch (h->opcode) {
	case FUSE_INIT:
		answer_init(fd, h->unique, (const void *)(h + 1));
		break;
	case FUSE_GETATTR:
		answer_attr(fd, h->unique);
		break;
	case FUSE_OPEN:
		answer(fd, h->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		fetch_add(&board->reads, 1u);
		break;		/* and never an answer */
	case FUSE_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_FLUSH:
		if (board->no_flush) {
			fetch_add(&board->closes, 1u);
			break;
		}
		/* fall through */
	case FUSE_RELEASE:
		answer(fd, h->unique, 0, NULL, 0);
		break;
	default:
		answer(fd, h->unique, -ENOSYS, NULL, 0);
	}
}

/* In a namespace of our own /mnt is free to be hidden, and nothing is left behind.
 * False: this user, or this root folder, may not mount. */
static bool mount_file(int fuse)
{
	char options[96];
	int file;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	need(mount("none", "/mnt", "tmpfs", 0, NULL) == 0);
	file = open(STUCK_PATH, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
	need(file >= 0);
	close(file);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=100666,user_id=0,group_id=0,allow_other", fuse);
	need(mount("stuck", STUCK_PATH, "fuse", MS_NOSUID | MS_NODEV, options) == 0);
	return true;
}

static void attacker_main(void (*attack)(void *, void *), void *arg)
{
	int fd = open(STUCK_PATH, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *page;

	need(fd >= 0 && fstat(fd, &st) == 0); /* the kernel asks for its size only now */
	need(st.st_size == FILE_SIZE);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	need(page != MAP_FAILED);
	attack(page, arg);
	_exit(0);
}

static void server_main(int fuse, int mounted, struct stuck_board *board,
			void (*attack)(void *, void *), void *arg)
{
	pid_t pid;

	if (!mount_file(fuse) || write(mounted, "", 1) != 1)
		_exit(1);
	close(mounted);
	pid = fork();
	need(pid >= 0);
	if (pid == 0) {
		close(fuse);
		attacker_main(attack, arg);
	}
	board->attacker = pid;
	for (;;)
		serve_one(fuse, board);
}

pid_t stuck_page_start(struct stuck_board *board, void (*attack)(void *, void *), void *arg)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int mounted[2];
	char byte;
	pid_t pid;

	if (fuse < 0)
		return -1;
	need(pipe2(mounted, O_CLOEXEC) == 0);
	fflush(NULL);
	pid = fork();
	need(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGCHLD, SIG_IGN);
		server_main(fuse, mounted[1], board, attack, arg);
	}
	close(fuse);
	close(mounted[1]);
	if (read(mounted[0], &byte, 1) != 1) {
		need(waitpid(pid, NULL, 0) == pid);
		pid = -1;
	}
	close(mounted[0]);
	return pid;
}
