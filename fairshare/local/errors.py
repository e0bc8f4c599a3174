"""What API operations raise."""

from __future__ import annotations


class ClientException(Exception):
    """AWS Batch's answer to a request that is wrong: HTTP 400 and the text, under a lower-case ``message``.

    Batch has no finer error for it (https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html). Texts
    measured on AWS are kept to the letter; where none is known ours read ``<field>: <what is wrong> (<rule>)``.
    """


class ValidationException(Exception):
    """SageMaker's answer to a request that is wrong: HTTP 400."""
