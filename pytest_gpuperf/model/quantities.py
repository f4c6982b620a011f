"""The numbers of a report, their units, their ranges: proved when a document is read.

`valid` says in words what a marker accepts.
"""

from typing import Annotated

from msgspec import Meta

AtLeastOne = Annotated[int, Meta(ge=1, extra={"valid": "an integer of at least 1"})]
Bandwidth = Annotated[float, Meta(gt=0, extra={"unit": "B/s"})]
Bytes = Annotated[int, Meta(ge=0, extra={"unit": "B"})]
Count = Annotated[int, Meta(ge=0)]
Finite = Annotated[float, Meta(extra={"valid": "a finite number"})]
MemoryLimit = Annotated[
    AtLeastOne,
    Meta(extra={"valid": "a number of bytes above 0, or one with a unit, e.g. '512MB' or '1.5GiB'"}),
]
NonNegative = Annotated[float, Meta(ge=0, extra={"valid": "a finite number of at least 0"})]
Positive = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(ge=0, extra={"unit": "s"})]
Ratio = Annotated[float, Meta(gt=0, extra={"unit": "x", "valid": "a finite number above 0"})]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]
TimeLimit = Annotated[
    Positive,
    Meta(le=86_400, extra={"valid": "a finite number of seconds above 0 and at most 86400, a day"}),
]
