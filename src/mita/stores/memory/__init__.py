"""Jobs in the memory of one process: for tests, and as the model that every other store is compared
with."""

from .state.memory_state import MemoryState as MemoryState
from .store import MemoryStore as MemoryStore
