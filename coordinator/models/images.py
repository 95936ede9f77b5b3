"""Images of a message, for models that can see: the log has handles, a request gets the pictures."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence

from shared.artifacts import ArtifactStore
from shared.llm.model import Block, ImageBlock, Message, TextBlock
from shared.messages import Attachment
from shared.pictures import MEDIA_TYPES, MOST_BYTES, MOST_PIXELS, look_at

VISION_GROUP = "vision"
"""The tool group that looks at a picture by its handle."""
_LABELS = (*MEDIA_TYPES, "image/jpg")


def is_image(attachment: Attachment) -> bool:
    """True for a picture that a model could be shown."""
    return attachment.media_type.lower() in _LABELS and bool(attachment.artifact)


async def load_images(
    artifacts: ArtifactStore, principal: str, attachments: Sequence[Attachment]
) -> dict[str, ImageBlock]:
    """The pictures by handle; one that is too large, or is none, stays a handle. Raises what the store raises."""
    found = {}
    for attachment in filter(is_image, attachments):
        data = (await artifacts.get(principal, attachment.artifact)).data
        if (block := await asyncio.to_thread(_block, data)) is not None:
            found[attachment.artifact] = block
    return found


def _block(data: bytes) -> ImageBlock | None:
    """The picture as its own bytes say what it is; None for what no provider would take."""
    picture = look_at(data) if len(data) <= MOST_BYTES else None
    if picture is None or picture.pixels > MOST_PIXELS:
        return None
    return ImageBlock(media_type=picture.media_type, data=base64.b64encode(data).decode("ascii"))


def with_images(messages: Sequence[Message], images: Mapping[str, ImageBlock]) -> tuple[Message, ...]:
    """The messages with each picture right behind the note that names its handle, in the newest message that does.

    Pure. Notes are those of the fold; a text that merely looks like one can show no other picture than those given.
    """
    out = list(messages)
    for handle, image in images.items():
        for at in range(len(out) - 1, -1, -1):
            if out[at].role == "user" and (place := _place(out[at].blocks, handle)) is not None:
                blocks = (*out[at].blocks[:place], image, *out[at].blocks[place:])
                out[at] = out[at].model_copy(update={"blocks": blocks})
                break
    return tuple(out)


def _place(blocks: Sequence[Block], handle: str) -> int | None:
    for at, block in enumerate(blocks):
        if isinstance(block, TextBlock) and block.text.startswith("[attachment ") and handle in block.text:
            return at + 1
    return None
