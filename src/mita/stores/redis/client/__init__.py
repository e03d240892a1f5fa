"""How this store reaches a Redis server: addresses, sockets, and what the driver's errors mean."""
