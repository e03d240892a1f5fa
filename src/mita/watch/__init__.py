"""Watching what happens: notes from engine and client, counted by a tally, told to listeners."""

from .herald import Herald as Herald
from .notes import Note as Note
from .notes import Tell as Tell
from .post import Listening as Listening
from .reports import Reports as Reports
from .tally import Tally as Tally
from .watch import Watch as Watch
