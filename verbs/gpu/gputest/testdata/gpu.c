// A runtime of GPUs on the host's memory, with the ABI of libcuda (cuda.h) or, with -DHIP, of
// libamdhip64 (hip_runtime_api.h). The memory of a device can be touched by what runs on it alone:
// a host that follows its address faults.
//
//   RINGTEST_GPUS=N         devices (2)
//   RINGTEST_GPU_FAIL=a=1,b=2@3  the function a returns 1, b from its third call on 2
//   RINGTEST_GPU_NOPEER=1   no device accesses another
//   RINGTEST_GPU_FAST=1     they are joined by NVLink, XGMI
//   RINGTEST_GPU_SLOW=US    each piece of work of a stream takes so long
//   RINGTEST_GPU_STUCK=N    the kernel that is launched as the Nth does not end
//   RINGTEST_GPU_HUNG=N     the piece of work that runs as the Nth does not end, nor does any later one
//   RINGTEST_GPU_SIGNALS=1  the start, and each context's, install handlers that end the process with 77
//   RINGTEST_GPU_MAPPED=1   the host can touch the devices' memory, as an adapter with peer memory can
#define _GNU_SOURCE
#include "gpu.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef HIP
#define NAME(cuda, hip) hip
#else
#define NAME(cuda, hip) cuda
#endif

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200, BAD_CONTEXT = 201,
	ALREADY_MAPPED = 208, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, ALREADY_ENABLED = 704 };

#define MOST 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int started, count;
static int enabled[MOST][MOST];
#ifdef HIP
static __thread int current = 0;
#else
static __thread int current = -1;
#endif

static long number(const char *variable, long otherwise)
{
	const char *text = getenv(variable);
	return text && *text ? atol(text) : otherwise;
}

// failure is what a call is to return besides what it does.
static int failure(const char *name, long *called)
{
	const char *text = getenv("RINGTEST_GPU_FAIL");
	size_t length = strlen(name);
	long nth = __atomic_add_fetch(called, 1, __ATOMIC_RELAXED);
	for (; text && *text; text = strchr(text, ',') ? strchr(text, ',') + 1 : "") {
		if (strncmp(text, name, length) || text[length] != '=')
			continue;
		char *rest;
		int code = strtol(text + length + 1, &rest, 10);
		if (*rest != '@' || nth >= atol(rest + 1))
			return code;
	}
	return OK;
}

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define CALL(cuda, hip, ...) __attribute__((visibility("default"))) int NAME(cuda, hip)(__VA_ARGS__)
#define MAY_FAIL(cuda, hip) do { static long called; int code = failure(NAME(#cuda, #hip), &called); if (code) return code; } while (0)
#define NEEDS_CONTEXT do { if (current < 0) return BAD_CONTEXT; } while (0)

// Memory.

struct block {
	struct block *next;
	char *address; // as devices have it
	char *view;    // as this library does
	size_t n, mapped;
	int fd, device; // fd is -1 for the host's
	int opened;
};
static struct block *blocks;

// find is the block in which n bytes lie. The lock is held.
static struct block *find(uint64_t address, size_t n)
{
	for (struct block *b = blocks; b; b = b->next)
		if (address >= (uint64_t)b->address && address - (uint64_t)b->address <= b->n && n <= b->n - (address - (uint64_t)b->address))
			return b;
	return NULL;
}

static struct block *map(int fd, size_t n, int device)
{
	size_t mapped = (n + 4095) / 4096 * 4096;
	struct block *b = calloc(1, sizeof *b);
	int own = number("RINGTEST_GPU_MAPPED", 0) ? PROT_READ | PROT_WRITE : PROT_NONE;
	b->n = n, b->mapped = mapped, b->fd = fd, b->device = device;
	b->address = mmap(NULL, mapped, own, MAP_SHARED, fd, 0);
	b->view = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b->address == MAP_FAILED || b->view == MAP_FAILED) {
		free(b);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	b->next = blocks, blocks = b;
	pthread_mutex_unlock(&lock);
	return b;
}

static int unmap(uint64_t address, int device, int opened)
{
	pthread_mutex_lock(&lock);
	for (struct block **p = &blocks; *p; p = &(*p)->next) {
		struct block *b = *p;
		if ((uint64_t)b->address != address || (b->device >= 0) != device || b->opened != opened)
			continue;
		*p = b->next;
		pthread_mutex_unlock(&lock);
		munmap(b->address, b->mapped);
		if (b->view != b->address)
			munmap(b->view, b->mapped);
		if (b->fd >= 0)
			close(b->fd);
		free(b);
		return OK;
	}
	pthread_mutex_unlock(&lock);
	return INVALID;
}

static __thread int faulted;

void *at(const struct launch *l, uint64_t address, size_t n)
{
	pthread_mutex_lock(&lock);
	struct block *b = find(address, n);
	int allowed = b && (b->device < 0 || b->device == l->device || b->opened || enabled[l->device][b->device]);
	pthread_mutex_unlock(&lock);
	if (!allowed) {
		faulted = 1;
		return NULL;
	}
	return b->view + (address - (uint64_t)b->address);
}

CALL(cuMemAlloc_v2, hipMalloc, uint64_t *address, size_t n)
{
	MAY_FAIL(cuMemAlloc_v2, hipMalloc);
	NEEDS_CONTEXT;
	if (!n)
		return INVALID;
	if (n > (size_t)8 << 30)
		return NO_MEMORY;
	int fd = memfd_create("gputest", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (n + 4095) / 4096 * 4096))
		return NO_MEMORY;
	struct block *b = map(fd, n, current);
	if (!b)
		return NO_MEMORY;
	memset(b->view, 0xdb, n); // memory of a device is not zeroed
	*address = (uint64_t)b->address;
	return OK;
}

CALL(cuMemFree_v2, hipFree, uint64_t address)
{
	MAY_FAIL(cuMemFree_v2, hipFree);
	NEEDS_CONTEXT;
	return address ? unmap(address, 1, 0) : OK;
}

CALL(cuMemHostAlloc, hipHostMalloc, void **address, size_t n, unsigned flags)
{
	MAY_FAIL(cuMemHostAlloc, hipHostMalloc);
	NEEDS_CONTEXT;
	struct block *b = calloc(1, sizeof *b);
	b->n = n, b->mapped = (n + 4095) / 4096 * 4096, b->fd = -1, b->device = -1;
	b->address = b->view = mmap(NULL, b->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->address == MAP_FAILED)
		return NO_MEMORY;
	pthread_mutex_lock(&lock);
	b->next = blocks, blocks = b;
	pthread_mutex_unlock(&lock);
	*address = b->address;
	return flags & ~7u ? INVALID : OK;
}

CALL(cuMemFreeHost, hipHostFree, void *address)
{
	MAY_FAIL(cuMemFreeHost, hipHostFree);
	return unmap((uint64_t)address, 0, 0);
}

CALL(cuMemHostRegister_v2, hipHostRegister, void *address, size_t n, unsigned flags)
{
	MAY_FAIL(cuMemHostRegister_v2, hipHostRegister);
	NEEDS_CONTEXT;
	struct block *b = calloc(1, sizeof *b);
	b->n = n, b->fd = -1, b->device = -1, b->opened = 2;
	b->address = b->view = address;
	pthread_mutex_lock(&lock);
	b->next = blocks, blocks = b;
	pthread_mutex_unlock(&lock);
	return n && !(flags & ~7u) ? OK : INVALID;
}

CALL(cuMemHostUnregister, hipHostUnregister, void *address)
{
	MAY_FAIL(cuMemHostUnregister, hipHostUnregister);
	pthread_mutex_lock(&lock);
	struct block **p = &blocks, *b;
	while ((b = *p) && (b->address != address || b->opened != 2))
		p = &b->next;
	if (b)
		*p = b->next;
	pthread_mutex_unlock(&lock);
	free(b);
	return b ? OK : 713; // HOST_MEMORY_NOT_REGISTERED
}

CALL(cuMemGetAddressRange_v2, hipMemGetAddressRange, uint64_t *start, size_t *n, uint64_t address)
{
	MAY_FAIL(cuMemGetAddressRange_v2, hipMemGetAddressRange);
	pthread_mutex_lock(&lock);
	struct block *b = find(address, 1);
	if (b)
		*start = (uint64_t)b->address, *n = b->n;
	pthread_mutex_unlock(&lock);
	return b ? OK : INVALID;
}

CALL(cuPointerGetAttribute, hipPointerGetAttribute, int *value, int attribute, uint64_t address)
{
	MAY_FAIL(cuPointerGetAttribute, hipPointerGetAttribute);
	pthread_mutex_lock(&lock);
	struct block *b = find(address, 1);
	if (b)
		*value = attribute == 9 ? b->device : b->device < 0 ? 1 : 2; // ordinal, type
	pthread_mutex_unlock(&lock);
	return b && (attribute == 2 || attribute == 9) ? OK : INVALID;
}

CALL(cuMemGetHandleForAddressRange, hipMemGetHandleForAddressRange, void *handle, uint64_t address, size_t n, int type, unsigned long long flags)
{
	MAY_FAIL(cuMemGetHandleForAddressRange, hipMemGetHandleForAddressRange);
	NEEDS_CONTEXT;
	if (type != 1 || flags || address % 4096 || n % 4096)
		return INVALID;
	pthread_mutex_lock(&lock);
	struct block *b = find(address, 1);
	int fd = b && b->device >= 0 && address == (uint64_t)b->address && n <= b->mapped ? fcntl(b->fd, F_DUPFD_CLOEXEC, 0) : -1;
	pthread_mutex_unlock(&lock);
	*(int *)handle = fd;
	return fd < 0 ? INVALID : OK;
}

#ifndef HIP
CALL(cuFlushGPUDirectRDMAWrites, , int target, int scope)
{
	MAY_FAIL(cuFlushGPUDirectRDMAWrites, );
	NEEDS_CONTEXT;
	return target == 0 && scope == 100 ? OK : INVALID;
}
#endif

// A handle is of 64 bytes, passed by value.
struct handle {
	uint64_t magic, pid, fd, n, device, rest[3];
};
#define MAGIC 0x67707574657374ULL

CALL(cuIpcGetMemHandle, hipIpcGetMemHandle, struct handle *h, uint64_t address)
{
	MAY_FAIL(cuIpcGetMemHandle, hipIpcGetMemHandle);
	NEEDS_CONTEXT;
	pthread_mutex_lock(&lock);
	struct block *b = find(address, 1);
	if (b && b->device >= 0 && !b->opened)
		*h = (struct handle){MAGIC, getpid(), b->fd, b->n, b->device, {1, 2, 3}};
	else
		b = NULL;
	pthread_mutex_unlock(&lock);
	return b ? OK : INVALID;
}

CALL(cuIpcOpenMemHandle_v2, hipIpcOpenMemHandle, uint64_t *address, struct handle h, unsigned flags)
{
	MAY_FAIL(cuIpcOpenMemHandle_v2, hipIpcOpenMemHandle);
	NEEDS_CONTEXT;
	if (h.magic != MAGIC || flags != NAME(1, 0) || h.rest[0] != 1 || h.rest[1] != 2 || h.rest[2] != 3)
		return INVALID;
	if (h.pid == getpid())
		return BAD_CONTEXT;
	if (h.device != current && number("RINGTEST_GPU_NOPEER", 0))
		return 217; // PEER_ACCESS_UNSUPPORTED
	char path[64];
	snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)h.pid, (unsigned long long)h.fd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct block *b = fd < 0 ? NULL : map(fd, h.n, h.device);
	if (!b)
		return INVALID;
	b->opened = 1;
	*address = (uint64_t)b->address;
	return OK;
}

CALL(cuIpcCloseMemHandle, hipIpcCloseMemHandle, uint64_t address)
{
	MAY_FAIL(cuIpcCloseMemHandle, hipIpcCloseMemHandle);
	NEEDS_CONTEXT;
	return unmap(address, 1, 1);
}

// The start, and devices.

static void ends(int sig)
{
	(void)sig;
	_exit(77);
}

static void install(void)
{
	if (!number("RINGTEST_GPU_SIGNALS", 0))
		return;
	struct sigaction a = {.sa_handler = ends};
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
}

CALL(cuInit, hipInit, unsigned flags)
{
	MAY_FAIL(cuInit, hipInit);
	if (flags)
		return INVALID;
	install();
	count = number("RINGTEST_GPUS", 2);
	started = 1;
	return count ? OK : NO_DEVICE;
}

CALL(cuDriverGetVersion, hipRuntimeGetVersion, int *version)
{
	MAY_FAIL(cuDriverGetVersion, hipRuntimeGetVersion);
	*version = NAME(12040, 60241133);
	return OK;
}

static const char *nameOf(int code)
{
	switch (code) {
	case OK: return NAME("CUDA_SUCCESS", "hipSuccess");
	case INVALID: return NAME("CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue");
	case NO_MEMORY: return NAME("CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory");
	case NO_DEVICE: return NAME("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice");
	case BAD_CONTEXT: return NAME("CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext");
	case NOT_READY: return NAME("CUDA_ERROR_NOT_READY", "hipErrorNotReady");
	case ILLEGAL_ADDRESS: return NAME("CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress");
	}
	return NULL;
}

#ifdef HIP
__attribute__((visibility("default"))) const char *hipGetErrorName(int code)
{
	return nameOf(code) ? nameOf(code) : "hipErrorUnknown";
}

__attribute__((visibility("default"))) const char *hipGetErrorString(int code)
{
	return nameOf(code) ? "what gputest says of it" : "unknown error";
}
#else
CALL(cuGetErrorName, , int code, const char **text)
{
	*text = nameOf(code);
	return *text ? OK : INVALID;
}

CALL(cuGetErrorString, , int code, const char **text)
{
	*text = nameOf(code) ? "what gputest says of it" : NULL;
	return *text ? OK : INVALID;
}
#endif

CALL(cuDeviceGetCount, hipGetDeviceCount, int *n)
{
	MAY_FAIL(cuDeviceGetCount, hipGetDeviceCount);
	*n = count;
	return started ? OK : NOT_INITIALIZED;
}

CALL(cuDeviceGet, hipDeviceGet, int *device, int i)
{
	MAY_FAIL(cuDeviceGet, hipDeviceGet);
	*device = i;
	return i >= 0 && i < count ? OK : BAD_DEVICE;
}

CALL(cuDeviceGetName, hipDeviceGetName, char *name, int n, int device)
{
	MAY_FAIL(cuDeviceGetName, hipDeviceGetName);
	snprintf(name, n, "Test GPU %d", device);
	return OK;
}

CALL(cuDeviceTotalMem_v2, hipDeviceTotalMem, size_t *n, int device)
{
	MAY_FAIL(cuDeviceTotalMem_v2, hipDeviceTotalMem);
	*n = (size_t)8 << 30;
	return device < count ? OK : BAD_DEVICE;
}

CALL(cuDeviceGetUuid, hipDeviceGetUuid, unsigned char *uuid, int device)
{
	MAY_FAIL(cuDeviceGetUuid, hipDeviceGetUuid);
	for (int i = 0; i < 16; i++)
		uuid[i] = device * 16 + i;
	return OK;
}

CALL(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId, char *text, int n, int device)
{
	MAY_FAIL(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId);
	snprintf(text, n, "0000:%02X:00.0", 0x1a + 0x20 * device);
	return OK;
}

CALL(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer, int *can, int device, int peer)
{
	MAY_FAIL(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer);
	*can = device != peer && !number("RINGTEST_GPU_NOPEER", 0);
	return OK;
}

CALL(cuDeviceGetP2PAttribute, hipDeviceGetP2PAttribute, int *value, int attribute, int device, int peer)
{
	MAY_FAIL(cuDeviceGetP2PAttribute, hipDeviceGetP2PAttribute);
	*value = attribute == 3 && number("RINGTEST_GPU_FAST", 0);
	return device == peer ? INVALID : OK;
}

#ifdef HIP
CALL(, hipSetDevice, int device)
{
	MAY_FAIL(, hipSetDevice);
	static int used[MOST]; // a context is made by the first call
	if (device < 0 || device >= count)
		return BAD_DEVICE;
	if (!__atomic_exchange_n(&used[device], 1, __ATOMIC_SEQ_CST))
		install();
	current = device;
	return OK;
}

CALL(, hipExtGetLinkTypeAndHopCount, int device, int peer, uint32_t *type, uint32_t *hops)
{
	MAY_FAIL(, hipExtGetLinkTypeAndHopCount);
	*type = number("RINGTEST_GPU_FAST", 0) ? 4 : 2, *hops = 1;
	return device == peer ? INVALID : OK;
}

CALL(, hipDeviceEnablePeerAccess, int peer, unsigned flags)
#else
CALL(cuDeviceGetAttribute, , int *value, int attribute, int device)
{
	MAY_FAIL(cuDeviceGetAttribute, );
	*value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 124 ? 1 : -1;
	return *value < 0 || device >= count ? INVALID : OK;
}

// A context is the address of its device's row.
CALL(cuDevicePrimaryCtxRetain, , void **context, int device)
{
	MAY_FAIL(cuDevicePrimaryCtxRetain, );
	install();
	*context = enabled[device];
	return OK;
}

static int deviceOf(void *context)
{
	return context ? (int (*)[MOST])context - enabled : -1;
}

CALL(cuCtxSetCurrent, , void *context)
{
	MAY_FAIL(cuCtxSetCurrent, );
	int device = deviceOf(context);
	if (device < -1 || device >= count)
		return BAD_CONTEXT;
	current = device;
	return OK;
}

CALL(cuCtxEnablePeerAccess, , void *context, unsigned flags)
#endif
{
	MAY_FAIL(cuCtxEnablePeerAccess, hipDeviceEnablePeerAccess);
	NEEDS_CONTEXT;
#ifndef HIP
	int peer = deviceOf(context);
#endif
	if (flags || peer < 0 || peer >= count || number("RINGTEST_GPU_NOPEER", 0))
		return INVALID;
	pthread_mutex_lock(&lock);
	int was = enabled[current][peer];
	enabled[current][peer] = 1;
	pthread_mutex_unlock(&lock);
	return was ? ALREADY_ENABLED : OK;
}

// Streams are threads that take work from a queue.

struct event {
	int device, reached, recorded;
	struct timespec when;
};

struct work {
	struct work *next;
	enum { COPY, FILL, KERNEL, RECORD, WAIT, WRITE, AWAIT } what;
	uint64_t dst, src; // of the devices or of the host
	size_t n;
	char *staged; // what COPY reads instead of src
	int value;
	const struct kernel *kernel;
	struct launch launch;
	struct event *event;
};

struct stream {
	pthread_t thread;
	int device, ending, code;
	size_t queued; // what has not run
	struct work *first, **last;
};

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

// side is where an address lies: the host's own memory is as it is.
static char *side(const struct launch *l, uint64_t address, size_t n)
{
	pthread_mutex_lock(&lock);
	struct block *b = find(address, n);
	pthread_mutex_unlock(&lock);
	(void)l; // copies between devices need no access
	return b ? b->view + (address - (uint64_t)b->address) : (char *)address;
}

static void run(struct stream *s, struct work *w)
{
	static long ran;
	long hung = number("RINGTEST_GPU_HUNG", 0), slow = number("RINGTEST_GPU_SLOW", 0);
	while (__atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED) >= hung && hung)
		sleep(3600);
	if (slow)
		usleep(slow);
	w->launch.device = s->device;
	switch (w->what) {
	case COPY:
		memmove(side(&w->launch, w->dst, w->n), w->staged ? w->staged : side(&w->launch, w->src, w->n), w->n);
		break;
	case FILL: {
		char *to = at(&w->launch, w->dst, w->n);
		if (to)
			memset(to, w->value, w->n);
		break;
	}
	case KERNEL: {
		static long launched;
		if (__atomic_add_fetch(&launched, 1, __ATOMIC_RELAXED) == number("RINGTEST_GPU_STUCK", 0))
			sleep(3600);
		w->kernel->run(&w->launch);
		break;
	}
	case RECORD:
		pthread_mutex_lock(&lock);
		clock_gettime(CLOCK_MONOTONIC, &w->event->when);
		w->event->reached = w->event->recorded;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		break;
	case WAIT:
		pthread_mutex_lock(&lock);
		while (w->event->reached < w->value)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		break;
	case WRITE:
	case AWAIT: {
		uint32_t *word = at(&w->launch, w->dst, sizeof *word);
		if (!word)
			break;
		if (w->what == WRITE)
			__atomic_store_n(word, w->value, __ATOMIC_SEQ_CST);
		else
			while ((int32_t)(__atomic_load_n(word, __ATOMIC_SEQ_CST) - (uint32_t)w->value) < 0)
				usleep(20);
	}
	}
}

static void *serve(void *arg)
{
	struct stream *s = arg;
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	for (;;) {
		pthread_mutex_lock(&lock);
		while (!s->first && !s->ending)
			pthread_cond_wait(&changed, &lock);
		struct work *w = s->first;
		if (w && !(s->first = w->next))
			s->last = &s->first;
		pthread_mutex_unlock(&lock);
		if (!w)
			break;
		faulted = 0;
		if (!s->code)
			run(s, w);
		pthread_mutex_lock(&lock);
		if (faulted)
			s->code = ILLEGAL_ADDRESS;
		s->queued--;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		free(w->staged);
		free(w);
	}
	free(s);
	return NULL;
}

static int put(struct stream *s, struct work w, int wait)
{
	if (!s || s->device != current)
		return BAD_HANDLE;
	struct work *one = malloc(sizeof *one);
	*one = w;
	one->next = NULL;
	pthread_mutex_lock(&lock);
	*s->last = one, s->last = &one->next;
	s->queued++;
	pthread_cond_broadcast(&changed);
	while (wait && s->queued)
		pthread_cond_wait(&changed, &lock);
	int code = s->code;
	pthread_mutex_unlock(&lock);
	return code;
}

CALL(cuStreamCreate, hipStreamCreateWithFlags, struct stream **stream, unsigned flags)
{
	MAY_FAIL(cuStreamCreate, hipStreamCreateWithFlags);
	NEEDS_CONTEXT;
	struct stream *s = calloc(1, sizeof *s);
	s->device = current, s->last = &s->first;
	if (flags > 1 || pthread_create(&s->thread, NULL, serve, s))
		return INVALID;
	pthread_detach(s->thread);
	*stream = s;
	return OK;
}

CALL(cuStreamQuery, hipStreamQuery, struct stream *s)
{
	MAY_FAIL(cuStreamQuery, hipStreamQuery);
	NEEDS_CONTEXT;
	if (!s)
		return OK;
	pthread_mutex_lock(&lock);
	int code = s->code ? s->code : s->queued ? NOT_READY : OK;
	pthread_mutex_unlock(&lock);
	return code;
}

CALL(cuStreamSynchronize, hipStreamSynchronize, struct stream *s)
{
	MAY_FAIL(cuStreamSynchronize, hipStreamSynchronize);
	NEEDS_CONTEXT;
	pthread_mutex_lock(&lock);
	while (s->queued)
		pthread_cond_wait(&changed, &lock);
	int code = s->code;
	pthread_mutex_unlock(&lock);
	return code;
}

CALL(cuStreamDestroy_v2, hipStreamDestroy, struct stream *s)
{
	MAY_FAIL(cuStreamDestroy_v2, hipStreamDestroy);
	pthread_mutex_lock(&lock);
	s->ending = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return OK;
}

// pinned tells whether memory is the host's, of this library.
static int pinned(uint64_t address, size_t n)
{
	pthread_mutex_lock(&lock);
	struct block *b = find(address, n);
	pthread_mutex_unlock(&lock);
	return b && b->device < 0;
}

// ofDevice tells whether all of it is a device's.
static int ofDevice(uint64_t address, size_t n)
{
	pthread_mutex_lock(&lock);
	struct block *b = find(address, n);
	pthread_mutex_unlock(&lock);
	return b && b->device >= 0;
}

CALL(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync, uint64_t dst, const void *src, size_t n, struct stream *s)
{
	MAY_FAIL(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync);
	NEEDS_CONTEXT;
	if (!ofDevice(dst, n))
		return INVALID;
	struct work w = {.what = COPY, .dst = dst, .src = (uint64_t)src, .n = n};
	if (!pinned(w.src, n))
		w.staged = memcpy(malloc(n), src, n); // what is not pinned has been read when the call returns
	return put(s, w, 0);
}

CALL(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync, void *dst, uint64_t src, size_t n, struct stream *s)
{
	MAY_FAIL(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync);
	NEEDS_CONTEXT;
	if (!ofDevice(src, n))
		return INVALID;
	return put(s, (struct work){.what = COPY, .dst = (uint64_t)dst, .src = src, .n = n}, !pinned((uint64_t)dst, n));
}

CALL(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync, uint64_t dst, uint64_t src, size_t n, struct stream *s)
{
	MAY_FAIL(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync);
	NEEDS_CONTEXT;
	if (!ofDevice(dst, n) || !ofDevice(src, n))
		return INVALID;
	return put(s, (struct work){.what = COPY, .dst = dst, .src = src, .n = n}, 0);
}

CALL(cuMemsetD8Async, hipMemsetD8Async, uint64_t dst, unsigned char value, size_t n, struct stream *s)
{
	MAY_FAIL(cuMemsetD8Async, hipMemsetD8Async);
	NEEDS_CONTEXT;
	return put(s, (struct work){.what = FILL, .dst = dst, .value = value, .n = n}, 0);
}

CALL(cuStreamWriteValue32_v2, hipStreamWriteValue32, struct stream *s, uint64_t address, uint32_t value, unsigned flags)
{
	MAY_FAIL(cuStreamWriteValue32_v2, hipStreamWriteValue32);
	NEEDS_CONTEXT;
	return flags || address % 4 ? INVALID : put(s, (struct work){.what = WRITE, .dst = address, .value = value}, 0);
}

CALL(cuStreamWaitValue32_v2, hipStreamWaitValue32, struct stream *s, uint64_t address, uint32_t value, unsigned flags, uint32_t mask)
{
	MAY_FAIL(cuStreamWaitValue32_v2, hipStreamWaitValue32);
	NEEDS_CONTEXT;
	return flags || address % 4 ? INVALID : put(s, (struct work){.what = AWAIT, .dst = address, .value = value}, 0);
}

CALL(cuEventCreate, hipEventCreateWithFlags, struct event **event, unsigned flags)
{
	MAY_FAIL(cuEventCreate, hipEventCreateWithFlags);
	NEEDS_CONTEXT;
	*event = calloc(1, sizeof **event);
	(*event)->device = current;
	return flags & ~3u ? INVALID : OK;
}

CALL(cuEventRecord, hipEventRecord, struct event *event, struct stream *s)
{
	MAY_FAIL(cuEventRecord, hipEventRecord);
	NEEDS_CONTEXT;
	if (event->device != current)
		return BAD_HANDLE;
	pthread_mutex_lock(&lock);
	event->recorded++;
	pthread_mutex_unlock(&lock);
	return put(s, (struct work){.what = RECORD, .event = event}, 0);
}

CALL(cuStreamWaitEvent, hipStreamWaitEvent, struct stream *s, struct event *event, unsigned flags)
{
	MAY_FAIL(cuStreamWaitEvent, hipStreamWaitEvent);
	NEEDS_CONTEXT;
	return flags ? INVALID : put(s, (struct work){.what = WAIT, .event = event, .value = event->recorded}, 0);
}

CALL(cuEventElapsedTime, hipEventElapsedTime, float *ms, struct event *from, struct event *to)
{
	MAY_FAIL(cuEventElapsedTime, hipEventElapsedTime);
	if (!from->recorded || !to->recorded)
		return BAD_HANDLE;
	if (from->reached < from->recorded || to->reached < to->recorded)
		return NOT_READY;
	*ms = (to->when.tv_sec - from->when.tv_sec) * 1e3 + (to->when.tv_nsec - from->when.tv_nsec) / 1e6;
	return OK;
}

CALL(cuEventDestroy_v2, hipEventDestroy, struct event *event)
{
	MAY_FAIL(cuEventDestroy_v2, hipEventDestroy);
	free(event);
	return OK;
}

// Code: an image has the names of its kernels, PTX after .entry, a code object as hiprtc's has its source.

struct module {
	int device;
	char *image;
};

struct function {
	int device;
	const struct kernel *kernel;
};

CALL(cuModuleLoadDataEx, hipModuleLoadDataEx, struct module **module, const char *image, unsigned options, const int *option, void **values)
{
	MAY_FAIL(cuModuleLoadDataEx, hipModuleLoadDataEx);
	NEEDS_CONTEXT;
	if (!strstr(image, NAME(".version", "gputest code"))) {
		for (unsigned i = 0; i < options; i++)
			if (option[i] == 5)
				snprintf(values[i], 64, "line 1: no .version");
		return BAD_IMAGE;
	}
	struct module *m = calloc(1, sizeof *m);
	m->device = current, m->image = strdup(image);
	*module = m;
	return OK;
}

CALL(cuModuleUnload, hipModuleUnload, struct module *m)
{
	MAY_FAIL(cuModuleUnload, hipModuleUnload);
	free(m->image);
	free(m);
	return OK;
}

static const struct kernel *named(const struct kernel *k, const char *name)
{
	while (k->name && strcmp(k->name, name))
		k++;
	return k->name ? k : NULL;
}

CALL(cuModuleGetFunction, hipModuleGetFunction, struct function **function, struct module *m, const char *name)
{
	MAY_FAIL(cuModuleGetFunction, hipModuleGetFunction);
#ifndef HIP // whose macros may make a name
	if (!strstr(m->image, name))
		return NOT_FOUND;
#endif
	const struct kernel *k = named(kernels, name);
	if (!k && more_kernels)
		k = named(more_kernels, name);
	if (!k)
		return NOT_FOUND;
	*function = calloc(1, sizeof **function); // lives as long as its module, here for ever
	**function = (struct function){m->device, k};
	return OK;
}

CALL(cuLaunchKernel, hipModuleLaunchKernel, struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, struct stream *s, void **args, void **extra)
{
	MAY_FAIL(cuLaunchKernel, hipModuleLaunchKernel);
	NEEDS_CONTEXT;
	if (!gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra || f->device != current)
		return INVALID;
	struct work w = {.what = KERNEL, .kernel = f->kernel, .launch = {.grid = gx, .block = bx}};
	for (int i = 0; i < f->kernel->arguments; i++)
		memcpy(&w.launch.args[i], args[i], 8);
	return put(s, w, 0);
}
