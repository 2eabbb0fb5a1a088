// What the machine allows, measured by threads of one process: a copy, the least that
// an all-reduce has to move, and how far the CPUs are from each other at the moment.
// Usage: limits DIRECTORY BYTES THREADS PIN, where a thread is pinned as a rank is.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "orders.h"

enum { most = 128 };

static int threads, pin;
static float *in[most], *out[most];

// An order, for all threads.
static char what;
static size_t count; // elements of the vector
static long iters, warmup;
static atomic_int arrived;
static double elapsed[most];

// For the ping-pong: a line, and nothing beside it.
static struct {
    _Alignas(128) atomic_long turn;
    char rest[120];
} line_of_cache;

static void pin_to(int nth) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && nth-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

// Each thread has its part [lo, hi) of all inputs, and writes their sum to all outputs.
static inline __attribute__((always_inline)) void sum(size_t lo, size_t hi, int n) {
    for (size_t i = lo; i < hi; i++) {
        float s = in[0][i];
        for (int k = 1; k < n; k++) s += in[k][i];
        for (int k = 0; k < n; k++) out[k][i] = s;
    }
}
#ifdef __x86_64__
// The same by AVX2, from 32-byte boundaries on; small parts have fewer than one.
static inline __attribute__((always_inline, target("avx2"))) void sum_avx2(size_t lo, size_t hi, int n, int stream) {
    size_t from = (lo + 7) / 8 * 8, to = hi / 8 * 8;
    if (from >= to) {
        sum(lo, hi, n);
        return;
    }
    sum(lo, from, n);
    for (size_t i = from; i < to; i += 8) {
        __m256 s = _mm256_load_ps(in[0] + i);
        for (int k = 1; k < n; k++) s = _mm256_add_ps(s, _mm256_load_ps(in[k] + i));
        for (int k = 0; k < n; k++)
            if (stream) _mm256_stream_ps(out[k] + i, s);
            else _mm256_store_ps(out[k] + i, s);
    }
    if (stream) _mm_sfence();
    sum(to, hi, n);
}
// With the number of vectors known, so that the loops over them are no loops.
static __attribute__((target("avx2"))) void sum_of(size_t lo, size_t hi, int stream) {
    if (threads == 2 && stream) sum_avx2(lo, hi, 2, 1);
    else if (threads == 2) sum_avx2(lo, hi, 2, 0);
    else if (threads == 4 && stream) sum_avx2(lo, hi, 4, 1);
    else if (threads == 4) sum_avx2(lo, hi, 4, 0);
    else sum_avx2(lo, hi, threads, stream);
}
#endif

static void once(int t) {
    size_t lo = count * t / threads, hi = count * (t + 1) / threads;
    switch (what) {
    case 'a': // memcpy of what a rank receives of an all-reduce or an all-gather
    case 'g': memcpy(out[t], in[t], count * sizeof(float)); break;
    case 'r': memcpy(out[t], in[t], (hi - lo) * sizeof(float)); break;
#ifdef __x86_64__
    case 'f':
        if (__builtin_cpu_supports("avx2")) sum_of(lo, hi, 0);
        else sum(lo, hi, threads);
        break;
    case 'n':
        if (__builtin_cpu_supports("avx2")) sum_of(lo, hi, 1);
        else sum(lo, hi, threads);
        break;
#else
    case 'f':
    case 'n': sum(lo, hi, threads); break;
#endif
    }
    atomic_signal_fence(memory_order_seq_cst); // a copy that nobody reads is made all the same
}

static void *copier(void *p) {
    int t = (int)(size_t)p;
    if (pin) pin_to(t);
    for (long i = 0; i < warmup; i++) once(t);
    // More threads than CPUs: who waits makes room.
    for (atomic_fetch_add(&arrived, 1); atomic_load(&arrived) < threads;) sched_yield();
    double start = now_ns();
    for (long i = 0; i < iters; i++) once(t);
    elapsed[t] = now_ns() - start;
    return NULL;
}

// Two threads hand a line to each other; iters is the number of turns of both.
static void *ponger(void *p) {
    long me = (long)(size_t)p;
    pin_to((int)me);
    for (atomic_fetch_add(&arrived, 1); atomic_load(&arrived) < 2;) sched_yield();
    double start = now_ns();
    for (long i = me; i < iters; i += 2) {
        while (atomic_load_explicit(&line_of_cache.turn, memory_order_acquire) != i) {
#ifdef __x86_64__
            _mm_pause();
#endif
        }
        atomic_store_explicit(&line_of_cache.turn, i + 1, memory_order_release);
    }
    elapsed[me] = now_ns() - start;
    return NULL;
}

static double all(int n, void *(*f)(void *)) {
    pthread_t id[most];
    int made = 0;
    double longest = 0;
    atomic_store(&arrived, 0);
    for (; made < n; made++)
        if (pthread_create(&id[made], NULL, f, (void *)(size_t)made)) exit(1);
    for (int i = 0; i < made; i++) {
        pthread_join(id[i], NULL);
        if (elapsed[i] > longest) longest = elapsed[i];
    }
    return longest;
}

int main(int argc, char **argv) {
    char line[256], set[512], op;
    int in_place;
    if (argc != 5) return fprintf(stderr, "usage: limits DIRECTORY BYTES THREADS PIN\n"), 2;
    orders_open(argv[1], 0);
    size_t bytes = strtoull(argv[2], NULL, 10);
    threads = atoi(argv[3]);
    pin = atoi(argv[4]);
    if (threads < 1 || threads > most) return fprintf(stderr, "limits: 1 to %d threads\n", most), 2;
    for (int i = 0; i < threads; i++) {
        if (posix_memalign((void **)&in[i], 4096, bytes) || posix_memalign((void **)&out[i], 4096, bytes)) {
            answer("error no memory for %d buffers of %zu bytes", 2 * threads, bytes);
            return 1;
        }
        memset(in[i], 0, bytes);
        memset(out[i], 0, bytes);
    }
    answer("%d %s %d threads", (int)getpid(), cpus(set, sizeof set), threads);
    while (orders_next(line, sizeof line)) {
        if (sscanf(line, "%c %c %zu %d %ld %ld", &what, &op, &count, &in_place, &iters, &warmup) != 6) break;
        switch (what) {
        case 'c': answer("0"); break; // nothing is computed that could be wrong
        case 'm':
            what = op;
            answer("%.0f", all(threads, copier));
            break;
        case 'f': // the floor: the better store
        {
            double plain = all(threads, copier);
            what = 'n';
            double stream = all(threads, copier);
            answer("%.0f", plain < stream ? plain : stream);
            break;
        }
        case 'l':
            atomic_store(&line_of_cache.turn, 0);
            answer("%.0f", all(2, ponger));
            break;
        default: answer("error unknown order %s", line);
        }
    }
    return 0;
}
