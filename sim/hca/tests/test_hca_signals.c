/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_signals.c - a program's handlers and masks behind ours. This program takes
 * libc's names as the preloaded library does, by holding the same file. What may kill runs
 * in a child, whose end tells.
 */
#undef _FORTIFY_SOURCE	/* as in signals.c, and before any header */
#include "sim/hca/front/interpose.c"
#include "sim/hca/front/signals.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/mem/guard.h"

static uint8_t *hole;		/* a page that is not there */
static volatile int nr_calls;
static sigjmp_buf back;

/* How the program ends that runs child(): its exit status, or 128 + signal. */
static int end_of(int (*child)(void))
{
	static const struct rlimit no_core;
	pid_t pid = fork();
	int status;

	if (!pid) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGBUS, SIG_DFL);
		signal(SIGSEGV, SIG_DFL);
		fault_install();
		_exit(child());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void touch(volatile uint8_t *at)
{
	__asm__ volatile("" : "+r"(at));
	*at = 1;
}

static bool guard_works(void)
{
	uint8_t byte;

	return guard_copy(&byte, hole, 1) == -EFAULT && guard_copy(hole, &byte, 1) == -EFAULT;
}

static void jump_back(int sig, siginfo_t *info, void *context)
{
	(void)context;
	nr_calls++;
	if (sig == SIGSEGV && info->si_addr == hole + 5 && info->si_signo == sig)
		siglongjmp(back, 1);
	_exit(99);
}

static void set(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigaction(sig, &a, NULL);
}

/* ---- the program's handler ---------------------------------------------------------- */

static int fault_twice_and_jump_out(void)
{
	set(SIGSEGV, jump_back, 0);
	for (volatile int i = 0; i < 2; i++) {
		if (!sigsetjmp(back, 1))
			touch(hole + 5);
		if (!guard_works())
			return 1;
	}
	return nr_calls == 2 ? 0 : 2;
}

static void a_fault_of_the_programs_is_its_own(void **state)
{
	(void)state;
	assert_int_equal(end_of(fault_twice_and_jump_out), 0);
}

static int fault_by_default(void)
{
	if (!guard_works())
		return 1;
	touch(hole);
	return 2;
}

static int fault_while_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	raise(SIGSEGV);
	kill(getpid(), SIGSEGV);
	if (!guard_works())
		return 1;
	touch(hole);
	return 2;
}

static int send_by_default(void)
{
	raise(SIGBUS);
	return 2;
}

static void without_a_handler_faults_kill(void **state)
{
	(void)state;
	assert_int_equal(end_of(fault_by_default), 128 + SIGSEGV);
	assert_int_equal(end_of(fault_while_ignored), 128 + SIGSEGV);
	assert_int_equal(end_of(send_by_default), 128 + SIGBUS);
}

static void simple(int sig)
{
	(void)sig;
	nr_calls++;
}

static int old_actions(void)
{
	struct sigaction a = { .sa_handler = simple, .sa_flags = SA_RESETHAND | SA_ONSTACK }, old;

	sigfillset(&a.sa_mask);
	if (sigaction(SIGSEGV, &a, &old) || old.sa_handler != SIG_DFL)
		return 1;
	if (signal(SIGSEGV, SIG_IGN) != simple)
		return 2;
	if (sigaction(SIGSEGV, NULL, &old) || old.sa_handler != SIG_IGN ||
	    !(old.sa_flags & SA_RESTART) || !sigismember(&old.sa_mask, SIGSEGV))
		return 3;
	sigaction(SIGSEGV, &a, NULL);
	if (sigaction(SIGSEGV, NULL, &old) || old.sa_handler != simple ||
	    (old.sa_flags & (SA_RESETHAND | SA_ONSTACK)) != (SA_RESETHAND | SA_ONSTACK) ||
	    !sigismember(&old.sa_mask, SIGUSR2))
		return 4;
	/* Others keep what the kernel is not told. */
	a.sa_flags = 0;
	if (sigaction(SIGUSR1, &a, NULL) || sigaction(SIGUSR1, NULL, &old) ||
	    !sigismember(&old.sa_mask, SIGSEGV) || !sigismember(&old.sa_mask, SIGBUS))
		return 5;
	errno = 0;
	return sigaction(-1, &a, NULL) == -1 && errno == EINVAL ? 0 : 6;
}

static void an_old_action_is_as_the_program_set_it(void **state)
{
	(void)state;
	assert_int_equal(end_of(old_actions), 0);
}

static int reset_hand(void)
{
	set(SIGSEGV, jump_back, (int)SA_RESETHAND);
	if (!sigsetjmp(back, 1))
		touch(hole + 5);
	if (nr_calls != 1 || !guard_works())
		return 1;
	touch(hole + 5);
	return 2;
}

static void touch_in_handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	if (nr_calls++ == 1)
		_exit(7);
	touch(hole);
}

static int nested_blocked(void)
{
	set(SIGSEGV, touch_in_handler, 0);
	touch(hole);
	return 2;
}

static int nested_open(void)
{
	set(SIGSEGV, touch_in_handler, SA_NODEFER);
	touch(hole);
	return 2;
}

static void flags_mean_what_they_mean_to_the_kernel(void **state)
{
	(void)state;
	assert_int_equal(end_of(reset_hand), 128 + SIGSEGV);
	assert_int_equal(end_of(nested_blocked), 128 + SIGSEGV);
	assert_int_equal(end_of(nested_open), 7);
}

static uint8_t other_stack[1 << 16] __attribute__((aligned(16)));
static volatile int on_other_stack;

static void look_at_stack(int sig, siginfo_t *info, void *context)
{
	uint8_t here;

	(void)context;
	(void)info;
	(void)sig;
	on_other_stack = (uintptr_t)&here - (uintptr_t)other_stack < sizeof(other_stack);
	if (!guard_works())
		_exit(98);
}

static int stacks(void)
{
	stack_t s = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };

	sigaltstack(&s, NULL);
	set(SIGSEGV, look_at_stack, SA_ONSTACK);
	raise(SIGSEGV);
	if (!on_other_stack)
		return 1;
	set(SIGSEGV, look_at_stack, 0);
	raise(SIGSEGV);
	return on_other_stack ? 2 : 0;
}

static void the_handler_runs_on_the_stack_it_asked_for(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	skip();		/* its locals lie on a stack of its own */
#endif
	assert_int_equal(end_of(stacks), 0);
}

static volatile int was_blocked;

static void look_at_mask(int sig)
{
	sigset_t now;

	(void)sig;
	sigprocmask(SIG_SETMASK, NULL, &now);
	was_blocked = sigismember(&now, SIGUSR2);
}

static int handler_mask(void)
{
	struct sigaction a = { .sa_handler = look_at_mask };
	sigset_t now;

	sigaddset(&a.sa_mask, SIGUSR2);
	sigaction(SIGBUS, &a, NULL);
	raise(SIGBUS);
	sigprocmask(SIG_SETMASK, NULL, &now);
	return was_blocked && !sigismember(&now, SIGUSR2) ? 0 : 1;
}

static void sa_mask_holds_while_the_handler_runs(void **state)
{
	(void)state;
	assert_int_equal(end_of(handler_mask), 0);
}

/* ---- masks --------------------------------------------------------------------------- */

static int blocked_pends(void)
{
	sigset_t all, old;

	sigfillset(&all);
	signal(SIGSEGV, simple);
	sigprocmask(SIG_SETMASK, &all, &old);
	if (sigismember(&old, SIGSEGV))
		return 1;
	sigprocmask(SIG_SETMASK, NULL, &old);
	if (!sigismember(&old, SIGSEGV) || !sigismember(&old, SIGBUS) ||
	    !sigismember(&old, SIGUSR1))
		return 2;
	if (!guard_works())
		return 3;
	raise(SIGSEGV);
	raise(SIGSEGV);
	if (nr_calls)
		return 4;
	sigemptyset(&all);
	sigaddset(&all, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &all, &old);
	return nr_calls == 1 && sigismember(&old, SIGSEGV) ? 0 : 5;
}

static int blocked_fault(void)
{
	signal(SIGSEGV, simple);
	sighold(SIGSEGV);
	touch(hole);
	return 2;
}

static void what_the_program_blocks_is_blocked_for_it_alone(void **state)
{
	(void)state;
	assert_int_equal(end_of(blocked_pends), 0);
	assert_int_equal(end_of(blocked_fault), 128 + SIGSEGV);
}

static void use_guard(int sig)
{
	(void)sig;
	was_blocked = !guard_works();
	nr_calls++;
}

static int guards_in_masked_places(void)
{
	struct sigaction a = { .sa_handler = use_guard };
	struct timespec no_time = { 0 };
	sigset_t all;

	sigfillset(&a.sa_mask);
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	if (nr_calls != 1 || was_blocked)
		return 1;
	/* A signal that comes while ppoll() waits, with everything else blocked. */
	sighold(SIGUSR1);
	raise(SIGUSR1);
	sigfillset(&all);
	sigdelset(&all, SIGUSR1);
	ppoll(NULL, 0, &no_time, &all);
	if (nr_calls != 2 || was_blocked)
		return 2;
	raise(SIGUSR1);
	sigsuspend(&all);
	return nr_calls == 3 && !was_blocked ? 0 : 3;
}

static void no_mask_keeps_our_faults_out(void **state)
{
	(void)state;
	assert_int_equal(end_of(guards_in_masked_places), 0);
}

static bool has(int (*ask)(sigset_t *set), int sig)
{
	sigset_t set;

	return !ask(&set) && sigismember(&set, sig);
}

static int mask_now(sigset_t *set)
{
	return sigprocmask(SIG_SETMASK, NULL, set);
}

static int pending_is_told(void)
{
	int status;
	pid_t pid;

	signal(SIGSEGV, simple);
	sighold(SIGSEGV);
	if (has(sigpending, SIGSEGV))
		return 1;
	raise(SIGSEGV);
	if (!has(sigpending, SIGSEGV) || has(sigpending, SIGBUS))
		return 2;
	pid = fork();
	if (!pid)
		_exit(has(sigpending, SIGSEGV) || !has(mask_now, SIGSEGV));
	if (waitpid(pid, &status, 0) != pid || status)
		return 3;
	sigrelse(SIGSEGV);
	return !has(sigpending, SIGSEGV) && nr_calls == 1 ? 0 : 4;
}

static int pending_can_be_waited_for(void)
{
	struct timespec no_time = { 0 };
	sigset_t set;
	siginfo_t info;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (sigtimedwait(&set, &info, &no_time) != -1 || errno != EAGAIN)
		return 1;
	raise(SIGSEGV);
	raise(SIGBUS);
	if (sigwaitinfo(&set, &info) != SIGBUS || info.si_signo != SIGBUS ||
	    info.si_pid != getpid())
		return 2;
	if (sigwait(&set, &sig) || sig != SIGSEGV)
		return 3;
	return sigtimedwait(&set, NULL, &no_time) == -1 && errno == EAGAIN ? 0 : 4;
}

static void what_waits_is_told_and_taken(void **state)
{
	(void)state;
	assert_int_equal(end_of(pending_is_told), 0);
	assert_int_equal(end_of(pending_can_be_waited_for), 0);
}

enum { BLOCKS_SEGV = 1, BLOCKS_BUS = 2, BLOCKS_USR1 = 4, HAS_NO_GUARD = 8 };

static int look(void *unused)
{
	(void)unused;
	return (has(mask_now, SIGSEGV) ? BLOCKS_SEGV : 0) |
	       (has(mask_now, SIGBUS) ? BLOCKS_BUS : 0) |
	       (has(mask_now, SIGUSR1) ? BLOCKS_USR1 : 0) | (guard_works() ? 0 : HAS_NO_GUARD);
}

static void *look_as_thread(void *unused)
{
	return (void *)(intptr_t)look(unused);
}

static int seen_by_thread(const pthread_attr_t *attr)
{
	pthread_t thread;
	void *seen;

	if (pthread_create(&thread, attr, look_as_thread, NULL) || pthread_join(thread, &seen))
		return -1;
	return (int)(intptr_t)seen;
}

static int threads_inherit(void)
{
	pthread_attr_t attr;
	sigset_t set, got;
	int seen;

	if (seen_by_thread(NULL))
		return 1;
	sighold(SIGSEGV);
	sighold(SIGUSR1);
	if (seen_by_thread(NULL) != (BLOCKS_SEGV | BLOCKS_USR1))
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_attr_init(&attr);
	if (seen_by_thread(&attr) != (BLOCKS_SEGV | BLOCKS_USR1))
		return 3;
	pthread_attr_setsigmask_np(&attr, &set);
	if (pthread_attr_getsigmask_np(&attr, &got) || !sigismember(&got, SIGBUS))
		return 4;
	seen = seen_by_thread(&attr);
	pthread_attr_destroy(&attr);
	return seen == BLOCKS_BUS && look(NULL) == (BLOCKS_SEGV | BLOCKS_USR1) ? 0 : 5;
}

static void a_thread_begins_with_the_mask_of_its_creator(void **state)
{
	(void)state;
	assert_int_equal(end_of(threads_inherit), 0);
}

static int c11_threads_inherit(void)
{
	thrd_t thread;
	int seen;

	sighold(SIGSEGV);
	return thrd_create(&thread, look, NULL) != thrd_success || thrd_join(thread, &seen) ||
	       seen != BLOCKS_SEGV;
}

static void a_c11_thread_does_too(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__)
	skip();		/* it does not know of such threads, and crashes in them */
#endif
	assert_int_equal(end_of(c11_threads_inherit), 0);
}

/* ---- past us -------------------------------------------------------------------------- */

int __sigaction(int sig, const struct sigaction *new, struct sigaction *old);

static int raw_action(void)
{
	struct sigaction a = { .sa_sigaction = jump_back, .sa_flags = SA_SIGINFO }, old;

	__sigaction(SIGSEGV, &a, NULL);
	fault_install();
	if (!guard_works() || nr_calls)
		return 1;
	if (!sigsetjmp(back, 1))
		touch(hole + 5);
	sigaction(SIGSEGV, NULL, &old);
	return nr_calls == 1 && old.sa_sigaction == jump_back ? 0 : 2;
}

static void an_action_set_past_us_is_found_and_chained(void **state)
{
	(void)state;
	assert_int_equal(end_of(raw_action), 0);
}

/* Old calls, on a signal that is ours and on one that is not. */
static int old_calls(void)
{
	if (sigset(SIGSEGV, simple) != SIG_DFL || sigset(SIGSEGV, SIG_HOLD) != simple)
		return 1;
	raise(SIGSEGV);
	if (nr_calls || !(sigblock(0) & 1 << (SIGSEGV - 1)))
		return 2;
	sigrelse(SIGSEGV);
	if (nr_calls != 1)
		return 3;
	if (sysv_signal(SIGSEGV, simple) != simple || raise(SIGSEGV) || nr_calls != 2 ||
	    signal(SIGSEGV, SIG_IGN) != SIG_DFL)
		return 4;
	if (sysv_signal(SIGUSR1, simple) != SIG_DFL || raise(SIGUSR1) || nr_calls != 3 ||
	    signal(SIGUSR1, SIG_IGN) != SIG_DFL)
		return 5;
	sigsetmask(1 << (SIGUSR1 - 1));
	return sigblock(0) == 1 << (SIGUSR1 - 1) && !sigignore(SIGBUS) && !raise(SIGBUS) &&
	       !siginterrupt(SIGBUS, 1) && signal(SIGBUS, simple) == SIG_IGN ? 0 : 6;
}

static void the_old_calls_agree(void **state)
{
	(void)state;
	assert_int_equal(end_of(old_calls), 0);
}

static int setup(void **state)
{
	(void)state;
	hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return hole == MAP_FAILED ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_of_the_programs_is_its_own),
		cmocka_unit_test(without_a_handler_faults_kill),
		cmocka_unit_test(an_old_action_is_as_the_program_set_it),
		cmocka_unit_test(flags_mean_what_they_mean_to_the_kernel),
		cmocka_unit_test(the_handler_runs_on_the_stack_it_asked_for),
		cmocka_unit_test(sa_mask_holds_while_the_handler_runs),
		cmocka_unit_test(what_the_program_blocks_is_blocked_for_it_alone),
		cmocka_unit_test(no_mask_keeps_our_faults_out),
		cmocka_unit_test(what_waits_is_told_and_taken),
		cmocka_unit_test(a_thread_begins_with_the_mask_of_its_creator),
		cmocka_unit_test(a_c11_thread_does_too),
		cmocka_unit_test(an_action_set_past_us_is_found_and_chained),
		cmocka_unit_test(the_old_calls_agree),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
