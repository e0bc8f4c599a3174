"""How moto calls us: HTTP requests of Batch, SageMaker, IAM and Service Quotas become calls of functions here.

Imports moto at the top: loaded by `fairshare.local.moto_extension` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moto.batch.models import batch_backends
from moto.batch.urls import url_paths as moto_batch_paths
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse, EmptyResult
from moto.core.utils import get_service_model
from moto.iam.exceptions import NotFoundException
from moto.iam.responses import IamResponse
from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.responses import SageMakerResponse
from moto.servicequotas.responses import ServiceQuotasResponse

from fairshare.local import environments, job_queues, listing, policies, quota_shares, service_jobs, tagging
from fairshare.local.errors import ClientException, ValidationException
from fairshare.local.region import Region
from fairshare.local.request_shape import read_json, read_members
from fairshare.local.stop_training_job import stop_training_job

Operation = Callable[[Region, Mapping[str, Any]], Mapping[str, Any] | None]

OPERATIONS: Final[dict[str, Operation]] = {
    operation.__name__: operation
    for operation in (
        environments.create_service_environment,
        environments.describe_service_environments,
        environments.update_service_environment,
        environments.delete_service_environment,
        policies.create_scheduling_policy,
        policies.describe_scheduling_policies,
        policies.list_scheduling_policies,
        policies.update_scheduling_policy,
        policies.delete_scheduling_policy,
        job_queues.create_job_queue,
        job_queues.describe_job_queues,
        job_queues.update_job_queue,
        job_queues.delete_job_queue,
        quota_shares.create_quota_share,
        quota_shares.describe_quota_share,
        quota_shares.list_quota_shares,
        quota_shares.update_quota_share,
        quota_shares.delete_quota_share,
        service_jobs.submit_service_job,
        service_jobs.describe_service_job,
        service_jobs.update_service_job,
        service_jobs.terminate_service_job,
        service_jobs.terminate_service_jobs,
        listing.list_service_jobs,
        listing.get_job_queue_snapshot,
        tagging.tag_resource,
        tagging.untag_resource,
        tagging.list_tags_for_resource,
    )
}
"""Every operation answered here. A function is named as the operation in snake_case: so moto finds it."""


class _ClientException(ServiceException):  # type: ignore[misc]
    """The same as moto knows it: it becomes HTTP 400 and a body with ``message`` by botocore's model of Batch."""

    code = "ClientException"


class BatchServiceResponse(BaseResponse):  # type: ignore[misc]
    """The operations of AWS Batch that the local AWS answers itself; moto's own class answers the rest."""

    use_raw_body = True  # a body that is no UTF-8 is refused in `_read`, not a failure of moto

    def __init__(self) -> None:
        super().__init__(service_name="batch")
        self.automated_parameter_parsing = True
        self._action: str | None = None

    def parse_parameters(self, request: Any) -> None:
        """Leave the request as it is: moto's parser fails on types that do not fit; `_read` refuses them."""
        self.params: dict[str, Any] = {}

    def _get_action(self) -> str:
        """Return the operation by path and method alone; moto also looks for one in queries and bodies.

        moto asks several times, and looking it up is the larger part of a small request.
        """
        if self._action is None:
            self._action = str(self._get_action_from_method_and_request_uri(self.normalized_request))
        return self._action

    def run(self, operation: Operation) -> ActionResult:
        """Run one operation under the lock, on a region that is up to date before and after."""
        backend = batch_backends[self.current_account][self.region]
        try:
            request = self._read()
            with backend.operation() as region:
                return ActionResult(operation(region, request) or {})
        except ClientException as error:
            raise _ClientException(str(error)) from None

    def _read(self) -> dict[str, Any]:
        """Return the members of the request: of its path, its query and its body.

        Raises:
            ClientException: something is missing or has the wrong type.
        """
        shape = get_service_model("batch").operation_model(self._get_action()).input_shape
        values = read_json(self.raw_body or b"{}", "request", "the body is a JSON object")
        for name, member in shape.members.items():
            match member.serialization.get("location"):
                case "uri":
                    values[name] = self.uri_match.get(member.serialization["name"])
                case "querystring":
                    values[name] = self.normalized_request.args.getlist(member.serialization["name"])
        return read_members(shape, values)


def _method(operation: Operation) -> Callable[[BatchServiceResponse], ActionResult]:
    def answer(self: BatchServiceResponse) -> ActionResult:
        return self.run(operation)

    return answer


for _name, _operation in OPERATIONS.items():
    setattr(BatchServiceResponse, _name, _method(_operation))


class LocalSageMakerResponse(SageMakerResponse):  # type: ignore[misc]
    """moto's SageMaker and StopTrainingJob, which it lacks."""

    def stop_training_job(self) -> EmptyResult:
        """StopTrainingJob, of the training jobs behind service jobs."""
        backend = batch_backends[self.current_account][self.region]
        try:
            with backend.operation() as region:
                stop_training_job(region, {"TrainingJobName": self._get_param("TrainingJobName")})
        except ValidationException as error:
            raise AWSValidationException(str(error)) from None
        return EmptyResult()


class LocalIamResponse(IamResponse):  # type: ignore[misc]
    """moto's IAM and the one call of SageMaker's SDK that it lacks."""

    def simulate_principal_policy(self) -> ActionResult:
        """SimulatePrincipalPolicy: everything is allowed to a role that exists, as nothing is refused here anyway."""
        arn = self._get_param("PolicySourceArn")
        if ":role/" not in arn:
            raise NotFoundException(f"The role with ARN {arn} cannot be found.")
        self.backend.get_role_by_arn(arn)
        results = [
            {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": "allowed"}
            for action in self._get_param("ActionNames")
            for resource in self._get_param("ResourceArns") or ["*"]
        ]
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})


class LocalServiceQuotasResponse(ServiceQuotasResponse):  # type: ignore[misc]
    """moto's Service Quotas and the list that it lacks."""

    def list_service_quotas(self) -> ActionResult:
        """ListServiceQuotas: none, as this machine has no account's limits."""
        return ActionResult({"Quotas": []})


def batch_paths() -> dict[str, Any]:
    """Return Batch's URL patterns and who answers them.

    Ours come first and end in ``$``: moto takes the first match, and several of its own patterns are open-ended
    (``/v1/canceljob`` would swallow longer names). Tags are ours whatever the ARN holds: moto's allow one slash.
    """
    ours = {name.replace("_", "") for name in OPERATIONS}
    paths = {f"{{0}}/v1/{word}$": BatchServiceResponse.dispatch for word in ours}
    paths["{0}/v1/tags/(?P<arn>.+)$"] = BatchServiceResponse.dispatch
    return paths | {
        pattern: answer
        for pattern, answer in moto_batch_paths.items()
        if "/v1/tags/" not in pattern and pattern.rstrip("$").rsplit("/", 1)[-1] not in ours
    }
