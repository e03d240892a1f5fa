"""What every store with a server says alike."""

UNREACHED = "Start the server, or mend the URL"
