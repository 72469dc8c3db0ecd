// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-agent - process 1 of a lab guest, or a service of a guest from a disk image
 *
 * It reaps orphans, loads modules for devices that appear (as udev does elsewhere; in a
 * disk image both run), and runs commands for the host. A process of its own serves each
 * virtio-serial port named org.openhca.cmd.K, one command at a time.
 *
 * A frame is a little-endian u32 type, a u32 length and that many bytes.
 * Host to guest: SYNC nonce, EXEC, IN bytes, EOF, SIG u32, SIZE u16 u16.
 * Guest to host: READY nonce, OUT bytes, ERR bytes, TAKEN u32, EXIT u32.
 * TAKEN is the number of bytes of IN that the command has received. The host sends at most
 * IN_WINDOW bytes for which it has no TAKEN. So the agent can read the port, and receive SIG
 * and SYNC, even while a command reads nothing.
 * EXEC is u32 flags (1: terminal), u16 rows, u16 columns, u32 argc, then argc
 * strings and any number of NAME=VALUE strings, each ended by a zero byte.
 * SYNC may arrive at any time and ends the command that runs; its nonce is 16 bytes
 * and begins with SYNC_MAGIC, so that it is found behind an incomplete frame, too.
 *
 * The kernel reports a closed host end on another queue than the host's bytes: the SYNC
 * of a new host may arrive before the end of the old one is reported. So a host counts
 * as gone only after it was away for AWAY_MS.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_FRAME	(256 * 1024)
#define OUT_CHUNK	(32 * 1024)
#define IN_WINDOW	(64 * 1024)
#define AWAY_MS		500
#define SYNC_MAGIC	"ohcasync"
#define HOTPLUG		"/usr/lib/ohca/hotplug"
#define MAX_PORTS	64

enum frame_type {
	F_SYNC = 1, F_EXEC, F_IN, F_EOF, F_SIG, F_SIZE,
	F_READY = 16, F_OUT, F_ERR, F_EXIT, F_TAKEN,
};

/* One served port and the command that runs for it, if any. */
struct session {
	int port;
	pid_t pid;		/* 0: no command */
	int in, out, err;	/* -1: closed; a terminal is all of in and out */
	bool tty;
	bool eof;		/* its input ends after what is in @wait */
	uint8_t *wait;		/* [IN_WINDOW + 1] input that the command has not received yet */
	size_t waiting;
	uint8_t *buf;		/* bytes from the host that are not complete frames yet */
	size_t have;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static uint32_t get32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v)
{
	p[0] = v;
	p[1] = v >> 8;
	p[2] = v >> 16;
	p[3] = v >> 24;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

static bool host_away(struct session *s)
{
	struct pollfd pfd = { .fd = s->port, .events = POLLOUT };

	return poll(&pfd, 1, 0) > 0 && (pfd.revents & POLLHUP);
}

/* Writes all bytes to the host; false if the host is away for too long. */
static bool port_write(struct session *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t since = 0;

	while (len) {
		ssize_t n = write(s->port, p, len);

		if (n > 0) {
			p += n;
			len -= n;
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd pfd = { .fd = s->port, .events = POLLOUT };

			if (!host_away(s)) {
				since = 0;
				poll(&pfd, 1, 100);
			} else {
				since = since ? since : now_ms();
				if (now_ms() - since > AWAY_MS)
					return false;
				usleep(5000);
			}
		} else if (n < 0 && errno != EINTR) {
			return false;
		}
	}
	return true;
}

static bool send_frame(struct session *s, uint32_t type, const void *data, uint32_t len)
{
	uint8_t frame[8 + OUT_CHUNK];

	put32(frame, type);
	put32(frame + 4, len);
	memcpy(frame + 8, data, len);
	return port_write(s, frame, 8 + len);
}

/* Ends the command and everything in its process group, without a report. */
static void stop_command(struct session *s)
{
	if (s->pid) {
		kill(-s->pid, SIGKILL);
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	s->pid = 0;
	s->eof = false;
	s->waiting = 0;
	if (s->in == s->out)
		s->in = -1;
	close_fd(&s->in);
	close_fd(&s->out);
	close_fd(&s->err);
}

static bool send_u32(struct session *s, uint32_t type, uint32_t value)
{
	uint8_t v[4];

	put32(v, value);
	return send_frame(s, type, v, sizeof(v));
}

static void send_exit(struct session *s, uint32_t status)
{
	send_u32(s, F_EXIT, status);
}

static void run_child(char **argv, char **env)
{
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (; *env; env++)
		putenv(*env);
	if (chdir("/root"))
		_exit(127);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Starts the command of one EXEC frame. */
static void start_command(struct session *s, uint8_t *p, size_t len)
{
	char *strings[1024], **argv = strings, **env;
	struct winsize size = { 0 };
	int in[2], out[2], err[2];
	size_t n = 0, pos = 12;
	uint32_t argc;

	if (len < 13 || p[len - 1])
		return send_exit(s, 126);
	argc = get32(p + 8);
	while (pos < len && n < 1021) {
		if (n == argc)
			strings[n++] = NULL;
		strings[n++] = (char *)p + pos;
		pos += strlen((char *)p + pos) + 1;
	}
	if (!argc || n < argc || pos < len)
		return send_exit(s, 126);
	if (n == argc)
		strings[n++] = NULL;
	strings[n] = NULL;
	env = strings + argc + 1;

	s->tty = get32(p) & 1;
	if (s->tty) {
		size.ws_row = p[4] | p[5] << 8;
		size.ws_col = p[6] | p[7] << 8;
		s->pid = forkpty(&s->out, NULL, NULL, &size);
		if (!s->pid)
			run_child(argv, env);
		s->in = s->out;
	} else {
		if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
			return send_exit(s, 126);
		s->pid = fork();
		if (!s->pid) {
			setsid();
			dup2(in[0], 0);
			dup2(out[1], 1);
			dup2(err[1], 2);
			run_child(argv, env);
		}
		close(in[0]);
		close(out[1]);
		close(err[1]);
		s->in = in[1];
		s->out = out[0];
		s->err = err[0];
	}
	if (s->pid < 0) {
		s->pid = 0;
		stop_command(s);
		return send_exit(s, 126);
	}
	fcntl(s->in, F_SETFL, O_NONBLOCK);
	fcntl(s->out, F_SETFL, O_NONBLOCK);
	if (s->err >= 0)
		fcntl(s->err, F_SETFL, O_NONBLOCK);
}

/* Sends output of the command to the host; false if there is none now. */
static bool pump(struct session *s, int *fd, uint32_t type)
{
	uint8_t chunk[OUT_CHUNK];
	ssize_t n;

	if (*fd < 0)
		return false;
	n = read(*fd, chunk, sizeof(chunk));
	if (n > 0) {
		if (!send_frame(s, type, chunk, n)) {
			stop_command(s);
			return false;
		}
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		if (fd == &s->out && s->tty)
			s->in = -1;
		close_fd(fd);
	}
	return false;
}

static void command_ended(struct session *s, int status)
{
	/* Background processes may still have the pipes open: do not wait for them. */
	while (pump(s, &s->out, F_OUT))
		;
	while (pump(s, &s->err, F_ERR))
		;
	if (!s->pid)
		return;
	s->pid = 0;
	stop_command(s);
	send_exit(s, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Writes waiting input to the command, as much as it accepts now. */
static void feed(struct session *s)
{
	size_t pos = 0;

	while (pos < s->waiting && s->in >= 0) {
		ssize_t n = write(s->in, s->wait + pos, s->waiting - pos);

		if (n > 0)
			pos += n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR) {
			/* it does not read any more: drop the rest */
			if (!s->tty)
				close_fd(&s->in);
			pos = s->waiting;
		}
	}
	if (s->in < 0)
		pos = s->waiting;
	s->waiting -= pos;
	memmove(s->wait, s->wait + pos, s->waiting);
	if (pos && s->pid && !send_u32(s, F_TAKEN, pos)) {
		stop_command(s);
		return;
	}
	if (s->eof && !s->waiting && !s->tty)
		close_fd(&s->in);
}

/* Queues input from the host, or the end of a terminal's input; false if there is no room. */
static bool take_in(struct session *s, const uint8_t *p, size_t len)
{
	if (len > IN_WINDOW + 1 - s->waiting)
		return false;
	memcpy(s->wait + s->waiting, p, len);
	s->waiting += len;
	feed(s);
	return true;
}

/* Handles a frame; false if the frame is invalid. */
static bool handle_frame(struct session *s, uint32_t type, uint8_t *p, size_t len)
{
	struct winsize size = { 0 };

	switch (type) {
	case F_SYNC:
		stop_command(s);
		if (len <= OUT_CHUNK)
			send_frame(s, F_READY, p, len);
		break;
	case F_EXEC:
		stop_command(s);
		start_command(s, p, len);
		break;
	case F_IN:
		return take_in(s, p, len);
	case F_EOF:
		if (s->tty)
			return take_in(s, (const uint8_t *)"\004", 1);
		s->eof = true;
		feed(s);
		break;
	case F_SIG:
		if (s->pid && len >= 4)
			kill(-s->pid, get32(p));
		break;
	case F_SIZE:
		if (s->pid && s->tty && len >= 4) {
			size.ws_row = p[0] | p[1] << 8;
			size.ws_col = p[2] | p[3] << 8;
			ioctl(s->out, TIOCSWINSZ, &size);
		}
		break;
	}
	return true;
}

/*
 * The offset of a new host's SYNC in the bytes after an incomplete frame, or 0.
 * The old host may have been killed in the middle of a frame.
 */
static size_t find_sync(const uint8_t *p, size_t len)
{
	uint8_t pattern[16];
	uint8_t *at;

	put32(pattern, F_SYNC);
	put32(pattern + 4, 16);
	memcpy(pattern + 8, SYNC_MAGIC, 8);
	at = len > 1 ? memmem(p + 1, len - 1, pattern, sizeof(pattern)) : NULL;
	return at ? at - p : 0;
}

/* Reads and handles the host's frames; false if one is invalid. */
static bool take_input(struct session *s)
{
	ssize_t n = read(s->port, s->buf + s->have, MAX_FRAME + 8 - s->have);
	size_t pos = 0;

	if (n <= 0)
		return n == 0 || errno == EAGAIN || errno == EINTR;
	s->have += n;
	while (s->have - pos >= 8) {
		uint32_t type = get32(s->buf + pos), len = get32(s->buf + pos + 4);

		if (len > MAX_FRAME || s->have - pos < 8 + len) {
			size_t skip = find_sync(s->buf + pos, s->have - pos);

			if (skip) {
				pos += skip;
				continue;
			}
			if (len > MAX_FRAME)
				return false;
			break;
		}
		if (!handle_frame(s, type, s->buf + pos + 8, len))
			return false;
		pos += 8 + len;
	}
	s->have -= pos;
	memmove(s->buf, s->buf + pos, s->have);
	return true;
}

static void serve_port(const char *dev)
{
	struct session s = { .in = -1, .out = -1, .err = -1 };
	uint64_t away = 0;	/* when the host was first seen away; 0: it is there */
	sigset_t wake;
	int sig;

	prctl(PR_SET_NAME, "ohca-port");
	sigemptyset(&wake);
	sigaddset(&wake, SIGIO);
	sigaddset(&wake, SIGCHLD);
	sigprocmask(SIG_SETMASK, &wake, NULL);
	signal(SIGPIPE, SIG_IGN);
	sig = signalfd(-1, &wake, SFD_NONBLOCK | SFD_CLOEXEC);
	s.buf = malloc(MAX_FRAME + 8);
	s.wait = malloc(IN_WINDOW + 1);
	s.port = open(dev, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (s.port < 0 || sig < 0 || !s.buf || !s.wait)
		_exit(1);
	/* The port sends SIGIO when the host connects; until then, there is nothing to poll. */
	fcntl(s.port, F_SETOWN, getpid());
	fcntl(s.port, F_SETFL, O_NONBLOCK | O_ASYNC);

	for (;;) {
		struct pollfd pfd[5] = {
			{ .fd = sig, .events = POLLIN }, { .fd = s.port, .events = POLLIN },
			{ .fd = s.out, .events = POLLIN }, { .fd = s.err, .events = POLLIN },
			{ .fd = s.waiting ? s.in : -1, .events = POLLOUT },
		};
		struct signalfd_siginfo info;
		int status;

		/* Without a host, poll() returns at once for the port: do not poll it. */
		if (host_away(&s)) {
			away = away ? away : now_ms();
			pfd[1].fd = -1;
			if (now_ms() - away > AWAY_MS) {
				stop_command(&s);
				s.have = 0;
				pfd[2].fd = pfd[3].fd = pfd[4].fd = -1;
			}
		} else {
			away = 0;
		}
		if (poll(pfd, 5, s.pid && away ? 50 : 1000) < 0 && errno != EINTR)
			_exit(1);
		while (read(sig, &info, sizeof(info)) > 0)
			;
		if (pfd[1].fd >= 0 && (pfd[1].revents & POLLIN) && !take_input(&s)) {
			stop_command(&s);
			s.have = 0;
		}
		if (s.waiting)
			feed(&s);
		pump(&s, &s.out, F_OUT);
		pump(&s, &s.err, F_ERR);
		if (s.pid && waitpid(s.pid, &status, WNOHANG) == s.pid)
			command_ended(&s, status);
	}
}

/* Serves the ports that have a name and are not served yet. */
static void start_ports(void)
{
	static bool served[MAX_PORTS];
	char path[300], name[64];
	unsigned int k;
	glob_t g;

	if (glob("/sys/class/virtio-ports/vport*", 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/name", g.gl_pathv[i]);
		f = fopen(path, "re");
		if (!f)
			continue;
		name[0] = 0;
		if (fgets(name, sizeof(name), f) &&
		    sscanf(name, "org.openhca.cmd.%u", &k) == 1 && k < MAX_PORTS && !served[k]) {
			served[k] = true;
			snprintf(path, sizeof(path), "/dev/%s", strrchr(g.gl_pathv[i], '/') + 1);
			if (!fork())
				serve_port(path);
		}
		fclose(f);
	}
	globfree(&g);
}

static void spawn(char *const argv[], char *const env[])
{
	sigset_t none;

	if (fork())
		return;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (env)
		execve(argv[0], argv, env);
	else
		execv(argv[0], argv);
	_exit(127);
}

/* Loads modules for the devices that existed before the agent started. */
static void coldplug(void)
{
	static char alias[64][512];
	char *argv[70] = { "/usr/sbin/modprobe", "-abq" };
	int n = 0;
	glob_t g;

	if (glob("/sys/bus/pci/devices/*/modalias", 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc && n < 64; i++) {
		FILE *f = fopen(g.gl_pathv[i], "re");

		if (!f)
			continue;
		if (fgets(alias[n], sizeof(alias[n]), f)) {
			alias[n][strcspn(alias[n], "\n")] = 0;
			argv[2 + n] = alias[n];
			n++;
		}
		fclose(f);
	}
	globfree(&g);
	if (n)
		spawn(argv, NULL);
}

/* Handles one uevent: NAME=VALUE strings, each ended by a zero byte, after a header. */
static void handle_uevent(char *p, size_t len)
{
	char *env[64], *alias = NULL, *subsystem = "", *action = "";
	char *modprobe[] = { "/usr/sbin/modprobe", "-bq", NULL, NULL };
	char *hotplug[] = { HOTPLUG, NULL };
	size_t n = 0;

	for (char *s = p; s < p + len; s += strlen(s) + 1) {
		if (!strchr(s, '='))
			continue;
		if (n < 62)
			env[n++] = s;
		if (!strncmp(s, "MODALIAS=", 9))
			alias = s + 9;
		else if (!strncmp(s, "SUBSYSTEM=", 10))
			subsystem = s + 10;
		else if (!strncmp(s, "ACTION=", 7))
			action = s + 7;
	}
	env[n++] = "PATH=/usr/sbin:/usr/bin";
	env[n] = NULL;
	if (!strcmp(action, "add") && alias) {
		modprobe[2] = alias;
		spawn(modprobe, NULL);
	}
	if (!strcmp(action, "add") && (!strcmp(subsystem, "net") || !strcmp(subsystem, "infiniband")))
		spawn(hotplug, env);
	/* The kernel gets the name of a port later than the port itself. */
	if (!strcmp(subsystem, "virtio-ports"))
		start_ports();
}

int main(void)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int size = 4 << 20, nl, sig;
	static char buf[16384];
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sig = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	nl = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	setsockopt(nl, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	bind(nl, (struct sockaddr *)&addr, sizeof(addr));
	start_ports();
	coldplug();

	for (;;) {
		struct pollfd pfd[] = {
			{ .fd = sig, .events = POLLIN }, { .fd = nl, .events = POLLIN },
		};
		struct signalfd_siginfo info;
		ssize_t n;

		poll(pfd, 2, -1);
		while (read(sig, &info, sizeof(info)) > 0) {
			if (info.ssi_signo != SIGTERM && info.ssi_signo != SIGUSR2)
				continue;
			/* As a service it only ends; systemd ends its children. */
			if (getpid() != 1)
				return 0;
			sync();
			reboot(RB_POWER_OFF);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		while ((n = recv(nl, buf, sizeof(buf) - 1, 0)) > 0) {
			buf[n] = 0;
			handle_uevent(buf, n);
		}
	}
}
