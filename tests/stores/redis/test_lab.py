"""A lab on a cluster removes its keys from all nodes."""

from redis.cluster import RedisCluster

from mita import Mita
from mita.testing import lab

from .servers import bundled, shared_cluster, system


def test_a_lab_on_a_cluster_leaves_nothing_behind() -> None:
    app = Mita("memory://")

    @app.task
    def double(n: int) -> int:
        return 2 * n

    url = shared_cluster(system() or bundled()).url
    with lab(app, url) as it:
        app.enqueue_many_sync(double.call(n) for n in range(20))
        double.options(queue="other").after(60).enqueue_sync(1)
        assert it.advance_sync(60) == 21
        it.assert_enqueued(double, queue="other", state="succeeded")
    client = RedisCluster.from_url(url.replace("redis+cluster", "redis"))
    assert list(client.scan_iter(match="*_lab_*")) == []
    client.close()
