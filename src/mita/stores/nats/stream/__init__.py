"""The stream: its subjects, the records stored in it, and how they are read and changed.

`docs/inside/nats.md` draws the subjects and the life of a job."""
