/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_note.h - what pollers, the control thread and the door tell each other. */
#ifndef TENT_IO_TCP_NOTE_H
#define TENT_IO_TCP_NOTE_H

enum tcp_kind {
	NOTE_CALL,	/* line -> door: it needs a connection */
	NOTE_FAILED,	/* door -> line: there is none */
	NOTE_CONN,	/* door -> poller: here is one */
	NOTE_RETIRE,	/* door -> poller: end it; and back: that was seen */
	NOTE_FENCE,	/* poller -> door: it broke; has the other side let go? */
	NOTE_FENCED,	/* door -> poller: yes; or nobody can say (conn->fenced) */
	NOTE_OVER,	/* poller -> door: close and free it */
	NOTE_LEAVE,	/* control -> poller: the peer is no more; and on to the door */
	NOTE_PEER,	/* control -> door: a peer comes */
	NOTE_GUEST,	/* control -> door: a guest comes */
	NOTE_GUEST_ENDS	/* control -> door: it leaves */
};

/* One thing on its way; its sender's again once it comes back. */
struct tcp_note {
	struct tcp_note *next;	/* R16/A16 */
	enum tcp_kind kind;
	void *about;
};

/* tcp_queue.c. Any thread: hands a note over. */
void tcp_note_push(struct tcp_note **inbox, struct tcp_note *n);
/* Takes all, oldest first. */
struct tcp_note *tcp_note_take(struct tcp_note **inbox);

#endif /* TENT_IO_TCP_NOTE_H */
