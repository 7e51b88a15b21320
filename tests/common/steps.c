/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - a child that is stopped after each instruction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/steps.h"

#ifdef STEPS_COUNT

static bool is_heap_call(const uint8_t *at)
{
	return at == (uint8_t *)(uintptr_t)malloc || at == (uint8_t *)(uintptr_t)calloc ||
	       at == (uint8_t *)(uintptr_t)realloc || at == (uint8_t *)(uintptr_t)free;
}

/* The child's code is ours, at the same place. */
static void count(struct steps *s, const uint8_t *at)
{
	static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0x2e, 0x3e, 0x64, 0x65, 0xf0 };

	s->instructions++;
	s->heap_calls += is_heap_call(at);
	for (; memchr(prefixes, *at, sizeof(prefixes)); at++)
		s->locked += *at == 0xf0;
	if ((*at & 0xf0) == 0x40) /* REX */
		at++;
	s->locked += (*at == 0x86 || *at == 0x87) && at[1] >> 6 != 3;
	s->syscalls += at[0] == 0x0f && at[1] == 0x05;
	s->store_fences += at[0] == 0x0f && at[1] == 0xae && at[2] == 0xf8;
	s->fences += at[0] == 0x0f && at[1] == 0xae && (at[2] == 0xf0 || at[2] == 0xe8);
}

static struct user_regs_struct step(pid_t child, int request)
{
	struct user_regs_struct r;
	int status;

	assert_int_equal(ptrace(request, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &r), 0);
	return r;
}

static void child_main(void (*f)(void *arg), void *arg)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(1);
	raise(SIGSTOP);
	f(arg);
	_exit(0);
}

void steps_run(void (*f)(void *arg), void (*seen)(void *arg, const struct steps *s), void *arg,
	       struct steps *s)
{
	struct user_regs_struct r;
	unsigned long long from;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		child_main(f, arg);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSTOPPED(status));
	do {
		r = step(child, PTRACE_SINGLESTEP);
	} while (r.rip != (uintptr_t)f);
	*s = (struct steps) { .instructions = 0 };
	for (from = r.rsp; r.rsp <= from; seen(arg, s)) { /* until it has returned */
		count(s, (const uint8_t *)(uintptr_t)r.rip);
		r = step(child, PTRACE_SINGLESTEP);
	}
	assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#else

void steps_run(void (*f)(void *arg), void (*seen)(void *arg, const struct steps *s), void *arg,
	       struct steps *s)
{
	(void)f;
	(void)seen;
	(void)arg;
	(void)s;
	skip();
}

#endif
