"""LangGraph's prebuilt agent, in memory or, with the argument `sqlite`, with a checkpoint on disk after each step."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.prebuilt import create_react_agent

from tests.bench.peers.turn import Turn, bench_sleep, main


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Turn]:
    """A graph of model and tools; each turn is a thread of its own."""
    model = ChatOpenAI(model="rehearsal", base_url=url, api_key="none", streaming=True)
    numbers = count()
    async with AsyncExitStack() as stack:
        saver, how = None, {}
        if "sqlite" in sys.argv[2:]:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="cpz-"))
            saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(Path(folder) / "state.db")))
            how = {"durability": "sync"}
        graph = create_react_agent(model, [bench_sleep], checkpointer=saver)

        async def turn(text: str) -> str:
            config: Any = {"configurable": {"thread_id": str(next(numbers))}}
            state = await graph.ainvoke({"messages": [("user", text)]}, config, **how)
            return str(state["messages"][-1].content)

        yield turn


if __name__ == "__main__":
    main(engine)
