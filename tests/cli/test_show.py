"""`swath show`: archived pages as a user sees them, on a terminal and elsewhere."""

import gzip
import os
import pty
import shlex
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swath.cli import show_command
from swath.crawl.archive import index, lookup
from swath.crawl.archive.cdxj import IndexEntry, sort_lines
from swath.crawl.urls import normalise
from tests.cli.conftest import COMMAND, TIMEOUT, Result, environment, run_swath

TEXT = "<!doctype html><title>Grün</title><p>\x1b[31mred\x1b[0m \u202egnp\r\n\tend"
IMAGE = b"\x89PNG\r\n\x1a\n\0\0\x1b[31m"
LINKS = "".join(f"<a href={path}>x</a>" for path in ("/copy", "/image.png", "/private", "/secret", "/latin"))
PAGES: dict[str, tuple[str, bytes]] = {
    "/": ("text/html; charset=utf-8", gzip.compress((TEXT + LINKS).encode())),
    "/copy": ("text/html; charset=utf-8", gzip.compress((TEXT + LINKS).encode())),
    "/image.png": ("image/png", IMAGE),
    "/latin": ("text/plain; charset=iso-8859-1", "Grün".encode("latin-1")),
    "/secret": ("text/html", b"<meta name=robots content=noarchive>"),
    "/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /private\n"),
}


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, body = PAGES[self.path]
        self.send_response(200)
        self.send_header("content-type", kind)
        if body.startswith(b"\x1f\x8b"):
            self.send_header("content-encoding", "gzip")
        self.send_header("x-evil", "\x1b]0;title\x07")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module", params=["index", "page list"])
def crawl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory of a complete crawl and its seed."""
    out = tmp_path_factory.mktemp("show") / "out"
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        seed = f"http://127.0.0.1:{server.server_port}/"
        common = ("--allow-private", "--delay", "0s", "--retries", "0", "--out", str(out))
        closed = ("--connect-to", "127.0.0.2:9000:127.0.0.1:1")
        assert run_swath("crawl", "http://127.0.0.2:9000/", "--no-robots", *closed, *common).code == 1
        ran = run_swath("crawl", seed, "--robots", "--out", str(out))
        assert "complete, 1 failed" in ran.out, ran.err
        server.shutdown()
    assert (out / index.FILE).exists()
    if request.param == "page list":
        (out / index.FILE).unlink()
    return out, seed


@pytest.fixture
def out(crawl: tuple[Path, str]) -> Path:
    return crawl[0]


@pytest.fixture
def seed(crawl: tuple[Path, str]) -> str:
    return crawl[1]


def show(out: Path, url: str, *args: str) -> Result:
    return run_swath("show", url, *args, "--out", str(out))


def show_bytes(out: Path, url: str, *args: str) -> bytes:
    command = [*COMMAND, "show", url, *args, "--out", str(out)]
    return subprocess.run(command, env=environment(), capture_output=True, check=True, timeout=TIMEOUT).stdout


def show_on_terminal(out: Path, url: str, *args: str) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "show", url, *args, "--out", str(out)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment()
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 10_000):
            seen += data
    except OSError:  # the process has exited
        pass
    os.close(ours)
    process.wait(timeout=TIMEOUT)
    return seen.decode()


def test_a_page_is_printed_with_its_headers_and_its_decoded_body(out: Path, seed: str) -> None:
    shown = show_bytes(out, seed).decode()
    head, _, body = shown.partition("\n\n")
    assert head.startswith("HTTP/1.0 200 OK\n")
    assert "content-encoding: gzip" in head
    assert body == TEXT + LINKS
    assert show_bytes(out, seed, "--headers").decode() == f"{head}\n"
    assert show_bytes(out, seed, "--body").decode() == TEXT + LINKS


def test_raw_writes_the_bytes_as_received(out: Path, seed: str) -> None:
    assert gzip.decompress(show_bytes(out, seed, "--raw")).decode() == TEXT + LINKS
    assert show_bytes(out, f"{seed}image.png", "--raw") == IMAGE
    assert show_bytes(out, f"{seed}latin", "--raw") == "Grün".encode("latin-1")


def test_a_text_is_converted_and_other_bytes_are_not(out: Path, seed: str) -> None:
    assert show_bytes(out, f"{seed}latin", "--body").decode() == "Grün"
    assert show_bytes(out, f"{seed}image.png", "--body") == IMAGE


def test_the_body_of_a_duplicate_is_that_of_its_original(out: Path, seed: str) -> None:
    assert show(out, f"{seed}copy", "--json").json()["duplicate_of"] == seed
    assert show_bytes(out, f"{seed}copy", "--body").decode() == TEXT + LINKS


def test_nothing_from_the_archive_controls_a_terminal(out: Path, seed: str) -> None:
    shown = show_on_terminal(out, seed)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"x-evil: \x1b]0;title\x07" in shown
    assert r"\x1b[31mred\x1b[0m \u202egnp" in shown
    assert "Grün" in shown
    image = show_on_terminal(out, f"{seed}image.png")
    assert "PNG" not in image
    assert "image/png, 15 bytes: not text. To save it, run `swath show" in " ".join(image.split())
    assert "may control a terminal: redirect it to a file" in " ".join(show_on_terminal(out, seed, "--raw").split())


def test_a_url_in_a_command_to_copy_is_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(show_command, "is_terminal", lambda: True)
    monkeypatch.setattr(show_command, "print_note", notes.append)
    url = "http://example.com/';reboot;'"
    show_command._print_body(IMAGE, "image/png", url)
    command = notes[0].partition("`")[2].rstrip("`")
    assert shlex.split(command) == ["swath", "show", url, "--body", ">", "FILE"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.2:9000/", "http://127.0.0.2:9000/ could not be fetched at"),
        ("{seed}private", "private was not fetched: robots: Disallow: /private"),
        ("{seed}secret", "(status 200), but not archived: it has noarchive"),
        ("{seed}nowhere", "does not have this page. {seed}nowhere was never added. No rule excludes it"),
        ("https://elsewhere.example/", "was never added. It is refused (scope)"),
    ],
)
def test_a_page_that_is_not_in_the_archive_is_explained(out: Path, seed: str, url: str, said: str) -> None:
    shown = show(out, url.format(seed=seed))
    assert shown.code == 1
    assert said.format(seed=seed) in shown.err


def test_a_url_can_be_given_as_in_a_seed_list(out: Path, seed: str) -> None:
    address = seed.removeprefix("http://").removesuffix("/")
    for text in (address, seed.upper(), f"{seed}#part", f"{seed}x/.."):
        assert show(out, text, "--headers").code == 0
    assert show(out, "exa mple").code == 2


def test_robots_txt_can_be_shown(out: Path, seed: str) -> None:
    assert show(out, f"{seed}robots.txt", "--body").out == "User-agent: *\nDisallow: /private\n"


def test_json_prints_the_line_of_the_page_list(out: Path, seed: str) -> None:
    line = show(out, seed, "--json").json()
    assert (line["url"], line["status"], line["title"]) == (seed, 200, "Grün")
    lines = show(out, f"{seed}private", "--json", "--all").json_lines()
    assert lines[-1]["excluded"] == "robots"


def test_options_that_exclude_each_other_are_refused(out: Path, seed: str) -> None:
    assert "--headers and --raw exclude each other" in show(out, seed, "--headers", "--raw").err
    assert "--all lists the captures" in show(out, seed, "--all", "--body").err
    assert "there is no capture of" in show(out, seed, "--time", "2001-01-01T00:00:00Z").err


def test_captures_are_listed(out: Path, seed: str) -> None:
    (row,) = show(out, seed, "--all").out.splitlines()
    assert row.split("\t")[1:3] == ["200", "text/html"]


def test_a_missing_file_is_named(out: Path, seed: str) -> None:
    (warc, *_) = sorted(out.glob("*.warc.gz"))
    moved = warc.rename(warc.with_suffix(".moved"))
    try:
        assert f"{warc}, which has the record, is not there" in show(out, seed).err
    finally:
        moved.rename(warc)


def make_entry(number: int, time: float = 1.7e9) -> IndexEntry:
    url = f"https://h{number % 7}.example/{number}"
    return IndexEntry(url, time, 200, "text/html", "sha1:X", "f", number, 5)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 257])
def test_binary_search_finds_every_line_and_no_other(tmp_path: Path, count: int) -> None:
    entries = [make_entry(number, 1.7e9 + visit) for number in range(count) for visit in range(number % 3 + 1)]
    lines = sort_lines(entries, surt=normalise.surt)
    (tmp_path / index.FILE).write_text("".join(f"{line}\n" for line in lines))
    for number in range(count):
        found = lookup.find_captures(tmp_path, {}, make_entry(number).url)
        assert [entry.time - 1.7e9 for entry in found] == [float(visit) for visit in range(number % 3 + 1)]
        assert {entry.offset for entry in found} == {number}
    for missing in ("https://a.example/", "https://h3.example/zzz", "https://zzz.example/", "http://h0.example/0"):
        assert lookup.find_captures(tmp_path, {}, missing) == []
