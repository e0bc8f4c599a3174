"""Kinds of value in a file: each reads a `Scalar` as it was written and refuses what a person may have meant otherwise.

They are annotated types for pydantic models. Values that are already Python's (a model built in code) pass through the
same checks. Refusals are `WrongValue`; the key and the position are added by `fairshare.config.sections`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from fairshare.config.durations import parse_duration
from fairshare.config.errors import WrongValue, did_you_mean
from fairshare.config.sizes import parse_rate, parse_size
from fairshare.config.yaml_source import Scalar
from fairshare.model import SharingStrategy
from fairshare.scheduler.policy import MAX_WEIGHT, MIN_WEIGHT

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_REGION: Final = re.compile(r"[a-z]{2,5}(-[a-z]+)+-[0-9]+")
_INSTANCE_TYPE: Final = re.compile(r"ml\.[a-z0-9-]+\.[a-z0-9-]+")
_SHARE: Final = re.compile(r"[A-Za-z0-9_-]*\*?")
_LOSES_ZEROS: Final = re.compile(r"[-+]?[0-9]*\.(?:[0-9]*[1-9]0+|00+)")


def kind_of(value: object) -> str:
    """Return what stands in a file, for ``must be ..., not ...``: ``a mapping``, ``true``, ``"high"``."""
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, Scalar) and value.is_null:
        return "nothing"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _scalar(value: object, wanted: str) -> object:
    """Return a scalar or a Python value; refuse nothing, lists and mappings."""
    if isinstance(value, Scalar) and value.is_null:
        raise WrongValue("has no value", hint=f"write {wanted}, or remove the key")
    if isinstance(value, dict | list | tuple):
        raise WrongValue(f"must be {wanted}, not {kind_of(value)}")
    return value


def read_text_value(value: object) -> str:
    """Return text exactly as it was written; a number or a flag in its written form."""
    value = _scalar(value, "text")
    if isinstance(value, Scalar):
        return value.text
    if not isinstance(value, str):
        raise WrongValue(f"must be text, not {kind_of(value)}")
    return value


def _check_not_empty(value: Any) -> Any:
    if not value or (isinstance(value, str) and not value.strip()):
        raise WrongValue("must not be empty")
    return value


NotEmpty: Final = AfterValidator(_check_not_empty)
"""For text, lists and mappings. (pydantic's own length limit also fires when only some of the items are wrong.)"""

AnyText = Annotated[str, BeforeValidator(read_text_value)]
"""Text exactly as written: ``NO`` is "NO", ``010`` is "010", ``3.10`` is "3.10", ``5`` is "5" (case C11)."""

Text = Annotated[AnyText, NotEmpty]
"""Text that is not empty."""


def _check_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise WrongValue(f'"{text}" is not a name: letters, digits, - and _ only, and a letter or digit first')
    return text


Name = Annotated[Text, AfterValidator(_check_name)]
"""A name that AWS Batch accepts for environments, policies and queues, but for its length (128 with the stack)."""


def _check_share_identifier(text: str) -> str:
    if len(text) > 255:
        raise WrongValue(f"a share identifier has at most 255 characters, this one has {len(text)}")
    if not _SHARE.fullmatch(text):
        raise WrongValue(
            f'"{text}" is not a share identifier: letters and digits only',
            hint="a * may stand at the end, for every identifier that begins so",
        )
    return text


ShareIdentifier = Annotated[Text, AfterValidator(_check_share_identifier)]
"""An entry of a share distribution, ``PREFIX*`` included (case C03).

AWS documents letters and digits (API_ShareAttributes); hyphens and underscores are in use, and only warned about.
"""


def _read_whole(value: object) -> object:
    value = _scalar(value, "a whole number")
    if not isinstance(value, Scalar):
        if isinstance(value, bool) or not isinstance(value, int):
            raise WrongValue(f"must be a whole number, not {kind_of(value)}")
        return value
    text = value.text
    if not re.fullmatch(r"[-+]?[0-9]{1,300}", text):
        raise WrongValue(f"must be a whole number, not {value}")
    if value.quoted:
        raise WrongValue("must be a whole number, not text", hint="remove the quotes")
    if re.match(r"[-+]?0[0-9]", text):
        raise WrongValue(f"{text} has a leading zero, which some programs read as octal", hint=f"write {int(text)}")
    return int(text)


Whole = Annotated[int, BeforeValidator(_read_whole)]
"""A whole number written in decimal. ``true``, ``2.5``, ``"5"`` and ``010`` are refused (case C08)."""

MAX_INTEGER: Final = 2**31 - 1
"""What an Integer of an AWS API holds, ``maxCapacity`` and ``InstanceCount`` among them: 32 bits with a sign
(https://docs.aws.amazon.com/batch/latest/APIReference/API_CapacityLimit.html,
https://smithy.io/2.0/spec/simple-types.html#integer)."""

Instances = Annotated[Whole, Field(ge=1, le=MAX_INTEGER)]
"""A number of instances: at least one, and no more than AWS's integers hold."""


def _read_flag(value: object) -> object:
    value = _scalar(value, "true or false")
    plain = value.value if isinstance(value, Scalar) else value
    if not isinstance(plain, bool):
        raise WrongValue(f"must be true or false, not {kind_of(value)}")
    return plain


Flag = Annotated[bool, BeforeValidator(_read_flag)]
"""``true`` or ``false``."""


def _read_seconds(value: object) -> object:
    value = _scalar(value, "a duration, as in 90, 5m or 1h30m")
    try:
        return parse_duration(value.text if isinstance(value, Scalar) else value)  # type: ignore[arg-type]
    except ValueError as error:
        raise WrongValue(str(error)) from None


Seconds = Annotated[int, BeforeValidator(_read_seconds)]
"""A duration (`parse_duration`), in seconds."""


def _size_reader(parse: Callable[[str | int], int], example: str) -> Callable[[object], object]:
    def read(value: object) -> object:
        value = _scalar(value, f"a size, as in {example}")
        try:
            return parse(value.text if isinstance(value, Scalar) else value)  # type: ignore[arg-type]
        except ValueError as error:
            raise WrongValue(str(error)) from None

    return read


Size = Annotated[int, BeforeValidator(_size_reader(parse_size, "4GiB"))]
"""A size (`fairshare.config.sizes.parse_size`), in bytes."""

Rate = Annotated[int, BeforeValidator(_size_reader(parse_rate, "200MiB/s"))]
"""A rate, in bytes a second."""


def one_of(*words: str) -> Callable[[object], str]:
    """Return a reader of a text that must be one of the words."""

    def read(value: object) -> str:
        text = read_text_value(value)
        if text not in words:
            hint = did_you_mean(text, words, "choices")
            raise WrongValue(f"must be {', '.join(words[:-1])} or {words[-1]}, not {kind_of(value)}", hint=hint)
        return text

    return read


def _read_cpu(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    text = read_text_value(value)
    if not re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", text) or not Fraction(text):
        raise WrongValue(f"must be a number of processors, not {kind_of(value)}", hint="as in 2 or 0.5")
    return Fraction(text)


Cpu = Annotated[Fraction, PlainValidator(_read_cpu)]
"""A number of processors above 0, exact: ``0.5`` is ``Fraction(1, 2)``."""


def _read_weight(value: object) -> object:
    value = _scalar(value, "a number such as 1 or 0.25")
    text = value.text if isinstance(value, Scalar) else str(value)
    if isinstance(value, Scalar) and not isinstance(value.value, int | float):
        raise WrongValue(f"must be a number, not {value}", hint="remove the quotes" if value.quoted else "")
    try:
        weight = Decimal(text)
    except InvalidOperation:
        raise WrongValue(f"must be a number, not {kind_of(value)}") from None
    low, high = (Decimal(n.numerator) / n.denominator for n in (MIN_WEIGHT, MAX_WEIGHT))
    if not weight.is_finite() or not low <= weight <= high:
        raise WrongValue(f"must be between {low} and {high}, not {text}", hint="lower = more; 1 is usual")
    return f"{weight:f}"


WeightFactor = Annotated[str, BeforeValidator(_read_weight)]
"""A weight factor as plain decimal text, within AWS's 0.0001 - 999.9999 (API_ShareAttributes; case C32).

The bounds are compared exactly, and ``.nan`` and ``.inf`` are outside them.
"""


def _read_target(value: object) -> Fraction:
    if isinstance(value, Fraction):
        return value
    text = read_text_value(value)
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text)
    if not match:
        raise WrongValue(f"must be per cent, as in 60%, not {kind_of(value)}")
    target = Fraction(match[1])
    if not 0 < target <= 100:
        raise WrongValue(f"must be more than 0% and at most 100%, not {text}")
    return target


Target = Annotated[Fraction, PlainValidator(_read_target)]
"""A share's portion of the capacity in per cent, exact: ``60%`` is ``Fraction(60)``."""


def _read_sharing(value: object) -> SharingStrategy:
    return SharingStrategy(one_of(*SharingStrategy)(value))


Sharing = Annotated[SharingStrategy, PlainValidator(_read_sharing)]
"""What a quota share does with what it does not use: RESERVE, LEND or LEND_AND_BORROW."""


def _read_borrow_limit(value: object) -> object:
    if isinstance(value, Scalar) and re.fullmatch(r"[0-9]{1,9} ?%", value.text):
        return int(value.text.rstrip("% "))
    limit = _read_whole(value)
    if isinstance(limit, int) and limit < -1:
        raise WrongValue(f"must be at least -1, not {limit}", hint="in per cent of the share's own; -1 = no limit")
    return limit


BorrowLimit = Annotated[int, BeforeValidator(_read_borrow_limit), Field(le=MAX_INTEGER)]
"""How much a quota share may borrow, in per cent of its own capacity: ``100`` or ``100%``; -1 = without limit."""


def _check_region(text: str) -> str:
    if not _REGION.fullmatch(text):
        hint = f"{text[:-1]} is the region of that zone" if _REGION.fullmatch(text[:-1]) else "as in us-west-2"
        raise WrongValue(f'"{text}" is not a region', hint=hint)
    return text


Region = Annotated[Text, AfterValidator(_check_region)]
"""An AWS region of any partition."""


def _check_account(text: str) -> str:
    if not re.fullmatch(r"[0-9]{12}", text):
        digits = f", this has {len(text)}" if re.fullmatch(r"[0-9]+", text) else ""
        raise WrongValue(f'"{text}" is not an account id: those have 12 digits{digits}', hint="leading zeros count")
    return text


AccountId = Annotated[Text, AfterValidator(_check_account)]
"""An AWS account id: the 12 digits as they were written, leading zeros included (case C06)."""


def _check_instance_type(text: str) -> str:
    if not _INSTANCE_TYPE.fullmatch(text):
        hint = f"did you mean ml.{text}?" if _INSTANCE_TYPE.fullmatch(f"ml.{text}") else "as in ml.g6.12xlarge"
        raise WrongValue(f'"{text}" is not a SageMaker instance type', hint=hint)
    return text


InstanceType = Annotated[Text, AfterValidator(_check_instance_type)]
"""A SageMaker instance type. That it exists is for AWS to say."""


def _check_tag_key(text: str) -> str:
    if text.lower().startswith(("aws:", "fairshare:")):
        raise WrongValue(f'"{text}" cannot be a tag of yours: AWS and fairshare keep this prefix for themselves')
    return text


Tags = dict[Annotated[Text, AfterValidator(_check_tag_key)], AnyText]
"""Tags of resources or jobs."""


def read_value(value: object) -> Any:
    """Return a value of any kind, typed by YAML 1.2's core schema. Infinity and NaN are refused: JSON has neither."""
    if isinstance(value, dict):
        return {key: read_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [read_value(item) for item in value]
    plain = value.value if isinstance(value, Scalar) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        raise WrongValue(f"{value} is not a number that JSON can carry", hint="put quotes around it to send text")
    return plain


TypedValue = Annotated[Any, BeforeValidator(read_value)]
"""Any value, see `read_value`."""


def read_hyperparameter(value: object) -> Any:
    """Return a hyperparameter's value, typed; but the text of a number that would print without its last zeros.

    ``3.10`` stays "3.10" (case C11): a training job gets every hyperparameter as text, so nothing is lost by it.
    Inside lists and mappings numbers stay numbers.
    """
    if isinstance(value, Scalar) and not value.quoted and _LOSES_ZEROS.fullmatch(value.text):
        return value.text
    return read_value(value)


Hyperparameter = Annotated[Any, BeforeValidator(read_hyperparameter)]
"""A hyperparameter's value, see `read_hyperparameter`."""
