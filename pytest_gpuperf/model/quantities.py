"""The numbers of a report, their units, their ranges: proved when a document is read."""

from typing import Annotated

from msgspec import Meta

Alpha = Annotated[float, Meta(ge=1e-4, lt=0.5)]
AtLeastOne = Annotated[int, Meta(ge=1)]
Bandwidth = Annotated[float, Meta(gt=0, extra={"unit": "B/s"})]
Bytes = Annotated[int, Meta(ge=0, extra={"unit": "B"})]
Count = Annotated[int, Meta(ge=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(ge=0, extra={"unit": "s"})]
Ratio = Annotated[float, Meta(gt=0, extra={"unit": "x"})]
RatioOrZero = Annotated[float, Meta(ge=0, extra={"unit": "x"})]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]
