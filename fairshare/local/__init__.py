"""AWS on this machine: moto's services, plus AWS Batch service environments, fair-share queues and service jobs.

Two ways in, one behaviour: `server.LocalServer` serves on a loopback port, `inprocess.local_aws` patches boto3 (tests,
notebooks). From the API down to the job:

* `moto_extension`, `moto_responses`: the thin layer that moto calls; they alone know moto
* `environments`, `policies`, `job_queues`, `service_jobs`, `listing`, `tagging`: one function for each API operation
* `validation`, `paging`, `errors`: AWS's rules and texts
* `region`, `runtime`: the state of one account and region, and of the whole local AWS with its one lock
* `execution`, `training_jobs`: attempts of service jobs as SageMaker training jobs
* `launcher` (port), `simulated`: how an attempt runs; the process launcher has modules of its own
* `call_log`: what was called, by either way in
* `signature`, `guard`, `http_server`, `driver`: who may call, the port, and the thread that lets time pass

Nothing is imported here: moto and boto3 are heavy.
"""
