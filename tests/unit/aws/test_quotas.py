"""Quotas of training jobs, through botocore's own stub: moto has none."""

from __future__ import annotations

import pytest

from fairshare.aws.quotas import TrainingQuotas
from fairshare.model import FairshareError


def test_quotas_of_training_jobs_are_read_from_every_page(stubbed, session_of):
    client, stubber = stubbed("service-quotas")
    first = [
        {"QuotaName": "ml.p5.48xlarge for training job usage", "Value": 0.0},
        {"QuotaName": "ml.p5.48xlarge for spot training job usage", "Value": 9.0},
        {"QuotaName": "ml.p5.48xlarge for endpoint usage", "Value": 8.0},
    ]
    second = [{"QuotaName": "ml.g6.12xlarge for training job usage", "Value": 4.0}]
    wanted = {"ServiceCode": "sagemaker", "MaxResults": 100}
    stubber.add_response("list_service_quotas", {"Quotas": first, "NextToken": "1"}, wanted)
    stubber.add_response("list_service_quotas", {"Quotas": second}, {**wanted, "NextToken": "1"})

    quotas = TrainingQuotas(session_of(**{"service-quotas": client})).read()

    assert quotas == {"ml.p5.48xlarge": 0, "ml.g6.12xlarge": 4}
    stubber.assert_no_pending_responses()


def test_quotas_that_may_not_be_read_are_an_error_of_ours(stubbed, session_of):
    client, stubber = stubbed("service-quotas")
    stubber.add_client_error("list_service_quotas", "AccessDeniedException", "no", 400)

    with pytest.raises(FairshareError, match="read the account's quotas"):
        TrainingQuotas(session_of(**{"service-quotas": client})).read()
