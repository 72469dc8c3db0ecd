# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of a server, and its life: where it listens, TLS, until a signal."""
import argparse
import ipaddress
import re
import signal
import ssl
import threading

BRACKETS = re.compile(r"\[([^\[\]]+)\](?::([0-9]+))?")


class ConfError(Exception):
    """A file or an option is wrong; a sentence."""


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


def is_loopback(address):
    """Whether only this host reaches what address_of() has found."""
    return ipaddress.ip_address(address[0]).is_loopback


def add_server(parser, address):
    """Options of all servers; @address: where it listens without --listen"""
    parser.add_argument("--listen", metavar="ADDRESS:PORT", type=address_of, default=address,
                        help="(%(default)s); port 0: a free one")
    parser.add_argument("--certificate", metavar="FILE",
                        help="TLS, with this certificate in PEM")
    parser.add_argument("--key", metavar="FILE", help="and its key (in the same file)")


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
    except OSError as e:
        key = f", {opt.key}" if opt.key else ""
        raise ConfError(f"{opt.certificate}{key}: {e.strerror}") from None
    return context


def serve(server, behind=""):
    """Until a signal; first says where, with @behind the URL"""
    for number in signal.SIGINT, signal.SIGTERM:
        # shutdown() waits for the loop, which this thread runs
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    host, port = server.server_address[:2]
    print(f"ready at {'https' if server.tls else 'http'}://"
          f"{f'[{host}]' if ':' in host else host}:{port}{behind}", flush=True)
    server.serve_forever()
