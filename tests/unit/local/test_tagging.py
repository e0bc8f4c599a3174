"""Tags."""

from __future__ import annotations

import pytest

from fairshare.local import environments, tagging
from fairshare.local.errors import ClientException

ARN = "arn:aws:batch:us-west-2:123456789012:"


def test_every_kind_of_resource_can_be_tagged(cloud):
    cloud.fair_queue()
    job = cloud.submit("a", "A", tags={"lr": "0.1"})
    for resource in ("service-environment/gpu", "scheduling-policy/shares", "job-queue/gpu", f"service-job/{job}"):
        arn = ARN + resource
        cloud.call(tagging.tag_resource, resourceArn=arn, tags={"team": "search", "empty": ""})
        cloud.call(tagging.tag_resource, resourceArn=arn, tags={"team": "ads"})
        cloud.call(tagging.untag_resource, resourceArn=arn, tagKeys=["empty", "never-there"])
        tags = cloud.call(tagging.list_tags_for_resource, resourceArn=arn)["tags"]
        assert tags == {"team": "ads"} | ({"lr": "0.1"} if "service-job" in arn else {})
    described = cloud.call(environments.describe_service_environments)["serviceEnvironments"]
    assert described[0]["tags"] == {"team": "ads"}


def test_what_does_not_exist_cannot_be_tagged(cloud):
    for operation, request in (
        (tagging.tag_resource, {"tags": {"a": "b"}}),
        (tagging.untag_resource, {"tagKeys": ["a"]}),
        (tagging.list_tags_for_resource, {}),
    ):
        with pytest.raises(ClientException) as refused:
            cloud.call(operation, resourceArn=ARN + "job-queue/nope", **request)
        kinds = "an environment, policy, queue, quota share or service job"
        text = f"resourceArn: {ARN}job-queue/nope does not exist ({kinds})"
        assert str(refused.value) == text


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        ({"": "x"}, "tags: key '' has 0 characters (1 - 128)"),
        ({"k" * 129: "x"}, f"tags: key {'k' * 129!r} has 129 characters (1 - 128)"),
        ({"k": "v" * 257}, "tags: the value of k has 257 characters (at most 256)"),
        ({"AWS:k": "v"}, "tags: key AWS:k is reserved (keys must not start with aws:)"),
        ({f"k{n}": "" for n in range(50)}, "tags: 51 are too many (at most 50)"),
    ],
)
def test_c13_tags_are_checked_together_with_those_that_are_there(cloud, tags, text):
    cloud.environment()
    arn = ARN + "service-environment/gpu"
    cloud.call(tagging.tag_resource, resourceArn=arn, tags={"owner": "Åsa Öberg", "k" * 128: "v" * 256})
    cloud.call(tagging.untag_resource, resourceArn=arn, tagKeys=["k" * 128])
    with pytest.raises(ClientException) as refused:
        cloud.call(tagging.tag_resource, resourceArn=arn, tags=tags)
    assert str(refused.value) == text
    assert cloud.call(tagging.list_tags_for_resource, resourceArn=arn)["tags"] == {"owner": "Åsa Öberg"}
