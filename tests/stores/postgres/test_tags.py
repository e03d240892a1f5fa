"""Tags in PostgreSQL: only jobs that have some are in their index."""

from mita.model.view import JobFilter
from mita.rules.labels import with_tags
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import jobs

from .shared import server


async def test_a_search_by_tag_reads_an_index_that_has_no_plain_jobs(store: PostgresStore) -> None:
    tagged = jobs(2, options=with_tags(b"\x80", ("a",)), tags=("a",))
    await store.enqueue([*jobs(3000), *tagged])
    found = await store.page(JobFilter(tag="a"), None, 10)
    assert [job.id for job in found.jobs] == sorted((job.id for job in tagged), reverse=True)
    space = store._state.statements.namespace
    run = server("pg18").execute
    assert run(f'select count(*) from "{space}"._job where tags is not null')[0][0] == 2
    run(f'analyze "{space}"._job')
    plan = run(
        f"explain select id from \"{space}\"._job where tags @> jsonb_build_array('a'::text) "
        "order by id desc limit 10"
    )
    assert "_tagged" in str(plan), plan
