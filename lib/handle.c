/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.c - engine handles: made, found, ended.
 *
 * A handle is a place in a small table and how often that place was used before. No
 * pointer leaves the library, so a stale handle is a refusal and never a crash.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/names.h"
#include "lib/backends.h"
#include "lib/lib.h"

#define INDEX_BITS 10
#define ENGINES_MAX (1u << INDEX_BITS)
#define GENERATION_MAX (UINTPTR_MAX >> INDEX_BITS)
#define NO_ENGINE ((tent_engine_t)(uintptr_t)ENGINES_MAX) /* place 0: never live */

static struct lib_engine *engines[ENGINES_MAX];	/* L5; place 0 stays empty */
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER;

/*
 * A word in a page that a child of fork() sees zeroed, so that every call finds out in
 * which process it runs without asking the kernel.
 */
enum { WORD_NEW = 0, WORD_OURS = 1 };
static uint32_t no_word = WORD_NEW;
static uint32_t *process_word = &no_word;	/* L5; set once, under the pool lock */

void lib_pool_lock(void)
{
	pthread_mutex_lock(&pool);
}

void lib_pool_unlock(void)
{
	pthread_mutex_unlock(&pool);
}

bool lib_process_is_ours(void)
{
	return load_relaxed(load_acquire(&process_word)) == WORD_OURS; /* L5 */
}

static int map_process_word(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t *word = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);

	if (word == MAP_FAILED)
		return lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "mmap", "mmap: %m");
	if (madvise(word, size, MADV_WIPEONFORK)) {
		lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "madvise",
			      "madvise(MADV_WIPEONFORK): %m");
		munmap(word, size);
		return TENT_ERR_RUNTIME;
	}
	store_release(&process_word, word); /* L5 */
	return 0;
}

/* fork() may have caught the lock in another thread's hands: the child gets a new one
 * before any of its threads can want it. */
static void child_of_fork(void)
{
	pthread_mutex_init(&pool, NULL);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, child_of_fork);
}

/* A parent's engines, rings and batches mean nothing here; their places start over. */
static void forget_parent(void)
{
	for (uint32_t i = 1; i < ENGINES_MAX; i++) {
		struct lib_engine *e = engines[i];

		if (!e)
			continue;
		store_release(&e->handle, 0ull); /* L5 */
		pthread_rwlock_init(&e->life, NULL);
		pthread_mutex_init(&e->rings_lock, NULL);
		e->used = false;
	}
	lib_batch_forget_all();
}

/* Before the first engine of this process, or of a child. Pool lock. */
static int process_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (lib_process_is_ours())
		return 0;
	pthread_once(&once, watch_forks);
	if (process_word == &no_word && map_process_word())
		return lib_last_error()->error;
	forget_parent();
	store_relaxed(process_word, (uint32_t)WORD_OURS);
	return 0;
}

static struct lib_engine *place_new(uint32_t index)
{
	struct lib_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	pthread_rwlock_init(&e->life, NULL);
	pthread_mutex_init(&e->rings_lock, NULL);
	e->index = index;
	store_release(&engines[index], e); /* L5 */
	return e;
}

/* A place for an engine, or NULL with the error stored. Pool lock. */
static struct lib_engine *place_get(void)
{
	for (uint32_t i = 1; i < ENGINES_MAX; i++) {
		struct lib_engine *e = engines[i];

		if (e && (e->used || e->generation == GENERATION_MAX))
			continue;
		if (!e)
			e = place_new(i);
		if (e)
			return e;
		break;
	}
	lib_fail_text(TENT_ERR_CAPACITY, TENT_RULE_MEM_LIMIT, "engines",
		      "engines are used up; allowed: %u at a time", ENGINES_MAX - 1);
	return NULL;
}

static struct lib_engine *place_take(void)
{
	struct lib_engine *e = NULL;

	lib_pool_lock();
	if (!process_begin())
		e = place_get();
	if (e) {
		e->used = true;
		e->generation++;
		e->failed = false;
		e->nr_rings = 0;
		e->spare = NULL;
		e->spare_texts = NULL;
		e->gpu_memory = NULL;
		e->local = NULL;
		e->client = NULL;
		store_relaxed(&e->closing, 0u);
		store_relaxed(&e->lost, 0u);
		store_relaxed(&e->drives, 0u);
		store_relaxed(&e->drive_lock, 0u);
	}
	lib_pool_unlock();
	return e;
}

static int start_local(struct lib_engine *e, const struct engine_config *config)
{
	char error[256] = "";
	int fd, rc = engine_create(&e->local, config, all_backends, error, sizeof(error));

	if (rc) {
		e->local = NULL;
		return lib_fail_text(rc, rc == TENT_ERR_CONFIG ? TENT_RULE_CONFIG :
				     TENT_RULE_SYSTEM, "engine", "%s", error);
	}
	lib_warn(engine_notices(e->local));
	fd = engine_attach_local(e->local);
	if (fd < 0)
		rc = lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "engine",
				   "no socket to the engine: %s", strerror(-fd));
	else if (tent_client_attach_fd(fd, NULL, &e->client))
		rc = lib_fail_client();
	if (rc) {
		engine_destroy(e->local);
		e->local = NULL;
		e->client = NULL;
	}
	store_relaxed(&e->drives, (uint32_t)config->caller_mode);
	return rc;
}

/* A program that runs in its own process may call itself by an address; the daemon
 * takes plain names only and picks one for the others. */
static const char *daemon_name(const char *wanted)
{
	if (!*wanted)
		return NULL;
	if (name_is_plain(wanted))
		return wanted;
	lib_warn("local_segment_name is no plain name: tentd picks one");
	return NULL;
}

static int start_daemon(struct lib_engine *e, const struct engine_config *config)
{
	if (!tent_client_attach(config->attach_path, daemon_name(config->segment_name),
				&e->client))
		return 0;
	e->client = NULL;
	return lib_fail_client();
}

tent_engine_t tent_create_engine(void)
{
	struct lib_engine *e = place_take();
	struct engine_config config;
	uint64_t handle;
	int rc;

	if (!e)
		return NO_ENGINE;
	rc = lib_settings_resolve(&config);
	if (!rc)
		rc = config.attach_path[0] ? start_daemon(e, &config) : start_local(e, &config);
	if (rc) {
		e->failed = true;
		e->failure = *lib_last_error();
	}
	handle = e->generation << INDEX_BITS | e->index;
	store_release(&e->handle, handle); /* L5 */
	return (tent_engine_t)(uintptr_t)handle;
}

static struct lib_engine *engine_at(tent_engine_t handle)
{
	uint64_t word = (uintptr_t)handle;
	struct lib_engine *e = load_acquire(&engines[word & (ENGINES_MAX - 1)]); /* L5 */

	return e && word && lib_process_is_ours() && lib_engine_is(e, word) ? e : NULL;
}

struct lib_engine *lib_engine_find(tent_engine_t handle)
{
	struct lib_engine *e = engine_at(handle);

	if (!e) {
		lib_fail_field(TENT_RULE_ENGINE_STALE, "engine", (int64_t)(uintptr_t)handle);
		return NULL;
	}
	if (e->failed) {
		lib_fail_again(&e->failure);
		return NULL;
	}
	return e;
}

struct lib_engine *lib_engine_enter(tent_engine_t handle)
{
	struct lib_engine *e = lib_engine_find(handle);

	if (!e)
		return NULL;
	pthread_rwlock_rdlock(&e->life);
	if (lib_engine_is(e, (uintptr_t)handle))
		return e;
	pthread_rwlock_unlock(&e->life);
	lib_fail_field(TENT_RULE_ENGINE_STALE, "engine", (int64_t)(uintptr_t)handle);
	return NULL;
}

void lib_engine_leave(struct lib_engine *e)
{
	pthread_rwlock_unlock(&e->life);
}

int tent_available(tent_engine_t engine)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int alive;

	if (!e)
		return 0;
	alive = tent_client_engine_alive(e->client) && !load_relaxed(&e->lost);
	if (!alive)
		lib_fail(TENT_RULE_ENGINE_LOST, 0);
	lib_engine_leave(e);
	return alive;
}

bool lib_drive(struct lib_engine *e)
{
	bool did;

	if (!load_relaxed(&e->drives) || !lib_trylock(&e->drive_lock))
		return false;
	did = e->local && engine_drive(e->local);
	lib_unlock(&e->drive_lock);
	return did;
}

/* Makes the handle stale; true for the one thread that does. */
static bool begin_close(struct lib_engine *e, uint64_t handle)
{
	bool ours;

	lib_pool_lock();
	ours = lib_engine_is(e, handle);
	if (ours) {
		store_relaxed(&e->closing, 1u);
		store_release(&e->handle, 0ull); /* L5 */
	}
	lib_pool_unlock();
	return ours;
}

static void stop_local(struct lib_engine *e)
{
	struct engine *local;

	lib_lock(&e->drive_lock);
	local = e->local;
	e->local = NULL;
	lib_unlock(&e->drive_lock);
	if (local)
		engine_destroy(local);
}

static void forget_batches(uint64_t handle)
{
	for (uint32_t i = 0; i < lib_batch_count(); i++) {
		struct lib_batch *b = lib_batch_at(i);

		if (load_acquire(&b->engine) == handle) /* L2 */
			lib_batch_drop(b, handle);
	}
}

/*
 * The engine in this process goes first: it ends every request, which also ends the
 * waits of threads that are inside a submit. After the rings are closed and the client
 * is detached, nothing of the engine refers to the program's memory.
 */
void tent_destroy_engine(tent_engine_t engine)
{
	uint64_t handle = (uintptr_t)engine;
	struct lib_engine *e = engine_at(engine);

	if (!e || !begin_close(e, handle))
		return;
	pthread_rwlock_wrlock(&e->life);
	stop_local(e);
	lib_rings_close(e);
	tent_client_detach(e->client);
	forget_batches(handle);
	lib_rings_release(e);
	lib_indirect_forget(e);
	lib_texts_forget(e);
	lib_gpu_forget(e);
	pthread_rwlock_unlock(&e->life);
	lib_pool_lock();
	e->used = false;
	lib_pool_unlock();
}
