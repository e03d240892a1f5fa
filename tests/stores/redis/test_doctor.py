"""What the doctor says of a server."""

import pytest

from mita.model.view import Finding, Health
from mita.stores.redis import RedisStore

from .servers import Server, bundled, shared, valkey


async def examined(url: str) -> dict[str, Finding]:
    store = RedisStore(url)
    await store.open()
    findings = await store.doctor()
    await store.close()
    return {finding.what: finding for finding in findings}


async def test_a_server_without_an_append_only_file_is_a_warning(server: Server) -> None:
    """I11"""
    said = await examined(server.url)
    assert "an acknowledged job can be lost when the server dies" in said["durability"].found
    assert said["durability"].health is Health.WARN
    assert "appendonly yes" in said["durability"].remedy


@pytest.mark.parametrize(
    ("how", "promise"), [("everysec", "the last second"), ("always", "acknowledged means on disk")]
)
async def test_the_appendfsync_setting_is_shown(how: str, promise: str) -> None:
    """I11"""
    server = Server(bundled(), "--appendonly", "yes", "--appendfsync", how).start()
    said = await examined(server.url)
    server.stop()
    assert promise in said["durability"].found
    assert said["durability"].health is Health.GOOD


async def test_version_policy_and_clock_are_shown(server: Server) -> None:
    said = await examined(server.url)
    with server.client() as client:
        known: dict[str, str] = client.info("server")
    assert known.get("valkey_version", known["redis_version"]) in said["engine"].found
    assert "noeviction" in said["eviction"].found
    assert "ms off" in said["clock"].found


async def test_a_valkey_is_shown_with_its_own_name_and_version() -> None:
    said = await examined(shared(valkey()).url)
    assert said["engine"].found.startswith("valkey 9.")
