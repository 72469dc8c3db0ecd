# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-ufm as a process, and a client of it; the result that tests/run counts."""
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import urlsplit

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tools"))
PROGRAM = os.path.join(TOP, "tools", "ohca-ufm")
PATIENCE = 60
PKEYS = "/ufmRest/resources/pkeys"
REMOVE = "/ufmRest/actions/remove_guids_from_pkey"


class Ufm:
    """A server in a directory; conf is the path of its partitions.conf."""

    def __init__(self, directory, *args, how=("--reload", "echo >>reloads")):
        self.directory = directory
        self.conf, self.state = (os.path.join(directory, x) for x in ("p.conf", "p.conf.ufm"))
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [sys.executable, PROGRAM, "--partitions", "p.conf", "--listen", "0", *how, *args],
            cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        line = self.process.stdout.readline()
        if not line.startswith("ready at "):
            raise AssertionError(self.process.communicate(timeout=PATIENCE)[1])
        self.url = urlsplit(line.split()[2])

    def connection(self, context=None):
        """A new connection to the server."""
        if self.url.scheme == "https":
            return http.client.HTTPSConnection(self.url.netloc, timeout=PATIENCE, context=context)
        return http.client.HTTPConnection(self.url.netloc, timeout=PATIENCE)

    def call(self, method, path, body=None, headers=None, context=None):
        """Sends a request on a new connection. Return: the status and the JSON value"""
        c = self.connection(context)
        try:
            return ask(c, method, path, body, headers)
        finally:
            c.close()

    def text(self):
        """The text of partitions.conf."""
        return read(self.conf)

    def end(self, number=signal.SIGTERM):
        """Ends the server. Return: its status and its messages"""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err


def ask(connection, method, path, body=None, headers=None):
    """Sends a request. Return: the status and the JSON value, or (kind, text) if it is no JSON"""
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    kind, text = answer.getheader("Content-Type"), answer.read()
    return answer.status, json.loads(text) if kind == "application/json" else (kind, text.decode())


def read(path):
    """The text of a file."""
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text, mode=0o600):
    """Writes a file."""
    with open(path, "w", encoding="utf-8") as f:
        os.fchmod(f.fileno(), mode)
        f.write(text)


class Case(unittest.TestCase):
    """A test with a directory."""

    def setUp(self):
        d = tempfile.TemporaryDirectory()   # pylint: disable=consider-using-with
        self.addCleanup(d.cleanup)
        self.dir = d.name

    def started(self, *args, **more):
        """A server that runs until the end of the test."""
        server = Ufm(self.dir, *args, **more)
        self.addCleanup(server.process.stderr.close)
        self.addCleanup(server.process.stdout.close)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def good(self, answer):
        """Checks for status 200. Return: the value"""
        self.assertEqual(answer[0], 200, answer)
        return answer[1]

    def bad(self, answer, status, text=""):
        """Checks for an error in the right format."""
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(list(answer[1]), ["error"])
        self.assertIn(text, answer[1]["error"])


class Lines(unittest.TextTestResult):
    """Prints a line for each test, as tests/run counts them."""

    def stopTest(self, test):
        super().stopTest(test)
        # also for a subtest
        bad = [text for t, text in self.failures + self.errors
               if getattr(t, "test_case", t) is test]
        print("\n".join([*bad, f"{'FAIL' if bad else 'PASS'}: {test.id().partition('.')[2]}"]),
              flush=True)


def main():
    """Runs the tests of the program."""
    print(f"== {os.path.basename(sys.argv[0])}", flush=True)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    with open(os.devnull, "w", encoding="ascii") as nothing:
        result = unittest.TextTestRunner(nothing, resultclass=Lines).run(suite)
    sys.exit(not result.wasSuccessful())
