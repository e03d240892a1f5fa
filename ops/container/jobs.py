"""The app of the example image. Put your own in its place."""

from mita import Mita

app = Mita()  # its jobs are where $MITA_URL says


@app.task
async def greet(name: str) -> str:
    return f"hello {name}"
