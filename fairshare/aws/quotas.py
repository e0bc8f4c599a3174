"""What an account may run at once of each instance type: Service Quotas, as far as they can be read.

The quota of training jobs is called ``ml.p5.48xlarge for training job usage``
(https://docs.aws.amazon.com/general/latest/gr/sagemaker.html). Spot training and training plans have others.
"""

from __future__ import annotations

from typing import Final

from fairshare.aws.errors import translated
from fairshare.aws.paging import pages
from fairshare.aws.session import AwsSession

_SERVICE: Final = "sagemaker"
_NAME_ENDS: Final = " for training job usage"
_MOST: Final = 100
"""Quotas on a page, at most (https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/)."""


class TrainingQuotas:
    """The quotas of SageMaker training jobs.

    Args:
        session: of the account and the region.
    """

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def read(self) -> dict[str, int]:
        """Return the instances of each type that training jobs of the account may use at once.

        Raises:
            FairshareError: they cannot be asked for.
        """
        with translated("read the account's quotas", self._session.caller):
            ask = self._session.client("service-quotas", retries=1).list_service_quotas
            return {
                quota["QuotaName"].removesuffix(_NAME_ENDS): int(quota["Value"])
                for page in pages(ask, token_name="NextToken", ServiceCode=_SERVICE, MaxResults=_MOST)
                for quota in page["Quotas"]
                if quota["QuotaName"].endswith(_NAME_ENDS)
            }
