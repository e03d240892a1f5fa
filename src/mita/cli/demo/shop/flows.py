"""The flows of the shop: one that succeeded, one that failed, one that was cancelled, one that
runs, and one that waits for a person."""

from mita import Flow, FlowRun, Mita
from mita.tasks import Call

from .tasks import ShopTasks

PAGES = (1, 2, 3, 4)


class ShopFlows:
    """Builds the flows; each method enqueues one and returns its run."""

    def __init__(self, app: Mita, tasks: ShopTasks) -> None:
        self._app, self._tasks = app, tasks

    def _call(self, name: str, what: str) -> Call[None]:
        return self._tasks.steps[name].call(what)

    async def catalogue(self) -> FlowRun:
        """Fetch the pages side by side, merge and publish them."""
        flow = self._app.flow("catalogue-import")
        pages = [flow.add(self._tasks.fetch_page.call(number)) for number in PAGES]
        merged = flow.add(self._call("merge_pages", "spring"), after=pages)
        flow.add(self._call("publish_catalogue", "spring"), after=[merged])
        return await flow.enqueue()

    async def checkout(self) -> FlowRun:
        """An order from its check to its parcel."""
        flow = self._app.flow("checkout")
        order = "order 4711"
        valid = flow.add(self._call("validate_order", order))
        stock = flow.add(self._call("reserve_stock", order), after=[valid])
        fraud = flow.add(self._call("check_fraud", order), after=[valid])
        invoice = flow.add(self._call("write_invoice", order), after=[stock, fraud])
        parcel = flow.add(self._call("pack_parcel", order), after=[stock, fraud])
        shipped = flow.add(self._call("ship_parcel", order), after=[parcel, invoice])
        flow.add(self._call("notify_customer", order), after=[shipped], always=True)
        return await flow.enqueue()

    async def month_end(self) -> FlowRun:
        """The books of a month; a page of the bank is missing."""
        flow: Flow = self._app.flow("month-end")
        closed = flow.add(self._call("close_books", "October"))
        page = flow.add(self._tasks.fetch_page.call(max(PAGES) + 1), after=[closed])
        ledger = flow.add(self._call("check_ledger", "October"), after=[closed])
        taxes = flow.add(self._call("file_taxes", "October"), after=[ledger, page])
        flow.add(self._call("tidy_up", "October"), after=[taxes], always=True)
        return await flow.enqueue()

    async def reindex(self) -> FlowRun:
        """Build the index of the search in parts."""
        flow = self._app.flow("reindex")
        parts = [flow.add(self._call("build_index", f"part {number}")) for number in PAGES]
        flow.add(self._call("swap_index", "all"), after=parts)
        return await flow.enqueue()

    async def onboarding(self) -> FlowRun:
        """A new customer, who has to sign."""
        flow = self._app.flow("onboard-customer")
        account = flow.add(self._call("create_account", "Globex"))
        signed = flow.add(self._tasks.sign_contract.call("Globex"), after=[account])
        flow.add(self._call("send_welcome", "Globex"), after=[signed])
        return await flow.enqueue()
