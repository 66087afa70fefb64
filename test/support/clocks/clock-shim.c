// Moves the wall clock of the process into which it is preloaded. The file that $CLOCK_OFFSET_FILE names holds the offset:
// nanoseconds, a signed number of eight bytes. The file is mapped, so that a change holds from the next reading on.
// Monotonic clocks are untouched. The system is asked directly: looking up the C library's own functions allocates, and the
// allocator of Redis reads the clock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

// Until the file is mapped, the offset is zero.
static const int64_t unmoved = 0;
static const volatile int64_t *offset = &unmoved;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("CLOCK_OFFSET_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) offset = page;
}

static void read_wall_clock(struct timespec *at) {
  syscall(SYS_clock_gettime, CLOCK_REALTIME, at);
  int64_t ns = at->tv_nsec + *offset % SECOND;
  int64_t carry = ns < 0 ? -1 : ns >= SECOND ? 1 : 0;
  at->tv_sec += *offset / SECOND + carry;
  at->tv_nsec = ns - carry * SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return syscall(SYS_clock_gettime, clock, at);
  read_wall_clock(at);
  return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
  (void)zone;
  struct timespec now;
  read_wall_clock(&now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  read_wall_clock(&now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
  if (base != TIME_UTC) return 0;
  read_wall_clock(at);
  return base;
}
