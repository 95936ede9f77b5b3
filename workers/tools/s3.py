"""One user's part of a bucket: keys that stay inside it, and S3's errors in words. Blocks; call it in the executor."""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from xml.etree.ElementTree import ParseError

from shared.errors import ModelError
from shared.tool_settings import StorageSettings
from workers.tools.service import key_of

if TYPE_CHECKING:
    from minio import Minio

_KEY_BYTES = 700  # S3 takes 1,024 with the prefix
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_DIGEST = "x-amz-meta-sha256"
_ABSENT = ("NoSuchKey", "NoSuchObject")
_NO_ACCESS = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")


@dataclass(frozen=True)
class Stored:
    """An object: key without the user's prefix, size in bytes, when it was last changed (ISO 8601, UTC)."""

    key: str
    size: int
    modified: str


def checked_key(text: str, *, folder: bool = False) -> str:
    """The key that a model wrote, in one form. `folder`: the beginning of keys, which may be empty or end in a slash.

    Raises ModelError when it is absolute, has `..` or empty parts, or is too long.
    """
    key = unicodedata.normalize("NFC", text.strip())
    parts = key.removesuffix("/").split("/") if folder else key.split("/")
    if folder and not key:
        return ""
    if _CONTROL.search(key) or any(part in ("", ".", "..") for part in parts):
        raise ModelError(
            f"{text[:100]!r} is no key",
            hint="write it like a relative path, such as reports/2026.pdf, without .. and backslashes",
            code="bad_key",
        )
    if len(key.encode()) > _KEY_BYTES:
        raise ModelError(f"the key is longer than {_KEY_BYTES} bytes", hint="use a shorter one", code="bad_key")
    return key


@contextmanager
def _told(what: str, *, acts: bool = False) -> Iterator[None]:
    """Maps errors of the client and its transport."""
    import urllib3.exceptions
    from minio.error import MinioException, S3Error

    unsure = "; it may have been done all the same: look with storage_list" if acts else ""
    try:
        yield
    except S3Error as error:
        raise _refused(what, str(error.code), str(error.message or "")) from error
    except (MinioException, ParseError, ValueError) as error:
        raise ModelError(
            f"{what} failed: the S3 server gave an answer that cannot be used{unsure}",
            hint="tell the user; the operator should check storage.url",
            code="bad_response",
        ) from error
    except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError) as error:
        raise ModelError(
            f"{what} failed: the S3 server cannot be reached, so nothing was done",
            hint="tell the user; try again later",
            code="unreachable",
        ) from error
    except urllib3.exceptions.TimeoutError as error:
        raise ModelError(f"{what} failed: the S3 server did not answer in time{unsure}", code="timed_out") from error
    except urllib3.exceptions.HTTPError as error:
        name = type(error).__name__
        raise ModelError(f"{what} failed: the connection broke off ({name}){unsure}", code="unreachable") from error


def _refused(what: str, code: str, message: str) -> ModelError:
    if code in _ABSENT:
        return ModelError(f"{what} failed: there is no such object", hint="storage_list shows keys", code="not_found")
    if code == "NoSuchBucket":
        hint = "the operator must make the bucket, or set storage.create_bucket"
        return ModelError(f"{what} failed: the bucket does not exist", hint=hint, code="no_bucket")
    if code in _NO_ACCESS:
        hint = "the S3 keys are wrong or may not do this; tell the user"
        return ModelError(f"{what} was refused: {code}", hint=hint, code="auth_refused")
    return ModelError(f"{what} was refused: {code} {message}"[:400], hint="tell the user", code="refused")


class Bucket:
    """What one principal sees of the bucket."""

    def __init__(self, settings: StorageSettings, principal: str, seconds: float) -> None:
        """`seconds` bounds each request."""
        self._settings = settings
        self._bucket = settings.bucket
        self._seconds = max(0.1, min(settings.timeout_s, seconds))
        outer = settings.prefix.strip("/")
        self._root = f"{outer}/{principal}/" if outer else f"{principal}/"
        self._client = self._connect(settings.url)

    def _connect(self, url: str) -> Minio:
        import urllib3
        from minio import Minio

        address = urlsplit(url)
        timeout = urllib3.Timeout(connect=self._seconds, read=self._seconds)
        return Minio(
            address.netloc,
            access_key=key_of(self._settings.access_key_env),
            secret_key=key_of(self._settings.secret_key_env),
            secure=address.scheme == "https",
            region=self._settings.region,
            http_client=urllib3.PoolManager(timeout=timeout, retries=False),
        )

    def put(self, key: str, data: bytes, media_type: str, *, overwrite: bool) -> bool:
        """Stores an object; False if it was there with these bytes. Raises ModelError if it exists with others."""
        digest = hashlib.sha256(data).hexdigest()
        with _told(f"storing {key}", acts=True):
            present = self._stat(key)
            if present is not None and present.metadata and present.metadata.get(_DIGEST) == digest:
                return False
            if present is not None and not overwrite:
                raise ModelError(f"{key} exists already", hint="use another key, or set overwrite", code="exists")
            self._client.put_object(
                self._bucket, self._root + key, io.BytesIO(data), len(data), media_type, {"sha256": digest}
            )
        return True

    def _stat(self, key: str) -> Any:
        """The object's head, None if there is none; the bucket is made if it is missing and that is set."""
        from minio.error import S3Error

        try:
            return self._client.stat_object(self._bucket, self._root + key)
        except S3Error as error:
            if error.code not in (*_ABSENT, "NoSuchBucket"):
                raise
        # An answer to HEAD has no body that could tell a missing object from a missing bucket.
        if self._settings.create_bucket and not self._client.bucket_exists(self._bucket):
            self._make_bucket()
        return None

    def _make_bucket(self) -> None:
        from minio.error import S3Error

        try:
            self._client.make_bucket(self._bucket, self._settings.region)
        except S3Error as error:
            if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):  # another worker was faster
                raise

    def get(self, key: str) -> tuple[bytes, str]:
        """Content and media type. Raises ModelError if it is missing or larger than the settings allow."""
        most = self._settings.max_bytes
        with _told(f"reading {key}"):
            response = self._client.get_object(self._bucket, self._root + key)
            try:
                data = response.read(most + 1, decode_content=False)
            finally:
                response.close()
                response.release_conn()
            media_type = response.headers.get("content-type", "application/octet-stream")
        if len(data) > most:
            raise ModelError(f"{key} is larger than {most} bytes", hint="storage_share gives a link", code="too_large")
        return data, media_type.split(";")[0].strip().lower()

    def list(self, prefix: str, after: str, limit: int) -> tuple[list[Stored], bool]:
        """Objects in key order behind `after`, and whether there are more."""
        root = self._root
        with _told("listing"):
            found = self._client.list_objects(
                self._bucket, root + prefix, recursive=True, start_after=root + after if after else None
            )
            rows = [
                Stored(
                    str(one.object_name).removeprefix(root),
                    one.size or 0,
                    one.last_modified.isoformat(timespec="seconds") if one.last_modified else "",
                )
                for one in islice(found, limit + 1)
            ]
        return rows[:limit], len(rows) > limit

    def delete(self, key: str) -> bool:
        """Removes an object; False if there was none."""
        with _told(f"deleting {key}", acts=True):
            if self._stat(key) is None:
                return False
            self._client.remove_object(self._bucket, self._root + key)
        return True

    def share(self, key: str, seconds: int) -> str:
        """A link by which anybody may read an existing object for that long."""
        with _told(f"sharing {key}"):
            self._client.stat_object(self._bucket, self._root + key)
            client = self._connect(self._settings.public_url) if self._settings.public_url else self._client
            return client.presigned_get_object(self._bucket, self._root + key, timedelta(seconds=seconds))
