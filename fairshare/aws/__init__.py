"""Every boto3 call of the product that goes to AWS Batch, STS, CloudWatch Logs and S3. An edge: adapters of ports.

`session` makes clients (one region, one account), `errors` turns what botocore raises into
`fairshare.model.FairshareError`, `paging` walks through long answers. On top of them: `provisioner` and `resources`
(service environments, policies, queues), `jobs` (service jobs), `logs` and `objects`. Importing any of these is cheap:
boto3 and botocore are loaded when the first client is made.
"""
