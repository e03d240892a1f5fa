"""What `mita.stores.nats.client` needs of nats-py beyond its documented interface.

An upgrade of the driver that changes one of these fails here, with the reason why the name is
needed, and not somewhere in a queue."""

import inspect
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport, WebSocketTransport
from nats.protocol.parser import Parser

from mita.stores.nats import NatsStore
from mita.stores.nats.client.link import NatsLink
from mita.stores.nats.client.parser import QuickParser
from mita.stores.nats.client.wire import NatsWire

# Attributes that a client has from its beginning: name, type, why.
STATE: dict[str, tuple[type, str]] = {
    "_ps": (Parser, "replaced by our parser, which the driver's read loop calls"),
    "_pending": (list, "we append what the next write sends, and empty it after our own write"),
    "_pending_data_size": (int, "must agree with `_pending`, or the driver blocks its publishers"),
    "_sid": (int, "the last id of a subscription: `subscribe_once` takes the next one"),
    "options": (dict, "says whether the URL asked for TLS, before anything is sent"),
    "_transport": (type(None), "the connection: we write to it; None until it is connected"),
}

# Methods that we override: name, parameters, why.
OVERRIDDEN: dict[str, tuple[list[str], str]] = {
    "_process_info": (
        ["self", "info", "initial_connection"],
        "called before anything is sent: refuses a server without TLS",
    ),
    "_attempt_reconnect": (["self"], "called for a lost connection: we abort its socket first"),
}

# Methods that we call: name, parameters, why.
CALLED: dict[str, tuple[list[str], str]] = {
    "_process_msg": (
        ["self", "sid", "subject", "reply", "data", "headers"],
        "messages for the driver's own subscriptions, which our parser has read",
    ),
}

# Methods of the transport, which the driver's `flush` would call for us, one message at a time.
TRANSPORT = {
    "writelines": "one write for everything that is sent in a round of the event loop",
    "drain": "waits while the server reads more slowly than we write",
}

# What the parser has: name, why.
PARSER = {
    "parse": "the read loop awaits it with every chunk; we call it for what is not a message",
    "reset": "called at a new connection: we drop a half message too",
}


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", STATE)
def test_a_client_has_this_attribute(name: str) -> None:
    kind, why = STATE[name]
    assert isinstance(getattr(Client(), name, Client), kind), why


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_a_client_calls_this_method_of_ours(name: str) -> None:
    expected, why = OVERRIDDEN[name]
    assert parameters(getattr(Client, name, None)) == expected, why
    assert name in NatsLink.__dict__
    assert f"self.{name}(" in inspect.getsource(Client), f"the driver no longer calls it: {why}"


@pytest.mark.parametrize("name", CALLED)
def test_a_client_has_this_method(name: str) -> None:
    expected, why = CALLED[name]
    assert parameters(getattr(Client, name, None)) == expected, why


@pytest.mark.parametrize("transport", [TcpTransport, WebSocketTransport])
@pytest.mark.parametrize("name", TRANSPORT)
def test_a_transport_has_this_method(transport: type, name: str) -> None:
    assert callable(getattr(transport, name, None)), TRANSPORT[name]


@pytest.mark.parametrize("name", PARSER)
def test_a_parser_has_this_method(name: str) -> None:
    assert callable(getattr(Parser, name, None)), PARSER[name]
    assert name in QuickParser.__dict__
    assert f"self._ps.{name}(" in inspect.getsource(Client), PARSER[name]


def test_a_parser_knows_its_client() -> None:
    """It hands messages over to `nc`."""
    client = object()
    assert Parser(client).nc is client  # type: ignore[arg-type, unused-ignore]


def test_a_subscription_has_its_id() -> None:
    """Our handlers are found by it."""
    assert "self._id = id" in inspect.getsource(Subscription)


async def test_a_connected_transport_has_its_writers(store: NatsStore) -> None:
    """`_io_writer` is aborted before a reconnect; `_bare_io_writer`, the one below TLS, has the
    file descriptor that a forked child must not share."""
    transport = store.context.wire._transport
    assert isinstance(transport, TcpTransport)
    for name in ("_io_writer", "_bare_io_writer"):
        assert hasattr(getattr(transport, name, None), "transport"), name


def test_no_name_of_ours_is_one_of_the_drivers() -> None:
    """A subclass that takes a name which the driver uses for something else would break it."""
    ours = {*NatsLink.__dict__, *NatsWire.__dict__} | set(vars(NatsWire())) - set(vars(Client()))
    theirs = {*Client.__dict__, *vars(Client())}
    python = {name for name in ours if name.startswith("__")}
    assert (ours & theirs) - python == set(OVERRIDDEN)
