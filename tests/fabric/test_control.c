// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket: requests in pieces or together, clients that do not read, files. */
#include "pass.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric/base/event.h"
#include "fabric/control/control.h"
#include "fabric/client/client.h"
#include "fabric/fault/fault.h"
#include "link/link.h"

static struct fab *f;
static struct fab_mgmt m;
static struct fab_control *control;
static struct fab_closer closer;	/* without a thread: it counts what it closes */
static int epfd;
static char path[64];
static uint64_t now_ns = 1000;

/* Errors of calls of the fabric, 0: none; how often it has called accept4(). */
static int accept_error, watch_error;
static unsigned int accepts;

int __real_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	accepts++;
	if (!accept_error)
		return __real_accept4(fd, from, len, flags);
	errno = accept_error;
	return -1;
}

int __real_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int __wrap_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	if (op != EPOLL_CTL_ADD || !watch_error)
		return __real_epoll_ctl(ep, op, fd, ev);
	errno = watch_error;
	return -1;
}

static int setup(void **st)
{
	(void)st;
	f = from_spec("fat-tree:8");
	fab_mgmt_init(&m, f, NULL, NULL);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	snprintf(path, sizeof(path), "/tmp/test_control-%d", (int)getpid());
	accept_error = 0;
	watch_error = 0;
	control = fab_control_new(&m, NULL, path, epfd, &closer);
	assert_non_null(control);
	return 0;
}

static int teardown(void **st)
{
	(void)st;
	fab_control_free(control);
	fab_free(f);
	close(epfd);
	return access(path, F_OK) ? 0 : -1;
}

/* Handles all events. Return: their number. */
static unsigned int turn(void)
{
	struct epoll_event ev[8];
	unsigned int all = 0;
	int n;

	while ((n = epoll_wait(epfd, ev, 8, 0)) > 0) {
		for (int i = 0; i < n; i++)
			fab_control_event(control, fab_event_of(&ev[i]).index, now_ns);
		all += (unsigned int)n;
		assert_true(all < 10000);
	}
	return all;
}

/* Connects, but the fabric does not yet handle it. */
static int knock(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strcpy(un.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

static int dial(void)
{
	int fd = knock();

	turn();
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
	turn();
}

/* Return: the next reply of @fd, which must be there. */
static json_t *reply(int fd)
{
	static char text[1 << 20];
	size_t n = 0;
	json_t *v;

	while (recv(fd, text + n, 1, 0) == 1 && text[n] != '\n')
		assert_true(++n < sizeof(text));
	v = json_loadb(text, n, 0, NULL);
	assert_non_null(v);
	return v;
}

static void says(int fd, const char *member)
{
	json_t *v = reply(fd);

	assert_non_null(json_object_get(v, member));
	json_decref(v);
}

static bool at_end(int fd)
{
	char c;

	return !recv(fd, &c, 1, 0);
}

static void requests(void **st)
{
	int fd = dial(), other = dial();

	(void)st;
	say(fd, "{\"command\":");
	say(other, "{\"command\": \"topology\"}\n");
	say(fd, " \"status\"}\n{\"command\": \"lft\", \"node\": \"leaf1\"}\n[]\n{");
	says(fd, "switches");
	says(fd, "lft");
	says(fd, "error");
	says(other, "nodes");
	say(fd, "}\n");
	says(fd, "error");
	/* half closed: earlier requests are answered */
	assert_int_equal(send(fd, "{\"command\": \"status\"}\n", 22, 0), 22);
	shutdown(fd, SHUT_WR);
	turn();
	says(fd, "switches");
	assert_true(at_end(fd));
	close(fd);
	close(other);
	turn();
}

static void errors(void **st)
{
	static const char *const wrong[] = {
		"", "status", "{}", "[]", "{\"command\": 1}", "{\"command\": \"stop\"}",
		"{\"command\": \"status\", \"command\": \"status\"}",
		"{\"command\": \"status\", \"first\": -1}", "{\"command\": \"status\", \"x\": 1}",
		"{\"command\": \"lft\"}", "{\"command\": \"lft\", \"node\": \"host1\"}",
		"{\"command\": \"lft\", \"node\": \"0x12\"}", "{\"command\": \"status\"} {}",
		"{\"command\": \"node\", \"node\": \"host1\", \"state\": \"kill\", \"\": 1}",
		"{\"command\": \"node\", \"node\": \"host1\", \"state\": \"kill\", \"stat\": 1}",
	};
	int fd = dial();

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wrong); i++) {
		say(fd, wrong[i]);
		say(fd, "\n");
		says(fd, "error");
	}
	close(fd);
	turn();
}

/* An error quotes the words of the request, even if they are cut in the middle of a letter. */
static void errors_of_any_text(void **st)
{
	static const char *const wrong[] = {
		"{\"command\": \"trace\", \"to\": \"host1\", \"from\": \"%s\"}\n",
		"{\"command\": \"node\", \"%s\": 1}\n",
		"{\"command\": \"script\", \"text\": \"%s\"}\n",
	};
	char name[1024], text[1200];
	int fd = dial();

	(void)st;
	/* from an odd byte on, and from an even one */
	for (unsigned int i = 0; i < 2 * IB_ARRAY_SIZE(wrong); i++) {
		strcpy(name, i % 2 ? "x" : "");
		for (unsigned int k = 0; k < 400; k++)
			strcat(name, "\xc3\xa9");
		snprintf(text, sizeof(text), wrong[i / 2], name);
		say(fd, text);
		says(fd, "error");
	}
	close(fd);
	turn();
}

static void long_line(void **st)
{
	static char line[FAB_CONTROL_LINE + 1];
	int fd = dial();

	(void)st;
	memset(line, ' ', FAB_CONTROL_LINE);
	memcpy(line, "{\"command\": \"status\"}", 21);
	line[FAB_CONTROL_LINE - 1] = '\n';
	say(fd, line);
	says(fd, "switches");
	line[FAB_CONTROL_LINE - 1] = ' ';
	say(fd, line);
	says(fd, "error");
	assert_true(at_end(fd));
	close(fd);
}

/*
 * A client that does not read its replies delays no other client, and its further requests are not
 * read.
 */
static void no_reader(void **st)
{
	const char *ask = "{\"command\": \"topology\"}\n";
	int fd = dial(), other = dial();
	unsigned int asked = 0;

	(void)st;
	while (send(fd, ask, strlen(ask), 0) == (ssize_t)strlen(ask)) {
		asked++;
		turn();
	}
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(turn(), 0);
	say(other, "{\"command\": \"status\"}\n");
	says(other, "switches");
	for (unsigned int i = 0; i < 10; i++) {
		says(fd, "nodes");
		turn();
	}
	assert_true(asked > 10);
	close(fd);
	close(other);
	turn();
}

static void too_many(void **st)
{
	int fd[FAB_CONTROL_CLIENTS], more;

	(void)st;
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++)
		fd[i] = dial();
	more = dial();
	says(more, "error");
	assert_true(at_end(more));
	close(more);
	close(fd[3]);
	turn();
	fd[3] = dial();
	say(fd[3], "{\"command\": \"status\"}\n");
	says(fd[3], "switches");
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++)
		close(fd[i]);
	turn();
}

/* The maximum number of clients, none of which reads its replies. */
static void none_reads(void **st)
{
	static const char ask[] = "{\"command\": \"topology\"}\n";
	int fd[FAB_CONTROL_CLIENTS], more;

	(void)st;
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++) {
		fd[i] = dial();
		/* until the fabric reads no more of it; each request is answered at once */
		for (unsigned int k = 0; k < 100000; k++) {
			if (send(fd[i], ask, sizeof(ask) - 1, 0) < 0)
				break;
			turn();
		}
		assert_int_equal(errno, EAGAIN);
	}
	/* nothing keeps the fabric awake */
	assert_int_equal(turn(), 0);
	more = dial();
	says(more, "error");
	close(more);
	/*
	 * one of them reads so much that the fabric continues with it: another one is disconnected
	 */
	now_ns += FAB_CONTROL_QUIET_NS - 1;
	do
		says(fd[0], "nodes");
	while (!turn());
	more = dial();
	says(more, "error");
	close(more);
	now_ns += 1;
	more = dial();
	say(more, "{\"command\": \"status\"}\n");
	says(more, "switches");
	close(more);
	turn();
	for (unsigned int i = 0; i < 5; i++) {
		says(fd[0], "nodes");
		turn();
	}
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++)
		close(fd[i]);
	turn();
}

/* Virtual time that has run does not count as silence of a client. */
static void quiet_in_virtual_time(void **st)
{
	uint64_t until_ns = 0;
	int fd[FAB_CONTROL_CLIENTS], more;

	(void)st;
	m.until_ns = &until_ns;
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++) {
		fd[i] = dial();
		turn();
	}
	now_ns += 1000 * FAB_CONTROL_QUIET_NS;
	more = dial();
	says(more, "error");
	close(more);
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++)
		close(fd[i]);
	turn();
	m.until_ns = NULL;
}

/*
 * A client that connects while there is no descriptor for it gets an error, and does not keep the
 * fabric awake.
 */
static void no_descriptor(void **st)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), next = dup(fd);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct rlimit was, now;

	(void)st;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	close(next);
	now = (struct rlimit){ (rlim_t)next, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	strcpy(un.sun_path, path);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
		assert_in_range(turn(), 1, 2);
		says(fd, "error");
		assert_true(at_end(fd));
		close(fd);
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	}
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	fd = dial();
	say(fd, "{\"command\": \"status\"}\n");
	says(fd, "switches");
	close(fd);
}

/* The timer of the socket, after @ns. */
static uint64_t timer_after(uint64_t ns)
{
	now_ns += ns;
	m.now_ns = now_ns;
	return fab_control_timer(control);
}

/*
 * A client that cannot be accepted for lack of memory or of files, and for which no descriptor can
 * be freed, waits. It does not keep the fabric awake, which tries again after 100 ms.
 */
static void cannot_accept(void **st)
{
	static const int errors[] = { ENOMEM, ENOBUFS, ENFILE, EMFILE };

	(void)st;
	assert_true(timer_after(0) == UINT64_MAX);
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(errors); i++) {
		int other = dial(), fd = knock();

		accept_error = errors[i];
		accepts = 0;
		assert_int_equal(turn(), 1);
		/* to free the spare descriptor helps only against the limit of the process */
		assert_int_equal(accepts, errors[i] == EMFILE ? 2 : 1);
		assert_true(timer_after(0) == 100000000);
		assert_true(timer_after(99999999) == 1);
		assert_int_equal(turn(), 0);
		/* clients that are connected are served */
		say(other, "{\"command\": \"status\"}\n");
		says(other, "switches");
		/* an attempt that fails, one for which the listener cannot be watched, and the last */
		assert_true(timer_after(1) == UINT64_MAX);
		assert_int_equal(turn(), 1);
		watch_error = ENOMEM;
		assert_true(timer_after(100000000) == 100000000);
		assert_int_equal(turn(), 0);
		watch_error = 0;
		accept_error = 0;
		assert_true(timer_after(100000000) == UINT64_MAX);
		assert_int_equal(turn(), 1);
		assert_true(timer_after(0) == UINT64_MAX);
		say(fd, "{\"command\": \"status\"}\n");
		says(fd, "switches");
		close(fd);
		close(other);
		turn();
	}
}

/* A client that cannot be watched learns so, and a quiet one stays for it. */
static void cannot_watch(void **st)
{
	int fd[FAB_CONTROL_CLIENTS], more;
	const char *why;
	json_t *v;

	(void)st;
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++)
		fd[i] = dial();
	now_ns += FAB_CONTROL_QUIET_NS;
	m.now_ns = now_ns;
	watch_error = ENOSPC;
	more = dial();
	v = reply(more);
	why = json_string_value(json_object_get(v, "error"));
	assert_non_null(why);
	assert_non_null(strstr(why, "max_user_watches"));
	json_decref(v);
	assert_true(at_end(more));
	close(more);
	watch_error = 0;
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++) {
		assert_false(at_end(fd[i]));
		assert_int_equal(errno, EAGAIN);
	}
	/* the first one has been quiet for the longest time; it is disconnected for this client */
	more = dial();
	assert_true(at_end(fd[0]));
	say(more, "{\"command\": \"status\"}\n");
	says(more, "switches");
	close(more);
	for (unsigned int i = 0; i < FAB_CONTROL_CLIENTS; i++)
		close(fd[i]);
	turn();
}

/*
 * A client receives what the fabric sent before it closed, for example that too many are connected.
 */
static void closed_early(void **st)
{
	static const char said[] = "{\"x\": 2}\n";
	char *line = NULL;
	size_t size = 0;
	int fd[2];
	json_t *v;
	FILE *s;

	(void)st;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	assert_int_equal(send(fd[0], said, sizeof(said) - 1, 0), sizeof(said) - 1);
	close(fd[0]);
	assert_false(fab_client_send(fd[1], json_pack("{s:s}", "command", "status")));
	s = fdopen(fd[1], "r");
	v = fab_client_reply(s, NULL, &line, &size);
	assert_int_equal(json_integer_value(json_object_get(v, "x")), 2);
	json_decref(v);
	free(line);
	fclose(s);
}

/* The end of the fabric closes the connections of all clients, whatever they are doing. */
static void end(void **st)
{
	const char *ask = "{\"command\": \"topology\"}\n";
	int idle = dial(), part = dial(), late = dial();
	char byte;

	(void)st;
	say(part, "{\"command\":");
	while (send(late, ask, strlen(ask), 0) == (ssize_t)strlen(ask))
		turn();
	fab_control_free(control);
	control = NULL;
	assert_true(at_end(idle));
	assert_true(at_end(part));
	/* the requests that were not answered are lost, its replies are not */
	while (recv(late, &byte, 1, 0) == 1)
		;
	assert_int_equal(recv(late, &byte, 1, 0), 0);
	close(idle);
	close(part);
	close(late);
}

static json_int_t asked(const char *member)
{
	int fd = dial();
	json_int_t n;
	json_t *v;

	say(fd, "{\"command\": \"status\"}\n");
	v = reply(fd);
	n = json_integer_value(json_object_get(v, member));
	json_decref(v);
	close(fd);
	turn();
	return n;
}

/* The link of a machine counts; its own end is not in the graph, and Down there. */
static void links(void **st)
{
	const json_int_t all = asked("cables");
	uint32_t host = 1, sw;

	(void)st;
	assert_int_equal(asked("links_up"), all);
	sw = f->port[host].peer;
	assert_int_not_equal(f->node[f->port[sw].node].sw, FAB_NONE);
	fab_extra(f, host)->outside = true;
	fab_extra(f, sw)->outside = true;
	f->port[host].pi.state = IB_PS_DOWN;
	assert_int_equal(asked("links_up"), all);
	assert_int_equal(asked("links_active"), 0);
	f->port[sw].pi.state = IB_PS_ACTIVE;
	assert_int_equal(asked("links_active"), 1);
	f->port[sw].pi.state = IB_PS_DOWN;
	assert_int_equal(asked("links_up"), all - 1);
}

/* Parts of a table and of the nodes are contiguous, and end. */
static void parts(void **st)
{
	struct fab *big = from_spec("torus:8x8,18");
	json_int_t first = 0;
	size_t nodes = 0;

	(void)st;
	fab_mgmt_init(&m, big, NULL, NULL);
	while (first >= 0) {
		char ask[64], *text;
		json_t *v, *next;

		snprintf(ask, sizeof(ask), "{\"command\": \"counters\", \"first\": %d}", (int)first);
		text = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
		v = json_loads(text, 0, NULL);
		assert_true(json_array_size(json_object_get(v, "nodes")) > 0);
		nodes += json_array_size(json_object_get(v, "nodes"));
		next = json_object_get(v, "next");
		assert_true(!next || json_integer_value(next) == (json_int_t)nodes);
		first = next ? json_integer_value(next) : -1;
		json_decref(v);
		free(text);
	}
	assert_int_equal(nodes, big->nodes);
	fab_free(big);
}

/* Return: the answer to changes since @since, or from now on with -1. */
static json_t *changes_since(json_int_t since)
{
	char ask[64], *text;
	json_t *v;

	if (since < 0)
		strcpy(ask, "{\"command\": \"changes\"}");
	else
		snprintf(ask, sizeof(ask), "{\"command\": \"changes\", \"since\": %lld}", since);
	text = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
	v = json_loads(text, 0, NULL);
	free(text);
	assert_non_null(json_object_get(v, "since"));
	return v;
}

static json_int_t since_of(json_t *v)
{
	const json_int_t since = json_integer_value(json_object_get(v, "since"));

	json_decref(v);
	return since;
}

static bool flag(json_t *v, const char *name)
{
	const bool set = json_is_true(json_object_get(v, name));

	json_decref(v);
	return set;
}

/*
 * Both ends of a cable that was pulled are reported, once; a client that is too far behind gets an
 * error.
 */
static void what_changed(void **st)
{
	const uint32_t leaf = f->port[1].peer;
	json_int_t since = since_of(changes_since(-1));
	json_t *v, *ports, *end;
	size_t i, found = 0;

	(void)st;
	assert_int_equal(since_of(changes_since(since)), since);
	fab_wire_down(&m, leaf);
	v = changes_since(since);
	ports = json_object_get(v, "ports");
	json_array_foreach(ports, i, end) {
		const char *state = json_string_value(json_object_get(end, "state"));
		const char *guid = json_string_value(json_object_get(end, "node"));

		assert_non_null(guid);
		found += json_integer_value(json_object_get(end, "port")) == fab_port_num(f, leaf) &&
			 strtoull(guid, NULL, 0) == f->node[f->port[leaf].node].guid &&
			 !strcmp(state, "Down");
	}
	assert_int_equal(found, 1);
	assert_int_equal(json_array_size(ports), 2);
	since = since_of(v);
	v = changes_since(since);
	assert_int_equal(json_array_size(json_object_get(v, "ports")), 0);
	json_decref(v);

	/* a link that goes down and up is one cable, whichever end was first */
	for (i = 0; i < 8; i++)
		assert_true(fab_fault_link(&m, leaf, i % 2, now_ns));
	v = changes_since(since);
	assert_int_equal(json_array_size(json_object_get(v, "ports")), 2);
	since = since_of(v);
	/* a switch that was off has lost its LID, that of port 0, which has no cable */
	for (i = 0; i < 2; i++)
		assert_true(fab_fault_node(&m, f->port[leaf].node, i, now_ns));
	v = changes_since(since);
	found = 0;
	json_array_foreach(json_object_get(v, "ports"), i, end)
		found += !json_integer_value(json_object_get(end, "port"));
	assert_int_equal(found, 1);
	since = since_of(v);

	for (i = 0; i < FAB_LOG; i++)
		fab_changed(&m, leaf);
	v = changes_since(since);
	assert_false(json_is_true(json_object_get(v, "all")));
	assert_int_equal(json_array_size(json_object_get(v, "ports")), 2);
	assert_true(flag(v, "more"));
	fab_changed(&m, leaf);
	assert_true(flag(changes_since(since), "all"));
	since = since_of(changes_since(since));
	assert_false(flag(changes_since(since), "all"));
	assert_true(flag(changes_since(since + 1), "all"));
	assert_true(flag(changes_since(INT64_MAX), "all"));
}

/* A counter is never less than before, nor less than 0. */
static void large_counter(void **st)
{
	static const char ask[] = "{\"command\": \"counters\"}";
	struct fab *big = from_spec("torus:8x8,18");
	const json_t *node, *port;
	char *text;
	json_t *v;

	(void)st;
	fab_mgmt_init(&m, big, NULL, NULL);
	fab_extra(big, fab_port_of(&big->node[0], 1))->ctr.xmit_data = (uint64_t)INT64_MAX + 1;
	text = fab_control_answer(&m, NULL, ask, strlen(ask), NULL);
	v = json_loads(text, 0, NULL);
	node = json_array_get(json_object_get(v, "nodes"), 0);
	for (size_t i = 0; (port = json_array_get(json_object_get(node, "ports"), i)); i++)
		if (json_integer_value(json_object_get(port, "port")) == 1)
			break;
	assert_non_null(port);
	assert_true(json_integer_value(json_object_get(port, "PortXmitData")) == INT64_MAX);
	json_decref(v);
	free(text);
	fab_free(big);
}

static void files(void **st)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char name[128], stale[80];
	struct ohca_link_err err;
	struct stat sb;
	int fd;

	(void)st;
	assert_int_equal(stat(path, &sb), 0);
	assert_int_equal(sb.st_mode & 0777, 0600);
	assert_null(fab_control_new(&m, NULL, path, epfd, &closer));
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(stat(path, &sb), 0);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	assert_null(fab_control_new(&m, NULL, name, epfd, &closer));
	assert_int_equal(errno, ENAMETOOLONG);
	snprintf(stale, sizeof(stale), "%s-stale", path);
	strcpy(un.sun_path, stale);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	close(fd);
	{
		struct fab_control *c = fab_control_new(&m, NULL, stale, epfd, &closer);

		assert_non_null(c);
		fab_control_free(c);
	}
	assert_int_not_equal(access(stale, F_OK), 0);
	/* while another process is about to listen in that directory */
	fd = ohca_link_lock_dir(stale, &err);
	assert_true(fd >= 0);
	assert_null(fab_control_new(&m, NULL, stale, epfd, &closer));
	assert_int_equal(errno, EWOULDBLOCK);
	close(fd);
	/* a file that is no socket stays */
	fd = open(stale, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_null(fab_control_new(&m, NULL, stale, epfd, &closer));
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(unlink(stale), 0);
}

/* The closer closes a descriptor that comes with a request, or that is in a socket at its end. */
static void passed(void **st)
{
	const uint64_t before = closer.in_place;
	struct pollfd p = { .events = POLLOUT };
	int fd = dial();

	(void)st;
	for (unsigned int k = 1; k <= 2; k++) {
		p.fd = pass_pipe(fd);
		if (k == 1)
			turn();
		else
			fab_control_free(control);
		assert_int_equal(closer.in_place - before, k);
		assert_int_equal(poll(&p, 1, 0), 1);
		assert_true(p.revents & POLLERR);
		close(p.fd);
	}
	close(fd);
	control = fab_control_new(&m, NULL, path, epfd, &closer);
	assert_non_null(control);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(requests, setup, teardown),
		cmocka_unit_test_setup_teardown(passed, setup, teardown),
		cmocka_unit_test_setup_teardown(errors, setup, teardown),
		cmocka_unit_test_setup_teardown(errors_of_any_text, setup, teardown),
		cmocka_unit_test_setup_teardown(long_line, setup, teardown),
		cmocka_unit_test_setup_teardown(no_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many, setup, teardown),
		cmocka_unit_test_setup_teardown(none_reads, setup, teardown),
		cmocka_unit_test_setup_teardown(quiet_in_virtual_time, setup, teardown),
		cmocka_unit_test_setup_teardown(no_descriptor, setup, teardown),
		cmocka_unit_test_setup_teardown(cannot_accept, setup, teardown),
		cmocka_unit_test_setup_teardown(cannot_watch, setup, teardown),
		cmocka_unit_test(closed_early),
		cmocka_unit_test_setup_teardown(end, setup, teardown),
		cmocka_unit_test_setup_teardown(links, setup, teardown),
		cmocka_unit_test_setup_teardown(parts, setup, teardown),
		cmocka_unit_test_setup_teardown(what_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(large_counter, setup, teardown),
		cmocka_unit_test_setup_teardown(files, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
