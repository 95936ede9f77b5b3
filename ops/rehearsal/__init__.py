"""The rehearsal model: a scripted server that speaks the wire formats of real model providers.

For people without a key, and for tests and benchmarks. `README.md` beside this file documents the scenario format.
"""
