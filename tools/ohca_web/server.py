# SPDX-License-Identifier: GPL-2.0-or-later
"""HTTP: connections, their bounds, and the format of answers. A site defines the contents.

It uses Python's own http.server. Each answer is sent at once, in one piece, so a framework would
add a dependency and no bound. This module has the bounds: the number of connections, each with a
thread; the number of connections of one other host; the seconds to receive a request, and to send
its answer; the bytes of its head, and of its body. A request that is not allowed gets its error
before the body is read, and the connection is closed.

A site has these members: name, for the header Server; challenge, headers of an answer with status
401; admit(method, path, headers), which can raise HttpError before the body is read; and
answer(method, path, body), which returns a JSON value or a Text, or raises HttpError.
"""
import collections
import hmac
import io
import ipaddress
import json
import re
import socket
import ssl
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn

from .shape import HttpError, Text

MAX_CONNECTIONS = 32
MAX_OF_HOST = 8         # of these, for one other host; all clients of this host have one address
MAX_HEAD = 64 << 10
MAX_BODY = 256 << 10
AHEAD = 16 << 10        # bytes of the next request that may be received with this one
PATIENCE = 10           # seconds to receive a request, and to send its answer


def is_local_name(host):
    """Whether a Host header has an address or localhost, not a name that others can define."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:]+))(?::[0-9]*)?", host.strip())
    if not match:
        return False
    try:
        return match[2] and match[2].lower() == "localhost" or \
            bool(ipaddress.ip_address(match[1] or match[2]))
    except ValueError:
        return False


def host_of(address):
    """The key of a host for MAX_OF_HOST: an IPv4 address or an IPv6 /64; None is this host."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback:
        return None
    return found if found.version == 4 else int(found) >> 64


def among(value, secrets):
    """Whether value is one of the secrets; the time does not depend on which one."""
    return sum(hmac.compare_digest(value.encode(), secret.encode()) for secret in secrets) > 0


class Timed(io.RawIOBase):
    """Reads from a socket, up to a deadline and a number of bytes."""

    def __init__(self, sock):
        super().__init__()
        self.sock, self.end, self.room = sock, 0, 0

    def start(self):
        """Sets a new deadline, for a request or for its answer."""
        self.end = time.monotonic() + PATIENCE
        self.room = MAX_HEAD

    def readable(self):
        """True: io.BufferedReader needs it."""
        return True

    def left(self):
        """Sets the socket's timeout to the rest of the time."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request or its answer took too long")
        self.sock.settimeout(left)

    def readinto(self, buffer):
        """Reads at most the buffer's size."""
        self.left()
        if self.room <= 0:
            raise HttpError(431, f"a request has at most {MAX_HEAD} bytes before its body")
        size = self.sock.recv_into(buffer, min(len(buffer), self.room))
        self.room -= size
        return size


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"    # also a malformed request gets a status
    sys_version = ""

    def setup(self):
        """Does the TLS handshake in the connection's thread, within the time of a request."""
        self.connection = self.request
        self.timed = Timed(self.connection)
        self.timed.start()
        self.timed.left()
        if self.server.tls:
            self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
            self.timed.sock = self.connection
        self.rfile = io.BufferedReader(self.timed)
        self.wfile = io.BytesIO()           # not used: reply() sends an answer in one piece
        self.server_version = self.server.site.name
        self.command, self.request_version = "", "HTTP/1.0"

    def finish(self):
        """Ends the connection; reads the rest first, since a reset could destroy the answer."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                self.connection.settimeout(max(end - time.monotonic(), 0.001))
                if not self.connection.recv(1 << 16):
                    break
        except (OSError, ValueError):
            pass
        self.connection.close()

    def handle_one_request(self):
        """Receives and answers one request, or an error."""
        self.timed.start()
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if len(self.raw_requestline) > 65536:
                self.send_error(414)
            elif not self.raw_requestline:
                self.close_connection = True
            elif self.parse_request():
                self.one()
        except HttpError as e:
            self.close_connection = True
            self.reply(e.status, {"error": e.text})
        except (TimeoutError, ssl.SSLError, ConnectionError):
            self.close_connection = True

    def one(self):
        """Answers a request whose head is parsed."""
        was, self.close_connection = self.close_connection, True    # the body is not read yet
        try:
            self.server.site.admit(self.command, self.path, self.headers)
            body = self.body()
            self.close_connection = was
            status, value = 200, self.server.site.answer(self.command, self.path, body)
        except HttpError as e:
            status, value = e.status, {"error": e.text}
        except (TimeoutError, ssl.SSLError, ConnectionError):
            raise
        except Exception:       # pylint: disable=broad-exception-caught
            traceback.print_exc()       # the server continues with other requests
            self.close_connection = True
            status, value = 500, {"error": f"{self.server_version} has an internal error: read "
                                         "its log"}
        self.reply(status, value)

    def body(self):
        """The whole body."""
        if "Transfer-Encoding" in self.headers:
            raise HttpError(411, "a request must have Content-Length, and no Transfer-Encoding")
        values = self.headers.get_all("Content-Length", ["0"])
        if len(values) > 1 or not (values[0].isascii() and values[0].isdigit()):
            raise HttpError(400, "Content-Length must be one number")
        if len(values[0]) > 9 or int(values[0]) > MAX_BODY:
            raise HttpError(413, f"a body has at most {MAX_BODY} bytes")
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.timed.room = int(values[0]) + AHEAD
        body = self.rfile.read(int(values[0]))
        if len(body) < int(values[0]):
            raise ConnectionError("the body is shorter than Content-Length")
        return body

    def handle_expect_100(self):
        """Does nothing: body() sends 100 Continue when it has checked the size."""
        return True

    def send(self, data):
        """Sends all data within PATIENCE seconds."""
        self.timed.start()
        while data:
            self.timed.left()
            data = data[self.connection.send(data[:1 << 16]):]

    def send_error(self, code, message=None, explain=None):
        """Sends http.server's own errors in the format of the others."""
        self.close_connection = True
        self.reply(int(code), {"error": message or self.responses.get(code, ("error",))[0]})

    def reply(self, status, value):
        """Sends an answer in one piece: a JSON value or a Text."""
        if not isinstance(value, Text):
            value = Text(json.dumps(value).encode() + b"\n", "application/json")
        data = value.data
        lines = [f"{self.protocol_version} {status} {self.responses.get(status, ('',))[0]}",
                 f"Content-Type: {value.kind}", f"Content-Length: {len(data)}",
                 f"Date: {self.date_time_string()}", f"Server: {self.server_version}",
                 *(f"{name}: {text}" for name, text in
                   (self.server.site.challenge if status == 401 else value.headers).items()),
                 "Connection: " + ("close" if self.close_connection else "keep-alive")]
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        try:
            self.send(head if self.command == "HEAD" else head + data)
        except OSError:                 # the client has closed, or does not read
            self.close_connection = True


class Server(ThreadingMixIn, TCPServer):
    """A server with bounds on connections: more get an error and are closed."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address, site, tls=None):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.site, self.tls = site, tls
        self.places = collections.Counter()     # connections of each host
        self.lock = threading.Lock()            # of places
        super().__init__(address, Handler)

    def take(self, host):
        """Reserves a connection for a host. Return: None, or the bound that it would exceed"""
        with self.lock:
            if self.places.total() >= MAX_CONNECTIONS:
                return f"{MAX_CONNECTIONS} connections"
            if host is not None and self.places[host] >= MAX_OF_HOST:
                return f"{MAX_OF_HOST} connections of this host"
            self.places[host] += 1
        return None

    def give(self, host):
        """Releases a connection of a host."""
        with self.lock:
            self.places[host] -= 1
            if not self.places[host]:
                del self.places[host]

    def process_request(self, request, client_address):
        """Starts a thread for a connection, or refuses it."""
        host = host_of(client_address[0])
        if bound := self.take(host):
            self.refuse(request, bound)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:            # the system has no thread
            self.give(host)
            self.refuse(request, "as many connections as the system has threads for")

    def refuse(self, request, bound):
        """Sends an error without waiting, and closes."""
        text = json.dumps({"error": f"there are already {bound}: try again later"})
        try:
            request.setblocking(False)
            if not self.tls:
                request.send("HTTP/1.1 503 Service Unavailable\r\n"
                             "Content-Type: application/json\r\n"
                             f"Content-Length: {len(text)}\r\n"
                             f"Connection: close\r\n\r\n{text}".encode())
        except OSError:
            pass
        self.shutdown_request(request)

    def process_request_thread(self, request, client_address):
        """Serves a connection, and releases it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.give(host_of(client_address[0]))

    def handle_error(self, request, client_address):
        """Prints errors, except those of connections and TLS, which clients can cause."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            traceback.print_exc()
