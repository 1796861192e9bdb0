// A time of day of its own for one process, moved while it runs: loaded before the system's library (LD_PRELOAD), it adds what
// stands in the file FAKE_CLOCK_FILE, eight bytes of microseconds, to every answer. Monotonic clocks stay as they are.
// Allocates nothing: allocators ask for the time before they can give memory.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset_us;

static int64_t offset(void) {
  if (offset_us == NULL) {
    const char *path = getenv("FAKE_CLOCK_FILE");
    int file = path == NULL ? -1 : open(path, O_RDONLY);
    if (file < 0) return 0;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page == MAP_FAILED) return 0;
    offset_us = page;
  }
  return *offset_us;
}

int clock_gettime(clockid_t id, struct timespec *out) {
  int failed = (int)syscall(SYS_clock_gettime, id, out);
  if (failed || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
  int64_t us = out->tv_sec * INT64_C(1000000) + out->tv_nsec / 1000 + offset();
  out->tv_nsec = (us % 1000000) * 1000 + out->tv_nsec % 1000;
  out->tv_sec = us / 1000000;
  return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int failed = clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
