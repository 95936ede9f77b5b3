from __future__ import annotations

import asyncio
import base64
import struct

from coordinator.models.images import is_image, load_images, with_images
from shared.artifacts import Artifact
from shared.entries import Stored, UserMessage
from shared.fold import SessionFold
from shared.llm.model import ImageBlock, Message, TextBlock
from shared.messages import Attachment
from shared.pictures import MOST_BYTES

ONE, TWO = "a:" + "1" * 32, "a:" + "2" * 32
PICTURE = ImageBlock(media_type="image/png", data="AA")


def folded(text: str, *handles: str) -> list[Message]:
    """The conversation of one message with these attachments."""
    attached = tuple(Attachment(name=f"{h[2]}.png", media_type="image/png", artifact=h) for h in handles)
    value = UserMessage(run="r", principal="ana", session="s", received_ms=0, text=text, attachments=attached)
    return SessionFold.of([Stored(id="1-0", run="r", type=value.T, value=value)]).messages


def test_each_picture_stands_behind_the_note_of_its_handle() -> None:
    [message] = with_images(folded("look", ONE, TWO), {TWO: PICTURE, ONE: PICTURE.model_copy(update={"data": "BB"})})
    shown = [b.data if isinstance(b, ImageBlock) else str(getattr(b, "text", ""))[:11] for b in message.blocks]
    assert shown == ["look", "[attachment", "BB", "[attachment", "AA"]


def test_the_newest_message_with_the_handle_gets_it_and_no_other_is_touched() -> None:
    old, new = folded("then", ONE)[0], folded("now", ONE)[0]
    answer = Message(role="assistant", blocks=(TextBlock(text=f"[attachment x: image/png, handle {ONE}]"),))
    sent = with_images([old, answer, new], {ONE: PICTURE})
    assert sent[:2] == (old, answer)
    assert sent[2].blocks[-1] == PICTURE
    assert with_images([old], {}) == (old,)
    assert with_images([answer], {ONE: PICTURE}) == (answer,)


def gif(width: int, height: int, size: int = 13) -> bytes:
    """A GIF whose header says that many pixels, padded to `size` bytes."""
    return (b"GIF89a" + struct.pack("<HH", width, height)).ljust(size, b"\0")


class Store:
    """Artifacts of `ana` by handle."""

    def __init__(self, **contents: bytes) -> None:
        self.asked: list[str] = []
        self._contents = contents

    async def put(self, principal: str, data: bytes, media_type: str) -> str:
        raise NotImplementedError

    async def get(self, principal: str, handle: str) -> Artifact:
        assert principal == "ana"
        self.asked.append(handle)
        return Artifact(self._contents[handle], "image/png")


def test_pictures_are_loaded_as_what_they_are_and_nothing_that_a_provider_refuses() -> None:
    attachments = (
        Attachment(media_type="IMAGE/PNG", artifact="small"),
        Attachment(media_type="image/jpg", artifact="large"),
        Attachment(media_type="image/png", artifact="bomb"),
        Attachment(media_type="image/png", artifact="none"),
        Attachment(media_type="application/pdf", artifact="paper"),
        Attachment(media_type="image/tiff", artifact="strange"),
        Attachment(media_type="image/png", data="AA=="),
    )
    assert [is_image(a) for a in attachments] == [True, True, True, True, False, False, False]
    store = Store(small=gif(2, 2), large=gif(2, 2, MOST_BYTES + 1), bomb=gif(60_000, 60_000), none=b"<svg/>")
    found = asyncio.run(load_images(store, "ana", attachments))
    assert found == {"small": ImageBlock(media_type="image/gif", data=base64.b64encode(gif(2, 2)).decode())}
    assert store.asked == ["small", "large", "bomb", "none"]
