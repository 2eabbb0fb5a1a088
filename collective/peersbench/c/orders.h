// Orders from the driver and answers to it, a line each, through two FIFOs in a
// directory of the driver's own. A process that has nothing to do blocks in read(2),
// which costs nothing; a rank that waited in MPI_Bcast would poll. The driver is the
// FIFO's only writer, so its end, however it came, is an end of file.
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int orders_fd, answers_fd;

static void orders_open(const char *dir, int rank) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.orders", dir, rank);
    orders_fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/%d.answers", dir, rank);
    answers_fd = open(path, O_WRONLY | O_CLOEXEC);
    if (orders_fd < 0 || answers_fd < 0) {
        perror(path);
        exit(1);
    }
}

// orders_next waits for an order. The driver sends the next one when it has the
// answer to the last, so what can be read is one line. 0 is the end.
static int orders_next(char *line, size_t room) {
    ssize_t n = read(orders_fd, line, room - 1);
    if (n <= 0) return 0;
    line[n] = 0;
    line[strcspn(line, "\n")] = 0;
    return 1;
}

static void answer(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2) n = sizeof line - 2;
    for (int i = 0; i < n; i++)
        if (line[i] == '\n') line[i] = ' ';
    line[n++] = '\n';
    if (write(answers_fd, line, n) != n) exit(1); // shorter than PIPE_BUF: whole or not at all
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

// cpus writes the CPUs that this thread may use, such as 0,1.
static const char *cpus(char *text, size_t room) {
    cpu_set_t set;
    size_t n = 0;
    text[0] = 0;
    if (sched_getaffinity(0, sizeof set, &set)) return "?";
    for (int i = 0; i < CPU_SETSIZE && n + 8 < room; i++)
        if (CPU_ISSET(i, &set)) n += snprintf(text + n, room - n, "%s%d", n ? "," : "", i);
    return text;
}
