"""Jobs now, after a delay and at a point in time. `python quickstart.py` enqueues them, `mita
worker quickstart:app` runs them."""

from datetime import UTC, datetime, timedelta

from mita import Mita

app = Mita("sqlite:///quickstart.db")


@app.task
async def greet(name: str) -> None:
    print(f"hello {name}")


@app.task(queue="billing", resource="account:{account}")  # one job per account at a time
def charge(account: int, cents: int) -> None:  # a sync function runs on a thread
    print(f"charged account {account}: {cents / 100:.2f}")


if __name__ == "__main__":
    greet.enqueue_sync("Ada")
    greet.after(2).enqueue_sync("Bo")
    greet.at(datetime.now(UTC) + timedelta(seconds=4)).enqueue_sync("Cy")
    charge.enqueue_sync(42, cents=995)
