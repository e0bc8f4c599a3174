"""Every boto3 call of the product that goes to AWS. An edge: adapters of ports.

`session` makes clients (one region, one account), `errors` turns what botocore raises into
`fairshare.model.FairshareError`, `paging` walks through long answers. On top of them: `provisioner`, `resources` and
`answers` (service environments, policies, queues), `jobs` (service jobs), `training` (SageMaker's view of them),
`phases`, `logs`, `metrics`, `alarms`, `objects` and `artifacts` (models on their way home), `queues` (for the
collector), `pricing`, `quotas`, and `notify` (SNS). `alarm_provisioner` and `dashboards` are to CloudWatch what
`provisioner` is to Batch (`agreement` waits for both); `stack` joins the three.

Importing any of these is cheap: boto3 and botocore are loaded when the first client is made.
"""
