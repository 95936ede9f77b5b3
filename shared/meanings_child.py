"""The child of `shared.meanings`: a JSON list of texts on standard input, their vectors on standard output."""

from __future__ import annotations

import base64
import json
import os
import sys

from shared.encoder import PackagedEncoder
from shared.errors import OperatorError

MISSING = 3
"""Exit code when there is no encoder."""


def main() -> int:
    """One JSON document: the encoder's name, and each vector as base64 of little-endian float32."""
    os.nice(5)
    encoder = PackagedEncoder()
    try:
        rows = encoder.encode(json.load(sys.stdin))
    except OperatorError as error:
        print(error, file=sys.stderr)
        return MISSING
    vectors = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    json.dump({"encoder": encoder.name, "vectors": vectors}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
