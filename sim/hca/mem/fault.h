/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - our handler of SIGSEGV and SIGBUS, and the program's behind it.
 *
 * The kernel knows only our handler, so what the program asks for is kept here: reported
 * back as it was set, and followed when a fault is not ours. Neither signal is ever blocked
 * for the kernel, or a fault of ours would kill; what the program blocks is kept per thread.
 *
 * An action set by a raw system call can be seen only afterwards: fault_install() finds it,
 * takes it for the program's and puts ours in front again.
 */
#ifndef TENT_SIM_HCA_FAULT_H
#define TENT_SIM_HCA_FAULT_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Any number of times. */
void fault_install(void);

/* Asked first for each fault that no guarded access (guard.h) has made; true: it is dealt
 * with, and the thread goes on as context now says. */
void fault_set_claim(bool (*claim)(siginfo_t *info, void *context));

static inline bool fault_is_signal(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS;
}

/* sigaction() of a signal that is ours, as the program sees it. */
int fault_program_action(int sig, const struct sigaction *new, struct sigaction *old);

/* sigprocmask() as the program sees it. 0 or an error number. */
int fault_program_mask(int how, const sigset_t *new, sigset_t *old);

/* Once, early: what this thread has inherited blocked. */
void fault_adopt_mask(void);

/* What a thread that this one makes has blocked of our signals, and its first act. */
uint64_t fault_mask_of_thread(const pthread_attr_t *attr);
void fault_begin_thread(uint64_t blocked);

/* Our signals that wait until this thread no longer blocks them: adds them to what the
 * kernel says; and takes one of a set, if there is one. */
void fault_add_pending(sigset_t *set);
bool fault_take_pending(const sigset_t *set, siginfo_t *info);

/* A mask that a call like ppoll() waits with, without our signals. */
const sigset_t *fault_open_mask(const sigset_t *mask, sigset_t *copy);

#endif /* TENT_SIM_HCA_FAULT_H */
