"""What the outside world must promise the engine: stores and clocks."""
