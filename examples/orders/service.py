"""An order service: FastAPI, SQLAlchemy and Mita. README.md says how to start it.

An order and the job that bills it are stored in one transaction: both or neither. The database is
$DATABASE_URL; the default is an SQLite file. Lines with `# Mita` are all that Mita needs."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mita import Mita  # Mita
from mita.contrib.fastapi import lifespan  # Mita
from mita.contrib.outbox import Outbox  # Mita

URL = os.environ.get("DATABASE_URL", "sqlite:///shop.db")
engine = create_async_engine(
    URL.replace("sqlite:", "sqlite+aiosqlite:").replace("postgresql:", "postgresql+psycopg:")
)
is_sqlite = URL.startswith("sqlite")  # then the jobs are in another file, else beside the orders
app = Mita("sqlite:///jobs.db", outbox=Outbox(URL)) if is_sqlite else Mita(URL)  # Mita

STOCK = {"tea": 300, "cake": 450}  # cents


class Order(BaseModel):
    customer: str
    articles: list[str]


class Invoice(BaseModel):
    number: int
    customer: str
    cents: int


class Base(DeclarativeBase):
    """The tables of the shop."""


class OrderRow(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int | None]


@app.task  # Mita
async def bill(number: int, order: Order) -> Invoice:
    """Work out what an order costs, and write it down. A job may run twice, so the row is set, not
    changed."""
    cents = sum(STOCK[article] for article in order.articles)
    async with AsyncSession(engine) as session, session.begin():
        row = await session.get_one(OrderRow, number)
        row.cents = cents
    print(f"billed order {number}: {cents} cents")
    return Invoice(number=number, customer=order.customer, cents=cents)


@asynccontextmanager
async def tables(_: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


web = FastAPI(lifespan=lifespan(app, tables))  # Mita


@web.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, int | str]:
    async with AsyncSession(engine) as session, session.begin():
        row = OrderRow(customer=order.customer)
        session.add(row)
        await session.flush()  # the row has its number now
        job = await bill.using(session).enqueue(row.number, order)  # Mita
        for article in order.articles:
            if article not in STOCK:  # rolls back: no order, no job
                raise HTTPException(409, f"{article} is sold out")
        number = row.number
    return {"number": number, "job": job.id}


@web.get("/orders/{number}")
async def look(number: int) -> dict[str, int | str | None]:
    async with AsyncSession(engine) as session:
        row = await session.get(OrderRow, number)
    if row is None:
        raise HTTPException(404, f"there is no order {number}")
    return {"number": row.number, "customer": row.customer, "cents": row.cents}
