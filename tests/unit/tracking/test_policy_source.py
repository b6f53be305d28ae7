"""The policy in force while a file or a ConfigMap changes, and the reports of bad policies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests import virtual_time
from tests.metrics import counted
from webhook.kube.client import ListMeta, Page
from webhook.objects.problem import Json
from webhook.policy.parse import KEY, load_default
from webhook.tracking.policy_source import INTERVAL, LARGEST, REMINDED, LastGood, PolicySource

GONE = f"ConfigMap retry-policy/policy: has no key {KEY}, or does not exist; create it with this key"
BAD = "apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\nprofiles: {default: {retries: {limit: -1}}}\n"


def policy(limit: int = 10) -> str:
    retries = f"{{limit: {limit}, default: 1}}"
    return f"apiVersion: retry-policy.dev/v1alpha1\nkind: RetryPolicy\nprofiles: {{default: {{retries: {retries}}}}}\n"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


def limit_of(source: PolicySource) -> int | None:
    return None if source.current is None else source.current.profiles["default"].retries.limit


def refusals_of(source: PolicySource) -> list[str]:
    """Return a list that collects the reports of bad policies from now on."""
    found: list[str] = []
    source.refused = found.append
    return found


def is_last_good() -> bool:
    """Return the metric on which operators are alerted: whether the last policy was good."""
    return counted("retry_policy_policy_last_reload_good") == 1


def test_before_a_policy_is_read_none_is_in_force_and_the_reason_is_given() -> None:
    source = PolicySource()
    assert (source.current, source.trouble) == (None, "no policy has been read yet")


def test_the_packaged_policy_is_in_force_at_once() -> None:
    source = PolicySource(load_default())
    assert (source.current, source.trouble) == (load_default(), "")


def test_a_good_policy_replaces_the_last_one() -> None:
    source = PolicySource()
    source.take(policy(3), "a file")
    assert (limit_of(source), source.trouble) == (3, "")
    source.take(policy(4), "a file")
    assert limit_of(source) == 4


def test_a_bad_policy_leaves_the_last_good_one_in_force_and_is_reported_with_its_problems() -> None:
    source = PolicySource()
    said = refusals_of(source)
    source.take(policy(3), "a file")
    assert is_last_good()
    source.take(BAD, "a file")
    assert limit_of(source) == 3
    assert not is_last_good()
    assert said == [f"the last good policy stays in force; {source.trouble}"]
    assert source.trouble.startswith("a file: profiles.default.retries.limit: ")
    source.take(policy(4), "a file")
    assert (limit_of(source), source.trouble, len(said)) == (4, "", 1)


def test_text_that_is_not_yaml_is_a_bad_policy() -> None:
    source = PolicySource()
    source.take("profiles: [", "a file")
    assert source.current is None
    assert source.trouble.startswith("a file: ")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"#" * (LARGEST + 1), f"is larger than {LARGEST} bytes, which no ConfigMap can hold; make it smaller"),
        (b"kind: \xff", "is not UTF-8 (byte 6); save it as UTF-8"),
    ],
)
def test_a_file_that_is_too_large_or_not_utf_8_is_a_bad_policy(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)
    source = PolicySource()
    source.read(file)
    assert source.trouble == f"{file}: {why}"


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(policy(3) + "#" * (LARGEST - len(policy(3))))
    source = PolicySource()
    source.read(file)
    assert "is larger" not in source.trouble


def test_each_content_of_a_file_is_parsed_once(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    source = PolicySource()
    said = refusals_of(source)
    seen = b""
    for content in (BAD, BAD, policy(3), BAD):
        file.write_text(content)
        seen = source.read(file, seen)
    assert (len(said), limit_of(source)) == (2, 3)


def test_a_missing_file_is_reported_once_and_read_when_it_exists_again(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    source = PolicySource()
    said = refusals_of(source)
    seen = source.read(file, source.read(file))
    assert said == [f"no policy is in force; {file}: cannot be read: No such file or directory; make it readable"]
    file.write_text(policy(3))
    source.read(file, seen)
    assert (limit_of(source), source.trouble) == (3, "")


def test_a_change_of_the_file_is_in_force_within_a_second(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(policy(3))

    async def work() -> None:
        source = PolicySource()
        following = asyncio.create_task(source.follow(file, source.read(file)))
        await asyncio.sleep(INTERVAL * 10)
        file.write_text(policy(4))
        await asyncio.sleep(INTERVAL + 0.01)
        assert limit_of(source) == 4
        following.cancel()

    virtual_time.run(work())


class Api:
    """Lists one ConfigMap, or none, and then sends an event for each change by a test; None is a deletion."""

    def __init__(self, data: Json | None) -> None:
        self.data = data
        self.changes: asyncio.Queue[Json | None] = asyncio.Queue()
        self.query: dict[str, str] = {}

    def config_map(self, data: Json | None) -> Json:
        metadata = {"namespace": "retry-policy", "name": "policy", "uid": "u", "resourceVersion": "1"}
        return {"metadata": metadata, "data": data}

    async def pages(self, path: str, query: dict[str, str], *_: object) -> AsyncIterator[Page]:
        assert path == "/api/v1/namespaces/retry-policy/configmaps"
        self.query = query
        items = [] if self.data is None else [msgspec.Raw(msgspec.json.encode(self.config_map(self.data)))]
        yield Page(ListMeta(version="1"), items)

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self.lines()

    async def lines(self) -> AsyncIterator[bytes]:
        while True:
            data = await self.changes.get()
            kind = "DELETED" if data is None else "MODIFIED"
            yield msgspec.json.encode({"type": kind, "object": self.config_map(data)})


def following(
    data: Json | None, *changes: tuple[Json | None, Callable[[PolicySource], None]], pod: Path | None = None
) -> list[str]:
    """Change a ConfigMap, check the source after each change, and return the reports of bad policies.

    `pod`: the folder of the pod, in one of its containers.
    """

    async def work() -> list[str]:
        last_good = None if pod is None else LastGood(pod)
        source = PolicySource(config_map=("retry-policy", "policy"), last_good=last_good)
        said = refusals_of(source)
        server = Api(data)
        api: Any = server
        task = asyncio.create_task(source.follow_config_map(api))
        await asyncio.sleep(1)
        assert server.query["fieldSelector"] == "metadata.name=policy"
        for change, look in changes:
            if change is not data:
                server.changes.put_nowait(change)
                await asyncio.sleep(1)
            look(source)
        task.cancel()
        return said

    return virtual_time.run(work())


def in_force(limit: int | None, uid: str = "u") -> Callable[[PolicySource], None]:
    def look(source: PolicySource) -> None:
        assert (limit_of(source), source.uid) == (limit, uid)

    return look


def test_each_change_of_the_config_map_is_in_force() -> None:
    first = {KEY: policy(3)}
    said = following(first, (first, in_force(3)), ({KEY: policy(4)}, in_force(4)))
    assert said == []


def test_an_update_without_a_change_of_the_policy_is_not_parsed_again() -> None:
    bad = {KEY: BAD}
    said = following(bad, (bad, in_force(None)), ({**bad, "other": "1"}, in_force(None)))
    assert len(said) == 1


def test_a_config_map_that_is_deleted_or_loses_its_key_leaves_the_last_policy_in_force() -> None:
    first = {KEY: policy(3)}
    said = following(first, ({"other": "text"}, in_force(3)), (None, in_force(3, uid="")))
    assert said == [f"the last good policy stays in force; {GONE}"]


def test_a_config_map_that_does_not_exist_is_reported_and_read_when_it_is_created() -> None:
    said = following(None, ({KEY: policy(3)}, in_force(3)))
    assert said == [f"no policy is in force; {GONE}"]


def test_a_config_map_that_is_created_again_unchanged_is_in_force() -> None:
    first = {KEY: policy(3)}
    said = following(first, (None, in_force(3, uid="")), ({KEY: policy(3)}, in_force(3)))
    assert len(said) == 1


@pytest.mark.parametrize("now", [None, {}, {KEY: BAD}], ids=["gone", "without its key", "bad"])
def test_a_container_that_restarts_begins_with_the_last_good_policy_of_its_pod(
    now: Json | None, tmp_path: Path
) -> None:
    first = {KEY: policy(3)}
    following(first, (first, in_force(3)), ({KEY: policy(4)}, in_force(4)), pod=tmp_path)
    (said,) = following(now, (now, in_force(4, uid="" if now is None else "u")), pod=tmp_path)
    assert said.startswith("the last good policy stays in force; ConfigMap retry-policy/policy: ")
    assert not is_last_good()
    assert counted("retry_policy_policy_generation") == 1


def test_a_new_pod_has_no_policy_while_the_newest_is_bad(tmp_path: Path) -> None:
    bad = {KEY: BAD}
    (said,) = following(bad, (bad, in_force(None)), pod=tmp_path)
    assert said.startswith("no policy is in force; ConfigMap retry-policy/policy: ")
    assert counted("retry_policy_policy_generation") == 0


def test_a_last_good_policy_that_this_version_refuses_is_not_in_force(tmp_path: Path) -> None:
    LastGood(tmp_path).write(BAD)
    following(None, (None, in_force(None, uid="")), pod=tmp_path)


def test_a_container_that_restarts_under_a_good_policy_begins_with_that_policy(tmp_path: Path) -> None:
    first, second = {KEY: policy(3)}, {KEY: policy(4)}
    following(first, (first, in_force(3)), pod=tmp_path)
    following(second, (second, in_force(4)), pod=tmp_path)


def test_a_bad_policy_is_reported_repeatedly_until_a_good_one_replaces_it() -> None:
    async def work() -> None:
        source = PolicySource()
        said = refusals_of(source)
        reminding = asyncio.create_task(source.remind())
        source.take(BAD, "a file")
        await asyncio.sleep(2.5 * REMINDED)
        assert said == [source.refusal] * 3
        source.take(policy(3), "a file")
        await asyncio.sleep(2.5 * REMINDED)
        assert len(said) == 3
        reminding.cancel()

    virtual_time.run(work())
