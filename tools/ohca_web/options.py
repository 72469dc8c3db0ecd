# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of a server: address, TLS. The loop that serves until a signal."""
import argparse
import ipaddress
import re
import signal
import ssl
import threading

BRACKETS = re.compile(r"\[([^\[\]]+)\](?::([0-9]+))?")


class ConfError(Exception):
    """An error in a file or an option; the text is for the user."""


def address_of(text):
    """(address, port) of ADDRESS:PORT, ADDRESS or PORT; an IPv6 address with a port has brackets"""
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
        raise argparse.ArgumentTypeError(f"'{text}' is not ADDRESS:PORT: use numbers, and brackets "
                                         "around an IPv6 address") from None
    return host, int(port)


def is_loopback(address):
    """Whether an address of address_of() is a loopback address."""
    return ipaddress.ip_address(address[0]).is_loopback


def add_server(parser, address):
    """Adds the options of all servers; @address: the default of --listen"""
    parser.add_argument("--listen", metavar="ADDRESS:PORT", type=address_of, default=address,
                        help="the address to listen at (%(default)s); port 0: any free port")
    parser.add_argument("--certificate", metavar="FILE",
                        help="use TLS with this certificate, in PEM")
    parser.add_argument("--key", metavar="FILE",
                        help="the key of the certificate (in the certificate's file)")


def tls_of(opt):
    """The SSLContext of the options, or None without TLS"""
    if not opt.certificate and not opt.key:
        return None
    if not opt.certificate:
        raise ConfError("--key: give --certificate, too")
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
    """Prints the URL, with @behind after it, and serves until a signal"""
    for number in signal.SIGINT, signal.SIGTERM:
        # shutdown() waits for the loop, which this thread runs
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    host, port = server.server_address[:2]
    print(f"ready at {'https' if server.tls else 'http'}://"
          f"{f'[{host}]' if ':' in host else host}:{port}{behind}", flush=True)
    server.serve_forever()
