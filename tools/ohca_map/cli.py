# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of ohca-map."""
import argparse
import secrets
import sys

from ohca_web.control import Control
from ohca_web.options import ConfError, add_server, is_loopback, serve, tls_of
from ohca_web.server import Server

from .site import Site


def options(argv):
    """The options of a command line."""
    p = argparse.ArgumentParser(prog="ohca-map", description="Serves a page for the browser that "
                                "shows a fabric of ohca-fabric and makes faults in it.")
    p.add_argument("--control", metavar="PATH", required=True, help="the fabric's control socket")
    p.add_argument("--read-only", action="store_true", help="refuse commands that make faults")
    add_server(p, "127.0.0.1:8081")
    return p.parse_args(argv)


def run(opt):
    """Serves the page until a signal; returns the exit status."""
    tls = tls_of(opt)
    if not tls and not is_loopback(opt.listen):
        raise ConfError(f"--listen {opt.listen[0]}: other hosts can reach this address: give "
                        "--certificate, because the token needs TLS there")
    token = secrets.token_urlsafe(24)
    site = Site(Control(opt.control), token, opt.read_only, bool(tls))
    with Server(opt.listen, site, tls) as server:
        serve(server, f"/#{token}")
    return 0


def main():
    """Runs ohca-map; returns the exit status."""
    try:
        return run(options(sys.argv[1:]))
    except ConfError as e:
        print(f"ohca-map: {e}", file=sys.stderr, flush=True)
    except OSError as e:
        print(f"ohca-map: {e.filename + ': ' if e.filename else ''}{e.strerror}", file=sys.stderr,
              flush=True)
    return 1
