# SPDX-License-Identifier: GPL-2.0-or-later
"""The state file and partitions.conf, which are complete at any time.

A change is written to the state file, then to partitions.conf, and then OpenSM reads that. If the
program ends between two of these steps, its next start reads the state file and does the rest.
A file is replaced by rename(), after the new one has been written to the disk.

Others may write in the directory, for example the guests of a lab that share it. A symbolic link
or a FIFO in place of a file is refused, so that they can neither read nor change other files of
this user.
"""
import contextlib
import errno
import fcntl
import json
import os
import stat
import threading

from ohca_web.options import ConfError
from ohca_web.shape import HttpError

from .partitions import Partitions, administrators

MARK = "# ohca-ufm writes all that is below this line."
HEAD = "Default=0x7fff, ipoib : ALL=full ;\n"     # for a new file: OpenSM's default
MAX_FILE = 16 << 20


def read(path):
    """The text of a file; None if it does not exist. ConfError: it is another kind of file"""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise ConfError(f"{path} is a symbolic link: give the file itself") from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ConfError(f"{path} is not a regular file")
    try:
        with open(fd, encoding="utf-8") as f:
            text = f.read(MAX_FILE + 1)
    except ValueError:
        raise ConfError(f"{path} is not text") from None
    if len(text) > MAX_FILE:
        raise ConfError(f"{path} is larger than {MAX_FILE} bytes")
    return text


def write(path, text, mode):
    """Replaces a file by a new one. @mode: the mode if the file does not exist yet"""
    new = path + ".new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "w", encoding="utf-8") as f:
        old = os.lstat(path) if os.path.lexists(path) else None
        if old and stat.S_ISREG(old.st_mode):
            os.fchmod(fd, old.st_mode & 0o777)
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, old.st_uid, old.st_gid)
        f.write(text)
        f.flush()
        os.fsync(fd)
    os.rename(new, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def place_of(path):
    """The path of a file without symbolic links in its directory; the file may not be one."""
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)


class Store:
    """Partitions with their files; the member partitions has those of the state file."""

    def __init__(self, conf, state, tell):
        """@conf, @state: the paths; @tell: makes OpenSM read @conf, or raises HttpError"""
        self.conf, self.state = place_of(conf), place_of(state)
        self.tell = tell
        self.lock = threading.Lock()
        self.untold = True              # OpenSM may have read another file
        self.unsaved = False            # the state file may differ from partitions
        self.only = os.open(self.state + ".lock",
                            os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # a lock of this process: a command of --reload does not inherit it
            fcntl.lockf(self.only, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self.only)
            raise ConfError(f"another ohca-ufm uses {state}: end it, or give another --state"
                            ) from None
        try:
            self.partitions = self.load()
            self.write_conf()
        except (OSError, ConfError):
            self.close()
            raise

    def load(self):
        """The Partitions of the state file."""
        text = read(self.state)
        try:
            return Partitions() if text is None else Partitions.from_json(json.loads(text))
        except (ValueError, RecursionError, ConfError) as e:
            raise ConfError(f"{self.state}: {e}") from None

    def close(self):
        """Releases the lock on the files."""
        if self.only >= 0:
            os.close(self.only)
        self.only = -1

    def head(self):
        """The administrator's part of partitions.conf."""
        text = read(self.conf)
        if text is None:
            return HEAD
        head = ("\n" + text).partition("\n" + MARK)[0][1:]
        return head + "\n" if head and not head.endswith("\n") else head

    def write_conf(self):
        """Writes partitions.conf if it differs. ConfError: the administrator's part is wrong"""
        head = self.head()
        try:
            both = administrators(head) & set(self.partitions.found)
        except ConfError as e:
            raise ConfError(f"{self.conf}: {e}") from None
        if both:
            raise ConfError(f"{self.conf}: the P_Key {min(both):#x} is defined above the mark, and "
                            "also by a client: remove one of them")
        text = "".join(line + "\n" for line in (MARK, *self.partitions.lines()))
        if read(self.conf) != head + text:
            self.untold = True          # set first: write() may fail after the rename
            write(self.conf, head + text, 0o644)

    def change(self, make):
        """Applies a change. @make: returns new Partitions from the present ones"""
        with self.lock:
            try:
                changed = make(self.partitions)
                if changed != self.partitions or self.unsaved:
                    self.save(changed)
                self.write_conf()
            except ConfError as e:
                raise HttpError(500, str(e)) from None
            except OSError as e:
                raise HttpError(500, f"{e.filename or self.conf}: {e.strerror}") from None
            self.read_again()

    def save(self, changed):
        """Writes partitions to the state file."""
        taken = administrators(self.head()) & (set(changed.found) - set(self.partitions.found))
        if taken:
            raise HttpError(400, f"the administrator has defined the P_Key {min(taken):#x} in "
                                "partitions.conf above the mark: use another one")
        self.unsaved = True             # set first: write() may fail after the rename
        write(self.state, json.dumps(changed.to_json()) + "\n", 0o600)
        self.partitions, self.unsaved = changed, False

    def read_again(self):
        """Makes OpenSM read partitions.conf, if it has not read it since it was written."""
        if self.untold:
            self.tell()
            self.untold = False
