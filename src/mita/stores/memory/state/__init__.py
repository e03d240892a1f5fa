"""What a memory store keeps instead of a database: records, and indexes over them."""
