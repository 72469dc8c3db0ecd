#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-map without a browser: the page, requests, access, and 200 wrong requests."""
import contextlib
import http.client
import io
import json
import os
import random
import socket
import subprocess
import sys
from unittest import mock
from urllib.parse import urlsplit

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests"))

from ufm import rest  # noqa: E402  pylint: disable=wrong-import-position
from ohca_map import cli, site  # noqa: E402  pylint: disable=wrong-import-position

PROGRAM = os.path.join(TOP, "tools", "ohca-map")
FABRIC = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "ohca-fabric"
WRONG = 200
SEED = 11


def deep(n):
    """A request with that many nested lists."""
    return b'{"command": "status", "a": ' + b"[" * n + b"]" * n + b"}"


class Map(rest.Case):
    """A server with a fabric."""

    def setUp(self):
        super().setUp()
        self.control = os.path.join(self.dir, "control")
        self.serve()
        self.token, self.netloc = self.begin()

    def serve(self):
        """Starts a fabric at the control socket. Return: its process"""
        fabric = subprocess.Popen([FABRIC, "serve", "-q", "--generate", "fat-tree:4,3", "--control",
                                   self.control], stdout=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(fabric.stdout.close)
        self.addCleanup(fabric.wait)
        self.addCleanup(fabric.kill)
        self.assertIn("ready", fabric.stdout.readline())
        return fabric

    def begin(self, *args):
        """Starts another server. Return: its token and its address"""
        server = subprocess.Popen([sys.executable, PROGRAM, "--control", self.control, "--listen",
                                   "0", *args], stdout=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        url = urlsplit(server.stdout.readline().split()[2])
        self.assertEqual(url.path, "/")
        self.assertGreaterEqual(len(url.fragment), 32)
        return url.fragment, url.netloc

    def raw(self, method, path, body=None, headers=None, netloc=None):
        """Sends a request. Return: the status, the headers, and the body as text"""
        c = http.client.HTTPConnection(netloc or self.netloc, timeout=rest.PATIENCE)
        try:
            c.request(method, path, body, headers or {})
            answer = c.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            c.close()

    def ask(self, request, token=None, netloc=None, **headers):
        """Sends a request of the page. Return: the status, and the replies or the error"""
        status, _, text = self.raw("POST", "/ask", json.dumps(request), {
            "Authorization": f"Bearer {token or self.token}", **headers}, netloc)
        return status, [json.loads(line) for line in text.splitlines()]

    def refused(self, answer, status, text=""):
        """Checks for an error with a sentence."""
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(list(answer[1][0]), ["error"])
        self.assertIn(text, answer[1][0]["error"])

    def test_page(self):
        """The page needs no token, its policy allows its own script, and it loads nothing else."""
        status, headers, text = self.raw("GET", "/")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        script = text[text.index("<script>") + 8:text.rindex("</script>")]
        for want in ("default-src 'none'", "frame-ancestors 'none'",
                     f"script-src 'sha256-{site.digest(script)}'"):
            self.assertIn(want, headers["Content-Security-Policy"])
        self.assertNotIn("http://", text.replace("http://www.w3.org/2000/svg", ""))
        self.assertNotIn("https://", text)
        self.assertNotIn(self.token, text)

    def test_fabric(self):
        """The whole fabric in parts, a fault, and the change that it makes."""
        status, parts = self.ask({"command": "topology"})
        self.assertEqual(status, 200)
        self.assertEqual(sum(len(p["nodes"]) for p in parts), 36)
        since = self.ask({"command": "changes"})[1][0]["since"]
        self.assertEqual(self.ask({"command": "link", "node": "host1", "port": 1,
                                   "state": "down"}), (200, [{"done": True}]))
        ports = self.ask({"command": "changes", "since": since})[1][0]["ports"]
        self.assertEqual({(p["port"], p["state"]) for p in ports}, {(1, "Down")})
        self.refused(self.ask({"command": "lft", "node": "nobody"}), 400, "nobody")
        wrong = self.ask({"command": "script", "text": "at 0 link up nobody:1"})
        self.assertEqual(wrong[1][0]["errors"][0]["line"], 1)

    def test_parts(self):
        """An answer has a limited size; 'next' continues it."""
        with mock.patch.object(site, "ROOM", 1):
            here = site.Site(cli.Control(self.control), "t")
            lines = here.answer("POST", "/ask", b'{"command": "topology"}').data.splitlines()
        self.assertEqual(len(lines), 1)

    def test_restarted(self):
        """After a restart of the fabric, a position in the old changes is too old."""
        since = self.ask({"command": "changes"})[1][0]["since"]
        os.unlink(self.control)
        self.refused(self.ask({"command": "changes", "since": since}), 503, "does not answer")
        self.serve()
        self.assertTrue(self.ask({"command": "changes", "since": since})[1][0]["all"])

    def test_who(self):
        """The token, Host and Origin are checked."""
        status = {"command": "status"}
        self.assertEqual(self.ask(status)[0], 200)
        for token in "x", self.token[:-1], self.token + "x", "\u00e9":
            self.refused(self.ask(status, token=token), 401, "token")
        self.refused(self.ask(status, Authorization=self.token), 401)
        self.refused(self.ask(status, Authorization=f"Basic {self.token}"), 401)
        self.refused(self.ask(status, Host="fabric.example"), 403, "Host")
        self.assertEqual(self.raw("GET", "/", headers={"Host": "fabric.example"})[0], 403)
        for origin in "http://a.example", "null", "https://" + self.netloc, "http://127.0.0.1":
            self.refused(self.ask(status, Origin=origin), 403, "sites")
        self.assertEqual(self.ask(status, Origin="http://" + self.netloc)[0], 200)
        self.assertEqual(self.ask(status, Host="localhost", Origin="http://localhost")[0], 200)
        with socket.create_connection(self.netloc.split(":")) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertIn(b" 403 ", s.recv(1 << 16))

    def test_read_only(self):
        """Commands that make faults are refused, others are not; the page has the flag."""
        token, netloc = self.begin("--read-only")
        for at, want in ((netloc, True), (self.netloc, False)):
            text = self.raw("GET", "/", netloc=at)[2]
            self.assertEqual("<body data-read-only>" in text, want)
        self.assertEqual(self.ask({"command": "topology"}, token, netloc)[0], 200)
        for command in site.FAULTS:
            self.refused(self.ask({"command": command, "node": "host1", "port": 1}, token, netloc),
                         403, "--read-only")

    def test_wrong(self):
        """Each of 200 wrong requests gets an error, and the fabric does not change."""
        chance = random.Random(SEED)
        good = {"Authorization": f"Bearer {self.token}"}
        kinds = (
            lambda: ("POST", "/ask", chance.randbytes(chance.randrange(1, 300)), good),
            lambda: ("POST", "/ask", b"[" * chance.randrange(1, 100000), good),
            lambda: ("POST", "/ask", json.dumps(chance.choice((None, [], 3, "status"))), good),
            lambda: ("POST", "/ask", json.dumps({"command": chance.choice((
                None, 1, [], {}, "", "capture", "metrics", "STATUS", "status\n", "x" * 999))}),
                     good),
            lambda: ("POST", "/ask", json.dumps({"command": "topology", "first": chance.choice((
                -1, "0", 1.5, True, None, [], 1 << 40))}), good),
            lambda: ("POST", "/ask", json.dumps({"command": chance.choice(site.FAULTS),
                                                 f"x{chance.random()}": 1}), good),
            lambda: ("POST", "/ask", json.dumps({"command": "status", "pad": "x" * 70000}), good),
            lambda: ("POST", "/ask", deep(chance.randrange(900, 2000)), good),
            lambda: ("POST", "/ask", json.dumps({"command": "status"}),
                     {"Authorization": chance.choice(("", "Bearer", "Bearer x", "x"))}),
            lambda: (chance.choice(("GET", "PUT", "DELETE", "OPTIONS")), "/ask", b"", good),
            lambda: (chance.choice(("POST", "PUT", "HEAD")), "/", b"", good),
            lambda: ("GET", chance.choice(("/map.html", "/../etc/passwd", "/?", "*", "/ask/",
                                           "/%2e", "/favicon.ico")), None, good))
        for n in range(WRONG):
            with self.subTest(n=n):
                status, _, text = self.raw(*kinds[n % len(kinds)]())
                self.assertIn(status, (400, 401, 403, 404, 405, 411, 413, 414, 501), text)
                if text:
                    self.assertEqual(list(json.loads(text)), ["error"])
        status, (found,) = self.ask({"command": "status"})
        self.assertEqual((status, found["links_up"]), (200, 48))

    def test_options(self):
        """An address that other hosts can reach needs TLS."""
        for args, want in (((), "--control"), (("--control", "c", "--listen", "0.0.0.0:0"), "TLS"),
                           (("--control", "c", "--certificate", "gone"), "gone: No such file")):
            said = io.StringIO()
            with self.subTest(args=args), contextlib.redirect_stderr(said), \
                    mock.patch.object(cli.sys, "argv", ["", *args]):
                try:
                    self.assertEqual(cli.main(), 1)
                except SystemExit as e:
                    self.assertEqual(e.code, 2)
                self.assertIn(want, said.getvalue())


if __name__ == "__main__":
    rest.main()
