"""The tasks of the demo for its flow and its durable handler."""

import asyncio

from mita import Job, Mita, Retry
from mita.tasks import Task

from .tasks import Ran

PAGE_S = 0.3  # seconds that a page takes


class FlowTasks:
    """`ran` is called for every run with the job, its name in the feed, and a remark."""

    def __init__(self, app: Mita, ran: Ran) -> None:
        self.page_is_back = False
        self.drafts = 0

        @app.task(queue="import", retry=Retry(max_retries=0))
        async def page(job: Job, who: str, number: int) -> int:
            ran(job, who, "")
            await asyncio.sleep(PAGE_S)
            if number == 3 and not self.page_is_back:
                raise OSError("no such page")
            return number

        @app.task(queue="import")
        async def total(job: Job, who: str, pages: list[int]) -> int:
            ran(job, who, f"with the results of all pages: {pages}")
            return sum(pages)

        @app.task(queue="import")
        async def summary(job: Job, who: str) -> None:
            [one] = await job.outcomes()
            ran(job, who, f"the total was {one.state.value}")

        @app.task
        async def publish(job: Job, who: str) -> str:
            ran(job, who, "again from its top; its draft is kept" if self.drafts else "")
            draft = await job.step("write a draft", self._write_draft)
            answer = await job.wait_for("approval")
            return f"the {draft} is {'published' if answer else 'refused'}"

        self.page: Task[[str, int], int] = page
        self.total: Task[[str, list[int]], int] = total
        self.summary: Task[[str], None] = summary
        self.publish: Task[[str], str] = publish

    def _write_draft(self) -> str:
        self.drafts += 1
        return "draft"
