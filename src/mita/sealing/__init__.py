"""Encryption: what users pass to tasks, and what tasks return, is encrypted before a store gets
it."""

from .keyring import Keyring as Keyring
from .outbox import sealed_outbox as sealed_outbox
from .store import SealedStore as SealedStore
