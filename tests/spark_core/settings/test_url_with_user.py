"""A URL of the settings may name a user, and no password."""

import pytest

from spark_core.settings.url_with_user import UrlWithUser, split_url


def split(url):
    return split_url(url, schemes=("https", "http"), named_in="push_password_env")


def test_a_url_falls_into_its_parts_and_its_address_has_no_user():
    parts = split("http://me%3A1@[fd00::1]:9091/a%2Fb")
    assert parts == UrlWithUser("http", "me:1", "fd00::1", 9091, "/a%2Fb")
    assert parts.address == "http://[fd00::1]:9091/a%2Fb"
    assert split("https://host").address == "https://host"


@pytest.mark.parametrize("url", ["https://me:hush@host", "https://:hush@host", "https://me:@host"])
def test_a_password_is_refused_with_its_place_and_never_shown(url):
    with pytest.raises(ValueError, match="variable's name into push_password_env") as refused:
        split(url)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        *("hush", "ftp://hush", "https://", "https://h?hush", "https://h#hush", "https://[hush"),
        *("https://my hush", "https://h\nush", "https://h/hush ", "https://h\\hush"),
        *("https://hush..example.com", f"https://{'hush' * 16}", "https://me:12/hush@host"),
    ],
)
def test_what_is_no_such_url_is_refused_and_not_shown(url):
    with pytest.raises(ValueError, match="a URL like https://USER@HOST") as refused:
        split(url)
    assert "hush" not in str(refused.value)
