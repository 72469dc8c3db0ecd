# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of ohca-ufm."""
import argparse
import functools
import os
import sys

from ohca_web.options import ConfError, add_server, is_loopback, serve, tls_of
from ohca_web.server import Server
from ohca_web.shape import HttpError

from . import reload
from .calls import Calls
from .fabric import Fabric
from .site import Access, Site
from .store import Store

MAX_LINES = 1024        # users, and tokens


def say(text):
    """Prints a message to standard error."""
    print(f"ohca-ufm: {text}", file=sys.stderr, flush=True)


def secrets(path, what):
    """The lines of a file of secrets; ConfError if others can read the file."""
    if not path:
        return []
    with open(path, encoding="utf-8") as f:
        if os.fstat(f.fileno()).st_mode & 0o077:
            raise ConfError(f"{path}: only its owner may have access: run 'chmod 600 {path}'")
        try:
            lines = [line for line in f.read(1 << 20).splitlines() if line and line[0] != "#"]
        except UnicodeDecodeError:
            raise ConfError(f"{path} is not UTF-8 text") from None
    if not lines or len(lines) > MAX_LINES:
        raise ConfError(f"{path} must have 1 to {MAX_LINES} {what}, one in each line")
    return lines


def access_of(opt):
    """The Access that the files of users and of tokens define."""
    users = {}
    for line in secrets(opt.users, "users"):
        user, colon, password = line.partition(":")
        if not (user and colon and password):
            raise ConfError(f"{opt.users}: each line must be USER:PASSWORD")
        users[user] = password
    return Access(users, secrets(opt.tokens, "tokens"))


def fabric_program():
    """ohca-fabric of a checkout, if it is built there, else the installed one."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    built = os.path.join(os.environ.get("OHCA_BUILD") or os.path.join(top, "build"), "fabric",
                         "ohca-fabric")
    return built if os.path.exists(built) else "ohca-fabric"


def options(argv):
    """The options of a command line."""
    p = argparse.ArgumentParser(prog="ohca-ufm", description="Answers UFM's calls on partitions "
                                "and topology for OpenSM and ohca-fabric, and has metrics for "
                                "Prometheus.")
    p.add_argument("--partitions", metavar="FILE", default="/etc/opensm/partitions.conf",
                   help="OpenSM's file; lines above the mark do not change (%(default)s)")
    p.add_argument("--state", metavar="FILE",
                   help="the file for partitions of clients (FILE.ufm of --partitions)")
    p.add_argument("--control", metavar="PATH", help="the fabric's control socket, for systems, "
                   "ports, links and metrics")
    p.add_argument("--fabric", metavar="PROGRAM", default=fabric_program(),
                   help="the program ohca-fabric, for metrics (%(default)s)")
    add_server(p, "127.0.0.1:8080")
    p.add_argument("--users", metavar="FILE",
                   help="users of /ufmRest, in lines USER:PASSWORD")
    p.add_argument("--tokens", metavar="FILE",
                   help="tokens for /ufmRestV2 and /ufmRestV3, one in each line")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--opensm-pid", metavar="FILE", help="send SIGHUP to the process whose number "
                     "is in FILE (to the process named opensm)")
    how.add_argument("--reload", metavar="COMMAND", help="run COMMAND instead of sending SIGHUP")
    return p.parse_args(argv)


def run(opt):
    """Serves until a signal; returns the exit status."""
    tell = (functools.partial(reload.by_command, opt.reload) if opt.reload else
            functools.partial(reload.by_file, opt.opensm_pid) if opt.opensm_pid else reload.by_name)
    access, tls = access_of(opt), tls_of(opt)
    if access.open and not is_loopback(opt.listen):
        raise ConfError(f"--listen {opt.listen[0]}: other hosts can reach this address: give "
                        "--users or --tokens")
    store = Store(opt.partitions, opt.state or opt.partitions + ".ufm", tell)
    try:
        store.read_again()
    except HttpError as e:
        say(f"{e.text}; ohca-ufm tries again with each change")
    site = Site(Calls(store, Fabric(opt.control, opt.fabric)), access)
    with Server(opt.listen, site, tls) as server:
        serve(server)
    with store.lock:                    # waits for the end of a change
        store.close()
    return 0


def main():
    """Runs ohca-ufm; returns the exit status."""
    try:
        return run(options(sys.argv[1:]))
    except ConfError as e:
        say(str(e))
    except OSError as e:
        say(f"{e.filename + ': ' if e.filename else ''}{e.strerror}")
    return 1
