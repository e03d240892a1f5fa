"""The connection to a NATS server: nats-py, with its slow parts replaced.

`link` subclasses the driver's client, `parser` its parser, `wire` adds requests and answers in
groups. They use private names of nats-py; `tests/stores/nats/test_driver.py` lists each of them and
says why it is needed."""
