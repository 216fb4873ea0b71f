"""What a transfer without a response failed of: each kind has its own retries and messages."""

import errno
from types import SimpleNamespace
from typing import Any

import pycurl
import pytest

from swath.crawl.http.transfer import classify_failure, classify_truncation

REFUSED = {"code": pycurl.E_COULDNT_CONNECT, "os_errno": errno.ECONNREFUSED}


def make_transfer(*, os_errno: int = 0, **changes: Any) -> Any:
    curl = SimpleNamespace(getinfo=lambda option: os_errno if option == pycurl.OS_ERRNO else None)
    given = {"refused_address": None, "errno": 0, "requests": 0, "fresh": True, "is_full": False, "curl": curl}
    return SimpleNamespace(**given | changes)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ({"code": pycurl.E_COULDNT_CONNECT, "refused_address": "127.0.0.1"}, "private"),
        ({"code": pycurl.E_COULDNT_CONNECT, "errno": errno.EMFILE}, "descriptors"),
        ({"code": pycurl.E_OK, "errno": errno.ENOBUFS}, "descriptors"),
        ({"code": pycurl.E_COULDNT_CONNECT, "os_errno": errno.EMFILE}, "descriptors"),
        ({"code": pycurl.E_RECV_ERROR, "os_errno": errno.EMFILE}, "reset"),
        (REFUSED, "refused"),
        ({"code": pycurl.E_COULDNT_CONNECT, "os_errno": errno.EIO}, "unreachable"),
        ({"code": pycurl.E_RECV_ERROR, "requests": 2}, "reset"),
        ({"code": pycurl.E_RECV_ERROR, "requests": 2, "fresh": False}, "closed"),
        ({"code": pycurl.E_OK, "requests": 1, "fresh": False}, "reset"),
        ({"code": pycurl.E_OPERATION_TIMEDOUT, "requests": 1}, "timeout"),
        ({"code": pycurl.E_OPERATION_TIMEDOUT}, "timeout-connect"),
        ({"code": pycurl.E_BAD_FUNCTION_ARGUMENT}, "other"),
    ],
)
def test_the_kind_of_a_failure(found: dict[str, Any], kind: str) -> None:
    changes = dict(found)
    code = changes.pop("code")
    assert classify_failure(make_transfer(**changes), code) == kind


@pytest.mark.parametrize(
    ("code", "is_full", "reason"),
    [
        (pycurl.E_OK, False, None),
        (pycurl.E_WRITE_ERROR, True, "length"),
        (pycurl.E_OPERATION_TIMEDOUT, False, "time"),
        (pycurl.E_PARTIAL_FILE, False, "disconnect"),
    ],
)
def test_why_a_body_is_incomplete(code: int, is_full: bool, reason: str | None) -> None:
    assert classify_truncation(make_transfer(is_full=is_full), code) == reason
