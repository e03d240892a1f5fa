"""Encryption: what users pass to tasks, and what tasks return, is encrypted before a store gets
it."""

from .keyring import Keyring as Keyring
from .store import SealedStore as SealedStore
