from __future__ import annotations

import subprocess
import sys


def test_importing_the_adapters_does_not_load_boto3() -> None:
    """The command line imports them to build a context; ``--help`` must not pay for an AWS client."""
    code = (
        "import sys\n"
        "import fairshare.aws.jobs, fairshare.aws.logs, fairshare.aws.objects, fairshare.aws.provisioner\n"
        "import fairshare.aws.metrics, fairshare.aws.phases\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'boto3', 'botocore', 'moto', 'sagemaker'}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
