// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a confined daemon can still do. Each case has a process of its own. The test is built
 * without sanitizers, because those need more rights.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/base/sandbox.h"
#include "fabric/base/runnable.h"

static char dir[] = "/tmp/ohca-sandbox-XXXXXX", sock[64], other[64], outside[64], named[64];
static struct fab_sandbox_cfg cfg;
static int log_fd, listener, stream, datagram, epoll;
static pid_t parent;

/* errno of @action in a process confined as cfg says; 0: success; -1: it was killed */
static int confined(long (*action)(void))
{
	const pid_t pid = fork();
	int status;

	if (!pid) {
		fab_sandbox_enter(&cfg);
		errno = 0;
		_exit(action() < 0 ? errno : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Version of Landlock in this kernel; 0: none */
static int landlock_abi;

static long what_holds(void)
{
	const struct fab_sandbox *s = fab_sandbox();

	if (s->landlock_abi == landlock_abi && !s->landlock_errno == !!landlock_abi && s->seccomp &&
	    !s->seccomp_errno)
		return 0;
	errno = ENOTRECOVERABLE;
	return -1;
}

/* The confinement that the daemon reports is what this kernel supports. */
static void test_says(void **st)
{
	(void)st;
	assert_int_equal(fab_sandbox()->landlock_abi, 0);
	assert_false(fab_sandbox()->seccomp);
	assert_int_equal(confined(what_holds), 0);
}

/* ---- what it can do -------------------------------------------------------------- */

static long link_memory(void)
{
	const int fd = memfd_create("link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *p;

	if (fd < 0 || ftruncate(fd, 8192) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return -1;
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -1;
	memset(p, 1, 8192);
	return munmap(p, 8192);
}

/* Descriptors of the HCA of a front-end, in addition to a link's memory. */
static long front_descriptors(void)
{
	const struct timespec soon = { 0, 1000 };
	const int fd = memfd_create("block", MFD_CLOEXEC);
	const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event ev;
	struct statfs st;
	int sv[2];

	if (fd < 0 || fstatfs(fd, &st) || wake < 0 || eventfd_write(wake, 1) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) ||
	    shutdown(sv[0], SHUT_RD))
		return -1;
	/* the daemon opened it before the confinement */
	return epoll_pwait2(epoll, &ev, 1, &soon, NULL);
}

static volatile sig_atomic_t bus_errors;
static void *vanishing;

/* Like that of hca/block.c. */
static void on_bus_error(int sig)
{
	(void)sig;
	if (mmap(vanishing, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
		 MAP_NORESERVE, -1, 0) == MAP_FAILED)
		_exit(EXIT_FAILURE);
	bus_errors++;
}

static long front_memory_vanishes(void)
{
	const struct sigaction sa = { .sa_handler = on_bus_error };
	const int fd = memfd_create("block", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096))
		return -1;
	vanishing = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (vanishing == MAP_FAILED || madvise(vanishing, 4096, MADV_DONTDUMP) ||
	    sigaction(SIGBUS, &sa, NULL) || ftruncate(fd, 0))
		return -1;
	*(volatile char *)vanishing = 1;
	return bus_errors == 1 ? 0 : -1;
}

/* statx() for the type of a block's file, and msync() of the block. */
static long disk_memory(void)
{
	const int fd = memfd_create("block", MFD_CLOEXEC);
	struct statx st;
	void *p;

	if (statx(log_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) || fd < 0 ||
	    ftruncate(fd, 4096))
		return -1;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? -1 : msync(p, 4096, MS_SYNC);
}

static long write_log(void)
{
	return write(log_fd, "line\n", 5);
}

static long remove_socket(void)
{
	return unlink(sock);
}

static socklen_t name_of(struct sockaddr_un *un, const char *path)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(un->sun_path, path);
	return sizeof(*un);
}

/* Accepts a client that connected before the process was confined. */
static long accept_client(void)
{
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* As the control socket keeps one, for the case that no other is free. */
static long spare_descriptor(void)
{
	return fcntl(log_fd, F_DUPFD_CLOEXEC, 0);
}

static long much_memory(void)
{
	char *p = malloc(1 << 20), *q;

	if (!p)
		return -1;
	memset(p, 1, 1 << 20);
	q = realloc(p, 64 << 20);
	free(q ? q : p);
	return q ? 0 : -1;
}

static void test_goes_on(void **st)
{
	struct sockaddr_un un;

	(void)st;
	assert_int_equal(confined(link_memory), 0);
	assert_int_equal(confined(front_descriptors), 0);
	assert_int_equal(confined(front_memory_vanishes), 0);
	assert_int_equal(confined(disk_memory), 0);
	assert_int_equal(confined(write_log), 0);
	assert_int_equal(connect(stream, (struct sockaddr *)&un, name_of(&un, named)), 0);
	assert_int_equal(confined(accept_client), 0);
	assert_int_equal(confined(spare_descriptor), 0);
	assert_int_equal(confined(much_memory), 0);
	assert_int_equal(confined(remove_socket), 0);
	assert_int_equal(access(sock, F_OK), -1);
}

/* A failed assertion ends the process by SIGABRT. */
static void test_aborts(void **st)
{
	const pid_t pid = fork();
	int status;

	(void)st;
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		fab_sandbox_enter(&cfg);
		abort();
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- what it cannot do ------------------------------------------------------------- */

static long start_program(void)
{
	char *const argv[] = { (char[]){ "true" }, NULL };

	return execve("/bin/true", argv, environ);
}

static long new_process(void)
{
	const pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid;
}

static long trace_process(void)
{
	return ptrace(PTRACE_ATTACH, parent, NULL, NULL);
}

static long signal_process(void)
{
	return kill(parent, 0);
}

static long tcp_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long udp_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
}

static long other_pair(void)
{
	int sv[2];

	return socketpair(AF_TIPC, SOCK_SEQPACKET, 0, sv);
}

static long netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static long code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0) == MAP_FAILED ? -1 : 0;
}

static long data_to_code(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static long read_file(void)
{
	return open("/etc/passwd", O_RDONLY);
}

static int load;

static long processor(void)
{
	uint32_t threads;

	return fab_runnable_read(load, &threads) ? 0 : -1;
}

static long make_file(void)
{
	return open(other, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
}

static void test_system_calls(void **st)
{
	(void)st;
	assert_int_equal(confined(start_program), EPERM);
	assert_int_equal(confined(new_process), EPERM);
	assert_int_equal(confined(trace_process), EPERM);
	assert_int_equal(confined(signal_process), EPERM);
	assert_int_equal(confined(tcp_socket), EPERM);
	assert_int_equal(confined(udp_socket), EPERM);
	assert_int_equal(confined(netlink_socket), EPERM);
	assert_int_equal(confined(other_pair), EPERM);
	assert_int_equal(confined(code), EPERM);
	assert_int_equal(confined(data_to_code), EPERM);
	assert_int_equal(confined(read_file), EPERM);
	assert_int_equal(confined(make_file), EPERM);
	load = fab_runnable_open();
	assert_int_equal(confined(processor), 0);
	close(load);
	cfg.udp = true;
	assert_int_equal(confined(udp_socket), 0);
	assert_int_equal(confined(tcp_socket), EPERM);
	cfg.udp = false;
}

static long open_outside(void)
{
	return open(outside, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

static long remove_outside(void)
{
	return unlink(outside);
}

static long remove_directory(void)
{
	return unlinkat(AT_FDCWD, dir, AT_REMOVEDIR);
}

static void test_files(void **st)
{
	(void)st;
	if (!landlock_abi)
		skip();
	assert_int_equal(confined(open_outside), EPERM);
	assert_int_equal(confined(remove_outside), EACCES);
	assert_int_equal(confined(remove_directory), EACCES);
	assert_int_equal(access(outside, F_OK), 0);
}

/* A socket of another program, such as that of a session bus. */
static socklen_t abstract_name(struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(un->sun_path + 1, dir);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(dir));
}

static long reach_abstract(void)
{
	struct sockaddr_un un;
	const socklen_t len = abstract_name(&un);
	const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&un, len);
}

/* By an existing socket, which seccomp allows. */
static long send_to_abstract(void)
{
	struct sockaddr_un un;
	const socklen_t len = abstract_name(&un);

	return sendto(datagram, "", 1, 0, (struct sockaddr *)&un, len);
}

static void test_sockets(void **st)
{
	struct sockaddr_un un;
	const socklen_t len = abstract_name(&un);
	const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	(void)st;
	assert_int_equal(bind(fd, (struct sockaddr *)&un, len), 0);
	assert_int_equal(confined(reach_abstract), EPERM);
	assert_int_equal(confined(send_to_abstract), landlock_abi >= 6 ? EPERM : 0);
	cfg.abstract = true;
	assert_int_equal(confined(reach_abstract), 0);
	assert_int_equal(confined(send_to_abstract), 0);
	cfg.abstract = false;
	close(fd);
}

static long stream_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static long seqpacket_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static long datagram_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static long connect_stream(void)
{
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, named);

	return connect(stream, (struct sockaddr *)&un, len);
}

static long bind_stream(void)
{
	struct sockaddr_un un;
	const socklen_t len = name_of(&un, other);

	return bind(stream, (struct sockaddr *)&un, len);
}

/* A listener with a path, such as that of a session bus or a container daemon. */
static void test_listeners(void **st)
{
	(void)st;
	assert_int_equal(confined(connect_stream), EPERM);
	assert_int_equal(confined(bind_stream), EPERM);
	assert_int_equal(confined(datagram_socket), EPERM);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(confined(stream_socket), EPERM);
		assert_int_equal(confined(seqpacket_socket), EPERM);
		cfg.abstract = true;
	}
	assert_int_equal(confined(datagram_socket), 0);
	cfg.abstract = false;
}

/* ---- a wire to another host ---------------------------------------------------------- */

static struct sockaddr_in to;

static long tcp_connect(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof(to));
}

static long tcp6_socket(void)
{
	return socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static long mptcp_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
}

static long mptcp6_socket(void)
{
	return socket(AF_INET6, SOCK_STREAM, IPPROTO_MPTCP);
}

static long ping_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
}

/* Connections without connect(). */
static long fast_sendto(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? -1 : sendto(fd, "", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&to,
				    sizeof(to));
}

static long fast_sendmsg(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct iovec iov = { .iov_base = "", .iov_len = 1 };
	const struct msghdr m = {
		.msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = &iov, .msg_iovlen = 1,
	};

	return fd < 0 ? -1 : sendmsg(fd, &m, MSG_FASTOPEN | MSG_NOSIGNAL);
}

/* Sends as a link does. */
static long tcp_send(void)
{
	struct iovec iov = { .iov_base = "", .iov_len = 1 };
	const struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return -1;
	return sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A listener at 127.0.0.1, on @port. */
static int tcp_listener(in_port_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	*port = at.sin_port;
	return fd;
}

/* Only connect() reaches a port; with Landlock ABI 4 only the configured port. */
static void test_wire(void **st)
{
	in_port_t port, elsewhere;
	const int fd[] = { tcp_listener(&port), tcp_listener(&elsewhere) };

	(void)st;
	to = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) }, .sin_port = port,
	};
	cfg.tcp[1] = ntohs(port);
	assert_int_equal(confined(tcp_connect), 0);
	assert_int_equal(confined(tcp_send), 0);
	assert_int_not_equal(confined(tcp6_socket), EPERM);
	to.sin_port = elsewhere;
	assert_int_equal(confined(tcp_connect), landlock_abi >= 4 ? EACCES : 0);
	assert_int_equal(confined(fast_sendto), EPERM);
	assert_int_equal(confined(fast_sendmsg), EPERM);
	assert_int_equal(confined(mptcp_socket), EPERM);
	assert_int_equal(confined(mptcp6_socket), EPERM);
	assert_int_equal(confined(udp_socket), EPERM);
	cfg.udp = true;
	assert_int_equal(confined(ping_socket), EPERM);
	cfg.udp = false;
	cfg.tcp[1] = 0;
	close(fd[0]);
	close(fd[1]);
}

static volatile sig_atomic_t signals;

static void count_signal(int sig)
{
	(void)sig;
	signals++;
}

/* A pipe can signal its owner, another process here, when data arrive. */
static long signal_by_pipe(void)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) || fcntl(p[0], F_SETOWN, parent) ||
	    fcntl(p[0], F_SETSIG, SIGUSR1) || fcntl(p[0], F_SETFL, O_ASYNC))
		return -1;
	return write(p[1], "", 1);
}

static void test_signals(void **st)
{
	const struct sigaction count = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	struct sigaction was;

	(void)st;
	sigaction(SIGUSR1, &count, &was);
	assert_int_equal(confined(signal_by_pipe), EPERM);
	assert_int_equal(signals, 0);
	sigaction(SIGUSR1, &was, NULL);
}

/* ---- its other threads ------------------------------------------------------------- */

static sem_t begun, go;
static pthread_t second;

/*
 * Return: set of what it cannot do. 1: create a socket, by seccomp; 2: remove a file, by Landlock
 */
static void *second_thread(void *arg)
{
	uintptr_t cannot = 0;

	(void)arg;
	sem_post(&begun);
	sem_wait(&go);
	cannot |= tcp_socket() < 0 && errno == EPERM ? 1 : 0;
	cannot |= remove_outside() < 0 && errno == EACCES ? 2 : 0;
	return (void *)cannot;
}

static void start_second(void *arg)
{
	(void)arg;
	sem_init(&begun, 0, 0);
	sem_init(&go, 0, 0);
	if (!pthread_create(&second, NULL, second_thread, NULL))
		sem_wait(&begun);
}

/* It can also end as a thread does. */
static long second_is_confined(void)
{
	void *cannot;

	sem_post(&go);
	errno = ENOTRECOVERABLE;
	return pthread_join(second, &cannot) || (uintptr_t)cannot != (landlock_abi ? 3 : 1) ?
	       -1 : 0;
}

static long second_is_not(void)
{
	void *cannot;

	sem_post(&go);
	errno = ENOTRECOVERABLE;
	return pthread_join(second, &cannot) || cannot ? -1 : 0;
}

static void test_threads(void **st)
{
	(void)st;
	cfg.threads = start_second;
	assert_int_equal(confined(second_is_confined), 0);
	/* with all rights, the second thread keeps them, too */
	cfg.all = true;
	assert_int_equal(confined(second_is_not), 0);
	cfg.all = false;
	cfg.threads = NULL;
}

static long new_privileges(void)
{
	errno = ENOTRECOVERABLE;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && !fab_sandbox()->seccomp &&
	       !fab_sandbox()->landlock_abi ? 0 : -1;
}

/* A process that keeps all its rights gets no new ones. */
static void test_all(void **st)
{
	(void)st;
	cfg.all = true;
	assert_int_equal(confined(new_privileges), 0);
	assert_int_equal(confined(tcp_socket), 0);
	assert_int_equal(confined(new_process), 0);
	cfg.all = false;
}

static int make(void **st)
{
	const mode_t mode = 0600;
	struct sockaddr_un un;

	(void)st;
	if (!mkdtemp(dir))
		return -1;
	snprintf(sock, sizeof(sock), "%s/sock", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	snprintf(outside, sizeof(outside), "%s.file", dir);
	log_fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	close(open(sock, O_WRONLY | O_CREAT | O_CLOEXEC, mode));
	snprintf(named, sizeof(named), "%s/named", dir);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	datagram = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || datagram < 0 || bind(listener, (struct sockaddr *)&un, name_of(&un, named)) ||
	    listen(listener, 1))
		return -1;
	parent = getpid();
	cfg.file[1] = sock;
	landlock_abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0,
				    LANDLOCK_CREATE_RULESET_VERSION);
	landlock_abi = landlock_abi < 0 ? 0 : landlock_abi;
	return log_fd < 0;
}

static int unmake(void **st)
{
	(void)st;
	unlink(sock);
	unlink(other);
	unlink(named);
	unlink(outside);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_says),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_system_calls),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_listeners),
		cmocka_unit_test(test_wire),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_aborts),
		cmocka_unit_test(test_goes_on),
	};

	return cmocka_run_group_tests_name("rights that a daemon gives up", tests, make, unmake);
}
