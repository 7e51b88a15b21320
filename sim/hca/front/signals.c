/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.c - the calls by which a program sets handlers and masks. SIGSEGV and SIGBUS are
 * ours first (fault.h); the rest of each call goes on to libc. A raw rt_sigaction or
 * rt_sigprocmask, as Go's runtime makes, cannot be seen here: such programs should poll.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "sim/hca/front/interpose.h"
#include "sim/hca/mem/fault.h"

/* Programs still call them. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

__attribute__((constructor)) static void adopt_mask(void)
{
	fault_adopt_mask();
}

/* ---- actions ---------------------------------------------------------------------- */

INTERPOSE int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	return fault_program_action(sig, new, old);
}

static sighandler_t set_handler(int sig, sighandler_t handler, int flags, bool blocks_itself)
{
	struct sigaction new = { .sa_handler = handler, .sa_flags = flags }, old;

	sigemptyset(&new.sa_mask);
	if (blocks_itself)
		sigaddset(&new.sa_mask, sig);
	return fault_program_action(sig, &new, &old) ? SIG_ERR : old.sa_handler;
}

INTERPOSE sighandler_t signal(int sig, sighandler_t handler)
{
	if (!fault_is_signal(sig))
		return NEXT(signal)(sig, handler);
	return set_handler(sig, handler, SA_RESTART, true);
}

sighandler_t bsd_signal(int sig, sighandler_t handler);
INTERPOSE sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

INTERPOSE sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

sighandler_t __sysv_signal(int sig, sighandler_t handler);
INTERPOSE sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	if (!fault_is_signal(sig))
		return NEXT(__sysv_signal)(sig, handler);
	return set_handler(sig, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

INTERPOSE sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return __sysv_signal(sig, handler);
}

INTERPOSE int siginterrupt(int sig, int interrupts)
{
	struct sigaction a;

	if (!fault_is_signal(sig))
		return NEXT(siginterrupt)(sig, interrupts);
	fault_program_action(sig, NULL, &a);
	a.sa_flags = interrupts ? a.sa_flags & ~SA_RESTART : a.sa_flags | SA_RESTART;
	return fault_program_action(sig, &a, NULL);
}

/* ---- masks ------------------------------------------------------------------------- */

INTERPOSE int pthread_sigmask(int how, const sigset_t *new, sigset_t *old)
{
	return fault_program_mask(how, new, old);
}

INTERPOSE int sigprocmask(int how, const sigset_t *new, sigset_t *old)
{
	int rc = fault_program_mask(how, new, old);

	if (rc)
		errno = rc;
	return rc ? -1 : 0;
}

static int change_mask_of(int sig, int how)
{
	sigset_t set;

	sigemptyset(&set);
	return sigaddset(&set, sig) ? -1 : sigprocmask(how, &set, NULL);
}

INTERPOSE int sighold(int sig)
{
	return change_mask_of(sig, SIG_BLOCK);
}

INTERPOSE int sigrelse(int sig)
{
	return change_mask_of(sig, SIG_UNBLOCK);
}

INTERPOSE int sigignore(int sig)
{
	if (!fault_is_signal(sig))
		return NEXT(sigignore)(sig);
	return set_handler(sig, SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

INTERPOSE sighandler_t sigset(int sig, sighandler_t handler)
{
	struct sigaction before;
	sigset_t set, old;

	if (!fault_is_signal(sig))
		return NEXT(sigset)(sig, handler);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &set, &old);
	fault_program_action(sig, NULL, &before);
	if (handler != SIG_HOLD)
		set_handler(sig, handler, 0, false);
	return sigismember(&old, sig) ? SIG_HOLD : before.sa_handler;
}

/* The old calls have one int for a mask. */
static int change_int_mask(int how, int mask)
{
	sigset_t set, old;
	int before;

	sigemptyset(&set);
	memcpy(&set, &mask, sizeof(mask));
	if (sigprocmask(how, &set, &old))
		return -1;
	memcpy(&before, &old, sizeof(before));
	return before;
}

int sigblock(int mask);
INTERPOSE int sigblock(int mask)
{
	return change_int_mask(SIG_BLOCK, mask);
}

int sigsetmask(int mask);
INTERPOSE int sigsetmask(int mask)
{
	return change_int_mask(SIG_SETMASK, mask);
}

/* ---- masks for the time of a call ---------------------------------------------------- */

INTERPOSE int sigsuspend(const sigset_t *mask)
{
	sigset_t open;

	return NEXT(sigsuspend)(fault_open_mask(mask, &open));
}

INTERPOSE int ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *timeout,
		    const sigset_t *mask)
{
	sigset_t open;

	return NEXT(ppoll)(fds, nr, timeout, fault_open_mask(mask, &open));
}

/* What a fortified program calls. */
int __ppoll_chk(struct pollfd *fds, nfds_t nr, const struct timespec *timeout,
		const sigset_t *mask, size_t fds_bytes);
INTERPOSE int __ppoll_chk(struct pollfd *fds, nfds_t nr, const struct timespec *timeout,
			  const sigset_t *mask, size_t fds_bytes)
{
	sigset_t open;

	return NEXT(__ppoll_chk)(fds, nr, timeout, fault_open_mask(mask, &open), fds_bytes);
}

INTERPOSE int pselect(int nr, fd_set *in, fd_set *out, fd_set *except,
		      const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t open;

	return NEXT(pselect)(nr, in, out, except, timeout, fault_open_mask(mask, &open));
}

INTERPOSE int epoll_pwait(int fd, struct epoll_event *events, int nr, int timeout_ms,
			  const sigset_t *mask)
{
	sigset_t open;

	return NEXT(epoll_pwait)(fd, events, nr, timeout_ms, fault_open_mask(mask, &open));
}

INTERPOSE int epoll_pwait2(int fd, struct epoll_event *events, int nr,
			   const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t open;

	return NEXT(epoll_pwait2)(fd, events, nr, timeout, fault_open_mask(mask, &open));
}

/* ---- what waits ------------------------------------------------------------------------ */

INTERPOSE int sigpending(sigset_t *set)
{
	int rc = NEXT(sigpending)(set);

	if (!rc)
		fault_add_pending(set);
	return rc;
}

INTERPOSE int sigtimedwait(const sigset_t *set, siginfo_t *out, const struct timespec *timeout)
{
	siginfo_t info;

	if (!fault_take_pending(set, &info))
		return NEXT(sigtimedwait)(set, out, timeout);
	if (out)
		*out = info;
	return info.si_signo;
}

INTERPOSE int sigwaitinfo(const sigset_t *set, siginfo_t *out)
{
	return sigtimedwait(set, out, NULL);
}

INTERPOSE int sigwait(const sigset_t *set, int *sig)
{
	siginfo_t info;

	if (!fault_take_pending(set, &info))
		return NEXT(sigwait)(set, sig);
	*sig = info.si_signo;
	return 0;
}

/* ---- new threads ------------------------------------------------------------------------ */

/* Lies on the creator's stack until it was read: a sanitizer's malloc() may not be used by a
 * thread that the sanitizer has not been told of yet. */
struct beginning {
	void *(*start)(void *argument);
	int (*c11_start)(void *argument);
	void *argument;
	uint64_t blocked;
	uint32_t is_read;
};

static struct beginning read_beginning(struct beginning *shared)
{
	struct beginning b = *shared;

	__atomic_store_n(&shared->is_read, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &shared->is_read, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	fault_begin_thread(b.blocked);
	return b;
}

static void wait_until_read(struct beginning *b)
{
	while (!__atomic_load_n(&b->is_read, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &b->is_read, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void *begin(void *shared)
{
	struct beginning b = read_beginning(shared);

	return b.start(b.argument);
}

static int begin_c11(void *shared)
{
	struct beginning b = read_beginning(shared);

	return b.c11_start(b.argument);
}

INTERPOSE int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			     void *(*start)(void *), void *argument)
{
	struct beginning b = {
		.start = start, .argument = argument, .blocked = fault_mask_of_thread(attr),
	};
	int rc = NEXT(pthread_create)(thread, attr, begin, &b);

	if (!rc)
		wait_until_read(&b);
	return rc;
}

INTERPOSE int thrd_create(thrd_t *thread, thrd_start_t start, void *argument)
{
	struct beginning b = {
		.c11_start = start, .argument = argument, .blocked = fault_mask_of_thread(NULL),
	};
	int rc = NEXT(thrd_create)(thread, begin_c11, &b);

	if (rc == thrd_success)
		wait_until_read(&b);
	return rc;
}
