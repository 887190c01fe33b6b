/* Clocks of a server that can be wrong: a library that the server's dynamic linker loads first.
 *
 * It reads a file that the harness writes while the server runs (clocks.py has the same layout). The
 * wall clock (CLOCK_REALTIME) may be moved, stopped, or moved back and forth; the rate applies to the
 * monotonic clocks, to the wall clock and to all waits, as if the oscillator were slow or fast.
 * Waits that have begun keep their length. Times of files and timers of the kernel stay right.
 *
 * It needs nothing that only new C libraries have, because it is loaded into images of any age.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define TRIES 1000

struct setting {
    int64_t wrong;       /* 0: every clock is right, and the rest is not read */
    int64_t base_ns;     /* CLOCK_MONOTONIC since which the rate applies */
    int64_t mono_ns;     /* what earlier rates have added to the monotonic clocks */
    int64_t wall_ns;     /* what is added to the wall clock */
    int64_t rate, per;   /* `rate` nanoseconds pass in `per` */
    int64_t strobe_ns;   /* added to the wall clock in every second period */
    int64_t period_ns;
    int64_t stop_ns;     /* where the wall clock stands still; 0: it runs */
};

struct state {
    volatile uint64_t turn; /* the last bit says which setting is in force */
    struct setting settings[2];
};

static const struct state *state;
static int (*next_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void load(void)
{
    int file = syscall(SYS_openat, AT_FDCWD, STATE_FILE, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        void *at = (void *)syscall(SYS_mmap, NULL, sizeof *state, PROT_READ, MAP_SHARED, file, 0);
        if (at != MAP_FAILED)
            state = at;
        syscall(SYS_close, file);
    }
    *(void **)&next_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

/* Read the setting in force and return whether clocks are wrong. */
static int wrong(struct setting *now)
{
    if (!state)
        return 0;
    for (int try = 0; try < TRIES; try++) {
        uint64_t turn = __atomic_load_n(&state->turn, __ATOMIC_ACQUIRE);
        *now = *(volatile const struct setting *)&state->settings[turn & 1];
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&state->turn, __ATOMIC_ACQUIRE) == turn)
            break;
    }
    return now->wrong != 0;
}

static int real(clockid_t id, struct timespec *at)
{
    return next_gettime ? next_gettime(id, at) : (int)syscall(SYS_clock_gettime, id, at);
}

static int64_t ns_of(const struct timespec *at)
{
    return at->tv_sec * SECOND + at->tv_nsec;
}

static struct timespec time_of(int64_t ns)
{
    struct timespec at = {ns / SECOND, ns % SECOND};
    if (at.tv_nsec < 0) {
        at.tv_sec--;
        at.tv_nsec += SECOND;
    }
    return at;
}

static int64_t now_ns(clockid_t id)
{
    struct timespec at = {0, 0};
    real(id, &at);
    return ns_of(&at);
}

static int64_t drift_ns(const struct setting *now, int64_t mono_ns)
{
    return (mono_ns - now->base_ns) * (now->rate - now->per) / now->per;
}

static int is_wall(clockid_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI;
}

static int is_mono(clockid_t id)
{
    return id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW ||
           id == CLOCK_BOOTTIME;
}

/* Return what a clock shows in place of `ns`. */
static int64_t shown(const struct setting *now, clockid_t id, int64_t ns)
{
    if (is_mono(id))
        return ns + now->mono_ns + drift_ns(now, ns);
    if (!is_wall(id))
        return ns;
    if (now->stop_ns)
        return now->stop_ns;
    int64_t mono_ns = now_ns(CLOCK_MONOTONIC);
    ns += now->wall_ns + drift_ns(now, mono_ns);
    if (now->strobe_ns && ((mono_ns - now->base_ns) / now->period_ns) % 2)
        ns += now->strobe_ns;
    return ns;
}

int clock_gettime(clockid_t id, struct timespec *at)
{
    struct setting now;
    int failed = real(id, at);
    if (!failed && wrong(&now))
        *at = time_of(shown(&now, id, ns_of(at)));
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, at) ? base : 0;
}

/* Return how long a wait of `ns` on the server's clock takes. */
static int64_t real_wait(int64_t ns)
{
    struct setting now;
    return ns > 0 && wrong(&now) && now.rate != now.per ? ns * now.per / now.rate : ns;
}

/* Return when the server's clock shows `at`, on the kernel's clock. */
static struct timespec real_deadline(clockid_t id, const struct timespec *at)
{
    struct setting now;
    if (!wrong(&now) || (!is_wall(id) && !is_mono(id)))
        return *at;
    int64_t real_ns = now_ns(id);
    return time_of(real_ns + real_wait(ns_of(at) - shown(&now, id, real_ns)));
}

/* Return the clock of a deadline that does not say which: no machine has been up for 30 years. */
static clockid_t clock_of(const struct timespec *at)
{
    return at->tv_sec > SECOND ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

#define NEXT(name, ...)                                                                            \
    static int (*next)(__VA_ARGS__);                                                               \
    if (!next)                                                                                     \
        *(void **)&next = dlsym(RTLD_NEXT, name);

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict at)
{
    NEXT("pthread_cond_timedwait", pthread_cond_t *, pthread_mutex_t *, const struct timespec *)
    struct timespec until = real_deadline(clock_of(at), at);
    return next(cond, mutex, &until);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           clockid_t id, const struct timespec *restrict at)
{
    NEXT("pthread_cond_clockwait", pthread_cond_t *, pthread_mutex_t *, clockid_t,
         const struct timespec *)
    struct timespec until = real_deadline(id, at);
    return next(cond, mutex, id, &until);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict at)
{
    NEXT("pthread_mutex_timedlock", pthread_mutex_t *, const struct timespec *)
    struct timespec until = real_deadline(CLOCK_REALTIME, at);
    return next(mutex, &until);
}

int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict at)
{
    NEXT("sem_timedwait", sem_t *, const struct timespec *)
    struct timespec until = real_deadline(CLOCK_REALTIME, at);
    return next(sem, &until);
}

int nanosleep(const struct timespec *wait, struct timespec *left)
{
    struct timespec ns = time_of(real_wait(ns_of(wait)));
    return syscall(SYS_nanosleep, &ns, left);
}

int usleep(useconds_t us)
{
    struct timespec wait = time_of(us * INT64_C(1000));
    return nanosleep(&wait, NULL);
}

unsigned sleep(unsigned seconds)
{
    struct timespec wait = {seconds, 0}, left = {0, 0};
    return nanosleep(&wait, &left) ? (unsigned)left.tv_sec : 0;
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *wait, struct timespec *left)
{
    int absolute = flags & TIMER_ABSTIME, before = errno;
    struct timespec until = absolute ? real_deadline(id, wait) : time_of(real_wait(ns_of(wait)));
    int failed = syscall(SYS_clock_nanosleep, id, flags, &until, left) ? errno : 0;
    errno = before;
    return failed;
}

/* Return a wait in milliseconds; -1 means for ever. */
static int real_ms(int ms)
{
    return ms <= 0 ? ms : (int)((real_wait(ms * INT64_C(1000000)) + 999999) / 1000000);
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *wait, const sigset_t *mask)
{
    struct timespec ns;
    if (wait)
        ns = time_of(real_wait(ns_of(wait)));
    return syscall(SYS_ppoll, files, count, wait ? &ns : NULL, mask, (size_t)8);
}

int poll(struct pollfd *files, nfds_t count, int ms)
{
    struct timespec ns = time_of(real_ms(ms) * INT64_C(1000000));
    return syscall(SYS_ppoll, files, count, ms < 0 ? NULL : &ns, NULL, (size_t)8);
}

int epoll_pwait(int epoll, struct epoll_event *events, int count, int ms, const sigset_t *mask)
{
    return syscall(SYS_epoll_pwait, epoll, events, count, real_ms(ms), mask, (size_t)8);
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int ms)
{
    return epoll_pwait(epoll, events, count, ms, NULL);
}
