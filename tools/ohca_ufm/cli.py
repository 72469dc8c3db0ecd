# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of ohca-ufm."""
import argparse
import functools
import ipaddress
import os
import re
import signal
import ssl
import sys
import threading

from . import reload
from .calls import Calls
from .fabric import Fabric
from .partitions import ConfError
from .server import Access, Server
from .store import Store
from .words import UfmError

MAX_LINES = 1024        # of users, and of tokens
BRACKETS = re.compile(r"\[([^\[\]]+)\](?::([0-9]+))?")


def say(text):
    """To standard error."""
    print(f"ohca-ufm: {text}", file=sys.stderr, flush=True)


def secrets(path, what):
    """The lines of a file of secrets, which others must not read."""
    if not path:
        return []
    with open(path, encoding="utf-8") as f:
        if os.fstat(f.fileno()).st_mode & 0o077:
            raise ConfError(f"{path} must be readable by its owner alone (chmod 600)")
        try:
            lines = [line for line in f.read(1 << 20).splitlines() if line and line[0] != "#"]
        except UnicodeDecodeError:
            raise ConfError(f"{path} is no text in UTF-8") from None
    if not lines or len(lines) > MAX_LINES:
        raise ConfError(f"{path} must have 1 to {MAX_LINES} {what}, one in a line")
    return lines


def access_of(opt):
    """From the files of users and of tokens."""
    users = {}
    for line in secrets(opt.users, "users"):
        user, colon, password = line.partition(":")
        if not (user and colon and password):
            raise ConfError(f"{opt.users}: a line must be USER:PASSWORD")
        users[user] = password
    return Access(users, secrets(opt.tokens, "tokens"))


def tls_of(opt):
    """None: without TLS"""
    if not opt.certificate and not opt.key:
        return None
    if not opt.certificate:
        raise ConfError("--key needs --certificate")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(opt.certificate, opt.key)
    except ssl.SSLError as e:
        raise ConfError(f"{opt.certificate}: {e}") from None
    return context


def address_of(text):
    """ADDRESS:PORT, ADDRESS or PORT; an address of IPv6 that has a port is in brackets"""
    host, port = "127.0.0.1", "8080"
    if match := BRACKETS.fullmatch(text):
        host, port = match[1], match[2] or port
    elif text.isascii() and text.isdigit():
        port = text
    elif text.count(":") == 1:
        host, port = text.split(":")
    else:
        host = text
    try:
        if ipaddress.ip_address(host).version != 6 and match:
            raise ValueError
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not ADDRESS:PORT, with numbers, and IPv6 in "
                                         "brackets") from None
    return host, int(port)


def fabric_program():
    """That of a checkout, if it is built, or the one that is installed."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    built = os.path.join(os.environ.get("OHCA_BUILD") or os.path.join(top, "build"), "fabric",
                         "ohca-fabric")
    return built if os.path.exists(built) else "ohca-fabric"


def options(argv):
    """What the user wants."""
    p = argparse.ArgumentParser(prog="ohca-ufm", description="UFM's calls on partitions and "
                                "topology for OpenSM and ohca-fabric, and metrics for Prometheus")
    p.add_argument("--partitions", metavar="FILE", default="/etc/opensm/partitions.conf",
                   help="OpenSM's file; what is above the mark stays (%(default)s)")
    p.add_argument("--state", metavar="FILE",
                   help="what clients have made (FILE.ufm of --partitions)")
    p.add_argument("--control", metavar="PATH", help="the fabric's control socket, for systems, "
                   "ports, links and metrics")
    p.add_argument("--fabric", metavar="PROGRAM", default=fabric_program(),
                   help="ohca-fabric, for metrics (%(default)s)")
    p.add_argument("--listen", metavar="ADDRESS:PORT", type=address_of, default="127.0.0.1:8080",
                   help="(%(default)s); port 0: a free one")
    p.add_argument("--certificate", metavar="FILE", help="TLS, with this certificate in PEM")
    p.add_argument("--key", metavar="FILE", help="and its key (in the same file)")
    p.add_argument("--users", metavar="FILE", help="lines USER:PASSWORD, for /ufmRest")
    p.add_argument("--tokens", metavar="FILE", help="lines TOKEN, for /ufmRestV2 and /ufmRestV3")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--opensm-pid", metavar="FILE", help="SIGHUP to the process in FILE; "
                     "otherwise to the one that is called opensm")
    how.add_argument("--reload", metavar="COMMAND", help="instead, after the file was written")
    return p.parse_args(argv)


def serve(opt):
    """Until a signal."""
    tell = (functools.partial(reload.by_command, opt.reload) if opt.reload else
            functools.partial(reload.by_file, opt.opensm_pid) if opt.opensm_pid else reload.by_name)
    access, tls = access_of(opt), tls_of(opt)
    if access.open and not ipaddress.ip_address(opt.listen[0]).is_loopback:
        raise ConfError(f"{opt.listen[0]} is no address of this host alone: --users or --tokens "
                        "must say who may come")
    store = Store(opt.partitions, opt.state or opt.partitions + ".ufm", tell)
    try:
        store.read_again()
    except UfmError as e:
        say(f"{e.text}; it is tried again with each change")
    with Server(opt.listen, Calls(store, Fabric(opt.control, opt.fabric)), access, tls) as server:
        for number in signal.SIGINT, signal.SIGTERM:
            # shutdown() waits for the loop, which this thread runs
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        host, port = server.server_address[:2]
        print(f"ready at {'https' if tls else 'http'}://"
              f"{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        server.serve_forever()
    with store.lock:                    # a change is made to its end
        store.close()
    return 0


def main():
    """The exit status."""
    try:
        return serve(options(sys.argv[1:]))
    except ConfError as e:
        say(str(e))
    except OSError as e:
        say(f"{e.filename + ': ' if e.filename else ''}{e.strerror}")
    return 1
