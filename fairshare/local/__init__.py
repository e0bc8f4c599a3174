"""AWS on this machine: moto's services, plus AWS Batch service environments, fair-share queues and service jobs.

Two ways in, one behaviour: `server.LocalServer` serves on a loopback port and remembers, `inprocess.local_aws` patches
boto3 (tests, notebooks). `testkit.LocalAWS` is the public face of both. From the API down to the job:

* `moto_extension`, `moto_responses`, `moto_outlets`, `moto_hooks`, `moto_metrics`: the thin layer that moto calls, and
  what it is told
* `environments`, `policies`, `job_queues`, `service_jobs`, `listing`, `tagging`: one function for each API operation
* `validation`, `paging`, `errors`: AWS's rules and texts
* `region`, `runtime`: the state of one account and region, and of the whole local AWS with its one lock
* `execution`, `training_jobs`: attempts of service jobs as SageMaker training jobs
* `launcher` (port), `simulated`: how an attempt runs; `processes`: the process launcher, a package
* `call_log`: what was called, by either way in
* `signature`, `guard`, `http_server`, `front`, `driver`: who may call, the port, and the thread that lets time pass
* `history`, `write_log`, `wsgi_call`, `repeatable`, `held_launcher`: what a server remembers, and how it is repeated
* `faults`, `faulty`: what goes wrong on purpose, and where

Nothing is imported here: moto and boto3 are heavy.
"""
