/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - streams and events. Each stream has a thread, so that nothing that was asked
 * for has happened when the call returns but by chance; and is_held stops it at will.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/cuda/parts.h"

#define HELD_LOOKS_NS 5000000	/* between two looks whether its device was lost meanwhile */

enum work_kind { WORK_COPY, WORK_RECORD, WORK_WAIT };

struct work {
	struct work *next;
	enum work_kind kind;
	struct piece *pieces;
	uint32_t nr;
	void *staged;
	cu_event event;
	uint64_t turn;		/* of the event, that is recorded or waited for */
};

struct CUstream_st {
	cu_stream next;
	cu_context context;
	struct work *first, **last;	/* first: also while it runs */
	bool is_own;			/* the context's: what NULL means */
	bool is_over;			/* the program has it no more */
	bool is_dropped;		/* nor is there a context for what is left */
};

struct CUevent_st {
	cu_event next;
	cu_context context;
	uint64_t recorded, done;	/* turns */
	uint32_t works;			/* that name it */
	bool is_over;
};

static cu_stream streams;
static cu_event events;

/* ---- events ----------------------------------------------------------------- */

static void event_let_go(cu_event e)
{
	cu_event *at = &events;

	if (e->works || !e->is_over)
		return;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	free(e);
}

static cu_result event_check(cu_event e)
{
	cu_event known = events;

	while (known && known != e)
		known = known->next;
	return known && !known->is_over ? context_check(e->context) : CU_INVALID_HANDLE;
}

static cu_result event_create(cu_event *out, unsigned int flags)
{
	cu_context context;
	cu_result rc = context_current(&context);
	cu_event e;

	if (rc || flags >= 2 * EVENT_INTERPROCESS)
		return rc ? rc : CU_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CU_OUT_OF_MEMORY;
	e->context = context;
	e->next = events;
	events = e;
	*out = e;
	return CU_OK;
}

static cu_result event_destroy(cu_event e)
{
	cu_result rc = event_check(e);

	if (rc == CU_INVALID_HANDLE)
		return rc;
	e->is_over = true;
	event_let_go(e);
	return rc;
}

static cu_result event_query(cu_event e)
{
	cu_result rc = event_check(e);

	return rc ? rc : e->done < e->recorded ? CU_NOT_READY : CU_OK;
}

static cu_result event_wait(cu_event e)
{
	cu_result rc;

	while ((rc = event_query(e)) == CU_NOT_READY)
		pthread_cond_wait(&the_change, &the_lock);
	return rc;
}

/* ---- a stream's thread ------------------------------------------------------ */

static bool is_void(const struct CUstream_st *s)
{
	return s->is_dropped || context_check(s->context) != CU_OK;
}

/* Without the lock. */
static void wait_while_held(int gpu)
{
	const struct timespec look = { .tv_nsec = HELD_LOOKS_NS };

	syscall(SYS_futex, &the_control->gpus[gpu].is_held, FUTEX_WAIT, 1, &look, NULL, 0);
}

static bool is_held(const struct CUstream_st *s)
{
	return __atomic_load_n(&the_control->gpus[s->context->device].is_held, __ATOMIC_SEQ_CST);
}

static void run_copy(struct CUstream_st *s, const struct work *w)
{
	uint32_t *fails = &the_control->gpus[s->context->device].copy_fails;
	uint32_t failed = __atomic_exchange_n(fails, 0, __ATOMIC_SEQ_CST);

	if (failed) {
		s->context->failed = failed;
		return;
	}
	pthread_mutex_unlock(&the_lock);
	for (uint32_t i = 0; i < w->nr; i++)
		memmove(w->pieces[i].to, w->pieces[i].from, w->pieces[i].bytes);
	pthread_mutex_lock(&the_lock);
}

static void run(struct CUstream_st *s, struct work *w)
{
	while (is_held(s) && !is_void(s)) {
		int gpu = s->context->device;

		pthread_mutex_unlock(&the_lock);
		wait_while_held(gpu);
		pthread_mutex_lock(&the_lock);
	}
	if (w->kind == WORK_COPY && !is_void(s))
		run_copy(s, w);
	while (w->kind == WORK_WAIT && w->event->done < w->turn && !is_void(s))
		pthread_cond_wait(&the_change, &the_lock);
	if (w->kind == WORK_RECORD && w->event->done < w->turn)
		w->event->done = w->turn;
}

static void work_end(struct CUstream_st *s, struct work *w)
{
	s->first = w->next;
	if (!s->first)
		s->last = &s->first;
	if (w->event) {
		w->event->works--;
		event_let_go(w->event);
	}
	free(w->pieces);
	free(w->staged);
	free(w);
	pthread_cond_broadcast(&the_change);
}

static void *stream_main(void *stream)
{
	struct CUstream_st *s = stream;
	cu_stream *at = &streams;

	pthread_mutex_lock(&the_lock);
	while (s->first || !s->is_over) {
		struct work *w = s->first;

		if (!w) {
			pthread_cond_wait(&the_change, &the_lock);
			continue;
		}
		run(s, w);
		work_end(s, w);
	}
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	pthread_cond_broadcast(&the_change);
	pthread_mutex_unlock(&the_lock);
	free(s);
	return NULL;
}

/* ---- streams ---------------------------------------------------------------- */

static cu_result stream_make(cu_stream *out, cu_context context, bool is_own)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));
	pthread_t thread;

	if (!s)
		return CU_OUT_OF_MEMORY;
	s->context = context;
	s->last = &s->first;
	s->is_own = is_own;
	if (pthread_create(&thread, NULL, stream_main, s)) {
		free(s);
		return CU_OUT_OF_MEMORY;
	}
	pthread_detach(thread);
	s->next = streams;
	streams = s;
	*out = s;
	return CU_OK;
}

/* The stream that a call means, which belongs to this context. */
static cu_result stream_of(cu_context context, cu_stream *stream)
{
	cu_stream s;

	for (s = streams; s; s = s->next)
		if (!s->is_over && s->context == context && (*stream ? s == *stream : s->is_own))
			break;
	if (!s && !*stream)
		return stream_make(stream, context, true);
	*stream = s;
	return s ? CU_OK : CU_INVALID_HANDLE;
}

static cu_result stream_give(cu_context context, cu_stream stream, const struct work *like)
{
	cu_result rc = stream_of(context, &stream);
	struct work *w = rc ? NULL : malloc(sizeof(*w));

	if (!w)
		return rc ? rc : CU_OUT_OF_MEMORY;
	*w = *like;
	w->next = NULL;
	if (w->event)
		w->event->works++;
	*stream->last = w;
	stream->last = &w->next;
	pthread_cond_broadcast(&the_change);
	return CU_OK;
}

cu_result stream_copy(cu_context context, cu_stream stream, struct piece *pieces, uint32_t nr,
		      void *staged)
{
	struct work copy = { .kind = WORK_COPY, .pieces = pieces, .nr = nr, .staged = staged };
	cu_result rc = stream_give(context, stream, &copy);

	if (rc) {
		free(pieces);
		free(staged);
	}
	return rc;
}

cu_result stream_settle(cu_context context, cu_stream stream)
{
	cu_result rc = stream_of(context, &stream);

	while (!rc && stream->first) {
		pthread_cond_wait(&the_change, &the_lock);
		rc = context_check(context);
		if (!rc)
			rc = stream_of(context, &stream);
	}
	return rc ? rc : context_check(context);
}

static bool is_at_work(cu_context context)
{
	for (cu_stream s = streams; s; s = s->next)
		if ((!context || s->context == context) && s->first)
			return true;
	return false;
}

void streams_settle(void)
{
	while (is_at_work(NULL))
		pthread_cond_wait(&the_change, &the_lock);
}

void streams_end(cu_context context)
{
	for (cu_stream s = streams; s; s = s->next)
		if (s->context == context)
			s->is_over = s->is_dropped = true;
	pthread_cond_broadcast(&the_change);
	while (is_at_work(context))
		pthread_cond_wait(&the_change, &the_lock);
}

/* ---- calls ------------------------------------------------------------------ */

static cu_result create(cu_stream *stream, unsigned int flags)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (rc || flags > STREAM_NON_BLOCKING)
		return rc ? rc : CU_INVALID_VALUE;
	return stream_make(stream, context, false);
}

/* What was asked for still happens. */
static cu_result destroy(cu_stream stream)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (rc || !stream)
		return rc ? rc : CU_INVALID_HANDLE;
	rc = stream_of(context, &stream);
	if (rc)
		return rc;
	stream->is_over = true;
	pthread_cond_broadcast(&the_change);
	return CU_OK;
}

static cu_result query(cu_stream stream)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (!rc)
		rc = stream_of(context, &stream);
	return rc ? rc : stream->first ? CU_NOT_READY : CU_OK;
}

static cu_result settle(cu_stream stream)
{
	cu_context context;
	cu_result rc = context_current(&context);

	return rc ? rc : stream_settle(context, stream);
}

static cu_result settle_context(void)
{
	cu_context context;
	cu_result rc = context_current(&context);

	if (rc)
		return rc;
	while (is_at_work(context))
		pthread_cond_wait(&the_change, &the_lock);
	return context_check(context);
}

static cu_result record(cu_event event, cu_stream stream)
{
	struct work w = { .kind = WORK_RECORD, .event = event };
	cu_context context;
	cu_result rc = context_current(&context);

	if (!rc)
		rc = event_check(event);
	if (rc || event->context != context)
		return rc ? rc : CU_INVALID_HANDLE;
	w.turn = event->recorded + 1;
	rc = stream_give(context, stream, &w);
	if (!rc)
		event->recorded++;
	return rc;
}

static cu_result wait_for(cu_stream stream, cu_event event)
{
	struct work w = { .kind = WORK_WAIT, .event = event };
	cu_context context;
	cu_result rc = context_current(&context);

	if (!rc)
		rc = event_check(event);
	if (rc)
		return rc;
	w.turn = event->recorded;
	return stream_give(context, stream, &w);
}

cu_result cuStreamCreate(cu_stream *stream, unsigned int flags)
{
	return CALL(cuStreamCreate, create(stream, flags));
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
	return CALL(cuStreamDestroy_v2, destroy(stream));
}

cu_result cuStreamQuery(cu_stream stream)
{
	return CALL(cuStreamQuery, query(stream));
}

cu_result cuStreamSynchronize(cu_stream stream)
{
	return CALL(cuStreamSynchronize, settle(stream));
}

cu_result cuCtxSynchronize(void)
{
	return CALL(cuCtxSynchronize, settle_context());
}

cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned int flags)
{
	return flags ? CU_INVALID_VALUE : CALL(cuStreamWaitEvent, wait_for(stream, event));
}

cu_result cuEventCreate(cu_event *event, unsigned int flags)
{
	return CALL(cuEventCreate, event_create(event, flags));
}

cu_result cuEventDestroy_v2(cu_event event)
{
	return CALL(cuEventDestroy_v2, event_destroy(event));
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
	return CALL(cuEventRecord, record(event, stream));
}

cu_result cuEventQuery(cu_event event)
{
	return CALL(cuEventQuery, event_query(event));
}

cu_result cuEventSynchronize(cu_event event)
{
	return CALL(cuEventSynchronize, event_wait(event));
}
