"""AWS on this machine: moto's services, plus AWS Batch service environments, fair-share queues and service jobs.

Two ways in, one behaviour: `server.LocalServer` serves on a loopback port and remembers, `inprocess.local_aws` patches
boto3 (tests, notebooks). `testkit.LocalAWS` is the public face of both. From the API down to the job:

* `moto_extension`, `moto_responses`, `moto_outlets`, `moto_hooks`: the thin layer that moto calls, and what it is told
* `moto_metrics`, `moto_cloudwatch`, `moto_alarms`: moto's CloudWatch made quick, with alarms that live; `metric_store`
  and `alarms` are the same without moto
* `environments`, `policies`, `job_queues`, `quota_shares`, `service_jobs`, `listing`, `tagging`: one function for each
  API operation
* `validation`, `request_shape`, `paging`, `errors`: AWS's rules and texts; `settling`: changes that take a while
* `region`, `runtime`: the state of one account and region, and of the whole local AWS with its one lock
* `execution`, `training_jobs`, `stop_training_job`: attempts of service jobs as SageMaker training jobs
* `job_events`, `batch_metrics`: what jobs tell EventBridge and CloudWatch; `events` is the bus, `event_reader` reads it
* `launcher` (port), `simulated`: how an attempt runs; `processes`: the process launcher, a package
* `call_log`: what was called, by either way in
* `signature`, `guard`, `http_server`, `front`, `driver`: who may call, the port, and the thread that lets time pass
* `daemon`: a server as a process of its own; `endpoint`: clients that reach nothing else
* `history`, `write_log`, `wsgi_call`, `repeatable`, `held_launcher`: what a server remembers, and how it is repeated
* `faults`, `faulty`: what goes wrong on purpose, and where

Nothing is imported here: moto and boto3 are heavy.
"""
