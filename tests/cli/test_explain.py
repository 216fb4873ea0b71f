from swath import Item
from tests.cli.conftest import Run, add, kill, sqlite_only


def test_the_sentence_then_the_facts(url: str, swath: Run) -> None:
    add(url, Item("first", "x"), Item("second", "x", payload={"n": 1}))
    result = swath("explain", "second")
    assert result.code == 0
    assert result.out.splitlines()[0] == "second is waiting behind 1 in lane x, which is ready."
    facts = result.facts()
    assert facts["payload"] == '{"n": 1}'
    assert facts["ahead"] == "1"
    assert facts["lane.lane"] == "x"
    assert facts["lane.waiting"] == "2"


def test_json_has_the_state_and_the_facts(url: str, swath: Run) -> None:
    kill(url, "a", reason="HTTP 410", error="Traceback …")
    data = swath("explain", "a", "--json").json()
    assert (data["key"], data["state"], data["reason"], data["error"]) == ("a", "dead", "HTTP 410", "Traceback …")
    assert "is dead since" in data["sentence"]
    assert data["lane"]["lane"] == "default"


def test_never_added_is_exit_code_1(url: str, swath: Run) -> None:
    add(url)
    result = swath("explain", "nobody")
    assert (result.code, result.out, result.err) == (1, "nobody was never added.\n", "")
    result = swath("explain", "nobody", "--json")
    assert result.code == 1
    assert '"state": "unknown"' in result.out


@sqlite_only
def test_a_key_in_two_lanes(url: str, swath: Run) -> None:
    add(url, Item("k", "x"), Item("k", "y"))
    assert "also in lane" in swath("explain", "k").out
    assert swath("explain", "k", "--lane", "y", "--json").json()["lane"]["lane"] == "y"
    other = swath("explain", "k", "--lane", "z")
    assert (other.code, other.out) == (1, "k was never added to lane z. It is in lane x, y.\n")


@sqlite_only
def test_what_does_not_print_is_escaped(url: str, swath: Run) -> None:
    key = "a\x1b[31mred\x07"
    add(url, key)
    result = swath("explain", key)
    assert "\x1b" not in result.out
    assert result.out.startswith(r"a\x1b[31mred\x07 is waiting")
    assert swath("explain", key, "--json").json()["key"] == key
