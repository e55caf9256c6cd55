"""Which requests may reach Dagster's server, decided by their headers."""

import pytest

from lakegc_dagster.launch.request_guard import AskedOfUi, hosts_of, refusal

HOSTS = hosts_of("127.0.0.1", ["lakegc.example.com"])
OWN = {"host": "localhost:3000", "origin": "http://localhost:3000", "sec-fetch-site": "same-origin"}
JSON = {"content-type": "application/json"}


def judged(method="GET", address="/", headers=OWN, kind="http"):
    path, _, query = address.partition("?")
    pairs = headers if isinstance(headers, list) else list(headers.items())
    return refusal(AskedOfUi(kind, method, path, query, pairs), HOSTS)


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"host": "LocalHost"},
        {"host": "127.0.0.1:3000"},
        {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"},  # ssh -L 8080:127.0.0.1:3000
        {"host": "[::1]:3000", "origin": "http://[::1]:3000"},
        {"host": "lakegc.example.com", "origin": "https://lakegc.example.com"},
        {"host": "lakegc.example.com:443", "origin": "https://lakegc.example.com"},
        {"host": "lakegc.example.com:80", "origin": "http://lakegc.example.com"},
    ],
)
def test_the_ui_s_own_pages_may_look_change_and_subscribe(headers):
    assert judged(headers=headers) is None
    assert judged("HEAD", "/assets?prefix=x", headers) is None
    assert judged("POST", "/graphql", {**headers, **JSON}) is None
    assert judged(address="/graphql", headers=headers, kind="websocket") is None


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_a_program_without_a_browser_may_post_json(content_type):
    assert judged("POST", "/graphql", {"host": "localhost", "content-type": content_type}) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:3000",
        "localhost.evil.example",
        "localhost.",
        "evil.localhost:3000",
        "127.0.0.2:3000",
        "10.0.0.5:3000",
        "localhost@evil.example",
        "localhost:3000:3000",
        "localhost:evil",
        "[::1",
        "::1",
        "",
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_host_that_the_ui_was_not_started_for_is_refused(host, kind):
    told = judged(headers={"host": host}, kind=kind)
    assert told.startswith(f"the request is for the host {host!r}, and this UI answers for ")
    assert "127.0.0.1, [::1], lakegc.example.com, localhost alone. The request did not" in told
    assert "`hosts` of [ui]" in told


def test_a_request_without_a_host_or_with_two_is_refused():
    assert "for the host ''" in judged(headers={})
    for name in ("host", "origin", "sec-fetch-site", "content-type"):
        twice = [*OWN.items(), *JSON.items()]
        twice += [pair for pair in twice if pair[0] == name]
        assert judged("POST", headers=twice).startswith(f"the request has two headers {name}, ")


@pytest.mark.parametrize("host", ["10.0.0.5:3000", "evil.example", ""])
def test_a_probe_asks_for_server_info_by_any_host_and_for_nothing_else(host):
    assert judged("GET", "/server_info", {"host": host}) is None
    assert judged("HEAD", "/server_info", {"host": host}) is None
    for method, path in (("POST", "/server_info"), ("GET", "/server_info/"), ("GET", "/logs/x")):
        assert "for the host" in judged(method, path, {"host": host, **JSON})
    assert "for the host" in judged("GET", "/server_info", {"host": host}, "websocket")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_graphql_in_an_address_is_refused_and_its_own_page_is_not(method):
    for query in ("query=mutation%7BlaunchRun%7D", "query=%7Bversion%7D", "x"):
        for path in ("/graphql", "/graphql\n", "/graphql/"):
            told = judged(method, f"{path}?{query}")
            assert told.startswith("GraphQL in an address, which any ")
    assert judged(method, "/graphql") is None


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "post", "TRACE"])
def test_other_methods_are_refused(method):
    told = judged(method, headers={**OWN, **JSON})
    assert told == (
        f"the method is {method!r}, wanted GET, HEAD or POST. The request did not reach the server."
    )


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/graphql",
        "application/jsonp",
    ],
)
@pytest.mark.parametrize("path", ["/graphql", "/report_asset_materialization/verdict", "/new"])
def test_whatever_a_page_can_send_elsewhere_unasked_is_refused(path, content_type):
    headers = OWN if content_type is None else {**OWN, "content-type": content_type}
    told = judged("POST", path, headers)
    assert told.startswith(f"the content type is {content_type or ''!r}, wanted application/json, ")


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "http://localhost",
        "http://localhost:8080",
        "http://127.0.0.1:3000",
        "http://localhost:3000.evil.example",
        "chrome-extension://abc",
        "http://localhost:3000 http://evil.example",
    ],
)
def test_a_page_of_another_origin_may_neither_post_nor_open_a_websocket(origin):
    headers = {"host": "localhost:3000", "origin": origin, **JSON}
    for told in (
        judged("POST", "/graphql", headers),
        judged("POST", "/report_asset_check/verdict", headers),
        judged(address="/graphql", headers=headers, kind="websocket"),
    ):
        assert told.startswith(f"a page of {origin!r} sent the request to 'localhost:3000', and ")
        assert "a proxy changes the header Host" in told


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
def test_what_the_browser_says_of_the_page_counts_without_an_origin_too(site):
    headers = {"host": "localhost:3000", "sec-fetch-site": site, **JSON}
    for told in (
        judged("POST", "/graphql", headers),
        judged(address="/graphql", headers=headers, kind="websocket"),
    ):
        assert f"(Sec-Fetch-Site: {site!r})" in told


def test_a_link_from_elsewhere_opens_a_page():
    assert judged(headers={"host": "localhost:3000", "sec-fetch-site": "cross-site"}) is None


def test_the_hosts_are_loopback_the_one_given_and_those_of_the_settings():
    loopback = {"localhost", "127.0.0.1", "[::1]"}
    assert hosts_of("127.0.0.1", []) == loopback
    assert hosts_of("0.0.0.0", ["LakeGC.example.com"]) == loopback | {
        "0.0.0.0",
        "lakegc.example.com",
    }
    assert hosts_of("fd00::1", ["fd00::2"]) == loopback | {"[fd00::1]", "[fd00::2]"}
