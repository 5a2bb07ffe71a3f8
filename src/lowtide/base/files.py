"""Reading text that strangers wrote, and writing files that are either whole or not there.

Reading names what is wrong (missing, a directory, binary, UTF-16, …) and never buffers an endless
binary stream. Writing goes through a temporary file in the same directory, so a reader never sees
half a file and a failure leaves the old one untouched.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from lowtide.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

StrPath = str | os.PathLike[str]

HEAD_BYTES = 4096
"""How much is looked at before the rest of a file is read."""

_BOMS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def show_name(name: str) -> str:
    """A name as it is if it prints on one line, otherwise quoted."""
    return name if name.isprintable() else repr(name)


def show_path(path: StrPath) -> str:
    """The path as a message shows it: on one line, whatever characters it has."""
    text = os.fspath(path)
    return text if text.isprintable() and text else repr(text)


@contextmanager
def open_for_reading(path: StrPath) -> Iterator[BinaryIO]:
    """Open a file for reading bytes.

    Raises:
        InputError: it cannot be opened or read; the message names the file and the reason.
    """
    try:
        with open(path, "rb") as file:
            yield file
    except IsADirectoryError:
        raise InputError(f"{show_path(path)}: is a directory: name a file in it") from None
    except FileNotFoundError:
        raise InputError(f"{show_path(path)}: no such file: check the path") from None
    except PermissionError:
        raise InputError(f"{show_path(path)}: permission denied: make the file readable") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(f"{show_path(path)}: cannot be read: {_reason(error)}") from None


def read_text(path: StrPath) -> str:
    """The whole of a UTF-8 text file, without a byte order mark.

    Raises:
        InputError: the file cannot be read, is empty, or is not UTF-8 text.
    """
    with open_for_reading(path) as file:
        return read_rest(file, file.read(HEAD_BYTES), show_path(path))


def read_rest(file: BinaryIO, head: bytes, name: str) -> str:
    """Text of a file of which ``head`` has been read; binary files are refused before the rest is read.

    Raises:
        InputError: as for :func:`read_text`.
    """
    _refuse_binary(head, name)
    return decode(head + file.read(), name)


def decode(data: bytes, name: str) -> str:
    """UTF-8 bytes as text, without a byte order mark.

    Raises:
        InputError: it is empty, another encoding, or no text at all.
    """
    _refuse_binary(data, name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}: line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text: save the file as UTF-8"
        ) from None
    if not text.strip():
        raise InputError(f"{name}: is empty: check that it was written completely")
    return text


def write_atomically(path: StrPath, data: str | bytes) -> None:
    """Replace a file's content, whole or not at all; text is written as UTF-8.

    A symbolic link stays a link and an existing file keeps its mode. What is not a regular file (a
    pipe, ``/dev/stdout``) is written in place, since it cannot be replaced.

    Raises:
        InputError: it cannot be written; whatever was there is untouched.
    """
    write_all_atomically([(path, data)])


def write_all_atomically(files: Sequence[tuple[StrPath, str | bytes]]) -> None:
    """As write_atomically for several files: all are complete beside their targets before any is replaced.

    Raises:
        InputError: one cannot be written, or two are the same; whatever was there is untouched.
    """
    targets = []
    for path, _ in files:
        with _explained(path):
            targets.append(os.path.realpath(path))
    for (path, _), target in zip(files, targets, strict=True):
        if targets.count(target) > 1:
            raise InputError(f"{show_path(path)}: is to be written twice: name different files")
    staged: list[tuple[str, str, StrPath]] = []  # temporary, target, as named
    in_place: list[tuple[StrPath, bytes]] = []
    try:
        for (path, data), target in zip(files, targets, strict=True):
            with _explained(path):
                content = data.encode() if isinstance(data, str) else data
                mode = _mode_of(path)
                if mode is not None and stat.S_ISDIR(mode):
                    raise InputError(f"{show_path(path)}: is a directory: name a file in it")
                if mode is None or (stat.S_ISREG(mode) and not _is_descriptor(path)):
                    staged.append((_stage(target, content, mode), target, path))
                else:
                    in_place.append((path, content))
        for path, content in in_place:
            with _explained(path), open(path, "ab") as file:
                file.write(content)
        while staged:
            temporary, target, path = staged[0]
            with _explained(path):
                os.replace(temporary, target)
            del staged[0]
            _sync_folder(os.path.dirname(target))
    finally:
        for temporary, _, _ in staged:
            with suppress(OSError):
                os.unlink(temporary)


@contextmanager
def _explained(path: StrPath) -> Iterator[None]:
    """Turn what the system says into one line that names the file."""
    name = show_path(path)
    try:
        yield
    except UnicodeEncodeError as error:
        broken = error.object[error.start]
        raise InputError(f"{name}: cannot be written: {broken!r} in it is no character") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be written: {_reason(error)}") from None


def _is_descriptor(path: StrPath) -> bool:
    """Whether the path stands for an open file, which must be written and not replaced under its owner."""
    return os.path.abspath(path).startswith(("/dev/", "/proc/"))


def _stage(target: str, content: bytes, mode: int | None) -> str:
    """Write a temporary file beside the target and make it durable; return its path."""
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(None, "it is write-protected")
    temporary = os.path.join(os.path.dirname(target), f".lowtide-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable; some file systems cannot, and the content is safe anyway."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _mode_of(path: StrPath) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _refuse_binary(data: bytes, name: str) -> None:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            raise InputError(f"{name}: is {encoding} text: save the file as UTF-8")
    nul = data.find(b"\0")
    if nul < 0:
        return
    # Latin text in UTF-16 has a NUL in every second byte.
    if len(data) >= 4 and (not any(data[0:64:2]) or not any(data[1:64:2])):
        raise InputError(f"{name}: is UTF-16 text: save the file as UTF-8")
    raise InputError(f"{name}: holds a NUL byte at {nul}, so it is not text: check that it is the right file")


def _reason(error: OSError | ValueError) -> str:
    text = (error.strerror or "") if isinstance(error, OSError) else str(error)
    return text or type(error).__name__
