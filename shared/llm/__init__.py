"""Model clients: neutral values, one streaming transport, and one folder per wire dialect.

From the ground up: `model`, `errors`; then, pure, `switches` and `presets` under `provider`, `sse`, `text`, `calls`,
`names`, `usage`, `check`, `retry`, `pricing`; then `dialects`, pure encoders and decoders; on top `client`, with
`deadlines` and `transport` the only part that has sockets and clocks.
"""
