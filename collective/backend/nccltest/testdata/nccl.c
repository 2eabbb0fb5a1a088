// A library with the interface of NCCL (nccl.h of 2.21), for tests: ranks are processes of one
// host, which exchange their data through a file that the unique id names. Memory is that of
// libcuda.so.1, or with librccl's name of libamdhip64.so.7, to which it copies on the stream that
// it is given. With -DOLD it has what NCCL had before 2.13: every call blocks.
//
//   NCCLTEST_DIR      where the file lies (/tmp)
//   NCCLTEST_VERSION  NCCL_VERSION_CODE (22105)
//   NCCLTEST_REPORT   a file to which ncclGetVersion adds what it finds in the environment
//   NCCLTEST_TRACE    a file to which each call is added, and "communicator" for each that is made
//   NCCLTEST_RANK     only on this rank, of those that follow; functions are a list with commas:
//   NCCLTEST_FAIL     as in ncclAllReduce:3, what a function returns
//   NCCLTEST_SLOW     as in ncclReduce:200, how many ms a function takes
//   NCCLTEST_BLOCK    functions that do not come back before their communicator is aborted
//   NCCLTEST_STUCK    functions that never come back
//   NCCLTEST_ASYNC    the error that a communicator reports once an operation has begun
//   NCCLTEST_WRONG    1: the first byte of what an operation receives is another one
//
// A communicator that is gone stays in memory: its use is told on standard error, as "nccltest: ...".

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef int ncclResult_t;
enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };
enum { SUM, PROD, MAX, MIN, AVG, OPS };
static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

typedef struct { char internal[128]; } ncclUniqueId;

// The first two members of what 2.14 added, of which this library knows the third.
typedef struct { size_t size; unsigned magic, version; int blocking; } ncclConfig_t;

enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, REDUCE };

struct call {
	enum kind kind;
	const char *name;
	const void *send;
	void *recv;
	size_t count;
	int type, op, root;
	void *stream;
};

#define MOST 16
#define PIECE (1 << 18)

struct file {
	int ranks, attached, aborted;
	int arrived, round;
	struct call calls[MOST];
	char data[MOST][PIECE];
};

struct comm {
	int ranks, rank, blocking;
	struct file *file;
	char path[96];
	volatile int state, aborted, asynchronous;
	const char *volatile gone; // "aborted" or "destroyed"
	pthread_t thread;
	int threaded;
	struct call queue[2 * MOST];
	int queued;
};

static __thread int depth, grouped;
static __thread struct call group[2 * MOST];
static __thread struct comm *group_of;
static __thread char last[128];
static __thread struct comm *own; // the one that this thread has made, whose rank a group is of

// listed is what stands in a variable's list behind a function and a colon; "" if nothing does, and
// NULL if the function is not in it.
static const char *listed(const char *variable, const char *function)
{
	const char *text = getenv(variable);
	size_t n = strlen(function);
	for (; text && *text; text = strchr(text, ',') ? strchr(text, ',') + 1 : "") {
		if (strncmp(text, function, n))
			continue;
		if (text[n] == ':')
			return text + n + 1;
		if (!text[n] || text[n] == ',')
			return "";
	}
	return NULL;
}

static int here(const struct comm *c)
{
	const char *rank = getenv("NCCLTEST_RANK");
	return !rank || !*rank || !c || atoi(rank) == c->rank;
}

static void nap(void)
{
	struct timespec t = { 0, 50000 };
	nanosleep(&t, NULL);
}

static void traced(const char *what)
{
	const char *trace = getenv("NCCLTEST_TRACE");
	FILE *file = trace ? fopen(trace, "a") : NULL;
	if (file) {
		fprintf(file, "%s\n", what);
		fclose(file);
	}
}

static void used(const char *function, const struct comm *c)
{
	if (c && c->gone)
		fprintf(stderr, "nccltest: %s on a communicator that is %s\n", function, c->gone);
}

// enter is what every function does first: what the environment asks of it.
static int enter(const char *function, const struct comm *c)
{
	const char *text;
	traced(function);
	used(function, c);
	if (!here(c))
		return 0;
	if ((text = listed("NCCLTEST_SLOW", function))) {
		struct timespec t = { atoi(text) / 1000, atoi(text) % 1000 * 1000000L };
		nanosleep(&t, NULL);
		used(function, c);
	}
	while (listed("NCCLTEST_STUCK", function))
		nap();
	while (listed("NCCLTEST_BLOCK", function)) {
		if (c && c->aborted)
			return INTERNAL_ERROR; // and does not look at it again
		nap();
	}
	if (!(text = listed("NCCLTEST_FAIL", function)))
		return 0;
	snprintf(last, sizeof last, "%s was told to fail", function);
	return atoi(text);
}

#define ENTER(c) do { int code = enter(__func__, c); if (code) return code; } while (0)

static void report(void)
{
	static const char *names[] = {
		"RCCL_DEBUG", "RCCL_BUFFSIZE", "RCCL_NCHANNELS", "NCCL_DEBUG", "NCCL_BUFFSIZE",
		"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_ALGO", "NCCL_TREE_THRESHOLD",
	};
	const char *path = getenv("NCCLTEST_REPORT");
	FILE *file = path ? fopen(path, "a") : NULL;
	if (!file)
		return;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);
		if (value)
			fprintf(file, "%s=%s\n", names[i], value);
	}
	fclose(file);
}

EXPORT ncclResult_t ncclGetVersion(int *version)
{
	const char *code = getenv("NCCLTEST_VERSION"), *debug = getenv("NCCL_DEBUG"), *file = getenv("NCCL_DEBUG_FILE");
	ENTER(NULL);
	report();
	*version = code ? atoi(code) : 22105;
	if (debug && !strcmp(debug, "INFO")) {
		FILE *out = file ? fopen(file, "w") : stdout;
		if (out) {
			fprintf(out, "NCCL INFO a line of the library's\n");
			fflush(out);
		}
	}
	return SUCCESS;
}

EXPORT const char *ncclGetErrorString(ncclResult_t code)
{
	static const char *texts[] = {
		"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
		"remote process exited or there was a network error", "NCCL operation in progress",
	};
	return code >= 0 && code <= IN_PROGRESS ? texts[code] : "unknown result code";
}

#ifndef OLD
EXPORT const char *ncclGetLastError(struct comm *c) { return last; }
#endif

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	const char *dir = getenv("NCCLTEST_DIR");
	struct timespec now;
	ENTER(NULL);
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (int i = 0; i < 128; i++)
		id->internal[i] = i * 7;
	snprintf(id->internal, 96, "%s/nccltest-%d-%ld", dir ? dir : "/tmp", getpid(), now.tv_nsec);
	int fd = open(id->internal, O_CREAT | O_RDWR | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct file)))
		return SYSTEM_ERROR;
	close(fd);
	return SUCCESS;
}

// met waits until all ranks have come. It is 0, or an error if the communicator is aborted.
static int met(struct comm *c)
{
	struct file *f = c->file;
	int round = __atomic_load_n(&f->round, __ATOMIC_ACQUIRE);
	if (__atomic_add_fetch(&f->arrived, 1, __ATOMIC_ACQ_REL) == c->ranks) {
		__atomic_store_n(&f->arrived, 0, __ATOMIC_RELEASE);
		__atomic_add_fetch(&f->round, 1, __ATOMIC_ACQ_REL);
	}
	for (int i = 0; __atomic_load_n(&f->round, __ATOMIC_ACQUIRE) == round; i++) {
		if (c->aborted)
			return INTERNAL_ERROR;
		if (__atomic_load_n(&f->aborted, __ATOMIC_ACQUIRE))
			return REMOTE_ERROR;
		if (i > 100)
			nap();
	}
	return 0;
}

static int join(struct comm *c)
{
	int code = enter("ncclCommInitRank", c);
	if (code)
		return code;
	int fd = open(c->path, O_RDWR);
	if (fd < 0)
		return SYSTEM_ERROR;
	c->file = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c->file == MAP_FAILED) {
		c->file = NULL;
		return SYSTEM_ERROR;
	}
	code = met(c);
	if (c->rank == 0)
		unlink(c->path);
	return code;
}

static void *joining(void *arg)
{
	struct comm *c = arg;
	c->state = join(c);
	return NULL;
}

static void begin(struct comm *c, void *(*run)(void *))
{
	c->state = IN_PROGRESS;
	c->threaded = !pthread_create(&c->thread, NULL, run, c);
	if (!c->threaded)
		c->state = SYSTEM_ERROR;
}

static void ended(struct comm *c)
{
	if (c->threaded)
		pthread_join(c->thread, NULL);
	c->threaded = 0;
}

static int made(struct comm **out, int ranks, const ncclUniqueId *id, int rank, int blocking)
{
	for (int i = 96; i < 128; i++)
		if (id->internal[i] != (char)(i * 7))
			return INVALID_ARGUMENT; // it came as something else than a copy
	if (ranks < 1 || ranks > MOST || rank < 0 || rank >= ranks)
		return INVALID_ARGUMENT;
	struct comm *c = calloc(1, sizeof *c);
	traced("communicator");
	c->ranks = ranks;
	c->rank = rank;
	c->blocking = blocking;
	memcpy(c->path, id->internal, sizeof c->path);
	*out = own = c;
	if (!blocking) {
		begin(c, joining);
		return IN_PROGRESS;
	}
	return c->state = join(c);
}

EXPORT ncclResult_t ncclCommInitRank(struct comm **out, int ranks, ncclUniqueId id, int rank)
{
	return made(out, ranks, &id, rank, 1);
}

#ifndef OLD
EXPORT ncclResult_t ncclCommInitRankConfig(struct comm **out, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	const struct comm asked = { .rank = rank };
	ENTER(&asked);
	if (config->size < sizeof *config || config->magic != 0xcafebeef || config->version < 21400)
		return INVALID_ARGUMENT;
	return made(out, ranks, &id, rank, config->blocking);
}

EXPORT ncclResult_t ncclCommFinalize(struct comm *c)
{
	ENTER(c);
	ended(c);
	return SUCCESS;
}
#endif

EXPORT ncclResult_t ncclCommDestroy(struct comm *c)
{
	ENTER(c);
	ended(c);
	c->gone = "destroyed";
	if (c->file)
		munmap(c->file, sizeof *c->file);
	return SUCCESS;
}

EXPORT ncclResult_t ncclCommAbort(struct comm *c)
{
	if (c->gone) {
		used(__func__, c);
		return INVALID_ARGUMENT;
	}
	c->aborted = 1;
	if (c->file)
		__atomic_store_n(&c->file->aborted, 1, __ATOMIC_RELEASE);
	unlink(c->path);
	ENTER(c);
	ended(c);
	c->gone = "aborted"; // and keeps the rest, in which another thread may be blocked
	return SUCCESS;
}

EXPORT ncclResult_t ncclCommGetAsyncError(struct comm *c, ncclResult_t *error)
{
	ENTER(c);
	*error = c->asynchronous ? c->asynchronous : c->state;
	return SUCCESS;
}

EXPORT ncclResult_t ncclCommCount(struct comm *c, int *count)
{
	ENTER(c);
	*count = c->ranks;
	return SUCCESS;
}

// The runtime whose memory it is.
static struct {
	int (*to_host)(void *, uint64_t, size_t, void *);
	int (*to_device)(uint64_t, const void *, size_t, void *);
	int (*wait)(void *);
	int (*retain)(void **, int), (*set)(void *); // of CUDA
	int (*set_device)(int);                      // of HIP
} runtime;

#ifdef HIP
#define RUNTIME(cuda, hip) hip
#else
#define RUNTIME(cuda, hip) cuda
#endif

static void find_runtime(void)
{
	void *library = dlopen(RUNTIME("libcuda.so.1", "libamdhip64.so.7"), RTLD_NOW);
	if (!library)
		return;
	*(void **)&runtime.to_host = dlsym(library, RUNTIME("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"));
	*(void **)&runtime.to_device = dlsym(library, RUNTIME("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"));
	*(void **)&runtime.wait = dlsym(library, RUNTIME("cuStreamSynchronize", "hipStreamSynchronize"));
	*(void **)&runtime.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
	*(void **)&runtime.set = dlsym(library, "cuCtxSetCurrent");
	*(void **)&runtime.set_device = dlsym(library, "hipSetDevice");
}

// take and give copy n bytes from and to a device's memory, with the stream's other work.
static int take(const struct call *k, void *to, const char *from, size_t n)
{
	return runtime.to_host(to, (uint64_t)(uintptr_t)from, n, k->stream) || runtime.wait(k->stream) ? CUDA_ERROR : 0;
}

static int give(const struct comm *c, const struct call *k, char *to, char *from, size_t n)
{
	if (listed("NCCLTEST_WRONG", "1") && here(c) && n)
		from[0] ^= 1;
	return runtime.to_device((uint64_t)(uintptr_t)to, from, n, k->stream) || runtime.wait(k->stream) ? CUDA_ERROR : 0;
}

static double real(int type, const char *p)
{
	uint16_t h;
	uint32_t w;
	float f;
	double d;
	switch (type) {
	case FLOAT16: {
		_Float16 x;
		memcpy(&x, p, 2);
		return x;
	}
	case BFLOAT16:
		memcpy(&h, p, 2);
		w = (uint32_t)h << 16;
		memcpy(&f, &w, 4);
		return f;
	case FLOAT32:
		memcpy(&f, p, 4);
		return f;
	}
	memcpy(&d, p, 8);
	return d;
}

static void put_real(int type, char *p, double d)
{
	float f = d;
	uint32_t w;
	uint16_t h;
	switch (type) {
	case FLOAT16: {
		_Float16 x = d;
		memcpy(p, &x, 2);
		return;
	}
	case BFLOAT16:
		memcpy(&w, &f, 4);
		h = (w + 0x7fff + (w >> 16 & 1)) >> 16;
		memcpy(p, &h, 2);
		return;
	case FLOAT32:
		memcpy(p, &f, 4);
		return;
	}
	memcpy(p, &d, 8);
}

static int is_real(int type) { return type >= FLOAT16; }
static int is_signed(int type) { return type == INT8 || type == INT32 || type == INT64; }

// whole reads an integer, extended to 64 bits.
static uint64_t whole(int type, const char *p)
{
	uint64_t v = 0;
	size_t bits = 8 * sizes[type];
	memcpy(&v, p, sizes[type]);
	if (is_signed(type) && bits < 64)
		v = (uint64_t)((int64_t)(v << (64 - bits)) >> (64 - bits));
	return v;
}

static double combine_real(int op, double a, double b)
{
	switch (op) {
	case PROD: return a * b;
	case MAX: return a > b ? a : b;
	case MIN: return a < b ? a : b;
	}
	return a + b;
}

static uint64_t combine(int type, int op, uint64_t a, uint64_t b)
{
	int less = is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
	switch (op) {
	case PROD: return a * b;
	case MAX: return less ? b : a;
	case MIN: return less ? a : b;
	}
	return a + b;
}

// reduced writes n elements of all ranks' pieces into the own one's room.
static void reduced(const struct comm *c, const struct call *k, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = i * sizes[k->type];
		if (is_real(k->type)) {
			double sum = real(k->type, c->file->data[c->ranks - 1] + at);
			for (int r = c->ranks - 2; r >= 0; r--)
				sum = combine_real(k->op, sum, real(k->type, c->file->data[r] + at));
			put_real(k->type, out + at, k->op == AVG ? sum / c->ranks : sum);
			continue;
		}
		uint64_t sum = whole(k->type, c->file->data[c->ranks - 1] + at);
		for (int r = c->ranks - 2; r >= 0; r--)
			sum = combine(k->type, k->op, sum, whole(k->type, c->file->data[r] + at));
		if (k->op == AVG) {
			memcpy(out + at, &sum, sizes[k->type]);
			sum = whole(k->type, out + at);
			sum = is_signed(k->type) ? (uint64_t)((int64_t)sum / c->ranks) : sum / c->ranks;
		}
		memcpy(out + at, &sum, sizes[k->type]);
	}
}

// exchanged runs a call with the other ranks.
static int exchanged(struct comm *c, const struct call *k)
{
	struct file *f = c->file;
	size_t size = sizes[k->type], most = PIECE / size;
	char *mine = f->data[c->rank], *out = malloc(PIECE);
	int code = 0;
	f->calls[c->rank] = *k;
	if ((code = met(c)))
		goto end;
	for (int r = 0; r < c->ranks; r++) {
		const struct call *o = &f->calls[r];
		if (o->kind != k->kind || o->count != k->count || o->type != k->type || o->op != k->op || o->root != k->root)
			code = INVALID_USAGE;
	}
	int second = met(c);
	if (code || (code = second))
		goto end;
	int turns = k->kind == REDUCE_SCATTER ? c->ranks : 1;
	for (int turn = 0; turn < turns; turn++)
		for (size_t from = 0; from < k->count && !code; from += most) {
			size_t n = k->count - from < most ? k->count - from : most, at = from * size;
			const char *send = (const char *)k->send + at + (turn * k->count) * size;
			if ((k->kind != BROADCAST || c->rank == k->root) && (code = take(k, mine, send, n * size)))
				break;
			if ((code = met(c)))
				break;
			switch (k->kind) {
			case REDUCE:
			case REDUCE_SCATTER:
				if (c->rank != (k->kind == REDUCE ? k->root : turn))
					break;
				// fall through
			case ALL_REDUCE:
				reduced(c, k, n, out);
				code = give(c, k, (char *)k->recv + at, out, n * size);
				break;
			case BROADCAST:
				memcpy(out, f->data[k->root], n * size);
				code = give(c, k, (char *)k->recv + at, out, n * size);
				break;
			case ALL_GATHER:
				for (int r = 0; r < c->ranks && !code; r++) {
					memcpy(out, f->data[r], n * size);
					code = give(c, k, (char *)k->recv + at + r * k->count * size, out, n * size);
				}
			}
			second = met(c);
			code = code ? code : second;
		}
end:
	free(out);
	return code;
}

static int run(struct comm *c)
{
	const char *asynchronous = getenv("NCCLTEST_ASYNC");
	int code = 0;
	if (asynchronous && here(c)) {
		c->asynchronous = atoi(asynchronous);
		return 0;
	}
	for (int i = 0; i < c->queued && !code; i++)
		code = exchanged(c, &c->queue[i]);
	c->queued = 0;
	return code;
}

// adopt makes the device of a stream this thread's, as the library's own would be: the first
// one by which the stream can be used.
static int adopt(const struct call *k)
{
	char byte;
	void *context = NULL;
	(void)context;
	for (int device = 0; device < MOST; device++) {
		int code = RUNTIME(runtime.retain(&context, device) || runtime.set(context), runtime.set_device(device));
		if (code)
			break;
		if (!take(k, &byte, k->send, 1))
			return 0;
	}
	return CUDA_ERROR;
}

static void *running(void *arg)
{
	struct comm *c = arg;
	int code = adopt(&c->queue[0]);
	c->state = code ? code : run(c);
	return NULL;
}

static int started(struct comm *c, const struct call *calls, int n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_runtime);
	if (!runtime.to_host || !runtime.to_device || !runtime.wait)
		return CUDA_ERROR;
	if (c->state)
		return c->state == IN_PROGRESS ? INVALID_USAGE : c->state;
	ended(c);
	memcpy(c->queue, calls, n * sizeof *calls);
	c->queued = n;
	if (c->blocking)
		return c->state = run(c);
	begin(c, running);
	return IN_PROGRESS;
}

static int called(struct comm *c, struct call k)
{
	int code = enter(k.name, c);
	if (code)
		return code;
	if (!c || k.type < 0 || k.type >= TYPES || k.op < 0 || k.op >= OPS || k.root < 0 || k.root >= c->ranks)
		return INVALID_ARGUMENT;
	if (!depth)
		return started(c, &k, 1);
	group[grouped++] = k;
	group_of = c;
	return SUCCESS;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
	ENTER(own);
	depth++;
	return SUCCESS;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
	int n = grouped;
	ENTER(own);
	if (!depth)
		return INVALID_USAGE;
	if (--depth || !n)
		return SUCCESS;
	grouped = 0;
	used(__func__, group_of);
	return started(group_of, group, n);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, struct comm *c, void *stream)
{
	return called(c, (struct call){ ALL_REDUCE, __func__, send, recv, count, type, op, 0, stream });
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, struct comm *c, void *stream)
{
	return called(c, (struct call){ REDUCE_SCATTER, __func__, send, recv, count, type, op, 0, stream });
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, int type, struct comm *c, void *stream)
{
	return called(c, (struct call){ ALL_GATHER, __func__, send, recv, count, type, 0, 0, stream });
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, struct comm *c, void *stream)
{
	return called(c, (struct call){ BROADCAST, __func__, send, recv, count, type, 0, root, stream });
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root, struct comm *c, void *stream)
{
	return called(c, (struct call){ REDUCE, __func__, send, recv, count, type, op, root, stream });
}
