"""Files are read with clear errors and written whole or not at all."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.base.errors import InputError
from lowtide.base.files import decode, read_text, write_atomically


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".lowtide"))


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomically(tmp_path / "plan.json", "{}\n")
    finally:
        os.umask(old)
    assert (tmp_path / "plan.json").read_bytes() == b"{}\n"
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == 0o640
    assert leftovers(tmp_path) == []


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert leftovers(tmp_path) == []


def test_a_broken_character_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("old")
    with pytest.raises(InputError, match="no character"):
        write_atomically(path, "a\ud800b")
    assert path.read_text() == "old"


@pytest.mark.parametrize("name", [".", "missing/plan.json", "file/plan.json", "a\0b"])
def test_what_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        write_atomically(f"{tmp_path}/{name}", "text")
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert leftovers(tmp_path) == []


def test_standard_output_is_written_in_place(tmp_path: Path) -> None:
    script = (
        "from lowtide.base.files import write_atomically\n"
        "print('before', flush=True)\n"
        "write_atomically('/dev/stdout', 'text\\n')\n"
    )
    command = [sys.executable, "-c", script]
    piped = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert piped.stdout == b"before\ntext\n"
    with open(tmp_path / "out", "wb") as out:
        subprocess.run(command, stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"before\ntext\n"


def test_a_named_pipe_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())",
            str(pipe),
        ],
        stdout=subprocess.PIPE,
    )
    write_atomically(pipe, b"through")
    assert reader.communicate(timeout=60)[0] == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_text_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("\ufeffid,größe\r\n".encode())
    assert read_text(tmp_path / "file") == "id,größe\r\n"


def test_an_endless_binary_stream_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="/dev/zero: "):
        read_text("/dev/zero")


def test_the_line_of_a_bad_byte_is_named() -> None:
    with pytest.raises(InputError, match=r"^old\.csv: line 3: byte 0xe9 is not UTF-8 text"):
        decode(b"a\nb\ncaf\xe9\n", "old.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(encoding: str) -> None:
    with pytest.raises(InputError, match=r"is UTF-16 text: save the file as UTF-8"):
        decode("id,lower,upper,size\n".encode(encoding), "wide.csv")
