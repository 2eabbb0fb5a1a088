// A rank of an MPI that is measured in the style of nccl-tests: warm-up, barrier, then
// a loop that reads no clock. Usage: peer DIRECTORY BYTES (of the greatest vector).
#define _GNU_SOURCE
#include <mpi.h>

#include "orders.h"

static int rank, size;
static float *in, *out;

// A collective of count elements of the whole vector, which the ranks divide evenly.
// In place the input is where MPI wants it to be: in the receive buffer.
static int run(char op, int count, int in_place) {
    const void *from = in_place ? MPI_IN_PLACE : in;
    switch (op) {
    case 'a': return MPI_Allreduce(from, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case 'r': return MPI_Reduce_scatter_block(from, out, count / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case 'b': return MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    case 'd': return MPI_Reduce(in_place && rank ? out : from, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    case 'w': return MPI_Barrier(MPI_COMM_WORLD);
    case 'g': return MPI_Allgather(from, count / size, MPI_FLOAT, out, count / size, MPI_FLOAT, MPI_COMM_WORLD);
    }
    return MPI_ERR_OP;
}

// Small integers, whose sums are exact. The Go side has the same.
static float element(int r, int i) { return (float)((i * 7 + r * 3) & 15); }

static int wrong(char op, int count, int in_place) {
    int own = count / size, first = rank * own, bad = 0;
    float *to = in_place || op == 'b' ? out : in;
    for (int i = 0; i < count; i++) out[i] = -1;
    for (int i = 0; i < count; i++) {
        if (op == 'b' && rank) break;
        if (op != 'g') to[i] = element(rank, i);
        else if (i >= first && i < first + own) to[in_place ? i : i - first] = element(rank, i);
    }
    if (run(op, count, in_place)) return count;
    if (op == 'd' && rank) return 0;
    for (int i = 0; i < (op == 'r' ? own : count); i++) {
        float want = 0;
        if (op == 'g') want = element(i / own, i);
        else if (op == 'b') want = element(0, i);
        else
            for (int r = 0; r < size; r++) want += element(r, op == 'r' ? first + i : i);
        if (out[i] != want) bad++;
    }
    return bad;
}

static void measure(char op, int count, int in_place, long iters, long warmup) {
    int bad = 0;
    for (long i = 0; i < warmup; i++) bad |= run(op, count, in_place);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now_ns();
    for (long i = 0; i < iters; i++) bad |= run(op, count, in_place);
    double end = now_ns();
    // The driver wakes up at the first answer: nobody is to be in the loop then.
    MPI_Barrier(MPI_COMM_WORLD);
    if (bad) answer("error MPI returned %d", bad);
    else answer("%.0f", end - start);
}

// cma says how Open MPI copies between processes: the setting's value after start, by
// which time it has found out what the kernel allows.
static const char *cma(void) {
    int provided, index, value = -1, count = 0;
    MPI_T_cvar_handle handle;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)) return "";
    if (MPI_T_cvar_get_index("btl_vader_single_copy_mechanism", &index)) return "";
    if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count)) return "";
    if (MPI_T_cvar_read(handle, &value)) return "";
    // opal/mca/btl/vader/btl_vader_types.h: XPMEM, CMA, KNEM, NONE.
    static const char *names[] = {"xpmem", "cma", "knem", "none"};
    if (value < 0 || value > 3) return "?";
    return names[value];
}

int main(int argc, char **argv) {
    char line[256], set[512], version[MPI_MAX_LIBRARY_VERSION_STRING];
    int n;
    if (argc != 3) return fprintf(stderr, "usage: peer DIRECTORY BYTES\n"), 2;
    if (MPI_Init(&argc, &argv)) return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    orders_open(argv[1], rank);
    size_t bytes = strtoull(argv[2], NULL, 10);
    if (posix_memalign((void **)&in, 4096, bytes) || posix_memalign((void **)&out, 4096, bytes)) {
        answer("error no memory for two buffers of %zu bytes", bytes);
        return 1;
    }
    memset(in, 0, bytes);
    memset(out, 0, bytes);
    MPI_Get_library_version(version, &n);
    version[strcspn(version, ",\n")] = 0;
    answer("%d %s %s; %s", (int)getpid(), cpus(set, sizeof set), version, cma());
    while (orders_next(line, sizeof line)) {
        char op, what;
        int count, in_place;
        long iters, warmup;
        if (sscanf(line, "%c %c %d %d %ld %ld", &what, &op, &count, &in_place, &iters, &warmup) != 6) break;
        if (what == 'c') answer("%d", wrong(op, count, in_place));
        else measure(op, count, in_place, iters, warmup);
    }
    MPI_Finalize();
    return 0;
}
