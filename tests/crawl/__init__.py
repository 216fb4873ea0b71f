"""Tests of the crawler, and what they share."""

import pytest

pytest.register_assert_rewrite("tests.crawl.archives", "tests.crawl.killing")
