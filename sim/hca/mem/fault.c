/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - what the kernel would do with the program's actions and masks, done here for
 * two signals. A lock that blocks all signals guards the table, as sigaction() may be
 * called in a handler.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sim/hca/mem/fault.h"
#include "sim/hca/mem/guard.h"
#include "sim/hca/mem/sys.h"

#define KERNEL_MASK_BYTES 8
#define ALL_SIGNALS UINT64_MAX

enum { SEGV, BUS, NR_OURS };

/* What glibc's own sigaction() is called; the plain name may be interposed. */
int __sigaction(int sig, const struct sigaction *new, struct sigaction *old);

static struct {
	uint32_t lock;
	uint64_t mask_before;		/* of the lock's holder */
	struct sigaction program[NR_OURS];
	/* Those of our signals that the program's sa_mask of each signal held. */
	uint64_t stripped[_NSIG];
	bool (*claim)(siginfo_t *info, void *context);
} table;

/* Of one thread, as the program sees it. */
struct thread_view {
	uint64_t blocked;		/* of our signals */
	uint64_t pending;
	siginfo_t info[NR_OURS];	/* of the pending ones */
	/* Where the program's handler was called; 0: it does not run, or may run twice. */
	uintptr_t handler_stack[NR_OURS];
};
static __thread struct thread_view view __attribute__((tls_model("initial-exec")));

static int index_of(int sig)
{
	return sig == SIGSEGV ? SEGV : BUS;
}

static uint64_t bit_of(int sig)
{
	return 1ULL << (sig - 1);
}

#define OUR_BITS (bit_of(SIGSEGV) | bit_of(SIGBUS))

/* ---- masks as the kernel has them: one word -------------------------------- */

static uint64_t mask_word(const sigset_t *set)
{
	uint64_t word;

	memcpy(&word, set, sizeof(word));
	return word;
}

static void mask_from_word(sigset_t *set, uint64_t word)
{
	sigemptyset(set);
	memcpy(set, &word, sizeof(word));
}

static int kernel_mask(int how, const uint64_t *new, uint64_t *old)
{
	return syscall(SYS_rt_sigprocmask, how, new, old, KERNEL_MASK_BYTES) ? errno : 0;
}

/* ---- the table -------------------------------------------------------------- */

static void lock(void)
{
	uint64_t all = ALL_SIGNALS, before;

	kernel_mask(SIG_SETMASK, &all, &before);
	while (__atomic_exchange_n(&table.lock, 1, __ATOMIC_ACQUIRE))
		;
	table.mask_before = before;
}

static void unlock(void)
{
	uint64_t before = table.mask_before;

	__atomic_store_n(&table.lock, 0, __ATOMIC_RELEASE);
	kernel_mask(SIG_SETMASK, &before, NULL);
}

static bool is_handler(const struct sigaction *a)
{
	return a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
}

static void handle(int sig, siginfo_t *info, void *context);

/* The flags that act before a handler runs have to be the program's. Our own handler runs
 * with the mask as it was, so that it can be left by a jump. */
static void put_in_front(int sig)
{
	const struct sigaction *p = &table.program[index_of(sig)];
	struct sigaction a = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER };

	if (is_handler(p))
		a.sa_flags |= p->sa_flags & (SA_ONSTACK | SA_RESTART);
	__sigaction(sig, &a, NULL);
}

/* What the kernel has is the program's: inherited, or set by a raw system call. */
static bool adopt(int sig)
{
	struct sigaction now;

	if (__sigaction(sig, NULL, &now) ||
	    (now.sa_flags & SA_SIGINFO && now.sa_sigaction == handle))
		return false;
	table.program[index_of(sig)] = now;
	return true;
}

static void install(int sig)
{
	lock();
	if (adopt(sig))
		put_in_front(sig);
	unlock();
}

/* Signals that wait are not inherited. */
static void unlock_in_child(void)
{
	view.pending = 0;
	unlock();
}

__attribute__((constructor(FORK_LAST_LOCK))) static void watch_forks(void)
{
	pthread_atfork(lock, unlock, unlock_in_child);
}

void fault_install(void)
{
	install(SIGSEGV);
	install(SIGBUS);
}

void fault_set_claim(bool (*claim)(siginfo_t *info, void *context))
{
	__atomic_store_n(&table.claim, claim, __ATOMIC_RELEASE);
}

static void our_action(int sig, const struct sigaction *new, struct sigaction *old)
{
	struct sigaction *p = &table.program[index_of(sig)];

	adopt(sig);
	*old = *p;
	if (new) {
		*p = *new;
		sigdelset(&p->sa_mask, SIGKILL);
		sigdelset(&p->sa_mask, SIGSTOP);
		put_in_front(sig);
	}
}

/* A signal that is not ours must not block ours while its handler runs. */
static int other_action(int sig, const struct sigaction *new, struct sigaction *old)
{
	struct sigaction stripped;
	uint64_t before;

	if (sig <= 0 || sig >= _NSIG)
		return __sigaction(sig, new, old);
	before = table.stripped[sig];
	if (new) {
		stripped = *new;
		mask_from_word(&stripped.sa_mask, mask_word(&new->sa_mask) & ~OUR_BITS);
	}
	if (__sigaction(sig, new ? &stripped : NULL, old))
		return -1;
	if (new)
		table.stripped[sig] = mask_word(&new->sa_mask) & OUR_BITS;
	mask_from_word(&old->sa_mask, mask_word(&old->sa_mask) | before);
	return 0;
}

int fault_program_action(int sig, const struct sigaction *new, struct sigaction *old)
{
	/* Where the program's pointers are bad, that shows here and not under the lock. */
	struct sigaction copy, before;
	int rc = 0;

	if (new)
		copy = *new;
	lock();
	if (fault_is_signal(sig))
		our_action(sig, new ? &copy : NULL, &before);
	else
		rc = other_action(sig, new ? &copy : NULL, &before);
	unlock();
	if (old && !rc)
		*old = before;
	return rc;
}

/* ---- masks ------------------------------------------------------------------ */

static void send_to_self(int sig, const siginfo_t *info)
{
	siginfo_t copy = *info;

	syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, &copy);
}

static void deliver_pending(void)
{
	static const int ours[] = { SIGSEGV, SIGBUS };

	for (int i = 0; i < NR_OURS; i++) {
		uint64_t bit = bit_of(ours[i]);

		if (view.pending & bit & ~view.blocked) {
			view.pending &= ~bit;
			send_to_self(ours[i], &view.info[i]);
		}
	}
}

/* Those that libc keeps for itself, which its sigprocmask() leaves open too. */
static uint64_t libc_bits(void)
{
	uint64_t bits = 0;

	for (int sig = 32; sig < SIGRTMIN; sig++)
		bits |= bit_of(sig);
	return bits;
}

static void view_change(int how, uint64_t word)
{
	if (how == SIG_BLOCK)
		view.blocked |= word & OUR_BITS;
	else if (how == SIG_UNBLOCK)
		view.blocked &= ~word;
	else
		view.blocked = word & OUR_BITS;
}

int fault_program_mask(int how, const sigset_t *new, sigset_t *old)
{
	uint64_t word = new ? mask_word(new) : 0, blocked = view.blocked, open, before;
	int rc;

	open = word & ~(OUR_BITS | (how == SIG_UNBLOCK ? 0 : libc_bits()));
	rc = kernel_mask(how, new ? &open : NULL, &before);
	if (rc)
		return rc;
	if (old)
		mask_from_word(old, before | blocked);
	if (new) {
		view_change(how, word);
		deliver_pending();
	}
	return 0;
}

void fault_adopt_mask(void)
{
	uint64_t ours = OUR_BITS, before;

	if (!kernel_mask(SIG_UNBLOCK, &ours, &before))
		view.blocked = before & OUR_BITS;
}

uint64_t fault_mask_of_thread(const pthread_attr_t *attr)
{
	sigset_t set;

	/* An attribute's mask takes the place of the creator's. */
	if (attr && !pthread_attr_getsigmask_np(attr, &set))
		return mask_word(&set) & OUR_BITS;
	return view.blocked;
}

void fault_begin_thread(uint64_t blocked)
{
	fault_adopt_mask();
	view.blocked = blocked;
}

void fault_add_pending(sigset_t *set)
{
	mask_from_word(set, mask_word(set) | view.pending);
}

bool fault_take_pending(const sigset_t *set, siginfo_t *info)
{
	uint64_t waiting = view.pending & mask_word(set);
	int i = waiting & bit_of(SIGBUS) ? BUS : SEGV;	/* the lowest first, as the kernel does */

	if (!waiting)
		return false;
	*info = view.info[i];
	view.pending &= ~bit_of(info->si_signo);
	return true;
}

const sigset_t *fault_open_mask(const sigset_t *mask, sigset_t *copy)
{
	if (!mask)
		return NULL;
	mask_from_word(copy, mask_word(mask) & ~OUR_BITS);
	return copy;
}

/* ---- passing on ---------------------------------------------------------------- */

/* A fault comes again as soon as we return, and then kills at the very instruction; a
 * signal that was sent has to be sent again. */
static void die(int sig, const siginfo_t *info)
{
	struct sigaction a = { .sa_handler = SIG_DFL };

	__sigaction(sig, &a, NULL);
	if (info->si_code <= 0)
		send_to_self(sig, info);
}

/* What to do, taken out of the table at once since the handler may change it. */
static struct sigaction take_action(int sig)
{
	struct sigaction *p = &table.program[index_of(sig)];
	struct sigaction a;

	lock();
	a = *p;
	if (a.sa_flags & SA_RESETHAND && is_handler(p)) {
		p->sa_handler = SIG_DFL;
		put_in_front(sig);
	}
	unlock();
	return a;
}

static uintptr_t interrupted_stack(const void *context)
{
#if defined(__x86_64__)
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	return ((const ucontext_t *)context)->uc_mcontext.sp;
#else
	(void)context;
	return UINTPTR_MAX;
#endif
}

/* A handler may be left by a jump, which nobody tells us: it still runs only if what was
 * interrupted lies on the same stack, shortly below it. */
#define HANDLER_STACK_BYTES (256u << 10)

static bool runs_inside_handler(int sig, const void *context)
{
	uintptr_t stack = view.handler_stack[index_of(sig)];

	return stack - interrupted_stack(context) - 1 < HANDLER_STACK_BYTES;
}

static bool is_blocked(int sig, const void *context)
{
	return view.blocked & bit_of(sig) || runs_inside_handler(sig, context);
}

static void call_program(int sig, const struct sigaction *a, siginfo_t *info, void *context)
{
	uint64_t mask = mask_word(&a->sa_mask) & ~OUR_BITS;
	uintptr_t *stack = &view.handler_stack[index_of(sig)], outer = *stack;

	/* Our return restores the mask, or whatever the handler put in the context. */
	kernel_mask(SIG_BLOCK, &mask, NULL);
	*stack = a->sa_flags & SA_NODEFER ? 0 : (uintptr_t)__builtin_frame_address(0);
	/* The kernel hands over all three to a handler of either kind. */
	a->sa_sigaction(sig, info, context);
	*stack = outer;
	deliver_pending();
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
	bool is_fault = info->si_code > 0;
	struct sigaction a;

	if (is_blocked(sig, context)) {
		if (is_fault) {
			die(sig, info);
		} else {
			view.info[index_of(sig)] = *info;
			view.pending |= bit_of(sig);
		}
		return;
	}
	a = take_action(sig);
	if (is_handler(&a))
		call_program(sig, &a, info, context);
	else if (a.sa_handler == SIG_DFL || is_fault)
		die(sig, info);
}

static void handle(int sig, siginfo_t *info, void *context)
{
	bool (*claim)(siginfo_t *, void *) = __atomic_load_n(&table.claim, __ATOMIC_ACQUIRE);
	int saved = errno;

	guard_escape(info);
	if (info->si_code <= 0 || !claim || !claim(info, context)) {
		errno = saved;
		pass_on(sig, info, context);
	}
	errno = saved;
}
