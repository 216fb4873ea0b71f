import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from swath import InvalidItem
from swath.cli.add_input import ItemDefaults
from swath.core.encoding import encode_item
from tests.cli.conftest import COMMAND, Run, environment, look, sqlite_only, wait_until_added, where


def test_keys_from_arguments(url: str, swath: Run) -> None:
    result = swath("add", "a", "b", "a")
    assert (result.code, result.out, result.err) == (0, "2 new of 3\n", "")
    assert swath("add", "b", "c").out == "1 new of 2\n"
    assert look(url).ready == 3


def test_keys_from_standard_input(url: str, swath: Run) -> None:
    assert swath("add", stdin="a\n\n  \nb\r\nc").out == "3 new of 3\n"
    assert swath("add", "-", stdin="c\nd\n").out == "1 new of 2\n"
    assert swath("add", "e", "-", stdin="f\n").out == "2 new of 2\n"
    assert swath("add", "g", stdin="not read\n").out == "1 new of 1\n"
    assert where(url, "b").state == "ready"  # without the carriage return


@sqlite_only
def test_arguments_are_keys_and_no_objects(swath: Run) -> None:
    refused = swath("add", "--jsonl", '{"key": "a"}')
    assert (refused.code, refused.out) == (2, "")
    assert "--jsonl applies to --file and standard input" in refused.err
    assert swath("add", "--jsonl", "-", stdin='{"key": "a"}\n').out == "1 new of 1\n"


@sqlite_only
def test_keys_from_a_file(swath: Run, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_bytes(b"\xef\xbb\xbfa\nb\n")  # with a byte order mark, as some editors write it
    assert swath("add", "--file", str(keys)).out == "2 new of 2\n"
    assert swath("add", "a", "-f", str(keys)).out == "0 new of 3\n"
    assert swath("add", "--file", "-", stdin="a\n").out == "0 new of 1\n"


@sqlite_only
def test_json_tells_the_counts(swath: Run) -> None:
    result = swath("add", "--json", "--skip-bad", stdin=b"a\nb\na\n\xff\n")
    assert result.json() == {"added": 2, "read": 3, "bad": 1, "stopped": False}


def test_what_all_items_get(url: str, swath: Run) -> None:
    swath("add", "a", "--lane", "slow", "--priority", "7", "--payload", '{"depth": 1}', "--not-before", "1h")
    found = where(url, "a")
    data = found.data
    assert found.state == "delayed"
    assert data["lane"]["lane"] == "slow"
    assert data["priority"] == 7
    assert data["payload"] == {"depth": 1}
    ahead = datetime.fromisoformat(data["due_at"]) - datetime.now(UTC)
    assert timedelta(minutes=58) < ahead < timedelta(minutes=62)


@sqlite_only
def test_not_before_a_moment(url: str, swath: Run) -> None:
    assert swath("add", "a", "--not-before", "2999-01-01T00:00:00+01:00").code == 0
    assert where(url, "a").data["due_at"] == "2998-12-31T23:00:00+00:00"
    naive = swath("add", "b", "--not-before", "2999-01-01")
    assert naive.code == 2
    assert "no time zone: add Z" in naive.words


@sqlite_only
def test_lane_by_host(swath: Run) -> None:
    urls = "https://Example.com/a\nhttp://user@example.com:8080/b\nhttps://other.org/\n"
    assert swath("add", "--lane-by", "host", stdin=urls).out == "3 new of 3\n"
    lanes = {lane["lane"]: lane["waiting"] for lane in swath("lanes", "--json").json_lines()}
    assert lanes == {"example.com": 2, "other.org": 1}
    bad = swath("add", "--lane-by", "host", "no-url")
    assert bad.code == 2
    assert "argument 1: 'no-url' has no host" in bad.err


@sqlite_only
def test_json_lines(url: str, swath: Run) -> None:
    lines = [
        {"key": "a", "lane": "x", "priority": 6, "payload": [1, None], "not_before": "2999-01-01T00:00:00Z"},
        {"key": "b"},
        {"key": "c", "payload": None},
    ]
    given = "\n".join(json.dumps(line) for line in lines)
    assert swath("add", "--jsonl", "--lane", "rest", stdin=given).out == "3 new of 3\n"
    first = where(url, "a").data
    assert (first["lane"]["lane"], first["priority"], first["payload"]) == ("x", 6, [1, None])
    assert first["due_at"] == "2999-01-01T00:00:00+00:00"
    assert where(url, "b").data["lane"]["lane"] == "rest"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", 'not a JSON object with a string "key"'),
        ('{"key": 5}', 'not a JSON object with a string "key"'),
        ('{"key": "k", "pririty": 3}', "unknown field 'pririty': did you mean 'priority'?"),
        ('{"key": "k", "priority": 9}', "pass 0 to 7; higher is claimed first"),
        ('{"key": "k", "priority": null}', "pass 0 to 7; higher is claimed first"),
        ('{"key": "k", "lane": "a\\u0007b"}', "control characters"),
        ('{"key": "k", "not_before": "tomorrow"}', "not_before: 'tomorrow' is not a time"),
        ('{"key": "k", "not_before": 5}', "not_before: '5' is not a time"),
        ('{"key": "k\\ud800"}', "cannot be encoded as UTF-8"),
    ],
)
def test_bad_json_lines(line: str, complaint: str) -> None:
    with pytest.raises(InvalidItem) as error:
        encode_item(ItemDefaults().parse_item(line), 1)
    assert complaint in str(error.value)


@sqlite_only
def test_a_bad_json_line_ends_it(url: str, swath: Run) -> None:
    result = swath("add", "--jsonl", stdin='{"key": "before"}\n{"ky": "k"}\n{"key": "after"}\n')
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith('swath: line 2 of standard input: not a JSON object with a string "key"')
    assert (where(url, "before").state, where(url, "after").state) == ("ready", "unknown")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"a\0b", "has a NUL character"),
        (b"k" * 1024 * 1024, "has 1,048,576 bytes, the limit is 8,192"),
        (b"caf\xe9", "not UTF-8 (byte 0xe9 at column 4): convert it first, for example with iconv"),
        (b"k" * 9 * 1024 * 1024, "longer than 4 MB: put one key on each line"),
    ],
    ids=["nul", "1 MB", "latin1", "9 MB"],
)
@sqlite_only
def test_a_bad_line_ends_it(url: str, swath: Run, line: bytes, complaint: str) -> None:
    before = b"".join(b"before%d\n" % n for n in range(1500))
    result = swath("add", stdin=before + line + b"\nafter\n")
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert result.err.startswith("swath: line 1,501 of standard input: ")
    assert complaint in result.err
    assert "Added until then: 1,500 new of 1,500." in result.err
    assert "--skip-bad" in result.err
    assert len(result.err) < 500
    assert look(url).ready == 1500


def test_what_came_before_a_bad_line_is_in(url: str, swath: Run) -> None:
    result = swath("add", stdin="a\nb\n\0\nc\n")
    assert result.code == 2
    assert "Added until then: 2 new of 2." in result.err
    assert look(url).ready == 2


@sqlite_only
def test_skip_bad_goes_on_and_counts(swath: Run) -> None:
    lines = b"a\n" + b"\xff\n" * 30 + b"k" * 5 * 1024 * 1024 + b"\nb\n"
    result = swath("add", "--skip-bad", stdin=lines)
    assert (result.code, result.out) == (0, "2 new of 2, skipped 31 bad lines\n")
    complaints = result.err.splitlines()
    assert len(complaints) == 20
    assert complaints[0].startswith("swath: skipped line 2 of standard input: not UTF-8")


@sqlite_only
@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("a", ""), "argument 2: the key is empty"),
        (("a", "x" * 9000), "argument 2: key 'xxx"),
        (("a", "--payload", "{"), "is not JSON"),
        (("a", "--priority", "8"), "--priority"),
        (("a", "--lane", "x", "--lane-by", "host"), "give only one of them"),
        (("a", "--lane", "x\ny"), "control characters"),
        (("a", "--lane", ""), "the lane is empty"),
        (("--file", "/nonexistent/keys"), "cannot read /nonexistent/keys: No such file or directory"),
        (("--file", "/"), "cannot read /: Is a directory"),
        (("a", "--min-interval", "-1"), "-1"),
        (("a", "--concurrency", "-1"), "a whole number"),
        (("a", "--partitions", "0"), "partitions=0"),
    ],
)
def test_bad_arguments(swath: Run, args: tuple[str, ...], complaint: str) -> None:
    result = swath("add", *args)
    assert result.code == 2, result
    assert complaint in result.words


def test_settings_for_a_new_frontier(url: str, swath: Run) -> None:
    assert swath("add", "a", "--partitions", "3", "--min-interval", "1m", "--concurrency", "2").code == 0
    status = look(url)
    assert (len(status.checkpoints), status.min_interval, status.concurrency) == (3, 60.0, 2)
    other = swath("add", "a", "--partitions", "4")
    assert other.code == 2
    assert "fixed" in other.err


def test_a_long_stream_in_bounded_memory(tmp_path: Path) -> None:
    """What the process holds at its most does not grow with what it reads."""
    script = (
        "import resource, sys\n"
        "from swath.cli import main\n"
        "sys.argv = ['swath', 'add', '--json']\n"
        "try: code = main()\n"
        "except SystemExit as left: code = left.code\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )

    def peak(lines: int, name: str) -> int:
        read_end, write_end = os.pipe()
        with subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=read_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(SWATH_STORE=f"sqlite:///{tmp_path}/{name}.db?synchronous=normal"),
        ) as run:
            os.close(read_end)
            with os.fdopen(write_end, "wb") as pipe:
                for n in range(lines):
                    pipe.write(b"https://example.com/a/longer/path/%d\n" % n)
            out, err = run.communicate(timeout=100)
        assert json.loads(out)["added"] == lines, err
        return int(err.split()[-1])

    grown = peak(120_000, "many") - peak(40_000, "few")
    assert grown < 48 * 1024, f"{grown} KiB more for 80,000 keys more"


def test_interrupt_stops_cleanly_and_says_how_many(url: str) -> None:
    """The command streams: what it has read is there for others while it waits for more."""
    pipe = subprocess.PIPE
    env = environment(SWATH_STORE=url)
    with subprocess.Popen([*COMMAND, "add"], stdin=pipe, stdout=pipe, stderr=pipe, env=env) as run:
        assert run.stdin is not None
        run.stdin.write(b"".join(b"k%d\n" % n for n in range(2500)))
        run.stdin.flush()
        wait_until_added(url, 2000)
        run.send_signal(signal.SIGINT)
        run.wait(30)  # with its input still open: at the end of that it would be done
        out, err = run.communicate()
    assert run.returncode == 130
    stopping = "swath: stopping: what was read so far is being added; Ctrl-C again leaves now\n"
    assert (out.decode(), err.decode()) == ("stopped: 2,500 new of 2,500\n", stopping)
    assert look(url).ready == 2500
