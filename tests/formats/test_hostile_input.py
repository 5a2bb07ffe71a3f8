"""Whatever is in a file, the answer is one line that names the file, and never another exception."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.base.errors import InputError, LowtideError, UnsupportedError
from lowtide.formats.csv.reading import problem_from_csv, read_csv
from lowtide.formats.json.reading import (
    from_json,
    plan_from_json,
    problem_from_json,
    read_json,
)
from lowtide.formats.json.writing import plan_to_json
from lowtide.frontends.registry import sniffed
from lowtide.ir.plan import ArenaUse, Plan
from lowtide.ir.problem import Buffer, Placement, Problem, RegionSpan
from lowtide.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import NoReturn

HEADER = b"id,lower,upper,size\n"

CSV: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "only blank lines": (b"\n\r\n \n", "is empty"),
    "only a byte order mark": (b"\xef\xbb\xbf", "is empty"),
    "NUL bytes": (HEADER + b"a,0,1,\x004\n", "NUL byte"),
    "binary": (bytes(range(256)) * 8, "NUL byte"),
    "random bytes": (b"\x89PNG\r\n\x1a\n\x93\xfe", "not UTF-8"),
    "UTF-16 with a mark": ((HEADER + b"a,0,1,4\n").decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": ((HEADER + b"a,0,1,4\n").decode().encode("utf-16-le"), "UTF-16"),
    "UTF-32": (HEADER.decode().encode("utf-32"), "UTF-32"),
    "Latin-1": (HEADER + "größe,0,1,4\n".encode("latin-1"), "line 2: byte 0xf6 is not UTF-8"),
    "no header": (b"a,0,1,4\nb,0,1,4\n", "line 1: unknown column 'a'"),
    "unknown column": (b"id,lower,upper,size,aligment\na,0,1,4,8\n", "unknown column 'aligment'"),
    "semicolons": (b"id;lower;upper;size\na;0;1;4\n", "unknown column"),
    "missing column": (b"id,lower,size\na,0,4\n", "no column 'upper'"),
    "column twice": (b"id,lower,upper,size,size\na,0,1,4,4\n", "mean the same"),
    "column under two names": (b"id,lower,upper,end,size\na,0,1,4,4\n", "mean the same"),
    "nameless column": (b"id,lower,upper,size,\na,0,1,4,\n", "unknown column ''"),
    "too few fields": (HEADER + b"a,0,1\n", "line 2: 3 fields where the header has 4"),
    "too many fields": (HEADER + b"a,0,1,4,5\n", "line 2: 5 fields"),
    "cut in a line": (HEADER + b"a,0,1,4\nb,0", "line 3: 2 fields"),
    "cut in a quoted cell": (HEADER + b'"a,0,1,4\nb,0,1,4\n', "check the quotes"),
    "text after a quote": (HEADER + b'"a"b,0,1,4\n', "check the quotes"),
    "endless cell": (HEADER + b"a" * 200_000 + b",0,1,4\n", "field larger than field limit"),
    "blank id": (HEADER + b",0,1,4\n", "line 2: the id is blank"),
    "blank size": (HEADER + b"a,0,1,\n", "line 2: buffer 'a': the size is blank"),
    "id twice": (HEADER + b"a,0,1,4\n\na,2,3,4\n", "line 4: buffer 'a' is in line 2 already"),
    "inverted lifetime": (HEADER + b"a,5,1,4\n", "line 2: buffer 'a': lifetime [5, 1) is empty or inverted"),
    "empty lifetime": (HEADER + b"a,5,5,4\n", "empty or inverted"),
    "negative size": (HEADER + b"a,0,1,-4\n", "line 2: buffer 'a': size -4"),
    "fraction": (HEADER + b"a,0,1,4.5\n", "size '4.5' is not a whole number"),
    "NaN": (HEADER + b"a,0,1,nan\n", "size 'nan' is not a whole number"),
    "infinity": (HEADER + b"a,0,inf,4\n", "upper 'inf' is not a whole number"),
    "scientific": (HEADER + b"a,0,1,1e3\n", "not a whole number"),
    "hexadecimal": (HEADER + b"a,0,1,0x10\n", "not a whole number"),
    "underscore": (HEADER + b"a,0,1,1_000\n", "size '1_000' is not a whole number"),
    "other digits": (HEADER + "a,0,1,٤\n".encode(), "is not a whole number"),
    "formula": (HEADER + b"a,0,1,=4+4\n", "is not a whole number"),
    "size 2^63": (HEADER + b"a,0,1,9223372036854775808\n", "beyond 64 bits"),
    "time 2^63": (HEADER + b"a,0,9223372036854775808,4\n", "beyond 64 bits"),
    "last time 2^63 - 1": (b"id,lower,end,size\na,0,9223372036854775807,4\n", "64-bit"),
    "sizes adding up to 2^63": (HEADER + b"a,0,1,4611686018427387904\nb,2,3,4611686018427387904\n", "2^63"),
    "ten thousand digits": (HEADER + b"a,0,1," + b"9" * 10_000 + b"\n", "is not a whole number"),
    "alignment 0": (b"id,lower,upper,size,alignment\na,0,1,4,0\n", "alignment 0"),
    "negative arena": (b"id,lower,upper,size,arena\na,0,1,4,-1\n", "arena -1"),
    "gap with a window": (b"id,lower,upper,size,gaps\na,0,9,4,2-3@0:2\n", "has a window"),
    "gap of one number": (b"id,lower,upper,size,gaps\na,0,9,4,2\n", "not of the form 4-6"),
    "gap of words": (b"id,lower,upper,size,gaps\na,0,9,4,now-later\n", "not of the form 4-6"),
    "inverted gap": (b"id,lower,upper,size,gaps\na,0,9,4,5-3\n", "empty or inverted"),
    "gap outside the lifetime": (b"id,lower,upper,size,gaps\na,0,9,4,8-12\n", "not within"),
    "nothing but gap": (b"id,lower,upper,size,gaps\na,0,9,4,0-4 4-9\n", "never alive"),
    "id of a page": (HEADER + (b"a" * 9000 + b",0,1,-4\n"), "whole number from 0 to 2^63 - 1"),
    "control characters in an id": (HEADER + b'"a\x1b[2J\nb",0,1,x\n', "'a\\x1b[2J\\nb'"),
    "a page of HTML": (b"<!DOCTYPE html>\n<html><body>404</body></html>\n", "unknown column"),
}


def problem(**changes: Any) -> dict[str, Any]:
    """A sound problem as JSON has it, with some fields changed, or left out where the change is ``...``."""
    document: dict[str, Any] = {
        "format": "lowtide.problem",
        "version": 1,
        "arenas": [{"id": 1}],
        "buffers": [
            {"id": "a", "size": 4, "lifetime": [[0, 2]]},
            {"id": "b", "size": 4, "lifetime": [[0, 2]]},
        ],
    }
    document.update(changes)
    return {key: value for key, value in document.items() if value is not ...}


def buffer(**changes: Any) -> bytes:
    """A problem of one buffer with some fields changed, or left out where the change is ``...``."""
    entry = {"id": "a", "size": 4, "lifetime": [[0, 2]], **changes}
    return dump(problem(buffers=[{key: value for key, value in entry.items() if value is not ...}]))


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


def raw(text: str) -> bytes:
    """A problem of one buffer whose ``size`` is this very text."""
    return buffer(size="SIZE").replace(b'"SIZE"', text.encode())


SOUND = dump(problem())
REGION = {"name": "root", "kind": "root", "span": [[0, 2]]}

JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\t", "is empty"),
    "NUL bytes": (SOUND.replace(b"4", b"\x00", 1), "NUL byte"),
    "UTF-16": (SOUND.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": (SOUND.decode().encode("utf-16-be"), "UTF-16"),
    "Latin-1": (SOUND.replace(b'"a"', b'"\xe9"'), "not UTF-8"),
    "cut": (SOUND[:-10], "not JSON"),
    "cut after the brace": (b"{", "not JSON: it ends too early"),
    "something after": (SOUND + b"{}", "Extra data"),
    "single quotes": (b"{'format': 1}", "not JSON"),
    "comment": (b"{} // fine", "not JSON"),
    "comma at the end": (b'{"format": 1,}', "not JSON"),
    "bare word": (b"undefined", "not JSON"),
    "line end in a string": (b'{"for\nmat": 1}', "not JSON"),
    "a list": (b"[]", "a list is not an object"),
    "a number": (b"7", "7 is not an object"),
    "null": (b"null", "null is not an object"),
    "other JSON": (b'{"name": "package", "version": "1.0.0"}', 'should say "format": "lowtide.problem"'),
    "nested lists": (b"[" * 100_000, "nested too deeply"),
    "nested objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    "nested lifetime": (raw("[" * 100_000 + "]" * 100_000), "nested too deeply"),
    "field twice": (SOUND[:-1] + b', "version": 1}', "field 'version' occurs twice"),
    "field twice in a buffer": (SOUND.replace(b'"size": 4', b'"size": 4, "size": 8', 1), "occurs twice"),
    "no version": (dump(problem(version=...)), "version: null is not a whole number"),
    "later version": (dump(problem(version=2)), "version: 2 is not supported, only 1"),
    "version as text": (dump(problem(version="1")), "version: '1' is not a whole number"),
    "version 1.0": (dump(problem(version=1.0)), "version: 1.0 is not a whole number"),
    "version true": (dump(problem(version=True)), "version: true is not a whole number"),
    "format of another type": (dump(problem(format=["lowtide.problem"])), "should say"),
    "no buffers": (dump(problem(buffers=...)), "buffers: is missing"),
    "buffers as an object": (dump(problem(buffers={})), "buffers: an object is not a list"),
    "a buffer of no type": (dump(problem(buffers=[7])), "buffers[0]: 7 is not an object"),
    "unknown field": (dump(problem(budget=1)), "'budget': unknown field"),
    "unknown field of a buffer": (buffer(aligment=8), "buffers[0].'aligment': unknown field"),
    "id twice": (dump(problem(buffers=[problem()["buffers"][0]] * 2)), "buffer 'a' occurs twice"),
    "no id": (buffer(id=...), "buffers[0].id: is missing"),
    "id of a number": (buffer(id=7), "buffers[0].id: 7 is not a string"),
    "half a surrogate pair": (buffer(id="\ud800"), "half of a surrogate pair"),
    "no size": (buffer(size=...), "buffers[0].size: is missing"),
    "size null": (buffer(size=None), "buffers[0].size: null is not a whole number"),
    "size 4.0": (buffer(size=4.0), "buffers[0].size: 4.0 is not a whole number"),
    "size 1e400": (raw("1e400"), "size: inf is not a whole number"),
    "size NaN": (raw("NaN"), "NaN is not JSON"),
    "size -Infinity": (raw("-Infinity"), "-Infinity is not JSON"),
    "size true": (buffer(size=True), "size: true is not a whole number"),
    "size as text": (buffer(size="4"), "size: '4' is not a whole number"),
    "size as long text": (buffer(size="4" * 10_000), "is not a whole number"),
    "size of an object": (buffer(size={"bytes": 4}), "an object is not a whole number"),
    "negative size": (buffer(size=-4), "buffer 'a': size -4"),
    "size 2^63": (buffer(size=2**63), "beyond 64 bits"),
    "size of 1000 digits": (raw("9" * 1000), "beyond 64 bits"),
    "size of 10000 digits": (raw("9" * 10_000), "a number is too long"),
    "size 010": (raw("010"), "not JSON"),
    "sizes adding up to 2^63": (buffer(size=2**63 - 1, alignment=2), "add up to 2^63"),
    "alignment 0": (buffer(alignment=0), "alignment 0"),
    "alignment 0.5": (buffer(alignment=0.5), "alignment: 0.5 is not a whole number"),
    "offset beyond": (buffer(offset=2**63 - 2), "2^63"),
    "offset misaligned": (buffer(offset=3, alignment=4), "not a multiple"),
    "negative offset": (buffer(offset=-8), "offset -8"),
    "arena as text": (buffer(arena="1"), "arena: '1' is not a whole number"),
    "arena negative": (buffer(arena=-1), "arena -1"),
    "no lifetime": (buffer(lifetime=...), "buffers[0].lifetime: is missing"),
    "lifetime of nothing": (buffer(lifetime=[]), "never alive"),
    "lifetime not in pairs": (buffer(lifetime=[0, 2]), "lifetime[0]: 0 is not a pair"),
    "lifetime in threes": (buffer(lifetime=[[0, 1, 2]]), "is not a pair"),
    "lifetime of text": (buffer(lifetime=[["0", "2"]]), "lifetime[0][0]: '0' is not a whole number"),
    "lifetime inverted": (buffer(lifetime=[[2, 0]]), "empty or inverted"),
    "lifetime empty": (buffer(lifetime=[[2, 2]]), "empty or inverted"),
    "lifetime unsorted": (buffer(lifetime=[[4, 6], [0, 2]]), "sorted"),
    "lifetime overlapping": (buffer(lifetime=[[0, 4], [2, 6]]), "sorted"),
    "lifetime too late": (buffer(lifetime=[[0, 2**63]]), "beyond 64 bits"),
    "shape of text": (buffer(shape="2x2"), "shape: '2x2' is not a list"),
    "shape of fractions": (buffer(shape=[0.5]), "shape[0]: 0.5 is not a whole number"),
    "name null": (buffer(name=None), "name: null is not a string"),
    "members of numbers": (buffer(members=[1]), "members[0]: 1 is not a string"),
    "arena twice": (dump(problem(arenas=[{"id": 1}, {"id": 1}])), "two arenas have the same id"),
    "arena without id": (dump(problem(arenas=[{}])), "arenas[0].id: is missing"),
    "arenas by id": (dump(problem(arenas={"1": 64})), "arenas: an object is not a list"),
    "capacity negative": (dump(problem(arenas=[{"id": 1, "capacity": -1}])), "capacity -1"),
    "reserved over capacity": (
        dump(problem(arenas=[{"id": 1, "capacity": 4, "reserved": 8}])),
        "8 bytes are reserved but its capacity is 4",
    ),
    "pair of one": (dump(problem(may_coincide=[["a"]])), "may_coincide[0]: a list is not a pair"),
    "pair with itself": (dump(problem(may_coincide=[["a", "a"]])), "cannot coincide with itself"),
    "pair with a stranger": (dump(problem(may_coincide=[["a", "z"]])), "'z', which does not exist"),
    "placement of text": (dump(problem(placements=["a"])), "placements[0]: 'a' is not an object"),
    "placement too far": (
        dump(problem(placements=[{"inner": "a", "outer": "b", "distance": 1}])),
        "does not fit inside",
    ),
    "placement below": (
        dump(problem(placements=[{"inner": "a", "outer": "b", "distance": -1}])),
        "cannot be placed inside",
    ),
    "placements in a circle": (
        dump(
            problem(
                placements=[
                    {"inner": "a", "outer": "b", "distance": 0},
                    {"inner": "b", "outer": "a", "distance": 0},
                ]
            )
        ),
        "inside itself",
    ),
    "region twice": (dump(problem(regions=[REGION, REGION])), "two regions 'root'"),
    "region without parent": (dump(problem(regions=[{**REGION, "parent": "x"}])), "not listed before"),
    "region its own parent": (dump(problem(regions=[{**REGION, "parent": "root"}])), "not listed before"),
    "region inverted": (dump(problem(regions=[{**REGION, "span": [[2, 0]]}])), "inverted"),
    "free of nothing": (dump(problem(frees=[{}])), "frees[0].buffer: is missing"),
    "plan of nothing": (b'{"format": "lowtide.plan", "version": 1}', "buffers: is missing"),
    "plan of nobody": (b'{"format": "lowtide.plan", "version": 1, "buffers": []}', "arena_uses: is missing"),
    "infinite seconds": (
        plan_to_json(Plan(Problem(()), (), (), "naive"))
        .replace('"seconds": 0.0', '"seconds": 1e999')
        .encode(),
        "seconds: inf is not a number of seconds",
    ),
}


def one_line(caught: pytest.ExceptionInfo[LowtideError], name: str) -> str:
    message = str(caught.value)
    assert message.isprintable(), "control characters or line ends"
    assert message.startswith(f"{name}: ")
    assert len(message) < len(name) + 320
    return message


@pytest.mark.parametrize(
    ("suffix", "case"), [*(("csv", case) for case in CSV), *(("json", case) for case in JSON)]
)
def test_hostile_files(suffix: str, case: str, tmp_path: Path) -> None:
    content, why = {"csv": CSV, "json": JSON}[suffix][case]
    path = tmp_path / f"hostile.{suffix}"
    path.write_bytes(content)
    for read in (read_csv if suffix == "csv" else read_json, open_source):
        with pytest.raises(LowtideError) as caught:
            read(path)
        assert why in one_line(caught, str(path))


def test_the_sound_document_is_sound() -> None:
    assert isinstance(from_json(SOUND.decode()), Problem)


READERS: list[Callable[[Path], object]] = [read_csv, read_json, open_source]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "no such file"),
        (".", "is a directory"),
        ("file/below", "cannot be read"),
        ("\n\x1b", "no such"),
    ],
)
def test_what_cannot_be_opened(read: Callable[[Path], object], name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert why in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("read", READERS)
def test_a_file_without_permission(
    read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path, mode: str) -> NoReturn:  # chmod would not stop root, who runs tests in containers
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", closed)
    with pytest.raises(InputError, match=r"secret\.csv: permission denied: make the file readable$"):
        read(tmp_path / "secret.csv")


def zip_of(entries: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("x", zip_of({"a": b"b"}), "pt2"),
        ("x.csv", zip_of({}), "pt2"),
        ("x", b"\x1c\x00\x00\x00ET12" + bytes(64), "pte"),
        ("x.csv", b'\n {"format": "lowtide.problem"}', "json"),
        ("x", b"\xef\xbb\xbf[1]", "json"),
        ("x.json", b"id,lower,upper,size\n", "json"),
        ("x", b"id,lower,upper,size\n", "csv"),
        ("x.txt", b"", "csv"),
    ],
)
def test_content_decides_then_suffix(name: str, content: bytes, format: str) -> None:
    assert sniffed(content, os.path.splitext(name)[1]).name == format


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.pt2", b"", "no zip archive, or cut short"),
        ("x.pt2", b"not a zip at all", "no zip archive, or cut short"),
        ("x.pte", b"\x00" * 100, "no ExecuTorch program"),
        ("x.pte", b"\x1c\x00\x00\x00ET12" + bytes(64), "damaged or cut short"),
    ],
    ids=["empty", "text", "zeros", "pte"],
)
def test_binary_formats_are_told_by_content(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LowtideError) as caught:
        open_source(tmp_path / name)
    assert why in one_line(caught, str(tmp_path / name))


@pytest.mark.parametrize(
    "content",
    [
        zip_of({}),
        zip_of({"a": b"b"}),
        zip_of({"a/version": b"3", "a/models/model.json": b"{" * 1000}),
        zip_of({"archive/data": bytes(5000)})[:2000],
        zip_of({"archive/data": bytes(range(200))}).replace(bytes(range(50)), bytes(50)),
    ],
    ids=["empty", "foreign", "nested", "cut", "damaged"],
)
def test_a_broken_zip_as_pt2(content: bytes, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "broken.pt2"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        open_source(path)
    assert "export it again" in one_line(caught, str(path))


def test_a_pt2_without_torch_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("lowtide.frontends.torch_export")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "model.pt2"
    path.write_bytes(zip_of({"a": b"b"}))
    with pytest.raises(InputError, match=r"torch is not installed: pip install 'lowtide\[torch\]'"):
        open_source(path)


def test_reading_a_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, HEADER + b"a,0,1,4\n")
    os.close(writer)
    assert open_source(f"/dev/fd/{reader}")[0] == Problem((Buffer("a", 4, ((0, 1),)),))
    os.close(reader)


PLAN = plan_to_json(
    Plan(
        Problem(
            (
                Buffer("a", 8, ((0, 2), (3, 5)), 4),
                Buffer("b", 8, ((0, 2),), 4, offset=8),
                Buffer("c", 4, ((0, 9),)),
            ),
            may_coincide=(("a", "b"),),
            placements=(Placement("c", "a", 4),),
            regions=(RegionSpan("root", "root", ((0, 9),)),),
        ),
        (0, 8, 4),
        (ArenaUse(1, 16, 20, 16),),
        "auto",
        object_ids=(0, 1, None),
    )
)
CSV_TEXT = 'id,lower,upper,size,alignment,gaps,arena,offset\n"a",0,9,8,4,2-3 4-5,1,0\nb,-3,2,8,1,,2,\n'

SCRAPS = st.sampled_from(
    [
        "",
        "-",
        "0",
        "1",
        "1.0",
        "1e9",
        "null",
        "true",
        '"',
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "\n",
        "\\",
        "@",
        "9" * 30,
    ]
)


@st.composite
def mangled(draw: st.DrawFn, text: str) -> str:
    """Text with one or two short runs replaced."""
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 6)))
        text = text[:start] + draw(SCRAPS | st.text(max_size=3)) + text[stop:]
    return text


@given(mangled(PLAN))
def test_a_mangled_plan_is_read_or_refused(text: str) -> None:
    read_or_refused(plan_from_json, text)


@given(mangled(CSV_TEXT), st.booleans())
def test_a_mangled_csv_is_read_or_refused(text: str, pins: bool) -> None:
    read_or_refused(lambda text, name: problem_from_csv(text, name, pins=pins), text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(["id", "size", "lifetime", "alignment", "arena", "shape", "members", "offset"]),
    JSON_VALUES,
)
def test_any_value_in_any_field_of_a_buffer(field: str, value: Any) -> None:
    entry = {"id": "a", "size": 4, "lifetime": [[0, 2]], field: value}
    read_or_refused(problem_from_json, json.dumps(problem(buffers=[entry])))


@given(st.sampled_from(["arenas", "may_coincide", "placements", "regions", "frees", "buffers"]), JSON_VALUES)
def test_any_value_in_any_field_of_a_problem(field: str, value: Any) -> None:
    read_or_refused(problem_from_json, json.dumps(problem(**{field: value})))


def read_or_refused(read: Callable[[str, str], object], text: str) -> None:
    try:
        found = read(text, "f")
    except (InputError, UnsupportedError) as error:
        assert str(error).startswith("f: ")  # noqa: PT017
        assert str(error).isprintable()  # noqa: PT017
    else:
        assert isinstance(found, (Problem, Plan))
