"""The coordinator: inbox -> ReAct loop -> graph -> dispatch -> events, on one event loop."""
