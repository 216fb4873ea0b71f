"""The settings of a crawl: checked, saved, compared."""

import pytest

from swath.core.errors import InvalidSetting
from swath.crawl.settings import ANY_SCOPE_DELAY, DEFAULT_DELAY, CrawlSettings, list_warnings


def test_the_default_delay_depends_on_the_scope() -> None:
    assert CrawlSettings(out="x").min_interval == DEFAULT_DELAY
    assert CrawlSettings(out="x", scope="any").min_interval == ANY_SCOPE_DELAY
    assert CrawlSettings(out="x", scope="any", delay=0).min_interval == 0


def test_the_user_agent_has_version_and_contact() -> None:
    agent = CrawlSettings(out="x", contact="me@example.com").agent
    assert agent.startswith("swath/")
    assert agent.endswith(" (+me@example.com)")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workers": 0}, "--workers 0: must be at least 1"),
        ({"max_pages_per_host": 0}, "--max-pages-per-host 0: must be at least 1"),
        ({"lane": "planet"}, "--lane planet"),
        ({"user_agent": "Mozilla/5.0 (X11)"}, "--user-agent"),
        ({"contact": "a\r\nX-Evil: 1"}, "--contact"),
        ({"contact": ""}, "--contact"),
        ({"contact": "me"}, "--contact 'me': must be an e-mail address or a URL"),
        ({"contact": "@me"}, "--contact"),
        ({"contact": "example.org/crawl"}, "--contact"),
        ({"contact": "http//example.org"}, "--contact"),
        ({"proxy": ""}, "--proxy"),
        ({"proxy": "htp://proxy.example:3128"}, "--proxy 'htp://proxy.example:3128': must be a URL such as"),
        ({"proxy": "socks5://proxy.example:1080"}, "one of the schemes http, https, socks4a, socks5h"),
        ({"proxy": "http//proxy.example:3128"}, "--proxy"),
        ({"proxy": "http:/proxy.example:3128"}, "--proxy"),
        ({"proxy": "http://:3128"}, "--proxy"),
        ({"proxy": "http://proxy.example:port"}, "--proxy"),
        ({"proxy": "http://proxy.example:70000"}, "--proxy"),
        ({"proxy": "http://[::1:3128"}, "--proxy"),
        ({"proxy": "http://proxy.example/pac"}, "--proxy"),
        ({"proxy": "proxy example"}, "--proxy"),
        ({"timeout": 0.0}, "--timeout"),
        ({"dns_servers": ("dns.example",)}, "--dns-servers 'dns.example': must be an IP address, such as"),
        ({"dns_servers": ("192.0.2.53", "192.0.2.999")}, "--dns-servers '192.0.2.999'"),
        ({"dns_servers": ("192.0.2.53,192.0.2.54",)}, "Repeat the option for each server"),
        ({"dns_servers": ("192.0.2.53:0",)}, "--dns-servers"),
        ({"dns_servers": ("192.0.2.53:70000",)}, "--dns-servers"),
        ({"dns_servers": ("2001:db8::53",)}, "--dns-servers"),
        ({"dns_servers": ("[2001:db8::53",)}, "--dns-servers"),
        ({"dns_servers": ("[192.0.2.53]",)}, "--dns-servers"),
        ({"dns_servers": ("",)}, "--dns-servers"),
        ({"dns_servers": ("192.0.2.53",), "proxy": "http://127.0.0.1:3128"}, "has no effect with --proxy"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        CrawlSettings(out="x", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"contact": "Crawler <crawl@example.org>"},
        {"contact": "mailto:crawl@example.org"},
        {"contact": "https://example.org/crawl"},
        {"proxy": "http://user:secret@proxy.example:3128/"},
        {"proxy": "socks5h://[::1]:1080"},
        {"proxy": "127.0.0.1:3128"},
        {"proxy": "proxy.example"},
        {"dns_servers": ("192.0.2.53", "192.0.2.54:5353", "[2001:db8::53]", "[2001:db8::53]:53")},
    ],
)
def test_valid_settings_are_accepted(given: dict[str, object]) -> None:
    CrawlSettings(out="x", **given)  # type: ignore[arg-type]


def test_the_password_of_a_proxy_is_not_printed() -> None:
    with pytest.raises(InvalidSetting, match=r"--proxy 'proxy\.example:x': must be a URL") as refused:
        CrawlSettings(out="x", proxy="http://me:secret@proxy.example:x")
    assert "secret" not in str(refused.value)


def test_the_user_agent_string_replaces_the_whole_header() -> None:
    settings = CrawlSettings(out="x", user_agent="bot", user_agent_string="bot/2 (me@example.org)")
    assert settings.agent == "bot/2 (me@example.org)"
    assert list_warnings(settings) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"user_agent_string": "Mozilla/5.0"}, "has neither swath, the name in robots.txt rules, nor a contact"),
        ({"user_agent_string": "swath", "contact": "me@a.example"}, "does not contain the --contact me@a.example"),
        ({"user_agent_string": "Swath/1.0"}, None),
        ({"user_agent_string": "Mozilla/5.0 (+https://a.example/bot)"}, None),
        ({"user_agent_string": "Mozilla/5.0 (me@a.example)", "contact": "me@a.example"}, None),
        ({"contact": "me@a.example"}, None),
    ],
)
def test_a_user_agent_string_that_does_not_name_the_crawler_is_reported(
    given: dict[str, str], said: str | None
) -> None:
    warnings = list_warnings(CrawlSettings(out="x", **given))  # type: ignore[arg-type]
    assert [said in one for one in warnings if said] == ([True] if said else [])
    assert len(warnings) == (said is not None)


@pytest.mark.parametrize("text", ["", "a\r\nX-Evil: 1", " a", "a ", "\x00", "Gr\u00fcn"])
def test_a_user_agent_string_that_is_not_a_header_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="--user-agent-string"):
        CrawlSettings(out="x", user_agent_string=text)
