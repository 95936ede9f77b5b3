"""Model clients: neutral values, one streaming transport, and one folder per wire dialect.

Layers, each importing only those before it: `model`, `errors` - `provider`, `sse`, `calls`, `names`, `usage`,
`check`, `retry`, `pricing` (all pure) - `dialects` (pure encoders and decoders) - `client` (the only one with
sockets and clocks).
"""
